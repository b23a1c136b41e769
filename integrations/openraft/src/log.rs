//! The log: openraft's `RaftLogStorage` in the keyspace `log`.
//!
//! Writes go into the store's memory without a file call when they need not wait; the last entries
//! are read from memory ([`crate::recent`]). All other reads and writes, and syncs, may wait, and
//! hold up no task of the runtime. The crate's head says when each write is synced.
//!
//! openraft 0.9 waits for an append's callback before the next append, so there is nothing to gain
//! from a thread that syncs for several appends.

use crate::codec::{COMMITTED, ENTRY, PURGED, VOTE, decode, encode, entry_key, entry_range};
use crate::error::{StoreError, blocking};
use crate::plant::{self, Plant};
use crate::recent::Recent;
use crate::storage::TypeConfig;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    Entry, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftLogReader, StorageError, Vote,
};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vlsm::{Batch, Db, Durability, Keyspace, WriteOptions};

type Result<T, C> = std::result::Result<T, StorageError<<C as openraft::RaftTypeConfig>::NodeId>>;

/// The log, the vote and the committed log id of a node. A cheap handle.
pub struct LogStore<C: TypeConfig> {
    db: Db,
    log: Keyspace,
    recent: Arc<Mutex<Recent>>,
    /// Whether this process has saved a vote.
    voted: Arc<AtomicBool>,
    config: PhantomData<C>,
}

impl<C: TypeConfig> Clone for LogStore<C> {
    fn clone(&self) -> Self {
        Self {
            db: self.db.clone(),
            log: self.log.clone(),
            recent: self.recent.clone(),
            voted: self.voted.clone(),
            config: PhantomData,
        }
    }
}

impl<C: TypeConfig> Debug for LogStore<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("path", &self.db.path()).finish()
    }
}

impl<C: TypeConfig> LogStore<C> {
    pub(crate) fn new(db: Db, log: Keyspace) -> Self {
        Self { db, log, recent: Arc::default(), voted: Arc::default(), config: PhantomData }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read<T: Send + 'static>(
        &self,
        subject: ErrorSubject<C::NodeId>,
        read: impl FnOnce(&Keyspace) -> std::result::Result<T, StoreError> + Send + 'static,
    ) -> Result<T, C> {
        let log = self.log.clone();
        blocking(move || read(&log)).await.map_err(|error| error.at(subject, ErrorVerb::Read))
    }

    async fn write(
        &self,
        subject: ErrorSubject<C::NodeId>,
        batch: std::result::Result<Batch, StoreError>,
        durability: Durability,
    ) -> Result<(), C> {
        let written = match batch {
            Ok(batch) => write(&self.db, batch, durability).await,
            Err(error) => Err(error),
        };
        written.map_err(|error| error.at(subject, ErrorVerb::Write))
    }

    fn one<T: serde::Serialize>(
        &self,
        key: &[u8],
        what: &'static str,
        value: &T,
    ) -> std::result::Result<Batch, StoreError> {
        let mut batch = Batch::new();
        batch.put(&self.log, key, encode(what, value)?);
        Ok(batch)
    }
}

/// Writes a batch. A lazy one that need not wait is written here, without a file call.
pub(crate) async fn write(
    db: &Db,
    batch: Batch,
    durability: Durability,
) -> std::result::Result<(), StoreError> {
    let options = WriteOptions::durability(durability);
    if durability == Durability::Lazy {
        match db.write(&batch, options.deadline(Duration::ZERO)) {
            Err(vlsm::Error::Busy { .. }) => {}
            written => return Ok(written?),
        }
    }
    let db = db.clone();
    blocking(move || Ok(db.write(&batch, options)?)).await
}

/// The value of a key, if there is one.
pub(crate) fn get<T: serde::de::DeserializeOwned>(
    keyspace: &Keyspace,
    key: &[u8],
    what: &'static str,
) -> std::result::Result<Option<T>, StoreError> {
    keyspace.get(key)?.map(|bytes| decode(what, &bytes)).transpose()
}

impl<C: TypeConfig> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<C>>, C> {
        let recent = self.recent().range(&range).map(|entries| {
            let entries = entries.map(|entry| decode("an entry of the log", entry));
            entries.collect::<std::result::Result<Vec<_>, StoreError>>()
        });
        if let Some(entries) = recent {
            return entries.map_err(|error| error.at(ErrorSubject::Logs, ErrorVerb::Read));
        }
        let range = entry_range(&range);
        let read = move |log: &Keyspace| {
            let pairs = log.range(range);
            pairs.map(|pair| decode("an entry of the log", &pair?.1)).collect()
        };
        self.read(ErrorSubject::Logs, read).await
    }
}

impl<C: TypeConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, C> {
        let read = |log: &Keyspace| {
            let last_purged_log_id: Option<LogId<_>> = get(log, PURGED, "the last purged log id")?;
            let last = log.prefix([ENTRY]).next_back().transpose()?;
            let last =
                last.map(|(_, entry)| decode::<Entry<C>>("the last entry of the log", &entry));
            let last_log_id = last.transpose()?.map(|entry| entry.log_id);
            let last_log_id = last_log_id.or_else(|| last_purged_log_id.clone());
            Ok(LogState { last_purged_log_id, last_log_id })
        };
        self.read(ErrorSubject::Logs, read).await
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Result<(), C> {
        let batch = self.one(VOTE, "the vote", vote);
        self.write(ErrorSubject::Vote, batch, Durability::Sync).await?;
        self.voted.store(true, Ordering::Release);
        Ok(())
    }

    /// The vote. That of a former process is not committed: see the crate's head.
    async fn read_vote(&mut self) -> Result<Option<Vote<C::NodeId>>, C> {
        let read = |log: &Keyspace| get::<Vote<C::NodeId>>(log, VOTE, "the vote");
        let mut vote = self.read(ErrorSubject::Vote, read).await?;
        let trusted = self.voted.load(Ordering::Acquire) || plant::is(Plant::LeadOnAfterRestart);
        if let Some(vote) = vote.as_mut().filter(|_| !trusted) {
            vote.committed = false;
        }
        Ok(vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId<C::NodeId>>) -> Result<(), C> {
        let batch = self.one(COMMITTED, "the committed log id", &committed);
        self.write(ErrorSubject::Logs, batch, Durability::Lazy).await
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<C::NodeId>>, C> {
        let read = |log: &Keyspace| get(log, COMMITTED, "the committed log id");
        Ok(self.read(ErrorSubject::Logs, read).await?.flatten())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Result<(), C>
    where
        I: IntoIterator<Item = Entry<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut batch = Batch::new();
        let encoded = entries.into_iter().map(|entry| {
            let encoded = encode("an entry of the log", &entry)?;
            batch.put(&self.log, entry_key(entry.log_id.index), &encoded);
            Ok((entry.log_id.index, encoded))
        });
        let (encoded, batch) = match encoded.collect::<std::result::Result<Vec<_>, _>>() {
            Ok(encoded) => (encoded, Ok(batch)),
            Err(error) => (Vec::new(), Err(error)),
        };
        self.write(ErrorSubject::Logs, batch, Durability::Lazy).await?;
        {
            let mut recent = self.recent();
            encoded.into_iter().for_each(|(index, entry)| recent.append(index, entry));
        }
        let synced = match plant::is(Plant::AcknowledgeBeforeDurable) {
            true => Ok(()),
            false => {
                let db = self.db.clone();
                blocking(move || Ok(db.sync()?)).await
            }
        };
        callback.log_io_completed(synced.map_err(StoreError::into_io));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<C::NodeId>) -> Result<(), C> {
        self.recent().truncate(log_id.index);
        let mut batch = Batch::new();
        batch.delete_range(&self.log, entry_range(&(log_id.index..)));
        self.write(ErrorSubject::Log(log_id), Ok(batch), Durability::Buffered).await
    }

    async fn purge(&mut self, log_id: LogId<C::NodeId>) -> Result<(), C> {
        // From the last purged entry on, so that the deleted ranges do not overlap.
        let read = |log: &Keyspace| get::<LogId<C::NodeId>>(log, PURGED, "the last purged log id");
        let before = self.read(ErrorSubject::Logs, read).await?;
        let first = before.as_ref().map_or(0, |purged| purged.index.saturating_add(1));
        if first > log_id.index {
            return Ok(());
        }
        self.recent().purge(log_id.index);
        let batch = self.one(PURGED, "the last purged log id", &log_id).map(|mut batch| {
            batch.delete_range(&self.log, entry_range(&(first..=log_id.index)));
            batch
        });
        self.write(ErrorSubject::Log(log_id), batch, Durability::Buffered).await
    }
}
