//! The last entries of the log, in memory: the leader reads each entry once for every follower and
//! once to apply it, soon after it was appended.
//!
//! 1. An append adds its entries as they are stored; it replaces those from its first index on.
//! 2. Truncate and purge remove what they remove from the store, before they do.
//! 3. A range that is not here as a whole is read from the store, by a thread that may wait.
//!
//! Bounds: [`BYTES`] of entries, and [`COUNT`] of them.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

const BYTES: usize = 4 << 20;
const COUNT: usize = 8192;

/// Entries with successive indexes, encoded.
#[derive(Debug, Default)]
pub struct Recent {
    /// The index of the first one.
    first: u64,
    entries: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Recent {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Adds an entry that was appended to the log.
    pub fn append(&mut self, index: u64, entry: Vec<u8>) {
        self.truncate(index);
        if index != self.end() {
            *self = Self { first: index, ..Self::default() };
        }
        self.bytes += entry.len();
        self.entries.push_back(entry);
        while self.bytes > BYTES || self.entries.len() > COUNT {
            self.pop();
        }
    }

    /// Removes the entries from an index on.
    pub fn truncate(&mut self, index: u64) {
        while self.end() > index {
            let Some(entry) = self.entries.pop_back() else { return };
            self.bytes -= entry.len();
        }
    }

    /// Removes the entries up to an index.
    pub fn purge(&mut self, index: u64) {
        while self.first <= index && self.pop() {}
    }

    fn pop(&mut self) -> bool {
        let Some(entry) = self.entries.pop_front() else { return false };
        self.bytes -= entry.len();
        self.first += 1;
        true
    }

    /// The entries of a range, if all of them are here.
    pub fn range(&self, range: &impl RangeBounds<u64>) -> Option<impl Iterator<Item = &[u8]>> {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.checked_add(1)?,
            Bound::Unbounded => return None,
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index.checked_add(1)?,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => return None,
        };
        let inside = self.first <= start && start <= end && end <= self.end();
        let at = |index: u64| (index - self.first) as usize;
        inside.then(|| self.entries.range(at(start)..at(end)).map(Vec::as_slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indexes of a range that are there; each entry is its index.
    fn indexes(recent: &Recent, range: impl RangeBounds<u64>) -> Option<Vec<u8>> {
        Some(recent.range(&range)?.map(|entry| entry[0]).collect())
    }

    #[test]
    fn a_range_is_there_as_a_whole_or_not_at_all() {
        let mut recent = Recent::default();
        assert_eq!(indexes(&recent, 1..2), None);
        (5..9).for_each(|index| recent.append(index, vec![index as u8]));
        assert_eq!(indexes(&recent, 5..9), Some(vec![5, 6, 7, 8]));
        assert_eq!(indexes(&recent, 6..=7), Some(vec![6, 7]));
        assert_eq!(indexes(&recent, 4..6), None);
        assert_eq!(indexes(&recent, 8..10), None);
        assert_eq!(indexes(&recent, 6..), None);
        assert_eq!(indexes(&recent, ..6), None);
        recent.purge(5);
        recent.truncate(8);
        assert_eq!(indexes(&recent, 6..8), Some(vec![6, 7]));
        assert_eq!(indexes(&recent, 5..8), None);
        assert_eq!(indexes(&recent, 6..9), None);
    }

    #[test]
    fn an_append_replaces_what_is_after_it_and_what_it_does_not_continue() {
        let mut recent = Recent::default();
        (1..5).for_each(|index| recent.append(index, vec![index as u8]));
        recent.append(3, vec![33]);
        assert_eq!(indexes(&recent, 1..4), Some(vec![1, 2, 33]));
        assert_eq!(indexes(&recent, 1..5), None);
        recent.append(9, vec![9]);
        assert_eq!(indexes(&recent, 9..10), Some(vec![9]));
        assert_eq!(indexes(&recent, 3..4), None);
        recent.append(2, vec![2]);
        assert_eq!(indexes(&recent, 2..3), Some(vec![2]));
        recent.purge(20);
        assert_eq!((recent.bytes, indexes(&recent, 2..3)), (0, None));
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut recent = Recent::default();
        (0..2 * COUNT as u64).for_each(|index| recent.append(index, vec![1]));
        assert_eq!((recent.entries.len(), recent.first), (COUNT, COUNT as u64));
        (0..9).for_each(|index| recent.append(2 * COUNT as u64 + index, vec![1; BYTES / 4]));
        assert_eq!((recent.entries.len(), recent.bytes), (4, BYTES));
        recent.append(recent.end(), vec![1; BYTES + 1]);
        assert_eq!((recent.entries.len(), recent.bytes), (0, 0));
    }
}
