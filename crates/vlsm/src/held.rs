//! A moment of the store that a reader holds, for as long as a snapshot or an iterator lives.
//! What jobs drop meanwhile, and what compaction filters change, does not change what it shows.

use crate::handle::Handle;
use crate::read::view::{FilteredTrees, Moment, TreeView};
use std::sync::Arc;
use vlsm_core::TreeId;

/// One registration; released when dropped.
pub(crate) struct Held {
    pub engine: Handle,
    pub at: Moment,
    /// Trees of which a compaction filter might change a later state.
    kept: Option<Arc<FilteredTrees>>,
}

impl Held {
    /// Registers what is visible now.
    pub fn now(engine: &Handle) -> Self {
        let (at, kept) = engine.reader.register();
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
