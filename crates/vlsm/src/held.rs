//! A registered sequence number that a snapshot or an iterator holds. While it is held, neither
//! jobs nor compaction filters change the state that it shows.

use crate::handle::Handle;
use crate::read::view::{FilteredTrees, Moment, TreeView};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::TreeId;

/// One registration; released when dropped.
pub(crate) struct Held {
    pub engine: Handle,
    pub at: Moment,
    /// Views of the trees that have a compaction filter, which might change a later view.
    kept: Option<Arc<FilteredTrees>>,
}

impl Held {
    /// Registers the sequence number that is visible now, for an iterator.
    pub fn now(engine: &Handle) -> Self {
        Self::since(engine, None)
    }

    /// The same for a snapshot, whose age is of interest from its beginning on.
    pub fn dated(engine: &Handle) -> Self {
        Self::since(engine, Some(engine.shared.env.now()))
    }

    fn since(engine: &Handle, now: Option<Duration>) -> Self {
        let (at, kept) = engine.reader.register(now);
        Self { engine: engine.clone(), at, kept }
    }

    /// The tree to read from in place of the current one.
    pub fn tree(&self, id: TreeId) -> Option<&Arc<TreeView>> {
        self.kept.as_ref().and_then(|kept| kept.tree(id))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.engine.reader.release(self.at);
    }
}
