//! The `vlsm-lab` program: it compares stores and repeats the papers' figures.
//!
//! Every run is a process of its own (`vlsm-lab child`, or the program of `peers/`). The process
//! reads a specification and answers with a report. This module has only the user interface.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program for people: its input, output and clock are the real ones"
)]

mod claims;
mod compare;
mod figure;
mod list;
mod progress;

use crate::files;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vlsm_cli::bench::open;
use vlsm_cli::failure;
use vlsm_measure::child;
use vlsm_measure::spec::RunSpec;

type Result<T = (), E = String> = std::result::Result<T, E>;

const EXAMPLES: &str = "\
Examples:
  vlsm-lab list                                   all figures of the papers, and what they cost
  vlsm-lab figure 8 --scale smoke                 vLSM's figure 8, to see that it works
  vlsm-lab figure vlsm-8 silk-1 --out results     measured; an interrupted campaign goes on
  vlsm-lab figure 8 --also pebble:sized,fjall:sized
                                                  other stores beside the figure's own
  vlsm-lab compare vlsm rocksdb pebble            the same work on several stores, in turn
  vlsm-lab compare vlsm:rocksdb --load 100000     one store, open loop
  vlsm-lab workloads                              what can be asked of a store

Stores are named KIND or KIND:CONFIG: vlsm:PROFILE is this engine, and vlsm:PROFILE/schedule=NAME
has another schedule (shape, admission) at that profile's sizes; rocksdb, pebble, fjall and others
are built by peers/build. Reports are pages that need no network, with JSON and CSV beside them.";

/// Measure stores beside each other, and repeat the papers' figures
#[derive(Debug, Parser)]
#[command(name = "vlsm-lab", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands of the laboratory.
#[derive(Debug, Subcommand)]
enum Command {
    /// List the papers' figures: what they show, what they need, how long they take
    List(figure::Shared),
    /// List the workloads
    Workloads,
    /// Repeat figures of the papers, and judge whether their claims hold here
    Figure(figure::Args),
    /// Run the same work on one store or several in turn, with a report
    Compare(compare::Args),
    /// Write the page of all verdicts, docs/claims.md, from the figures that were kept
    Claims(claims::Args),
    /// Do one run, which standard input specifies: the other commands start it
    #[command(hide = true)]
    Child,
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("vlsm-lab"),
    }
}

/// The command line.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

fn run(command: Command) -> failure::Result {
    match command {
        Command::List(args) => list::figures(&args),
        Command::Workloads => list::workloads(),
        Command::Figure(args) => figure::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Claims(args) => claims::run(&args),
        // An interrupt ends its phase, never the program: the parent may send one, and the kernel
        // sends another when the parent dies.
        Command::Child => Ok(child::serve(&open, stop_flag(false)?)?),
    }
}

/// A flag that Ctrl-C or SIGTERM raises. With `twice` a second one ends the program at once;
/// children then end by themselves.
fn stop_flag(twice: bool) -> Result<&'static AtomicBool> {
    static STOP: AtomicBool = AtomicBool::new(false);
    vlsm_cli::interrupt::at_end(move || {
        if STOP.swap(true, Relaxed) && twice {
            std::process::exit(130);
        }
    })?;
    Ok(&STOP)
}

/// Writes these files, by name, into a folder.
fn write_files(folder: &Path, files: &[(String, String)]) -> Result {
    files::make_folder(folder)?;
    files.iter().try_for_each(|(name, content)| files::write(&folder.join(name), content))
}

/// A duration for people, given in seconds.
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
