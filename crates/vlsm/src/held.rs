//! A registered sequence number that a snapshot or an iterator holds. While it is held, neither
//! jobs nor compaction filters change the state that it shows.

use crate::catalog::KeyspaceInfo;
use crate::handle::Handle;
use crate::read::view::{FilteredTrees, Moment, TreeView};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::Result;

/// One registration. Dropping it releases it.
pub(crate) struct Held {
    pub engine: Handle,
    pub at: Moment,
    /// The present views of the trees with a compaction filter, because the filter might change
    /// later views.
    kept: Option<Arc<FilteredTrees>>,
}

impl Held {
    /// Registers the sequence number that is visible now, for an iterator.
    pub fn now(engine: &Handle) -> Self {
        Self::since(engine, None)
    }

    /// The same for a snapshot, whose age counts from its beginning.
    pub fn dated(engine: &Handle) -> Self {
        Self::since(engine, Some(engine.shared.env.now()))
    }

    fn since(engine: &Handle, now: Option<Duration>) -> Self {
        let (at, kept) = engine.reader.register(now);
        Self { engine: engine.clone(), at, kept }
    }

    /// Whether it keeps views of trees, so that some trees are not read from the current view.
    pub fn keeps_any(&self) -> bool {
        self.kept.is_some()
    }

    /// The view of a region's tree from which to read, and whether it is kept for this reader.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`](vlsm_core::Error::KeyspaceDropped).
    pub fn tree(&self, keyspace: &KeyspaceInfo, region: usize) -> Result<(Arc<TreeView>, bool)> {
        let tree = self.engine.reader.tree_at(keyspace, region, self.at.seq)?;
        match self.kept.as_ref().and_then(|kept| kept.tree(tree.id)) {
            Some(kept) => Ok((kept.clone(), true)),
            None => Ok((tree, false)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.engine.reader.release(self.at);
    }
}
