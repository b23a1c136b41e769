//! The check of a transaction's reads against batches that are not visible yet.
//!
//! A transaction may commit if nothing that it read has changed since its snapshot, up to the place
//! of its own batch in the order of all batches. If no sequence number was given since, nothing has
//! changed, and no check is needed ([`Condition::NoneSince`]). Otherwise:
//! 1. [`Writer::begin_check`], in the sequencing step: from this sequence number on, every batch
//!    that is sequenced leaves a note of its keys. Then it waits until all earlier batches are
//!    visible.
//! 2. The caller looks whether a visible write has changed a read (`read/changes`).
//! 3. The notes so far are searched ([`Check::search`]). In the sequencing step of the
//!    transaction's own batch those that came since are searched, too: the batch gets a sequence
//!    number only if none of them names a read.
//!
//! So the check costs other writers nothing while no transaction commits, and a copy of their keys
//! while one does. Notes go with the last check that needs them. If they take too much memory, the
//! oldest go at once; a check that lost one has to begin again ([`Check::is_lost`]).
//!
//! Invariants: the notes have every batch from the oldest check's number on, unless it is lost.
//! Threads and locks: notes are added in the sequencing step; `notes` is locked after the
//! sequencing lock, for a few pointers. The count `active` is raised in the sequencing step, so
//! that no batch after it is missed.

use crate::log::sequence::Sequence;
use crate::memtable::Memtable;
use crate::read::changes::{Change, ReadIndex};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::write::Writer;
use crate::write::batch::Batch;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{ConflictKind, Error, Kind, Micros, Result, Seq, TreeId};

/// The most bytes that notes may take.
const NOTES_MAX: usize = 16 << 20;
/// The most bytes of large batches' memtables that notes may keep.
const PARTS_MAX: usize = 64 << 20;
/// The memory that a note takes besides its keys, about.
const NOTE_BYTES: usize = 64;

/// The writes of one batch.
enum Writes {
    /// The keys of a small batch.
    Keys(Keys),
    /// The memtables of a large batch, and their bytes.
    Parts(Vec<(TreeId, Arc<Memtable>)>, usize),
    /// Perhaps any key of these trees.
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
    key: Range<usize>,
    end: Option<Range<usize>>,
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
    notes: VecDeque<Arc<Note>>,
    bytes: usize,
    /// The bytes of large batches' memtables in the notes.
    part_bytes: usize,
    /// Notes below this number were dropped while a check needed them.
    lost: Seq,
}

impl Notes {
    /// Takes the oldest note out.
    fn pop(&mut self) -> Option<Arc<Note>> {
        let note = self.notes.pop_front()?;
        self.bytes -= note.bytes;
        if let Writes::Parts(_, bytes) = &note.writes {
            self.part_bytes -= bytes;
        }
        Some(note)
    }
}

/// The batches that were sequenced while commits of transactions are checked.
pub(crate) struct Recent {
    active: AtomicUsize,
    notes: Mutex<Notes>,
    /// The most bytes that notes may take, and that the memtables in them may have.
    bounds: (usize, usize),
}

impl Default for Recent {
    fn default() -> Self {
        Self::bounded(NOTES_MAX, PARTS_MAX)
    }
}

impl Recent {
    /// No notes yet, and at most so many bytes of them and of memtables in them.
    pub fn bounded(notes: usize, parts: usize) -> Self {
        let active = AtomicUsize::new(0);
        Self { active, notes: Mutex::default(), bounds: (notes, parts) }
    }

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
        let bytes = parts.values().map(|part| part.bytes()).sum::<usize>();
        let kept = self.notes.lock().part_bytes;
        let writes = match kept + bytes <= self.bounds.1 {
            true => {
                let parts = parts.iter().map(|(tree, part)| (*tree, part.clone()));
                Writes::Parts(parts.collect(), bytes)
            }
            false => Writes::Trees(parts.keys().copied().collect()),
        };
        self.add(seq, parts.len() * NOTE_BYTES, writes);
    }

    /// Notes an operation that may change any key of these trees. In the sequencing step.
    pub fn note_trees(&self, seq: Seq, trees: &[TreeId]) {
        if self.is_active() && !planted::is(Bug::IngestUnchecked) {
            self.add(seq, size_of_val(trees), Writes::Trees(trees.to_vec()));
        }
    }

    fn add(&self, seq: Seq, bytes: usize, writes: Writes) {
        let mut dropped = Vec::new();
        let mut notes = self.notes.lock();
        let bytes = bytes + NOTE_BYTES;
        notes.bytes += bytes;
        if let Writes::Parts(_, bytes) = &writes {
            notes.part_bytes += bytes;
        }
        notes.notes.push_back(Arc::new(Note { seq, bytes, writes }));
        while notes.bytes > self.bounds.0 {
            let Some(note) = notes.pop() else { break };
            notes.lost = Seq(note.seq.0 + 1);
            dropped.push(note);
        }
        drop(notes);
        drop(dropped);
    }

    /// The number of notes.
    #[cfg(test)]
    pub fn note_count(&self) -> usize {
        self.notes.lock().notes.len()
    }

    /// Begins a check, in the sequencing step: batches from this number on leave notes.
    fn begin(&self, from: Seq) {
        self.active.fetch_add(1, Ordering::Relaxed);
        *self.notes.lock().checks.entry(from).or_default() += 1;
    }

    fn end(&self, from: Seq) {
        let mut dropped = Vec::new();
        let mut notes = self.notes.lock();
        let count = notes.checks.get_mut(&from).expect("each check ends once");
        *count -= 1;
        if *count == 0 {
            notes.checks.remove(&from);
        }
        let oldest = notes.checks.keys().next().copied().unwrap_or(Seq::MAX);
        while notes.notes.front().is_some_and(|note| note.seq < oldest) {
            dropped.extend(notes.pop());
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
        drop(notes);
        drop(dropped);
    }

    /// The notes above a number; none if one of them is lost.
    fn after(&self, seq: Seq) -> Option<Vec<Arc<Note>>> {
        let notes = self.notes.lock();
        let newer = notes.notes.iter().rev().take_while(|note| note.seq > seq);
        (notes.lost.0 <= seq.0 + 1).then(|| newer.cloned().collect())
    }
}

impl Keys {
    fn add(&mut self, key: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        start..self.bytes.len()
    }
}

impl Writes {
    /// The first read that these writes change.
    fn change(&self, reads: &ReadIndex) -> Option<Change> {
        let changed =
            |tree: TreeId, kind: Option<ConflictKind>| kind.map(|kind| Change { tree, kind });
        match self {
            Self::Keys(Keys { bytes, entries }) => entries.iter().find_map(|entry| {
                let key = &bytes[entry.key.clone()];
                changed(
                    entry.tree,
                    match &entry.end {
                        None => reads.of_key(entry.tree, key),
                        Some(end) => reads.of_range(entry.tree, key, &bytes[end.clone()]),
                    },
                )
            }),
            Self::Parts(parts, _) => {
                parts.iter().find_map(|(tree, part)| changed(*tree, reads.of_memtable(*tree, part)))
            }
            Self::Trees(trees) => {
                let tree = *trees.iter().find(|tree| reads.has_tree(**tree))?;
                Some(Change { tree, kind: ConflictKind::Unchecked })
            }
        }
    }
}

/// The check of one transaction's commit.
pub(crate) struct Check<'a> {
    writer: &'a Writer,
    reads: &'a ReadIndex,
    /// Batches from this number on are in the notes.
    pub from: Seq,
    /// Notes up to this number were searched; [`LOST`] if some were lost.
    searched: AtomicU64,
}

/// A number that no batch has.
const LOST: u64 = u64::MAX;

impl Drop for Check<'_> {
    fn drop(&mut self) {
        self.writer.recent.end(self.from);
    }
}

impl Check<'_> {
    /// Whether notes were lost that it needed: it has to begin again.
    pub fn is_lost(&self) -> bool {
        self.searched.load(Ordering::Relaxed) == LOST
    }

    /// Searches the notes since the last search.
    ///
    /// # Errors
    /// [`Error::Conflict`]; that nothing is known, if notes were lost.
    pub fn search(&self) -> Result<()> {
        let searched = self.searched.load(Ordering::Relaxed);
        let Some(notes) = self.writer.recent.after(Seq(searched)) else {
            self.searched.store(LOST, Ordering::Relaxed);
            let tree = self.reads.first_tree();
            return Err(self.writer.conflict(Change { tree, kind: ConflictKind::Unchecked }));
        };
        if let Some(change) = notes.iter().rev().find_map(|note| note.writes.change(self.reads)) {
            return Err(self.writer.conflict(change));
        }
        if let Some(last) = notes.first() {
            self.searched.store(last.seq.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Step 3, in the sequencing step.
    ///
    /// # Errors
    /// As [`Check::search`].
    pub fn pass(&self) -> Result<()> {
        if planted::is(Bug::CheckedTooEarly) { Ok(()) } else { self.search() }
    }
}

/// The condition under which a batch gets its sequence numbers.
#[derive(Clone, Copy)]
pub(super) enum Condition<'a> {
    /// Nothing: it is no transaction, or one that has read nothing.
    None,
    /// No sequence number was given after that of the transaction's snapshot.
    NoneSince(Seq),
    /// The transaction's check passes.
    Passed(&'a Check<'a>),
}

impl Writer {
    /// Tests the condition, in the sequencing step. If a number was given after the snapshot's, it
    /// begins the check and returns its first number; the caller goes on with it
    /// ([`Writer::check_from`]).
    ///
    /// # Errors
    /// As [`Check::search`].
    pub(super) fn test(
        &self,
        condition: Condition<'_>,
        sequence: &Sequence,
    ) -> Result<Option<Seq>> {
        let since = match condition {
            Condition::None => return Ok(None),
            Condition::Passed(check) => return check.pass().map(|()| None),
            Condition::NoneSince(seq) => seq,
        };
        let last = match planted::is(Bug::UnseenOverlooked) {
            true => self.views.visible(),
            false => Seq(sequence.next_seq - 1),
        };
        Ok((last > since).then(|| {
            let from = Seq(sequence.next_seq);
            self.recent.begin(from);
            from
        }))
    }

    /// Step 1. Everything before the check is visible when this returns.
    ///
    /// # Errors
    /// The store takes no writes; [`Error::Busy`].
    pub fn begin_check<'a>(
        &'a self,
        reads: &'a ReadIndex,
        give_up: Option<Duration>,
    ) -> Result<Check<'a>> {
        let from = {
            let sequence = self.log.sequence();
            self.shared.health.check()?;
            let from = Seq(sequence.next_seq);
            self.recent.begin(from);
            from
        };
        self.check_from(from, reads, give_up)
    }

    /// The rest of step 1, for a check that began at this number ([`Recent::begin`]) and that this
    /// call ends if it fails.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(super) fn check_from<'a>(
        &'a self,
        from: Seq,
        reads: &'a ReadIndex,
        give_up: Option<Duration>,
    ) -> Result<Check<'a>> {
        let searched = AtomicU64::new(from.0 - 1);
        let check = Check { writer: self, reads, from, searched };
        self.await_earlier(Seq(from.0 - 1), give_up)?;
        Ok(check)
    }

    /// Waits until all up to a sequence number is visible, and records the wait.
    fn await_earlier(&self, last: Seq, give_up: Option<Duration>) -> Result<()> {
        if self.views.visible() >= last {
            return Ok(());
        }
        let env = &self.shared.env;
        let since = env.now();
        let cause = self.publish_cause();
        loop {
            let epoch = self.publisher.epoch();
            if self.views.visible() >= last {
                self.shared.note_wait(cause, since);
                return Ok(());
            }
            self.shared.health.check_running()?;
            let now = env.now();
            if give_up.is_some_and(|give_up| now >= give_up) {
                self.shared.note_wait(cause, since);
                let waited = Micros(now.saturating_sub(since).as_micros() as u64);
                return Err(Error::Busy { waited, cause: cause.name() });
            }
            self.publisher.wait(epoch, give_up);
        }
    }

    /// The error for a read that has changed.
    pub fn conflict(&self, change: Change) -> Error {
        let owner = self.catalog.owner(change.tree);
        let keyspace = owner.map_or_else(String::new, |info| info.name());
        Error::Conflict { keyspace, what: change.kind }
    }
}
