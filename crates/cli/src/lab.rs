//! `vlsm lab`: measure stores beside each other, and do the papers' figures again.
//!
//! Every run is a process of its own (`vlsm lab child`, or the program of `peers/`), told what to
//! do by a specification and answering with a report; here is only what the user says and sees.

mod compare;
mod figure;
mod list;
mod progress;

use crate::failure;
use clap::Subcommand;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vlsm_lab::child;
use vlsm_lab::engine::Engine;
use vlsm_lab::spec::{RunSpec, StoreSpec};
use vlsm_lab::store::{Store, StoreResult};

type Result<T = (), E = String> = std::result::Result<T, E>;

const EXAMPLES: &str = "\
Examples:
  vlsm lab list                                   all figures of the papers, and what they cost
  vlsm lab figure 8 --scale smoke                 vLSM's figure 8, to see that it works
  vlsm lab figure vlsm-8 silk-1 --out results     measured; an interrupted campaign goes on
  vlsm lab figure 8 --also pebble:sized,fjall:sized
                                                  other stores beside the figure's own
  vlsm lab compare vlsm rocksdb pebble            the same work on several stores, in turn
  vlsm lab compare vlsm:rocksdb --rate 100000     one store, open loop
  vlsm lab workloads                              what can be asked of a store

Stores are named KIND or KIND:CONFIG: vlsm:PROFILE is this engine, and vlsm:PROFILE/schedule=NAME
has another schedule (shape, admission) at that profile's sizes; rocksdb, pebble, fjall and others
are built by peers/build. Reports are pages that need no network, with JSON and CSV beside them.";

/// What to do in the laboratory.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Command {
    /// List the papers' figures: what they show, what they need, how long they take
    List(list::Args),
    /// List the workloads
    Workloads,
    /// Do figures of the papers again and say whether their claims hold here
    Figure(figure::Args),
    /// Run the same work on one store or several in turn, with a report
    Compare(compare::Args),
    /// One run, told by standard input: what the others start
    #[command(hide = true)]
    Child,
}

/// Does it.
pub fn run(command: Command) -> failure::Result {
    match command {
        Command::List(args) => list::figures(&args),
        Command::Workloads => list::workloads(),
        Command::Figure(args) => figure::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Child => Ok(serve()?),
    }
}

/// The body of a child. Each interrupt ends its phase and none of them the program: the parent, and
/// the kernel when that died, may both send one.
fn serve() -> Result {
    static STOP: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| STOP.store(true, Relaxed))
        .map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    child::serve(&open, &STOP)
}

/// Opens our engine.
pub fn open(run: &RunSpec, spec: &StoreSpec, folder: &Path) -> StoreResult<Box<dyn Store>> {
    if spec.kind != "vlsm" {
        return Err(format!("this program has no store {:?}", spec.kind).into());
    }
    Ok(Box::new(Engine::open(folder, spec.options.clone(), run.splits())?))
}

/// A flag that Ctrl-C raises. A second one ends the program at once; children then end by
/// themselves.
fn stop_flag() -> Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| {
        if STOP.swap(true, Relaxed) {
            std::process::exit(130);
        }
    })
    .map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    Ok(&STOP)
}

/// The commit that this program was built from, with a + where files were changed; empty where git
/// did not tell.
pub const COMMIT: &str = env!("VLSM_COMMIT");

/// Seconds as people say them.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The time a run takes, for people.
fn describe(run: &RunSpec) -> String {
    format!("{} ({} pairs)", run.store.name(), run.data.pairs)
}
