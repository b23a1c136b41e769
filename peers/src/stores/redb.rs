//! redb: a copy-on-write B-tree in Rust, one file. A write is a transaction, and one goes on at a
//! time. There are no memtables, so its cache has the memory of memtables and cache together.
//!
//! The modes of the WAL: redb has no WAL and knows two kinds of commits. An immediate one is
//! synced, which is `Sync`. The other is kept in memory and in the page cache and is lost with the
//! process unless an immediate one follows, so it promises *less* than an acknowledgement after
//! `write()`; between the two there is nothing. All other modes use it, with an immediate commit
//! whenever a memtable's worth of bytes was written: without any, redb could never reuse space.
//!
//! I/O is buffered. A region is a database of its own with its share of the cache. There is no
//! background work to wait for.

use super::{Described, Instance, Kind, Opened, Pairs, Setup, io, keep, version_of};
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vlsm_core::Bytes;
use vlsm_measure::store::{StoreResult, Write};

pub const KIND: Kind = Kind {
    name: "redb",
    configs: &[("default", "redb's own settings, the cache as large as memtables and cache")],
    version: || version_of("redb"),
    open,
};

const PAIRS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("pairs");

struct Tree {
    db: Database,
    /// Bytes between two immediate commits.
    every: u64,
    since: AtomicU64,
}

fn open(setup: &Setup) -> Opened {
    let options = &setup.spec.options;
    let share = setup.memory() / setup.folders.len() as u64;
    let every = match options.durability {
        vlsm::Durability::Sync => 0,
        _ => options.policy.tree.memtable_bytes.0,
    };
    let mut trees: Vec<Box<dyn Instance>> = Vec::new();
    for folder in setup.folders {
        let mut builder = Database::builder();
        let db = builder.set_cache_size(share as usize).create(folder.join("redb"))?;
        let begin = db.begin_write()?;
        begin.open_table(PAIRS)?;
        begin.commit()?;
        trees.push(Box::new(Tree { db, every, since: AtomicU64::new(0) }));
    }
    let wal = match every {
        0 => "none; each commit is synced".to_owned(),
        _ => format!("none; a commit may be lost with the process, synced every {}", Bytes(every)),
    };
    let described: Described = vec![
        ("cache", format!("{} each", Bytes(share))),
        ("WAL", wal),
        ("writes", io(false)),
        ("reads", io(false)),
    ];
    Ok((trees, described))
}

impl Instance for Tree {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.write(&[Write::Put(key, value)])
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.write(&[Write::Delete(key)])
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let length = |write: &Write<'_>| match write {
            Write::Put(key, value) => key.len() + value.len(),
            Write::Delete(key) => key.len(),
        };
        let bytes = writes.iter().map(length).sum::<usize>() as u64;
        let since = self.since.fetch_add(bytes, Relaxed) + bytes;
        let mut transaction = self.db.begin_write()?;
        if since >= self.every {
            self.since.store(0, Relaxed);
        } else {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut table = transaction.open_table(PAIRS)?;
            for write in writes {
                match *write {
                    Write::Put(key, value) => drop(table.insert(key, value)?),
                    Write::Delete(key) => drop(table.remove(key)?),
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8], mut into: Option<&mut Pairs>) -> StoreResult<Option<usize>> {
        let value = self.db.begin_read()?.open_table(PAIRS)?.get(key)?;
        Ok(value.map(|value| {
            let value = value.value();
            keep(&mut into, key, value);
            value.len()
        }))
    }

    fn scan(&self, start: &[u8], limit: usize, mut into: Option<&mut Pairs>) -> StoreResult<usize> {
        let table = self.db.begin_read()?.open_table(PAIRS)?;
        let mut count = 0;
        for pair in table.range(start..)?.take(limit) {
            let (key, value) = pair?;
            keep(&mut into, key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }

    fn flush(&self) -> StoreResult<()> {
        // Immediate is what a transaction is when it is told nothing.
        Ok(self.db.begin_write()?.commit()?)
    }

    fn idle(&self) -> StoreResult<bool> {
        Ok(true)
    }
}
