//! Counts the records that are only in the WAL, for `stats` and `keyspaces`. It reads the WAL as a
//! recovery would and changes nothing, so it works beside a program that has the store open.

use crate::catalog::Catalog;
use crate::failure::Result;
use std::collections::BTreeMap;
use std::path::Path;
use vlsm_core::{Error, TreeId};
use vlsm_disk::fs::posix::PosixFs;
use vlsm_disk::manifest::{Keyspace, State};
use vlsm_disk::wal::reader::{RecoverOptions, recover};
use vlsm_disk::wal::{Entries, wal_path};

/// Records that are in the WAL and not in an SST yet.
#[derive(Default)]
pub struct Unflushed {
    /// Batches with such entries.
    pub batches: u64,
    /// Entries by tree.
    pub entries: BTreeMap<TreeId, u64>,
}

impl Unflushed {
    /// Reads the WAL as a recovery would, and changes nothing.
    fn read(dir: &Path, state: &State) -> vlsm_core::Result<Self> {
        let min_wal = state.numbers.min_wal;
        let options = RecoverOptions { min_wal, read_only: true, ..RecoverOptions::default() };
        let mut found = Self::default();
        recover(&PosixFs, dir, options, &mut |batch| {
            let mut any = false;
            for (entry, seq) in Entries::new(&batch.payload).zip(batch.first_seq.0..) {
                let entry = entry.map_err(|what| {
                    let what = format!("a batch does not decode: {what:?}");
                    Error::corruption(&wal_path(dir, batch.wal), 0, what)
                })?;
                let tree = state.trees.get(&entry.tree);
                if tree.is_some_and(|version| seq > version.flushed_seq.0) {
                    any = true;
                    *found.entries.entry(entry.tree).or_default() += 1;
                }
            }
            found.batches += u64::from(any);
            Ok(())
        })?;
        Ok(found)
    }

    /// Entries of one keyspace.
    pub fn of(&self, keyspace: &Keyspace) -> u64 {
        keyspace.regions.iter().filter_map(|region| self.entries.get(&region.tree)).sum()
    }
}

/// The manifest, and the WAL as of about the same moment or the error of reading it.
pub fn catalog_and_wal(dir: &Path) -> Result<(Catalog, vlsm_core::Result<Unflushed>)> {
    // The files of a store in use may disappear while they are read.
    let mut attempts = 0..3;
    loop {
        let catalog = Catalog::read(dir)?;
        let wal = Unflushed::read(dir, &catalog.state);
        if wal.is_ok() || attempts.next().is_none() {
            return Ok((catalog, wal));
        }
    }
}
