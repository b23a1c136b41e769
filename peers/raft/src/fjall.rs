//! fjall, as openraft's example `raft-kv-fjall` uses it: its default options, a keyspace for the
//! log and one for the rest. It has no range delete: entries are removed one by one.
//!
//! It syncs by `PersistMode::SyncData`, an `fdatasync` as with the others; the example's `SyncAll`
//! is an `fsync`.

use crate::log::Keep;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::ops::Range;
use std::path::Path;

/// A store of fjall.
#[derive(Clone)]
pub struct Fjall {
    db: Database,
    logs: Keyspace,
    meta: Keyspace,
}

impl Keep for Fjall {
    type Error = fjall::Error;

    fn open(folder: &Path) -> Result<Self, Self::Error> {
        let db = Database::builder(folder).open()?;
        let logs = db.keyspace("logs", KeyspaceCreateOptions::default)?;
        let meta = db.keyspace("meta", KeyspaceCreateOptions::default)?;
        Ok(Self { db, logs, meta })
    }

    fn put_entry(&self, index: u64, entry: &[u8]) -> Result<(), Self::Error> {
        self.logs.insert(index.to_be_bytes(), entry)
    }

    fn entries(&self, range: Range<u64>) -> Result<Vec<Vec<u8>>, Self::Error> {
        let pairs = self.logs.range(range.start.to_be_bytes()..range.end.to_be_bytes());
        pairs.map(|pair| Ok(pair.into_inner()?.1.to_vec())).collect()
    }

    fn last_entry(&self) -> Result<Option<Vec<u8>>, Self::Error> {
        let last = self.logs.iter().next_back();
        last.map(|pair| Ok(pair.into_inner()?.1.to_vec())).transpose()
    }

    fn remove_entries(&self, range: Range<u64>) -> Result<(), Self::Error> {
        let pairs = self.logs.range(range.start.to_be_bytes()..range.end.to_be_bytes());
        for pair in pairs {
            self.logs.remove(pair.key()?)?;
        }
        Ok(())
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), Self::Error> {
        self.meta.insert(key, value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Self::Error> {
        Ok(self.meta.get(key)?.map(|value| value.to_vec()))
    }

    fn sync(&self) -> Result<(), Self::Error> {
        self.db.persist(PersistMode::SyncData)
    }
}
