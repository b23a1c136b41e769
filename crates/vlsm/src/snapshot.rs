//! Snapshots: the store as it was at one moment, for as long as the handle lives.
//! A snapshot is a registered sequence number; it copies nothing.

use crate::batch::other_store;
use crate::db::Db;
use crate::iter::Iter;
use crate::keyspace::Keyspace;
use crate::read::view::{FilteredTrees, Moment, StoreView, TreeView, Views};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::{Arc, Weak};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Result, Seq, TreeId};

/// The sequence numbers that readers hold, with how many hold each.
///
/// One lock orders registering against freezing: [`Snapshots::register`] loads the visible sequence
/// number inside it, [`Snapshots::frozen`] copies the list inside it. So a job whose inputs were
/// published before it froze the list never drops an entry that a later snapshot needs.
///
/// A job that asks a compaction filter changes what a sequence number shows, so it leaves alone
/// what its frozen list shows; and a reader that comes while it is under way keeps the trees with
/// filters as it found them ([`Snapshots::keep_filtered`], after registering). One of the two sees
/// the other, because the lock orders them.
///
/// What readers keep so is bounded: from [`KEPT_MAX`] outdated states of the trees on, jobs that
/// begin do not ask their filter ([`Snapshots::may_filter`]). Little is lost by that: what is older
/// than the readers is theirs, and no filter is asked for it anyway.
#[derive(Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<Seq, usize>>,
    /// Jobs under way that ask a compaction filter.
    filtering: Arc<AtomicUsize>,
    /// The states of the trees with filters that readers were given to keep.
    kept: Mutex<Vec<Weak<FilteredTrees>>>,
}

/// Outdated states of the trees with filters, kept by readers, from which on no job asks a filter.
const KEPT_MAX: usize = 8;

/// A job that asks a compaction filter, from before it freezes the snapshots until after its
/// install.
#[derive(Debug)]
pub(crate) struct Filtering(Arc<AtomicUsize>);

impl Drop for Filtering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
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

    /// A job that asks a compaction filter begins.
    pub fn filter_begins(&self) -> Filtering {
        self.filtering.fetch_add(1, Ordering::AcqRel);
        Filtering(self.filtering.clone())
    }

    /// The trees that a reader has to keep as they are: it has registered, and a filter may be
    /// asked for what it sees.
    pub fn keep_filtered(&self, views: &Views) -> Option<Arc<FilteredTrees>> {
        if self.filtering.load(Ordering::Acquire) == 0 || planted::is(Bug::FilteredNotKept) {
            return None;
        }
        let filtered = views.load().filtered().clone();
        let mut kept = self.kept.lock();
        kept.retain(|state| state.strong_count() > 0);
        if !kept.iter().any(|state| std::ptr::eq(state.as_ptr(), &raw const *filtered)) {
            kept.push(Arc::downgrade(&filtered));
        }
        Some(filtered)
    }

    /// Whether a job that begins may ask a filter.
    pub fn may_filter(&self, view: &StoreView) -> bool {
        let current = Arc::as_ptr(view.filtered());
        let kept = self.kept.lock();
        let outdated = |state: &&Weak<_>| state.strong_count() > 0 && state.as_ptr() != current;
        kept.iter().filter(outdated).count() < KEPT_MAX
    }

    /// All held sequence numbers, ascending.
    pub fn frozen(&self) -> Vec<Seq> {
        let held = self.held.lock();
        let overlooked = usize::from(planted::is(Bug::SnapshotOverlooked));
        held.keys().copied().take(held.len().saturating_sub(overlooked)).collect()
    }

    /// The oldest held one.
    pub fn oldest(&self) -> Option<Seq> {
        self.held.lock().keys().next().copied()
    }
}

/// One registration; released when dropped.
pub(crate) struct Held {
    pub db: Db,
    pub at: Moment,
    /// Trees of which a compaction filter might change a later state.
    kept: Option<Arc<FilteredTrees>>,
}

impl Held {
    /// Registers what is visible now.
    pub fn now(db: &Db) -> Self {
        let engine = &db.engine;
        let seq = engine.snapshots.register(|| engine.commit.visible());
        let at = Moment { seq, now: engine.clock.now() };
        let kept = engine.snapshots.keep_filtered(&engine.views);
        Self { db: db.clone(), at, kept }
    }

    /// The tree to read from in place of the current one.
    pub fn tree(&self, id: TreeId) -> Option<&Arc<TreeView>> {
        self.kept.as_ref().and_then(|kept| kept.tree(id))
    }
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
        Self { held: Arc::new(Held::now(db)) }
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
        let engine = &self.held.db.engine;
        let tree = keyspace.tree_of(key);
        match self.held.tree(tree) {
            Some(kept) => engine.get_in(kept, self.held.at, key),
            None => engine.get(tree, key, Some(self.held.at)),
        }
    }

    /// All pairs of a keyspace in key order.
    #[must_use]
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.range::<&[u8]>(keyspace, ..)
    }

    /// The pairs of a keyspace within a range of keys.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        Iter::new(keyspace, self.held.clone(), &range)
    }

    /// The pairs of a keyspace whose keys begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::with_prefix(keyspace, self.held.clone(), prefix.as_ref())
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("seq", &self.held.at.seq).finish()
    }
}
