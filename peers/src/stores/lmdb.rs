//! LMDB (crate `heed`): a copy-on-write B-tree in C, mapped into memory. A write is a transaction,
//! and one goes on at a time; readers never wait.
//!
//! The modes of the WAL: LMDB has no WAL. With `NO_SYNC` a commit has written its pages by
//! `write()` and does not sync them, which is our buffered mode; a lost machine may leave a broken
//! file there, where a WAL would lose the end only. Without the flag each commit is synced, which
//! is `Sync`.
//!
//! It has no memory of its own: it uses the page cache, as much as the system gives. Equal memory
//! means a limit on the process (`memory` of a run). All I/O is buffered. There is no background
//! work. A region is an environment of its own.

use super::{Described, Instance, Kind, Opened, Pairs, Setup, io, keep, version_of};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use std::ops::Bound;
use std::path::Path;
use vlsm::Durability;
use vlsm_measure::store::{StoreResult, Write};

pub const KIND: Kind = Kind {
    name: "lmdb",
    configs: &[("default", "LMDB's own settings; memory is the system's page cache")],
    version: || {
        let linked = heed::lmdb_version();
        version_of("heed")
            .map(|heed| format!("{}.{}.{}, heed {heed}", linked.major, linked.minor, linked.patch))
    },
    open,
};

/// Address space of one environment: the file never grows beyond it.
const MAP_BYTES: usize = 256 << 30;

struct Tree {
    env: Env,
    pairs: Database<'static, Bytes, Bytes>,
}

fn open(setup: &Setup) -> Opened {
    let sync = setup.spec.options.durability == Durability::Sync;
    let mut trees: Vec<Box<dyn Instance>> = Vec::new();
    for folder in setup.folders {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_readers(1024);
        let flags = if sync { EnvFlags::empty() } else { EnvFlags::NO_SYNC };
        // SAFETY: the folder is this run's own, so no other process changes the file under the map;
        // without syncs it would be broken by the loss of the machine only, with which the run
        // ends.
        let env = unsafe { options.flags(flags).open(folder)? };
        let make = env.create_databases_and_commit(env.write_txn()?, |opener, transaction| {
            let pairs = opener.create_database::<Bytes, Bytes>(transaction, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(pairs))
        })?;
        let CommitOrAbort::Commit(pairs) = make else {
            return Err("LMDB did not make its database".into());
        };
        trees.push(Box::new(Tree { env, pairs }));
    }
    let wal = match sync {
        true => "none; each commit is synced",
        false => "none; acknowledged after write(), not synced",
    };
    let described: Described = vec![
        ("memory of its own", "none: the page cache".to_owned()),
        ("WAL", wal.to_owned()),
        ("writes", io(false)),
        ("reads", "mapped".to_owned()),
    ];
    Ok((trees, described))
}

/// The most named databases of an environment that is opened to be read.
const DATABASES: u32 = 4096;

/// Opens an environment, a folder or a file alone, to read it.
///
/// # Errors
/// Any error of LMDB: there is none, or its file is not LMDB's.
pub fn open_to_read(path: &Path) -> heed::Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.max_dbs(DATABASES);
    let file = if path.is_dir() { EnvFlags::empty() } else { EnvFlags::NO_SUB_DIR };
    // SAFETY: with its lock file LMDB lets others write beside a read transaction, and a map that
    // is only read changes nothing. That nobody truncates the file is up to the user, as for every
    // program that uses LMDB.
    unsafe { options.flags(file | EnvFlags::READ_ONLY).open(path) }
}

impl Instance for Tree {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.write(&[Write::Put(key, value)])
    }

    fn get(&self, key: &[u8], mut into: Option<&mut Pairs>) -> StoreResult<Option<usize>> {
        let transaction = self.env.read_txn()?;
        let value = self.pairs.get(&transaction, key)?;
        Ok(value.map(|value| {
            keep(&mut into, key, value);
            value.len()
        }))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.write(&[Write::Delete(key)])
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let mut transaction = self.env.write_txn()?;
        for write in writes {
            match *write {
                Write::Put(key, value) => self.pairs.put(&mut transaction, key, value)?,
                Write::Delete(key) => drop(self.pairs.delete(&mut transaction, key)?),
            }
        }
        Ok(transaction.commit()?)
    }

    fn scan(&self, start: &[u8], limit: usize, mut into: Option<&mut Pairs>) -> StoreResult<usize> {
        let transaction = self.env.read_txn()?;
        // LMDB has no empty keys, so it does not seek one either.
        let from = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
        let mut count = 0;
        for pair in self.pairs.range(&transaction, &(from, Bound::Unbounded))?.take(limit) {
            let (key, value) = pair?;
            keep(&mut into, key, value);
            count += 1;
        }
        Ok(count)
    }

    fn flush(&self) -> StoreResult<()> {
        Ok(self.env.force_sync()?)
    }

    fn idle(&self) -> StoreResult<bool> {
        Ok(true)
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
