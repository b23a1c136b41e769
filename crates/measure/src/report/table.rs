//! A report as a table for people: a row for each figure, a column for each phase.
//!
//! Rows without any figure are left out. The method comes first, because figures mean nothing
//! without it.

use super::{Amplification, Method, PhaseReport, Report, statistic};
use crate::arrivals::Arrivals;
use crate::metrics::Stalls;
use crate::process::Device;
use crate::store::{LevelStats, StoreStats, VsstStats};
use std::fmt::Write;
use std::iter::repeat;
use vlsm_core::{Bytes, Micros};

const LABEL: usize = 26;
const COLUMN: usize = 22;

/// The memory of a process beside its store's, with which a report compares.
const PROCESS_BYTES: u64 = 16 << 20;

/// The table of a report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    method(&report.method, &mut out);
    phases(report, &mut out);
    whole_run(report, &mut out);
    out
}

/// Writes a line with a label of this width and its text; nothing without a text.
fn line(out: &mut String, width: usize, label: &str, text: Option<String>) {
    if let Some(text) = text {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {label:width$} {text}");
    }
}

fn method(method: &Method, out: &mut String) {
    let _ = writeln!(out, "{} {}, profile {}", method.store, method.version, method.profile);
    let mut said = |label: &str, text: String| line(out, 8, label, Some(text));
    said("machine", statistic::machine(&method.machine));
    let (pairs, key, value) = (method.pairs, method.key_size, method.value_size);
    let size = method.data_size();
    said("data", format!("{} pairs of {key} + {value} bytes ({size})", grouped(pairs)));
    said("load", method.load.clone());
    let option = |(name, value): &(String, String)| format!("{name} {value}");
    let options: Vec<_> = method.options.iter().map(option).collect();
    for (row, label) in options.chunks(4).zip(["options"].into_iter().chain(repeat(""))) {
        said(label, row.join(", "));
    }
    let floor = &method.floor;
    let load = floor.rate.map_or("closed loop".into(), |rate| format!("{}/s", number(rate)));
    let (p99, p999, cpu) = (micros(floor.p99_us), micros(floor.p999_us), floor.cpu_us_per_op);
    let alone = format!("alone ({load}): P99 {p99}, P99.9 {p999}, {cpu:.2} µs CPU per operation");
    said("driver", format!("{} clients; {alone}", method.threads));
    if !method.block.is_empty() {
        said("device", format!("by the kernel's counters: {}", method.block));
    }
    out.push('\n');
}

/// Writes a row with the `figure` of each phase; nothing if no phase has it.
fn row(
    out: &mut String,
    phases: &[PhaseReport],
    label: &str,
    figure: impl Fn(&PhaseReport) -> Option<String>,
) {
    let cells: Vec<_> = phases.iter().map(figure).collect();
    if cells.iter().all(Option::is_none) {
        return;
    }
    let _ = write!(out, "{label:LABEL$}");
    for cell in cells {
        let _ = write!(out, "{:>COLUMN$}", cell.unwrap_or_else(|| "–".into()));
    }
    out.push('\n');
}

fn phases(report: &Report, out: &mut String) {
    let all = &report.phases[..];
    row(out, all, "", |phase| Some(phase.name.clone()));
    row(out, all, "load", |phase| {
        Some(match &phase.arrivals {
            Arrivals::Open(rate) => format!("open, {}/s", number(*rate)),
            other => other.to_string(),
        })
    });
    row(out, all, "operations", |phase| Some(grouped(phase.ops)));
    row(out, all, "time", |phase| {
        let stopped = if phase.stopped { " (stopped)" } else { "" };
        Some(format!("{:.1} s{stopped}", phase.seconds))
    });
    row(out, all, "throughput", |phase| Some(format!("{}/s", number(phase.throughput))));
    row(out, all, "tail throughput (99 %)", |phase| {
        phase.tail_throughput.map(|tail| format!("{}/s", number(tail)))
    });
    row(out, all, "stalls (seconds at zero)", |phase| {
        Some(match phase.stalls {
            Stalls { count: 0, .. } => "none".into(),
            Stalls { seconds, longest, .. } => format!("{seconds} s, longest {longest} s"),
        })
    });
    row(out, all, "not served in time", |phase| {
        (phase.unserved > 0).then(|| grouped(phase.unserved))
    });
    row(out, all, "reads that found nothing", |phase| {
        (phase.misses > 0).then(|| grouped(phase.misses))
    });
    for latency in statistic::latencies() {
        row(out, all, latency.name, |phase| (latency.take)(phase).map(micros));
    }
    row(out, all, "CPU per operation", |phase| Some(format!("{:.2} µs", phase.cpu_us_per_op)));
    row(out, all, "a 4 KB read beside, P99", |phase| {
        phase.device_beside.as_ref().map(|reads| micros(reads.p99_us))
    });
    row(out, all, "write amplification", |phase| written(&phase.amplification));
    row(out, all, "I/O amplification", |phase| moved(&phase.amplification));
    row(out, all, "reads that open SSTs", |phase| {
        let share = phase.opening()?;
        Some(format!("{:.0} % of bytes", share * 100.0)).filter(|_| share > 0.0)
    });
    row(out, all, "device bytes (process)", |phase| moved_bytes(phase.amplification.device));
    row(out, all, "device bytes (kernel, all)", |phase| moved_bytes(phase.block));
    row(out, all, "furthest beyond its target", |phase| {
        let debt = report.debt(phase)?;
        Some(format!("L{} {:.2}, was {:.2}", debt.level, debt.end, debt.start))
    });
    row(out, all, "debt left", |phase| {
        Some(if report.debt(phase)?.is_bounded() { "no" } else { "yes" }.into())
    });
    row(out, all, "compaction chains waited", |phase| Some(grouped(phase.store.chains)));
    row(out, all, "  mean width", |phase| {
        let width = phase.store.chain_bytes.checked_div(phase.store.chains)?;
        Some(Bytes(width).to_string())
    });
    for statistic in statistic::of_phases().iter().filter(|f| f.name.starts_with("chains behind")) {
        row(out, all, statistic.name, |phase| Some(statistic.unit.text((statistic.take)(phase)?)));
    }
    waits(out, all);
    row(out, all, "syncs of the WAL", |phase| {
        let (syncs, writes) = (phase.store.wal_syncs, phase.writes.as_ref()?.count);
        let each = (syncs > 0).then(|| writes as f64 / syncs as f64)?;
        Some(format!("{} × {each:.1} writes", grouped(syncs)))
    });
    out.push('\n');
}

/// Bytes read and written.
fn moved_bytes(device: Option<Device>) -> Option<String> {
    device.map(|Device { read, written, .. }| format!("{} + {}", Bytes(read), Bytes(written)))
}

/// A figure by the store's counters, and the same by the system's.
fn both(store: Option<f64>, device: Option<f64>) -> Option<String> {
    let system = device.map_or(String::new(), |device| format!(" ({device:.2} system)"));
    store.map(|store| format!("{store:.2}{system}"))
}

fn written(amp: &Amplification) -> Option<String> {
    both(amp.write(), amp.device_write())
}

fn moved(amp: &Amplification) -> Option<String> {
    both(amp.io(), amp.device_io())
}

fn waits(out: &mut String, phases: &[PhaseReport]) {
    let waits = phases.iter().flat_map(|phase| &phase.store.waits);
    for cause in statistic::unique(waits.map(|wait| &wait.cause)) {
        row(out, phases, &format!("waits: {cause}"), |phase| {
            let mut waits = phase.store.waits.iter().filter(|wait| wait.count > 0);
            let wait = waits.find(|wait| wait.cause == *cause)?;
            let mean = wait.total_us as f64 / wait.count as f64;
            Some(format!("{} × {}", grouped(wait.count), micros(mean)))
        });
    }
}

fn whole_run(report: &Report, out: &mut String) {
    let settled = match report.settled {
        Some(seconds) => format!("background work ended {seconds:.1} s later"),
        None => "background work had not ended".into(),
    };
    let _ = writeln!(out, "whole run ({settled})");
    let mut said = |label: &str, text: Option<String>| line(out, 19, label, text);
    said("write amplification", written(&report.amplification));
    said("I/O amplification", moved(&report.amplification));
    said("the store's counters and the system's", report.amplification.verdict());
    let store = &report.store;
    let space = report.space_amplification().map_or("–".into(), |space| format!("{space:.2}"));
    said("space amplification", Some(format!("{space}: {} of files", Bytes(store.disk_bytes))));
    said("compaction chains", Some(waited(store)));
    let mean = store.standing_bytes.checked_div(store.standing_count).map(Bytes);
    let (widest, longest) = (Bytes(store.standing_width), store.standing_length);
    let flushes = grouped(store.standing_count);
    let stages = if longest == 1 { "stage" } else { "stages" };
    let standing = |mean| {
        format!("widest {widest}, mean {mean}, longest {longest} {stages} ({flushes} flushes)")
    };
    said("chain behind L0", mean.map(standing));
    said("widest compaction", Some(Bytes(store.widest_job).to_string()));
    let in_tables = |level: &LevelStats| {
        (level.tables > 0).then(|| format!("{} in {}", Bytes(level.bytes), level.tables))
    };
    said("levels (SSTs)", levels(store, in_tables));
    let of_target = |level: &LevelStats| {
        let target = level.target.filter(|target| *target > 0)?;
        Some(format!("{:.0} %", level.bytes as f64 / target as f64 * 100.0))
    };
    said("of their targets", levels(store, of_target));
    let good = |level: &LevelStats| {
        let percent = |good: u64| (good as f64 / level.tables as f64 * 100.0).round();
        let (count, ratio) = (percent(level.good_by_count), percent(level.good_by_ratio));
        format!("{count} % by count, {ratio} % by ratio")
    };
    let first = store.levels.get(1).filter(|level| level.tables > 0);
    said("good SSTs of L1", first.map(good));
    let VsstStats { into, good_by_count, good_by_ratio, out, poor } = store.vssts;
    let percent = |part: u64, of: u64| (part as f64 / of as f64 * 100.0).round();
    said(
        "SSTs into L1",
        (into > 0).then(|| {
            let (count, ratio) = (percent(good_by_count, into), percent(good_by_ratio, into));
            format!("{}: {count} % good by count, {ratio} % by ratio", grouped(into))
        }),
    );
    said(
        "SSTs out of L1",
        (out > 0).then(|| format!("{}: {} % poor", grouped(out), percent(poor, out))),
    );
    said("peak memory", report.peak_memory.map(|memory| peak_memory(memory, store.memory.limit)));
    if store.memory.limit > 0 {
        let (peak, limit) = (store.memory.peak, store.memory.limit);
        let percent = peak as f64 / limit as f64 * 100.0;
        let (peak, limit) = (Bytes(peak), Bytes(limit));
        let text = format!("at most {peak}: {percent:.1} % of its limit of {limit}");
        said("memory of the store", Some(text));
        for (kind, bytes) in store.memory.peaks.iter().filter(|(_, bytes)| *bytes > 0) {
            said(&format!("  {kind:<20}"), Some(format!("{} at most", Bytes(*bytes))));
        }
    }
    said("data", Some(report.data.clone()));
}

/// The peak of the process's memory, the driver's included. A store with a limit (none if 0) aims
/// to stay within a twentieth of it more and the memory of the process itself.
fn peak_memory(peak: u64, limit: u64) -> String {
    let bound = limit + limit / 20 + PROCESS_BYTES;
    let promise = match (limit, peak <= bound) {
        (0, _) => return format!("{} (process)", Bytes(peak)),
        (_, true) => "within",
        (_, false) => "above",
    };
    format!("{} (process), {promise} its limit × 1.05 + 16 MB: {}", Bytes(peak), Bytes(bound))
}

fn waited(store: &StoreStats) -> String {
    let (widest, longest) = (Bytes(store.chain_width), store.chain_length);
    match (store.chains, Micros(store.chain_waited_us)) {
        (0, _) => "no memtable had to wait for one".into(),
        (chains, time) => {
            let chains = grouped(chains);
            format!("{chains} waited for; widest {widest}, longest {longest} stages, {time}")
        }
    }
}

/// A text for each level that has one; `None` if no level has.
fn levels(store: &StoreStats, text: impl Fn(&LevelStats) -> Option<String>) -> Option<String> {
    let levels = store.levels.iter().enumerate();
    let texts = levels.filter_map(|(index, level)| Some(format!("L{index} {}", text(level)?)));
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(" · "))
}

/// A time given in microseconds.
fn micros(us: f64) -> String {
    if us < 100.0 { format!("{us:.1} µs") } else { Micros(us.round() as u64).to_string() }
}

fn number(value: f64) -> String {
    grouped(value.round() as u64)
}

/// A number with commas between thousands.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
