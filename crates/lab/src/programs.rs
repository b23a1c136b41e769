//! The programs that do runs: this one, and `peers` for the other stores. Each run is a process of
//! its own; [`vlsm_measure::child`] describes the protocol.
//!
//! This program passes an interrupt on: the child ends its phase, answers with the report of what
//! it has and removes its data. While the run goes on, `probe` reads from its device.

use crate::probe::{Probe, Steps};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use vlsm_measure::child::{Answer, Line};
use vlsm_measure::clock;
use vlsm_measure::spec::{RunSpec, StoreSpec};
use vlsm_policy::names::unknown;

/// The programs that do runs.
#[derive(Debug, Clone)]
pub struct Programs {
    ours: PathBuf,
    peers: Option<PathBuf>,
}

/// An entry of `peers list`: a store.
#[derive(Deserialize)]
struct Listed {
    kind: String,
    missing: Option<String>,
    configs: Vec<Config>,
}

/// A configuration of a listed store.
#[derive(Deserialize)]
struct Config {
    name: String,
}

/// The command that builds the other stores.
pub const BUILD_PEERS: &str = "peers/build";

impl Programs {
    /// Finds this program, and `peers` if it is built: at `$VLSM_PEERS`, beside this program, or in
    /// `peers/target/release` of the current folder.
    ///
    /// # Errors
    /// The path of this program cannot be found; the text has the system's reason.
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
    /// The store is not built; the text says how to build it.
    pub fn child(&self, kind: &str) -> Result<Command, String> {
        if kind == "vlsm" {
            let mut command = Command::new(&self.ours);
            command.arg("child");
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

    /// Checks that a store is built and has the configuration.
    ///
    /// # Errors
    /// The store is not built, or the name is unknown. The text says how to build the store, or
    /// suggests the nearest name.
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

    /// The kinds of other stores that are built; empty if the program `peers` is not.
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

/// Does a run in a process of its own. `stop` interrupts it; `tell` receives its progress.
///
/// # Errors
/// The program cannot be started or does not answer. A failure of the run itself is in the answer.
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
            // One interrupt is enough: the child then ends by itself.
            while !over.load(Relaxed) {
                if stop.load(Relaxed) {
                    let _ = kill_process(pid, Signal::INT);
                    return;
                }
                clock::sleep(Duration::from_millis(20));
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

/// Prints a line of the child that is no message to the parent, because it is for the user.
fn pass_on(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
