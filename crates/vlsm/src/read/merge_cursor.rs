//! Merges sorted sources into one sequence, forwards or backwards.
//!
//! A merge moves in one direction only; a walk from both ends uses two merges. So it needs no
//! change of direction, which is a common source of bugs.
//!
//! Algorithm: the entries on which the sources stand are kept in a list, the next one first. Most
//! are put in order by the first sixteen bytes of their keys, which are in the list; only if these
//! are the same are the sources asked. After a step the first source usually stays first, or its
//! new entry is moved back.

use bytes::Bytes;
use std::cmp::Ordering;
use vlsm_core::key::{compare, long_prefix};
use vlsm_core::{Cursor, Entry, Result, Trailer};

/// The direction of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// The entry on which a source stands.
#[derive(Clone, Copy)]
struct Head {
    /// The first bytes of its key; backwards their complement, so that the next entry of the merge
    /// never has a larger number.
    prefix: u128,
    source: usize,
}

/// A one-way merge over cursors.
pub(crate) struct MergeCursor<C> {
    sources: Vec<C>,
    direction: Direction,
    /// The heads of all sources that are not at their end, in the merge's order.
    order: Vec<Head>,
}

impl<C: Cursor> MergeCursor<C> {
    pub fn new(sources: Vec<C>, direction: Direction) -> Self {
        Self { order: Vec::with_capacity(sources.len()), sources, direction }
    }

    /// All sources.
    pub fn sources(&self) -> &[C] {
        &self.sources
    }

    /// Prepares a seek of the sources from `first` on ([`Cursor::approach`]), and returns them.
    pub fn approach(&mut self, first: usize, key: &[u8]) -> &mut [C] {
        let sources = &mut self.sources[first..];
        sources.iter_mut().for_each(|source| source.approach(key));
        sources
    }

    /// Moves to the first entry at or after the position; a merge that goes backwards moves to the
    /// last entry before it. Sources before `first` keep their positions.
    pub fn seek_from(&mut self, first: usize, key: &[u8], trailer: Trailer) -> Result<()> {
        self.order.clear();
        let sources = &mut self.sources[first..];
        match self.direction {
            Direction::Forward => {
                sources.iter_mut().try_for_each(|source| source.seek(key, trailer))?;
            }
            Direction::Backward => {
                sources.iter_mut().try_for_each(|source| source.seek_before(key, trailer))?;
            }
        }
        self.sort();
        Ok(())
    }

    /// Moves to the end at which the merge starts.
    pub fn seek_start(&mut self) -> Result<()> {
        self.order.clear();
        for source in &mut self.sources {
            match self.direction {
                Direction::Forward => source.seek_first()?,
                Direction::Backward => source.seek_last()?,
            }
        }
        self.sort();
        Ok(())
    }

    /// Moves one entry on in the merge's direction.
    #[inline]
    pub fn step(&mut self) -> Result<()> {
        let Some(Head { source, .. }) = self.order.first().copied() else { return Ok(()) };
        let cursor = &mut self.sources[source];
        let moved = match self.direction {
            Direction::Forward => cursor.next(),
            Direction::Backward => cursor.prev(),
        };
        if moved.is_err() || !cursor.valid() {
            return self.leave_out(moved);
        }
        if self.order.len() == 1 {
            return Ok(()); // It stays first, whatever its prefix.
        }
        let head = self.head(source);
        self.order[0] = head;
        if self.order.get(1).is_some_and(|next| next.prefix <= head.prefix) {
            self.move_back(head);
        }
        Ok(())
    }

    /// The first source is at its end, or could not be read. Then there is no entry any more.
    #[cold]
    fn leave_out(&mut self, moved: Result<()>) -> Result<()> {
        match moved {
            Ok(()) => drop(self.order.remove(0)),
            Err(_) => self.order.clear(),
        }
        moved
    }

    /// The current entry of the merge.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.order.first().map(|head| self.sources[head.source].entry())
    }

    /// The value of the current entry; empty if there is none.
    pub fn value_shared(&self) -> Bytes {
        self.order.first().map_or_else(Bytes::new, |head| self.sources[head.source].value_shared())
    }

    #[inline]
    fn head(&self, source: usize) -> Head {
        let prefix = long_prefix(self.sources[source].key());
        let prefix = match self.direction {
            Direction::Forward => prefix,
            Direction::Backward => !prefix,
        };
        Head { prefix, source }
    }

    /// The order of two heads with the same prefix.
    fn order_of_ties(&self, a: Head, b: Head) -> Ordering {
        let (a, b) = (self.sources[a.source].entry(), self.sources[b.source].entry());
        let order = compare(a.key, a.trailer, b.key, b.trailer);
        match self.direction {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        }
    }

    /// Moves the first head to its place, unless it stays first.
    fn move_back(&mut self, head: Head) {
        let after = &self.order[1..];
        let at = after.partition_point(|other| other.prefix < head.prefix);
        let is_before = |other: &Head| {
            other.prefix == head.prefix && self.order_of_ties(*other, head) == Ordering::Less
        };
        let at = at + after[at..].partition_point(is_before);
        self.order.copy_within(1..=at, 0);
        self.order[at] = head;
    }

    /// Fills the list with the heads of all sources, in order.
    fn sort(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        let valid = (0..self.sources.len()).filter(|source| self.sources[*source].valid());
        order.extend(valid.map(|source| self.head(source)));
        order.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| self.order_of_ties(*a, *b))
        });
        self.order = order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vlsm_core::{Kind, Seq};

    type Stored = (Vec<u8>, Trailer);

    /// A cursor over entries in tree order. The entry at `broken` cannot be read.
    struct Listed {
        entries: Vec<Stored>,
        at: Option<usize>,
        broken: Option<usize>,
    }

    impl Listed {
        fn go(&mut self, at: Option<usize>) -> Result<()> {
            self.at = at.filter(|at| *at < self.entries.len());
            match self.broken.is_some() && self.at == self.broken {
                true => Err(vlsm_core::Error::Internal("unreadable".into())),
                false => Ok(()),
            }
        }

        fn before(&self, key: &[u8], trailer: Trailer) -> usize {
            let is_before = |(k, t): &Stored| compare(k, *t, key, trailer) == Ordering::Less;
            self.entries.partition_point(is_before)
        }
    }

    impl Cursor for Listed {
        fn valid(&self) -> bool {
            self.at.is_some()
        }
        fn key(&self) -> &[u8] {
            &self.entries[self.at.expect("valid")].0
        }
        fn trailer(&self) -> Trailer {
            self.entries[self.at.expect("valid")].1
        }
        fn value(&self) -> &[u8] {
            self.key()
        }
        fn seek_first(&mut self) -> Result<()> {
            self.go(Some(0))
        }
        fn seek_last(&mut self) -> Result<()> {
            self.go(self.entries.len().checked_sub(1))
        }
        fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
            self.go(Some(self.before(key, trailer)))
        }
        fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
            self.go(self.before(key, trailer).checked_sub(1))
        }
        fn next(&mut self) -> Result<()> {
            self.go(self.at.map(|at| at + 1))
        }
        fn prev(&mut self) -> Result<()> {
            self.go(self.at.and_then(|at| at.checked_sub(1)))
        }
    }

    /// Keys whose first sixteen bytes are the same, others that differ within them, and short ones;
    /// of some several versions. They are dealt out to this number of sources.
    fn sources(count: usize) -> (Vec<Stored>, Vec<Listed>) {
        let mut all = Vec::new();
        for number in 0..40u64 {
            let key = match number % 4 {
                0 => format!("sixteen bytes -> {:02}", number * 7 % 40),
                1 => format!("{:02} differs early", number * 7 % 40),
                2 => format!("k{}", number * 7 % 40),
                _ => "k".repeat(number as usize % 5),
            };
            all.push((key.into_bytes(), Trailer::new(Seq(number), Kind::Put)));
        }
        let listed = |index| Listed {
            entries: all.iter().skip(index).step_by(count).cloned().collect(),
            at: None,
            broken: None,
        };
        let mut listed: Vec<_> = (0..count).map(listed).collect();
        let in_order = |a: &Stored, b: &Stored| compare(&a.0, a.1, &b.0, b.1);
        listed.iter_mut().for_each(|source| source.entries.sort_by(in_order));
        all.sort_by(in_order);
        (all, listed)
    }

    fn rest(merge: &mut MergeCursor<Listed>) -> Vec<Stored> {
        let mut entries = Vec::new();
        while let Some(entry) = merge.entry() {
            entries.push((entry.key.to_vec(), entry.trailer));
            merge.step().expect("reads");
        }
        entries
    }

    #[test]
    fn the_entries_of_all_sources_come_in_order_in_both_directions() {
        for count in 1..9 {
            let (mut all, listed) = sources(count);
            let mut merge = MergeCursor::new(listed, Direction::Forward);
            merge.seek_start().expect("reads");
            assert_eq!(rest(&mut merge), all);
            for at in 0..all.len() {
                merge.seek_from(0, &all[at].0, all[at].1).expect("reads");
                assert_eq!(rest(&mut merge), all[at..]);
            }
            all.reverse();
            let mut merge = MergeCursor::new(sources(count).1, Direction::Backward);
            merge.seek_start().expect("reads");
            assert_eq!(rest(&mut merge), all);
            for at in 0..all.len() {
                merge.seek_from(0, &all[at].0, all[at].1).expect("reads");
                assert_eq!(rest(&mut merge), all[at + 1..]);
            }
        }
    }

    #[test]
    fn after_an_error_there_is_no_entry() {
        let (all, mut listed) = sources(3);
        listed[1].broken = Some(2);
        let broken = listed[1].entries[2].clone();
        let mut merge = MergeCursor::new(listed, Direction::Forward);
        merge.seek_start().expect("reads");
        let failed = (0..all.len()).find(|_| merge.step().is_err()).expect("one step fails");
        assert!(merge.entry().is_none(), "nothing behind {failed}");
        assert!(all.iter().position(|entry| *entry == broken).expect("it is there") > failed);
    }
}
