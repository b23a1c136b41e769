//! The `vlsm` program: reads, changes, loads and measures a store. It is a library, so that tests
//! and the fuzzer reach its parsers; the program calls [`main`].
//!
//! One file per group of commands: `data` (put, get, merge, delete, scan), `export`, `import`,
//! `ingest` (sst, ingest), `inspect` (stats, levels), `keyspaces`, `verify`, `repair`, `copy`
//! (checkpoint, restore), `compact`, `size`, `dump`, `bench`, `generate` (completions, man),
//! `shell`, `top`.
//! Shared: `store` (the engine's calls), `record`, `escape` and `lines` (text to bytes and back),
//! `progress`, `output` (JSON instead of a line), `paint` (colours), `interrupt` (Ctrl-C in a
//! shell), `failure` (exit codes: 0 done, 1 failed or not found, 2 wrong usage).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program for people: its input, output and clock are the real ones"
)]

pub mod bench;
mod catalog;
mod compact;
mod copy;
mod data;
mod dump;
pub mod escape;
mod export;
pub mod failure;
mod generate;
mod import;
mod ingest;
mod inspect;
pub mod interrupt;
mod keyspaces;
pub mod lines;
mod output;
mod paint;
mod progress;
pub mod record;
mod repair;
mod shell;
mod size;
mod store;
mod top;
mod unflushed;
mod verify;

use clap::{CommandFactory, Parser, Subcommand};
use failure::{Failure, Result};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  vlsm bench                                    load a temporary store for a minute, then report
  vlsm put my-store apple green
  vlsm get my-store apple
  vlsm import my-store packages.tsv             TSV or JSON lines; - or nothing for stdin
  vlsm scan my-store --prefix app --limit 10
  vlsm export my-store > all.tsv
  vlsm levels my-store
  vlsm shell my-store                           commands one after the other: put apple green
  vlsm top my-store                             a live view, while another process writes
  vlsm verify my-store
  vlsm repair my-store repaired                 after damage: into a new store
  vlsm checkpoint my-store backup

A store is a folder. Keys and values hold any bytes: \\t \\n \\r \\\\ and \\xNN stand for bytes that
cannot be typed, or use --hex. Exit codes: 0 done, 1 failed or not found, 2 wrong usage.
`vlsm help COMMAND` shows examples for each command.";

/// An embedded key-value store that fights write stalls
#[derive(Debug, Parser)]
#[command(name = "vlsm", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load and read a store and report throughput, latencies, stalls and compaction chains
    Bench(Box<bench::Args>),
    /// Say how to start the laboratory, which compares stores and repeats the papers' figures
    #[command(disable_help_flag = true)]
    Lab {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Set a key to a value
    Put(data::PutArgs),
    /// Print the value of a key
    Get(data::GetArgs),
    /// Change a value by an operand of the keyspace's merge operator
    Merge(data::MergeArgs),
    /// Remove keys
    Delete(data::DeleteArgs),
    /// Print records in key order
    Scan(data::ScanArgs),
    /// Read records from a file or stdin into a store
    Import(import::Args),
    /// Write sorted records from a file or stdin into an SST, for ingest
    Sst(ingest::SstArgs),
    /// Add SSTs of sorted records to a store, all of them or none
    Ingest(ingest::IngestArgs),
    /// Write all records as TSV or JSON lines
    Export(export::Args),
    /// Print the contents of a store, by keyspace and kind of file
    Stats(inspect::StatsArgs),
    /// List the keyspaces of a store with their options; clear, drop or rename one
    Keyspaces(keyspaces::Args),
    /// Print the tree: runs of L0, levels, SSTs
    Levels(inspect::LevelsArgs),
    /// Check every byte and every invariant of a store
    Verify(verify::Args),
    /// Save the readable data of a damaged store into a new store
    Repair(repair::Args),
    /// Copy a store, as of this moment, into a new folder
    Checkpoint(copy::CheckpointArgs),
    /// Check a checkpoint and copy it into a new folder
    Restore(copy::RestoreArgs),
    /// Print the approximate size of a range of keys
    Size(size::Args),
    /// Merge a range of keys down to the last level
    Compact(compact::Args),
    /// Print a file of a store in readable form
    #[command(subcommand)]
    Dump(dump::Command),
    /// Type commands on one store, which stays open: with history and completion
    Shell(Box<shell::Args>),
    /// Watch a store that another process writes: rates, latencies, levels, waits
    Top(top::Args),
    /// Print the completions of a shell: bash, zsh or fish
    Completions(generate::CompletionsArgs),
    /// Write the manual: a page for each command
    Man(generate::ManArgs),
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report("vlsm"),
    }
}

/// The command line.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that this program was built from, with a + if files were changed; empty if git did
/// not report it.
pub const COMMIT: &str = env!("VLSM_COMMIT");

/// Returns the message that names the command of the laboratory: it is a program of its own, which
/// is not built with this one.
fn laboratory(arguments: &[String]) -> Failure {
    let command = ["cargo run --release --package vlsm-lab --"];
    let words = command.into_iter().chain(arguments.iter().map(String::as_str));
    let command = words.collect::<Vec<_>>().join(" ");
    Failure::usage(format!("the laboratory is a program of its own: run `{command}` in the source"))
}

fn run(command: Command) -> Result {
    match command {
        Command::Bench(args) => bench::run(*args).map_err(Failure::new),
        Command::Lab { arguments } => Err(laboratory(&arguments)),
        Command::Put(args) => data::put(&args),
        Command::Get(args) => data::get(&args),
        Command::Merge(args) => data::merge(&args),
        Command::Delete(args) => data::delete(&args),
        Command::Scan(args) => data::scan(&args),
        Command::Import(args) => import::run(&args),
        Command::Sst(args) => ingest::sst(&args),
        Command::Ingest(args) => ingest::ingest(&args),
        Command::Export(args) => export::run(&args),
        Command::Stats(args) => inspect::stats(&args),
        Command::Keyspaces(args) => keyspaces::run(&args),
        Command::Levels(args) => inspect::levels(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Checkpoint(args) => copy::checkpoint(&args),
        Command::Restore(args) => copy::restore(&args),
        Command::Size(args) => size::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Dump(command) => dump::run(&command),
        Command::Shell(args) => shell::run(*args),
        Command::Top(args) => top::run(&args),
        Command::Completions(args) => generate::completions(&args, self::command()),
        Command::Man(args) => generate::man(&args, self::command()),
    }
}

impl Command {
    /// The arguments with which the command opens a store, if it does.
    fn store_args(&mut self) -> Option<&mut store::StoreArgs> {
        match self {
            Self::Put(args) => Some(&mut args.store),
            Self::Get(args) => Some(&mut args.store),
            Self::Merge(args) => Some(&mut args.store),
            Self::Delete(args) => Some(&mut args.store),
            Self::Scan(args) => Some(&mut args.store),
            Self::Import(args) => Some(&mut args.store),
            Self::Ingest(args) => Some(&mut args.store),
            Self::Export(args) => Some(&mut args.store),
            Self::Size(args) => Some(&mut args.store),
            Self::Compact(args) => Some(&mut args.store),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_laboratory_is_told_where_it_is_with_its_arguments() {
        let cli = Cli::try_parse_from(["vlsm", "lab", "figure", "8", "--scale", "smoke"]);
        let Err(Failure::Usage(what)) = run(cli.expect("it is understood").command) else {
            panic!("it is not done here");
        };
        assert!(what.contains("--package vlsm-lab -- figure 8 --scale smoke"), "{what}");
    }
}
