//! The `vlsm` program: reads, changes, loads and measures a store. It is a library, so that tests
//! and the fuzzer reach its parsers; the program calls [`main`].
//!
//! One file per group of commands: `data` (put, get, delete, scan, export), `import`, `ingest`
//! (sst, ingest), `inspect` (stats, levels), `verify`, `copy` (checkpoint, restore), `compact`,
//! `size`, `dump`, `bench`.
//! Shared: `store` (the engine's calls), `record`, `escape` and `lines` (text to bytes and back),
//! `progress`, `failure` (exit codes: 0 done, 1 failed or not found, 2 wrong usage).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program for people: its input, output and clock are the real ones"
)]

mod bench;
mod catalog;
mod compact;
mod copy;
mod data;
mod dump;
pub mod escape;
mod failure;
mod import;
mod ingest;
mod inspect;
mod lab;
pub mod lines;
mod progress;
pub mod record;
mod size;
mod store;
mod verify;

use clap::{Parser, Subcommand};
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
  vlsm verify my-store
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
    Bench(bench::Args),
    /// Compare stores; repeat the figures of the papers
    #[command(subcommand)]
    Lab(lab::Command),
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
    Export(data::ExportArgs),
    /// Print the contents of a store, by keyspace and kind of file
    Stats(inspect::StatsArgs),
    /// Print the tree: runs of L0, levels, SSTs
    Levels(inspect::LevelsArgs),
    /// Check every byte and every invariant of a store
    Verify(verify::Args),
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
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result {
    match command {
        Command::Bench(args) => bench::run(args).map_err(Failure::new),
        Command::Lab(command) => lab::run(command),
        Command::Put(args) => data::put(&args),
        Command::Get(args) => data::get(&args),
        Command::Merge(args) => data::merge(&args),
        Command::Delete(args) => data::delete(&args),
        Command::Scan(args) => data::scan(&args),
        Command::Import(args) => import::run(&args),
        Command::Sst(args) => ingest::sst(&args),
        Command::Ingest(args) => ingest::ingest(&args),
        Command::Export(args) => data::export(&args),
        Command::Stats(args) => inspect::stats(&args),
        Command::Levels(args) => inspect::levels(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Checkpoint(args) => copy::checkpoint(&args),
        Command::Restore(args) => copy::restore(&args),
        Command::Size(args) => size::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Dump(command) => dump::run(&command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// Options of other programs that texts name.
    const OF_OTHERS: [&str; 1] = ["kinds"];

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// All options of a command and of the commands below it.
    fn options(command: &clap::Command, found: &mut BTreeSet<String>) {
        let longs = command.get_arguments().filter_map(clap::Arg::get_long);
        found.extend(longs.map(str::to_owned));
        command.get_subcommands().for_each(|below| options(below, found));
    }

    /// The options that the string literals of a source file name, without those of its tests.
    fn named(source: &str) -> BTreeSet<String> {
        let text = source.split("#[cfg(test)]").next().unwrap_or_default();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words =
            code.flat_map(|line| line.split(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '-')));
        let long = words.filter_map(|word| word.strip_prefix("--"));
        let long = long.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
        long.map(|name| name.trim_end_matches('-').to_owned()).collect()
    }

    /// An error, an advice or a help text that names an option that is not there leads nowhere.
    #[test]
    fn every_option_that_a_text_names_is_there() {
        let mut known = BTreeSet::from(["help".to_owned(), "version".to_owned()]);
        let mut command = Cli::command();
        command.build();
        options(&command, &mut known);
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut folders: Vec<PathBuf> =
            ["core", "disk", "policy", "vlsm", "lab", "cli"].map(|name| crates.join(name)).into();
        folders.iter_mut().for_each(|folder| folder.push("src"));
        let mut seen = BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    // Charts name variables of style sheets.
                    folders.extend((!path.ends_with("report/chart")).then_some(path));
                    continue;
                }
                if path.extension().is_none_or(|extension| extension != "rs") {
                    continue;
                }
                for option in named(&std::fs::read_to_string(&path).unwrap()) {
                    let other = OF_OTHERS.contains(&&option[..]);
                    assert!(known.contains(&option) || other, "{}: --{option}", path.display());
                    seen.insert(option);
                }
            }
        }
        for option in ["salvage-wal", "skip-damaged", "strict", "path", "keep"] {
            assert!(seen.contains(option), "--{option} is named nowhere: is the search broken?");
        }
        let gone = OF_OTHERS.iter().find(|option| !seen.contains(**option));
        assert_eq!(gone, None, "nothing names it any more");
    }

    #[test]
    fn options_in_texts_are_found() {
        let source =
            "//! --comment\nlet a = \"use --some-option, or --other-\";\n#[cfg(test)] --test";
        assert!(named(source).iter().eq(["other", "some-option"]));
    }
}
