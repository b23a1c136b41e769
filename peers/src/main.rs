//! Our engine and other stores on the same work: same driver, keys, sizes and machine.
//!
//! `peers run` measures one store in this process; `peers compare` has itself run for two stores in
//! turn and prints medians and ratios. README.md says what it takes to build.

mod compare;
mod run;
mod stores;

use clap::Parser;
use run::Load;
use std::process::ExitCode;
use vlsm_lab::workload::data::Data;

/// Measure vLSM beside other stores
#[derive(Parser)]
#[command(version)]
enum Cli {
    /// One run of one store; the report goes to stdout as JSON
    Run {
        /// vlsm:PROFILE, or KIND:CONFIGURATION as `peers list` has them
        store: String,
        #[command(flatten)]
        load: Load,
    },
    /// The kinds of stores with versions, configurations and what this build lacks, as JSON
    List {
        /// Only the names of those that this build has, one a line
        #[arg(long)]
        kinds: bool,
    },
    /// The first keys that the laboratory generates, one a line
    Keys {
        /// How many
        #[arg(long, default_value_t = 10)]
        count: u64,
        /// Bytes of a key, 24 at least: shorter ones are not text
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(24..))]
        key_size: u16,
    },
    /// Alternating runs of two stores: medians, and ratios pair by pair
    Compare {
        /// The first store
        #[arg(default_value = "vlsm:rocksdb")]
        a: String,
        /// The second store
        #[arg(default_value = "rocksdb:papers")]
        b: String,
        /// Pairs of runs
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        #[command(flatten)]
        load: Load,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse() {
        Cli::Run { store, load } => run::run(&store, &load).and_then(|report| {
            println!("{}", report.to_json().map_err(|error| error.to_string())?);
            Ok(())
        }),
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
        Cli::Compare { a, b, rounds, load } => compare::compare(&a, &b, rounds, &load),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::FAILURE
        }
    }
}
