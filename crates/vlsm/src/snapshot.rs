//! Snapshots: the store as it was at one moment, for as long as the handle lives.
//! A snapshot is a registered sequence number; it copies nothing.

use crate::batch::other_store;
use crate::db::Db;
use crate::iter::Iter;
use crate::keyspace::Keyspace;
use crate::read::view::Moment;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;
use vlsm_core::{Result, Seq};

/// The sequence numbers that readers hold, with how many hold each.
///
/// One lock orders registering against freezing: [`Snapshots::register`] loads the visible sequence
/// number inside it, [`Snapshots::frozen`] copies the list inside it. So a job whose inputs were
/// published before it froze the list never drops an entry that a later snapshot needs.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<Seq, usize>>,
}

impl Snapshots {
    /// Registers a reader at what `visible` says at this moment.
    pub fn register(&self, visible: impl FnOnce() -> Seq) -> Seq {
        let mut held = self.held.lock();
        let seq = visible();
        *held.entry(seq).or_default() += 1;
        seq
    }

    fn release(&self, seq: Seq) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                held.remove(&seq);
            }
        }
    }

    /// All held sequence numbers, ascending.
    pub fn frozen(&self) -> Vec<Seq> {
        self.held.lock().keys().copied().collect()
    }

    /// The oldest held one.
    pub fn oldest(&self) -> Option<Seq> {
        self.held.lock().keys().next().copied()
    }
}

/// One registration; released when dropped.
struct Held {
    db: Db,
    at: Moment,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.db.engine.snapshots.release(self.at.seq);
    }
}

/// The store as it was when [`Db::snapshot`] was called. Cheap to clone; keeps what it needs alive.
#[derive(Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

impl Snapshot {
    pub(crate) fn new(db: &Db) -> Self {
        let engine = &db.engine;
        let seq = engine.snapshots.register(|| engine.commit.visible());
        let at = Moment { seq, now: engine.wall_micros() };
        Self { held: Arc::new(Held { db: db.clone(), at }) }
    }

    /// Its sequence number: it shows all writes up to here.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.held.at.seq
    }

    /// The value a key had.
    ///
    /// # Errors
    /// What reading an SST failed with.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        if keyspace.info.store != self.held.db.engine.store_uid {
            return Err(other_store());
        }
        self.held.db.engine.get(keyspace.tree_of(key), key, Some(self.held.at))
    }

    /// All pairs of a keyspace in key order.
    #[must_use]
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.range::<&[u8]>(keyspace, ..)
    }

    /// The pairs of a keyspace within a range of keys.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        Iter::new(keyspace, self.held.db.engine.pin_at(self.held.at), &range)
    }

    /// The pairs of a keyspace whose keys begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::with_prefix(keyspace, self.held.db.engine.pin_at(self.held.at), prefix.as_ref())
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("seq", &self.held.at.seq).finish()
    }
}
