//! Reports as CSV (RFC 4180), for other programs: [`summary`] has a row for each run and phase,
//! [`series`] one for each interval of each phase.
//!
//! Units are in the names of columns; a figure that was not measured is an empty cell.

use vlsm_measure::metrics::Point;
use vlsm_measure::report::chart::Unit;
use vlsm_measure::report::statistic::{self, Statistic};
use vlsm_measure::report::{PhaseReport, Report};

/// The figures of all runs: each run has a row for each of its phases and one for the whole run.
#[must_use]
pub fn summary(reports: &[Report]) -> String {
    let (of_phases, of_runs) = (statistic::of_phases(), statistic::of_runs());
    let mut head = ["run", "store", "profile", "commit", "phase", "load", "seconds", "operations"]
        .map(str::to_owned)
        .to_vec();
    head.extend(of_phases.iter().map(column));
    head.extend(of_runs.iter().map(|figure| format!("run {}", column(figure))));
    let mut out = row(&head);
    for (report, name) in reports.iter().zip(statistic::names(reports)) {
        let method = &report.method;
        let line = |what: [String; 4], phase: Option<&PhaseReport>| {
            let run = phase.is_none().then_some(report);
            let mut cells =
                [&name, &method.store, &method.profile, &method.commit].map(String::clone).to_vec();
            cells.extend(what);
            cells.extend(of_phases.iter().map(|figure| cell(phase.and_then(figure.take))));
            cells.extend(of_runs.iter().map(|figure| cell(run.and_then(figure.take))));
            row(&cells)
        };
        for (label, phase) in statistic::phases(report) {
            let (load, seconds) = (statistic::arrivals(&phase.arrivals), phase.seconds);
            out += &line([label, load, seconds.to_string(), phase.ops.to_string()], Some(phase));
        }
        let seconds = report.phases.iter().map(|phase| phase.seconds).sum::<f64>().to_string();
        let ops = report.phases.iter().map(|phase| phase.ops).sum::<u64>().to_string();
        out += &line(["whole run".into(), String::new(), seconds, ops], None);
    }
    out
}

type Column = (&'static str, fn(&Point) -> f64);

/// The latencies of an interval. An interval without operations has none.
const LATENCIES: [Column; 7] = [
    ("reads P50 µs", |point| point.read_p50_us),
    ("reads P99 µs", |point| point.read_p99_us),
    ("reads P99.9 µs", |point| point.read_p999_us),
    ("writes P50 µs", |point| point.write_p50_us),
    ("writes P99 µs", |point| point.write_p99_us),
    ("writes P99.9 µs", |point| point.write_p999_us),
    ("max µs", |point| point.max_us),
];

/// All runs with a row for each interval of each phase.
#[must_use]
pub fn series(reports: &[Report]) -> String {
    let mut head = ["run", "phase", "at s", "seconds", "operations"].map(str::to_owned).to_vec();
    head.extend(LATENCIES.map(|(name, _)| name.to_owned()));
    head.push("backlog".into());
    let mut out = row(&head);
    for (report, name) in reports.iter().zip(statistic::names(reports)) {
        for (label, phase) in statistic::phases(report) {
            for (at, point) in phase.series.placed() {
                let mut cells = vec![name.clone(), label.clone(), cell(Some(at))];
                cells.extend([cell(Some(point.seconds)), point.ops.to_string()]);
                let known = |(_, of): Column| cell(Some(of(point)).filter(|us| *us > 0.0));
                cells.extend(LATENCIES.map(known));
                cells.push(point.backlog.to_string());
                out += &row(&cells);
            }
        }
    }
    out
}

/// A figure's name with its unit.
fn column<T>(statistic: &Statistic<T>) -> String {
    let unit = match statistic.unit {
        Unit::Plain | Unit::Times => "",
        Unit::PerSecond => " 1/s",
        Unit::Micros => " µs",
        Unit::Seconds => " s",
        Unit::Bytes => " bytes",
        Unit::Percent => " %",
    };
    format!("{}{unit}", statistic.name)
}

fn cell(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| value.to_string())
}

/// A line; cells that need it are quoted.
fn row(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}
