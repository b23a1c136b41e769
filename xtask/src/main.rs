//! The house's own chores: tidy checks, licence check, stamping a new mechanism, the whole CI run.
//!
//! `cargo xtask tidy` reads every file of the workspace once and runs each check of [`tidy`] on it.
//! `cargo xtask licences` compares the licence of every dependency with `deny.toml`.
//! `cargo xtask new-mechanism AXIS NAME` stamps what a mechanism needs ([`new_mechanism`]).
//! `cargo xtask long --hours N` runs every class of reliability tests on new seeds ([`long`]).
//! `cargo xtask ci` runs `.ci/run`. Nothing but the standard library, so it builds in a second.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool for developers, outside the store's environment"
)]

mod licences;
mod long;
mod new_mechanism;
mod tidy;
mod wrap;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy                      check the house rules (file and function length, layers, essays, …)
  tidy --fix [PATH…]        the same after breaking comment lines that are too long
                            (everywhere, or in the files whose path starts with PATH)
  licences                  check the licence and origin of every dependency against deny.toml
  new-mechanism AXIS NAME   stamp a mechanism: file, registry line, test data, row in the docs
                            (AXIS: shape, schedule or admission; NAME: snake_case)
  long --hours N            every class of reliability tests on new seeds for so many hours; goes on
                            where the last run on this commit ended; report: target/long/report.md
  ci                        everything that CI runs: .ci/run";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["tidy", "--fix", under @ ..] => wrap::run(&root, under).and_then(|_| tidy::run(&root)),
        ["licences"] => licences::run(&root),
        ["new-mechanism", axis, name] => new_mechanism::run(&root, axis, name),
        ["long", "--hours", hours] => long::run(&root, hours),
        ["ci"] => ci(&root),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(message) => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace: the parent of this package as cargo starts it, wherever the
/// program was built (clones may share a target folder).
fn root() -> PathBuf {
    let built = || env!("CARGO_MANIFEST_DIR").into();
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(built);
    Path::new(&package).parent().expect("xtask lies in the workspace").to_owned()
}

fn ci(root: &Path) -> Result<String, String> {
    let status = Command::new(root.join(".ci/run"))
        .current_dir(root)
        .status()
        .map_err(|e| format!("cannot start .ci/run: {e}"))?;
    if status.success() { Ok("ci: ok".to_owned()) } else { Err("ci: failed".to_owned()) }
}
