//! A sorted run of tables with disjoint ranges, as a persistent structure.
//!
//! A level of 500,000 SSTs changes by a few tables at a time. So the tables are in chunks of at
//! most [`CHUNK_MAX`]; an edit rebuilds the chunks it touches and shares the others.
//!
//! Invariants (checked by [`Tables::check`]): I1 chunks are not empty; I2 every table's range is
//! not empty and lies before the next one's; I3 no user key is in two tables; I4 `len`, `bytes` and
//! `ranged` are sums. Cost of an edit: O(chunks + tables in the chunks between its first and last
//! key).

use crate::range::KeyRange;
use crate::table::Table;
use crate::units::Bytes;
use std::sync::Arc;

/// The most tables in one chunk. A chunk that grows past it is split in halves.
pub const CHUNK_MAX: usize = 512;

type Chunk = Arc<Vec<Arc<Table>>>;

/// Tables with disjoint ranges in key order.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    chunks: Arc<Vec<Chunk>>,
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

    fn from_chunks(chunks: Vec<Chunk>) -> Self {
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
    pub fn find(&self, key: &[u8]) -> Option<&Arc<Table>> {
        self.starting_at(key).next().filter(|table| !table.range.starts_after(key))
    }

    /// The tables that do not lie wholly before `key`, in key order.
    pub fn starting_at<'a>(
        &'a self,
        key: &[u8],
    ) -> impl Iterator<Item = &'a Arc<Table>> + Clone + use<'a> {
        let chunk = self.chunk_of(key);
        let skip = self
            .chunks
            .get(chunk)
            .map_or(0, |tables| tables.partition_point(|table| table.range.ends_before(key)));
        self.chunks[chunk..].iter().flat_map(|tables| tables.iter()).skip(skip)
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

    /// The index of the first chunk that does not lie wholly before `key`.
    fn chunk_of(&self, key: &[u8]) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.last().is_none_or(|table| table.range.ends_before(key)))
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
        let first = self.chunk_of(&range.lo);
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
        let mut map_chunk = |chunk: &Chunk| {
            let changed: Vec<_> = chunk.iter().map(&mut change).collect();
            if changed.iter().all(Option::is_none) {
                return chunk.clone();
            }
            let pairs = changed.into_iter().zip(chunk.iter());
            Arc::new(pairs.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect())
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
fn split(tables: Vec<Arc<Table>>) -> Vec<Chunk> {
    if tables.is_empty() {
        return Vec::new();
    }
    if tables.len() <= CHUNK_MAX {
        return vec![Arc::new(tables)];
    }
    let pieces = tables.len().div_ceil(CHUNK_MAX * 3 / 4);
    let size = tables.len().div_ceil(pieces);
    tables.chunks(size).map(|piece| Arc::new(piece.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FileMeta;

    fn table(n: u32) -> Arc<Table> {
        let key = |n: u32| bytes::Bytes::from(format!("{n:08}"));
        Arc::new(Table::whole(Arc::new(FileMeta {
            number: crate::FileNumber(n.into()),
            bytes: Bytes(100),
            smallest: key(n * 10),
            largest: key(n * 10 + 5),
            ..FileMeta::default()
        })))
    }

    #[test]
    fn finds_and_walks_across_chunks() {
        let run = Tables::new((0..5000).rev().map(table).collect());
        run.check(None).expect("sound");
        assert_eq!(run.find(b"00041233").map(|t| t.file.number.0), Some(4123));
        assert_eq!(run.find(b"00041237"), None);
        let numbers =
            |n| run.ending_at(b"00000037").map(|t| t.file.number.0).take(n).collect::<Vec<_>>();
        assert_eq!(numbers(9), [3, 2, 1, 0]);
        assert_eq!(run.ending_at(b"").count(), 0);
        assert_eq!(run.starting_at(b"99999999").count(), 0);
        let range = KeyRange::closed("00010006", "00010030");
        assert_eq!(
            run.overlapping(&range).map(|t| t.file.number.0).collect::<Vec<_>>(),
            [1001, 1002, 1003]
        );
        assert_eq!(run.overlapping_bytes(&range), Bytes(300));
    }

    #[test]
    fn an_edit_shares_the_chunks_it_does_not_touch() {
        let run = Tables::new((0..5000).map(table).collect());
        let edited = run.replace(&table(2500).range, |t| t.file.number.0 == 2500, &[]);
        assert_eq!((edited.len(), edited.bytes()), (4999, Bytes(499_900)));
        edited.check(None).expect("sound");
        let shared =
            edited.chunks.iter().filter(|c| run.chunks.iter().any(|d| Arc::ptr_eq(c, d))).count();
        assert_eq!(shared, run.chunks.len() - 1);
        let back = edited.replace(&table(2500).range, |_| false, &[table(2500)]);
        assert_eq!(back, run);
    }

    #[test]
    fn a_map_changes_some_tables_and_shares_the_rest() {
        let run = Tables::new((0..5000).map(table).collect());
        let open = |n: u32| run.find(format!("{:08}", n * 10).as_bytes()).expect("there");
        open(4000).attachment.set(Arc::new(1_u8));
        assert_eq!(open(4000).attachment.get(), Some(&1_u8));
        let closed = run.map(|t| t.attachment.is_set().then(|| Arc::new(t.detached())));
        assert!(closed == run && closed.iter().all(|table| !table.attachment.is_set()));
        let shared = closed.chunks.iter().zip(run.chunks.iter()).filter(|(a, b)| Arc::ptr_eq(a, b));
        assert_eq!(shared.count(), run.chunks.len() - 1);
        closed.check(None).expect("sound");
    }

    #[test]
    fn grows_from_nothing_and_shrinks_to_nothing() {
        let mut run = Tables::default();
        for n in (0..2000).rev() {
            run = run.replace(&table(n).range, |_| false, &[table(n)]);
        }
        run.check(None).expect("sound");
        assert_eq!(run.len(), 2000);
        let all = run.range().expect("not empty");
        let none = run.replace(&all, |_| true, &[]);
        none.check(None).expect("sound");
        assert!(none.is_empty() && none.range().is_none());
    }

    /// `[lo, hi)` of a file with range tombstones up to `hi`.
    fn open_ended(number: u64, lo: &str, hi: &str) -> Arc<Table> {
        Arc::new(Table::whole(Arc::new(FileMeta {
            number: crate::FileNumber(number),
            bytes: Bytes(100),
            smallest: lo.to_owned().into(),
            largest: hi.to_owned().into(),
            largest_exclusive: true,
            range_tombstones: 2,
            ..FileMeta::default()
        })))
    }

    #[test]
    fn tables_meet_at_an_exclusive_end() {
        let run = |tables: &[(&str, &str)]| {
            let numbered = tables.iter().zip(1..);
            Tables::new(numbered.map(|((lo, hi), n)| open_ended(n, lo, hi)).collect())
        };
        let (abc, left) = (run(&[("a", "g"), ("g", "m"), ("p", "z")]), run(&[("a", "g")]));
        abc.check(None).expect("what ends at g does not hold g");
        assert!(run(&[("a", "g\0"), ("g", "m")]).check(None).is_err());
        assert!(run(&[("a", "g"), ("g", "g")]).check(None).is_err(), "an empty range");
        let number = |table: Option<&Arc<Table>>| table.map(|table| table.file.number.0);
        for (key, at, from, upto) in [
            ("f", Some(1), Some(1), Some(1)),
            ("g", Some(2), Some(2), Some(2)),
            ("m", None, Some(3), Some(2)),
            ("z", None, None, Some(3)),
        ] {
            let key = key.as_bytes();
            assert_eq!(number(abc.find(key)), at);
            assert_eq!(number(abc.starting_at(key).next()), from);
            assert_eq!(number(abc.ending_at(key).next()), upto);
        }
        assert_eq!(abc.overlapping(&KeyRange::half_open("g", "p")).count(), 1);
        assert_eq!(abc.overlapping(&KeyRange::closed("m", "p")).count(), 1);
        let right = [open_ended(2, "g", "m"), open_ended(3, "p", "z")];
        let range = KeyRange::half_open("g", "z");
        assert_eq!(left.replace(&range, |_| true, &right), abc, "[a, g) is not asked for");
        assert_eq!(abc.replace(&range, |_| true, &[]), left);
    }

    #[test]
    fn tables_with_range_tombstones_are_counted() {
        let plain = Tables::new((100..2000).map(table).collect());
        assert_eq!(plain.ranged(), 0);
        let added = [open_ended(1, "0", "00000100"), open_ended(2, "1", "2")];
        let range = KeyRange::half_open("0", "2");
        let both = plain.replace(&range, |_| false, &added);
        both.check(None).expect("sound");
        assert_eq!((both.ranged(), Tables::new(both.iter().cloned().collect()).ranged()), (2, 2));
        let one = both.replace(&added[0].range, |table| table.file.number.0 == 1, &[]);
        one.check(None).expect("sound");
        assert_eq!((one.ranged(), one.len()), (1, 1901));
        assert!(Tables { ranged: 0, ..one }.check(None).is_err(), "a wrong sum is found");
    }

    #[test]
    fn overlap_is_found_by_check() {
        let run = Tables::new(vec![table(1), table(1)]);
        assert!(run.check(None).is_err());
    }
}
