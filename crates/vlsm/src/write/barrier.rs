//! A barrier in the commit queue, for an operation that is not a batch: a sequence number of its
//! own between batches.
//!
//! 1. In the sequencing step the requested memtables are sealed, so that none holds entries from
//!    both before and after the barrier; the next sequence number is taken.
//! 2. A holder that needs it waits for earlier batches ([`Writer::await_published`]).
//! 3. The barrier ends when it is dropped, also after a failure. Until then later batches do not
//!    become visible, and their writers wait: the holder must be quick.
//!
//! Threads and locks: the sequencing lock, for the step.

use crate::sync::atomic::Ordering;
use crate::write::Writer;
use crate::write::publish::IN_FLIGHT_MAX;
use std::time::Duration;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result, Seq, TreeId};

/// How soon it is looked again whether there is room for a barrier.
const RETRY: Duration = Duration::from_millis(1);

/// A barrier, held.
pub(crate) struct Barrier<'a> {
    writer: &'a Writer,
    ticket: u64,
    pub seq: Seq,
}

impl Drop for Barrier<'_> {
    fn drop(&mut self) {
        self.writer.publisher.finish(self.ticket, self.seq);
        self.writer.barriers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Writer {
    /// Takes a barrier for a change of `trees`, and seals the memtables of `seal` before it. Waits
    /// while there are too many batches under way, or too many sealed memtables.
    pub fn raise_barrier(&self, trees: &[TreeId], seal: &[TreeId]) -> Result<Barrier<'_>> {
        loop {
            let epoch = self.shared.channel.room_epoch();
            if let Some(barrier) = self.try_barrier(trees, seal)? {
                return Ok(barrier);
            }
            self.shared.channel.wake();
            self.shared.channel.wait_for_room(epoch, Some(self.shared.env.now() + RETRY));
        }
    }

    /// Waits until all up to a sequence number is visible.
    pub fn await_published(&self, last_seq: Seq) -> Result<()> {
        loop {
            let epoch = self.publisher.epoch();
            if self.views.visible() >= last_seq {
                return Ok(());
            }
            self.shared.health.check_running()?;
            self.publisher.wait(epoch, None);
        }
    }

    fn try_barrier(&self, trees: &[TreeId], seal: &[TreeId]) -> Result<Option<Barrier<'_>>> {
        let mut sequence = self.log.sequence();
        self.shared.health.check()?;
        if self.closing.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        let view = self.views.load_full();
        let to_seal =
            || seal.iter().map(|id| view.tree(*id)).filter(|tree| !tree.active.is_empty());
        let count = self.shared.options.policy.tree.memtable_count;
        let full = to_seal().any(|tree| tree.immutables.len() >= count);
        if full || self.publisher.in_flight(sequence.next_ticket) >= IN_FLIGHT_MAX {
            return Ok(None);
        }
        if !planted::is(Bug::IngestUnsealed) {
            to_seal().for_each(|tree| self.rotate(&sequence, tree, self.idle_memtable()));
            self.want_memtables_out();
        }
        let (ticket, seq) = (sequence.next_ticket, Seq(sequence.next_seq));
        sequence.next_ticket += 1;
        sequence.next_seq += 1;
        self.recent.note_trees(seq, trees);
        self.barriers.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Barrier { writer: self, ticket, seq }))
    }
}
