//! What a transaction has read, and whether another write has changed it since.
//!
//! A read is a key, or the part of a range that an iterator has walked over. It has changed if
//! there is an entry or a range tombstone for it with a larger sequence number than the
//! transaction's snapshot. Only sources that may have such an entry are searched: memtables, and
//! tables whose largest sequence number is larger. Jobs keep the newest version of a key with its
//! sequence number, and the snapshot keeps the versions below it, so compactions hide no change.
//!
//! Two kinds of changes have no entry of their own and are not seen: a value that expires, and a
//! value that a compaction filter changes.
//!
//! Threads and locks: [`Reads`] belong to one transaction, whose iterators share it behind a lock.

use crate::read::Reader;
use crate::read::level_cursor::LevelCursor;
use crate::read::view::{Source, TreeView};
use bytes::Bytes;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{
    ConflictKind, Cursor, Error, RangeTombstones, Result, Seq, Table, Tables, Trailer, TreeId,
};

/// The most bytes of keys that a transaction may have read.
pub(crate) const READS_MAX: usize = 256 << 20;
/// The memory that a read takes besides its key, about.
const READ_BYTES: usize = 64;

/// A range that an iterator of a transaction walks over.
#[derive(Debug, Clone)]
pub(crate) struct RangeRead {
    pub trees: Vec<TreeId>,
    pub lo: Bound<Bytes>,
    pub hi: Bound<Bytes>,
    /// The last key from the front and from the back; none if that end was not used.
    pub front: Option<Bytes>,
    pub back: Option<Bytes>,
    /// Whether the whole range was read.
    pub all: bool,
}

/// A part of a range: its two ends.
pub(crate) type Part<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl RangeRead {
    /// The parts that were read, at most one from each end.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let lo = self.lo.as_ref().map(|key| &key[..]);
        let hi = self.hi.as_ref().map(|key| &key[..]);
        let all = self.all.then_some((lo, hi));
        let front = self.front.as_deref().filter(|_| !self.all);
        let back = self.back.as_deref().filter(|_| !self.all);
        let front = front.map(|key| (lo, Bound::Included(key)));
        let back = back.map(|key| (Bound::Included(key), hi));
        all.into_iter().chain(front).chain(back)
    }
}

/// Everything that a transaction has read.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    keys: BTreeMap<TreeId, HashSet<Bytes>>,
    ranges: Vec<RangeRead>,
    bytes: usize,
}

/// A read that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub tree: TreeId,
    pub kind: ConflictKind,
}

impl Reads {
    /// Adds a key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the transaction has read too much.
    pub fn add_key(&mut self, tree: TreeId, key: &[u8]) -> Result<()> {
        let keys = self.keys.entry(tree).or_default();
        if keys.contains(key) {
            return Ok(());
        }
        keys.insert(Bytes::copy_from_slice(key));
        self.charge(key.len() + READ_BYTES)
    }

    /// Adds a range of which nothing is read yet. Returns its place.
    ///
    /// # Errors
    /// As [`Reads::add_key`].
    pub fn add_range(&mut self, range: RangeRead) -> Result<usize> {
        self.charge(4 * READ_BYTES)?;
        self.ranges.push(range);
        Ok(self.ranges.len() - 1)
    }

    /// The range at a place; none once the transaction has ended.
    pub fn range(&mut self, place: usize) -> Option<&mut RangeRead> {
        self.ranges.get_mut(place)
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = (TreeId, &[u8])> {
        self.keys.iter().flat_map(|(tree, keys)| keys.iter().map(|key| (*tree, &key[..])))
    }

    /// Whether this key was read by itself.
    pub fn has_key(&self, tree: TreeId, key: &[u8]) -> bool {
        self.keys.get(&tree).is_some_and(|keys| keys.contains(key))
    }

    /// The parts of ranges that were read, with the trees of each.
    pub fn ranges(&self) -> impl Iterator<Item = (&[TreeId], Part<'_>)> {
        let ranges = self.ranges.iter().filter(|_| !planted::is(Bug::RangeUnchecked));
        ranges.flat_map(|range| range.parts().map(|part| (&range.trees[..], part)))
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes <= READS_MAX {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "the transaction has read more than {} MB of keys, which its commit has to check: \
             read ranges instead of single keys, or make it smaller",
            READS_MAX >> 20
        )))
    }
}

/// Whether a key lies in a part of a range.
pub(crate) fn contains(part: Part<'_>, key: &[u8]) -> bool {
    !before(key, part.0) && !behind(key, part.1)
}

/// Whether `[lo, hi)` shares a key with a part of a range.
pub(crate) fn overlaps(part: Part<'_>, lo: &[u8], hi: &[u8]) -> bool {
    let ends_before = match part.0 {
        Bound::Included(from) | Bound::Excluded(from) => hi <= from,
        Bound::Unbounded => false,
    };
    !ends_before && !behind(lo, part.1)
}

fn before(key: &[u8], lo: Bound<&[u8]>) -> bool {
    match lo {
        Bound::Included(lo) => key < lo,
        Bound::Excluded(lo) => key <= lo,
        Bound::Unbounded => false,
    }
}

fn behind(key: &[u8], hi: Bound<&[u8]>) -> bool {
    match hi {
        Bound::Included(hi) => key > hi,
        Bound::Excluded(hi) => key >= hi,
        Bound::Unbounded => false,
    }
}

impl Reader {
    /// The first of these reads that a visible write after `since` has changed.
    ///
    /// # Errors
    /// Any error of reading an SST.
    pub fn changed(&self, reads: &Reads, since: Seq) -> Result<Option<Change>> {
        let pinned = self.pin();
        let at = pinned.at.seq;
        if at <= since {
            return Ok(None);
        }
        for (tree, key) in reads.keys() {
            if self.key_changed(pinned.view.tree(tree), key, since, at)? {
                return Ok(Some(Change { tree, kind: ConflictKind::Key }));
            }
        }
        for (trees, part) in reads.ranges() {
            for tree in trees {
                if self.range_changed(pinned.view.tree(*tree), part, since, at)? {
                    return Ok(Some(Change { tree: *tree, kind: ConflictKind::Range }));
                }
            }
        }
        Ok(None)
    }

    fn key_changed(&self, tree: &TreeView, key: &[u8], since: Seq, at: Seq) -> Result<bool> {
        for source in tree.sources() {
            let (found, cover) = match source {
                Source::Memtable(memtable) if newer(memtable.seqs(), since) => {
                    self.newest_in(memtable, at, key).unwrap_or_default()
                }
                Source::Run(tables) => {
                    match tables.find(key).filter(|table| is_newer(table, since)) {
                        Some(table) => self.search(table, at, key)?,
                        None => continue,
                    }
                }
                Source::Memtable(_) => continue,
            };
            let newest = found.map_or(Seq::ZERO, |(trailer, _)| trailer.seq()).max(cover);
            if newest > Seq::ZERO {
                // Older sources have nothing newer of this key.
                return Ok(newest > since);
            }
        }
        Ok(false)
    }

    fn range_changed(&self, tree: &TreeView, part: Part<'_>, since: Seq, at: Seq) -> Result<bool> {
        for source in tree.sources() {
            match source {
                Source::Memtable(memtable) if newer(memtable.seqs(), since) => {
                    for memtable in memtable.parts() {
                        let mut tombstones = RangeTombstones::default();
                        memtable.add_ranges_to(&mut tombstones);
                        let mut cursor = memtable.cursor();
                        if deletes(&tombstones, part, since, at)
                            || has_entry(&mut cursor, part, since, at)?
                        {
                            return Ok(true);
                        }
                    }
                }
                Source::Memtable(_) => {}
                Source::Run(tables) => {
                    let newer: Vec<Arc<Table>> =
                        tables.iter().filter(|table| is_newer(table, since)).cloned().collect();
                    for table in newer.iter().filter(|table| table.file.range_tombstones > 0) {
                        let reader = self.tables.reader(table)?;
                        if deletes(reader.range_tombstones(), part, since, at) {
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

fn newer(seqs: Option<(Seq, Seq)>, since: Seq) -> bool {
    seqs.is_some_and(|(_, largest)| largest > since)
}

fn is_newer(table: &Table, since: Seq) -> bool {
    table.file.seq_max > since
}

/// Whether there is an entry of a part with a sequence number above `since` and up to `at`.
fn has_entry(cursor: &mut dyn Cursor, part: Part<'_>, since: Seq, at: Seq) -> Result<bool> {
    match part.0 {
        Bound::Included(lo) | Bound::Excluded(lo) => cursor.seek(lo, Trailer::FIRST)?,
        Bound::Unbounded => cursor.seek_first()?,
    }
    while cursor.valid() && !behind(cursor.key(), part.1) {
        let seq = cursor.trailer().seq();
        if seq > since && seq <= at && contains(part, cursor.key()) {
            return Ok(true);
        }
        cursor.next()?;
    }
    Ok(false)
}

/// Whether one of these range tombstones deletes keys of a part, likewise.
fn deletes(tombstones: &RangeTombstones, part: Part<'_>, since: Seq, at: Seq) -> bool {
    tombstones.iter().any(|(lo, fragment)| {
        overlaps(part, lo, &fragment.hi)
            && fragment.seqs.iter().any(|seq| *seq > since && *seq <= at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'a>(lo: &'a str, hi: &'a str) -> Part<'a> {
        let bound = |text: &'a str| match text.split_at_checked(1) {
            Some(("=", key)) => Bound::Included(key.as_bytes()),
            Some(("<", key)) => Bound::Excluded(key.as_bytes()),
            _ => Bound::Unbounded,
        };
        (bound(lo), bound(hi))
    }

    #[test]
    fn the_ends_of_a_part_decide() {
        // The part, a key, whether it lies in it.
        for (lo, hi, key, inside) in [
            ("", "", "b", true),
            ("=b", "=d", "b", true),
            ("<b", "=d", "b", false),
            ("<b", "=d", "d", true),
            ("<b", "<d", "d", false),
            ("=b", "=d", "da", false),
            ("=b", "", "z", true),
            ("", "<b", "az", true),
        ] {
            assert_eq!(contains(part(lo, hi), key.as_bytes()), inside, "{lo} {hi} {key}");
        }
        // The part, a deleted range without its upper end, whether they share a key.
        for (lo, hi, from, to, shared) in [
            ("=b", "=d", "a", "b", false),
            ("=b", "=d", "a", "ba", true),
            ("=b", "=d", "d", "e", true),
            ("=b", "<d", "d", "e", false),
            ("", "", "d", "e", true),
        ] {
            let found = overlaps(part(lo, hi), from.as_bytes(), to.as_bytes());
            assert_eq!(found, shared, "{lo} {hi} {from} {to}");
        }
    }

    #[test]
    fn what_was_walked_over_is_read() {
        let key = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let mut range = RangeRead {
            trees: vec![TreeId(1)],
            lo: Bound::Unbounded,
            hi: Bound::Excluded(Bytes::from_static(b"m")),
            front: None,
            back: None,
            all: false,
        };
        let read =
            |range: &RangeRead, key: &str| range.parts().any(|part| contains(part, key.as_bytes()));
        assert!(!read(&range, "a"));
        range.front = key("c");
        assert!(read(&range, "a") && read(&range, "c") && !read(&range, "ca"));
        range.back = key("k");
        assert!(read(&range, "l") && !read(&range, "m") && !read(&range, "e"));
        range.all = true;
        assert!(read(&range, "e") && !read(&range, "m"));
    }
}
