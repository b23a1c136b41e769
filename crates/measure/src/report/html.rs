//! Reports as one HTML file for people. The file contains everything and loads nothing.
//!
//! From top to bottom: one table with a column for each run and the best value of each row marked;
//! the charts of each phase, all runs overlaid; the method; the exact configurations and the
//! command. A missing value is shown as not measured.
//!
//! The page is well-formed XML too, so that tests can read it.

use super::chart::{Colour, Unit};
use super::phase::{self, Of};
use super::statistic::{self, Better, Statistic};
use super::theme::{self, escape};
use super::{PhaseReport, Report};
use crate::store::LevelStats;
use std::fmt::Write;
use vlsm_core::Bytes;

/// Pixels of a chart over the whole width, and over half of it.
pub const FULL: u32 = 1072;
const HALF: u32 = 520;

/// The page of one or several runs.
#[must_use]
pub fn page(reports: &[Report], title: &str) -> String {
    let mut body = String::from("<h2>Result</h2>");
    let names = statistic::names(reports);
    if reports.len() > 1 {
        body.push_str(
            "<p>The best value of each row is marked. Each store ran once: only several pairs of \
             runs show how much the values vary.</p>",
        );
    }
    summary(reports, &names, &mut body);
    sections(reports, &names, &mut body);
    document(title, &body)
}

/// A page with this title and this body.
#[must_use]
pub fn document(title: &str, body: &str) -> String {
    let (title, chart, page, script) = (escape(title), theme::CHART, theme::PAGE, theme::SCRIPT);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width\"/><title>{title}</title>\
         <style>{chart}{page}</style></head>\n<body><main><h1>{title}</h1>\n{body}\
         </main>\n<script>/*<![CDATA[*/{script}/*]]>*/</script></body></html>\n"
    )
}

/// Writes the parts after the table: the charts of these runs, their method and their
/// configurations.
pub fn sections(reports: &[Report], names: &[String], out: &mut String) {
    for label in statistic::phase_labels(reports) {
        charts(reports, names, &label, out);
    }
    out.push_str("<h2>How it was measured</h2>");
    method(reports, names, out);
    configuration(reports, names, out);
}

/// A table cell for a value; `None` was not measured.
#[must_use]
pub fn cell(value: Option<&str>) -> String {
    value.map_or_else(|| td(" class=\"none\"", "not measured"), |text| td("", text))
}

/// A table cell with these attributes.
fn td(attributes: &str, text: &str) -> String {
    format!("<td{attributes}>{}</td>", escape(text))
}

/// Writes a row of a table: its name, and its cells.
fn row(name: &str, cells: impl Iterator<Item = String>, out: &mut String) {
    let cells: String = cells.collect();
    let _ = write!(out, "<tr><th>{}</th>{cells}</tr>", escape(name));
}

/// Writes the head of a table that has a column for each store, in the store's colour.
pub fn head(names: &[String], out: &mut String) {
    out.push_str("<thead><tr><th></th>");
    for (slot, name) in names.iter().enumerate() {
        let (colour, name) = (Colour::Slot(slot).css(), escape(name));
        let _ = write!(
            out,
            "<th><span class=\"dot-key\" style=\"background:{colour}\"></span>{name}</th>"
        );
    }
    out.push_str("</tr></thead>");
}

type Said = fn(&Report) -> String;

/// The rows of a report's method: name and text. A text is empty if the report lacks it.
const METHOD: [(&str, Said); 16] = [
    ("store", |run| run.method.store.clone()),
    ("profile", |run| run.method.profile.clone()),
    ("options", |run| {
        let one = |(name, value): &(String, String)| format!("{name} {value}");
        run.method.options.iter().map(one).collect::<Vec<_>>().join(", ")
    }),
    ("program", |run| format!("version {}", run.method.version)),
    ("commit", |run| run.method.commit.clone()),
    ("machine", |run| statistic::machine(&run.method.machine)),
    ("limits", |run| run.method.limits.clone()),
    ("data", |run| {
        let method = &run.method;
        format!(
            "{} pairs of {} + {} bytes: {}",
            super::table::grouped(method.pairs),
            method.key_size,
            method.value_size,
            method.data_size()
        )
    }),
    ("load", |run| run.method.load.clone()),
    ("levels when the last phase began", |run| match run.phases.last() {
        Some(PhaseReport { samples, store, .. }) if !samples.is_empty() => {
            fullness(&store.levels, &samples[0].levels)
        }
        _ => String::new(),
    }),
    ("debt left", debts),
    ("levels at the end", |run| {
        let levels = &run.store.levels;
        fullness(levels, &levels.iter().map(|level| level.bytes).collect::<Vec<_>>())
    }),
    ("clients", |run| format!("{} threads, seed {}", run.method.threads, run.method.seed)),
    ("the driver alone", |run| {
        let floor = &run.method.floor;
        let rate = floor.rate.map_or("closed loop".into(), |r| Unit::PerSecond.text(r));
        let us = |us| Unit::Micros.text(us);
        format!(
            "{rate}: P99 {}, P99.9 {}, {} of processor per operation",
            us(floor.p99_us),
            us(floor.p999_us),
            us(floor.cpu_us_per_op)
        )
    }),
    ("device by the kernel's counters", |run| run.method.block.clone()),
    ("bytes, store against system", |run| run.amplification.verdict().unwrap_or_default()),
];

/// The phases that left debt, each with the level that is furthest beyond its bound.
fn debts(run: &Report) -> String {
    let debts: Vec<_> = statistic::phases(run)
        .into_iter()
        .filter_map(|(label, phase)| Some((label, run.debt(phase)?)))
        .collect();
    let left: Vec<String> = debts
        .iter()
        .filter(|(_, debt)| !debt.is_bounded())
        .map(|(label, debt)| format!("{label}: {debt}"))
        .collect();
    match (debts.is_empty(), left.is_empty()) {
        (true, _) => String::new(),
        (false, true) => "none".into(),
        (false, false) => left.join("; "),
    }
}

/// The fullness of each level at a moment when they had these bytes:
/// `L1 251 MB of 256 MB (98 %)`.
fn fullness(levels: &[LevelStats], bytes: &[u64]) -> String {
    let one = |(index, level): (usize, &LevelStats)| {
        let bytes = bytes.get(index).copied().unwrap_or(0);
        match level.target.filter(|target| *target > 0) {
            Some(target) => {
                let percent = bytes as f64 / target as f64 * 100.0;
                Some(format!("L{index} {} of {} ({percent:.0} %)", Bytes(bytes), Bytes(target)))
            }
            None => (bytes > 0).then(|| format!("L{index} {}", Bytes(bytes))),
        }
    };
    levels.iter().enumerate().filter_map(one).collect::<Vec<_>>().join(", ")
}

fn method(reports: &[Report], names: &[String], out: &mut String) {
    out.push_str("<div class=\"wide\"><table class=\"method\">");
    if names.len() > 1 {
        head(names, out);
    }
    out.push_str("<tbody>");
    for (name, said) in METHOD {
        let mut all: Vec<String> = reports.iter().map(said).collect();
        let mut span = String::new();
        // A text that all reports share is one cell over all columns.
        if all.iter().all(|text| *text == all[0]) {
            span = format!(" colspan=\"{}\"", reports.len());
            all.truncate(1);
        }
        let cell = |text: &String| match text.as_str() {
            "" => td(&format!("{span} class=\"none\""), "not recorded"),
            text => td(&span, text),
        };
        row(name, all.iter().map(cell), out);
    }
    out.push_str("</tbody></table></div>");
}

fn summary(reports: &[Report], names: &[String], out: &mut String) {
    out.push_str("<div class=\"wide\"><table>");
    head(names, out);
    out.push_str("<tbody>");
    for label in statistic::phase_labels(reports) {
        let phases: Vec<_> = reports.iter().map(|run| statistic::phase(run, &label)).collect();
        group(&label, names.len(), out);
        let load = |phase: &PhaseReport| {
            let stopped = if phase.stopped { ", stopped" } else { "" };
            let seconds = Unit::Seconds.text(phase.seconds);
            format!("{}, {seconds}{stopped}", statistic::arrivals(&phase.arrivals))
        };
        row("load", phases.iter().map(|phase| cell(phase.map(load).as_deref())), out);
        for statistic in statistic::of_phases() {
            let take = |phase: &Option<_>| phase.and_then(statistic.take);
            values(&statistic, &phases.iter().map(take).collect::<Vec<_>>(), out);
        }
    }
    group("whole run", names.len(), out);
    for statistic in statistic::of_runs() {
        values(&statistic, &reports.iter().map(statistic.take).collect::<Vec<_>>(), out);
    }
    out.push_str("</tbody></table></div>");
}

/// Writes a row that names the following group of rows.
pub fn group(label: &str, columns: usize, out: &mut String) {
    let (label, span) = (escape(label), columns + 1);
    let _ = write!(out, "<tr class=\"group\"><th colspan=\"{span}\">{label}</th></tr>");
}

/// Writes a row of figures; nothing if no run has the figure.
fn values<T>(statistic: &Statistic<T>, values: &[Option<f64>], out: &mut String) {
    let known = || values.iter().flatten().copied();
    let better = if statistic.better == Better::Higher { f64::max } else { f64::min };
    let Some(best) = known().reduce(better) else { return };
    // Equal values, or a single one, are not marked as best.
    let best_text = statistic.unit.text(best);
    let equal = known().all(|value| statistic.unit.text(value) == best_text);
    let cell = |value: &Option<f64>| match value.map(|value| statistic.unit.text(value)) {
        Some(text) if text == best_text && !equal => td(" class=\"best\"", &text),
        text => cell(text.as_deref()),
    };
    row(statistic.name, values.iter().map(cell), out);
}

fn charts(reports: &[Report], names: &[String], label: &str, out: &mut String) {
    let of = |(slot, report): (usize, _)| {
        let phase = statistic::phase(report, label)?;
        Some(Of { name: &names[slot], slot, phase })
    };
    let all: Vec<Of> = reports.iter().enumerate().filter_map(of).collect();
    let (charts, missing) = phase::charts(&all);
    let _ = write!(out, "<h2>{}</h2><div class=\"charts\">", escape(label));
    for placed in charts {
        let (class, width) = if placed.full { (" class=\"full\"", FULL) } else { ("", HALF) };
        let svg = placed.chart.svg(width, placed.height);
        let _ = write!(out, "<figure{class}>{svg}</figure>");
    }
    out.push_str("</div>");
    if !missing.is_empty() {
        let _ = write!(out, "<p class=\"none\">Not measured: {}.</p>", missing.join(", "));
    }
}

fn configuration(reports: &[Report], names: &[String], out: &mut String) {
    out.push_str("<h2>Exact configuration</h2>");
    for (report, name) in reports.iter().zip(names) {
        let _ = write!(out, "<details><summary>{}</summary>", escape(name));
        let method = &report.method;
        match method.command.as_str() {
            "" => out.push_str("<p class=\"none\">The command was not recorded.</p>"),
            command => {
                let _ = write!(out, "<pre>{}</pre>", escape(command));
            }
        }
        let json = match &method.spec {
            Some(spec) => serde_json::to_string_pretty(spec),
            None => serde_json::to_string_pretty(method),
        };
        // Plain values always have an encoding.
        let _ = write!(out, "<pre>{}</pre></details>", escape(&json.unwrap_or_default()));
    }
}
