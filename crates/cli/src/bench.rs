//! `vlsm bench`: a load and runs on a store of its own, with live progress, then a report.
//!
//! 1. Check the options, the folder and the free space; measure the driver's own cost.
//! 2. Load: insert all pairs in random order. Wait for background work.
//! 3. Run each requested workload. Wait for background work again.
//! 4. Print the report; remove the store unless it is to be kept.
//!
//! Ctrl-C or SIGTERM ends the running phase; the report covers the work up to then, and the store
//! is removed as usual. A second one removes the store and ends the program at once.

pub mod args;

mod live;
pub mod work;

pub use args::Args;

use crate::interrupt;
use args::Folder;
use live::Live;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vlsm_measure::engine::Engine;
use vlsm_measure::report::{Report, html, table};
use vlsm_measure::runner::{self, Notice};
use vlsm_measure::spec::{RunSpec, StoreSpec};
use vlsm_measure::store::{Store, StoreResult};

type Result<T = (), E = String> = std::result::Result<T, E>;

/// Runs the benchmark.
///
/// # Errors
/// A text for the user with the wrong option or the failure.
pub fn run(args: Args) -> Result {
    let spec = args.spec()?;
    let stop = stop_flag()?;
    runner::check_rates(&spec, stop)?;
    let folder = Folder::prepare(&args, &spec)?;
    if let Some(folder) = folder.temporary() {
        TEMPORARY.get_or_init(|| folder.to_owned());
    }
    let mut live: Option<Live> = None;
    let (mut report, failure) =
        runner::run(&spec, &open, folder.path(), stop, &mut |notice| match notice {
            Notice::Begin(name, ..) => live = Some(Live::new(name)),
            Notice::Going(progress) => live.iter().for_each(|live| live.show(progress)),
            Notice::End => live.take().iter().for_each(Live::finish),
        });
    report.method.commit = crate::COMMIT.into();
    report.method.command = std::env::args().collect::<Vec<_>>().join(" ");
    report.data = folder.describe();
    let removed = folder.finish();
    if stop.load(Relaxed) && report.phases.iter().all(|phase| phase.ops == 0) {
        return Err(runner::NOTHING_MEASURED.into());
    }
    publish(&args, &report)?;
    match failure {
        Some(failure) => {
            Err(format!("a phase failed, the report covers what came before: {failure}"))
        }
        None => removed,
    }
}

/// Opens our engine.
///
/// # Errors
/// The error of the open, or that this program does not have this kind of store.
pub fn open(run: &RunSpec, spec: &StoreSpec, folder: &Path) -> StoreResult<Box<dyn Store>> {
    if spec.kind != "vlsm" {
        return Err(format!("this program has no store {:?}", spec.kind).into());
    }
    Ok(Box::new(Engine::open(folder, spec.options.clone(), run.splits())?))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The folder to remove when the user ends the program at once.
static TEMPORARY: OnceLock<PathBuf> = OnceLock::new();

/// A flag that Ctrl-C or SIGTERM sets. A second one removes the temporary folder and ends the
/// program.
fn stop_flag() -> Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    interrupt::at_end(move || {
        if STOP.swap(true, Relaxed) {
            if let Some(folder) = TEMPORARY.get()
                && !removed(folder)
            {
                eprintln!("the store is left in {}: remove it", folder.display());
            }
            std::process::exit(130);
        }
    })?;
    Ok(&STOP)
}

/// Removes a folder while files are still written to it, which may take more than one try.
fn removed(folder: &Path) -> bool {
    (0..100).any(|_| {
        let _ = std::fs::remove_dir_all(folder);
        !folder.exists()
    })
}

/// Prints the report, and writes it as JSON and as a page if requested.
fn publish(args: &Args, report: &Report) -> Result {
    let mut stdout = std::io::stdout().lock();
    let json = report.to_json().map_err(text)?;
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let shown = if to_stdout { format!("{json}\n") } else { table::render(report) };
    // A closed pipe is not a failure of the benchmark.
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
