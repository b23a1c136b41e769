//! Checks of the files that a store leaves on the disk. After an orderly close there is no file
//! that the manifest does not name, and no WAL longer than its records. An open takes the log of
//! all earlier lives over into one WAL. So space and the number of files are bounded by the store's
//! content, not by the number of opens.

use crate::disk::Disk;
use crate::env::SimEnv;
use crate::world::FOLDER;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use vlsm_core::{Result, Version};
use vlsm_disk::manifest;
use vlsm_disk::record::Records;
use vlsm_disk::sst::sst_paths;
use vlsm_disk::wal::reader::read_header;
use vlsm_disk::wal::{wal_number, wal_path};

/// `CURRENT`, a manifest, `LOCK`, `RESERVE`, `DEVICE`, `LOG`, `LOG.old`.
const OTHER_FILES: usize = 7;

/// Checks that no file is left that the manifest does not name, and that no WAL is longer than its
/// records.
pub(crate) fn leaks(disk: &Disk) -> std::result::Result<(), String> {
    let needed = needed_files(disk).map_err(|error| format!("the manifest: {error}"))?;
    let is_data = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        end.is_some_and(|end| ["sst", "values", "wal", "tmp"].contains(&end))
    };
    let mut files = disk.files();
    files.retain(|path, _| path.starts_with(FOLDER));
    let there: BTreeSet<PathBuf> = files.keys().filter(|path| is_data(path)).cloned().collect();
    if there != needed {
        let leaked: Vec<_> = there.difference(&needed).collect();
        let missing: Vec<_> = needed.difference(&there).collect();
        return Err(format!("files that nobody needs: {leaked:?}, that are missing: {missing:?}"));
    }
    let others = files.len() - there.len();
    if others > OTHER_FILES {
        return Err(format!("{others} files are neither SSTs nor WALs: {:?}", files.keys()));
    }
    let mut wals = there.iter().filter(|path| path.extension().is_some_and(|end| end == "wal"));
    let last = wals.next_back().ok_or("a store without a WAL")?;
    let records = logged_len(disk, last).map_err(|error| error.to_string())?;
    if files[last] == records {
        return Ok(());
    }
    Err(format!("{} has {} bytes, {records} with records", last.display(), files[last]))
}

/// Checks that after an open there is one WAL, whatever earlier lives left, and perhaps the next
/// one, which may have been prepared for writers.
pub(crate) fn takes_over(env: &SimEnv) -> std::result::Result<(), String> {
    let files = env.device().disk().files();
    let is_wal = |path: &&PathBuf| {
        path.starts_with(FOLDER) && path.extension().is_some_and(|end| end == "wal")
    };
    let wals: Vec<_> = files.keys().filter(is_wal).collect();
    if wals.len() <= 2 {
        return Ok(());
    }
    Err(format!("an opening left {} WALs: {wals:?}", wals.len()))
}

/// The SSTs, with the WALs to which they refer, and the WALs that the store's manifest names.
fn needed_files(disk: &Disk) -> Result<BTreeSet<PathBuf>> {
    let dir = Path::new(FOLDER);
    let state = manifest::log::read(&*disk.fs(), dir)?.state;
    let tables = state.trees.values().flat_map(Version::tables);
    let ssts = tables.flat_map(|(_, table)| sst_paths(dir, &table.file));
    let wals = state.wals.iter().filter(|number| **number >= state.numbers.min_wal);
    Ok(ssts.chain(wals.map(|number| wal_path(dir, *number))).collect())
}

/// The length of a WAL's header and records.
fn logged_len(disk: &Disk, path: &Path) -> Result<u64> {
    let number = wal_number(path).unwrap_or_default();
    let (header, _) = read_header(&*disk.fs(), path, number)?;
    let mut records = Records::new(disk.content(path).unwrap_or_default().into(), header.uid);
    records.by_ref().for_each(drop);
    Ok(records.offset())
}
