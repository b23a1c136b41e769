//! The moment at which a keyspace is cleared or dropped: a sequence number between batches.
//!
//! The manifest has the change already, durably (`install/keyspaces`). In one sequencing step
//! 1. the next sequence number is taken;
//! 2. the view gets the new trees, and the old ones are retired: readers before that number still
//!    see them, and nobody writes to them;
//! 3. the catalog gives the new trees to whoever adds to a batch. A batch that names the old ones
//!    is moved to the new ones when it is committed (`commit`).
//!
//! After the step the memory of the old memtables counts as pinned: the moment nobody reads them
//! they are freed. Nobody waits for this except for the lock.
//!
//! Invariant: a batch that names the new trees is sequenced after they are durable in the manifest,
//! and every batch that named the old ones has a number before the change.
//!
//! Threads and locks: the sequencing lock, for the step.

use crate::catalog::KeyspaceInfo;
use crate::install::keyspaces::Replacement;
use crate::write::Writer;
use crate::write::batch::{Batch, Entry};
use crate::write::publish::IN_FLIGHT_MAX;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{Result, Seq};

/// How soon it is looked again whether there is room in the commit queue.
const RETRY: Duration = Duration::from_millis(1);

impl Writer {
    /// Retires the trees of a keyspace, and returns the sequence number from which on they are not
    /// seen. That becomes visible after all earlier batches, by itself.
    ///
    /// # Errors
    /// The store has failed or was closed.
    pub fn retire(&self, keyspace: &Arc<KeyspaceInfo>, new: Option<Replacement>) -> Result<Seq> {
        let old = keyspace.trees()?;
        let mut sequence = loop {
            let epoch = self.publisher.epoch();
            let sequence = self.log.sequence();
            self.shared.health.check_running()?;
            if self.publisher.in_flight(sequence.next_ticket) < IN_FLIGHT_MAX {
                break sequence;
            }
            drop(sequence);
            self.publisher.wait(epoch, Some(self.shared.env.now() + RETRY));
        };
        let (ticket, seq) = (sequence.next_ticket, Seq(sequence.next_seq));
        sequence.next_ticket += 1;
        sequence.next_seq += 1;
        self.recent.note_trees(seq, &old.iter().collect::<Vec<_>>());
        let (named, views) = match new {
            Some(Replacement { id, trees, views }) => (Some((id, trees)), views),
            None => (None, Vec::new()),
        };
        let retired = self.views.retire(keyspace, old, seq, views);
        self.catalog.replace(keyspace, seq, named);
        for tree in &retired {
            tree.active.seal();
            tree.immutables.iter().chain([&tree.active]).for_each(|memtable| memtable.note_gone());
        }
        drop(sequence);
        self.publisher.finish(ticket, seq);
        // Jobs of the old trees have nothing to do any more.
        self.shared.channel.mark_all(old.iter());
        self.shared.channel.wake();
        self.shared.channel.made_room();
        Ok(seq)
    }

    /// A batch with the trees that its keyspaces have now.
    #[cold]
    pub(super) fn moved(&self, batch: &Batch) -> Result<Batch> {
        let view = self.views.load_full();
        batch.moved(|tree| match view.find(tree) {
            Some(_) => Ok(tree),
            None => self.catalog.current(tree),
        })
    }

    /// Whether one of a batch's trees is a former one. In the sequencing step.
    #[inline]
    pub(super) fn names_former(&self, batch: &Batch) -> bool {
        if !self.catalog.any_former() {
            return false;
        }
        let (view, mut known) = (self.views.load(), None);
        let former = |entry: &Entry| {
            // Mostly the entries of one tree follow each other.
            known.replace(entry.tree) != Some(entry.tree) && view.find(entry.tree).is_none()
        };
        batch.entries().iter().any(former)
    }
}
