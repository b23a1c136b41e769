//! A comparison as a page: one table with a column for each store, the charts of one run of each
//! store overlaid, the method, and the ratios pair by pair. The page loads nothing from elsewhere.

use super::{Comparison, Ratio, Row, Runs, Verdict, plain};
use std::fmt::Write;
use vlsm_measure::report::Report;
use vlsm_measure::report::chart::{Axis, Chart, Colour, Mark, Point, Rule, Series, Unit};
use vlsm_measure::report::html::{FULL, cell, document, group, head, sections};
use vlsm_measure::report::theme::escape;

/// The page of stores that were run in turns: the comparison, then the charts of each store's
/// median run by throughput.
#[must_use]
pub fn render(stores: &[Runs], title: &str) -> String {
    let found = Comparison::new(stores);
    let mut body = String::new();
    medians(&found, &mut body);
    let (names, reports): (Vec<String>, Vec<Report>) = stores
        .iter()
        .filter_map(|runs| Some((runs.name.clone(), middle(&runs.reports)?.clone())))
        .unzip();
    body.push_str("<p>The charts show one run of each store: the middle one by throughput.</p>");
    sections(&reports, &names, &mut body);
    compared(&found, &mut body);
    document(title, &body)
}

/// The median run by the throughput of the last phase.
fn middle(reports: &[Report]) -> Option<&Report> {
    let throughput = |run: &&Report| run.phases.last().map_or(0.0, |phase| phase.throughput);
    let mut sorted: Vec<&Report> = reports.iter().collect();
    sorted.sort_by(|a, b| throughput(a).total_cmp(&throughput(b)));
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// Writes one table: the medians of each store, and how they compare with the baseline's.
fn medians(found: &Comparison, out: &mut String) {
    out.push_str("<h2>Result</h2>");
    let baseline = escape(&found.names[0]);
    let _ = write!(
        out,
        "<p>{} Beside a median stands its ratio to that of {baseline}, coloured where the \
         difference is shown.</p><div class=\"wide\"><table>",
        escape(&found.method())
    );
    head(&found.names, out);
    out.push_str("<tbody>");
    for (phase, rows) in found.groups() {
        group(phase, found.names.len(), out);
        for row in rows {
            let _ = write!(out, "<tr><th>{}</th>", escape(row.statistic));
            for (store, ratio) in row.ratios.iter().enumerate() {
                match (row.median(store), ratio) {
                    (Some(median), Some(ratio)) => {
                        let (class, times) = (class(ratio.verdict), plain(ratio.median));
                        let _ = write!(
                            out,
                            "<td>{median} <span class=\"{class}\">×{times}</span></td>"
                        );
                    }
                    (median, _) => out.push_str(&cell(median.as_deref())),
                }
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</tbody></table></div>");
}

/// The CSS class of a verdict.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoDifferenceShown | Verdict::TooFew(_) => "none",
    }
}

/// Writes the ratios pair by pair: a chart and a table for each store except the baseline.
fn compared(found: &Comparison, out: &mut String) {
    let baseline = escape(&found.names[0]);
    out.push_str("<h2>Ratios pair by pair</h2>");
    for other in 1..found.names.len() {
        let name = escape(&found.names[other]);
        let _ = write!(out, "<details><summary>{name} beside {baseline}</summary>");
        if let Some(chart) = ratios(found, other) {
            let rows = chart.series.iter().map(|series| series.points.len()).sum::<usize>();
            let svg = chart.svg(FULL, 110 + 22 * rows as u32);
            let _ = write!(out, "<figure>{svg}</figure>");
        }
        let _ = write!(
            out,
            "<div class=\"wide\"><table><thead><tr><th></th><th>{baseline}</th><th>{name}</th>\
             <th>ratio</th><th>interval</th><th>pair by pair</th><th>verdict</th></tr></thead>\
             <tbody>"
        );
        for (phase, rows) in found.groups() {
            group(phase, 6, out);
            rows.iter().for_each(|row| compared_row(row, other, out));
        }
        out.push_str("</tbody></table></div></details>");
    }
}

fn compared_row(row: &Row, other: usize, out: &mut String) {
    let median = |store: usize| cell(row.median(store).as_deref());
    let _ = write!(out, "<tr><th>{}</th>{}{}", escape(row.statistic), median(0), median(other));
    let Some(ratio) = &row.ratios[other] else {
        out.push_str("<td colspan=\"4\" class=\"none\">no pair has both</td></tr>");
        return;
    };
    let class = class(ratio.verdict);
    let (low, high) = ratio.interval;
    let pairs: Vec<String> = ratio.pairs.iter().map(|ratio| plain(*ratio)).collect();
    let _ = write!(
        out,
        "<td>{}</td><td>{} – {}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
        plain(ratio.median),
        plain(low),
        plain(high),
        pairs.join(" "),
        ratio.verdict,
    );
}

/// The ratios with their intervals, on a logarithmic axis around 1.
fn ratios(found: &Comparison, other: usize) -> Option<Chart> {
    let finite = |v: f64| v.is_finite() && v > 0.0;
    let usable = |row: &Row| {
        let ratio = row.ratios[other].clone()?;
        let all = [ratio.median, ratio.interval.0, ratio.interval.1];
        let name = row.phase.iter().map(|phase| format!("{phase}: ")).collect::<String>();
        all.into_iter().all(finite).then_some((name + row.statistic, ratio))
    };
    let (names, ratios): (Vec<String>, Vec<Ratio>) = found.rows.iter().filter_map(usable).unzip();
    let kinds = [
        ("better", "better", Colour::Slot(2)),
        ("worse", "worse", Colour::Slot(1)),
        ("none", "no difference shown", Colour::Muted),
    ];
    let series = kinds.map(|(kind, name, colour)| {
        let own = ratios.iter().enumerate().filter(|(_, ratio)| class(ratio.verdict) == kind);
        let points = own.map(|(index, ratio)| Point {
            x: ratio.median,
            y: index as f64,
            interval: ratio.interval,
        });
        Series::new(name, Mark::Dots, points).colour(colour)
    });
    (!ratios.is_empty()).then(|| Chart {
        title: format!("{} ÷ {}", found.names[other], found.names[0]),
        x: Axis::log("median of the ratios pair by pair, and its interval", Unit::Times),
        y: Axis::names(names),
        series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
        rules: vec![Rule { at: 1.0, upright: true, label: "equal".into() }],
        ..Chart::default()
    })
}
