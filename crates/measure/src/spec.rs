//! A run as plain values: the store, the data, the steps and the limits. A [`RunSpec`] is enough to
//! repeat the run. A campaign stores it, the process that does the run reads it, and the report
//! contains it.
//!
//! A run has a process of its own, so that memory, processor time and device bytes are those of one
//! store only. The process is this program for our engine, and the program of `peers/` for other
//! stores.

use crate::arrivals::{Arrivals, Pattern};
use crate::workload::Workload;
use crate::workload::data::{Data, Shape};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use vlsm::Options;
use vlsm_core::Bytes;

/// The specification of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The store.
    pub store: StoreSpec,
    /// Its data.
    pub data: DataSpec,
    /// The load of the data before the first step; without it the steps load the data.
    #[serde(default)]
    pub load: Option<LoadSpec>,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// The number of client threads.
    pub threads: usize,
    /// The limits of the process.
    #[serde(default)]
    pub limits: Limits,
    /// The seed of keys, values and choices.
    pub seed: u64,
    /// Folder to make the store's own folder in; by default the system's for temporary files.
    #[serde(default)]
    pub dir: Option<PathBuf>,
}

impl RunSpec {
    /// The folder that the store's own folder is made in.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Bytes that the run may need on the device: twice the bytes that are loaded or written,
    /// because a compaction has its inputs and its outputs at once.
    #[must_use]
    pub fn disk_needed(&self) -> u64 {
        // A record passes the device twice at least: in a flush, and in the WAL or in a merge.
        let pair = self.data.pair_bytes();
        let passes = self.limits.device.map_or(f64::INFINITY, |limit| limit as f64 / 2.0 / pair);
        let written: u64 = self.steps.iter().map(|step| step.writes_at_most(passes)).sum();
        let bytes = (written as f64 * pair) as u64;
        let bytes = bytes.saturating_add(self.loaded_bytes());
        bytes.saturating_mul(2).saturating_add(1 << 29)
    }

    /// Checks that the device of a folder has room for the run.
    ///
    /// # Errors
    /// There is too little room; the text says how much is free and how much may be needed.
    pub fn check_space(&self, folder: &Path) -> Result<(), String> {
        self.check_space_for(folder, self.disk_needed())
    }

    /// The approximate number of bytes that are loaded beforehand.
    #[must_use]
    pub fn loaded_bytes(&self) -> u64 {
        match self.load {
            Some(_) => (self.data.pairs as f64 * self.data.pair_bytes() * 1.1) as u64,
            None => 0,
        }
    }

    /// The approximate seconds that it takes to load the data beforehand.
    #[must_use]
    pub fn load_seconds(&self) -> f64 {
        self.loaded_bytes() as f64 / 30e6
    }

    /// Checks that the device of a folder has `needed` bytes free.
    ///
    /// # Errors
    /// As for [`RunSpec::check_space`].
    pub fn check_space_for(&self, folder: &Path, needed: u64) -> Result<(), String> {
        match free_bytes(folder) {
            Some(free) if free < needed => Err(format!(
                "{} has {} free, and this run may need {}: choose another folder or a smaller \
                 scale",
                folder.display(),
                Bytes(free),
                Bytes(needed),
            )),
            _ => Ok(()),
        }
    }

    /// The first key of each region except the first one. They divide the keys evenly.
    #[must_use]
    pub fn splits(&self) -> Vec<Vec<u8>> {
        let data = Data::shaped(self.data.shape, self.seed);
        let regions = self.store.regions.max(1) as u128;
        let split = |region: u128| {
            let mut key = Vec::new();
            data.key_at(((region << 64) / regions) as u64, self.data.pairs, &mut key);
            key
        };
        (1..regions).map(split).collect()
    }

    /// The folder that keeps the loaded data for other runs with equal data. The caller that does
    /// the runs removes it.
    #[must_use]
    pub fn prepared(&self) -> Option<PathBuf> {
        // For our engine only the options of the load matter.
        let config = if self.store.kind == "vlsm" { "" } else { &self.store.config };
        let what = (&self.store.kind, config, self.store.regions, &self.load, self.data);
        let text = serde_json::to_string(&what).expect("plain values have an encoding");
        let name = format!("vlsm-lab-data-{:08x}", crc32c::crc32c(text.as_bytes()));
        self.load.as_ref().map(|_| self.dir().join(name))
    }

    /// The approximate seconds that its steps take.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.steps.iter().map(Step::seconds).sum::<f64>() + 2.0
    }
}

impl Step {
    /// The largest number of records that it may write, if the device passes so many in a second.
    fn writes_at_most(&self, passes: f64) -> u64 {
        let Self::Phase(phase) = self else { return 0 };
        // Count half of the updates: they overwrite records and are mostly merged away.
        let workload = &phase.workload;
        let reads = workload.reads + workload.missing_reads + workload.scans;
        let others = 100.0 - reads - workload.inserts;
        let share = (workload.inserts + others / 2.0) / 100.0;
        let rate = match &phase.offered {
            // The writes of a trace are not known before it is read.
            Offered::As(Arrivals::Replay(_)) => return phase.ops.unwrap_or(0),
            Offered::As(arrivals) => arrivals.peak().unwrap_or(FASTEST).min(FASTEST),
            _ => FASTEST,
        };
        let by_time = phase.seconds.map_or(u64::MAX, |seconds| (seconds * rate) as u64);
        let asked = phase.ops.unwrap_or(u64::MAX).min(by_time) as f64 * share;
        asked.min(phase.seconds.map_or(f64::INFINITY, |seconds| seconds * passes)) as u64
    }

    /// The approximate seconds that it takes.
    fn seconds(&self) -> f64 {
        match self {
            Self::Settle(_) => 3.0,
            Self::Reopen(..) => 3.0,
            Self::Phase(phase) => {
                let by_ops = phase.ops.map_or(f64::INFINITY, |ops| ops as f64 / 90_000.0);
                let once = phase.seconds.unwrap_or(f64::INFINITY).min(by_ops);
                let once = if once.is_finite() { once } else { 60.0 };
                match phase.offered {
                    Offered::Sustainable(..) => once * 5.0,
                    _ => once + 1.0,
                }
            }
        }
    }
}

/// The most writes per second of a closed loop, to estimate how much is written.
const FASTEST: f64 = 400_000.0;

/// Bytes free on the device of a folder, if the system reports them.
#[must_use]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let device = rustix::fs::statvfs(folder).ok()?;
    Some(device.f_bavail.saturating_mul(device.f_frsize))
}

/// Bytes for buffers of compactions at every scale. RocksDB reads 2 MB ahead of each input; our
/// engine may use an eighth of its limit.
const JOB_BUFFERS: u64 = 16 << 20;

/// A store and its setup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreSpec {
    /// `vlsm`, `rocksdb`, `pebble`, `fjall`, …
    pub kind: String,
    /// The profile of our engine, or the name of another store's configuration; empty for the
    /// default one.
    #[serde(default)]
    pub config: String,
    /// The options of our engine. Other stores use those that they have, too: sizes, durability,
    /// compression, direct or buffered I/O, workers.
    pub options: Options,
    /// Bytes of the block cache. Our engine counts them towards its one limit; other stores have
    /// them besides their memtables.
    pub cache: u64,
    /// The number of regions that split the keys evenly. A store without regions is opened once for
    /// each of them.
    pub regions: usize,
}

impl StoreSpec {
    /// Gives our engine the memory that other stores have in effect. Its one limit covers
    /// memtables, cache, `JOB_BUFFERS`, and the indexes and filters of `pairs` pairs. RocksDB keeps
    /// these outside of its cache (measured: 2.7 bytes per pair at 10 bits per key).
    #[must_use]
    pub fn with_memory_for(mut self, pairs: u64) -> Self {
        let tree = &self.options.policy.tree;
        let regions = self.regions.max(1) as u64;
        let memtables = tree.memtable_bytes.0 * tree.memtable_count as u64 * regions;
        let tables = (pairs as f64 * 2.7) as u64;
        let limit = Bytes(memtables + self.cache + tables + JOB_BUFFERS);
        let least = Bytes(self.options.least_memory().0 * regions);
        self.options.memory_limit = limit.max(least);
        self.options.cache_limit = Some(Bytes(self.cache));
        // The limit of the WAL must hold all memtables.
        self.options.wal_limit = self.options.wal_limit.max(self.options.wal_of_memtables());
        self
    }

    /// Kind and configuration of a store that is named `KIND` or `KIND:CONFIG`. The configuration
    /// of our store is a profile: `vlsm` alone is the default one, `vlsm/AXIS=MECHANISM` is the
    /// profile `vlsm` with another mechanism.
    #[must_use]
    pub fn parts(name: &str) -> (&str, &str) {
        match name.split_once(':').unwrap_or((name, "")) {
            ("vlsm", "") => ("vlsm", "steady"),
            (profile, "") if profile.starts_with("vlsm/") => ("vlsm", profile),
            parts => parts,
        }
    }

    /// Its name on the command line and in reports, such as `vlsm:silk` or `rocksdb`.
    #[must_use]
    pub fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for StoreSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.config.as_str() {
            "" => f.write_str(&self.kind),
            config => write!(f, "{}:{config}", self.kind),
        }
    }
}

/// The number and the shape of the loaded pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DataSpec {
    /// The number of pairs.
    pub pairs: u64,
    /// The shape of their keys and values.
    pub shape: Shape,
}

impl DataSpec {
    /// The mean size of a pair in bytes.
    #[must_use]
    pub fn pair_bytes(&self) -> f64 {
        self.shape.pair_bytes()
    }
}

/// Data that is loaded before the measured store is opened. It is kept for other runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// The options of the load: those of the run, or others that load faster. When the store is
    /// opened with the run's options, its own compactions bring the tree into shape.
    pub options: Options,
    /// The seconds that background work may take to end.
    pub settle: f64,
}

/// The limits of the process of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes per second for reads from the device, and the same for writes: the kernel has no limit
    /// for both together.
    #[serde(default)]
    pub device: Option<u64>,
    /// Bytes of memory, page cache included.
    #[serde(default)]
    pub memory: Option<u64>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a run has few of them, most of them phases")]
pub enum Step {
    /// Client operations.
    Phase(PhaseSpec),
    /// Wait for background work to end, for at most this many seconds.
    Settle(f64),
    /// Open the store again with this change, and wait for background work to end, for at most this
    /// many seconds.
    Reopen(Change, f64),
}

/// The changes when a store is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// The number of runs in L0 that starts a compaction. With one, no run stays in L0 by chance.
    #[serde(default)]
    pub l0_trigger: Option<usize>,
    /// The size of a memtable. A memtable that never fills causes no background work.
    #[serde(default)]
    pub memtable: Option<Bytes>,
}

impl Change {
    /// A change of the size of memtables.
    #[must_use]
    pub fn memtable(bytes: Bytes) -> Self {
        Self { memtable: Some(bytes), ..Self::default() }
    }

    /// The setup with the change.
    #[must_use]
    pub fn apply(&self, mut store: StoreSpec, pairs: u64) -> StoreSpec {
        store.options.error_if_exists = false;
        let tree = &mut store.options.policy.tree;
        tree.l0_trigger = self.l0_trigger.unwrap_or(tree.l0_trigger);
        match self.memtable {
            Some(bytes) => {
                tree.memtable_bytes = bytes;
                store.with_memory_for(pairs)
            }
            None => store,
        }
    }
}

/// Client operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSpec {
    /// The name in reports.
    pub name: String,
    /// The operations.
    pub workload: Workload,
    /// The way in which requests are offered.
    pub offered: Offered,
    /// The largest number of operations.
    #[serde(default)]
    pub ops: Option<u64>,
    /// The longest time in seconds.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Length of the intervals that are reported one by one, in seconds.
    pub interval: f64,
}

/// The way in which requests are offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// These arrivals.
    As(Arrivals),
    /// Open loop at this share of the throughput of the latest closed-loop phase: the second of two
    /// phases (Luo & Carey).
    OfMaximum(f64),
    /// Open loop with rates that change. The highest one is this share of the throughput of the
    /// latest closed-loop phase.
    PatternOfMaximum(f64, Pattern),
    /// Open loop at the highest rate whose queue does not grow. Bisection searches for it between
    /// these two shares of the latest closed-loop phase's throughput. `seconds` are those of one
    /// trial.
    Sustainable(f64, f64),
}
