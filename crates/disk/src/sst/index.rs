//! The index: it leads from a key to its block, by one separator a block.
//!
//! The separator of a block is a short key that is not below the block's last user key and not
//! above the next block's first user key. So the block of a key is the first one whose separator is
//! not below the key. Blocks follow each other without gaps, so their ends give their extents.
//!
//! ```text
//! index := count varint · [shared varint · unshared varint · suffix · block length varint]*
//! ```
//!
//! In memory the common prefix of all separators is kept once. The next eight bytes of each
//! separator are a number in an array, which is searched first. A second array has every eighth of
//! these numbers and leads to the right eight, so that a search looks at few lines of the
//! processor's cache. This takes about 21 bytes a block with keys of any length.
//!
//! A file with nothing but range tombstones has no block, and an index without separators.
//!
//! Invariants (checked when decoded): separators do not descend; extents are before the index.

use super::format::{Damage, common_prefix, put_varint, varint_at};
use vlsm_core::key::{MAX_KEY_LEN, prefix};

/// The prefixes that a fence stands for: they take as much as a line of the processor's cache.
const GROUP: usize = 8;

/// Collects separators and extents.
#[derive(Default)]
pub(super) struct IndexBuilder {
    count: u64,
    bytes: Vec<u8>,
    last: Vec<u8>,
    pending_len: Option<u64>,
}

impl IndexBuilder {
    /// Adds a block of this length. Its separator follows.
    pub(super) fn block(&mut self, len: usize) {
        assert!(self.pending_len.is_none(), "the block before has no separator yet");
        self.pending_len = Some(len as u64);
    }

    /// Separates the last block from the next one, given the last key of the one and the first key
    /// of the other.
    pub(super) fn separate(&mut self, last: &[u8], next: &[u8]) {
        let Some(len) = self.pending_len.take() else { return };
        let shared = common_prefix(last, next);
        // With one byte more, this prefix of `next` is larger than `last`. It is smaller than
        // `next` unless it is all of `next`.
        if shared + 1 < next.len() && shared + 1 < last.len() {
            self.push(&next[..=shared], len);
        } else {
            self.push(last, len);
        }
    }

    fn push(&mut self, separator: &[u8], block_len: u64) {
        let shared = common_prefix(&self.last, separator);
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, (separator.len() - shared) as u64);
        self.bytes.extend_from_slice(&separator[shared..]);
        put_varint(&mut self.bytes, block_len);
        self.last.truncate(shared);
        self.last.extend_from_slice(&separator[shared..]);
        self.count += 1;
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 5
    }

    /// The index, given the largest key of the file.
    pub(super) fn finish(&mut self, largest: &[u8]) -> Vec<u8> {
        if let Some(len) = self.pending_len.take() {
            self.push(largest, len);
        }
        let mut out = Vec::with_capacity(self.len());
        put_varint(&mut out, self.count);
        out.extend_from_slice(&self.bytes);
        out
    }
}

/// The index of an open file.
pub(super) struct Index {
    /// The common prefix of all separators.
    common: Vec<u8>,
    /// The next eight bytes of each separator.
    prefixes: Vec<u64>,
    /// The last one of each [`GROUP`] of them.
    fences: Vec<u64>,
    /// The separators without the common prefix, one after the other.
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// The end of each block.
    block_ends: Vec<u64>,
}

impl Index {
    /// Reads an index that follows `data_len` bytes of blocks.
    pub(super) fn decode(bytes: &[u8], data_len: u64) -> Result<Self, Damage> {
        const CUT: Damage = "the index is cut off";
        let (count, mut at) = varint_at(bytes, 0).ok_or(CUT)?;
        if count > bytes.len() {
            return Err("the index has an impossible number of blocks");
        }
        let mut index = Self {
            common: Vec::new(),
            prefixes: Vec::with_capacity(count),
            fences: Vec::with_capacity(count / GROUP),
            keys: Vec::new(),
            key_ends: Vec::with_capacity(count),
            block_ends: Vec::with_capacity(count),
        };
        let mut key: Vec<u8> = Vec::new();
        let mut end = 0u64;
        // The first pass finds the common prefix of all separators: that of the first and the last
        // one.
        let start = at;
        for pass in 0..2 {
            at = start;
            key.clear();
            for number in 0..count {
                let (shared, next) = varint_at(bytes, at).ok_or(CUT)?;
                let (unshared, key_at) = varint_at(bytes, next).ok_or(CUT)?;
                let suffix = bytes.get(key_at..key_at + unshared).ok_or(CUT)?;
                let (len, next) = varint_at(bytes, key_at + unshared).ok_or(CUT)?;
                at = next;
                if shared > key.len() || shared + unshared > MAX_KEY_LEN {
                    return Err("a separator in the index is too long");
                }
                if number > 0 && suffix < &key[shared..] {
                    return Err("the separators in the index descend");
                }
                key.truncate(shared);
                key.extend_from_slice(suffix);
                if pass == 0 {
                    if number == 0 {
                        index.common.clone_from(&key);
                    }
                    continue;
                }
                end = end.checked_add(len as u64).ok_or("an extent in the index overflows")?;
                index.push(&key, end)?;
            }
            if pass == 0 {
                let shared = common_prefix(&index.common, &key);
                index.common.truncate(shared);
            }
        }
        if at != bytes.len() || end != data_len {
            return Err("the index does not fit the blocks");
        }
        index.keys.shrink_to_fit();
        index.common.shrink_to_fit();
        Ok(index)
    }

    fn push(&mut self, key: &[u8], block_end: u64) -> Result<(), Damage> {
        let rest = &key[self.common.len()..];
        self.prefixes.push(prefix(rest));
        if self.prefixes.len().is_multiple_of(GROUP) {
            self.fences.push(prefix(rest));
        }
        self.keys.extend_from_slice(rest);
        self.key_ends.push(u32::try_from(self.keys.len()).map_err(|_| "the index is too long")?);
        self.block_ends.push(block_end);
        Ok(())
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.block_ends.len()
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.common.capacity()
            + self.keys.capacity()
            + 8 * (self.prefixes.capacity() + self.fences.capacity() + self.block_ends.capacity())
            + 4 * self.key_ends.capacity()
    }

    /// The extent of a block.
    pub(super) fn extent(&self, block: usize) -> std::ops::Range<u64> {
        let start = block.checked_sub(1).map_or(0, |before| self.block_ends[before]);
        start..self.block_ends[block]
    }

    fn rest(&self, block: usize) -> &[u8] {
        let start = block.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start as usize..self.key_ends[block] as usize]
    }

    /// The separator after a block. It is at or after all keys of the block, and at or before all
    /// keys of the next block.
    pub(super) fn separator(&self, block: usize) -> Vec<u8> {
        [&self.common[..], self.rest(block)].concat()
    }

    /// The first place whose prefix is not below `wanted`.
    #[inline]
    fn first_at_least(&self, wanted: u64) -> usize {
        let group = self.fences.partition_point(|fence| *fence < wanted);
        let (start, end) = (GROUP * group, (GROUP * (group + 1)).min(self.prefixes.len()));
        start + self.prefixes[start..end].partition_point(|prefix| *prefix < wanted)
    }

    /// The first block whose separator is at or after `key`, or only after it if `beyond`. The
    /// number of blocks if there is none.
    fn search(&self, key: &[u8], beyond: bool) -> usize {
        let Some(rest) = key.strip_prefix(&self.common[..]) else {
            return if key < &self.common[..] { 0 } else { self.len() };
        };
        let wanted = prefix(rest);
        let first = self.first_at_least(wanted);
        let after = &self.prefixes[first..];
        // Usually no separator has the same eight bytes as the key.
        let same = match after.first() == Some(&wanted) {
            true => after.partition_point(|prefix| *prefix == wanted),
            false => 0,
        };
        let (mut low, mut high) = (first, first + same);
        while low < high {
            let middle = low.midpoint(high);
            let separator = self.rest(middle);
            if separator < rest || (beyond && separator == rest) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The first block that may hold `key` or a larger one. The number of blocks if there is none.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> usize {
        self.search(key, false)
    }

    /// The first block whose separator is larger than `key`. The blocks after it hold only larger
    /// keys.
    pub(super) fn find_after(&self, key: &[u8]) -> usize {
        self.search(key, true)
    }

    /// Whether entries of `key` may continue in the next block.
    pub(super) fn ends_with(&self, block: usize, key: &[u8]) -> bool {
        key.strip_prefix(&self.common[..]).is_some_and(|rest| rest == self.rest(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(pairs: &[(&str, &str)], largest: &str) -> Index {
        let mut builder = IndexBuilder::default();
        for (last, next) in pairs {
            builder.block(10);
            builder.separate(last.as_bytes(), next.as_bytes());
        }
        builder.block(10);
        let bytes = builder.finish(largest.as_bytes());
        for len in 0..bytes.len() {
            let data = 10 * (pairs.len() as u64 + 1);
            assert!(Index::decode(&bytes[..len], data).is_err(), "cut at {len}");
        }
        Index::decode(&bytes, 10 * (pairs.len() as u64 + 1)).expect("sound")
    }

    #[test]
    fn fences_lead_to_the_place_that_a_search_of_all_prefixes_finds() {
        let spread: [fn(u64) -> u64; 4] =
            [|at| 3 * at + 1, |at| at / 5, |at| u64::MAX - 1000 + at, |_| 7];
        for spread in spread {
            for len in 0..40 {
                let mut index = Index::decode(&[0], 0).expect("an empty index");
                for at in 0..len {
                    let key = spread(at).to_be_bytes();
                    index.push(&key, at).expect("few");
                }
                let near =
                    |prefix: &u64| [prefix.saturating_sub(1), *prefix, prefix.saturating_add(1)];
                for wanted in index.prefixes.iter().flat_map(near).chain([0, u64::MAX]) {
                    let expected = index.prefixes.partition_point(|prefix| *prefix < wanted);
                    assert_eq!(index.first_at_least(wanted), expected, "{wanted} of {len}");
                }
            }
        }
    }

    #[test]
    fn finds_blocks_by_short_separators() {
        let index =
            index(&[("user-apple", "user-orange"), ("user-pear", "user-plum-tree")], "user-z");
        assert_eq!((index.common.as_slice(), index.rest(0)), (&b"user-"[..], &b"o"[..]));
        assert_eq!(index.rest(1), b"pl");
        assert_eq!((index.find(b"user-apple"), index.find(b"user-orange")), (0, 1));
        assert_eq!((index.find(b"user-plum-tree"), index.find(b"user-zz")), (2, 3));
        assert_eq!((index.find(b"a"), index.find(b"user"), index.find(b"v")), (0, 0, 3));
        assert_eq!((index.extent(0), index.extent(2)), (0..10, 20..30));
    }

    #[test]
    fn one_key_over_many_blocks() {
        let index = index(&[("a", "b"), ("b", "b"), ("b", "b"), ("b", "c")], "c");
        assert_eq!((index.find(b"b"), index.find_after(b"b")), (1, 4));
        assert!(index.ends_with(1, b"b") && !index.ends_with(0, b"b"));
    }
}
