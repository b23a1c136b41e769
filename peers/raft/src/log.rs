//! The log as openraft's examples have it (0.9, `stores/rocksstore-v2`): entries as JSON under
//! their index, one put each; an append syncs the WAL and then calls back.
//!
//! Which store keeps them is a [`Keep`]. Unlike the examples, errors are reported, not unwrapped.

use crate::memory::Config;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    AnyError, Entry, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogReader, StorageError,
    StorageIOError, Vote,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::ops::{Bound, Range, RangeBounds};
use std::path::Path;

/// A store with a log and some other values. A cheap handle.
pub trait Keep: Clone + Send + Sync + 'static {
    /// Its errors.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Opens the store with its own defaults, or makes it.
    fn open(folder: &Path) -> Result<Self, Self::Error>;
    /// Writes an entry, without a sync.
    fn put_entry(&self, index: u64, entry: &[u8]) -> Result<(), Self::Error>;
    /// The entries of a range, in order.
    fn entries(&self, range: Range<u64>) -> Result<Vec<Vec<u8>>, Self::Error>;
    /// The entry with the highest index.
    fn last_entry(&self) -> Result<Option<Vec<u8>>, Self::Error>;
    /// Removes the entries of a range, without a sync.
    fn remove_entries(&self, range: Range<u64>) -> Result<(), Self::Error>;
    /// Writes another value, without a sync.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), Self::Error>;
    /// Reads another value.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Self::Error>;
    /// Syncs the WAL.
    fn sync(&self) -> Result<(), Self::Error>;
}

type Result<T, E = StorageError<u64>> = std::result::Result<T, E>;

const VOTE: &str = "vote";
const PURGED: &str = "last_purged_log_id";

/// The log.
#[derive(Clone)]
pub struct Log<K>(pub K);

/// An error as openraft wants it.
pub fn failed(verb: ErrorVerb) -> impl Fn(&dyn std::error::Error) -> StorageError<u64> {
    move |error| {
        StorageIOError::new(ErrorSubject::Store, verb, AnyError::error(error.to_string())).into()
    }
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| failed(ErrorVerb::Write)(&error))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| failed(ErrorVerb::Read)(&error))
}

fn range(bounds: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match bounds.start_bound() {
        Bound::Included(index) => *index,
        Bound::Excluded(index) => index.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match bounds.end_bound() {
        Bound::Included(index) => index.saturating_add(1),
        Bound::Excluded(index) => *index,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl<K: Keep> Log<K> {
    fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let value = self.0.get(key).map_err(|error| failed(ErrorVerb::Read)(&error))?;
        value.map(|bytes| decode(&bytes)).transpose()
    }

    fn put<T: Serialize>(&self, key: &str, value: &T) -> Result<()> {
        let written = self.0.put(key, &encode(value)?);
        written.map_err(|error| failed(ErrorVerb::Write)(&error))
    }

    fn sync(&self) -> Result<()> {
        self.0.sync().map_err(|error| failed(ErrorVerb::Write)(&error))
    }

    fn remove(&self, entries: Range<u64>) -> Result<()> {
        self.0.remove_entries(entries).map_err(|error| failed(ErrorVerb::Delete)(&error))
    }
}

impl<K: Keep> RaftLogReader<Config> for Log<K> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        bounds: RB,
    ) -> Result<Vec<Entry<Config>>> {
        let entries = self.0.entries(range(&bounds));
        let entries = entries.map_err(|error| failed(ErrorVerb::Read)(&error))?;
        entries.iter().map(|entry| decode(entry)).collect()
    }
}

impl<K: Keep> RaftLogStorage<Config> for Log<K> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Config>> {
        let last = self.0.last_entry().map_err(|error| failed(ErrorVerb::Read)(&error))?;
        let last = last.map(|bytes| decode::<Entry<Config>>(&bytes)).transpose()?;
        let last_purged_log_id = self.get(PURGED)?;
        let last_log_id = last.map(|entry| entry.log_id).or(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<()> {
        self.put(VOTE, vote)?;
        self.sync()
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>> {
        self.get(VOTE)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Config>) -> Result<()>
    where
        I: IntoIterator<Item = Entry<Config>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        for entry in entries {
            let put = self.0.put_entry(entry.log_id.index, &encode(&entry)?);
            put.map_err(|error| failed(ErrorVerb::Write)(&error))?;
        }
        self.sync()?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Result<()> {
        self.remove(log_id.index..u64::MAX)?;
        self.sync()
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Result<()> {
        let first = self.get::<LogId<u64>>(PURGED)?.map_or(0, |purged| purged.index + 1);
        self.put(PURGED, &log_id)?;
        self.remove(first..log_id.index + 1)
    }
}
