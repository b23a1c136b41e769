//! A figure's result for the terminal: what the paper says, what was found, the verdicts. For a
//! figure that is not measured, the reason stands in place of what was found.

use super::measure::Unit;
use super::result::{ClaimResult, FigureResult, PanelResult, Summary};
use std::fmt::Write;
use vlsm_core::{Bytes, Micros};
use vlsm_measure::report::table::grouped;

/// The width of the widest line.
const WIDTH: usize = 98;

/// The result as text for the terminal.
#[must_use]
pub fn render(result: &FigureResult) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}: {} (scale {})", result.id, result.title, result.scale);
    wrapped(&mut out, "the paper: ", &result.says);
    if !result.here.is_empty() {
        wrapped(&mut out, "here: ", &result.here);
    }
    for missing in &result.not_built {
        wrapped(&mut out, "not there: ", missing);
    }
    if let Some(beside) = result.beside() {
        wrapped(&mut out, "beside: ", &beside);
    }
    for added in &result.added {
        if let Some(why) = &added.why_not {
            wrapped(&mut out, "", &format!("{} is not shown: {why}", added.store));
        }
    }
    match result.why_not() {
        Some(why) => wrapped(&mut out, "", &why),
        None => result.panels.iter().for_each(|panel| panel_text(&mut out, panel)),
    }
    for claim in &result.claims {
        claim_text(&mut out, claim);
    }
    out
}

fn wrapped(out: &mut String, label: &str, text: &str) {
    let mut line = format!("  {label}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(4);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{line}");
}

/// A number with its unit.
#[must_use]
pub fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Rate => format!("{}/s", grouped(value.round() as u64)),
        Unit::Micros if value < 100.0 => format!("{value:.1} µs"),
        Unit::Micros => Micros(value.round() as u64).to_string(),
        Unit::Bytes => Bytes(value.round() as u64).to_string(),
        Unit::ByteRate => format!("{}/s", Bytes(value.round() as u64)),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Number if value >= 1e6 => "very much".into(),
        Unit::Number => format!("{value:.2}"),
    }
}

fn between(summary: Summary, unit: Unit) -> String {
    let median = number(summary.median, unit);
    if summary.least == summary.largest {
        return median;
    }
    format!("{median} ({} – {})", number(summary.least, unit), number(summary.largest, unit))
}

fn panel_text(out: &mut String, panel: &PanelResult) {
    let _ = writeln!(out, "  {}: {}", panel.title, panel.measure);
    for point in &panel.points {
        let value = match (&point.missing, point.summary()) {
            (Some(why), _) => why.clone(),
            (None, Some(summary)) => between(summary, panel.unit),
            (None, None) => "over time, see the page".into(),
        };
        let _ = writeln!(out, "    {:<22} {:>12}  {value}", point.series, point.x.label);
    }
}

fn claim_text(out: &mut String, claim: &ClaimResult) {
    let text = format!("{}: {}", claim.verdict.words(), claim.text);
    wrapped(out, "• ", &text);
    if let Some(summary) = claim.summary {
        let _ = writeln!(out, "      found {}", between(summary, claim.unit));
    }
    if let Some(why) = &claim.missing {
        wrapped(out, "    ", why);
    }
}
