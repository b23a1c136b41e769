//! Pebble, the LSM store of CockroachDB, in Go. It is driven in Go, too: a call from Rust into Go
//! costs so much that its throughput was up to a third lower through C (measured), and that would
//! have been our handicap and not Pebble's.
//!
//! The Go program in `peers/pebble` has the same generators, arrivals, histograms and report as the
//! crate `vlsm-measure`; the tests here compare them byte for byte. It does the steps of a run in a
//! process of its own:
//! 1. This program makes the folder, loads the data beforehand if the run says so (by another
//!    process of the same program), and applies the limits, which the process inherits.
//! 2. The specification goes to its standard input. Its lines of progress are passed on, its answer
//!    is read as the report.
//! 3. An interrupt is passed on; the answer then has the report of what was done.
//!
//! How it is set up:
//! - WAL: a write without sync is acknowledged when it is queued for the WAL's thread, *before*
//!   `write()`: less than our buffered mode promises. There is nothing between that and a sync.
//! - All I/O goes through the page cache: Pebble has no direct I/O.
//! - `default`: Pebble's own sizes, memtables of 4 MB, as many as the given memory holds. `sized`:
//!   memtables and the first level below L0 (Pebble's Lbase) as specified. SSTs of 2 MB upwards,
//!   doubling by level, and L0's thresholds are Pebble's in both.
//! - Compactions: one at a time, up to as many as cores when L0 or debt grows: Pebble's own rule.
//!   Regions are instances that share the block cache; each has that many.
//! - Go: its runtime schedules clients and compactions on as many threads as there are processors
//!   (`GOMAXPROCS`), as it does for each program in Go; the report has the number.

use super::Kind;
use crate::native;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use vlsm_measure::child::{Answer, Line};
use vlsm_measure::clock;
use vlsm_measure::report::{DRIVER, Method, Report};
use vlsm_measure::spec::RunSpec;

#[cfg(test)]
mod tests;

pub const KIND: Kind = Kind {
    name: NAME,
    configs: &[
        ("default", "Pebble's own sizes, memory as specified"),
        ("sized", "memtables and the level below L0 as specified"),
    ],
    version,
    open: |_| Err("Pebble runs in a program of its own: `peers child` starts it".into()),
};

/// Its name among the stores.
pub const NAME: &str = "pebble";

/// The folder of its source, where `peers/build` leaves the program too.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/pebble");

/// The program in Go: beside this one, or where it was built.
fn program() -> Result<PathBuf, String> {
    let beside = std::env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent).map(Path::to_owned);
    let folders = beside.into_iter().chain([PathBuf::from(SOURCE)]);
    folders.map(|folder| folder.join(NAME)).find(|file| file.is_file()).ok_or_else(|| {
        "its program is not built: run peers/build (needs Go), which puts it into peers/pebble"
            .to_owned()
    })
}

/// The versions of Pebble and Go.
fn version() -> Result<String, String> {
    let program = program()?;
    let said = Command::new(&program).arg("version").output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    if said.status.success() && !text.is_empty() {
        return Ok(text);
    }
    Err(format!("{} is of another version: run peers/build", program.display()))
}

/// Does the steps of a run in the program in Go. It is a [`Run`](vlsm_measure::child::Run).
pub fn run(
    spec: &RunSpec,
    dir: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Line),
) -> (Report, Option<String>) {
    match answer(spec, dir, stop, tell) {
        Ok(Answer { mut report, failure }) => {
            report.method.version = env!("CARGO_PKG_VERSION").into();
            let driver = report.method.options.iter_mut().find(|(name, _)| name == DRIVER);
            driver.into_iter().for_each(|(_, text)| *text += &format!("; {}", native::found(NAME)));
            (report, failure)
        }
        Err(why) => {
            let method = Method {
                store: spec.store.kind.clone(),
                profile: spec.store.config.clone(),
                spec: Some(spec.clone()),
                ..Method::default()
            };
            (Report { method, ..Report::default() }, Some(why))
        }
    }
}

fn answer(
    spec: &RunSpec,
    dir: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Line),
) -> Result<Answer, String> {
    let failed = |error: std::io::Error| format!("cannot run Pebble: {error}");
    let mut command = Command::new(program()?);
    command.arg("child").arg(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let text = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
    let written = child.stdin.take().expect("it is piped").write_all(&text);
    let output = listen(child, stop, tell).map_err(failed)?;
    let read = serde_json::from_slice(&output.stdout);
    // A child that refuses its specification ends before it has read everything.
    read.map_err(|error| {
        let written = written.err().map(|error| format!("; {error}")).unwrap_or_default();
        format!("Pebble's program ended with {} and no report ({error}{written})", output.status)
    })
}

/// Passes lines and interrupts on until the child ends.
fn listen(
    mut child: Child,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Line),
) -> std::io::Result<Output> {
    let pid = Pid::from_child(&child);
    let lines = BufReader::new(child.stderr.take().expect("it is piped"));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| child.wait_with_output());
        scope.spawn(|| {
            // One interrupt is enough: the child then ends by itself.
            while !over.load(Relaxed) {
                if stop.load(Relaxed) {
                    let _ = kill_process(pid, Signal::INT);
                    return;
                }
                clock::sleep(Duration::from_millis(20));
            }
        });
        for line in lines.split(b'\n').map_while(Result::ok) {
            match serde_json::from_slice(&line) {
                Ok(line) => tell(&line),
                // It is for the user.
                Err(_) => eprintln!("{}", String::from_utf8_lossy(&line)),
            }
        }
        let output = reader.join().expect("reading does not panic");
        over.store(true, Relaxed);
        output
    })
}
