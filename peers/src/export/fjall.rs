//! fjall: it has no way to open a store to read only; opening one replays and rewrites its journal
//! and starts compactions. So a copy is opened.
//!
//! 1. Take the store's lock, which keeps it still. A store that a process has open is refused.
//! 2. Make a folder beside it, on the same file system, and copy the store into it. Tables and blob
//!    files, which fjall never changes, are linked, so the copy costs neither time nor space;
//!    journals and lists of files are copied. What cannot be linked is copied.
//! 3. Let go of the lock, open the copy, and write its keyspaces. The copy is removed at the end.
//!
//! Values that were separated from their keys come over as any other. Keys are ordered by bytes.

use super::{Lines, Outcome, chosen};
use fjall::{Database, KeyspaceCreateOptions, Readable};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

/// The folders of files that are written once.
const UNCHANGED: [&str; 2] = ["tables", "blobs"];
/// Deeper folders than fjall has are not its own.
const DEPTH: usize = 6;

pub fn export(path: &Path, only: &[String], lines: &mut Lines<impl Write>) -> Outcome {
    let copy = copy(path)?;
    let told = |error: fjall::Error| format!("fjall: {error}");
    let db = Database::builder(copy.path()).open().map_err(told)?;
    let mut names: Vec<String> =
        db.list_keyspace_names().iter().map(|name| name.to_string()).collect();
    names.sort();
    let names = chosen(names, only, "keyspace")?;
    let snapshot = db.snapshot();
    for name in &names {
        let keyspace = db.keyspace(name, KeyspaceCreateOptions::default).map_err(told)?;
        lines.keyspace(name)?;
        for pair in snapshot.iter(&keyspace) {
            let (key, value) =
                pair.into_inner().map_err(|error| format!("keyspace {name:?}: fjall: {error}"))?;
            lines.pair(&key, &value)?;
        }
    }
    Ok(())
}

/// A copy beside the store, made while nobody writes it.
#[expect(clippy::disallowed_methods, reason = "it is a store that is not ours")]
fn copy(path: &Path) -> Outcome<TempDir> {
    let lock = path.join("lock");
    let held = File::open(&lock).map_err(|error| {
        format!("it is not the folder of a fjall store of version 3 ({}: {error})", lock.display())
    })?;
    held.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => {
            "a process has it open: end that process first; fjall lets nobody read beside it".into()
        }
        fs::TryLockError::Error(error) => format!("it cannot be locked: {error}"),
    })?;
    let full = path.canonicalize().map_err(|error| error.to_string())?;
    let beside = full.parent().unwrap_or(&full);
    let copy = tempfile::Builder::new().prefix(".export-").tempdir_in(beside);
    let copy = copy.or_else(|_| tempfile::tempdir());
    let copy = copy.map_err(|error| format!("no folder can be made for a copy: {error}"))?;
    copy_folder(&full, copy.path(), false, DEPTH)?;
    Ok(copy)
}

#[expect(clippy::disallowed_methods, reason = "it is a store that is not ours")]
fn copy_folder(from: &Path, to: &Path, link: bool, depth: usize) -> Outcome {
    let failed = |error: std::io::Error| format!("{} cannot be copied: {error}", from.display());
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (source, name) = (entry.path(), entry.file_name());
        let target = to.join(&name);
        if entry.file_type().map_err(failed)?.is_dir() {
            let Some(depth) = depth.checked_sub(1) else { continue };
            fs::create_dir(&target).map_err(failed)?;
            let link = UNCHANGED.iter().any(|folder| name == *folder);
            copy_folder(&source, &target, link, depth)?;
        } else if !link || fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target).map_err(failed)?;
        }
    }
    Ok(())
}
