//! The range tombstones of a memtable.
//!
//! They are few compared with entries, so they are not in the arena but in a set behind a lock; a
//! flag spares readers the lock if the set is empty. Like those of entries, their sequence numbers
//! in an attached part are without its base.
//!
//! Invariants: a range tombstone is in the set before its sequence number is published, and never
//! leaves it; so what a reader took from the set stays true for its sequence number. Threads and
//! locks: `set` is held for one search or one insertion.

use parking_lot::RwLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use vlsm_core::{RangeTombstones, Seq};

/// Bytes of memory that one fragment takes besides its ends and sequence numbers, about.
const FRAGMENT: usize = 128;

/// The bytes that a memtable should have room for before a range tombstone goes into it.
#[must_use]
pub fn range_size(lo_len: usize, hi_len: usize) -> usize {
    2 * FRAGMENT + lo_len + hi_len
}

/// A set of range tombstones that grows.
#[derive(Default)]
pub(super) struct Ranges {
    any: AtomicBool,
    bytes: AtomicUsize,
    set: RwLock<RangeTombstones>,
}

impl Ranges {
    /// Deletes `[lo, hi)` as of `seq`.
    pub fn insert(&self, lo: &[u8], hi: &[u8], seq: Seq) {
        let mut set = self.set.write();
        // What it covers gets one number more; where its ends fall into fragments, these double.
        let over = set.overlapping(lo, hi).map(|(_, fragment)| fragment.seqs.len());
        let over: Vec<usize> = over.collect();
        let cut = over.first().unwrap_or(&0) + over.last().unwrap_or(&0);
        set.insert(&lo.to_vec().into(), &hi.to_vec().into(), seq);
        self.bytes.fetch_add(range_size(lo.len(), hi.len()) + 8 * (over.len() + cut + 2), Relaxed);
        self.any.store(true, Release);
    }

    /// Notes that there are some, in a part.
    pub fn note_some(&self) {
        self.any.store(true, Release);
    }

    /// Whether there are some, here or in a part.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    /// The bytes of memory that they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// A look at them.
    pub fn with<T>(&self, look: impl FnOnce(&RangeTombstones) -> T) -> T {
        look(&self.set.read())
    }
}
