//! Range tombstones: deletes of all keys in `[lo, hi)`, as disjoint fragments.
//!
//! Tombstones may overlap each other in any way. Cut at every end of every tombstone they become
//! *fragments*: disjoint ranges in key order, each with the sequence numbers of all tombstones over
//! it, newest first. A reader looks for the newest tombstone over a key that it may see: one search
//! in the map and one in a short list.
//!
//! Memtables, SSTs, iterators and compactions all hold their tombstones in this form. A table that
//! shows only a slice of its file shows only that part of the tombstones ([`RangeTombstones::add`]
//! with the slice's range). Upper ends are exclusive; an inclusive end becomes the key followed by
//! a zero byte, which is the next possible key.
//!
//! Cost: adding a tombstone is O(log n + fragments it covers). Invariants: T1 fragments are not
//! empty and disjoint; T2 their sequence numbers descend strictly and there is at least one.

use crate::key::Seq;
use crate::range::KeyRange;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The tombstones over a range of keys; the lower end is the key in the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The upper end, exclusive.
    pub hi: Bytes,
    /// The sequence numbers of the tombstones over it, newest first.
    pub seqs: Vec<Seq>,
}

impl Fragment {
    /// The newest tombstone that a reader at `seq` may see; [`Seq::ZERO`] for none.
    #[must_use]
    #[inline]
    pub fn visible(&self, seq: Seq) -> Seq {
        let newer = self.seqs.partition_point(|tombstone| *tombstone > seq);
        self.seqs.get(newer).copied().unwrap_or(Seq::ZERO)
    }
}

/// A range of keys under the same tombstones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// The first key; none when it reaches down to the smallest one.
    pub lo: Option<Bytes>,
    /// The first key after it; none when it reaches up to the largest one.
    pub hi: Option<Bytes>,
    /// The sequence numbers of the tombstones, newest first; none over a gap.
    pub seqs: Vec<Seq>,
}

/// A set of range tombstones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeTombstones {
    fragments: BTreeMap<Bytes, Fragment>,
}

impl RangeTombstones {
    /// Whether the set is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Number of fragments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fragments.len()
    }

    /// The fragments in key order, each with its lower end.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, &Fragment)> + Clone {
        self.fragments.iter()
    }

    /// The approximate size in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let one = |(lo, at): (&Bytes, &Fragment)| lo.len() + at.hi.len() + at.seqs.len() * 8 + 128;
        self.iter().map(one).sum()
    }

    /// Deletes `[lo, hi)` as of `seq`. An empty range changes nothing.
    pub fn insert(&mut self, lo: &Bytes, hi: &Bytes, seq: Seq) {
        self.insert_all(lo, hi, &[seq]);
    }

    /// Adds the parts of the tombstones of `other` that lie within `range`.
    pub fn add(&mut self, other: &Self, range: &KeyRange) {
        let end = end_of(range);
        for (lo, fragment) in other.overlapping(&range.lo, &end) {
            let (lo, hi) = (lo.max(&range.lo), (&fragment.hi).min(&end));
            self.insert_all(lo, hi, &fragment.seqs);
        }
    }

    /// Adds all tombstones of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (lo, fragment) in other.iter() {
            self.insert_all(lo, &fragment.hi, &fragment.seqs);
        }
    }

    /// Adds the sequence numbers `seqs` (newest first) over `[lo, hi)`.
    pub fn insert_all(&mut self, lo: &Bytes, hi: &Bytes, seqs: &[Seq]) {
        if lo >= hi || seqs.is_empty() {
            return;
        }
        self.split_at(lo);
        self.split_at(hi);
        let mut gaps = Vec::new();
        let mut at = lo.clone();
        let inside = (Bound::Included(lo.clone()), Bound::Excluded(hi.clone()));
        for (start, fragment) in self.fragments.range_mut::<Bytes, _>(inside) {
            if at < *start {
                gaps.push((at, start.clone()));
            }
            merge(&mut fragment.seqs, seqs);
            at = fragment.hi.clone();
        }
        if at < *hi {
            gaps.push((at, hi.clone()));
        }
        for (start, end) in gaps {
            self.fragments.insert(start, Fragment { hi: end, seqs: seqs.to_vec() });
        }
    }

    /// Cuts the fragment over `key`, if there is one, so that a fragment begins at `key`.
    pub fn split_at(&mut self, key: &Bytes) {
        let before = (Bound::Unbounded, Bound::Excluded(key.clone()));
        let Some((_, fragment)) = self.fragments.range_mut::<Bytes, _>(before).next_back() else {
            return;
        };
        if fragment.hi <= *key {
            return;
        }
        let hi = std::mem::replace(&mut fragment.hi, key.clone());
        let rest = Fragment { hi, seqs: fragment.seqs.clone() };
        self.fragments.insert(key.clone(), rest);
    }

    /// The newest tombstone over `key` that a reader at `seq` may see; [`Seq::ZERO`] for none.
    #[must_use]
    #[inline]
    pub fn cover(&self, key: &[u8], seq: Seq) -> Seq {
        match self.find(key) {
            Some((_, fragment)) => fragment.visible(seq),
            None => Seq::ZERO,
        }
    }

    /// The fragment over `key`, with its lower end.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<(&Bytes, &Fragment)> {
        let upto = (Bound::Unbounded, Bound::Included(key));
        let (lo, fragment) = self.fragments.range::<[u8], _>(upto).next_back()?;
        (fragment.hi.as_ref() > key).then_some((lo, fragment))
    }

    /// The fragment over `key`, or the gap around it.
    #[must_use]
    pub fn window(&self, key: &[u8]) -> Window {
        if let Some((lo, fragment)) = self.find(key) {
            let (lo, hi) = (Some(lo.clone()), Some(fragment.hi.clone()));
            return Window { lo, hi, seqs: fragment.seqs.clone() };
        }
        let upto = (Bound::Unbounded, Bound::Included(key));
        let before = self.fragments.range::<[u8], _>(upto).next_back();
        let after = (Bound::Excluded(key), Bound::Unbounded);
        let after = self.fragments.range::<[u8], _>(after).next();
        Window {
            lo: before.map(|(_, fragment)| fragment.hi.clone()),
            hi: after.map(|(lo, _)| lo.clone()),
            seqs: Vec::new(),
        }
    }

    /// The fragments that share a key with `[lo, hi)`, in key order.
    pub fn overlapping<'a>(
        &'a self,
        lo: &[u8],
        hi: &'a [u8],
    ) -> impl Iterator<Item = (&'a Bytes, &'a Fragment)> + use<'a> {
        let first = self.find(lo).map_or_else(|| lo.to_vec(), |(start, _)| start.to_vec());
        let from = (Bound::Included(&first[..]), Bound::Unbounded);
        self.fragments.range::<[u8], _>(from).take_while(move |(start, _)| start.as_ref() < hi)
    }

    /// The smallest range that covers all of them; its upper end is exclusive.
    #[must_use]
    pub fn range(&self) -> Option<KeyRange> {
        let (lo, _) = self.fragments.first_key_value()?;
        let (_, last) = self.fragments.last_key_value()?;
        Some(KeyRange::half_open(lo.clone(), last.hi.clone()))
    }

    /// The smallest and the largest sequence number.
    #[must_use]
    pub fn seqs(&self) -> Option<(Seq, Seq)> {
        let ends = self.iter().filter_map(|(_, at)| Some((*at.seqs.last()?, *at.seqs.first()?)));
        ends.reduce(|(low, high), (oldest, newest)| (low.min(oldest), high.max(newest)))
    }

    /// Replaces the sequence numbers of each fragment by the result of `keep`.
    pub fn retain(&mut self, mut keep: impl FnMut(&[Seq]) -> Vec<Seq>) {
        self.fragments.retain(|_, fragment| {
            fragment.seqs = keep(&fragment.seqs);
            !fragment.seqs.is_empty()
        });
    }
}

/// The exclusive upper end of a range.
#[must_use]
pub fn end_of(range: &KeyRange) -> Bytes {
    if range.hi_inclusive { after(&range.hi) } else { range.hi.clone() }
}

/// The smallest key larger than `key`.
#[must_use]
pub fn after(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    Bytes::from(next)
}

/// Merges two lists that descend strictly.
fn merge(into: &mut Vec<Seq>, more: &[Seq]) {
    for seq in more {
        let at = into.partition_point(|known| known > seq);
        if into.get(at) != Some(seq) {
            into.insert(at, *seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> Bytes {
        Bytes::copy_from_slice(&[n])
    }

    #[test]
    fn overlapping_tombstones_are_cut_at_each_others_ends() {
        let mut set = RangeTombstones::default();
        set.insert(&key(2), &key(6), Seq(10));
        set.insert(&key(4), &key(9), Seq(20));
        set.insert(&key(5), &key(5), Seq(30));
        let text: Vec<_> = set.iter().map(|(lo, at)| (lo[0], at.hi[0], at.seqs.len())).collect();
        assert_eq!(text, [(2, 4, 1), (4, 6, 2), (6, 9, 1)]);
        assert_eq!(set.cover(&[5], Seq::MAX), Seq(20));
        assert_eq!(set.cover(&[5], Seq(19)), Seq(10));
        assert_eq!(set.cover(&[5], Seq(9)), Seq::ZERO);
        assert_eq!(set.cover(&[9], Seq::MAX), Seq::ZERO, "the upper end is exclusive");
        assert_eq!(set.range(), Some(KeyRange::half_open(key(2), key(9))));
        assert_eq!(set.seqs(), Some((Seq(10), Seq(20))));
    }

    #[test]
    fn a_slice_shows_only_its_part() {
        let mut set = RangeTombstones::default();
        set.insert(&key(2), &key(8), Seq(10));
        let mut part = RangeTombstones::default();
        part.add(&set, &KeyRange::closed(key(4), key(5)));
        assert_eq!(part.cover(&[5], Seq::MAX), Seq(10));
        assert_eq!(part.cover(&[5, 0], Seq::MAX), Seq::ZERO);
        assert_eq!(part.cover(&[3, 255], Seq::MAX), Seq::ZERO);
    }

    proptest! {
        #[test]
        fn answers_as_a_list_of_tombstones(
            tombstones in prop::collection::vec((0u8..20, 0u8..20, 1u64..30), 0..12),
            cuts in prop::collection::vec(0u8..20, 0..4),
        ) {
            let mut set = RangeTombstones::default();
            for (lo, hi, seq) in &tombstones {
                set.insert(&key(*lo), &key(*hi), Seq(*seq));
            }
            cuts.iter().for_each(|at| set.split_at(&key(*at)));
            for at in 0..20 {
                let over = tombstones.iter().filter(|(lo, hi, _)| (lo..hi).contains(&&at));
                let over: Vec<u64> = over.map(|(_, _, seq)| *seq).collect();
                for seq in 0..31 {
                    let newest = over.iter().filter(|s| **s <= seq).max().copied().unwrap_or(0);
                    prop_assert_eq!(set.cover(&[at], Seq(seq)), Seq(newest));
                }
                let window = set.window(&[at]);
                prop_assert!(window.lo.is_none_or(|lo| lo.as_ref() <= &[at][..]));
                prop_assert!(window.hi.is_none_or(|hi| hi.as_ref() > &[at][..]));
                prop_assert_eq!(window.seqs.is_empty(), over.is_empty());
            }
            let ends: Vec<_> = set.iter().map(|(lo, at)| (lo.clone(), at.hi.clone())).collect();
            prop_assert!(ends.iter().all(|(lo, hi)| lo < hi));
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }
}
