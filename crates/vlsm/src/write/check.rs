//! The check of a transaction's reads against batches that are not visible yet.
//!
//! A transaction may commit if nothing that it read has changed since its snapshot, up to the very
//! place that its own batch gets in the order of all batches:
//! 1. [`Writer::begin_check`], in the sequencing step: from this sequence number on, every batch
//!    that is sequenced leaves a note of its keys. Then it waits until all earlier batches are
//!    visible.
//! 2. The caller looks whether a visible write has changed a read (`read/changes`).
//! 3. The transaction's batch goes through the commit as any other batch. In its sequencing step
//!    the notes are searched, too: the batch gets a sequence number only if no note names a read.
//!
//! So the check costs other writers nothing while no transaction commits, and a copy of their keys
//! while one does. Notes are dropped with the last check that needs them, or if they take too much
//! memory; a check that lost notes has to begin again ([`Check::is_lost`]).
//!
//! Invariants: the notes have every batch from the oldest check's number on, unless it is lost.
//! Threads and locks: notes are added and searched in the sequencing step; `notes` is locked after
//! the sequencing lock, for short. The flag `active` is raised in the sequencing step, so that no
//! batch after it is missed.

use crate::memtable::Memtable;
use crate::read::changes::{Change, Part, Reads, contains, overlaps};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::write::Writer;
use crate::write::batch::Batch;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, Range};
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{ConflictKind, Cursor, Error, Kind, RangeTombstones, Result, Seq, Trailer, TreeId};

/// The most bytes that notes may take.
const NOTES_MAX: usize = 16 << 20;
/// The memory that a note takes besides its keys, about.
const NOTE_BYTES: usize = 64;

/// The writes of one batch.
enum Writes {
    /// The keys of a small batch.
    Keys(Keys),
    /// The memtables of a large batch.
    Parts(Vec<(TreeId, Arc<Memtable>)>),
    /// Anything in these trees.
    Trees(Vec<TreeId>),
}

/// Keys in one piece of memory.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    entries: Vec<Key>,
}

/// A key, or the range that a range tombstone deletes.
struct Key {
    tree: TreeId,
    key: Range<u32>,
    end: Option<Range<u32>>,
}

struct Note {
    seq: Seq,
    bytes: usize,
    writes: Writes,
}

#[derive(Default)]
struct Notes {
    /// The checks under way, by the sequence number from which on they need notes.
    checks: BTreeMap<Seq, usize>,
    notes: VecDeque<Note>,
    bytes: usize,
    /// Notes below this number were dropped while a check needed them.
    lost: Seq,
}

/// The batches that were sequenced while commits of transactions are checked.
#[derive(Default)]
pub(crate) struct Recent {
    active: AtomicUsize,
    notes: Mutex<Notes>,
}

impl Recent {
    /// Whether batches have to leave notes.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }

    /// Notes a small batch. In the sequencing step.
    #[cold]
    pub fn note_batch(&self, seq: Seq, batch: &Batch) {
        let mut keys = Keys::default();
        for entry in batch.entries() {
            let key = keys.add(batch.key(entry));
            let end = (entry.kind == Kind::RangeDelete).then(|| keys.add(batch.value(entry)));
            keys.entries.push(Key { tree: entry.tree, key, end });
        }
        let bytes = keys.bytes.len() + keys.entries.len() * size_of::<Key>();
        self.add(seq, bytes, Writes::Keys(keys));
    }

    /// Notes a large batch by its memtables. In the sequencing step.
    #[cold]
    pub fn note_parts(&self, seq: Seq, parts: &BTreeMap<TreeId, Arc<Memtable>>) {
        let parts: Vec<_> = parts.iter().map(|(tree, part)| (*tree, part.clone())).collect();
        self.add(seq, parts.len() * NOTE_BYTES, Writes::Parts(parts));
    }

    /// Notes an operation that may change any key of these trees. In the sequencing step.
    pub fn note_trees(&self, seq: Seq, trees: &[TreeId]) {
        if self.is_active() {
            self.add(seq, size_of_val(trees), Writes::Trees(trees.to_vec()));
        }
    }

    fn add(&self, seq: Seq, bytes: usize, writes: Writes) {
        let mut notes = self.notes.lock();
        let bytes = bytes + NOTE_BYTES;
        notes.bytes += bytes;
        notes.notes.push_back(Note { seq, bytes, writes });
        if notes.bytes > NOTES_MAX {
            notes.notes.clear();
            notes.bytes = 0;
            notes.lost = Seq(seq.0 + 1);
        }
    }

    fn begin(&self, from: Seq) {
        self.active.fetch_add(1, Ordering::Relaxed);
        *self.notes.lock().checks.entry(from).or_default() += 1;
    }

    fn end(&self, from: Seq) {
        let dropped: Vec<Note> = {
            let mut notes = self.notes.lock();
            let count = notes.checks.get_mut(&from).expect("each check ends once");
            *count -= 1;
            if *count == 0 {
                notes.checks.remove(&from);
            }
            let oldest = notes.checks.keys().next().copied().unwrap_or(Seq::MAX);
            let needless = notes.notes.partition_point(|note| note.seq < oldest);
            let dropped: Vec<Note> = notes.notes.drain(..needless).collect();
            notes.bytes -= dropped.iter().map(|note| note.bytes).sum::<usize>();
            self.active.fetch_sub(1, Ordering::Relaxed);
            dropped
        };
        drop(dropped);
    }
}

impl Keys {
    fn add(&mut self, key: &[u8]) -> Range<u32> {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        start..self.bytes.len() as u32
    }

    fn at(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }
}

impl Writes {
    /// The first read that these writes change.
    fn change(&self, reads: &Reads) -> Option<Change> {
        match self {
            Self::Keys(keys) => keys.entries.iter().find_map(|entry| {
                let key = keys.at(&entry.key);
                match &entry.end {
                    None => key_written(reads, entry.tree, key),
                    Some(end) => range_deleted(reads, entry.tree, key, keys.at(end)),
                }
            }),
            Self::Parts(parts) => {
                parts.iter().find_map(|(tree, part)| change_in(reads, *tree, part))
            }
            Self::Trees(trees) => {
                let read = reads.keys().find(|(tree, _)| trees.contains(tree));
                let key = read.map(|(tree, _)| Change { tree, kind: ConflictKind::Key });
                key.or_else(|| {
                    let mut ranges = reads.ranges().flat_map(|(of, _)| of);
                    let tree = *ranges.find(|tree| trees.contains(tree))?;
                    Some(Change { tree, kind: ConflictKind::Range })
                })
            }
        }
    }
}

/// The parts of ranges of one tree that were read.
fn parts_of(reads: &Reads, tree: TreeId) -> impl Iterator<Item = Part<'_>> {
    reads.ranges().filter(move |(trees, _)| trees.contains(&tree)).map(|(_, part)| part)
}

fn key_written(reads: &Reads, tree: TreeId, key: &[u8]) -> Option<Change> {
    if reads.has_key(tree, key) {
        return Some(Change { tree, kind: ConflictKind::Key });
    }
    let read = parts_of(reads, tree).any(|part| contains(part, key));
    read.then_some(Change { tree, kind: ConflictKind::Range })
}

fn range_deleted(reads: &Reads, tree: TreeId, lo: &[u8], hi: &[u8]) -> Option<Change> {
    let mut keys = reads.keys();
    if keys.any(|(of, key)| of == tree && lo <= key && key < hi) {
        return Some(Change { tree, kind: ConflictKind::Key });
    }
    let read = parts_of(reads, tree).any(|part| overlaps(part, lo, hi));
    read.then_some(Change { tree, kind: ConflictKind::Range })
}

/// The first read that a large batch changes in one tree.
fn change_in(reads: &Reads, tree: TreeId, part: &Arc<Memtable>) -> Option<Change> {
    let mut tombstones = RangeTombstones::default();
    part.add_ranges_to(&mut tombstones);
    let deleted =
        tombstones.iter().find_map(|(lo, fragment)| range_deleted(reads, tree, lo, &fragment.hi));
    if deleted.is_some() {
        return deleted;
    }
    let mut keys = reads.keys().filter(|(of, _)| *of == tree);
    if keys.any(|(_, key)| part.get(key, Seq::MAX).is_some()) {
        return Some(Change { tree, kind: ConflictKind::Key });
    }
    let written = parts_of(reads, tree).any(|read| has_key_in(part, read));
    written.then_some(Change { tree, kind: ConflictKind::Range })
}

/// Whether a memtable has an entry in a part of a range.
fn has_key_in(memtable: &Arc<Memtable>, part: Part<'_>) -> bool {
    let mut cursor = memtable.cursor();
    let sought = match part.0 {
        Bound::Included(lo) => cursor.seek(lo, Trailer::FIRST),
        Bound::Excluded(lo) => cursor.seek(lo, Trailer::LAST),
        Bound::Unbounded => cursor.seek_first(),
    };
    sought.is_ok() && cursor.valid() && contains(part, cursor.key())
}

/// The check of one transaction's commit.
pub(crate) struct Check<'a> {
    writer: &'a Writer,
    reads: &'a Reads,
    /// Batches from this number on are in the notes.
    from: Seq,
    lost: AtomicBool,
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        self.writer.recent.end(self.from);
    }
}

impl Check<'_> {
    /// Whether notes were lost that it needed: it has to begin again.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Step 3, in the sequencing step.
    ///
    /// # Errors
    /// [`Error::Conflict`].
    pub fn pass(&self) -> Result<()> {
        if planted::is(Bug::CheckedTooEarly) {
            return Ok(());
        }
        let notes = self.writer.recent.notes.lock();
        if notes.lost > self.from {
            self.lost.store(true, Ordering::Relaxed);
            // Who sees the flag does not look at the error.
            return Err(Error::Internal("notes of batches were lost".into()));
        }
        let recent = notes.notes.iter().filter(|note| note.seq >= self.from);
        let change = recent.into_iter().find_map(|note| note.writes.change(self.reads));
        drop(notes);
        change.map_or(Ok(()), |change| Err(self.writer.conflict(change)))
    }
}

impl Writer {
    /// Step 1. Everything before the check is visible when this returns.
    ///
    /// # Errors
    /// The store takes no writes.
    pub fn begin_check<'a>(&'a self, reads: &'a Reads) -> Result<Check<'a>> {
        let from = {
            let sequence = self.log.sequence();
            self.shared.health.check()?;
            let from = Seq(sequence.next_seq);
            self.recent.begin(from);
            from
        };
        let check = Check { writer: self, reads, from, lost: AtomicBool::new(false) };
        self.await_published(Seq(from.0 - 1))?;
        Ok(check)
    }

    /// The error of a transaction that other writers outran until it gave up: it says that their
    /// writes came in between, and names the keyspace of its own first write.
    pub fn outrun(&self, batch: &Batch) -> Error {
        let tree = batch.entries().first().map_or_else(TreeId::default, |entry| entry.tree);
        self.conflict(Change { tree, kind: ConflictKind::Range })
    }

    /// The error for a read that has changed.
    pub fn conflict(&self, change: Change) -> Error {
        self.shared.counters.conflicts.add(1);
        let owner = self.catalog.owner(change.tree);
        let keyspace = owner.map_or_else(String::new, |info| info.name.clone());
        Error::Conflict { keyspace, what: change.kind }
    }
}
