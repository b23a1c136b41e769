//! `verify`: checks every byte and every invariant of a store, and changes nothing.
//!
//! Findings go to stdout, one paragraph each or as JSON; progress and the summary to stderr. The
//! exit code is 1 if anything is damaged; leftovers are not damage.

use crate::failure::{Failure, Result, say};
use crate::paint::Paint;
use crate::progress::{Progress, grouped};
use crate::store::say_beside;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use vlsm::{Db, Env, Error, Finding, Severity, VerifyProgress, VerifyReport};
use vlsm_disk::env_real::RealEnv;

const EXAMPLES: &str = "\
Examples:
  vlsm verify my-store
  vlsm verify my-store --json | jq '.findings[].path'
  vlsm verify my-store && vlsm checkpoint my-store backup-monday

This reads every SST, WAL and manifest completely. If another process has the store open, it is
checked as of now, and leftovers are not looked for. The exit code is 1 if anything is damaged.
Bytes and order are checked, not the meaning of values: vlsm scan --failed lists the keys whose
operands the merge operator cannot combine.";

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder of the store
    store: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks a store.
pub fn run(args: &Args) -> Result {
    let env: Arc<dyn Env> = RealEnv::new();
    let bar = Progress::new(Some(0));
    let mut tell = |progress: VerifyProgress<'_>| bar.bytes(progress.done.0, progress.total.0);
    let report = match vlsm::verify_with(&env, &args.store, &mut tell) {
        Err(locked @ Error::Locked { .. }) => {
            say_beside(&locked);
            let builder = Db::builder(&args.store).follow(true).keep_unknown_operators(true);
            builder.open().and_then(|reader| reader.verify(&mut tell))
        }
        report => report,
    };
    bar.clear();
    let report = report?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        writeln!(out, "{:#}", json(&report))?;
    } else {
        report.findings.iter().try_for_each(|finding| print(finding, &mut out))?;
        if report.more > 0 {
            writeln!(out, "… and {} more", grouped(report.more))?;
        }
    }
    out.flush()?;
    say(format_args!(
        "checked {} SSTs with {} entries and {} WALs with {} batches ({})",
        grouped(report.ssts),
        grouped(report.entries),
        grouped(report.wals),
        grouped(report.batches),
        report.bytes,
    ));
    match report.damaged {
        false => Ok(()),
        true => Err(Failure::new(format!("{} is damaged", args.store.display()))),
    }
}

fn print(finding: &Finding, out: &mut impl Write) -> Result {
    let severity = match finding.severity {
        Severity::Damage => Paint::Error.out(finding.severity.name()),
        _ => Paint::Warning.out(finding.severity.name()),
    };
    let at = finding.offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
    writeln!(out, "{severity}: {}{at}: {}", finding.path.display(), finding.what)?;
    Ok(writeln!(out, "  what to do: {}", finding.advice)?)
}

fn json(report: &VerifyReport) -> serde_json::Value {
    let finding = |finding: &Finding| {
        json!({
            "severity": finding.severity,
            "path": finding.path.to_string_lossy(),
            "offset": finding.offset,
            "what": finding.what,
            "advice": finding.advice,
        })
    };
    json!({
        "damaged": report.damaged,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "more": report.more,
        "ssts": report.ssts,
        "entries": report.entries,
        "wals": report.wals,
        "batches": report.batches,
        "bytes": report.bytes.0,
    })
}
