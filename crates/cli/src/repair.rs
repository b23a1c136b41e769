//! `repair`: saves the readable data of a damaged store into a new store, and lists the lost ranges
//! of keys. The damaged store is only read.
//!
//! 1. Read the manifest. If it is damaged, the state is that of its readable beginning (`source`).
//! 2. Check every SST that the state names. Copy the WALs and all SSTs, including damaged ones, and
//!    write a manifest with the state. From here on all work is on the copy. An SST whose copy
//!    fails counts as damaged, too.
//! 3. Read the keyspaces that lost SSTs by a salvage, and write their readable pairs within the
//!    ranges of these SSTs into files (`rescue`). So no older value shows again where a newer one
//!    is lost.
//! 4. Open the copy with the salvage of the WAL and of SSTs, which drops the damaged ones; if it
//!    drops another one, the repair fails. Remove the ranges, ingest the files, and flush.
//! 5. Verify the new store completely.
//!
//! Step 3 reads values. It cannot keep operands of an unknown operator, nor the times at which
//! values expire. Keyspaces that have these lose the whole SSTs instead, and older values may show
//! again there; the list says so.
//!
//! If any step fails, the new folder is removed. SSTs name no keyspace, so without any readable
//! manifest their keyspaces are unknown, and the command fails.

mod rescue;
mod source;

use crate::escape::escape;
use crate::failure::{Failure, Result, say};
use crate::output::OutputArgs;
use crate::paint::Paint;
use crate::progress::grouped;
use rescue::Rescued;
use serde_json::{Value, json};
use source::{DamagedTable, Source};
use std::io::{self, Write};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vlsm::{Db, Event};
use vlsm_core::{Error, FileNumber};
use vlsm_disk::sst::sst_number;

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
    let target = real(&args.target);
    if target.starts_with(real(&args.store)) {
        let why = "the new store would be inside of the damaged one: name a folder elsewhere";
        return Err(Failure::usage(why));
    }
    let made = prepare(&target)?;
    let repaired = save(&source, &target, source.damaged_tables());
    let report = repaired.inspect_err(|_| clean(&target, made)).map_err(not_usage)?;
    tell(args, &report)?;
    let missing = [
        (report.lost.len() as u64, "lost range of keys", "lost ranges of keys"),
        (report.remarks.len() as u64, "remark", "remarks"),
    ];
    let missing = missing.into_iter().filter(|(count, ..)| *count > 0);
    let missing: Vec<String> =
        missing.map(|(count, one, more)| counted(count, one, more)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{} is a sound store, but not everything could be saved: see {}",
            args.target.display(),
            missing.join(" and "),
        ))),
    }
}

/// The path without `..` and links, even if its end does not exist yet.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => drop(real.pop()),
            part => real.push(part),
        }
        real = std::fs::canonicalize(&real).unwrap_or(real);
    }
    real
}

/// The failure of a repair, which is never a usage error.
fn not_usage(failure: Failure) -> Failure {
    match failure {
        Failure::Usage(what) => Failure::Failed(what),
        other => other,
    }
}

/// A number with its noun.
fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { more })
}

/// Makes the folder of the new store, which must be empty. Returns whether it did not exist.
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

/// Removes the files of a failed repair.
fn clean(target: &Path, made: bool) {
    if made {
        let _ = std::fs::remove_dir_all(target);
        return;
    }
    let entries = std::fs::read_dir(target).into_iter().flatten().flatten();
    entries.for_each(|entry| drop(std::fs::remove_file(entry.path())));
}

/// Makes the new store. `damaged` are the tables that are known to be damaged.
fn save(source: &Source, target: &Path, mut damaged: Vec<DamagedTable>) -> Result<Report> {
    let mut remarks = source.remarks();
    remarks.extend(source.copy(target, &mut damaged)?);
    let rescued = rescue::read(source, target, &damaged)?;
    let (db, told) = opened(target, true)?;
    told.all_known(&damaged)?;
    for Rescued { keyspace, ranges, files, .. } in &rescued {
        let keyspace = db.keyspace(keyspace)?;
        for range in ranges {
            let to = match range.hi_inclusive {
                true => Bound::Included(range.hi.clone()),
                false => Bound::Excluded(range.hi.clone()),
            };
            keyspace.delete_range((Bound::Included(range.lo.clone()), to))?;
        }
        if !files.is_empty() {
            keyspace.ingest(files)?;
        }
    }
    // After this, the entries of the WAL are counted with the others.
    db.flush()?;
    db.close()?;
    remarks.append(&mut told.lock().remarks);
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
    // Messages show the paths of the old store, which the user knows.
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

/// The losses that the events of an open report.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Salvage>>);

/// The data that a salvage could not keep.
#[derive(Default)]
struct Salvage {
    /// Remarks about the WAL.
    remarks: Vec<String>,
    /// The SSTs, with their damage.
    ssts: Vec<(Option<FileNumber>, Error)>,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, Salvage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if an SST was dropped that is not yet known to be lost.
    fn all_known(&self, damaged: &[DamagedTable]) -> Result {
        let known = |number| damaged.iter().any(|table| Some(table.file) == number);
        match self.lock().ssts.iter().find(|(number, _)| !known(*number)) {
            None => Ok(()),
            Some((_, error)) => Err(Failure::new(format!(
                "the copy of an SST that was sound is damaged: {error}; the new store is removed \
                 again: check the devices of both stores, and repair into another folder"
            ))),
        }
    }
}

/// Opens the new store: either to read the readable parts of its damaged SSTs, or finally without
/// them. Also returns the reports about the WAL.
fn opened(target: &Path, write: bool) -> Result<(Db, Told)> {
    let told = Told::default();
    let tell = {
        let told = told.clone();
        move |event: &Event| {
            let text = match event {
                Event::SstLost { path, error, .. } => {
                    let name = Path::new(path.file_name().unwrap_or_default());
                    told.lock().ssts.push((sst_number(name), error.clone()));
                    return;
                }
                Event::WalDamaged { .. } => event.to_string(),
                Event::WalLost { path, batches, .. } => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    format!("{name} lies beyond the damage of the WAL: batches lost: {batches}")
                }
                _ => return,
            };
            told.lock().remarks.push(text);
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
        "saved into {}: {} in {}",
        args.target.display(),
        counted(report.entries, "entry", "entries"),
        counted(report.ssts, "SST", "SSTs"),
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

/// The failure for a store whose keyspaces are unknown.
fn hopeless(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!(
        "no part of the manifest of {} can be read ({why}), and SSTs do not say which keyspace \
         they belong to: restore a backup, or read single files with vlsm dump sst",
        path.display()
    ))
}

/// The failure for a store that is in use.
fn in_use(path: &Path, holder: vlsm_core::LockHolder) -> Failure {
    Failure::from(Error::Locked { path: path.to_owned(), holder })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed store of one SST, and the SST's path.
    fn of_one_sst(folder: &Path) -> (PathBuf, PathBuf) {
        let store = folder.join("store");
        let db = Db::open(&store).unwrap();
        for number in 0..2000 {
            db.put(format!("key{number:04}"), "v".repeat(100)).unwrap();
        }
        db.flush().unwrap();
        db.close().unwrap();
        let names = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
        let mut ssts = names.filter(|path| path.extension().is_some_and(|end| end == "sst"));
        let sst = ssts.next().unwrap();
        assert!(ssts.next().is_none());
        (store, sst)
    }

    #[test]
    fn an_sst_that_cannot_be_copied_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, sst) = of_one_sst(folder.path());
        let source = Source::open(&store).unwrap();
        let damaged = source.damaged_tables();
        assert!(damaged.is_empty());
        // A file may be gone at the second read.
        std::fs::remove_file(&sst).unwrap();
        let target = folder.path().join("new");
        std::fs::create_dir(&target).unwrap();
        let report = save(&source, &target, damaged).unwrap();
        assert_eq!(report.lost.len(), 1);
        let lost = &report.lost[0];
        assert_eq!((&lost.from[..], lost.keyspace.as_str()), (&b"key0000"[..], "default"));
        assert_eq!(report.entries, 0);
    }

    #[test]
    fn a_copy_that_turns_out_damaged_is_no_repair() {
        let folder = tempfile::tempdir().unwrap();
        let (store, sst) = of_one_sst(folder.path());
        let source = Source::open(&store).unwrap();
        let damaged = source.damaged_tables();
        // The copy reads other bytes than the check, as from a failing device.
        let mut bytes = std::fs::read(&sst).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&sst, bytes).unwrap();
        let target = folder.path().join("new");
        std::fs::create_dir(&target).unwrap();
        let Err(Failure::Failed(what)) = save(&source, &target, damaged) else {
            panic!("it loses an SST that nothing lists");
        };
        assert!(what.contains("the copy of an SST that was sound is damaged"), "{what}");
    }
}
