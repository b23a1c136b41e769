//! The programs that do runs: this one, and `peers` for the other stores. Each run is a process of
//! its own; [`vlsm_measure::child`] describes the protocol.
//!
//! This program passes an interrupt on: the child ends its phase, answers with its report so far
//! and removes its data. While the run goes on, `probe` reads from its device.

use crate::probe::{Probe, Steps};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use vlsm_cli::failure::say;
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
        let peers = [named, beside, Some(built)].into_iter().flatten().find(|path| path.is_file());
        Ok(Self { ours, peers })
    }

    /// The program that runs a store of this kind.
    fn of(&self, kind: &str) -> Result<&Path, String> {
        let program = if kind == "vlsm" { Some(&self.ours) } else { self.peers.as_ref() };
        program.map(PathBuf::as_path).ok_or_else(|| {
            format!(
                "the other stores are not built, {kind} among them: run {BUILD_PEERS} (RocksDB \
                 takes about 18 minutes and needs Debian's libclang-dev)"
            )
        })
    }

    /// Checks that a store is built and has the configuration.
    ///
    /// # Errors
    /// The store is not built, or the name is unknown. The text says how to build the store, or
    /// suggests the nearest name.
    pub fn check(&self, store: &StoreSpec) -> Result<(), String> {
        let peers = self.of(&store.kind)?;
        if store.kind == "vlsm" {
            return Ok(());
        }
        let output = Command::new(peers).arg("list").output();
        let output = output.map_err(|error| format!("{}: {error}", peers.display()))?;
        let known: Vec<Listed> = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{} cannot list its stores: {error}", peers.display()))?;
        let names = known.iter().map(|listed| listed.kind.as_str()).chain(["vlsm"]);
        let listed = known.iter().find(|listed| listed.kind == store.kind);
        let listed = listed.ok_or_else(|| unknown("store", &store.kind, names).to_string())?;
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
    let mut command = Command::new(programs.of(kind)?);
    command.arg("child").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let pid = Pid::from_child(&child);
    let text = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
    child.stdin.take().expect("it is piped").write_all(&text).map_err(failed)?;
    let lines = BufReader::new(child.stderr.take().expect("it is piped"));
    let (over, steps) = (AtomicBool::new(false), Mutex::new(Steps::default()));
    let output = std::thread::scope(|scope| {
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
        scope.spawn(|| {
            if let Some(probe) = Probe::new(&spec.dir()) {
                probe.watch(&over, &steps);
            }
        });
        for line in lines.split(b'\n').map_while(Result::ok) {
            match serde_json::from_slice(&line) {
                Ok(said) => {
                    if let Line::Step(name, ..) = &said {
                        steps.lock().begin(name);
                    }
                    tell(said);
                }
                // The line is for the user, not for this program.
                Err(_) => say(String::from_utf8_lossy(&line)),
            }
        }
        let output = reader.join().expect("reading does not panic");
        over.store(true, Relaxed);
        output
    });
    let output = output.map_err(failed)?;
    let mut answer: Answer = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("the run of {kind} ended with {} and no report ({error})", output.status)
    })?;
    answer.report.method.commit = vlsm_cli::COMMIT.into();
    for phase in &mut answer.report.phases {
        phase.device_beside = steps.lock().of(&phase.name);
    }
    Ok(answer)
}
