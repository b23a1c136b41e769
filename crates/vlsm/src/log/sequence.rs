//! The state of the sequencing step: the one order of all batches, and the end of the WAL. A
//! function that may be called only in this step takes a reference to [`Sequence`], which only the
//! holder of the lock has.

use crate::log::tail::Tail;
use std::collections::BTreeMap;
use vlsm_core::{FileNumber, Seq};

/// The state that the sequencing step changes.
pub(crate) struct Sequence {
    pub next_seq: u64,
    pub next_ticket: u64,
    pub tail: Tail,
    /// WAL files with fragments of batches that are not sequenced yet, with how many.
    pinned: BTreeMap<FileNumber, usize>,
}

impl Sequence {
    /// The next batch gets the number after `last_seq`.
    pub fn new(last_seq: Seq, tail: Tail) -> Self {
        Self { next_seq: last_seq.0 + 1, next_ticket: 0, tail, pinned: BTreeMap::new() }
    }

    /// Keeps a WAL file although no memtable names it.
    pub fn pin_wal(&mut self, number: FileNumber) {
        *self.pinned.entry(number).or_default() += 1;
    }

    /// Takes one pin back.
    pub fn unpin_wal(&mut self, number: FileNumber) {
        let count = self.pinned.get_mut(&number).expect("each pin is taken back once");
        *count -= 1;
        if *count == 0 {
            self.pinned.remove(&number);
        }
    }

    /// The oldest pinned WAL file.
    pub fn pinned_wal(&self) -> Option<FileNumber> {
        self.pinned.keys().next().copied()
    }
}
