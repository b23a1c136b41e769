//! A measure is a number that a figure takes from a phase of a run, or that number over time. A run
//! that does not report the number gives nothing, never zero.
//!
//! All measures are rows of one table, `MEASURES`. A measure needs no code except its row.

use serde::{Deserialize, Serialize};
use std::ops::Deref;
use vlsm_core::Micros;
use vlsm_core::event::WaitCause;
use vlsm_measure::metrics::{Group, Percentiles, Point};
use vlsm_measure::report::{PhaseReport, Sample};
use vlsm_measure::store::{LevelStats, VsstStats};
use vlsm_policy::Signals;
use vlsm_policy::schedule::dlc::DlcOptions;
use vlsm_policy::schedule::load::{LoadMeter, LoadModel};

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

/// A number of a phase of a run: a row of the table of measures.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct Measure(&'static Row);

/// Seconds since a phase began, and values.
type OverTime = Vec<(f64, f64)>;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name, in the papers' tables and in figures.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether only our engine reports it.
    pub ours: bool,
    /// The number of a phase. Without it, it is the mean over time.
    of: Option<fn(&PhaseReport) -> Option<f64>>,
    over_time: fn(&PhaseReport) -> OverTime,
    /// A smaller number cannot be distinguished from zero.
    least: fn(&PhaseReport) -> f64,
    /// Whether the number means the same if the phase left debt.
    despite_debt: fn(&PhaseReport) -> bool,
}

/// A measure that is a number of a phase. Over time it is the P99 of the intervals.
const fn any(name: &'static str, unit: Unit, of: fn(&PhaseReport) -> Option<f64>) -> Row {
    let over_time = |phase: &PhaseReport| intervals(phase, Point::p99_us);
    let (least, despite_debt) = (|_: &PhaseReport| 0.0, |_: &PhaseReport| false);
    Row { name, unit, ours: false, of: Some(of), over_time, least, despite_debt }
}

/// Such a measure that only our engine reports.
const fn ours(name: &'static str, unit: Unit, of: fn(&PhaseReport) -> Option<f64>) -> Row {
    Row { ours: true, ..any(name, unit, of) }
}

/// A measure that is sampled over time. The samples are evenly spaced.
const fn sampled(name: &'static str, unit: Unit, over_time: fn(&PhaseReport) -> OverTime) -> Row {
    Row { of: None, over_time, ..any(name, unit, |_| None) }
}

impl Row {
    const fn over_time(self, over_time: fn(&PhaseReport) -> OverTime) -> Self {
        Self { over_time, ..self }
    }

    const fn at_least(self, least: fn(&PhaseReport) -> f64) -> Self {
        Self { least, ..self }
    }

    const fn despite_debt(self, despite_debt: fn(&PhaseReport) -> bool) -> Self {
        Self { despite_debt, ..self }
    }
}

use Unit::{ByteRate, Bytes, Micros as Us, Number, Rate, Share};

/// The table of measures.
static MEASURES: &[Row] = &[
    any("throughput", Rate, |p| Some(p.throughput))
        .over_time(|p| intervals(p, |point| Some(point.throughput()))),
    // The time of the background work that the phase left counts, too.
    any("throughput, debt paid", Rate, |p| {
        p.paid.map(|paid| paid.ops as f64 / paid.seconds.max(1e-9))
    })
    .despite_debt(|_| true),
    // The throughput that 99 % of the intervals reach.
    any("tail throughput (99 %)", Rate, |p| p.tail_throughput),
    // The share of the requests that an open loop had not served when it gave up. Percentiles do
    // not include them.
    any("not served", Share, |p| {
        p.arrivals.peak().map(|_| p.unserved as f64 / (p.unserved + p.ops).max(1) as f64)
    }),
    any("write P50", Us, |p| Some(p.writes?.p50_us)),
    any("write P90", Us, |p| Some(p.writes?.p90_us)),
    any("write P99", Us, |p| Some(p.writes?.p99_us))
        .over_time(|p| intervals(p, |point| Some(point.write_p99_us).filter(|us| *us > 0.0))),
    any("write P99.9", Us, |p| Some(p.writes?.p999_us)),
    any("write max", Us, |p| Some(p.writes?.max_us)),
    any("read P50", Us, |p| Some(p.reads?.p50_us)),
    any("read P99", Us, |p| Some(p.reads?.p99_us)),
    any("read P99.9", Us, |p| Some(p.reads?.p999_us)),
    any("read max", Us, |p| Some(p.reads?.max_us)),
    any("P50", Us, |p| Some(all(p)?.p50_us)),
    any("P99", Us, |p| Some(all(p)?.p99_us)),
    any("P99.9", Us, |p| Some(all(p)?.p999_us)),
    // An interval with fewer than 1,000 requests is counted with those after it.
    any("largest P99 of an interval", Us, |p| interval_p99(p).reduce(f64::max)),
    any("mean P99 of the intervals", Us, |p| mean(interval_p99(p))),
    any("share of the time at zero throughput", Share, |p| {
        Some(p.series.stalls().seconds / p.seconds.max(1e-9))
    }),
    any("time at zero throughput", Us, |p| Some(p.series.stalls().seconds * 1e6))
        .at_least(interval_us),
    any("longest time at zero throughput", Us, |p| Some(p.series.stalls().longest * 1e6))
        .at_least(interval_us),
    // It compares runs of the same length that completed different numbers of operations. It is
    // not scaled, so no paper's number may stand beside it.
    any("time at zero throughput per operation", Us, |p| {
        Some(p.series.stalls().seconds * 1e6 / p.ops.max(1) as f64)
    })
    .at_least(|p| interval_us(p) / p.ops.max(1) as f64),
    // Bytes read and written ÷ bytes that clients wrote.
    any("I/O amplification", Number, |p| p.moved().device_io())
        .despite_debt(|p| p.settled.is_some()),
    any("write amplification", Number, |p| p.moved().device_write())
        .despite_debt(|p| p.settled.is_some()),
    // Chains that stood behind L0 when a memtable was flushed, over all their stages.
    ours("chain width, mean", Bytes, |p| mean(widths(p))),
    ours("chain width, widest", Bytes, |p| widths(p).reduce(f64::max)),
    ours("chain length, mean", Number, |p| {
        mean(p.standing().map(|chain| chain.stages.len() as f64))
    }),
    // The stages out of the levels above this one.
    ours("chain width down to L1", Bytes, |p| chain_above(p, 1)),
    ours("chain width down to L2", Bytes, |p| chain_above(p, 2)),
    ours("chain width down to L3", Bytes, |p| chain_above(p, 3)),
    any("bytes read by a compaction out of L0", Bytes, |p| job_bytes(p, 0)),
    any("bytes read by a compaction out of L1", Bytes, |p| job_bytes(p, 1)),
    any("bytes read by a compaction out of L2", Bytes, |p| job_bytes(p, 2)),
    ours("good SSTs of L1, by count", Share, |p| good(p, |level| level.good_by_count)),
    ours("good SSTs of L1, by ratio of bytes", Share, |p| good(p, |level| level.good_by_ratio)),
    ours("good SSTs into L1, by count", Share, |p| into_l1(p, |vssts| vssts.good_by_count)),
    ours("good SSTs into L1, by ratio of bytes", Share, |p| into_l1(p, |v| v.good_by_ratio)),
    ours("poor SSTs out of L1", Share, |p| {
        let vssts = p.store.vssts;
        (vssts.out > 0).then(|| vssts.poor as f64 / vssts.out as f64)
    }),
    // How full L1 is: the mean of the samples. Beyond one, the step to L2 is smaller than Φ.
    ours("L1 in targets", Number, |p| {
        let target = p.store.levels.get(1)?.target.filter(|target| *target > 0)?;
        let bytes = p.samples.iter().filter_map(|sample| sample.levels.get(1));
        mean(bytes.map(|bytes| *bytes as f64 / target as f64))
    }),
    any("CPU per operation", Number, |p| Some(p.cpu_us_per_op)),
    any("CPU per operation, debt paid", Number, |p| {
        p.paid.map(|paid| paid.cpu_nanos as f64 / 1e3 / paid.ops.max(1) as f64)
    })
    .despite_debt(|_| true),
    any("resident memory", Bytes, |p| {
        p.samples.iter().map(|sample| sample.memory as f64).reduce(f64::max)
    })
    .over_time(|p| samples(p, |sample| Some(sample.memory as f64))),
    ours("writes that waited for a full memtable", Number, |p| {
        Some(waits(p, |cause| cause == WaitCause::MemtableFull.name()))
    }),
    ours("writes that were stopped or delayed", Number, |p| {
        Some(waits(p, |cause| LOG.iter().all(|log| cause != log.name())))
    }),
    any("device traffic", ByteRate, |p| {
        let device = p.amplification.device?;
        Some((device.read + device.written) as f64 / p.seconds.max(1e-9))
    })
    .over_time(|p| rates(p, |s| Some((s.device?.read + s.device?.written, 0)))),
    // Bytes that clients, not background jobs, read.
    sampled("device reads of clients", ByteRate, |p| {
        rates(p, |s| Some((s.device?.read, s.counters?.job_read_bytes.0)))
    })
    .despite_debt(|_| true),
    // By the kernel's counters of the device, which include the traffic of other processes.
    any("device traffic by the kernel", ByteRate, |p| {
        let moved = p.block?;
        Some((moved.read + moved.written) as f64 / p.seconds.max(1e-9))
    })
    .over_time(|p| rates(p, |s| Some((s.block?.read + s.block?.written, 0)))),
    sampled("device reads of clients by the kernel", ByteRate, |p| {
        rates(p, |s| Some((s.block?.read, s.counters?.job_read_bytes.0)))
    })
    .despite_debt(|_| true),
    sampled("load by operations", ByteRate, |p| loads(LoadModel::Operations, p))
        .despite_debt(|_| true),
    sampled("load by weighted gets", ByteRate, |p| loads(LoadModel::Weighted, p))
        .despite_debt(|_| true),
    sampled("load by cache misses", ByteRate, |p| loads(LoadModel::CacheMisses, p))
        .despite_debt(|_| true),
    sampled("runs in L0", Number, |p| {
        samples(p, |sample| (!p.store.levels.is_empty()).then_some(sample.l0_runs as f64))
    })
    .despite_debt(|_| true),
    any("most runs in L0", Number, |p| {
        let runs = p.samples.iter().map(|sample| sample.l0_runs as f64);
        runs.reduce(f64::max).filter(|_| !p.store.levels.is_empty())
    })
    .despite_debt(|_| true),
    Row {
        ours: true,
        ..sampled("memory for memtables in use", Share, |p| {
            samples(p, |sample| Some(sample.admitted?.fill))
        })
    },
    // Nine tenths of the samples lie between these two.
    ours("memory for memtables in use, P5", Share, |p| fill(p, 0.05)),
    ours("memory for memtables in use, P95", Share, |p| fill(p, 0.95)),
    // The rate that the admission lets in.
    Row {
        ours: true,
        ..sampled("limit of the admission", ByteRate, |p| {
            samples(p, |sample| sample.admitted?.limit)
        })
    },
];

impl Deref for Measure {
    type Target = Row;

    fn deref(&self) -> &Row {
        self.0
    }
}

impl TryFrom<String> for Measure {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let row = MEASURES.iter().find(|row| row.name == name);
        row.map(Self).ok_or_else(|| format!("there is no measure {name:?}"))
    }
}

impl Measure {
    /// The number of a phase; `None` if the store or the phase does not report it.
    #[must_use]
    pub fn of(self, phase: &PhaseReport) -> Option<f64> {
        match self.of {
            Some(of) => of(phase),
            None => mean(self.over_time(phase).into_iter().map(|(_, value)| value)),
        }
    }

    /// The number over time: seconds since the phase began, and the value.
    #[must_use]
    pub fn over_time(self, phase: &PhaseReport) -> OverTime {
        (self.over_time)(phase)
    }

    /// Whether the number of a phase means the same if the phase left debt: it contains the work
    /// that was left, it is a part of the debt, or it is no measure of speed.
    #[must_use]
    pub fn despite_debt(self, phase: &PhaseReport) -> bool {
        (self.despite_debt)(phase)
    }

    /// The least number of a phase that can be distinguished from zero. A stall that is shorter
    /// than an interval is not seen.
    #[must_use]
    pub fn least(self, phase: &PhaseReport) -> f64 {
        (self.least)(phase)
    }
}

/// A number of each interval that has it, at its end.
fn intervals(phase: &PhaseReport, of: fn(&Point) -> Option<f64>) -> OverTime {
    let ended = phase.series.placed().map(|(begin, point)| (begin + point.seconds, of(point)));
    ended.filter_map(|(at, value)| Some((at, value?))).collect()
}

/// The length of an interval in microseconds.
fn interval_us(phase: &PhaseReport) -> f64 {
    phase.series.interval() * 1e6
}

/// A number of each sample that has it.
fn samples(phase: &PhaseReport, of: impl Fn(&Sample) -> Option<f64>) -> OverTime {
    phase.samples.iter().filter_map(|sample| Some((sample.at, of(sample)?))).collect()
}

/// Bytes per second from sample to sample. `of` gives the bytes counted so far, and those of them
/// that do not belong to the measure.
fn rates(phase: &PhaseReport, of: fn(&Sample) -> Option<(u64, u64)>) -> OverTime {
    let rate = |pair: &[Sample]| {
        let (a, b) = (of(&pair[0])?, of(&pair[1])?);
        let bytes = b.0.saturating_sub(a.0).saturating_sub(b.1.saturating_sub(a.1));
        Some((pair[1].at, bytes as f64 / (pair[1].at - pair[0].at).max(1e-9)))
    };
    phase.samples.windows(2).filter_map(rate).collect()
}

/// The load of the clients by a model, from sample to sample.
fn loads(model: LoadModel, phase: &PhaseReport) -> OverTime {
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

/// The P99s of the intervals, each of at least 1,000 requests.
fn interval_p99(phase: &PhaseReport) -> impl Iterator<Item = f64> {
    phase.series.0.iter().filter_map(Point::p99_us)
}

fn widths(phase: &PhaseReport) -> impl Iterator<Item = f64> {
    phase.standing().map(|chain| chain.width() as f64)
}

/// Mean bytes of a chain's stages out of the levels above this one.
fn chain_above(phase: &PhaseReport, level: u8) -> Option<f64> {
    mean(phase.standing().map(|chain| {
        let above = chain.stages.iter().filter(|(from, _)| *from < level);
        above.map(|(_, bytes)| *bytes as f64).sum()
    }))
}

/// Mean bytes that a compaction out of this level reads.
fn job_bytes(phase: &PhaseReport, level: u8) -> Option<f64> {
    let jobs = phase.jobs.iter().filter(|job| job.kind == "compact" && job.from == level);
    mean(jobs.map(|job| job.read as f64))
}

/// The share of the SSTs of L1 that are good by this count.
fn good(phase: &PhaseReport, count: fn(&LevelStats) -> u64) -> Option<f64> {
    let first = phase.store.levels.get(1).filter(|level| level.tables > 0)?;
    Some(count(first) as f64 / first.tables as f64)
}

/// The share of the SSTs brought into L1 in the phase that are good by this count.
fn into_l1(phase: &PhaseReport, count: fn(&VsstStats) -> u64) -> Option<f64> {
    let vssts = &phase.store.vssts;
    (vssts.into > 0).then(|| count(vssts) as f64 / vssts.into as f64)
}

/// The used share of the memory for memtables that this share of the samples is below.
fn fill(phase: &PhaseReport, share: f64) -> Option<f64> {
    let mut fills: Vec<f64> =
        phase.samples.iter().filter_map(|sample| Some(sample.admitted?.fill)).collect();
    fills.sort_by(f64::total_cmp);
    let last = fills.len().checked_sub(1)?;
    Some(fills[(share * last as f64).round() as usize])
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}
