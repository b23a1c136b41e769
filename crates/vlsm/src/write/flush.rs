//! Flushes on request: seals memtables and waits for their flush. This also works with shapes that
//! gather several memtables before a merge, and nothing of these memtables stays
//! in memory as a hot key (`write/keep`).

use crate::write::Writer;
use std::sync::Arc;
use vlsm_core::{MemtableId, Result, TreeId};

impl Writer {
    /// Seals every memtable and waits until all are flushed.
    pub fn flush_all(self: &Arc<Self>) -> Result<()> {
        self.flush_trees(|_| true)
    }

    /// Seals the memtables of some trees and waits until these are flushed.
    pub fn flush_trees(self: &Arc<Self>, wanted: impl Fn(TreeId) -> bool) -> Result<()> {
        let mut targets: Vec<(TreeId, MemtableId)> = Vec::new();
        {
            let held = self.log.sequence();
            self.shared.health.check()?;
            // In the sequencing step: no hot key of these memtables is kept in memory after it.
            self.shared.channel.settle_below(self.shared.numbers.memtables_end());
            let view = self.views.load_full();
            for tree in view.trees().filter(|tree| wanted(tree.id)) {
                let newest = if tree.active.is_empty() {
                    tree.immutables.last().map(|memtable| memtable.id())
                } else {
                    self.rotate(&held, tree, self.idle_memtable());
                    Some(tree.active.id())
                };
                targets.extend(newest.map(|id| (tree.id, id)));
            }
        }
        self.want_memtables_out();
        self.shared.channel.mark_all(targets.iter().map(|(tree, _)| *tree));
        self.shared.channel.wake();
        loop {
            let epoch = self.shared.channel.room_epoch();
            self.shared.health.check()?;
            let view = self.views.load_full();
            let flushed = |(tree, id): &(TreeId, MemtableId)| {
                // One that was dropped or cleared is not flushed any more.
                view.find(*tree)
                    .is_none_or(|tree| tree.immutables.iter().all(|memtable| memtable.id() > *id))
            };
            if targets.iter().all(flushed) {
                return Ok(());
            }
            self.shared.channel.wait_for_room(epoch, None);
        }
    }
}
