//! Memtables: where writes live, sorted, until they are flushed.
//!
//! A memtable is a skip list ([`skiplist`]) in one pooled block of memory ([`arena`]), with
//! counters.
//!
//! The way of a batch:
//! 1. Before the queue, its writer sums up [`body_size`] of its entries.
//! 2. In the sequencing step, one thread at a time, it gets its sequence numbers; [`towers_size`]
//!    of them is added; [`Memtable::reserve`] claims the space and counts the writer in. None means
//!    full: rotate.
//! 3. In parallel with other writers it calls [`Memtable::insert`] for each entry, then
//!    [`Memtable::end_write`].
//! 4. [`Memtable::seal`], in the sequencing step, ends that. Once [`Memtable::drained`], the
//!    content is final and may be flushed.
//!
//! Invariants: entries never move and never go away while the memtable lives; after `drained`
//! nothing changes. Threads and locks: none but atomics. Readers see an entry as soon as it is
//! linked; which of them they may see is for their sequence number to say.

mod arena;
mod cursor;
mod skiplist;
#[cfg(test)]
mod tests;

pub use arena::{Arena, ArenaPool};
pub use cursor::MemtableCursor;
pub use skiplist::{MAX_HEIGHT, Reservation, body_size, tower_size};

use skiplist::{Padded, SkipList};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use vlsm_core::{MemtableId, Seq, Trailer};

/// A sorted set of entries in memory.
pub struct Memtable {
    id: MemtableId,
    list: SkipList,
    counts: Padded<Counts>,
}

struct Counts {
    entries: AtomicUsize,
    /// Writers between `begin_write` and `end_write`.
    writers: AtomicUsize,
    sealed: AtomicBool,
    smallest_seq: AtomicU64,
    largest_seq: AtomicU64,
}

impl Memtable {
    /// An empty memtable that fills `arena`.
    #[must_use]
    pub fn new(id: MemtableId, arena: Arena) -> Self {
        let counts = Counts {
            entries: AtomicUsize::new(0),
            writers: AtomicUsize::new(0),
            sealed: AtomicBool::new(false),
            smallest_seq: AtomicU64::new(u64::MAX),
            largest_seq: AtomicU64::new(0),
        };
        Self { id, list: SkipList::new(arena), counts: Padded(counts) }
    }

    /// The bytes of an entry in a memtable.
    #[must_use]
    #[inline]
    pub fn entry_size(key_len: usize, value_len: usize, seq: Seq) -> usize {
        body_size(key_len, value_len) + tower_size(seq)
    }

    /// The arena that entries of `bytes` in all need.
    #[must_use]
    pub const fn arena_bytes(bytes: usize) -> usize {
        bytes + SkipList::overhead()
    }

    /// Its number. Larger is newer.
    #[must_use]
    pub fn id(&self) -> MemtableId {
        self.id
    }

    /// Claims space for `entries` entries of `bytes` in all, with sequence numbers in `seqs`, and
    /// counts the caller as a writer until [`Memtable::end_write`]. None, with nothing changed,
    /// when they do not fit.
    ///
    /// Called in the sequencing step: by one thread at a time, and not after [`Memtable::seal`].
    ///
    /// # Panics
    /// When sealed.
    pub fn reserve(
        &self,
        entries: usize,
        bytes: usize,
        seqs: std::ops::RangeInclusive<Seq>,
    ) -> Option<Reservation> {
        let counts = &self.counts.0;
        assert!(!counts.sealed.load(Relaxed), "memtable {} is sealed", self.id);
        let space = self.list.reserve(bytes)?;
        self.begin_write();
        counts.entries.fetch_add(entries, Relaxed);
        counts.smallest_seq.fetch_min(seqs.start().0, Relaxed);
        counts.largest_seq.fetch_max(seqs.end().0, Relaxed);
        Some(space)
    }

    /// Adds an entry in reserved space. May run in parallel with other writers and with readers.
    ///
    /// # Panics
    /// When `space` is another memtable's or has no room left for the entry.
    #[inline]
    pub fn insert(&self, space: &mut Reservation, key: &[u8], trailer: Trailer, value: &[u8]) {
        self.list.insert(space, key, trailer, value);
    }

    /// Counts one more writer in. [`Memtable::reserve`] does it by itself.
    pub fn begin_write(&self) {
        self.counts.0.writers.fetch_add(1, Relaxed);
    }

    /// Counts a writer out. True for the last writer of a sealed memtable, which is then drained.
    ///
    /// # Panics
    /// When there was none.
    pub fn end_write(&self) -> bool {
        let before = self.counts.0.writers.fetch_sub(1, SeqCst);
        assert!(before > 0, "end_write without begin_write");
        before == 1 && self.counts.0.sealed.load(SeqCst)
    }

    /// Lets no further writer in. Called in the sequencing step. True when it is drained already.
    pub fn seal(&self) -> bool {
        self.counts.0.sealed.store(true, SeqCst);
        self.counts.0.writers.load(SeqCst) == 0
    }

    /// Whether it was sealed.
    #[must_use]
    pub fn sealed(&self) -> bool {
        self.counts.0.sealed.load(Acquire)
    }

    /// Whether it is sealed and its last writer has finished: its content is final.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.sealed() && self.counts.0.writers.load(Acquire) == 0
    }

    /// The newest entry of a key that a reader at `seq` may see, a tombstone perhaps.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &[u8], seq: Seq) -> Option<(Trailer, &[u8])> {
        let node = self.list.seek(key, Trailer::seek(seq))?;
        (self.list.key(node) == key).then(|| (self.list.trailer(node), self.list.value(node)))
    }

    /// A cursor over all entries, also those still to come.
    #[must_use]
    pub fn cursor(self: &std::sync::Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// The bytes of the arena that are in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.list.bytes()
    }

    /// How many entries there are, reserved ones included.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.counts.0.entries.load(Relaxed)
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The smallest and the largest user key.
    #[must_use]
    pub fn range(&self) -> Option<(&[u8], &[u8])> {
        Some((self.list.key(self.list.first()?), self.list.key(self.list.last()?)))
    }

    /// The smallest and the largest sequence number.
    #[must_use]
    pub fn seqs(&self) -> Option<(Seq, Seq)> {
        let smallest = self.counts.0.smallest_seq.load(Relaxed);
        let largest = self.counts.0.largest_seq.load(Relaxed);
        (smallest <= largest).then_some((Seq(smallest), Seq(largest)))
    }
}

/// The bytes of the towers of `count` entries with consecutive sequence numbers.
#[must_use]
pub fn towers_size(first: Seq, count: usize) -> usize {
    (first.0..first.0 + count as u64).map(|seq| tower_size(Seq(seq))).sum()
}
