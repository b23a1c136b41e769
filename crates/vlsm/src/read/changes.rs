//! The reads of a transaction, and the check whether another write has changed them since.
//!
//! A read is a key, or the part of a range that an iterator has walked over. It has changed if
//! there is an entry or a range tombstone for it with a larger sequence number than the
//! transaction's snapshot. Only sources that may have such an entry are searched: memtables, and
//! tables whose largest sequence number is larger. Jobs keep the newest version of a key with its
//! sequence number, and the snapshot keeps the versions below it, so compactions hide no change.
//!
//! [`Reads`] are recorded one by one. A commit sorts them once into a [`ReadIndex`], in which a
//! binary search finds a key or a range.
//!
//! Two kinds of changes have no entry of their own and are not detected: a value that expires, and
//! a value that a compaction filter changes.
//!
//! Threads and locks: [`Reads`] belong to one transaction, whose iterators share them behind a
//! lock.

use crate::memtable::Memtable;
use crate::read::Reader;
use crate::read::level_cursor::LevelCursor;
use crate::read::view::{Source, TreeView};
use bytes::Bytes;
use std::ops::Bound;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{
    ConflictKind, Cursor, Error, RangeTombstones, Result, Seq, Table, Tables, Trailer, TreeId,
};
use vlsm_disk::sst::ReadStats;
use vlsm_disk::sst::filter::hash;

/// The most bytes of keys that a transaction may have read.
pub(crate) const READS_MAX: usize = 256 << 20;
/// The approximate memory of a read besides its keys.
const READ_BYTES: usize = 96;
/// The least number of keys that are added before repeats are looked for.
const REPEATS_MIN: usize = 64;

/// A range that an iterator of a transaction walks over.
#[derive(Debug, Clone)]
pub(crate) struct RangeRead {
    /// The trees of the regions that the range touches.
    pub trees: Vec<TreeId>,
    pub lo: Bound<Bytes>,
    pub hi: Bound<Bytes>,
    /// The last keys that were read from the front and from the back; none if that end was not
    /// used.
    pub front: Option<Bytes>,
    pub back: Option<Bytes>,
    /// Whether the whole range was read.
    pub all: bool,
}

/// A part of a range: its two ends.
pub(crate) type Part = (Bound<Bytes>, Bound<Bytes>);

impl RangeRead {
    /// The parts that were read, at most one from each end.
    fn parts(&self) -> impl Iterator<Item = Part> {
        let all = self.all.then(|| (self.lo.clone(), self.hi.clone()));
        let front = self.front.clone().filter(|_| !self.all);
        let back = self.back.clone().filter(|_| !self.all);
        let front = front.map(|key| (self.lo.clone(), Bound::Included(key)));
        let back = back.map(|key| (Bound::Included(key), self.hi.clone()));
        all.into_iter().chain(front).chain(back)
    }
}

/// All reads of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// In no order. Some may be there more than once.
    keys: Vec<(TreeId, Bytes)>,
    key_bytes: usize,
    /// The number of keys without repeats, when these were last removed.
    distinct: usize,
    ranges: Vec<RangeRead>,
    range_bytes: usize,
}

impl Reads {
    /// Adds a key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the transaction has read too much.
    pub fn add_key(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        self.keys.push((tree, Bytes::copy_from_slice(key)));
        self.key_bytes += key.len() + READ_BYTES;
        if self.keys.len() >= REPEATS_MIN.max(2 * self.distinct) {
            self.remove_repeats();
        }
        self.check()
    }

    /// Sorts the keys, and keeps each of them once.
    fn remove_repeats(&mut self) {
        self.keys.sort_unstable();
        self.keys.dedup();
        self.key_bytes = self.keys.iter().map(|(_, key)| key.len() + READ_BYTES).sum();
        self.distinct = self.keys.len();
    }

    /// Adds a range of which nothing is read yet. Returns its index.
    ///
    /// # Errors
    /// As [`Reads::add_key`].
    pub fn add_range(&mut self, range: RangeRead) -> Result<usize> {
        let len = |bound: &Bound<Bytes>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        let ends = len(&range.lo) + len(&range.hi);
        self.range_bytes += 2 * ends + size_of_val(&range.trees[..]) + 4 * READ_BYTES;
        self.check()?;
        self.ranges.push(range);
        Ok(self.ranges.len() - 1)
    }

    /// Records the progress of the iterator over a range: a key from the front or from the back, or
    /// its end. After the end of the transaction this does nothing.
    pub fn walked(&mut self, place: usize, front: bool, key: Option<&Bytes>) {
        let Some(range) = self.ranges.get_mut(place) else { return };
        let Some(key) = key else {
            range.all = true;
            return;
        };
        let end = if front { &mut range.front } else { &mut range.back };
        let before = end.replace(key.clone()).map_or(0, |key| key.len());
        // If this exceeds the bound, the next read is refused.
        self.range_bytes += key.len().saturating_sub(before);
    }

    /// The same reads, sorted for the check of a commit.
    pub fn index(mut self) -> ReadIndex {
        self.remove_repeats();
        let mut index = ReadIndex::default();
        for (tree, key) in self.keys {
            index.of_mut(tree).keys.push(key);
        }
        let ranges = self.ranges.iter().filter(|_| !planted::is(Bug::RangeUnchecked));
        for (range, part) in ranges.flat_map(|range| range.parts().map(move |part| (range, part))) {
            for tree in &range.trees {
                index.of_mut(*tree).parts.push(part.clone());
            }
        }
        for (_, of) in &mut index.0 {
            of.parts = merged(std::mem::take(&mut of.parts));
        }
        index
    }

    /// Refuses too many reads. Repeats do not count, as far as they are many.
    fn check(&mut self) -> Result<()> {
        let is_over = self.key_bytes + self.range_bytes > READS_MAX;
        if is_over && self.keys.len() >= self.distinct + REPEATS_MIN {
            self.remove_repeats();
        }
        if self.key_bytes + self.range_bytes <= READS_MAX {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "the transaction has read more than {} MB of keys and ranges, which its commit has to \
             check: make it smaller",
            READS_MAX >> 20
        )))
    }
}

/// The reads of one tree.
#[derive(Debug, Default)]
struct TreeReads {
    /// Sorted.
    keys: Vec<Bytes>,
    /// Sorted, and disjoint.
    parts: Vec<Part>,
}

/// The reads of a transaction by tree, sorted.
#[derive(Debug, Default)]
pub(crate) struct ReadIndex(Vec<(TreeId, TreeReads)>);

impl ReadIndex {
    fn place(&self, tree: TreeId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&tree, |(tree, _)| *tree)
    }

    fn of(&self, tree: TreeId) -> Option<&TreeReads> {
        self.place(tree).ok().map(|at| &self.0[at].1)
    }

    /// The reads of a tree, which are added if there are none.
    fn of_mut(&mut self, tree: TreeId) -> &mut TreeReads {
        let at = self.place(tree).unwrap_or_else(|at| {
            self.0.insert(at, (tree, TreeReads::default()));
            at
        });
        &mut self.0[at].1
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first tree that was read.
    pub fn first_tree(&self) -> TreeId {
        self.0.first().map(|(tree, _)| *tree).unwrap_or_default()
    }

    /// The kind of read that a write of this key changes.
    pub fn of_key(&self, tree: TreeId, key: &[u8]) -> Option<ConflictKind> {
        let reads = self.of(tree)?;
        if reads.keys.binary_search_by(|read| read[..].cmp(key)).is_ok() {
            return Some(ConflictKind::Key);
        }
        let begun = reads.parts.partition_point(|part| !before(key, &part.0));
        let part = reads.parts[..begun].last()?;
        (!behind(key, &part.1)).then_some(ConflictKind::Range)
    }

    /// The kind of read that a delete of `[lo, hi)` changes.
    pub fn of_range(&self, tree: TreeId, lo: &[u8], hi: &[u8]) -> Option<ConflictKind> {
        let reads = self.of(tree)?;
        let first = reads.keys.partition_point(|read| &read[..] < lo);
        if reads.keys.get(first).is_some_and(|read| &read[..] < hi) {
            return Some(ConflictKind::Key);
        }
        let begun = reads.parts.partition_point(|part| match &part.0 {
            Bound::Included(from) | Bound::Excluded(from) => &from[..] < hi,
            Bound::Unbounded => true,
        });
        let part = reads.parts[..begun].last()?;
        (!behind(lo, &part.1)).then_some(ConflictKind::Range)
    }

    /// The kind of read that an entry or a range tombstone of a memtable changes.
    pub fn of_memtable(&self, tree: TreeId, memtable: &Arc<Memtable>) -> Option<ConflictKind> {
        let reads = self.of(tree)?;
        let deleted = memtable.any_range(|lo, hi, _| self.of_range(tree, lo, hi).is_some());
        if deleted {
            return Some(ConflictKind::Key);
        }
        // The smaller of the two is walked, because writers wait meanwhile.
        if memtable.entries() < reads.keys.len() {
            let mut cursor = memtable.cursor();
            cursor.seek_first().ok()?;
            while cursor.valid() {
                if let Some(kind) = self.of_key(tree, cursor.key()) {
                    return Some(kind);
                }
                cursor.next().ok()?;
            }
            return None;
        }
        if reads.keys.iter().any(|key| memtable.get(key, Seq::MAX).is_some()) {
            return Some(ConflictKind::Key);
        }
        let written = |part: &&Part| {
            let mut cursor = memtable.cursor();
            // A memtable's cursor does not fail.
            has_entry(&mut cursor, part, Seq::ZERO, Seq::MAX).unwrap_or(true)
        };
        reads.parts.iter().find(written).map(|_| ConflictKind::Range)
    }

    /// Whether a tree was read.
    pub fn has_tree(&self, tree: TreeId) -> bool {
        self.place(tree).is_ok()
    }
}

/// Sorted, disjoint parts that cover the same keys.
fn merged(mut parts: Vec<Part>) -> Vec<Part> {
    let low = |part: &Part| match &part.0 {
        Bound::Unbounded => (Bytes::new(), false),
        Bound::Included(key) => (key.clone(), false),
        Bound::Excluded(key) => (key.clone(), true),
    };
    parts.sort_by_cached_key(low);
    let mut all: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        let last = all.last_mut().filter(|last| match &part.0 {
            Bound::Included(lo) | Bound::Excluded(lo) => !behind(lo, &last.1),
            Bound::Unbounded => true,
        });
        match last {
            Some(last) => last.1 = later(std::mem::replace(&mut last.1, Bound::Unbounded), part.1),
            None => all.push(part),
        }
    }
    all
}

/// The later of two upper ends.
fn later(a: Bound<Bytes>, b: Bound<Bytes>) -> Bound<Bytes> {
    match (&a, &b) {
        (Bound::Unbounded, _) => a,
        (_, Bound::Unbounded) => b,
        (Bound::Included(one), other) => {
            if behind(one, other) {
                a
            } else {
                b
            }
        }
        (Bound::Excluded(one), Bound::Included(two) | Bound::Excluded(two)) => {
            if one > two {
                a
            } else {
                b
            }
        }
    }
}

fn before(key: &[u8], lo: &Bound<Bytes>) -> bool {
    match lo {
        Bound::Included(lo) => key < &lo[..],
        Bound::Excluded(lo) => key <= &lo[..],
        Bound::Unbounded => false,
    }
}

fn behind(key: &[u8], hi: &Bound<Bytes>) -> bool {
    match hi {
        Bound::Included(hi) => key > &hi[..],
        Bound::Excluded(hi) => key >= &hi[..],
        Bound::Unbounded => false,
    }
}

/// Whether `[lo, hi)` shares a key with a part.
fn overlaps(part: &Part, lo: &[u8], hi: &[u8]) -> bool {
    let ends_before = match &part.0 {
        Bound::Included(from) | Bound::Excluded(from) => hi <= &from[..],
        Bound::Unbounded => false,
    };
    !ends_before && !behind(lo, &part.1)
}

/// A read that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub tree: TreeId,
    pub kind: ConflictKind,
}

impl Reader {
    /// The first of these reads that a visible write after `since` has changed, if any.
    ///
    /// # Errors
    /// Any error of reading an SST.
    pub fn changed(&self, reads: &ReadIndex, since: Seq) -> Result<Option<Change>> {
        let pinned = self.pin();
        let at = pinned.at.seq;
        if at <= since {
            return Ok(None);
        }
        for (id, of) in &reads.0 {
            let id = *id;
            let Some(tree) = pinned.view.find(id) else {
                // The keyspace was cleared or dropped.
                return Ok(Some(Change { tree: id, kind: ConflictKind::Keyspace }));
            };
            for key in &of.keys {
                if self.key_changed(tree, key, since, at)? {
                    return Ok(Some(Change { tree: id, kind: ConflictKind::Key }));
                }
            }
            for part in &of.parts {
                if self.part_changed(tree, part, since, at)? {
                    return Ok(Some(Change { tree: id, kind: ConflictKind::Range }));
                }
            }
        }
        Ok(None)
    }

    fn key_changed(&self, tree: &TreeView, key: &[u8], since: Seq, at: Seq) -> Result<bool> {
        let hash = hash(key);
        for source in tree.sources() {
            let newest = match source {
                Source::Memtable(memtable) if newer(memtable.seqs(), since) => {
                    let found = memtable.newest(key, hash, at);
                    let cover = match memtable.has_ranges() {
                        true => memtable.cover(key, at),
                        false => Seq::ZERO,
                    };
                    found.map_or(Seq::ZERO, |(trailer, _)| trailer.seq()).max(cover)
                }
                Source::Run(tables) => {
                    match tables.find(key).filter(|table| is_newer(table, since)) {
                        Some(table) => {
                            let mut stats = ReadStats::default();
                            let (found, cover) = self.search(table, at, key, hash, &mut stats)?;
                            self.count_filter(&stats);
                            found.map_or(Seq::ZERO, |(trailer, _)| trailer.seq()).max(cover)
                        }
                        None => continue,
                    }
                }
                Source::Memtable(_) => continue,
            };
            if newest > Seq::ZERO {
                // Older sources have no newer entries of this key.
                return Ok(newest > since);
            }
        }
        Ok(false)
    }

    fn part_changed(&self, tree: &TreeView, part: &Part, since: Seq, at: Seq) -> Result<bool> {
        let is_between = |seq: Seq| seq > since && seq <= at;
        for source in tree.sources() {
            match source {
                Source::Memtable(memtable) if newer(memtable.seqs(), since) => {
                    for memtable in memtable.parts() {
                        let deleted = memtable
                            .any_range(|lo, hi, seq| is_between(seq) && overlaps(part, lo, hi));
                        if deleted || has_entry(&mut memtable.cursor(), part, since, at)? {
                            return Ok(true);
                        }
                    }
                }
                Source::Memtable(_) => {}
                Source::Run(tables) => {
                    let newer: Vec<Arc<Table>> =
                        within(tables, part).filter(|t| is_newer(t, since)).cloned().collect();
                    for table in newer.iter().filter(|table| table.file.range_tombstones > 0) {
                        let reader = self.tables.reader(table)?;
                        if deletes(reader.range_tombstones(), part, is_between) {
                            return Ok(true);
                        }
                    }
                    let mut cursor = LevelCursor::new(self.tables.clone(), Tables::new(newer));
                    if has_entry(&mut cursor, part, since, at)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

/// The tables of a run that may show keys of a part.
fn within<'a>(tables: &'a Tables, part: &'a Part) -> impl Iterator<Item = &'a Arc<Table>> {
    let lo = match &part.0 {
        Bound::Included(lo) | Bound::Excluded(lo) => &lo[..],
        Bound::Unbounded => &[],
    };
    tables.starting_at(lo).take_while(|table| !behind(&table.range.lo, &part.1))
}

fn newer(seqs: Option<(Seq, Seq)>, since: Seq) -> bool {
    seqs.is_some_and(|(_, largest)| largest > since)
}

fn is_newer(table: &Table, since: Seq) -> bool {
    table.file.seq_max > since
}

/// Whether there is an entry of a part with a sequence number above `since` and up to `at`.
fn has_entry(cursor: &mut dyn Cursor, part: &Part, since: Seq, at: Seq) -> Result<bool> {
    match &part.0 {
        Bound::Included(lo) | Bound::Excluded(lo) => cursor.seek(lo, Trailer::FIRST)?,
        Bound::Unbounded => cursor.seek_first()?,
    }
    while cursor.valid() && !behind(cursor.key(), &part.1) {
        let seq = cursor.trailer().seq();
        if seq > since && seq <= at && !before(cursor.key(), &part.0) {
            return Ok(true);
        }
        cursor.next()?;
    }
    Ok(false)
}

/// Whether one of these range tombstones deletes keys of a part.
fn deletes(tombstones: &RangeTombstones, part: &Part, counts: impl Fn(Seq) -> bool) -> bool {
    tombstones.iter().any(|(lo, fragment)| {
        overlaps(part, lo, &fragment.hi) && fragment.seqs.iter().any(|seq| counts(*seq))
    })
}

#[cfg(test)]
mod tests;
