//! A sorted run of tables with disjoint ranges, as a persistent structure.
//!
//! A level of 500,000 SSTs changes by a few tables at a time. So the tables are in chunks of at
//! most [`CHUNK_MAX`]; an edit rebuilds the chunks it touches and shares the others.
//!
//! A search compares numbers: each chunk has the first eight bytes of the upper ends of its tables
//! in an array (fences). Only ends with the same eight bytes as the key are compared as keys.
//! Threads and locks: immutable, shared.
//!
//! Invariants (checked by [`Tables::check`]): I1 chunks are not empty; I2 every table's range is
//! not empty and lies before the next one's; I3 no user key is in two tables; I4 `len`, `bytes` and
//! `ranged` are sums. Cost of an edit: O(chunks + tables in the chunks between its first and last
//! key).

use crate::key::prefix;
use crate::range::KeyRange;
use crate::table::Table;
use crate::units::Bytes;
use std::ops::Deref;
use std::sync::Arc;

/// The most tables in one chunk. A chunk that grows past it is split in halves.
pub const CHUNK_MAX: usize = 512;

/// Tables in key order.
#[derive(Debug)]
struct Chunk {
    tables: Vec<Arc<Table>>,
    /// The first eight bytes of each table's upper end as a number.
    fences: Vec<u64>,
}

impl Chunk {
    fn new(tables: Vec<Arc<Table>>) -> Arc<Self> {
        let fences = tables.iter().map(|table| prefix(&table.range.hi)).collect();
        Arc::new(Self { tables, fences })
    }

    /// The number of tables that lie wholly before a key with this prefix.
    #[inline]
    fn ending_before(&self, key: &[u8], wanted: u64) -> usize {
        let before = self.fences.partition_point(|fence| *fence < wanted);
        let same = self.fences[before..].partition_point(|fence| *fence == wanted);
        let same = &self.tables[before..before + same];
        before + same.partition_point(|table| table.range.ends_before(key))
    }

    /// Whether all tables lie wholly before a key with this prefix.
    #[inline]
    fn ends_before(&self, key: &[u8], wanted: u64) -> bool {
        match self.fences.last() {
            Some(fence) if *fence == wanted => {
                self.tables.last().is_none_or(|table| table.range.ends_before(key))
            }
            Some(fence) => *fence < wanted,
            None => true,
        }
    }
}

impl Deref for Chunk {
    type Target = [Arc<Table>];

    fn deref(&self) -> &[Arc<Table>] {
        &self.tables
    }
}

/// Tables with disjoint ranges in key order.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    chunks: Arc<Vec<Arc<Chunk>>>,
    len: usize,
    bytes: Bytes,
    ranged: usize,
}

impl PartialEq for Tables {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Tables {
    /// A run of these tables, sorted by their lower ends.
    #[must_use]
    pub fn new(mut tables: Vec<Arc<Table>>) -> Self {
        tables.sort_by(|a, b| a.range.lo.cmp(&b.range.lo));
        Self::from_chunks(split(tables))
    }

    fn from_chunks(chunks: Vec<Arc<Chunk>>) -> Self {
        let len = chunks.iter().map(|chunk| chunk.len()).sum();
        let (bytes, ranged) = sums(chunks.iter().flat_map(|chunk| chunk.iter()));
        Self { chunks: Arc::new(chunks), len, bytes, ranged }
    }

    /// Number of tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of the tables' visible bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Number of tables whose files have range tombstones.
    #[must_use]
    pub fn ranged(&self) -> usize {
        self.ranged
    }

    /// All tables in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Table>> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The smallest range that covers all tables.
    #[must_use]
    pub fn range(&self) -> Option<KeyRange> {
        let first = self.chunks.first()?.first()?;
        let last = self.chunks.last()?.last()?;
        Some(first.range.union(&last.range))
    }

    /// The table that shows `key`, if any.
    #[must_use]
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let (chunk, at) = self.first_at(key);
        self.chunks.get(chunk)?.get(at).filter(|table| !table.range.starts_after(key))
    }

    /// The tables that do not lie wholly before `key`, in key order.
    pub fn starting_at<'a>(
        &'a self,
        key: &[u8],
    ) -> impl Iterator<Item = &'a Arc<Table>> + Clone + use<'a> {
        let (chunk, skip) = self.first_at(key);
        self.chunks[chunk..].iter().flat_map(|tables| tables.iter()).skip(skip)
    }

    /// The first table that does not lie wholly before `key`: its chunk, and its place there.
    #[inline]
    fn first_at(&self, key: &[u8]) -> (usize, usize) {
        let wanted = prefix(key);
        let chunk = self.chunks.partition_point(|chunk| chunk.ends_before(key, wanted));
        let at = self.chunks.get(chunk).map_or(0, |tables| tables.ending_before(key, wanted));
        (chunk, at)
    }

    /// The tables that do not lie wholly after `key`, last first.
    pub fn ending_at<'a>(
        &'a self,
        key: &[u8],
    ) -> impl Iterator<Item = &'a Arc<Table>> + Clone + use<'a> {
        let end = self.chunks.partition_point(|chunk| !chunk[0].range.starts_after(key));
        let (skip, chunks) = match end.checked_sub(1) {
            Some(last) => {
                let tables = &self.chunks[last];
                let keep = tables.partition_point(|table| !table.range.starts_after(key));
                (tables.len() - keep, &self.chunks[..end])
            }
            None => (0, &self.chunks[..0]),
        };
        chunks.iter().rev().flat_map(|tables| tables.iter().rev()).skip(skip)
    }

    /// The tables that share a key with `range`, in key order.
    pub fn overlapping<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = &'a Arc<Table>> + Clone {
        self.starting_at(&range.lo).take_while(move |table| !range.is_before(&table.range))
    }

    /// Sum of the visible bytes of the tables that share a key with `range`.
    #[must_use]
    pub fn overlapping_bytes(&self, range: &KeyRange) -> Bytes {
        self.overlapping(range).map(|table| table.bytes).sum()
    }

    /// A run without the tables for which `gone` is true, and with `added`. `gone` is called only
    /// for tables within `range`, which must cover all removed and added tables.
    #[must_use]
    pub fn replace(
        &self,
        range: &KeyRange,
        gone: impl Fn(&Table) -> bool,
        added: &[Arc<Table>],
    ) -> Self {
        let (first, _) = self.first_at(&range.lo);
        let end = self.chunks[first..]
            .iter()
            .take_while(|chunk| !range.is_before(&chunk[0].range))
            .count()
            + first;
        // If no chunk is rebuilt, the added tables may fit into a neighbour.
        let first = if first == end { first.saturating_sub(1) } else { first };
        let old = self.chunks[first..end].iter().flat_map(|chunk| chunk.iter());
        let before = sums(old.clone());
        let count = old.clone().count();
        let mut tables: Vec<_> = old
            .filter(|table| !(range.overlaps(&table.range) && gone(table)))
            .chain(added)
            .cloned()
            .collect();
        tables.sort_by(|a, b| a.range.lo.cmp(&b.range.lo));
        let after = sums(tables.iter());
        let len = self.len - count + tables.len();
        let mut chunks = Vec::with_capacity(self.chunks.len() + 2);
        chunks.extend_from_slice(&self.chunks[..first]);
        chunks.extend(split(tables));
        chunks.extend_from_slice(&self.chunks[end..]);
        let bytes = self.bytes - before.0 + after.0;
        let ranged = self.ranged - before.1 + after.1;
        Self { chunks: Arc::new(chunks), len, bytes, ranged }
    }

    /// The run with some tables replaced: `change` is called for each table and may return a
    /// replacement with the same range and bytes. Unchanged chunks are shared.
    #[must_use]
    pub fn map(&self, mut change: impl FnMut(&Arc<Table>) -> Option<Arc<Table>>) -> Self {
        let mut map_chunk = |chunk: &Arc<Chunk>| {
            let changed: Vec<_> = chunk.iter().map(&mut change).collect();
            if changed.iter().all(Option::is_none) {
                return chunk.clone();
            }
            let pairs = changed.into_iter().zip(chunk.iter());
            Chunk::new(pairs.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect())
        };
        let chunks = self.chunks.iter().map(&mut map_chunk).collect();
        Self { chunks: Arc::new(chunks), ..*self }
    }

    /// Checks the invariants within `range`, or all of them.
    ///
    /// # Errors
    /// A sentence with the violated invariant and the files.
    pub fn check(&self, within: Option<&KeyRange>) -> Result<(), String> {
        let mut previous: Option<&Table> = None;
        let everything = within.is_none();
        let tables: Box<dyn Iterator<Item = &Arc<Table>>> = match within {
            Some(range) => Box::new(self.overlapping(range)),
            None => Box::new(self.iter()),
        };
        let (mut len, mut bytes, mut ranged) = (0, Bytes::ZERO, 0);
        for table in tables {
            if table.range.is_empty() {
                return Err(format!("I2: file {} has an empty range", table.file.number));
            }
            if let Some(previous) = previous
                && !previous.range.is_before(&table.range)
            {
                return Err(format!(
                    "I3: files {} and {} of one run overlap",
                    previous.file.number, table.file.number
                ));
            }
            previous = Some(table);
            len += 1;
            bytes += table.bytes;
            ranged += usize::from(table.file.range_tombstones > 0);
        }
        if everything && (len, bytes, ranged) != (self.len, self.bytes, self.ranged) {
            return Err(format!("I4: {len} tables of {bytes}, but {} of {}", self.len, self.bytes));
        }
        if self.chunks.iter().any(|chunk| chunk.is_empty()) {
            return Err("I1: an empty chunk".into());
        }
        Ok(())
    }
}

/// Sum of the visible bytes, and number of tables whose files have range tombstones.
fn sums<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> (Bytes, usize) {
    tables.fold((Bytes::ZERO, 0), |(bytes, ranged), table| {
        (bytes + table.bytes, ranged + usize::from(table.file.range_tombstones > 0))
    })
}

/// Cuts tables into chunks of about equal length, each at most [`CHUNK_MAX`].
fn split(tables: Vec<Arc<Table>>) -> Vec<Arc<Chunk>> {
    if tables.is_empty() {
        return Vec::new();
    }
    if tables.len() <= CHUNK_MAX {
        return vec![Chunk::new(tables)];
    }
    let pieces = tables.len().div_ceil(CHUNK_MAX * 3 / 4);
    let size = tables.len().div_ceil(pieces);
    tables.chunks(size).map(|piece| Chunk::new(piece.to_vec())).collect()
}

#[cfg(test)]
mod tests;
