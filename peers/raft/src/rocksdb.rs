//! RocksDB, as openraft 0.9's `stores/rocksstore-v2` uses it: its default options, a column family
//! for the log and one for the rest, and `flush_wal(true)`, which is an `fdatasync`.

use crate::log::Keep;
use rocksdb::{ColumnFamily, ColumnFamilyDescriptor, DB, Direction, IteratorMode, Options};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A store of RocksDB.
#[derive(Clone)]
pub struct RocksDb(Arc<DB>);

impl RocksDb {
    fn logs(&self) -> &ColumnFamily {
        self.0.cf_handle("logs").expect("it was opened with this column family")
    }

    fn meta(&self) -> &ColumnFamily {
        self.0.cf_handle("meta").expect("it was opened with this column family")
    }
}

impl Keep for RocksDb {
    type Error = rocksdb::Error;

    fn open(folder: &Path) -> Result<Self, Self::Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let family = |name| ColumnFamilyDescriptor::new(name, Options::default());
        let db = DB::open_cf_descriptors(&options, folder, [family("meta"), family("logs")])?;
        Ok(Self(Arc::new(db)))
    }

    fn put_entry(&self, index: u64, entry: &[u8]) -> Result<(), Self::Error> {
        self.0.put_cf(self.logs(), index.to_be_bytes(), entry)
    }

    fn entries(&self, range: Range<u64>) -> Result<Vec<Vec<u8>>, Self::Error> {
        let start = range.start.to_be_bytes();
        let end = range.end.to_be_bytes();
        let mut entries = Vec::new();
        let pairs = IteratorMode::From(&start, Direction::Forward);
        for pair in self.0.iterator_cf(self.logs(), pairs) {
            let (index, entry) = pair?;
            if *index >= end[..] {
                break;
            }
            entries.push(entry.into_vec());
        }
        Ok(entries)
    }

    fn last_entry(&self) -> Result<Option<Vec<u8>>, Self::Error> {
        let last = self.0.iterator_cf(self.logs(), IteratorMode::End).next().transpose()?;
        Ok(last.map(|(_, entry)| entry.into_vec()))
    }

    fn remove_entries(&self, range: Range<u64>) -> Result<(), Self::Error> {
        let (start, end) = (range.start.to_be_bytes(), range.end.to_be_bytes());
        self.0.delete_range_cf(self.logs(), start, end)
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), Self::Error> {
        self.0.put_cf(self.meta(), key, value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Self::Error> {
        self.0.get_cf(self.meta(), key)
    }

    fn sync(&self) -> Result<(), Self::Error> {
        self.0.flush_wal(true)
    }
}
