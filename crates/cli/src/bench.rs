//! `vlsm bench`: a load and runs on a store of its own, with live progress, then a report.
//!
//! 1. Check the options, the folder and the free space; measure what the driver costs by itself.
//! 2. Load: insert all pairs in random order. Wait for background work.
//! 3. Run each workload asked for. Wait for background work again.
//! 4. Print the report; remove the store unless it was to be kept.
//!
//! Ctrl-C ends the phase under way; the report then covers what was done, and the store is removed
//! all the same. A second Ctrl-C removes the store and ends the program at once.

pub mod args;
mod live;

pub use args::Args;

use args::{Place, Plan};
use live::Live;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use vlsm_lab::arrivals::Arrivals;
use vlsm_lab::driver::{self, Phase};
use vlsm_lab::engine::{Engine, describe};
use vlsm_lab::process::{Machine, Usage, peak_memory};
use vlsm_lab::report::{Amplification, Floor, Method, PhaseReport, Report, html, table};
use vlsm_lab::store::{Store, StoreStats};
use vlsm_lab::workload::Records;
use vlsm_lab::workload::data::Data;

type Result<T = (), E = String> = std::result::Result<T, E>;

/// How long background work may take to end, after the load and at the end.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Runs the benchmark that `args` asks for.
///
/// # Errors
/// A text for the user: which option is wrong, what failed.
pub fn run(args: Args) -> Result {
    let plan = args.plan()?;
    let data = Data::new(plan.key_size, plan.value_size, plan.seed);
    if plan.load.arrivals != Arrivals::Closed {
        driver::floor(&plan.load, &data).map_err(|error| format!("--load-rate: {error}"))?;
    }
    let floor = driver::floor(plan.runs.last().unwrap_or(&plan.load), &data)
        .map_err(|error| format!("--rate: {error}"))?;
    let place = Place::prepare(&args, &plan)?;
    let stop = stop_flag(place.temporary().map(Path::to_owned))?;
    let engine = Engine::open(place.path(), plan.options.clone(), Vec::new()).map_err(text)?;
    let (report, failure) = measure(&engine, &plan, &place, stop, (data, floor));
    let closed = Box::new(engine).close().map_err(text);
    let removed = place.finish();
    publish(&args, &report)?;
    match failure {
        Some(failure) => {
            Err(format!("a phase failed, the report covers what came before: {failure}"))
        }
        None => closed.and(removed),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A flag that Ctrl-C raises. A second one removes the temporary folder and ends the program.
fn stop_flag(temporary: Option<PathBuf>) -> Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(move || {
        if STOP.swap(true, Relaxed) {
            if let Some(folder) = &temporary
                && !removed(folder)
            {
                eprintln!("the store is left in {}: remove it", folder.display());
            }
            std::process::exit(130);
        }
    })
    .map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    Ok(&STOP)
}

/// Removes a folder that is still being written to: it may take more than one try.
fn removed(folder: &Path) -> bool {
    (0..100).any(|_| {
        let _ = std::fs::remove_dir_all(folder);
        !folder.exists()
    })
}

/// What phases share.
struct Bench<'a> {
    engine: &'a Engine,
    data: Data,
    records: Arc<Records>,
    stop: &'a AtomicBool,
    phases: Vec<PhaseReport>,
}

/// Loads and runs: the report of all that was done, and the failure that ended it, if one did.
fn measure(
    engine: &Engine,
    plan: &Plan,
    place: &Place,
    stop: &AtomicBool,
    (data, floor): (Data, Floor),
) -> (Report, Option<String>) {
    let (usage, stats) = (Usage::now(), engine.stats());
    let records = Arc::new(Records::default());
    let mut bench = Bench { engine, data, records, stop, phases: Vec::new() };
    let mut failure = bench.phase(&plan.load);
    let mut load = plan.load_method.clone();
    if failure.is_none() && !plan.runs.is_empty() {
        match bench.settle() {
            Ok(Some(seconds)) => load += &format!(", settled for {seconds:.1} s"),
            Ok(None) => load += ", background work not ended",
            Err(error) => failure = Some(error),
        }
    }
    for run in &plan.runs {
        if failure.is_none() && !stop.load(Relaxed) {
            failure = bench.phase(run);
        }
    }
    let settled = match &failure {
        Some(_) => None,
        None => bench.settle().unwrap_or_else(|error| {
            failure = Some(error);
            None
        }),
    };
    let user_bytes = bench.phases.iter().map(|phase| phase.amplification.user_bytes).sum();
    let end = engine.stats();
    let device = Usage::now().since(&usage).device;
    let report = Report {
        method: Method {
            version: env!("CARGO_PKG_VERSION").into(),
            store: "vlsm".into(),
            profile: plan.profile.clone(),
            options: describe(&plan.options),
            machine: Machine::this(),
            pairs: plan.load.ops.unwrap_or(0),
            key_size: plan.key_size,
            value_size: plan.value_size,
            threads: plan.load.threads,
            load,
            seed: plan.seed,
            floor,
            ..Method::default()
        },
        amplification: Amplification::new(user_bytes, &end.since(&stats), device),
        phases: bench.phases,
        settled,
        sustainable: None,
        store: end,
        records: bench.records.count(),
        peak_memory: peak_memory(),
        data: place.describe(),
    };
    (report, failure)
}

impl Bench<'_> {
    /// Runs a phase and adds its report. The failure that ended it, if one did.
    fn phase(&mut self, phase: &Phase) -> Option<String> {
        let live = Live::new(&phase.workload.name);
        let before = self.engine.stats();
        let outcome = driver::run(
            self.engine,
            &self.data,
            &self.records,
            phase,
            self.stop,
            &mut |progress| live.show(progress),
        );
        live.finish();
        let stats: (&StoreStats, &StoreStats) = (&before, &self.engine.stats());
        let stopped = self.stop.load(Relaxed) || outcome.error.is_some();
        self.phases.push(PhaseReport::new(phase, &outcome, stopped, stats));
        outcome.error.map(text)
    }

    /// Waits for background work to end: for how many seconds, or None when it did not.
    fn settle(&self) -> Result<Option<f64>> {
        if self.stop.load(Relaxed) {
            return Ok(None);
        }
        let live = Live::waiting("waiting for background work to end");
        let start = Instant::now();
        let settled = self.engine.settle(SETTLE_MAX, &|| self.stop.load(Relaxed));
        live.finish();
        Ok(settled.map_err(text)?.then(|| start.elapsed().as_secs_f64()))
    }
}

/// Prints the report, and writes it as JSON and as a page where asked to.
fn publish(args: &Args, report: &Report) -> Result {
    let mut stdout = std::io::stdout().lock();
    let json = report.to_json().map_err(text)?;
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let shown = if to_stdout { format!("{json}\n") } else { table::render(report) };
    // A closed pipe is no failure of the benchmark.
    let _ = stdout.write_all(shown.as_bytes());
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text)
            .map_err(|error| format!("cannot write the report to {}: {error}", path.display()))
    };
    if let Some(path) = args.json.as_deref().filter(|_| !to_stdout) {
        write(path, &json)?;
    }
    if let Some(path) = &args.html {
        write(path, &html::page(std::slice::from_ref(report), "vlsm bench"))?;
    }
    Ok(())
}
