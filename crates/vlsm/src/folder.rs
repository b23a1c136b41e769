//! The files in a store's folder at an open: needed files, leftovers, and foreign files.
//!
//! Threads: only the thread that opens the store.

use crate::aside::Lost;
use crate::catalog::DEFAULT_KEYSPACE;
use crate::device;
use crate::shared::events::Events;
use crate::shared::published;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, FileMeta, FileNumber, Result, Version};
use vlsm_disk::Env;
use vlsm_disk::manifest::{Manifest, State};
use vlsm_disk::sst::{sst_number, sst_path, values_numbers, values_path};
use vlsm_disk::wal::{wal_number, wal_path};
use vlsm_policy::Shape;

/// A store is opened for writing only if its numbers are at most this. The format has room for as
/// many numbers again, more than one session can use.
const NUMBER_MAX: u64 = 1 << 55;

/// Fewer files than this are created between two records of the next number in the manifest.
const UNRECORDED_MAX: u64 = 1 << 32;

/// The numbered files of the folder.
pub(crate) struct FilesThere {
    /// Sorted. There may be hundreds of thousands.
    ssts: Vec<FileNumber>,
    /// The second names of WALs: the SST that refers to the WAL, and the WAL.
    values: BTreeSet<(FileNumber, u64)>,
    /// WALs that the manifest no longer needs, and WALs that were never completed.
    old_wals: Vec<PathBuf>,
    /// The largest number of a WAL, complete or not; 0 if there is none.
    last_wal: u64,
    /// Published statistics, and requests for them.
    published: Vec<PathBuf>,
}

impl FilesThere {
    /// Lists the files, and checks the trees against them; SSTs may be missing from a `partial`
    /// store.
    pub fn checked(
        env: &dyn Env,
        dir: &Path,
        state: &State,
        shape: &dyn Shape,
        partial: bool,
    ) -> Result<Self> {
        let there = Self::list(env, dir, state)?;
        check_trees(dir, state, shape, (!partial).then_some(&there))?;
        Ok(there)
    }

    /// SSTs with numbers far beyond those that the manifest records are not the store's. A WAL with
    /// such a number is refused, because it would be taken for the newest.
    fn list(env: &dyn Env, dir: &Path, state: &State) -> Result<Self> {
        let names = env.fs().read_dir(dir).map_err(|error| Error::io("cannot list", dir, error))?;
        let end = match planted::is(Bug::NumberTakenFromStranger) {
            false => state.numbers.next_file.saturating_add(UNRECORDED_MAX),
            true => u64::MAX,
        };
        let ssts = names.iter().filter_map(|name| sst_number(name));
        let mut ssts: Vec<_> = ssts.filter(|number| number.0 < end).collect();
        ssts.sort_unstable();
        let values = names.iter().filter_map(|name| values_numbers(name));
        let values = values.filter(|(number, _)| number.0 < end).collect();
        let wal =
            |name: &PathBuf| wal_number(name).or_else(|| wal_number(&name.with_extension("")));
        let last_wal = names.iter().filter_map(wal).max().unwrap_or(0);
        if last_wal >= end {
            let path = wal_path(dir, last_wal);
            let path = path.display();
            let why =
                format!("{path} has a number that no WAL of this store can have: move it away");
            return Err(Error::InvalidArgument(why));
        }
        let is_old = |name: &&PathBuf| match wal_number(name) {
            Some(number) => number < state.numbers.min_wal,
            None => wal(name).is_some() && name.to_string_lossy().ends_with(".wal.tmp"),
        };
        let old_wals = names.iter().filter(is_old).map(|name| dir.join(name)).collect();
        let is_published =
            |name: &&PathBuf| published::FILES.iter().any(|file| name.as_os_str() == *file);
        let published = names.iter().filter(is_published).map(|name| dir.join(name)).collect();
        Ok(Self { ssts, values, old_wals, last_wal, published })
    }

    /// Lists the files that the store no longer needs: SSTs that are in no tree, with the second
    /// names of WALs to which they refer, manifests other
    /// than the current one, WALs that the manifest does not need or that were never completed,
    /// published statistics, and the scratch file of a measurement.
    pub fn leftovers(
        &self,
        dir: &Path,
        state: &State,
        manifest: &Manifest,
    ) -> Result<Vec<PathBuf>> {
        let files = || state.trees.values().flat_map(Version::tables).map(|(_, t)| &t.file);
        let mut named: Vec<FileNumber> = files().map(|file| file.number).collect();
        named.sort_unstable();
        let orphans = self.ssts.iter().filter(|number| named.binary_search(number).is_err());
        let mut paths: Vec<PathBuf> = orphans.map(|number| sst_path(dir, *number)).collect();
        let of_file = |file: &Arc<FileMeta>| -> Vec<_> {
            file.wals.iter().map(|wal| (file.number, *wal)).collect()
        };
        let values: BTreeSet<(FileNumber, u64)> = files().flat_map(of_file).collect();
        let orphans = self.values.difference(&values);
        paths.extend(orphans.map(|(sst, wal)| values_path(&sst_path(dir, *sst), *wal)));
        paths.extend(manifest.unused()?);
        paths.extend_from_slice(&self.old_wals);
        paths.extend_from_slice(&self.published);
        paths.push(dir.join(device::SCRATCH));
        Ok(paths)
    }

    /// A number that no file of the folder has, and that no file had.
    pub fn next_number(&self, state: &State) -> u64 {
        let values = self.values.iter().map(|(sst, wal)| sst.0.max(*wal)).max().unwrap_or(0);
        let largest = self.ssts.last().map_or(0, |number| number.0).max(self.last_wal).max(values);
        state.numbers.next_file.max(largest + 1)
    }
}

/// The changes that an open makes in the folder, other than the WAL, once it is certain to succeed.
pub(crate) struct Settling<'a> {
    pub env: &'a Arc<dyn Env>,
    pub dir: &'a Path,
    pub events: &'a Events,
    /// The state that the manifest records, without the SSTs that a salvage drops.
    pub state: &'a State,
    there: &'a FilesThere,
    lost: &'a Lost,
    manifest: RefCell<Manifest>,
    done: Cell<bool>,
}

impl<'a> Settling<'a> {
    pub fn new(
        env: &'a Arc<dyn Env>,
        dir: &'a Path,
        events: &'a Events,
        state: &'a State,
        there: &'a FilesThere,
        lost: &'a Lost,
        manifest: Manifest,
    ) -> Self {
        let (manifest, done) = (RefCell::new(manifest), Cell::new(false));
        Self { env, dir, events, state, there, lost, manifest, done }
    }

    /// Makes the manifest durable, removes lost SSTs from it, and then removes leftovers. Called
    /// after the WAL was read. After the first success further calls do nothing.
    pub fn settle(&self) -> Result<()> {
        if self.done.get() {
            return Ok(());
        }
        let mut manifest = self.manifest.borrow_mut();
        manifest.settle()?;
        self.lost.settle(&**self.env, self.dir, &mut manifest, self.events)?;
        let leftovers = self.there.leftovers(self.dir, self.state, &manifest)?;
        if !planted::is(Bug::LeftoversRemovedLate) {
            remove(self.env, self.events, &leftovers);
        }
        self.done.set(true);
        Ok(())
    }

    /// Returns the manifest, after the new WAL has begun.
    pub fn into_manifest(self) -> Manifest {
        let manifest = self.manifest.into_inner();
        if planted::is(Bug::LeftoversRemovedLate) && self.done.get() {
            let leftovers = self.there.leftovers(self.dir, self.state, &manifest);
            remove(self.env, self.events, &leftovers.unwrap_or_default());
        }
        manifest
    }
}

/// Refuses a store that has no numbers left. The numbers of this session would still fit, but a
/// later open could not detect an overflow.
pub(crate) fn check_numbers(dir: &Path, state: &State, read_only: bool) -> Result<()> {
    if read_only {
        return Ok(());
    }
    let numbers = state.numbers;
    let counted = [
        (numbers.next_file, "file numbers"),
        (numbers.next_keyspace, "numbers of keyspaces"),
        (numbers.next_tree, "numbers of trees"),
        (numbers.next_run, "numbers of runs"),
    ];
    match counted.into_iter().find(|(number, _)| *number > NUMBER_MAX) {
        Some((_, what)) => Err(Error::UsedUp { path: dir.to_owned(), what }),
        None => Ok(()),
    }
}

/// Checks that the keyspace `default` exists, that every tree is valid, and that its SSTs and the
/// WALs with their values exist, if `there` lists the files.
fn check_trees(
    dir: &Path,
    state: &State,
    shape: &dyn vlsm_policy::Shape,
    there: Option<&FilesThere>,
) -> Result<()> {
    if !state.keyspaces.values().any(|keyspace| keyspace.name == DEFAULT_KEYSPACE) {
        let what = format!("the manifest has no keyspace {DEFAULT_KEYSPACE:?}");
        return Err(Error::corruption(dir, 0, what));
    }
    for (id, version) in &state.trees {
        let sound = version.check().and_then(|()| shape.check(version));
        sound.map_err(|violation| {
            Error::corruption(dir, 0, format!("the manifest's tree {id} is not sound: {violation}"))
        })?;
        let Some(FilesThere { ssts, values, .. }) = there else { continue };
        let missing = |file: &FileMeta| {
            let path = sst_path(dir, file.number);
            let gone = file.wals.iter().find(|wal| !values.contains(&(file.number, **wal)));
            match ssts.binary_search(&file.number) {
                Ok(_) => gone.map(|wal| values_path(&path, *wal)),
                Err(_) => Some(path),
            }
        };
        if let Some(path) = version.tables().find_map(|(_, table)| missing(&table.file)) {
            return Err(Error::corruption(&path, 0, "the manifest names it, but it is missing"));
        }
    }
    Ok(())
}

/// Removes files that the store does not need. A missing file is skipped; an [`Event::NotRemoved`]
/// reports a file that cannot be removed.
pub(crate) fn remove(env: &Arc<dyn Env>, events: &Events, paths: &[PathBuf]) {
    for path in paths {
        match env.fs().remove(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let error = Error::io("cannot remove", path, error);
                events.emit(Event::NotRemoved { error });
            }
        }
    }
}
