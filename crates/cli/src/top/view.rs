//! The sections of the screen as lines of text, each formatted for its width. The lines of a
//! section are in the order of their importance, because the last ones may not fit.
//!
//! Colours add no information to the text: yellow and red mark values that are slow or too large.

use super::reading::{Jobs, Keyspace, Latency, Level, Rates, Reading};
use crate::progress::grouped;
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span};
use std::collections::VecDeque;
use vlsm::ByteCount;

/// A part of the screen.
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Its lines. Lines at the end that do not fit are left out.
    pub lines: Vec<Line<'static>>,
}

const FAINT: Color = Color::DarkGray;
/// Eighths of a column's height.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Eighths of a bar's width.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A size.
pub fn size(bytes: f64) -> String {
    ByteCount(bytes.max(0.0) as u64).to_string()
}

/// A number, with decimals if it is small.
pub fn number(value: f64) -> String {
    match value {
        value if value > 0.0 && value < 9.95 => format!("{value:.1}"),
        value => grouped(value.round().max(0.0) as u64),
    }
}

/// A count.
fn count(value: f64) -> String {
    grouped(value.round().max(0.0) as u64)
}

/// A count with its noun.
fn counted(value: f64, one: &str, more: &str) -> String {
    format!("{} {}", count(value), if value == 1.0 { one } else { more })
}

/// A duration in about three digits.
pub fn short(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => (0.0, "s"),
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A long duration in its two largest units.
pub fn long(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A share in per cent.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A bar of `width` columns that is full at 1.
fn bar(share: f64, width: usize) -> (String, String) {
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let (whole, part) = (eighths / 8, eighths % 8);
    let mut filled = "█".repeat(whole);
    if part > 0 {
        filled.push(EIGHTHS[part - 1]);
    }
    let rest = width - whole - usize::from(part > 0);
    (filled, "·".repeat(rest))
}

fn bar_spans(share: f64, width: usize, colour: Color) -> [Span<'static>; 2] {
    let (filled, rest) = bar(share, width);
    [filled.fg(colour), rest.fg(FAINT)]
}

/// The last values as columns, the newest at the right end. The highest has full height.
pub fn sparkline(values: &VecDeque<Rates>, of: fn(&Rates) -> f64, width: usize) -> String {
    let highest = values.iter().map(of).fold(0.0, f64::max);
    let shown: Vec<f64> = values.iter().rev().take(width).map(of).collect();
    let column = |value: &f64| {
        let eighths = (value / highest.max(1e-9) * 8.0).ceil() as usize;
        eighths.checked_sub(1).map_or(' ', |at| BARS[at.min(7)])
    };
    shown.iter().rev().map(column).collect()
}

/// Rates, with their course over the last readings.
pub fn rates(now: &Rates, history: &VecDeque<Rates>, width: usize) -> Section {
    type Of = fn(&Rates) -> f64;
    let rows: [(&str, Of, bool); 7] = [
        ("puts", |rates| rates.puts, false),
        ("gets", |rates| rates.gets, false),
        ("written", |rates| rates.written, true),
        ("flushed", |rates| rates.flushed, true),
        ("compacted", |rates| rates.compacted, true),
        ("scans", |rates| rates.scans, false),
        ("commits", |rates| rates.commits, false),
    ];
    let line = |(name, of, is_size): (&'static str, Of, bool)| {
        let value = if is_size { size(of(now)) } else { number(of(now)) };
        let mut spans = vec![Span::raw(format!("{name:<9}")), format!("{value:>11}/s").bold()];
        let mut rest = width.saturating_sub(24);
        if name == "commits" && now.conflicts > 0.0 {
            let text = format!("  {} refused", number(now.conflicts));
            rest = rest.saturating_sub(text.chars().count());
            spans.push(text.fg(Color::Yellow));
        }
        spans.push(Span::raw("  "));
        let colour = if is_size { Color::Blue } else { Color::Cyan };
        spans.push(sparkline(history, of, rest).fg(colour));
        Line::from(spans)
    };
    Section { title: "Rates".into(), lines: rows.into_iter().map(line).collect() }
}

/// Latencies of the interval.
pub fn latencies(reading: &Reading, width: usize) -> Section {
    let column = (width.saturating_sub(7) / 3).clamp(8, 14);
    let heading = ["P50", "P99", "max"].map(|name| format!("{name:>column$}")).concat();
    let mut lines = vec![Line::from(format!("{:7}{heading}", "").fg(FAINT))];
    let of = &reading.latencies;
    let rows = [("write", of.write), ("get", of.get), ("scan", of.scan), ("commit", of.commit)];
    for (name, Latency { p50, p99, max, .. }) in rows {
        let cell = |value: Option<f64>| {
            let text = value.map_or("–".to_owned(), short);
            let padded = format!("{text:>column$}");
            match value {
                None => padded.fg(FAINT),
                Some(seconds) if seconds >= 0.1 => padded.fg(Color::Red),
                Some(seconds) if seconds >= 0.01 => padded.fg(Color::Yellow),
                Some(_) => Span::raw(padded),
            }
        };
        let mut spans = vec![Span::raw(format!("{name:<7}"))];
        spans.extend([p50, p99, max].map(cell));
        lines.push(Line::from(spans));
    }
    Section { title: "Latencies".into(), lines }
}

/// The jobs that make room in a place.
fn jobs_text(jobs: &Jobs) -> String {
    if jobs.count < 1.0 {
        return String::new();
    }
    let done = if jobs.bytes > 0.0 { percent(jobs.done / jobs.bytes) } else { String::new() };
    let paused = match jobs.paused {
        paused if paused > 0.0 => format!(", {} paused", count(paused)),
        _ => String::new(),
    };
    format!("▼ {} {done}{paused}", counted(jobs.count, "job", "jobs"))
}

/// Memtables and levels, each with a bar against its target.
pub fn levels(reading: &Reading, width: usize) -> Section {
    let wide = width >= 60;
    let jobs_width = if wide { 26 } else { 0 };
    let fixed = 4 + if wide { 10 } else { 0 } + 10 + 2 + 8 + jobs_width;
    let bar_width = width.saturating_sub(fixed).clamp(4, 60);
    let largest = reading.levels.iter().map(|level| level.bytes).fold(1.0, f64::max);
    let row = |(name, parts, bytes): (String, String, f64), bar: Bar, jobs: &Jobs| {
        let parts = if wide { format!("{parts:>10}") } else { String::new() };
        let mut spans = vec![Span::raw(format!("{name:<4}{parts}{:>10}  ", size(bytes)))];
        spans.extend(bar);
        if wide {
            spans.push(format!("  {}", jobs_text(jobs)).fg(Color::Green));
        }
        Line::from(spans)
    };
    let memtables = &reading.memtables;
    let fill = memtables.fill;
    let sealed = match memtables.sealed {
        sealed if sealed > 0.0 => format!("{} sealed", count(sealed)),
        _ => String::new(),
    };
    let colour = if fill >= 0.9 { Color::Red } else { Color::Magenta };
    let [filled, rest] = bar_spans(fill, bar_width, colour);
    let bar = [filled, rest, Span::raw(format!("{:>8}", percent(fill)))];
    let mut lines = vec![row(("mem".into(), sealed, memtables.bytes), bar, &memtables.jobs)];
    for level in &reading.levels {
        let bar = level_bar(level, largest, bar_width);
        let parts = match level.level {
            0 => counted(level.runs, "run", "runs"),
            _ => counted(level.ssts, "SST", "SSTs"),
        };
        lines.push(row((format!("L{}", level.level), parts, level.bytes), bar, &level.jobs));
    }
    Section { title: "Memtables and levels".into(), lines }
}

/// The filled and the empty part of a bar, and the text beside it.
type Bar = [Span<'static>; 3];

/// Runs of L0 one by one; other levels against their targets; the last level, which has none,
/// against the largest level.
fn level_bar(level: &Level, largest: f64, width: usize) -> Bar {
    let beside = |text: &str| Span::raw(format!("{text:>8}"));
    let (share, colour, text) = match (level.level, level.target) {
        (0, _) => {
            let runs = level.runs as usize;
            // Two columns for a run, while there is room.
            let drawn =
                if runs * 2 <= width { "▮ ".repeat(runs) } else { "▮".repeat(runs.min(width)) };
            let rest = " ".repeat(width - drawn.chars().count());
            let cut = if runs > width { "…" } else { "" };
            return [drawn.fg(Color::Yellow), Span::raw(rest), beside(cut)];
        }
        (_, Some(target)) => {
            let share = level.bytes / target;
            (share, if share > 1.0 { Color::Red } else { Color::Blue }, percent(share))
        }
        (_, None) => (level.bytes / largest, FAINT, String::new()),
    };
    let [filled, rest] = bar_spans(share, width, colour);
    [filled, rest, beside(&text)]
}

/// Waits by cause, and the chains behind which writes into keyspaces waited.
pub fn waits(reading: &Reading, width: usize) -> Section {
    let mut lines = Vec::new();
    if let Some(limit) = reading.health.write_limit {
        lines.push(Line::from(format!("writes limited to {}/s", size(limit)).fg(Color::Yellow)));
    }
    if reading.waits.is_empty() {
        lines.push(Line::from("no write waited".fg(Color::Green)));
    }
    for wait in &reading.waits {
        let share = wait.seconds / reading.seconds;
        let colour = match share {
            share if share >= 0.5 => Color::Red,
            share if share >= 0.05 => Color::Yellow,
            _ => Color::Reset,
        };
        let count = number(wait.count / reading.seconds);
        let text = format!("{:<14}{:>9}/s{:>7}", wait.cause, count, percent(share));
        let mut spans = vec![text.fg(colour)];
        if width >= 44 {
            let max = wait.max.map(short).unwrap_or_default();
            spans.push(Span::raw(format!("  max {max}")));
        }
        lines.push(Line::from(spans));
    }
    let waited = |keyspace: &&Keyspace| keyspace.chains.count > 0.0;
    for Keyspace { name, chains, .. } in reading.keyspaces.iter().filter(waited) {
        let waited = format!("{name}: {}", short(chains.waited));
        let chains = counted(chains.count, "chain", "chains") + " of " + &size(chains.width);
        let text = format!("{waited} behind {chains}");
        match text.chars().count() + 2 <= width {
            true => lines.push(Line::from(vec!["└ ".fg(FAINT), Span::raw(text)])),
            false => {
                lines.push(Line::from(vec!["└ ".fg(FAINT), Span::raw(waited)]));
                lines.push(Line::from(format!("    behind {chains}")));
            }
        }
    }
    Section { title: "Waits".into(), lines }
}

/// Memory, cache and files.
pub fn memory(reading: &Reading, width: usize) -> Section {
    let Reading { memory, cache, files, .. } = reading;
    let share = memory.bytes / memory.limit.max(1.0);
    let text = format!("memory  {} of {}  ", size(memory.bytes), size(memory.limit));
    let mut line = vec![Span::raw(text.clone())];
    let left = width.saturating_sub(text.chars().count() + 1).min(20);
    line.extend(bar_spans(share, left, if share > 0.95 { Color::Red } else { Color::Blue }));
    let kind = |name: &str| memory.kinds.iter().find(|(kind, _)| kind == name).map_or(0.0, |k| k.1);
    let reads = number((cache.hits + cache.misses) / reading.seconds);
    let hits = match cache.hit_share {
        None => ", not read".to_owned(),
        Some(hits) if width < 44 => format!(", {:.1} % hits", hits * 100.0),
        Some(hits) => format!(", {:.1} % of {reads} reads/s", hits * 100.0),
    };
    let age = files.oldest_snapshot.map(|age| format!(", {} old", long(age))).unwrap_or_default();
    let held = counted(files.snapshots, "snapshot", "snapshots") + &age;
    let ssts = |ssts: f64, bytes: f64| counted(ssts, "SST", "SSTs") + " " + &size(bytes);
    let wals = counted(files.wals, "file", "files") + " " + &size(files.wal_bytes);
    let mut lines = vec![
        Line::from(line),
        format!("cache   {}{hits}", size(kind("block cache"))).into(),
        format!("files   {}", ssts(files.ssts, files.sst_bytes)).into(),
        format!("WAL     {wals}").into(),
        format!("held    {held}").into(),
    ];
    if files.pinned > 0.0 {
        lines.push(format!("pinned  {}", ssts(files.pinned, files.pinned_bytes)).into());
    }
    lines.push(format!("indexes {}", size(kind("indexes and filters"))).into());
    Section { title: "Memory and files".into(), lines }
}

/// A column of the table of keyspaces.
struct Column {
    heading: &'static str,
    width: usize,
    cell: fn(&Keyspace) -> String,
}

/// The most important columns come first. Columns at the end that do not fit are left out.
const COLUMNS: [Column; 8] = [
    Column { heading: "size", width: 11, cell: |k| size(k.bytes) },
    Column { heading: "waited", width: 9, cell: |k| short(k.waited) },
    Column { heading: "runs", width: 6, cell: |k| count(k.l0_runs) },
    Column { heading: "debt", width: 11, cell: |k| size(k.debt) },
    Column { heading: "memtables", width: 11, cell: |k| size(k.memtable_bytes) },
    Column { heading: "chains", width: 8, cell: |k| count(k.chains.count) },
    Column { heading: "SSTs", width: 9, cell: |k| count(k.ssts) },
    Column { heading: "entries", width: 15, cell: |k| count(k.entries) },
];
/// The least width of a keyspace's name, and the greatest.
const NAME_WIDTHS: (usize, usize) = (12, 40);

/// A table of the keyspaces.
pub fn keyspaces(reading: &Reading, width: usize) -> Section {
    let mut left = width.saturating_sub(NAME_WIDTHS.0);
    let fits = |column: &&Column| {
        let fits = column.width <= left;
        left = if fits { left - column.width } else { 0 };
        fits
    };
    let shown: Vec<&Column> = COLUMNS.iter().take_while(fits).collect();
    let taken: usize = shown.iter().map(|column| column.width).sum();
    let name_width = width.saturating_sub(taken).min(NAME_WIDTHS.1);
    let row = |cell: &dyn Fn(&Column) -> String| -> String {
        shown.iter().map(|column| format!("{:>1$}", cell(column), column.width)).collect()
    };
    let heading = row(&|column| column.heading.to_owned());
    let mut lines = vec![Line::from(format!("{:name_width$}{heading}", "").fg(FAINT))];
    for keyspace in &reading.keyspaces {
        let name: String = match keyspace.name.chars().count() < name_width {
            true => keyspace.name.clone(),
            false => {
                let begin = keyspace.name.chars().take(name_width.saturating_sub(2));
                begin.chain(['…']).collect()
            }
        };
        let cells = row(&|column| (column.cell)(keyspace));
        let waits = keyspace.waited > 0.05 * reading.seconds;
        let colour = if waits { Color::Yellow } else { Color::Reset };
        lines.push(Line::from(format!("{name:<name_width$}{cells}").fg(colour)));
    }
    Section { title: format!("Keyspaces ({})", reading.keyspaces.len()), lines }
}
