//! Files that a salvage drops from the store. They are moved into the store's folder `lost`, which
//! no open reads. With `salvage_ssts` this module also determines the SSTs to drop.
//!
//! 1. [`Lost::find`] reads every SST of the trees completely. It removes missing and damaged SSTs
//!    from the trees of the state, but changes nothing in the folder yet.
//! 2. [`Lost::settle`] runs once the open is certain to succeed. It links the damaged files into
//!    the folder `lost`, durably, and then appends the edits to the manifest, as one group. A crash
//!    in between leaves files in both places, and the next salvage repeats the step. The first
//!    names are leftovers from here on.
//!
//! Older entries below a lost SST show again: an older value, or one that the SST had deleted. This
//! cannot be avoided, so SSTs are dropped only on request.
//!
//! Threads: only the thread that opens the store.

use crate::copies::link;
use crate::shared::events::Events;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, FileMeta, FileNumber, Place, Result, Table, TreeId, VersionEdit};
use vlsm_disk::Env;
use vlsm_disk::fs::{Fs, OpenOptions};
use vlsm_disk::manifest::{Manifest, Record, State};
use vlsm_disk::sst::SstReader;
use vlsm_disk::sst::check::check;
use vlsm_disk::sst::{sst_path, sst_paths};

/// The folder for files that a salvage dropped.
pub(crate) const ASIDE: &str = "lost";

/// Gives files a second name in [`ASIDE`] and syncs both folders. Returns their paths there.
pub(crate) fn keep_aside(fs: &dyn Fs, dir: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if planted::is(Bug::SalvageDeletes) {
        return Ok(paths.to_vec());
    }
    let folder = dir.join(ASIDE);
    let made = fs.create_dir_all(&folder);
    made.map_err(|error| Error::io("cannot make folder", &folder, error))?;
    let mut kept = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let failed = |error| Error::io("cannot keep aside", path, error);
        let mut target = folder.join(&name);
        for n in 1.. {
            if !fs.exists(&target).map_err(failed)? {
                break;
            }
            // The name is taken by an earlier salvage, perhaps one that a crash ended.
            target = folder.join(format!("{name}.{n}"));
        }
        link(fs, path, &target)?;
        kept.push(target);
    }
    for folder in [&*folder, dir] {
        let synced = fs.sync_dir(folder);
        synced.map_err(|error| Error::io_unknown("cannot sync folder", folder, error))?;
    }
    Ok(kept)
}

/// A lost SST in one place of a tree.
struct Shown {
    tree: TreeId,
    place: Place,
    table: Arc<Table>,
}

/// SSTs that a salvage drops.
#[derive(Default)]
pub(crate) struct Lost {
    /// The first damage of each lost SST, and whether its file exists.
    files: BTreeMap<FileNumber, (Error, bool)>,
    shown: Vec<Shown>,
    /// The names of the keyspaces by tree.
    names: BTreeMap<TreeId, String>,
}

impl Lost {
    /// Looks for missing and damaged SSTs, if `wanted`, and removes them from the state's trees.
    ///
    /// # Errors
    /// [`Error::Io`] if an SST exists but cannot be opened.
    pub fn find(env: &dyn Env, dir: &Path, wanted: bool, state: &mut State) -> Result<Self> {
        let mut lost = Self::default();
        if !wanted {
            return Ok(lost);
        }
        for keyspace in state.keyspaces.values() {
            let trees = keyspace.regions.iter().map(|region| region.tree);
            lost.names.extend(trees.map(|tree| (tree, keyspace.name.clone())));
        }
        let mut looked_at = BTreeSet::new();
        for (tree, version) in &state.trees {
            for (place, table) in version.tables() {
                let number = table.file.number;
                if looked_at.insert(number)
                    && let Some(found) = damage(env.fs().as_ref(), dir, &table.file)?
                {
                    lost.files.insert(number, found);
                }
                if lost.files.contains_key(&number) {
                    lost.shown.push(Shown { tree: *tree, place, table: table.clone() });
                }
            }
        }
        for (tree, edit) in lost.edits() {
            let change = Record::Edit(tree, edit);
            state.apply(&change).map_err(|why| Error::Internal(why.0))?;
        }
        Ok(lost)
    }

    fn edits(&self) -> BTreeMap<TreeId, VersionEdit> {
        let mut edits: BTreeMap<TreeId, VersionEdit> = BTreeMap::new();
        for Shown { tree, place, table } in &self.shown {
            edits.entry(*tree).or_default().remove(*place, table);
        }
        edits
    }

    /// Keeps the damaged files aside, removes them from their trees in the manifest, and emits an
    /// [`Event::SstLost`] for each place that a lost SST had in a tree.
    ///
    /// # Errors
    /// Any error of linking the files or of appending to the manifest.
    pub fn settle(
        &self,
        env: &dyn Env,
        dir: &Path,
        manifest: &mut Manifest,
        events: &Events,
    ) -> Result<()> {
        let there = self.files.iter().filter(|(_, (_, there))| *there);
        let (numbers, mut paths): (Vec<FileNumber>, Vec<PathBuf>) =
            there.map(|(number, _)| (*number, sst_path(dir, *number))).unzip();
        // Behind the SSTs the WALs with their values, as far as these are there.
        let shown = self.shown.iter().map(|shown| (shown.table.file.number, &shown.table.file));
        let files: BTreeMap<FileNumber, _> = shown.collect();
        for path in files.values().flat_map(|file| sst_paths(dir, file).skip(1)) {
            if env.fs().exists(&path).is_ok_and(|exists| exists) {
                paths.push(path);
            }
        }
        let kept = match paths.is_empty() {
            true => Vec::new(),
            false => keep_aside(env.fs().as_ref(), dir, &paths)?,
        };
        let kept: BTreeMap<FileNumber, PathBuf> = numbers.into_iter().zip(kept).collect();
        // One group, so that edits that a full device refuses are tried again together.
        let edits = self.edits().into_iter().map(|(tree, edit)| Record::Edit(tree, edit));
        let edits: Vec<Record> = edits.collect();
        if !edits.is_empty() {
            manifest.append(&edits)?;
        }
        for Shown { tree, place, table } in &self.shown {
            let file = &table.file;
            let path = kept.get(&file.number).cloned();
            let path = path.unwrap_or_else(|| sst_path(dir, file.number));
            let (error, _) = &self.files[&file.number];
            let (tree, level, entries) = (*tree, place.level(), file.entries);
            let (error, seqs) = (error.clone(), (file.seq_min, file.seq_max));
            let keyspace = self.names.get(&tree).cloned().unwrap_or_default();
            events.emit(Event::SstLost { path, error, tree, keyspace, level, entries, seqs });
        }
        Ok(())
    }
}

/// The first damage of an SST, and whether the file exists; none if the SST is intact.
fn damage(fs: &dyn Fs, dir: &Path, file: &FileMeta) -> Result<Option<(Error, bool)>> {
    let path = sst_path(dir, file.number);
    let opened = match fs.open(&path, OpenOptions::READ) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = "the manifest names it, but it is missing";
            return Ok(Some((Error::corruption(&path, 0, what), false)));
        }
        opened => opened.map_err(|error| Error::io("cannot open SST", &path, error))?,
    };
    let reader = match SstReader::open(opened, &path, file) {
        Ok(reader) => reader,
        Err(error) => return Ok(Some((error, true))),
    };
    let reader = match reader.with_values(|_, path| fs.open(path, OpenOptions::READ)) {
        Err(error @ Error::Io { .. }) => match &error {
            Error::Io { source, .. } if source.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(Some((error, true))),
        },
        reader => reader?,
    };
    let mut first = None;
    let mut problem = |offset: u64, what: &str| {
        first.get_or_insert_with(|| Error::corruption(&path, offset, what));
    };
    let _counted = check(&reader, &mut problem, &mut |_| {});
    Ok(first.map(|error| (error, true)))
}
