//! An overview as Markdown: a table for each workload, a row for each store, medians of the rounds.
//! Their ranges are in the JSON.

use super::measure::Unit;
use super::result::{FigureResult, PointResult};
use super::text::number;
use super::unique;
use std::fmt::Write;

/// The columns: the head of each, and the names of the measures that share it.
const COLUMNS: [(&str, &[&str]); 11] = [
    ("operations/s", &["throughput"]),
    ("99 % of the time", &["tail throughput (99 %)"]),
    ("not served", &["not served"]),
    ("write P50, P99, P99.9, max", &["write P50", "write P99", "write P99.9", "write max"]),
    ("read P50, P99, P99.9, max", &["read P50", "read P99", "read P99.9", "read max"]),
    (
        "all P50, P99, P99.9, worst P99 of an interval",
        &["P50", "P99", "P99.9", "largest P99 of an interval"],
    ),
    ("at zero, longest", &["time at zero throughput", "longest time at zero throughput"]),
    ("I/O amp., write amp.", &["I/O amplification", "write amplification"]),
    ("chain: width, stages", &["chain width, mean", "chain length, mean"]),
    ("CPU µs/op", &["CPU per operation"]),
    ("memory", &["resident memory"]),
];

/// The tables of an overview.
#[must_use]
pub fn render(result: &FigureResult) -> String {
    let mut out = String::new();
    let rounds = result.rounds;
    let _ = writeln!(out, "`{}`\n", result.command);
    let _ = writeln!(out, "Commit {}, scale {}, {rounds} rounds.", result.commit, result.scale);
    if let Some(why) = result.why_not() {
        let _ = writeln!(out, "\nNot complete: {why}.");
    }
    for (what, all) in
        [("Debt left", &result.debts), ("Our driver beside a native loop", &result.drivers)]
    {
        if !all.is_empty() {
            let _ = writeln!(out, "\n{what}: {}.", all.join("; "));
        }
    }
    let points = || result.panels.iter().flat_map(|panel| &panel.points);
    let stores = unique(points().map(|point| point.series.as_str()));
    for workload in unique(points().map(|point| &point.x.label)) {
        table(&mut out, result, workload, &stores);
    }
    out
}

fn table(out: &mut String, result: &FigureResult, workload: &str, stores: &[&str]) {
    let cell = |store: &str, measures: &[&str]| {
        let values = measures.iter().map(|name| {
            let panel = result.panels.iter().find(|panel| panel.measure == *name)?;
            let of = |point: &&PointResult| point.series == store && point.x.label == workload;
            let summary = panel.points.iter().find(of)?.summary()?;
            Some(short(summary.median, panel.unit))
        });
        let values: Vec<Option<String>> = values.collect();
        match values.iter().all(Option::is_none) {
            true => "–".to_owned(),
            false => {
                values.into_iter().map(|v| v.unwrap_or("–".into())).collect::<Vec<_>>().join(", ")
            }
        }
    };
    // Leave out a column that no store fills, as writes of a workload that only reads.
    let told = |measures: &[&str]| stores.iter().any(|store| cell(store, measures) != "–");
    let columns: Vec<_> = COLUMNS.into_iter().filter(|(_, measures)| told(measures)).collect();
    let _ = writeln!(out, "\n**{workload}**\n");
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let _ = writeln!(out, "| store | {} |", heads.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(heads.len()));
    for store in stores {
        let cells: Vec<String> = columns.iter().map(|(_, m)| cell(store, m)).collect();
        let _ = writeln!(out, "| {store} | {} |", cells.join(" | "));
    }
}

/// A number in few characters.
fn short(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Rate if value >= 10_000.0 => format!("{:.0} k", value / 1e3),
        Unit::Rate if value >= 1_000.0 => format!("{:.1} k", value / 1e3),
        Unit::Rate => format!("{value:.0}"),
        Unit::Micros if value >= 10e6 => format!("{:.0} s", value / 1e6),
        Unit::Micros if value >= 1e6 => format!("{:.1} s", value / 1e6),
        Unit::Micros if value >= 10e3 => format!("{:.0} ms", value / 1e3),
        Unit::Micros if value >= 1e3 => format!("{:.1} ms", value / 1e3),
        Unit::Micros if value == 0.0 => "0".into(),
        Unit::Micros => format!("{value:.0} µs"),
        Unit::Number if value >= 100.0 => format!("{value:.0}"),
        Unit::Number => format!("{value:.1}"),
        _ => number(value, unit),
    }
}
