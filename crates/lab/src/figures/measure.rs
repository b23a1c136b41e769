//! A measure is what a figure takes from a run: a number of a phase, or that number over time.
//! A run that does not report the number gives nothing, never zero.

use serde::{Deserialize, Serialize};
use vlsm_core::Micros;
use vlsm_core::event::WaitCause;
use vlsm_measure::metrics::{Group, Percentiles, Point, Series};
use vlsm_measure::report::{ChainMark, JobMark, PhaseReport, Sample};
use vlsm_policy::Signals;
use vlsm_policy::schedule::dlc::DlcOptions;
use vlsm_policy::schedule::load::{LoadMeter, LoadModel};

/// A number of a phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Operations per second.
    Throughput,
    /// The throughput that 99 % of the intervals reach, in operations per second.
    TailThroughput,
    /// Share of the requests that an open loop had not served when it gave up. Percentiles do not
    /// include them.
    Unserved,
    /// Median latency of writes.
    WriteP50,
    /// 90th percentile of writes.
    WriteP90,
    /// 99th percentile of writes.
    WriteP99,
    /// 99.9th percentile of writes.
    WriteP999,
    /// The longest latency of a write.
    WriteMax,
    /// Median latency of reads.
    ReadP50,
    /// 99th percentile of reads.
    ReadP99,
    /// 99.9th percentile of reads.
    ReadP999,
    /// The longest latency of a read.
    ReadMax,
    /// 99th percentile of scans.
    ScanP99,
    /// Median of all operations together.
    P50,
    /// 99th percentile of all operations together.
    P99,
    /// 99.9th percentile of all operations together.
    P999,
    /// The largest 99th percentile of any interval.
    WorstP99,
    /// The mean of the 99th percentiles of all intervals.
    MeanP99,
    /// Share of the time at zero throughput.
    StallShare,
    /// Time at zero throughput.
    StallTime,
    /// The longest time at zero throughput.
    LongestStall,
    /// Time at zero throughput per operation. It compares runs of the same length that completed
    /// different numbers of operations. It is not scaled, so no paper's number may stand beside it.
    StallPerOp,
    /// Bytes read and written ÷ bytes that clients wrote.
    IoAmplification,
    /// Bytes written ÷ bytes that clients wrote.
    WriteAmplification,
    /// Bytes written to files.
    Written,
    /// Mean bytes of the chain behind L0, over all its stages.
    ChainWidth,
    /// Bytes of the widest chain.
    ChainWidest,
    /// Mean number of the stages of a chain.
    ChainLength,
    /// Mean bytes of a chain's stage out of this level.
    Stage(u8),
    /// Mean bytes of a chain's stages out of the levels above this one.
    ChainAbove(u8),
    /// Mean bytes that a compaction out of this level reads.
    JobBytes(u8),
    /// The widest compaction, in bytes read.
    WidestJob,
    /// Share of the SSTs of L1 that are good by counting overlapped SSTs.
    GoodByCount,
    /// Share of the SSTs of L1 that are good by the ratio of bytes.
    GoodByRatio,
    /// Processor time per operation.
    CpuPerOp,
    /// Resident memory.
    Memory,
    /// Writes that waited because every memtable was full and no flush had ended.
    MemtableWaits,
    /// Writes that the store stopped or delayed for any cause except its WAL.
    StoppedWrites,
    /// Bytes per second to and from the device.
    DeviceRate,
    /// Bytes per second that clients, not background jobs, read from the device.
    ClientReads,
    /// The load of the clients by this model, in bytes per second.
    Load(LoadModel),
    /// Runs in L0.
    L0Runs,
    /// Share of the memory for memtables that is in use.
    Fill,
    /// Bytes per second that the admission lets in.
    Limit,
}

/// The unit of a number. It decides how the number is written and whether a scale applies to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Per second: not scaled.
    Rate,
    /// Microseconds; a paper's number is divided by the factor of the scale.
    Micros,
    /// Bytes; a paper's number is divided by the factor of the scale.
    Bytes,
    /// Bytes per second: not scaled.
    ByteRate,
    /// A share of one.
    Share,
    /// A ratio or a number: not scaled.
    Number,
}

impl Measure {
    /// Its name in figures, its unit, and whether only our engine reports it.
    fn about(self) -> (String, Unit, bool) {
        let any = |name: &str, unit| (name.to_owned(), unit, false);
        let ours = |name: &str, unit| (name.to_owned(), unit, true);
        match self {
            Self::Throughput => any("throughput", Unit::Rate),
            Self::TailThroughput => any("tail throughput (99 %)", Unit::Rate),
            Self::Unserved => any("not served", Unit::Share),
            Self::WriteP50 => any("write P50", Unit::Micros),
            Self::WriteP90 => any("write P90", Unit::Micros),
            Self::WriteP99 => any("write P99", Unit::Micros),
            Self::WriteP999 => any("write P99.9", Unit::Micros),
            Self::WriteMax => any("write max", Unit::Micros),
            Self::ReadP50 => any("read P50", Unit::Micros),
            Self::ReadP99 => any("read P99", Unit::Micros),
            Self::ReadP999 => any("read P99.9", Unit::Micros),
            Self::ReadMax => any("read max", Unit::Micros),
            Self::ScanP99 => any("scan P99", Unit::Micros),
            Self::P50 => any("P50", Unit::Micros),
            Self::P99 => any("P99", Unit::Micros),
            Self::P999 => any("P99.9", Unit::Micros),
            Self::WorstP99 => any("largest P99 of an interval", Unit::Micros),
            Self::MeanP99 => any("mean P99 of the intervals", Unit::Micros),
            Self::StallShare => any("share of the time at zero throughput", Unit::Share),
            Self::StallTime => any("time at zero throughput", Unit::Micros),
            Self::LongestStall => any("longest time at zero throughput", Unit::Micros),
            Self::StallPerOp => any("time at zero throughput per operation", Unit::Micros),
            Self::IoAmplification => any("I/O amplification", Unit::Number),
            Self::WriteAmplification => any("write amplification", Unit::Number),
            Self::Written => any("bytes written", Unit::Bytes),
            Self::ChainWidth => ours("chain width, mean", Unit::Bytes),
            Self::ChainWidest => ours("chain width, widest", Unit::Bytes),
            Self::ChainLength => ours("chain length, mean", Unit::Number),
            Self::Stage(level) => {
                ours(&format!("chain width of the stage out of L{level}"), Unit::Bytes)
            }
            Self::ChainAbove(level) => ours(&format!("chain width down to L{level}"), Unit::Bytes),
            Self::JobBytes(level) => {
                any(&format!("bytes read by a compaction out of L{level}"), Unit::Bytes)
            }
            Self::WidestJob => any("widest compaction", Unit::Bytes),
            Self::GoodByCount => ours("good SSTs of L1, by count", Unit::Share),
            Self::GoodByRatio => ours("good SSTs of L1, by ratio of bytes", Unit::Share),
            Self::CpuPerOp => any("CPU per operation", Unit::Number),
            Self::Memory => any("resident memory", Unit::Bytes),
            Self::MemtableWaits => ours("writes that waited for a full memtable", Unit::Number),
            Self::StoppedWrites => ours("writes that were stopped or delayed", Unit::Number),
            Self::DeviceRate => any("device traffic", Unit::ByteRate),
            Self::ClientReads => any("device reads of clients", Unit::ByteRate),
            Self::Load(LoadModel::Operations) => any("load by operations", Unit::ByteRate),
            Self::Load(LoadModel::Weighted) => any("load by weighted gets", Unit::ByteRate),
            Self::Load(LoadModel::CacheMisses) => any("load by cache misses", Unit::ByteRate),
            Self::L0Runs => any("runs in L0", Unit::Number),
            Self::Fill => ours("memory for memtables in use", Unit::Share),
            Self::Limit => ours("limit of the admission", Unit::ByteRate),
        }
    }

    /// Its name in figures.
    #[must_use]
    pub fn name(self) -> String {
        self.about().0
    }

    /// Its unit.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.about().1
    }

    /// Whether only our engine reports it.
    #[must_use]
    pub fn is_of_ours(self) -> bool {
        self.about().2
    }

    /// The number of a phase; `None` if the store or the phase does not report it.
    #[must_use]
    pub fn of(self, phase: &PhaseReport) -> Option<f64> {
        let writes = |take: fn(&Percentiles) -> f64| phase.writes.as_ref().map(take);
        let reads = |take: fn(&Percentiles) -> f64| phase.reads.as_ref().map(take);
        let stalls = phase.series.stalls();
        Some(match self {
            Self::Throughput => phase.throughput,
            Self::TailThroughput => phase.tail_throughput?,
            Self::Unserved if phase.arrivals.peak().is_none() => return None,
            Self::Unserved => phase.unserved as f64 / (phase.unserved + phase.ops).max(1) as f64,
            Self::WriteP50 => writes(|p| p.p50_us)?,
            Self::WriteP90 => writes(|p| p.p90_us)?,
            Self::WriteP99 => writes(|p| p.p99_us)?,
            Self::WriteP999 => writes(|p| p.p999_us)?,
            Self::WriteMax => writes(|p| p.max_us)?,
            Self::ReadP50 => reads(|p| p.p50_us)?,
            Self::ReadP99 => reads(|p| p.p99_us)?,
            Self::ReadP999 => reads(|p| p.p999_us)?,
            Self::ReadMax => reads(|p| p.max_us)?,
            Self::ScanP99 => phase.scans.as_ref()?.p99_us,
            Self::P50 => all(phase)?.p50_us,
            Self::P99 => all(phase)?.p99_us,
            Self::P999 => all(phase)?.p999_us,
            Self::WorstP99 => interval_p99(&phase.series)
                .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))))?,
            Self::MeanP99 => mean(interval_p99(&phase.series))?,
            Self::StallShare => stalls.seconds / phase.seconds.max(1e-9),
            Self::StallTime => stalls.seconds * 1e6,
            Self::LongestStall => stalls.longest * 1e6,
            Self::StallPerOp => stalls.seconds * 1e6 / phase.ops.max(1) as f64,
            Self::IoAmplification => phase.moved().device_io()?,
            Self::WriteAmplification => phase.moved().device_write()?,
            Self::Written => phase.moved().device?.written as f64,
            Self::ChainWidth => mean(stood(phase).map(|chain| chain.width() as f64))?,
            Self::ChainWidest => stood(phase).map(|chain| chain.width()).max()? as f64,
            Self::ChainLength => mean(stood(phase).map(|chain| chain.stages.len() as f64))?,
            Self::Stage(level) => mean(stood(phase).map(|chain| stage(chain, level)))?,
            Self::ChainAbove(level) => {
                let above = |chain: &ChainMark| (0..level).map(|from| stage(chain, from)).sum();
                mean(stood(phase).map(above))?
            }
            Self::JobBytes(level) => {
                mean(compactions(phase).filter(|job| job.from == level).map(|j| j.read as f64))?
            }
            Self::WidestJob => compactions(phase).map(|job| job.read).max()? as f64,
            Self::GoodByCount => good(phase, |level| level.good_by_count)?,
            Self::GoodByRatio => good(phase, |level| level.good_by_ratio)?,
            Self::CpuPerOp => phase.cpu_us_per_op,
            Self::Memory => phase.samples.iter().map(|sample| sample.memory).max()? as f64,
            Self::MemtableWaits => waits(phase, |cause| cause == WaitCause::MemtableFull.name()),
            Self::StoppedWrites => waits(phase, |cause| LOG.iter().all(|log| cause != log.name())),
            Self::DeviceRate => {
                let device = phase.amplification.device?;
                (device.read + device.written) as f64 / phase.seconds.max(1e-9)
            }
            // Samples are evenly spaced.
            Self::ClientReads | Self::Load(_) | Self::Fill | Self::Limit => {
                mean(self.over_time(phase).into_iter().map(|(_, value)| value))?
            }
            Self::L0Runs if phase.store.levels.is_empty() => return None,
            Self::L0Runs => mean(phase.samples.iter().map(|sample| sample.l0_runs as f64))?,
        })
    }

    /// The number over time: seconds since the phase began, and the value.
    #[must_use]
    pub fn over_time(self, phase: &PhaseReport) -> Vec<(f64, f64)> {
        let samples = || phase.samples.iter();
        match self {
            Self::Memory => samples().map(|s| (s.at, s.memory as f64)).collect(),
            Self::L0Runs if phase.store.levels.is_empty() => Vec::new(),
            Self::L0Runs => samples().map(|s| (s.at, s.l0_runs as f64)).collect(),
            Self::DeviceRate => (phase.samples.windows(2))
                .filter_map(|pair| {
                    let (a, b) = (pair[0].device?, pair[1].device?);
                    let bytes = (b.read + b.written).saturating_sub(a.read + a.written);
                    Some((pair[1].at, bytes as f64 / (pair[1].at - pair[0].at).max(1e-9)))
                })
                .collect(),
            Self::ClientReads => (phase.samples.windows(2))
                .filter_map(|pair| {
                    let read = |s: &Sample| Some((s.device?.read, s.counters?.job_read_bytes.0));
                    let (a, b) = (read(&pair[0])?, read(&pair[1])?);
                    let bytes = b.0.saturating_sub(a.0).saturating_sub(b.1.saturating_sub(a.1));
                    Some((pair[1].at, bytes as f64 / (pair[1].at - pair[0].at).max(1e-9)))
                })
                .collect(),
            Self::Load(model) => loads(model, phase),
            Self::Fill => samples().filter_map(|s| Some((s.at, s.admitted?.fill))).collect(),
            Self::Limit => samples().filter_map(|s| Some((s.at, s.admitted?.limit?))).collect(),
            _ => {
                let mut at = 0.0;
                let mut all = Vec::with_capacity(phase.series.0.len());
                for point in &phase.series.0 {
                    at += point.seconds;
                    all.push((
                        at,
                        match self {
                            Self::Throughput | Self::TailThroughput => point.throughput(),
                            Self::ReadP99 => point.read_p99_us,
                            Self::WriteP99 => point.write_p99_us,
                            _ => point.p99_us(),
                        },
                    ));
                }
                all
            }
        }
    }
}

/// The load of the clients by a model, from sample to sample.
fn loads(model: LoadModel, phase: &PhaseReport) -> Vec<(f64, f64)> {
    let mut meter = LoadMeter::new(model, DlcOptions::default().weight, Micros::ZERO);
    let load = |sample: &Sample| {
        let now = Micros((sample.at * 1e6) as u64);
        let signals = Signals { now, counters: sample.counters?, ..Signals::default() };
        Some((sample.at, meter.sample(&signals)?.as_f64()))
    };
    phase.samples.iter().filter_map(load).collect()
}

/// Latencies of all operations together. An older report does not have them; then these are the
/// latencies of its most frequent kind of operation.
fn all(phase: &PhaseReport) -> Option<&Percentiles> {
    let groups = Group::ALL.into_iter().filter_map(|group| phase.percentiles(group));
    phase.all.as_ref().or_else(|| groups.max_by_key(|percentiles| percentiles.count))
}

/// The causes of waits for the WAL.
const LOG: [WaitCause; 3] = [WaitCause::WalQueue, WaitCause::WalWrite, WaitCause::WalSync];

/// The number of write waits in the phase with such a cause. The report counts the phase's own
/// waits, not those since the store was opened.
fn waits(phase: &PhaseReport, of_cause: impl Fn(&str) -> bool) -> f64 {
    let waits = phase.store.waits.iter().filter(|wait| of_cause(&wait.cause));
    waits.map(|wait| wait.count).sum::<u64>() as f64
}

/// The P99 of each interval in which an operation was completed.
fn interval_p99(series: &Series) -> impl Iterator<Item = f64> + '_ {
    series.0.iter().filter(|point| point.ops > 0).map(Point::p99_us)
}

/// Chains that stood behind L0 when a memtable was flushed.
fn stood(phase: &PhaseReport) -> impl Iterator<Item = &ChainMark> {
    phase.standing()
}

fn stage(chain: &ChainMark, level: u8) -> f64 {
    chain.stages.iter().filter(|(from, _)| *from == level).map(|(_, bytes)| *bytes as f64).sum()
}

fn compactions(phase: &PhaseReport) -> impl Iterator<Item = &JobMark> {
    phase.jobs.iter().filter(|job| job.kind == "compact")
}

fn good(phase: &PhaseReport, count: fn(&vlsm_measure::store::LevelStats) -> u64) -> Option<f64> {
    let first = phase.store.levels.get(1).filter(|level| level.tables > 0)?;
    Some(count(first) as f64 / first.tables as f64)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}
