//! Runs in processes of their own: the protocol of parent and child.
//!
//! 1. The parent starts the program that knows the store, in a process group of its own, and writes
//!    the [`RunSpec`] as JSON to its standard input.
//! 2. The child makes a folder, applies the limits of the specification to itself, does the run and
//!    removes the folder. It writes its progress to standard error as lines of JSON ([`Line`]): one
//!    when a step begins, and at most two per second. The parent passes other lines on unchanged.
//! 3. The child ends with an [`Answer`] as JSON on standard output. The parent adds the latencies
//!    of its own reads from the device.
//!
//! The parent passes an interrupt on: the child ends its phase, answers with its report so far and
//! removes its data. If the parent dies, the child is interrupted (on Linux).
//!
//! A child may leave the steps themselves to another program ([`serve_with`]): a store in another
//! language needs its driver in that language.

#![expect(
    clippy::disallowed_methods,
    reason = "programs and folders of the user's, seen from outside"
)]

use crate::limits;
use crate::report::Report;
use crate::runner::{self, Notice, Open};
use crate::spec::{LoadSpec, RunSpec};
#[cfg(target_os = "linux")]
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The answer of a child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The report of what was done.
    pub report: Report,
    /// The failure that ended the run, if there was one.
    pub failure: Option<String>,
}

/// A line of a run's progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A step begins: its name, its number from 0, the number of steps.
    Step(String, usize, usize),
    /// The share of the step that is done, operations per second now, P99 in microseconds.
    Going(f64, f64, f64),
}

/// Does all steps of a specification in a folder, as [`runner::run`] does. Returns the report of
/// what was done, and the failure that ended the run, if there was one.
pub type Run<'a> =
    dyn Fn(&RunSpec, &Path, &AtomicBool, &mut dyn FnMut(&Line)) -> (Report, Option<String>) + 'a;

fn exists(path: &Path) -> bool {
    std::fs::metadata(path).is_ok()
}

/// Makes the store's folder with the loaded data in it. Loads the data if no earlier run did.
fn prepare(
    spec: &RunSpec,
    load: &LoadSpec,
    home: &Path,
    run: &Run<'_>,
    stop: &AtomicBool,
) -> Result<(), String> {
    let prepared = spec.prepared().expect("the data is to be loaded beforehand");
    if !exists(&prepared) {
        let fresh = tempfile::Builder::new().prefix("vlsm-lab-load-").tempdir_in(spec.dir());
        let fresh = fresh.map_err(|error| format!("{}: {error}", spec.dir().display()))?;
        say(&Line::Step("loading".into(), 0, spec.steps.len()));
        let home = fresh.path().join("store");
        let done = run(&runner::loading(spec, load), &home, stop, &mut |line| match line {
            Line::Going(..) => say(line),
            Line::Step(..) => {}
        });
        runner::loaded(spec, done, stop)?;
        std::fs::rename(fresh.path().join("store"), &prepared)
            .map_err(|error| format!("{}: {error}", prepared.display()))?;
    }
    copy(&prepared, home).map_err(|error| format!("copying the loaded data: {error}"))
}

/// Copies a folder. SSTs become links, because no store changes them once they are written.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "sst") {
            std::fs::hard_link(entry.path(), target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Writes a line to the parent.
fn say(line: &Line) {
    let line = serde_json::to_string(line).expect("a line has an encoding");
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Asks the kernel to interrupt this process when its parent dies.
#[cfg(target_os = "linux")]
fn end_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::INT));
}

/// Does nothing: on other systems the run goes on to its end.
#[cfg(not(target_os = "linux"))]
fn end_with_parent() {}

/// Does the steps in this process, on a store that `open` opens.
pub fn run_here(
    open: &Open<'_>,
    spec: &RunSpec,
    dir: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Line),
) -> (Report, Option<String>) {
    let mut said = crate::clock::Clock::start();
    runner::run(spec, open, dir, stop, &mut |notice| {
        let line = match notice {
            Notice::Begin(name, number, count) => Line::Step(name.to_owned(), number, count),
            Notice::Going(progress) if said.now() > 500_000_000 => {
                said = crate::clock::Clock::start();
                let p99 = progress.latencies.quantile(0.99) as f64 / 1e3;
                let now = progress.series.0.last().map_or(0.0, |point| point.throughput());
                Line::Going(progress.done, now, p99)
            }
            Notice::Going(_) | Notice::End => return,
        };
        tell(&line);
    })
}

/// Does the run that standard input specifies: the body of a child.
///
/// # Errors
/// There is no specification to read, the folder cannot be made or removed, the device has too
/// little room, the load failed, or the answer cannot be written.
pub fn serve(open: &Open<'_>, stop: &AtomicBool) -> Result<(), String> {
    serve_with(&|spec, dir, stop, tell| run_here(open, spec, dir, stop, tell), stop)
}

/// Like [`serve`], but `run` does the steps: in another program, which inherits the limits.
///
/// # Errors
/// Like [`serve`].
pub fn serve_with(run: &Run<'_>, stop: &AtomicBool) -> Result<(), String> {
    end_with_parent();
    let spec: RunSpec = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|error| format!("standard input has no run to do: {error}"))?;
    let folder = tempfile::Builder::new().prefix("vlsm-lab-").tempdir_in(spec.dir());
    let folder = folder
        .map_err(|error| format!("cannot make a folder in {}: {error}", spec.dir().display()))?;
    spec.check_space(folder.path())?;
    let home = folder.path().join("store");
    if let Some(load) = &spec.load {
        prepare(&spec, load, &home, run, stop)?;
    }
    let limits = limits::apply(&spec.limits, folder.path());
    let (mut report, failure) = run(&spec, &home, stop, &mut say);
    report.method.limits = limits.to_string();
    report.method.limits_in_force = limits.complete();
    report.data = "in a temporary folder, removed".into();
    drop(limits);
    let removed = folder.close();
    let answer = Answer { report, failure };
    let text = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).map_err(|error| format!("the answer: {error}"))?;
    removed.map_err(|error| format!("the store's folder cannot be removed: {error}"))
}
