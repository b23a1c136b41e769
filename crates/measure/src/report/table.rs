//! A report as a table for people: a row for each figure, a column for each phase.
//!
//! Rows without any figure are left out. The method comes first, because figures mean nothing
//! without it.

use super::{Amplification, PhaseReport, Report, statistic};
use crate::arrivals::Arrivals;
use crate::metrics::{Group, Percentiles, Stalls};
use crate::store::LevelStats;
use std::fmt::Write;
use vlsm_core::{Bytes, Micros};

const LABEL: usize = 26;
const COLUMN: usize = 22;

/// The table of a report.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    method(report, &mut out);
    phases(report, &mut out);
    end(report, &mut out);
    out
}

/// Adds a line. Writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
    out.push('\n');
}

fn method(report: &Report, out: &mut String) {
    let method = &report.method;
    let machine = &method.machine;
    let memory = machine.memory.map_or("unknown memory".into(), |bytes| Bytes(bytes).to_string());
    line(out, format_args!("{} {}, profile {}", method.store, method.version, method.profile));
    line(
        out,
        format_args!(
            "  machine  {} × {}, {memory}, {}",
            machine.cores, machine.cpu, machine.system
        ),
    );
    let pair = (method.key_size + method.value_size) as u64;
    line(
        out,
        format_args!(
            "  data     {} pairs of {} + {} bytes ({})\n  load     {}",
            grouped(method.pairs),
            method.key_size,
            method.value_size,
            Bytes(method.pairs * pair),
            method.load,
        ),
    );
    let options: Vec<_> =
        method.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
    for (index, row) in options.chunks(4).enumerate() {
        let label = if index == 0 { "options" } else { "" };
        line(out, format_args!("  {label:8} {}", row.join(", ")));
    }
    let floor = &method.floor;
    let load = floor.rate.map_or("closed loop".into(), |rate| format!("{}/s", number(rate)));
    line(
        out,
        format_args!(
            "  driver   {} clients; alone ({load}): P99 {}, P99.9 {}, {:.2} µs CPU per operation",
            method.threads,
            micros(floor.p99_us),
            micros(floor.p999_us),
            floor.cpu_us_per_op,
        ),
    );
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
    for group in [Group::Write, Group::Read, Group::Scan, Group::Transaction] {
        latencies(out, all, group);
    }
    row(out, all, "CPU per operation", |phase| Some(format!("{:.2} µs", phase.cpu_us_per_op)));
    row(out, all, "a 4 KB read beside, P99", |phase| {
        phase.device_beside.as_ref().map(|reads| micros(reads.p99_us))
    });
    row(out, all, "write amplification", |phase| {
        both(phase.amplification.write(), phase.amplification.device_write())
    });
    row(out, all, "I/O amplification", |phase| {
        both(phase.amplification.io(), phase.amplification.device_io())
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
    out.push('\n');
}

/// A figure by the store's counters, and the same by the system's.
fn both(store: Option<f64>, device: Option<f64>) -> Option<String> {
    Some(match (store?, device) {
        (store, Some(device)) => format!("{store:.2} ({device:.2} system)"),
        (store, None) => format!("{store:.2}"),
    })
}

fn latencies(out: &mut String, phases: &[PhaseReport], group: Group) {
    type Take = fn(&Percentiles) -> f64;
    let percentiles: [(&str, Take); 6] = [
        ("P50", |p| p.p50_us),
        ("P90", |p| p.p90_us),
        ("P99", |p| p.p99_us),
        ("P99.9", |p| p.p999_us),
        ("P99.99", |p| p.p9999_us),
        ("max", |p| p.max_us),
    ];
    for (name, take) in percentiles {
        let label = format!("{} {name}", group.name());
        row(out, phases, &label, |phase| phase.percentiles(group).map(|p| micros(take(p))));
    }
}

fn waits(out: &mut String, phases: &[PhaseReport]) {
    let causes: Vec<_> = phases.iter().flat_map(|phase| &phase.store.waits).collect();
    let mut seen = Vec::new();
    for cause in causes.iter().filter(|wait| wait.count > 0).map(|wait| wait.cause.as_str()) {
        if seen.contains(&cause) {
            continue;
        }
        seen.push(cause);
        row(out, phases, &format!("waits: {cause}"), |phase| {
            let wait = phase.store.waits.iter().find(|wait| wait.cause == cause)?;
            (wait.count > 0).then(|| format!("{} × {}", grouped(wait.count), micros(mean(wait))))
        });
    }
}

fn mean(wait: &crate::store::WaitStats) -> f64 {
    wait.total_us as f64 / wait.count.max(1) as f64
}

fn end(report: &Report, out: &mut String) {
    let settled = match report.settled {
        Some(seconds) => format!("background work ended {seconds:.1} s later"),
        None => "background work had not ended".into(),
    };
    line(out, format_args!("whole run ({settled})"));
    amplification(&report.amplification, out);
    let store = &report.store;
    let space = report.space_amplification().map_or("–".into(), |space| format!("{space:.2}"));
    line(out, format_args!("  space amplification {space}: {} of files", Bytes(store.disk_bytes)));
    match store.chains {
        0 => line(out, format_args!("  compaction chains   no memtable had to wait for one")),
        chains => line(
            out,
            format_args!(
                "  compaction chains   {} waited for; widest {}, longest {} stages, {}",
                grouped(chains),
                Bytes(store.chain_width),
                store.chain_length,
                Micros(store.chain_waited_us),
            ),
        ),
    }
    if let Some(mean) = store.standing_bytes.checked_div(store.standing_count) {
        line(
            out,
            format_args!(
                "  chain behind L0     widest {}, mean {}, longest {} stages ({} flushes)",
                Bytes(store.standing_width),
                Bytes(mean),
                store.standing_length,
                grouped(store.standing_count),
            ),
        );
    }
    line(out, format_args!("  widest compaction   {}", Bytes(store.widest_job)));
    levels(&store.levels, out);
    memory(report, out);
    line(out, format_args!("  data                {}", report.data));
}

fn memory(report: &Report, out: &mut String) {
    if let Some(memory) = report.peak_memory {
        line(out, format_args!("  peak memory         {} (process)", Bytes(memory)));
    }
    let memory = &report.store.memory;
    if memory.limit == 0 {
        return;
    }
    let percent = memory.peak as f64 / memory.limit as f64 * 100.0;
    line(
        out,
        format_args!(
            "  memory of the store at most {}: {percent:.1} % of its limit of {}",
            Bytes(memory.peak),
            Bytes(memory.limit),
        ),
    );
    for (kind, bytes) in memory.peaks.iter().filter(|(_, bytes)| *bytes > 0) {
        line(out, format_args!("    {kind:<20} {} at most", Bytes(*bytes)));
    }
}

fn levels(levels: &[LevelStats], out: &mut String) {
    let used: Vec<_> = (levels.iter().enumerate())
        .filter(|(_, level)| level.tables > 0)
        .map(|(index, level)| format!("L{index} {} in {}", Bytes(level.bytes), level.tables))
        .collect();
    if !used.is_empty() {
        line(out, format_args!("  levels (SSTs)       {}", used.join(" · ")));
    }
    let full = |(index, level): (usize, &LevelStats)| {
        let target = level.target.filter(|target| *target > 0)?;
        Some(format!("L{index} {:.0} %", level.bytes as f64 / target as f64 * 100.0))
    };
    let full: Vec<_> = levels.iter().enumerate().filter_map(full).collect();
    if !full.is_empty() {
        line(out, format_args!("  of their targets    {}", full.join(" · ")));
    }
    let Some(first) = levels.get(1).filter(|level| level.tables > 0) else { return };
    let percent = |good: u64| (good as f64 / first.tables as f64 * 100.0).round();
    let (count, ratio) = (percent(first.good_by_count), percent(first.good_by_ratio));
    line(out, format_args!("  good SSTs of L1     {count} % by count, {ratio} % by ratio"));
}

fn amplification(amp: &Amplification, out: &mut String) {
    if let Some(write) = both(amp.write(), amp.device_write()) {
        line(out, format_args!("  write amplification {write}"));
    }
    if let Some(io) = both(amp.io(), amp.device_io()) {
        line(out, format_args!("  I/O amplification   {io}"));
    }
    if let Some(verdict) = amp.verdict() {
        line(out, format_args!("  the store's counters and the system's {verdict}"));
    }
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
