//! The statistics of a report: their names, their units, the better direction, and how they are
//! taken. The page, the CSV and the comparison share one list, so that they agree.
//!
//! A statistic that was not measured is `None` and never zero. A counter that a store lacks is zero
//! in its report. Where zero cannot be a count, it is `None` here.

use super::chart::Unit;
use super::{ChainMark, PhaseReport, Report};
use crate::arrivals::Arrivals;
use crate::metrics::Group;
use crate::store::LevelStats;
use vlsm_core::Bytes;

/// The better one of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The higher one.
    Higher,
    /// The lower one.
    Lower,
}

/// A statistic of a phase or a run.
#[derive(Debug, Clone, Copy)]
pub struct Statistic<T> {
    /// Its name, the same everywhere.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// How it is taken.
    pub take: fn(&T) -> Option<f64>,
}

use Better::{Higher, Lower};

const fn statistic<T>(
    name: &'static str,
    unit: Unit,
    better: Better,
    take: fn(&T) -> Option<f64>,
) -> Statistic<T> {
    Statistic { name, unit, better, take }
}

/// Latencies of one group of operations.
macro_rules! latencies {
    ($name:literal $group:ident: $($at:literal $field:ident),*) => {
        [$(statistic(
            concat!($name, " ", $at),
            Unit::Micros,
            Lower,
            |phase: &PhaseReport| phase.percentiles(Group::$group).map(|found| found.$field),
        )),*]
    };
    ($name:literal $group:ident) => {
        latencies!($name $group: "P50" p50_us, "P90" p90_us, "P99" p99_us, "P99.9" p999_us,
            "P99.99" p9999_us, "max" max_us)
    };
}

/// The statistics of a phase.
#[must_use]
pub fn of_phases() -> Vec<Statistic<PhaseReport>> {
    let mut all = vec![
        statistic("throughput", Unit::PerSecond, Higher, |phase: &PhaseReport| {
            Some(phase.throughput)
        }),
        statistic("tail throughput (99 %)", Unit::PerSecond, Higher, |phase| phase.tail_throughput),
    ];
    all.extend(latencies!("writes" Write));
    all.extend(latencies!("reads" Read));
    all.extend(latencies!("scans" Scan));
    all.extend(latencies!("transactions" Transaction));
    all.extend([
        statistic("seconds at zero", Unit::Seconds, Lower, |phase: &PhaseReport| {
            Some(phase.stalls.seconds)
        }),
        statistic("longest stall", Unit::Seconds, Lower, |phase| Some(phase.stalls.longest)),
        statistic("not served in time", Unit::Plain, Lower, |phase| match phase.arrivals {
            Arrivals::Closed => None,
            _ => Some(phase.unserved as f64),
        }),
        statistic("CPU per operation", Unit::Micros, Lower, |phase| Some(phase.cpu_us_per_op)),
        statistic("write amp. (system)", Unit::Times, Lower, |p| p.amplification.device_write()),
        statistic("write amp. (store)", Unit::Times, Lower, |p| counted(p.amplification.write())),
        statistic("I/O amp. (system)", Unit::Times, Lower, |p| p.amplification.device_io()),
        statistic("I/O amp. (store)", Unit::Times, Lower, |p| counted(p.amplification.io())),
        statistic("chains behind L0, mean", Unit::Bytes, Lower, |phase| {
            let bytes: u64 = phase.standing().map(ChainMark::width).sum();
            counted(Some(bytes as f64 / phase.standing().count() as f64))
        }),
        statistic("chains behind L0, widest", Unit::Bytes, Lower, |phase| {
            phase.standing().map(|chain| chain.width() as f64).reduce(f64::max)
        }),
        statistic("chains behind L0, longest", Unit::Plain, Lower, |phase| {
            phase.standing().map(|chain| chain.stages.len() as f64).reduce(f64::max)
        }),
    ]);
    all
}

/// The statistics of a whole run.
#[must_use]
pub fn of_runs() -> Vec<Statistic<Report>> {
    vec![
        statistic("sustainable rate", Unit::PerSecond, Higher, |run: &Report| run.sustainable),
        statistic("write amp. (system)", Unit::Times, Lower, |run| {
            run.amplification.device_write()
        }),
        statistic("write amp. (store)", Unit::Times, Lower, |run| {
            counted(run.amplification.write())
        }),
        statistic("I/O amp. (system)", Unit::Times, Lower, |run| run.amplification.device_io()),
        statistic("I/O amp. (store)", Unit::Times, Lower, |run| counted(run.amplification.io())),
        statistic("space amplification", Unit::Times, Lower, Report::space_amplification),
        statistic("peak memory", Unit::Bytes, Lower, |run| {
            run.peak_memory.map(|bytes| bytes as f64)
        }),
        statistic("work left at the end", Unit::Seconds, Lower, |run| run.settled),
        statistic("chain behind L0, mean", Unit::Bytes, Lower, |run| {
            let store = &run.store;
            store.standing_bytes.checked_div(store.standing_count).map(|bytes| bytes as f64)
        }),
        statistic("chain behind L0, widest", Unit::Bytes, Lower, |run| {
            counted(Some(run.store.standing_width as f64))
        }),
        statistic("chain behind L0, longest", Unit::Plain, Lower, |run| {
            counted(Some(run.store.standing_length as f64))
        }),
        statistic("widest compaction", Unit::Bytes, Lower, |run| {
            counted(Some(run.store.widest_job as f64))
        }),
    ]
}

/// The value, or `None` if it is zero (the store does not count it) or no number.
fn counted(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite() && *value > 0.0)
}

/// The phases of a report with unique labels: phases of the same name are numbered.
#[must_use]
pub fn phases(report: &Report) -> Vec<(String, &PhaseReport)> {
    let label = |(index, phase): (usize, &PhaseReport)| {
        let before = report.phases[..index].iter().filter(|old| old.name == phase.name).count();
        match before {
            0 => phase.name.clone(),
            more => format!("{} ({})", phase.name, more + 1),
        }
    };
    report.phases.iter().enumerate().map(|(i, phase)| (label((i, phase)), phase)).collect()
}

/// The labels of all phases, in the order in which the reports have them.
#[must_use]
pub fn phase_labels(reports: &[Report]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for (label, _) in reports.iter().flat_map(phases) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels
}

/// The phase of this label.
#[must_use]
pub fn phase<'a>(report: &'a Report, label: &str) -> Option<&'a PhaseReport> {
    phases(report).into_iter().find(|(found, _)| found == label).map(|(_, phase)| phase)
}

/// Unique names of reports: store and profile, numbered where they repeat.
#[must_use]
pub fn names(reports: &[Report]) -> Vec<String> {
    let name = |report: &Report| {
        let method = &report.method;
        match &method.profile {
            profile if profile.is_empty() => method.store.clone(),
            profile if *profile == method.store => method.store.clone(),
            profile => format!("{}:{profile}", method.store),
        }
    };
    let all: Vec<String> = reports.iter().map(name).collect();
    let number = |(index, name): (usize, &String)| match all[..index]
        .iter()
        .filter(|old| *old == name)
        .count()
    {
        0 => name.clone(),
        before => format!("{name} #{}", before + 1),
    };
    all.iter().enumerate().map(number).collect()
}

/// The fullness of each level: `L1 251 MB of 256 MB (98 %)`. `bytes`, if given, replaces the
/// levels' own bytes with those of another moment.
#[must_use]
pub fn fullness(levels: &[LevelStats], bytes: Option<&[u64]>) -> Vec<String> {
    let one = |(index, level): (usize, &LevelStats)| {
        let bytes = match bytes {
            Some(bytes) => bytes.get(index).copied().unwrap_or(0),
            None => level.bytes,
        };
        match level.target.filter(|target| *target > 0) {
            Some(target) => {
                let percent = bytes as f64 / target as f64 * 100.0;
                Some(format!("L{index} {} of {} ({percent:.0} %)", Bytes(bytes), Bytes(target)))
            }
            None => (bytes > 0).then(|| format!("L{index} {}", Bytes(bytes))),
        }
    };
    levels.iter().enumerate().filter_map(one).collect()
}

/// The arrivals in words.
#[must_use]
pub fn arrivals(arrivals: &Arrivals) -> String {
    match arrivals {
        Arrivals::Open(rate) => format!("open loop, {}", Unit::PerSecond.text(*rate)),
        Arrivals::Varying(pattern) => {
            let (mean, peak) = (pattern.mean(), pattern.peak());
            let text = |rate| Unit::PerSecond.text(rate);
            format!("varying, mean {}, peak {}", text(mean), text(peak))
        }
        other => other.to_string(),
    }
}
