//! The statistics of a report: their names, their units, the better direction, and how they are
//! taken. The page, the CSV and the comparison share one list, so that they agree.
//!
//! A statistic that was not measured is `None` and never zero. A counter that a store lacks is zero
//! in its report. Where zero cannot be a count, it is `None` here.

use super::chart::Unit;
use super::{ChainMark, Method, PhaseReport, Report};
use crate::arrivals::Arrivals;
use crate::metrics::Group;
use crate::process::{Device, Machine};
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
    /// Takes its value from a phase or a run.
    pub take: Take<T>,
}

type Take<T> = fn(&T) -> Option<f64>;

const fn higher<T>(name: &'static str, unit: Unit, take: Take<T>) -> Statistic<T> {
    Statistic { name, unit, better: Better::Higher, take }
}

const fn lower<T>(name: &'static str, unit: Unit, take: Take<T>) -> Statistic<T> {
    Statistic { name, unit, better: Better::Lower, take }
}

/// Latencies of one group of operations.
macro_rules! latencies {
    ($name:literal $group:ident: $($at:literal $field:ident),*) => {
        [$(lower(concat!($name, " ", $at), Unit::Micros, |phase: &PhaseReport| {
            phase.percentiles(Group::$group).map(|found| found.$field)
        })),*]
    };
    ($name:literal $group:ident) => {
        latencies!($name $group: "P50" p50_us, "P90" p90_us, "P99" p99_us, "P99.9" p999_us,
            "P99.99" p9999_us, "max" max_us)
    };
}

/// The latencies of a phase by groups of operations.
pub(super) fn latencies() -> Vec<Statistic<PhaseReport>> {
    [
        latencies!("writes" Write),
        latencies!("reads" Read),
        latencies!("scans" Scan),
        latencies!("transactions" Transaction),
    ]
    .concat()
}

/// The statistics of a phase.
#[must_use]
pub fn of_phases() -> Vec<Statistic<PhaseReport>> {
    let mut all = vec![
        higher("throughput", Unit::PerSecond, |phase: &PhaseReport| Some(phase.throughput)),
        higher("tail throughput (99 %)", Unit::PerSecond, |phase| phase.tail_throughput),
    ];
    all.extend(latencies());
    all.extend([
        lower("seconds at zero", Unit::Seconds, |phase: &PhaseReport| Some(phase.stalls.seconds)),
        lower("longest stall", Unit::Seconds, |phase| Some(phase.stalls.longest)),
        lower("not served in time", Unit::Plain, |phase| match phase.arrivals {
            Arrivals::Closed => None,
            _ => Some(phase.unserved as f64),
        }),
        lower("CPU per operation", Unit::Micros, |phase| Some(phase.cpu_us_per_op)),
        lower("write amp. (system)", Unit::Times, |p| p.amplification.device_write()),
        lower("write amp. (store)", Unit::Times, |p| counted(p.amplification.write())),
        lower("I/O amp. (system)", Unit::Times, |p| p.amplification.device_io()),
        lower("I/O amp. (store)", Unit::Times, |p| counted(p.amplification.io())),
        lower("bytes read to open SSTs", Unit::Bytes, |phase| {
            counted(phase.store.open_bytes as f64)
        }),
        lower("device bytes (process)", Unit::Bytes, |p| bytes(p.amplification.device)),
        lower("device bytes (kernel, all)", Unit::Bytes, |phase| bytes(phase.block)),
        lower("pending compaction (store)", Unit::Bytes, |phase| {
            Some(phase.samples.last()?.pending? as f64)
        }),
        lower("chains behind L0, mean", Unit::Bytes, |phase| {
            let bytes: u64 = phase.standing().map(ChainMark::width).sum();
            counted(bytes as f64 / phase.standing().count() as f64)
        }),
        lower("chains behind L0, widest", Unit::Bytes, |phase| {
            phase.standing().map(|chain| chain.width() as f64).reduce(f64::max)
        }),
        lower("chains behind L0, longest", Unit::Plain, |phase| {
            phase.standing().map(|chain| chain.stages.len() as f64).reduce(f64::max)
        }),
    ]);
    all
}

/// The statistics of a whole run.
#[must_use]
pub fn of_runs() -> Vec<Statistic<Report>> {
    vec![
        higher("sustainable rate", Unit::PerSecond, |run: &Report| run.sustainable),
        lower("write amp. (system)", Unit::Times, |run| run.amplification.device_write()),
        lower("write amp. (store)", Unit::Times, |run| counted(run.amplification.write())),
        lower("I/O amp. (system)", Unit::Times, |run| run.amplification.device_io()),
        lower("I/O amp. (store)", Unit::Times, |run| counted(run.amplification.io())),
        lower("space amplification", Unit::Times, Report::space_amplification),
        lower("peak memory", Unit::Bytes, |run| run.peak_memory.map(|bytes| bytes as f64)),
        lower("work left at the end", Unit::Seconds, |run| run.settled),
        lower("chain behind L0, mean", Unit::Bytes, |run| {
            let store = &run.store;
            store.standing_bytes.checked_div(store.standing_count).map(|bytes| bytes as f64)
        }),
        lower("chain behind L0, widest", Unit::Bytes, |run| {
            counted(run.store.standing_width as f64)
        }),
        lower("chain behind L0, longest", Unit::Plain, |run| {
            counted(run.store.standing_length as f64)
        }),
        lower("widest compaction", Unit::Bytes, |run| counted(run.store.widest_job as f64)),
    ]
}

/// Bytes read and written.
fn bytes(device: Option<Device>) -> Option<f64> {
    device.map(|device| (device.read + device.written) as f64)
}

/// The value, or `None` if it is zero (the store does not count it) or no number.
fn counted(value: impl Into<Option<f64>>) -> Option<f64> {
    value.into().filter(|value| value.is_finite() && *value > 0.0)
}

/// The items, each once, in the order in which they first occur.
#[must_use]
pub fn unique<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// Makes names unique: for the second of the same name, `again` makes a name from it and 2.
fn numbered(names: &[String], again: fn(&str, usize) -> String) -> Vec<String> {
    let one = |(index, name): (usize, &String)| {
        let before = names[..index].iter().filter(|old| *old == name).count();
        if before == 0 { name.clone() } else { again(name, before + 1) }
    };
    names.iter().enumerate().map(one).collect()
}

/// The phases of a report with unique labels: phases of the same name are numbered.
#[must_use]
pub fn phases(report: &Report) -> Vec<(String, &PhaseReport)> {
    let names: Vec<String> = report.phases.iter().map(|phase| phase.name.clone()).collect();
    let labels = numbered(&names, |name, number| format!("{name} ({number})"));
    labels.into_iter().zip(&report.phases).collect()
}

/// The labels of all phases, in the order in which the reports have them.
pub(super) fn phase_labels(reports: &[Report]) -> Vec<String> {
    unique(reports.iter().flat_map(phases).map(|(label, _)| label))
}

/// The phase of this label.
#[must_use]
pub fn phase<'a>(report: &'a Report, label: &str) -> Option<&'a PhaseReport> {
    phases(report).into_iter().find(|(found, _)| found == label).map(|(_, phase)| phase)
}

/// Unique names of reports: store and profile, numbered where they repeat.
#[must_use]
pub fn names(reports: &[Report]) -> Vec<String> {
    let name = |Method { store, profile, .. }: &Method| match profile.is_empty() || profile == store
    {
        true => store.clone(),
        false => format!("{store}:{profile}"),
    };
    let names: Vec<String> = reports.iter().map(|report| name(&report.method)).collect();
    numbered(&names, |name, number| format!("{name} #{number}"))
}

/// The machine in words.
pub(super) fn machine(machine: &Machine) -> String {
    let memory = machine.memory.map_or("unknown memory".into(), |bytes| Bytes(bytes).to_string());
    format!("{} × {}, {memory}, {}", machine.cores, machine.cpu, machine.system)
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
