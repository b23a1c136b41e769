//! Reports: measured values with their method. They are plain values that can be written as JSON
//! ([`Report::to_json`]) and as a table for people ([`table`]).
//!
//! Amplification is counted twice: from the store's own counters and from what the operating system
//! counted for this process. *Write amplification* is bytes written ÷ bytes of pairs written by the
//! clients (WAL included); *I/O amplification* is bytes read and written ÷ the same. If the two
//! sources differ by more than [`AGREE`], one of them misses something, and the table says so.
//!
//! The system counts more bytes than those that move, within known bounds. A write to a clean piece
//! of the page cache counts as the whole piece, up to the length of the write that made it
//! ([`StoreStats::rounding`]). The program's own pages count when they are first used
//! ([`Device::program`]). The system counts less where the page cache serves a read, or where a
//! page is overwritten before it goes to the device ([`StoreStats::cached`]). Only differences
//! beyond these count as a disagreement.

pub mod chart;
pub mod debt;
pub mod html;
mod phase;
pub mod statistic;
pub mod table;
pub mod theme;

use crate::arrivals::Arrivals;
pub use crate::driver::Floor;
use crate::driver::{Outcome, Phase};
use crate::metrics::{Group, Kind, Percentiles, Series, Stalls};
use crate::process::{Device, Machine};
use crate::spec::RunSpec;
use crate::store::StoreStats;
pub use crate::store::{Admitted, ChainMark, JobMark};
use serde::{Deserialize, Serialize};
use vlsm_policy::Counters;

/// The largest accepted difference of the store's counters and the system's: 2 %.
pub const AGREE: f64 = 0.02;

/// The method of a report: how its figures were measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Method {
    /// Version of the program.
    pub version: String,
    /// The store under measurement.
    pub store: String,
    /// Its profile.
    pub profile: String,
    /// Its other options by name: durability, compression, cache, direct I/O, sizes.
    pub options: Vec<(String, String)>,
    /// The machine.
    pub machine: Machine,
    /// The number of records loaded.
    pub pairs: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// The share of a value's bytes that repeat earlier ones, in percent.
    #[serde(default)]
    pub compressible: u8,
    /// The number of client threads.
    pub threads: usize,
    /// The way in which the data was loaded, in words.
    pub load: String,
    /// The seed of the choice of operations and values.
    pub seed: u64,
    /// The cost of the driver alone.
    pub floor: Floor,
    /// The commit that the program was built from, if it is known.
    #[serde(default)]
    pub commit: String,
    /// The command that repeats it.
    #[serde(default)]
    pub command: String,
    /// The applied limits of device and memory, or why they were not applied.
    #[serde(default)]
    pub limits: String,
    /// Whether all requested limits are in force.
    #[serde(default)]
    pub limits_in_force: bool,
    /// The device whose bytes the kernel counts, or why there is none.
    #[serde(default)]
    pub block: String,
    /// The specification of the run, if it has one.
    #[serde(default)]
    pub spec: Option<RunSpec>,
}

/// The name of the option that says how our driver compares with a store's native loop.
pub const DRIVER: &str = "driver";

impl Method {
    /// The driver's rate compared with a native loop over this store, in words; `None` for our own
    /// store.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        let option = self.options.iter().find(|(name, _)| name == DRIVER);
        option.map(|(_, text)| text.as_str())
    }
}

/// Bytes moved for each byte that clients wrote.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Amplification {
    /// Bytes of the pairs that clients wrote.
    pub user_bytes: u64,
    /// Bytes read from files, by the store's counters.
    pub store_read: u64,
    /// Bytes written to files, by the store's counters.
    pub store_written: u64,
    /// Bytes to and from devices, by the operating system.
    pub device: Option<Device>,
    /// The most bytes that the system may count beyond the store, by its way of counting.
    #[serde(default)]
    pub rounding: u64,
    /// The most bytes that the store may count beyond the system: reads that the page cache served,
    /// and writes that were overwritten before they went to the device.
    #[serde(default)]
    pub cached: u64,
}

impl Amplification {
    /// Combines the bytes that clients wrote, the store's counters and the system's.
    #[must_use]
    pub fn new(user_bytes: u64, store: &StoreStats, device: Option<Device>) -> Self {
        let (store_read, store_written) = (store.read(), store.written());
        let rounding = store.rounding + device.map_or(0, |device| device.program);
        Self { user_bytes, store_read, store_written, device, rounding, cached: store.cached }
    }

    fn per_user_byte(&self, bytes: u64) -> Option<f64> {
        (self.user_bytes > 0).then(|| bytes as f64 / self.user_bytes as f64)
    }

    /// Write amplification by the store's counters.
    #[must_use]
    pub fn write(&self) -> Option<f64> {
        self.per_user_byte(self.store_written)
    }

    /// Write amplification by the system's.
    #[must_use]
    pub fn device_write(&self) -> Option<f64> {
        self.per_user_byte(self.device?.written)
    }

    /// I/O amplification by the store's counters.
    #[must_use]
    pub fn io(&self) -> Option<f64> {
        self.per_user_byte(self.store_read + self.store_written)
    }

    /// I/O amplification by the system's.
    #[must_use]
    pub fn device_io(&self) -> Option<f64> {
        self.device.and_then(|device| self.per_user_byte(device.read + device.written))
    }

    /// Whether store and system agree, differ in a way that the system's counting explains, or
    /// disagree, in words; and the share by which the store counts more (or less, if negative).
    #[must_use]
    pub fn verdict(&self) -> Option<String> {
        let device = self.device?;
        let (store, system) = (self.store_read + self.store_written, device.read + device.written);
        // A store that counts nothing does not disagree.
        if store == 0 || system == 0 {
            return None;
        }
        let difference = store as f64 / system as f64 - 1.0;
        // The system may count more by its rounding, and less by the bytes that its page cache kept
        // from the device.
        let nearest = system.clamp(store.saturating_sub(self.cached), store + self.rounding);
        let missed = system.abs_diff(nearest) as f64 / system as f64;
        let (verdict, why) = match difference {
            _ if missed > AGREE => ("DISAGREE", ""),
            more if more > AGREE => {
                ("differ as expected", ": the page cache absorbed some of the traffic")
            }
            less if less < -AGREE => {
                ("differ as expected", ": the system counts whole pieces of its page cache")
            }
            _ => ("agree", ""),
        };
        Some(format!("{verdict} ({:+.1} %{why})", difference * 100.0))
    }
}

/// The report of one phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Its workload's name.
    pub name: String,
    /// Closed or open loop.
    pub arrivals: Arrivals,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Its length.
    pub seconds: f64,
    /// Operations completed.
    pub ops: u64,
    /// Operations per second.
    pub throughput: f64,
    /// The throughput that 99 % of the intervals reach.
    pub tail_throughput: Option<f64>,
    /// Latencies of 4 KB probe reads from the store's device during the phase, outside the run's
    /// limits; `None` if there were none.
    #[serde(default)]
    pub device_beside: Option<Percentiles>,
    /// Latencies of all operations together.
    #[serde(default)]
    pub all: Option<Percentiles>,
    /// Latencies of point reads.
    pub reads: Option<Percentiles>,
    /// Latencies of writes.
    pub writes: Option<Percentiles>,
    /// Latencies of scans.
    pub scans: Option<Percentiles>,
    /// Latencies of each kind of operation that occurred, by its name.
    #[serde(default)]
    pub kinds: Vec<(String, Percentiles)>,
    /// Reads that found nothing.
    pub misses: u64,
    /// Requests that were due and not served before the end.
    pub unserved: u64,
    /// Seconds at zero throughput.
    pub stalls: Stalls,
    /// Processor time of the whole process per operation, the driver's included.
    pub cpu_us_per_op: f64,
    /// Bytes moved.
    pub amplification: Amplification,
    /// The store's counters for the phase.
    pub store: StoreStats,
    /// The phase interval by interval.
    pub series: Series,
    /// The cost of the driver alone at the arrivals of this phase.
    #[serde(default)]
    pub floor: Floor,
    /// Bytes moved until the background work that the phase left was done, those of the phases
    /// directly before it included ([`Paid`]); `None` if the run did not wait for it.
    #[serde(default)]
    pub settled: Option<Amplification>,
    /// Time and processor time with the background work that the phase left; `None` if the run did
    /// not wait for it.
    #[serde(default)]
    pub paid: Option<Paid>,
    /// Bytes that the device moved during the phase, by the kernel's counters; other processes'
    /// bytes are in it.
    #[serde(default)]
    pub block: Option<Device>,
    /// Samples of the store and the process during the phase.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// Background jobs that ran in the phase.
    #[serde(default)]
    pub jobs: Vec<JobMark>,
    /// Compaction chains that stood behind L0 at flushes in the phase, or were waited for.
    #[serde(default)]
    pub chains: Vec<ChainMark>,
}

/// A phase together with the background work that it left: the memtables' flush and the
/// compactions until no level has any to do. Phases that follow each other without waiting for that
/// work count together, and the last one reports it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Paid {
    /// Completed operations.
    pub ops: u64,
    /// Seconds from the begin of the first phase.
    pub seconds: f64,
    /// Processor time of the whole process in nanoseconds.
    pub cpu_nanos: u64,
}

/// A sample of the store and the process during a phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the phase began.
    pub at: f64,
    /// Bytes of each level, L0 first.
    pub levels: Vec<u64>,
    /// Runs (or files) in L0.
    pub l0_runs: u64,
    /// Resident memory of the process in bytes.
    pub memory: u64,
    /// Processor time of the process since the phase began, in nanoseconds.
    pub cpu_nanos: u64,
    /// Bytes to and from devices since the phase began.
    pub device: Option<Device>,
    /// Bytes that the device moved since the phase began, by the kernel's counters.
    #[serde(default)]
    pub block: Option<Device>,
    /// The store's counters since it was opened, if it reports them.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// The state of the store's admission, if it reports it.
    #[serde(default)]
    pub admitted: Option<Admitted>,
    /// The store's own estimate of the bytes that compaction still has to move, if it has one.
    #[serde(default)]
    pub pending: Option<u64>,
}

impl PhaseReport {
    /// The share of the bytes read outside of compactions that opened SSTs, be it for a get, a scan
    /// or a job. `None` if there were no gets and scans, or nothing was read.
    #[must_use]
    pub fn opening(&self) -> Option<f64> {
        let clients = self.reads.is_some() || self.scans.is_some();
        let share = self.store.open_bytes as f64 / self.store.read_bytes as f64;
        (clients && self.store.read_bytes > 0).then_some(share)
    }

    /// The report of an outcome, with the store's counters at its begin and end.
    #[must_use]
    pub fn new(
        phase: &Phase,
        outcome: &Outcome,
        stopped: bool,
        (before, after): (&StoreStats, &StoreStats),
    ) -> Self {
        let ops = outcome.latencies.count();
        let group = |group| outcome.latencies.group(group).and_then(|all| Percentiles::of(&all));
        let kind = |kind: Kind| {
            let percentiles = outcome.latencies.of(kind).and_then(Percentiles::of)?;
            Some((kind.name().to_owned(), percentiles))
        };
        let store = after.since(before);
        Self {
            name: phase.workload.name.clone(),
            arrivals: phase.arrivals.clone(),
            stopped,
            seconds: outcome.seconds,
            ops,
            throughput: if outcome.seconds > 0.0 { ops as f64 / outcome.seconds } else { 0.0 },
            tail_throughput: outcome.series.tail_throughput(),
            all: outcome.latencies.all().and_then(|all| Percentiles::of(&all)),
            reads: group(Group::Read),
            writes: group(Group::Write),
            scans: group(Group::Scan),
            kinds: Kind::all().filter_map(kind).collect(),
            misses: outcome.misses,
            unserved: outcome.unserved,
            stalls: outcome.series.stalls(),
            cpu_us_per_op: outcome.usage.cpu_nanos as f64 / 1e3 / ops.max(1) as f64,
            amplification: Amplification::new(outcome.user_bytes, &store, outcome.usage.device),
            store,
            series: outcome.series.clone(),
            ..Self::default()
        }
    }

    /// Bytes moved by the phase, with the background work that it left if the run waited for it.
    #[must_use]
    pub fn moved(&self) -> &Amplification {
        self.settled.as_ref().unwrap_or(&self.amplification)
    }

    /// The chains that stood behind L0 at flushes.
    pub fn standing(&self) -> impl Iterator<Item = &ChainMark> + Clone {
        self.chains.iter().filter(|chain| chain.waited.is_none())
    }

    /// The number of compaction chains: one for each flush with a chain behind L0 (vLSM (2024),
    /// §2.3). For a store that reports no chains it is the number of flushes, because with full
    /// levels each flush has a chain behind L0.
    #[must_use]
    pub fn chain_count(&self) -> u64 {
        match self.standing().filter(|chain| !chain.stages.is_empty()).count() {
            0 if self.chains.is_empty() => {
                self.jobs.iter().filter(|job| job.kind == "flush").count() as u64
            }
            count => count as u64,
        }
    }

    /// See [`Report::fullness`]. A level is full with `enough` bytes, even if its target is larger.
    fn fullness(&self, enough: impl Fn(usize) -> Option<u64>) -> Vec<(u8, Option<f64>, f64)> {
        let end = self.samples.last().map_or(0.0, |sample| sample.at);
        let levels = &self.store.levels;
        let last = levels.iter().rposition(|level| level.bytes > 0).unwrap_or(0);
        let first = self.samples.first();
        let last_at_first = first.and_then(|sample| sample.levels.iter().rposition(|b| *b > 0));
        let full = |level: usize| {
            let target = levels[level].target.filter(|target| *target > 0)?;
            let target = enough(level).map_or(target, |enough| target.min(enough)) as f64;
            let sst = levels[level].bytes as f64 / levels[level].tables.max(1) as f64;
            let share = |from, to| {
                let within = self.samples.iter().filter(|sample| (from..=to).contains(&sample.at));
                let bytes = within.map(|sample| sample.levels.get(level).copied().unwrap_or(0));
                bytes
                    .max()
                    .filter(|most| *most > 0)
                    .map_or(0.0, |most| (most as f64 + sst) / target)
            };
            let (start, end) = (share(0.0, end * 0.2), share(end * 0.8, end));
            Some((level as u8, (Some(level) < last_at_first).then_some(start), end))
        };
        (1..last).filter_map(full).collect()
    }

    /// Latencies of a group of kinds.
    #[must_use]
    pub fn percentiles(&self, group: Group) -> Option<&Percentiles> {
        match group {
            Group::Read => self.reads.as_ref(),
            Group::Write => self.writes.as_ref(),
            Group::Scan => self.scans.as_ref(),
            Group::Transaction => {
                let name = Kind::Transaction.name();
                self.kinds.iter().find(|(kind, _)| kind == name).map(|(_, all)| all)
            }
        }
    }
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The method of the measurement.
    pub method: Method,
    /// Its phases in order.
    pub phases: Vec<PhaseReport>,
    /// Seconds that background work took after the last phase; `None` if the run did not wait for
    /// its end.
    pub settled: Option<f64>,
    /// The highest rate of an open loop whose queue did not grow, if the run searched for it.
    #[serde(default)]
    pub sustainable: Option<f64>,
    /// Bytes moved from the opening to the end of background work.
    pub amplification: Amplification,
    /// The store's counters at the end.
    pub store: StoreStats,
    /// Records in the store at the end.
    pub records: u64,
    /// The most memory the process had resident.
    pub peak_memory: Option<u64>,
    /// The place of the data, or a note that it was removed.
    pub data: String,
}

impl Method {
    /// The size of the data, and its repetitions if it has any, in words.
    #[must_use]
    pub fn data_size(&self) -> String {
        let bytes = vlsm_core::ByteCount(self.pairs * (self.key_size + self.value_size) as u64);
        match self.compressible {
            0 => bytes.to_string(),
            share => format!("{bytes}, {share} % of the values' bytes repeat"),
        }
    }
}

impl Report {
    /// The fullness of each level in a phase that has a target and is not the last one: its number,
    /// and the shares of its target in the first and in the last fifth of the phase. The fullest
    /// moment counts, because the size of a level varies. An SST is added, because a level may be
    /// short of its target by what does not fit as a whole, which is a quarter of an L1 of four
    /// SSTs. A level that was the last one when the phase began need not have been full then, so it
    /// has no first share.
    ///
    /// Where targets follow the memtables (ADOC), the targets of a level with the first memtables
    /// are enough: other stores have these all the time, and a level never fills a target that
    /// grows ahead of it.
    #[must_use]
    pub fn fullness(&self, phase: &PhaseReport) -> Vec<(u8, Option<f64>, f64)> {
        let policy = self.method.spec.as_ref().map(|spec| &spec.store.options.policy);
        let follows = policy.filter(|policy| policy.shapes.tiered_l0.follow_memtables);
        let levels = follows.map(|policy| (policy.tree.l1_bytes.0, policy.tree.growth));
        phase.fullness(|level| {
            let (l1, growth) = levels?;
            Some(l1.saturating_mul(growth.saturating_pow(level as u32 - 1)))
        })
    }

    /// Bytes of files ÷ bytes of live pairs.
    #[must_use]
    pub fn space_amplification(&self) -> Option<f64> {
        let pair = self.method.key_size + self.method.value_size;
        let live = self.records * pair as u64;
        (live > 0 && self.store.disk_bytes > 0).then(|| self.store.disk_bytes as f64 / live as f64)
    }

    /// The report as JSON, for programs.
    ///
    /// # Errors
    /// No error is known; the encoder's type has one.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}
