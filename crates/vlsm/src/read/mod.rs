//! The read path: pin a [`view`], then search memtables, L0 from the newest run on, and the levels.
//!
//! [`Reader`] answers gets, and gives iterators the views over which they walk. It knows the shared
//! state, but none of the parts that write.

pub(crate) mod changes;
pub(crate) mod covers;
pub(crate) mod fetch;
pub(crate) mod get;
pub(crate) mod level_cursor;
pub(crate) mod merge_cursor;
pub(crate) mod multi;
pub(crate) mod pins;
pub(crate) mod size;
pub(crate) mod snapshots;
pub(crate) mod source_cursor;
pub(crate) mod table_cache;
pub(crate) mod user_cursor;
pub(crate) mod view;

use crate::catalog::{KeyspaceInfo, Trees};
use crate::shared::Shared;
use fetch::Fetcher;
use pins::Pins;
use snapshots::Snapshots;
use std::sync::Arc;
use std::time::Duration;
use table_cache::TableCache;
use view::{FilteredTrees, Moment, Pinned, TreeView, Views};
use vlsm_core::{Result, Seq};

/// Reads an open store.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    views: Arc<Views>,
    tables: Arc<TableCache>,
    snapshots: Arc<Snapshots>,
    pins: Pins,
    fetcher: Arc<Fetcher>,
}

impl Reader {
    pub fn new(
        shared: &Arc<Shared>,
        views: &Arc<Views>,
        tables: &Arc<TableCache>,
        snapshots: &Arc<Snapshots>,
    ) -> Self {
        Self {
            shared: shared.clone(),
            views: views.clone(),
            tables: tables.clone(),
            snapshots: snapshots.clone(),
            pins: Pins::default(),
            fetcher: Arc::new(Fetcher::new(shared, tables)),
        }
    }

    /// Waits until `reads` reads are admitted. Callers wait here before they pin a view.
    #[inline]
    pub fn admit(&self, reads: usize) {
        if self.shared.gate.limits_reads() {
            self.shared.wait_to_read(reads);
        }
    }

    /// The current view of all trees.
    pub fn views(&self) -> &Arc<Views> {
        &self.views
    }

    /// A view with the moment that is visible now; safe for reads over several trees.
    pub fn pin(&self) -> Pinned {
        let (view, seq) = self.views.pin(&*self.shared.env);
        let at = Moment { seq, now: self.shared.clock.now() };
        Pinned { view, at }
    }

    /// A moment that is visible now, and the trees of a keyspace at that moment. They are in the
    /// view.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`](vlsm_core::Error::KeyspaceDropped).
    pub fn pin_keyspace(&self, keyspace: &KeyspaceInfo) -> Result<(Pinned, Trees)> {
        loop {
            let pinned = self.pin();
            let first = pinned.view.tree_at(keyspace, 0, pinned.at.seq)?.map(|tree| tree.id);
            if let Some(first) = first {
                return Ok((pinned, keyspace.trees_from_first(first)));
            }
            // The keyspace was cleared just now.
            self.shared.env.interleave();
        }
    }

    /// The tree of a keyspace's region that a registered reader at `seq` sees.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`](vlsm_core::Error::KeyspaceDropped).
    pub fn tree_at(
        &self,
        keyspace: &KeyspaceInfo,
        region: usize,
        seq: Seq,
    ) -> Result<Arc<TreeView>> {
        loop {
            if let Some(tree) = self.views.load().tree_at(keyspace, region, seq)? {
                return Ok(tree.clone());
            }
            // The keyspace was cleared just now.
            self.shared.env.interleave();
        }
    }

    /// The trees of a keyspace that a registered reader at `seq` sees.
    ///
    /// # Errors
    /// As [`Reader::tree_at`].
    pub fn trees_at(&self, keyspace: &KeyspaceInfo, seq: Seq) -> Result<Trees> {
        match keyspace.life(seq)? {
            Some(trees) => Ok(trees),
            None => Ok(keyspace.trees_from_first(self.tree_at(keyspace, 0, seq)?.id)),
        }
    }

    /// Reads blocks of several SSTs at the same time.
    pub fn fetcher(&self) -> &Arc<Fetcher> {
        &self.fetcher
    }

    /// The open SSTs.
    pub fn tables(&self) -> &Arc<TableCache> {
        &self.tables
    }

    /// Registers a reader at this moment. Returns also the trees whose present state it must keep,
    /// because a compaction filter may change their later states.
    ///
    /// In a store that another process writes, the reader keeps all trees, because that process
    /// compacts them without knowing the reader.
    pub fn register(&self, now: Option<Duration>) -> (Moment, Option<Arc<FilteredTrees>>) {
        if self.views.follows() {
            // Both are of one moment, because the sequence number determines the trees of a
            // keyspace.
            let register = || self.snapshots.register(now, || self.views.visible());
            let (all, seq) = self.views.unchanged(|view| (view.filtered().clone(), register()));
            return (Moment { seq, now: self.shared.clock.now() }, Some(all));
        }
        let seq = self.snapshots.register(now, || self.views.visible());
        let at = Moment { seq, now: self.shared.clock.now() };
        (at, self.snapshots.keep_filtered(&self.views))
    }

    /// The number of registrations, and the time since which the oldest state is held.
    pub fn held(&self) -> (u64, Option<Duration>) {
        self.snapshots.held(self.shared.env.now())
    }

    /// Releases a registration.
    pub fn release(&self, at: Moment) {
        self.snapshots.release(at.seq);
        if self.views.any_retired() {
            // If this was their last reader, a worker drops them.
            self.shared.channel.wake();
        }
    }
}
