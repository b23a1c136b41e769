//! Reports as CSV (RFC 4180), for other programs: [`summary`] has a row for each run and phase,
//! [`series`] one for each interval of each phase.
//!
//! Units are in the names of columns; a figure that was not measured is an empty cell.

use std::fmt::Write;
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
        let who = [&name, &method.store, &method.profile, &method.commit].map(String::clone);
        for (label, phase) in statistic::phases(report) {
            let mut cells = who.to_vec();
            cells.extend([label, statistic::arrivals(&phase.arrivals)]);
            cells.extend([phase.seconds.to_string(), phase.ops.to_string()]);
            cells.extend(of_phases.iter().map(|statistic| cell((statistic.take)(phase))));
            cells.extend(of_runs.iter().map(|_| String::new()));
            out += &row(&cells);
        }
        let mut cells = who.to_vec();
        cells.extend(["whole run".into(), String::new()]);
        let (seconds, ops): (Vec<f64>, Vec<u64>) =
            report.phases.iter().map(|phase: &PhaseReport| (phase.seconds, phase.ops)).unzip();
        cells
            .extend([seconds.iter().sum::<f64>().to_string(), ops.iter().sum::<u64>().to_string()]);
        cells.extend(of_phases.iter().map(|_| String::new()));
        cells.extend(of_runs.iter().map(|statistic| cell((statistic.take)(report))));
        out += &row(&cells);
    }
    out
}

/// All runs with a row for each interval of each phase.
#[must_use]
pub fn series(reports: &[Report]) -> String {
    let head = [
        "run",
        "phase",
        "at s",
        "seconds",
        "operations",
        "reads P50 µs",
        "reads P99 µs",
        "reads P99.9 µs",
        "writes P50 µs",
        "writes P99 µs",
        "writes P99.9 µs",
        "max µs",
        "backlog",
    ];
    let mut out = row(&head.map(str::to_owned));
    for (report, name) in reports.iter().zip(statistic::names(reports)) {
        for (label, phase) in statistic::phases(report) {
            let mut at = 0.0;
            for point in &phase.series.0 {
                // An interval without operations has no latency.
                let known = |us: f64| cell(Some(us).filter(|us| *us > 0.0));
                let mut cells = vec![name.clone(), label.clone(), cell(Some(at))];
                cells.extend([cell(Some(point.seconds)), point.ops.to_string()]);
                let latencies = [
                    [point.read_p50_us, point.read_p99_us, point.read_p999_us],
                    [point.write_p50_us, point.write_p99_us, point.write_p999_us],
                ];
                cells.extend(latencies.into_iter().flatten().chain([point.max_us]).map(known));
                cells.push(point.backlog.to_string());
                out += &row(&cells);
                at += point.seconds;
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
    let mut out = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = match cell.contains([',', '"', '\n', '\r']) {
            true => write!(out, "{comma}\"{}\"", cell.replace('"', "\"\"")),
            false => write!(out, "{comma}{cell}"),
        };
    }
    out.push_str("\r\n");
    out
}
