//! The hot keys that a memtable remembers: those that its flush leaves to a newer memtable, and
//! whether it has such entries of older ones. See `write/keep`.
//!
//! Threads and locks: `left` is held for one copy or one append.

use super::Memtable;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use vlsm_core::{MemtableId, Seq};

/// Notes on hot keys.
#[derive(Default)]
pub(super) struct KeptNotes {
    /// Its entries that a newer memtable has, too, and which one. A sequence number identifies an
    /// entry.
    left: Mutex<Vec<(MemtableId, Seq)>>,
    /// Whether it has such entries of older memtables.
    has_copies: AtomicBool,
    /// Whether it has entries that are not in the WAL.
    unlogged: AtomicBool,
}

impl Memtable {
    /// Notes that the memtable `holder` has these entries, too. Every flush of this one leaves them
    /// out, unless it takes that memtable, too: also another flush after this one failed.
    pub fn note_left(&self, holder: MemtableId, seqs: impl IntoIterator<Item = Seq>) {
        self.notes.kept.left.lock().extend(seqs.into_iter().map(|seq| (holder, seq)));
    }

    /// Its entries that newer memtables have, too.
    #[must_use]
    pub fn left(&self) -> Vec<(MemtableId, Seq)> {
        self.notes.kept.left.lock().clone()
    }

    /// Notes that it has entries of older memtables. Their sequence numbers are below
    /// [`Memtable::seqs`], which counts the numbers under which they were logged again.
    pub fn note_copies(&self) {
        self.notes.kept.has_copies.store(true, Release);
    }

    /// Whether it has entries of older memtables.
    #[must_use]
    pub fn has_copies(&self) -> bool {
        self.notes.kept.has_copies.load(Acquire)
    }

    /// Notes that it has entries that are not in the WAL. Called in the sequencing step.
    pub fn note_unlogged(&self) {
        self.notes.kept.unlogged.store(true, Release);
    }

    /// Whether it has entries that are not in the WAL.
    #[must_use]
    pub fn is_unlogged(&self) -> bool {
        self.notes.kept.unlogged.load(Acquire)
    }

    /// Whether no writer is inserting. In the sequencing step it stays so: all that was sequenced
    /// is found.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.counts.0.writers.load(SeqCst) == 0
    }

    /// Whether large batches were attached to it.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.notes.part_count.load(Acquire) > 0
    }
}
