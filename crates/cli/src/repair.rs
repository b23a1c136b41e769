//! `repair`: saves what can be saved of a damaged store into a new one, and lists what was lost by
//! range of keys. The damaged store is only read.
//!
//! 1. Read the manifest. If it is damaged, the state is that of its readable beginning (`source`).
//! 2. Check every SST that the state names. Copy the WALs, the SSTs, damaged ones too, and write a
//!    manifest with the state: from here on all work is on the copy.
//! 3. Read the keyspaces that lost SSTs by a salvage, and write their readable pairs within the
//!    ranges of these SSTs into files (`rescue`). So no older value shows where a newer one is
//!    lost.
//! 4. Open the copy with the salvage of the WAL and of SSTs, which drops the damaged ones. Remove
//!    the ranges, and ingest the files.
//! 5. Verify the new store completely.
//!
//! Step 3 reads values, and cannot keep what is more than a value: operands of an operator that is
//! not known here, and the moments at which values expire. Keyspaces that have these lose the whole
//! SSTs instead, and older values may show again there; the list says so.
//!
//! If any step fails, the new folder is removed. SSTs name no keyspace, so without any readable
//! manifest nothing can be told apart, and the command fails.

mod rescue;
mod source;

use crate::escape::escape;
use crate::failure::{Failure, Result, say};
use crate::output::OutputArgs;
use crate::paint::Paint;
use crate::progress::grouped;
use rescue::Rescued;
use serde_json::{Value, json};
use source::Source;
use std::io::{self, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use vlsm::{Db, Event};
use vlsm_core::Error;

const EXAMPLES: &str = "\
Examples:
  vlsm verify my-store                          what is damaged
  vlsm repair my-store repaired                 what can be saved, and what is lost
  vlsm repair my-store repaired --json | jq '.lost[]'

The damaged store is only read, and must not be in use. The new one needs as much space. Prefer a
checkpoint or a backup where there is one: a repaired store lacks what was lost.

Saved are: the SSTs and the blocks of SSTs that verify, the WAL up to its first damage, and of a
damaged manifest the part before the damage. The exit code is 1 if anything was lost.";

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder of the damaged store
    store: PathBuf,
    /// Folder for the new store, new or empty
    target: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// A range of keys that is not in the new store as it was.
struct Lost {
    keyspace: String,
    from: Vec<u8>,
    to: Bound<Vec<u8>>,
    why: String,
    /// Whether older values of its keys may show again.
    older: bool,
}

/// The result of a repair.
struct Report {
    lost: Vec<Lost>,
    /// Damage of the manifest and the WAL, which has no range of keys.
    remarks: Vec<String>,
    entries: u64,
    ssts: u64,
}

/// Repairs a store.
pub fn run(args: &Args) -> Result {
    let source = Source::open(&args.store)?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if absolute(&args.target).starts_with(absolute(&args.store)) {
        let why = "the new store would be inside of the damaged one: name a folder elsewhere";
        return Err(Failure::usage(why));
    }
    let made = prepare(&args.target)?;
    let report = repair(&source, &args.target).inspect_err(|_| clean(&args.target, made))?;
    tell(args, &report)?;
    match report.lost.is_empty() && report.remarks.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{} is a sound store, but not everything could be saved: {} ranges of keys are lost, \
             and there are {} remarks",
            args.target.display(),
            grouped(report.lost.len() as u64),
            grouped(report.remarks.len() as u64),
        ))),
    }
}

/// Makes the folder of the new store, which must not hold anything. Whether it did not exist.
fn prepare(target: &Path) -> Result<bool> {
    let failed = |error: io::Error| Failure::file("cannot make the new store in", target, &error);
    match std::fs::read_dir(target).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(false),
        Ok(false) => {
            let what = format!("{} is not empty: name a new folder", target.display());
            Err(Failure::new(what))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(target).map_err(failed)?;
            Ok(true)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Removes what a repair that failed has made.
fn clean(target: &Path, made: bool) {
    if made {
        let _ = std::fs::remove_dir_all(target);
        return;
    }
    let entries = std::fs::read_dir(target).into_iter().flatten().flatten();
    entries.for_each(|entry| drop(std::fs::remove_file(entry.path())));
}

fn repair(source: &Source, target: &Path) -> Result<Report> {
    let damaged = source.damaged_tables();
    let mut remarks = source.remarks();
    remarks.extend(source.copy(target)?);
    let rescued = rescue::read(source, target, &damaged)?;
    let (db, told) = opened(target, true)?;
    for Rescued { keyspace, ranges, file, .. } in &rescued {
        let keyspace = db.keyspace(keyspace)?;
        for range in ranges {
            let to = match range.hi_inclusive {
                true => Bound::Included(range.hi.clone()),
                false => Bound::Excluded(range.hi.clone()),
            };
            keyspace.delete_range((Bound::Included(range.lo.clone()), to))?;
        }
        if let Some(file) = file {
            keyspace.ingest([file])?;
        }
    }
    db.close()?;
    remarks.extend(std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner)));
    // The damaged files themselves, which the old store has, too.
    let _ = std::fs::remove_dir_all(target.join("lost"));
    let mut lost: Vec<Lost> = rescued.iter().flat_map(|rescued| rescued.lost()).collect();
    let exact = |name: &str| rescued.iter().any(|rescued| rescued.keyspace == name);
    lost.extend(damaged.iter().filter(|table| !exact(&table.keyspace)).map(|table| Lost {
        keyspace: table.keyspace.clone(),
        from: table.range.lo.to_vec(),
        to: match table.range.hi_inclusive {
            true => Bound::Included(table.range.hi.to_vec()),
            false => Bound::Excluded(table.range.hi.to_vec()),
        },
        why: table.error.to_string(),
        older: true,
    }));
    // Paths are those of the store that the user knows.
    let [copy, old] = [target, source.folder()].map(|path| {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
    });
    let texts = lost.iter_mut().map(|lost| &mut lost.why).chain(&mut remarks);
    texts.for_each(|text| *text = text.replace(&copy, &old));
    let report = vlsm::verify(target)?;
    if report.damaged {
        return Err(Failure::new("the new store does not verify: it is removed again"));
    }
    Ok(Report { lost, remarks, entries: report.entries, ssts: report.ssts })
}

/// What the opening of a store told.
type Told = Arc<Mutex<Vec<String>>>;

/// Opens the new store: to read what its damaged SSTs still hold, or for good without them. What is
/// told about the WAL comes with it.
fn opened(target: &Path, write: bool) -> Result<(Db, Told)> {
    let told = Told::default();
    let tell = {
        let told = told.clone();
        move |event: &Event| {
            let text = match event {
                Event::WalDamaged { .. } => event.to_string(),
                Event::WalLost { path, batches, .. } => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    format!("{name} lies beyond the damage of the WAL: batches lost: {batches}")
                }
                _ => return,
            };
            told.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    };
    let db = Db::builder(target)
        .create_if_missing(false)
        .keep_unknown_operators(true)
        .read_only(!write)
        .allow_missing_ssts(!write)
        .configure(|options| {
            options.salvage_wal = true;
            options.salvage_ssts = write;
        })
        .listener(tell)
        .open()?;
    Ok((db, told))
}

/// Prints the result.
fn tell(args: &Args, report: &Report) -> Result {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.output.json {
        writeln!(out, "{:#}", json(args, report))?;
        return Ok(out.flush()?);
    }
    for remark in &report.remarks {
        writeln!(out, "{}: {remark}", Paint::Warning.out("not complete"))?;
    }
    for lost in &report.lost {
        let key = |bytes: &[u8]| {
            let mut text = Vec::new();
            escape(bytes, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        let to = match &lost.to {
            Bound::Included(to) => format!("to {}", key(to)),
            Bound::Excluded(to) => format!("up to {}, not included", key(to)),
            Bound::Unbounded => "to the end".to_owned(),
        };
        let (keyspace, from, why) = (&lost.keyspace, key(&lost.from), &lost.why);
        let older = if lost.older { "; older values may show again" } else { "" };
        let heading = Paint::Error.out("lost");
        writeln!(out, "{heading}: keyspace {keyspace}, from {from} {to}{older}: {why}")?;
    }
    out.flush()?;
    say(format_args!(
        "saved into {}: {} entries in {} SSTs",
        args.target.display(),
        grouped(report.entries),
        grouped(report.ssts)
    ));
    Ok(())
}

fn json(args: &Args, report: &Report) -> Value {
    let lost = report.lost.iter().map(|lost| {
        let (to, inclusive) = match &lost.to {
            Bound::Included(to) => (Some(to), true),
            Bound::Excluded(to) => (Some(to), false),
            Bound::Unbounded => (None, false),
        };
        let mut json = serde_json::Map::new();
        crate::dump::field("from", &lost.from, &mut json);
        if let Some(to) = to {
            crate::dump::field("to", to, &mut json);
        }
        json.insert("to_included".into(), inclusive.into());
        json.insert("keyspace".into(), lost.keyspace.clone().into());
        json.insert("older_values".into(), lost.older.into());
        json.insert("why".into(), lost.why.clone().into());
        Value::Object(json)
    });
    json!({
        "target": args.target.to_string_lossy(),
        "lost": lost.collect::<Vec<_>>(),
        "remarks": report.remarks,
        "entries": report.entries,
        "ssts": report.ssts,
    })
}

/// The failure for a store in which nothing can be told apart.
fn hopeless(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!(
        "{} has no manifest of which anything can be read ({why}), and SSTs do not say which \
         keyspace they belong to: restore a backup, or read single files by vlsm dump sst",
        path.display()
    ))
}

/// A store that is in use.
fn in_use(path: &Path, holder: vlsm_core::LockHolder) -> Failure {
    Failure::from(Error::Locked { path: path.to_owned(), holder })
}
