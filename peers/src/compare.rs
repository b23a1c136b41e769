//! Two stores beside each other: A B A B …, each run in a process of its own.
//!
//! These machines are noisy, so what counts is the ratio of a pair of runs that followed each
//! other; of all pairs the median is quoted, with the least and the largest beside it.

use crate::run::Load;
use std::process::Command;
use vlsm_lab::metrics::{Group, Percentiles};
use vlsm_lab::report::{PhaseReport, Report};

/// A figure of a run: what it is called, and how it is taken from a report.
struct Figure {
    name: String,
    take: Box<dyn Fn(&Report) -> Option<f64>>,
}

/// Runs `pairs` pairs and prints a table.
pub fn compare(a: &str, b: &str, pairs: usize, load: &Load) -> Result<(), String> {
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        eprintln!("pair {pair} of {pairs}: {a}");
        of_a.push(in_process(a, load)?);
        eprintln!("pair {pair} of {pairs}: {b}");
        of_b.push(in_process(b, load)?);
    }
    println!("{:<28} {a:>16} {b:>16} {:>9}  (least to largest of {pairs})", "median", "A ÷ B");
    for figure in figures() {
        let values = |reports: &[Report]| -> Option<Vec<f64>> {
            reports.iter().map(|report| (figure.take)(report)).collect()
        };
        let (Some(x), Some(y)) = (values(&of_a), values(&of_b)) else { continue };
        if x.iter().chain(&y).all(|value| *value == 0.0) {
            continue;
        }
        let ratios: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x / y).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        println!(
            "{:<28} {:>16.2} {:>16.2} {:>9.3}  ({least:.3} to {most:.3})",
            figure.name,
            median(x),
            median(y),
            median(ratios),
        );
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// One run by this same program.
fn in_process(store: &str, load: &Load) -> Result<Report, String> {
    let failed = |error: std::io::Error| format!("cannot run {store}: {error}");
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["run", store]);
    command.args(["--pairs", &load.pairs.to_string(), "--threads", &load.threads.to_string()]);
    command.args(["--seconds", &load.seconds.to_string(), "--cache", &load.cache.to_string()]);
    command.args(["--seed", &load.seed.to_string()]);
    if let Some(memtable) = load.memtable {
        command.args(["--memtable", &memtable.to_string()]);
    }
    if let Some(dir) = &load.dir {
        command.arg("--dir").arg(dir);
    }
    let output = command.stderr(std::process::Stdio::inherit()).output().map_err(failed)?;
    if !output.status.success() {
        return Err(format!("the run of {store} failed: {}", output.status));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the run of {store} did not end with a report: {error}"))
}

fn figures() -> Vec<Figure> {
    let mut all = Vec::new();
    for (index, group) in [Group::Write, Group::Read, Group::Scan].into_iter().enumerate() {
        let mut add = |name: &str, take: fn(&PhaseReport) -> Option<f64>| {
            let name = format!("{}: {name}", ["fillrandom", "readrandom", "scan100"][index]);
            let take = move |report: &Report| report.phases.get(index).and_then(take);
            all.push(Figure { name, take: Box::new(take) });
        };
        add("thousand ops/s", |phase| Some(phase.throughput / 1e3));
        add("CPU µs/op", |phase| Some(phase.cpu_us_per_op));
        add("stalled seconds", |phase| Some(phase.stalls.seconds));
        add("misses", |phase| Some(phase.misses as f64));
        let mut percentile = |name: &str, take: fn(&Percentiles) -> f64| {
            let name = format!("{}: {name} µs", ["fillrandom", "readrandom", "scan100"][index]);
            let take =
                move |report: &Report| report.phases.get(index)?.percentiles(group).map(take);
            all.push(Figure { name, take: Box::new(take) });
        };
        percentile("P50", |p| p.p50_us);
        percentile("P99", |p| p.p99_us);
        percentile("P99.9", |p| p.p999_us);
        percentile("longest", |p| p.max_us);
    }
    let mut whole = |name: &str, take: fn(&Report) -> Option<f64>| {
        all.push(Figure { name: name.into(), take: Box::new(take) });
    };
    whole("settled after s", |report| report.settled);
    whole("I/O amplification (system)", |report| report.amplification.device_io());
    whole("space amplification", Report::space_amplification);
    whole("peak memory MB", |report| Some(report.peak_memory? as f64 / 1e6));
    all
}
