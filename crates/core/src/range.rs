//! Ranges of user keys, as tables and slices of tables cover them.
//!
//! The lower end is always inclusive. The upper end of a whole SST is its largest key, inclusive;
//! the upper end of a slice cut at a key is that key, exclusive. Both occur, so the range records
//! which.

use bytes::Bytes;
use std::cmp::Ordering;
use std::fmt;

/// A non-empty range of user keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The smallest key of the range.
    pub lo: Bytes,
    /// The upper end.
    pub hi: Bytes,
    /// Whether `hi` itself belongs to the range.
    pub hi_inclusive: bool,
}

impl KeyRange {
    /// `[lo, hi]`.
    #[must_use]
    pub fn closed(lo: impl Into<Bytes>, hi: impl Into<Bytes>) -> Self {
        Self { lo: lo.into(), hi: hi.into(), hi_inclusive: true }
    }

    /// `[lo, hi)`.
    #[must_use]
    pub fn half_open(lo: impl Into<Bytes>, hi: impl Into<Bytes>) -> Self {
        Self { lo: lo.into(), hi: hi.into(), hi_inclusive: false }
    }

    /// Whether no key at all lies in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.lo.cmp(&self.hi) {
            Ordering::Less => false,
            Ordering::Equal => !self.hi_inclusive,
            Ordering::Greater => true,
        }
    }

    /// Whether the whole range lies before `key`.
    #[must_use]
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match self.hi.as_ref().cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => !self.hi_inclusive,
            Ordering::Greater => false,
        }
    }

    /// Whether the whole range lies after `key`.
    #[must_use]
    #[inline]
    pub fn starts_after(&self, key: &[u8]) -> bool {
        self.lo.as_ref() > key
    }

    /// Whether `key` lies in the range.
    #[must_use]
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.starts_after(key) && !self.ends_before(key)
    }

    /// Whether every key of this range is smaller than every key of `other`.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        self.ends_before(&other.lo)
    }

    /// Whether the two share a key.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        !self.is_before(other) && !other.is_before(self)
    }

    /// Whether every key of `other` is a key of this range.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.lo <= other.lo && self.cmp_hi(other) != Ordering::Less
    }

    /// Compares the upper ends.
    #[must_use]
    pub fn cmp_hi(&self, other: &Self) -> Ordering {
        self.hi.cmp(&other.hi).then(self.hi_inclusive.cmp(&other.hi_inclusive))
    }

    /// The smallest range that covers both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let lo = self.lo.clone().min(other.lo.clone());
        let upper = if self.cmp_hi(other) == Ordering::Less { other } else { self };
        Self { lo, hi: upper.hi.clone(), hi_inclusive: upper.hi_inclusive }
    }

    /// The intersection of the two, if not empty.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if !self.overlaps(other) {
            return None;
        }
        let lo = self.lo.clone().max(other.lo.clone());
        let lower = if self.cmp_hi(other) == Ordering::Less { self } else { other };
        let range = Self { lo, hi: lower.hi.clone(), hi_inclusive: lower.hi_inclusive };
        (!range.is_empty()).then_some(range)
    }

    /// The smallest range that covers all of them; none for an empty list.
    #[must_use]
    pub fn cover<'a>(ranges: impl IntoIterator<Item = &'a KeyRange>) -> Option<Self> {
        let mut ranges = ranges.into_iter();
        let first = ranges.next()?.clone();
        Some(ranges.fold(first, |sum, range| sum.union(range)))
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let close = if self.hi_inclusive { ']' } else { ')' };
        write!(f, "[{}, {}{close}", self.lo.escape_ascii(), self.hi.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_meet_at_a_cut_do_not_overlap() {
        let left = KeyRange::half_open("a", "m");
        let right = KeyRange::closed("m", "z");
        assert!(left.is_before(&right) && !left.overlaps(&right));
        assert!(KeyRange::closed("a", "m").overlaps(&right));
        assert_eq!(left.union(&right), KeyRange::closed("a", "z"));
        assert!(left.contains(b"lzz") && !left.contains(b"m"));
    }

    #[test]
    fn intersection_is_what_both_contain() {
        let a = KeyRange::closed("b", "m");
        assert_eq!(
            a.intersection(&KeyRange::half_open("a", "d")),
            Some(KeyRange::half_open("b", "d"))
        );
        assert_eq!(a.intersection(&KeyRange::closed("m", "z")), Some(KeyRange::closed("m", "m")));
        assert_eq!(a.intersection(&KeyRange::closed("n", "z")), None);
        assert!(KeyRange::half_open("x", "x").is_empty());
    }
}
