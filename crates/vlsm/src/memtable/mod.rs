//! Memtables: hold writes, sorted, until they are flushed.
//!
//! A memtable is a skip list (`skiplist`) with a filter over its keys (`filter`) in one pooled
//! block of memory (`arena`), a set of range tombstones (`ranges`), and counters.
//!
//! A batch is inserted as follows:
//! 1. Before the queue, its writer sums up [`body_size`] of its entries.
//! 2. In the sequencing step, one thread at a time, it gets its sequence numbers; [`towers_size`]
//!    of them is added; [`Memtable::reserve`] claims the space and counts the writer in. None means
//!    full: rotate.
//! 3. In parallel with other writers it calls [`Memtable::insert`] for each entry, then
//!    [`Memtable::end_write`].
//! 4. [`Memtable::seal`], in the sequencing step, ends that. Once [`Memtable::drained`], the
//!    content is final and may be flushed.
//!
//! A large batch is not inserted entry by entry while others wait for their turn to publish. Its
//! writer fills a memtable of its own beforehand, with sequence numbers that count from 1, and the
//! sequencing step only *attaches* it as a part of the active one, with the batch's place in the
//! order as their base.
//!
//! Invariants: entries never move and never go away while the memtable lives; after `drained`
//! nothing changes. Threads and locks: atomics, except for parts and range tombstones, which have a
//! lock each. Readers find an entry as soon as it is linked; their sequence number decides whether
//! they may see it.

mod arena;
mod block;
mod cursor;
mod filter;
mod kept;
mod ranges;
mod skiplist;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use arena::{Arena, ArenaGauges, ArenaPool};
pub use cursor::MemtableCursor;
pub use ranges::range_size;
pub use skiplist::{MAX_HEIGHT, Reservation, body_size, tower_size};

use kept::KeptNotes;
use ranges::Ranges;
use skiplist::{Padded, SkipList};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::range_tombstones::Window;
use vlsm_core::{FileNumber, KeyRange, MemtableId, RangeTombstones, Seq, Trailer};

use crate::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::sync::{Mutex, Race, races};
use bytes::Bytes;
use vlsm_disk::Gauge;

/// A sorted set of entries in memory.
pub struct Memtable {
    id: MemtableId,
    list: SkipList,
    counts: Padded<Counts>,
    /// Added to the sequence numbers of all entries; zero except in attached parts.
    base: AtomicU64,
    parts: Mutex<Vec<Arc<Memtable>>>,
    ranges: Ranges,
    notes: Notes,
}

/// The engine's bookkeeping for a memtable: its WAL, the time at which it was sealed, and its
/// attached parts.
#[derive(Default)]
struct Notes {
    /// The WAL that holds its first entry; 0 for none.
    wal: AtomicU64,
    /// Microseconds at which it was sealed.
    sealed_at: AtomicU64,
    /// Number and bytes of the attached parts.
    part_count: AtomicUsize,
    part_bytes: AtomicUsize,
    kept: KeptNotes,
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
    /// A memtable without room, for a tree that may never be written again: its first write
    /// replaces it.
    #[must_use]
    pub fn idle(id: MemtableId) -> Arc<Self> {
        Arc::new(Self::new(id, Arena::new(Self::arena_bytes(0))))
    }

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
        Self {
            id,
            list: SkipList::new(arena),
            counts: Padded(counts),
            base: AtomicU64::new(0),
            parts: Mutex::default(),
            ranges: Ranges::default(),
            notes: Notes::default(),
        }
    }

    /// The bytes of an entry in a memtable.
    #[must_use]
    #[inline]
    pub fn entry_size(key_len: usize, value_len: usize, seq: Seq) -> usize {
        body_size(key_len, value_len) + tower_size(seq)
    }

    /// The block of a memtable with this option `memtable_bytes`. Its filter takes a 128th of it.
    #[must_use]
    pub const fn block_bytes(bytes: usize) -> usize {
        bytes.saturating_add(SkipList::overhead())
    }

    /// The arena that entries of `bytes` in all need.
    #[must_use]
    pub const fn arena_bytes(bytes: usize) -> usize {
        SkipList::arena_bytes(bytes)
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
        filter::add(self.list.filter(), key);
        self.list.insert(space, key, trailer, value);
    }

    /// Adds a range tombstone over `[lo, hi)`: an entry that was counted with
    /// [`Memtable::reserve`] and takes no reserved space. Before its sequence number is published.
    pub fn delete_range(&self, lo: &[u8], hi: &[u8], seq: Seq) {
        self.ranges.insert(lo, hi, seq);
    }

    /// Whether it has range tombstones, in its parts or its own. A reader asks this after it loaded
    /// its sequence number.
    #[must_use]
    #[inline]
    pub fn has_ranges(&self) -> bool {
        self.ranges.any()
    }

    /// The newest range tombstone over a key that a reader at `seq` may see, in the memtable or its
    /// parts; [`Seq::ZERO`] for none.
    #[must_use]
    pub fn cover(&self, key: &[u8], seq: Seq) -> Seq {
        let own = self.ranges.with(|set| set.cover(key, seq));
        let parts = self.parts.lock();
        let covers = parts.iter().filter(|part| part.has_ranges()).map(|part| {
            let base = part.base.load(Relaxed);
            let below = Seq(seq.0.saturating_sub(base));
            match part.ranges.with(|set| set.cover(key, below)) {
                Seq::ZERO => Seq::ZERO,
                Seq(found) => Seq(found + base),
            }
        });
        covers.fold(own, Ord::max)
    }

    /// Returns the range tombstones over a key, and the range of keys around it that they cover
    /// alike. Those of attached parts are left out.
    #[must_use]
    pub fn window(&self, key: &[u8]) -> Window {
        let mut window = self.ranges.with(|set| set.window(key));
        let base = self.base.load(Relaxed);
        window.seqs.iter_mut().for_each(|seq| seq.0 += base);
        window
    }

    /// Adds its range tombstones, without the parts', to a set.
    pub fn add_ranges_to(&self, all: &mut RangeTombstones) {
        let base = self.base.load(Relaxed);
        self.ranges.with(|set| {
            for (lo, fragment) in set.iter() {
                let seqs: Vec<Seq> = fragment.seqs.iter().map(|seq| Seq(seq.0 + base)).collect();
                all.insert_all(lo, &fragment.hi, &seqs);
            }
        });
    }

    /// Whether one of its range tombstones, without the parts', is as asked: by its lower and its
    /// upper end and its sequence number.
    pub fn any_range(&self, mut is: impl FnMut(&[u8], &[u8], Seq) -> bool) -> bool {
        if !self.has_ranges() {
            return false;
        }
        let base = self.base.load(Relaxed);
        self.ranges.with(|set| {
            set.iter().any(|(lo, at)| at.seqs.iter().any(|seq| is(lo, &at.hi, Seq(seq.0 + base))))
        })
    }

    /// Counts one more writer in. [`Memtable::reserve`] does it by itself.
    pub fn begin_write(&self) {
        self.counts.0.writers.fetch_add(1, Relaxed);
    }

    /// Counts a writer out. True for the last writer of a sealed memtable: a hint to look whether
    /// it is drained. If that look
    /// comes too early, because another writer or the seal came in between, that writer gives
    /// another hint.
    ///
    /// # Panics
    /// When there was none.
    pub fn end_write(&self) -> bool {
        let too_early = races(Race::EndWriteLooksFirst) && !self.sealed();
        let before = self.counts.0.writers.fetch_sub(1, SeqCst);
        assert!(before > 0, "end_write without begin_write");
        before == 1 && self.counts.0.sealed.load(SeqCst) && !too_early
    }

    /// Lets no further writer in. Called in the sequencing step. True when it is drained already.
    pub fn seal(&self) -> bool {
        self.counts.0.sealed.store(true, SeqCst);
        self.counts.0.writers.load(SeqCst) == 0
    }

    /// Charges it as pinned, because it left its tree: only readers and jobs may still hold it.
    pub fn note_gone(&self) {
        self.charge_to(|gauges| &gauges.pinned);
    }

    fn charge_to(&self, gauge: fn(&ArenaGauges) -> &Gauge) {
        self.list.arena().move_to(gauge);
        for part in self.parts.lock().iter() {
            part.charge_to(gauge);
        }
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

    /// The newest entry of a key that a reader at `seq` may see, a tombstone perhaps. Parts are not
    /// searched: see [`Memtable::newest`].
    #[must_use]
    pub fn get(&self, key: &[u8], seq: Seq) -> Option<(Trailer, &[u8])> {
        self.search(key, seq)
    }

    /// The same, if the filter does not rule the key out.
    #[inline(always)]
    fn get_hashed(&self, key: &[u8], hash: u64, seq: Seq) -> Option<(Trailer, &[u8])> {
        if !filter::may_contain(self.list.filter(), hash) {
            return None;
        }
        self.search(key, seq)
    }

    #[inline(always)]
    fn search(&self, key: &[u8], seq: Seq) -> Option<(Trailer, &[u8])> {
        let seq = Seq(seq.0.checked_sub(self.base.load(Relaxed))?);
        let node = self.list.seek(key, Trailer::seek(seq))?;
        (self.list.key(node) == key).then(|| (self.trailer_of(node), self.list.value(node)))
    }

    /// The newest entry of a key that a reader at `seq` may see, in the memtable or its parts.
    /// `hash` is the key's hash for filters ([`vlsm_disk::sst::filter::hash`]).
    #[must_use]
    #[inline(always)]
    pub fn newest(&self, key: &[u8], hash: u64, seq: Seq) -> Option<(Trailer, Bytes)> {
        let copied = |(trailer, value)| (trailer, Bytes::copy_from_slice(value));
        let own = self.get_hashed(key, hash, seq).map(copied);
        if self.notes.part_count.load(Acquire) == 0 {
            return own;
        }
        let parts = self.parts.lock();
        let found = parts.iter().filter_map(|part| part.get_hashed(key, hash, seq).map(copied));
        found.chain(own).max_by_key(|(trailer, _)| *trailer)
    }

    fn trailer_of(&self, node: skiplist::Node) -> Trailer {
        Trailer(self.list.trailer(node).0 + (self.base.load(Relaxed) << 8))
    }

    /// A trailer as the list counts: without the base. What is older than all entries stays so.
    fn own(&self, trailer: Trailer) -> Trailer {
        Trailer(trailer.0.saturating_sub(self.base.load(Relaxed) << 8))
    }

    /// Makes `part` a part of this memtable. Its entries' sequence numbers, which count from 1, go
    /// on from `base`. Called in the sequencing step, before they are published.
    ///
    /// # Panics
    /// When this memtable is sealed or the part is empty.
    pub fn attach(&self, part: Arc<Self>, base: Seq) {
        assert!(!self.sealed(), "memtable {} is sealed", self.id);
        let (first, last) = part.seqs().expect("a part holds a batch");
        part.base.store(base.0, Relaxed);
        let counts = &self.counts.0;
        counts.entries.fetch_add(part.entries(), Relaxed);
        counts.smallest_seq.fetch_min(base.0 + first.0, Relaxed);
        counts.largest_seq.fetch_max(base.0 + last.0, Relaxed);
        self.notes.part_bytes.fetch_add(part.bytes(), Relaxed);
        if part.has_ranges() {
            self.ranges.note_some();
        }
        part.charge_to(|gauges| &gauges.active);
        self.parts.lock().push(part);
        self.notes.part_count.fetch_add(1, SeqCst);
    }

    /// This memtable and the parts attached to it.
    pub fn parts(self: &Arc<Self>) -> impl Iterator<Item = Arc<Self>> {
        std::iter::once(self.clone()).chain(self.attached())
    }

    /// The parts attached to it.
    fn attached(&self) -> Vec<Arc<Self>> {
        match self.notes.part_count.load(Acquire) {
            0 => Vec::new(),
            _ => self.parts.lock().clone(),
        }
    }

    /// Whether entries of `bytes` in all still belong into this memtable, in memory that is charged
    /// for already.
    #[must_use]
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.list.has_room(bytes + self.ranges.bytes()) && self.parts_leave(bytes)
    }

    fn parts_leave(&self, bytes: usize) -> bool {
        let parts = self.notes.part_bytes.load(Relaxed);
        parts == 0 || self.bytes() + bytes <= self.list.capacity()
    }

    /// The charge with `bytes` more; range tombstones count as if they lay in the arena.
    fn charge_with(&self, bytes: usize) -> Option<usize> {
        let charged = self.list.charge_with(bytes + self.ranges.bytes());
        charged.filter(|_| self.parts_leave(bytes))
    }

    /// The memory that must be charged in addition before entries of `bytes` in all have room; none
    /// when they do not belong into this memtable any more.
    #[must_use]
    pub fn growth_for(&self, bytes: usize) -> Option<usize> {
        Some(self.charge_with(bytes)? - self.list.charged())
    }

    /// Charges what entries of `bytes` in all need, if there is space. Called in the sequencing
    /// step.
    pub fn grow_for(&self, bytes: usize) {
        if let Some(charged) = self.charge_with(bytes) {
            self.list.charge(charged);
        }
    }

    /// The memory that it is charged with, and its parts.
    #[must_use]
    pub fn charged(&self) -> usize {
        self.list.charged() + self.notes.part_bytes.load(Relaxed)
    }

    /// Notes the WAL that holds an entry; the oldest one counts. Called in the sequencing step.
    pub fn note_wal(&self, number: FileNumber) {
        let known = self.notes.wal.load(Relaxed);
        if known == 0 || number.0 < known {
            self.notes.wal.store(number.0, Relaxed);
        }
    }

    /// The oldest WAL that holds an entry.
    #[must_use]
    pub fn wal(&self) -> Option<FileNumber> {
        Some(FileNumber(self.notes.wal.load(Relaxed))).filter(|number| number.0 > 0)
    }

    /// Notes when it was sealed; from here on it waits for its flush.
    pub fn note_sealed(&self, at: Duration) {
        self.charge_to(|gauges| &gauges.sealed);
        self.notes.sealed_at.store(at.as_micros() as u64, Relaxed);
    }

    /// The time at which it was sealed.
    #[must_use]
    pub fn sealed_at(&self) -> Duration {
        Duration::from_micros(self.notes.sealed_at.load(Relaxed))
    }

    /// A cursor over its entries, also those still to come. Parts have cursors of their own.
    #[must_use]
    pub fn cursor(self: &std::sync::Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// The bytes of the arena that are in use, those of the range tombstones and of the parts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.list.bytes() + self.ranges.bytes() + self.notes.part_bytes.load(Relaxed)
    }

    /// The number of entries, including range tombstones and reserved entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.counts.0.entries.load(Relaxed)
    }

    /// Whether it is empty and has no room for anything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.list.capacity() == 0
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The range of all user keys and range tombstones, parts included.
    #[must_use]
    pub fn range(&self) -> Option<KeyRange> {
        let own = self.list.first().zip(self.list.last()).map(|(first, last)| {
            let key = |node| Bytes::copy_from_slice(self.list.key(node));
            KeyRange::closed(key(first), key(last))
        });
        let ranges = self.ranges.with(RangeTombstones::range);
        let attached = self.parts.lock();
        let parts = attached.iter().filter_map(|part| part.range());
        parts.chain(own).chain(ranges).reduce(|all, range| all.union(&range))
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
