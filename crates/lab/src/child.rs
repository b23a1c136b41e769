//! Runs in processes of their own: what the parent and the child say to each other.
//!
//! 1. The parent starts the program that knows the store ([`Programs`]), in a process group of its
//!    own, and writes the [`RunSpec`] as JSON to its standard input.
//! 2. The child takes the limits of the specification upon itself, makes a folder, does the run and
//!    removes the folder. Meanwhile it writes a line of JSON a second to standard error: how it
//!    goes ([`Line`]). What else comes there is passed on as it is.
//! 3. The child ends with an [`Answer`] as JSON on standard output. The parent adds how the device
//!    was meanwhile (`probe`).
//!
//! An interrupt is passed on by the parent: the child ends its phase, answers with the report of
//! what it has and removes its data. A child whose parent died interrupts itself (on Linux).

#![expect(
    clippy::disallowed_methods,
    reason = "programs and folders of the user's, seen from outside"
)]

use crate::limits;
use crate::probe::{Probe, Steps};
use crate::report::Report;
use crate::runner::{self, Notice, Open};
use crate::spec::{LoadSpec, RunSpec, StoreSpec};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use vlsm_policy::registry::unknown;

/// What a child answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// What was done.
    pub report: Report,
    /// The failure that ended it, if one did.
    pub failure: Option<String>,
}

/// How a run goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A step begins: its name, its number from 0, how many there are.
    Step(String, usize, usize),
    /// The share of the step that is done, operations per second now, P99 in microseconds.
    Going(f64, f64, f64),
}

/// The programs that do runs.
#[derive(Debug, Clone)]
pub struct Programs {
    ours: PathBuf,
    peers: Option<PathBuf>,
}

/// What `peers list` says of a store.
#[derive(Deserialize)]
struct Listed {
    kind: String,
    missing: Option<String>,
    configs: Vec<Config>,
}

/// A configuration of it.
#[derive(Deserialize)]
struct Config {
    name: String,
}

/// What builds the other stores.
pub const BUILD_PEERS: &str = "peers/build";

impl Programs {
    /// This program, and `peers` where it is built: `$VLSM_PEERS`, beside this program, or in
    /// `peers/target/release` of the current folder.
    ///
    /// # Errors
    /// When this program cannot be found, which the system says why.
    pub fn find() -> Result<Self, String> {
        let ours = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let named = std::env::var_os("VLSM_PEERS").map(PathBuf::from);
        let beside = ours.parent().map(|folder| folder.join("peers"));
        let built = Path::new("peers/target/release/peers").to_owned();
        let peers = [named, beside, Some(built)].into_iter().flatten().find(|path| is_file(path));
        Ok(Self { ours, peers })
    }

    /// The command that runs a store of this kind as a child.
    ///
    /// # Errors
    /// When it is not built: how to build it.
    pub fn child(&self, kind: &str) -> Result<Command, String> {
        if kind == "vlsm" {
            let mut command = Command::new(&self.ours);
            command.args(["lab", "child"]);
            return Ok(command);
        }
        let Some(peers) = &self.peers else {
            return Err(format!(
                "the other stores are not built, {kind} among them: run {BUILD_PEERS} (RocksDB \
                 takes about 18 minutes and needs Debian's libclang-dev)"
            ));
        };
        let mut command = Command::new(peers);
        command.arg("child");
        Ok(command)
    }

    /// Refuses a store that is not built, or has no such configuration.
    ///
    /// # Errors
    /// How to build it, or the nearest name.
    pub fn check(&self, store: &StoreSpec) -> Result<(), String> {
        self.child(&store.kind)?;
        let Some(peers) = self.peers.as_ref().filter(|_| store.kind != "vlsm") else {
            return Ok(());
        };
        let output = Command::new(peers).arg("list").output();
        let output = output.map_err(|error| format!("{}: {error}", peers.display()))?;
        let known: Vec<Listed> = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{} does not tell its stores: {error}", peers.display()))?;
        let Some(listed) = known.iter().find(|listed| listed.kind == store.kind) else {
            let names = known.iter().map(|listed| listed.kind.as_str()).chain(["vlsm"]);
            return Err(unknown("store", &store.kind, names).to_string());
        };
        if let Some(why) = &listed.missing {
            return Err(format!("{} is not built: {why}; {BUILD_PEERS} builds it", store.kind));
        }
        let configs = || listed.configs.iter().map(|config| config.name.as_str());
        if !store.config.is_empty() && !configs().any(|name| name == store.config) {
            return Err(unknown("configuration", &store.config, configs()).to_string());
        }
        Ok(())
    }

    /// The kinds of other stores that are built; none where the program is not.
    #[must_use]
    pub fn peers(&self) -> Vec<String> {
        let Some(peers) = &self.peers else { return Vec::new() };
        let answer = Command::new(peers).args(["list", "--kinds"]).output();
        let answer = answer.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&answer).split_whitespace().map(str::to_owned).collect()
    }
}

fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file())
}

fn exists(path: &Path) -> bool {
    std::fs::metadata(path).is_ok()
}

/// Does a run in a process of its own. `stop` interrupts it; `tell` hears how it goes.
///
/// # Errors
/// When the program cannot be started or does not answer. What failed in the run is in the answer.
pub fn run(
    programs: &Programs,
    spec: &RunSpec,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Line),
) -> Result<Answer, String> {
    let kind = &spec.store.kind;
    let failed = |error: std::io::Error| format!("cannot run {kind}: {error}");
    let mut command = programs.child(kind)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    let pid = Pid::from_child(&child);
    let text = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
    child.stdin.take().expect("it is piped").write_all(&text).map_err(failed)?;
    let (mut out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (over, steps) = (AtomicBool::new(false), Mutex::new(Steps::default()));
    let answer = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut answer = Vec::new();
            out.read_to_end(&mut answer).map(|_| answer)
        });
        scope.spawn(|| {
            // Once: a second interrupt would end the child without an answer.
            while !over.load(Relaxed) {
                if stop.load(Relaxed) {
                    let _ = kill_process(pid, Signal::INT);
                    return;
                }
                crate::clock::sleep(Duration::from_millis(20));
            }
        });
        scope.spawn(|| {
            if let Some(probe) = Probe::new(&spec.dir()) {
                probe.watch(&over, &steps);
            }
        });
        for line in BufReader::new(err).split(b'\n').map_while(Result::ok) {
            match serde_json::from_slice(&line) {
                Ok(said) => {
                    if let Line::Step(name, ..) = &said {
                        steps.lock().begin(name);
                    }
                    tell(said);
                }
                Err(_) => pass_on(&String::from_utf8_lossy(&line)),
            }
        }
        let answer = reader.join().expect("reading does not panic");
        over.store(true, Relaxed);
        answer
    });
    let status = child.wait().map_err(failed)?;
    let answer = answer.map_err(failed)?;
    let mut answer: Answer = serde_json::from_slice(&answer).map_err(|error| {
        format!("the run of {kind} ended with {status} and no report ({error})")
    })?;
    for phase in &mut answer.report.phases {
        phase.device_beside = steps.lock().of(&phase.name);
    }
    Ok(answer)
}

/// What a child says that is not meant for the parent is meant for the user.
fn pass_on(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Makes the store's folder with the loaded data in it: loads it where no run did so before.
fn prepare(
    spec: &RunSpec,
    load: &LoadSpec,
    home: &Path,
    open: &Open<'_>,
    stop: &AtomicBool,
) -> Result<(), String> {
    let prepared = spec.prepared().expect("the data is to be loaded beforehand");
    if !exists(&prepared) {
        let fresh = tempfile::Builder::new().prefix("vlsm-lab-load-").tempdir_in(spec.dir());
        let fresh = fresh.map_err(|error| format!("{}: {error}", spec.dir().display()))?;
        say(&Line::Step("loading".into(), 0, spec.steps.len()));
        let home = fresh.path().join("store");
        runner::load(spec, load, open, &home, stop, &mut |notice| {
            if let Notice::Going(progress) = notice {
                let rate = progress.series.0.last().map_or(0.0, |point| point.throughput());
                say(&Line::Going(
                    progress.done,
                    rate,
                    progress.latencies.quantile(0.99) as f64 / 1e3,
                ));
            }
        })?;
        std::fs::rename(fresh.path().join("store"), &prepared)
            .map_err(|error| format!("{}: {error}", prepared.display()))?;
    }
    copy(&prepared, home).map_err(|error| format!("copying the loaded data: {error}"))
}

/// Copies a folder; SSTs, which no store changes once they are written, become links.
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

/// Tells the parent.
fn say(line: &Line) {
    let line = serde_json::to_string(line).expect("a line has an encoding");
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Has this process interrupted when its parent dies.
#[cfg(target_os = "linux")]
fn end_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::INT));
}

/// Nothing: elsewhere the run goes on to its end.
#[cfg(not(target_os = "linux"))]
fn end_with_parent() {}

/// Does the run that standard input asks for: the body of a child.
///
/// # Errors
/// When there is no specification to be read, the folder cannot be made or the device has too
/// little room: nothing was measured then.
pub fn serve(open: &Open<'_>, stop: &AtomicBool) -> Result<(), String> {
    end_with_parent();
    let spec: RunSpec = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|error| format!("standard input has no run to do: {error}"))?;
    let folder = tempfile::Builder::new().prefix("vlsm-lab-").tempdir_in(spec.dir());
    let folder = folder
        .map_err(|error| format!("cannot make a folder in {}: {error}", spec.dir().display()))?;
    spec.check_space(folder.path())?;
    let home = folder.path().join("store");
    if let Some(load) = &spec.load {
        prepare(&spec, load, &home, open, stop)?;
    }
    let limits = limits::apply(&spec.limits, folder.path());
    let mut said = crate::clock::Clock::start();
    let (mut report, failure) = runner::run(&spec, open, &home, stop, &mut |notice| {
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
        say(&line);
    });
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
