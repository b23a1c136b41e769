//! Other stores under the laboratory's driver: the same keys, sizes and machine as ours.
//!
//! `vlsm-lab` starts `peers child` for each run of one of them and tells it by standard input what
//! to do. `vlsm import --from` starts `peers export`. README.md says what it takes to build.

mod export;
mod native;
mod stores;

use clap::Parser;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vlsm_measure::child::{run_here, serve_with};
use vlsm_measure::spec::{RunSpec, StoreSpec};
use vlsm_measure::workload::data::Data;

/// Measure vLSM beside other stores
#[derive(Parser)]
#[command(version)]
enum Cli {
    /// One run: its specification as JSON on standard input, the answer as JSON on standard output
    Child,
    /// The kinds of stores with versions, configurations and what this build lacks, as JSON
    List {
        /// Only the names of those that this build has, one a line
        #[arg(long)]
        kinds: bool,
    },
    /// Write all records of another store as JSON lines, for `vlsm import --from`
    Export(export::Args),
    /// Compare the laboratory's driver with a native loop, store by store
    Native(native::Args),
    /// The first keys that the laboratory generates, one a line
    Keys {
        /// Number of keys
        #[arg(long, default_value_t = 10)]
        count: u64,
        /// Bytes of a key, 24 at least: shorter ones are not text
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(24..))]
        key_size: u16,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse() {
        Cli::Child => child(),
        Cli::Export(args) => export::run(&args),
        Cli::Native(args) => native::run(&args),
        Cli::List { kinds: true } => {
            stores::kinds().for_each(|kind| println!("{kind}"));
            Ok(())
        }
        Cli::List { kinds: false } => serde_json::to_string_pretty(&stores::list())
            .map(|list| println!("{list}"))
            .map_err(|error| error.to_string()),
        Cli::Keys { count, key_size } => {
            let (data, mut key) = (Data::new(key_size.into(), 0, 0), Vec::new());
            for record in 0..count {
                data.key(record, &mut key);
                println!("{}", String::from_utf8_lossy(&key));
            }
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Does the run that the parent asks for, until it is over or interrupted.
fn child() -> Result<(), String> {
    static STOP: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| STOP.store(true, Relaxed))
        .map_err(|error| format!("interrupts cannot be noticed: {error}"))?;
    let open =
        |run: &RunSpec, spec: &StoreSpec, folder: &Path| stores::open(spec, run.splits(), folder);
    serve_with(
        &|spec, dir, stop, tell| match spec.store.kind.as_str() {
            // A store in Go is driven in Go.
            stores::pebble::NAME => stores::pebble::run(spec, dir, stop, tell),
            _ => run_here(&open, spec, dir, stop, tell),
        },
        &STOP,
    )
}
