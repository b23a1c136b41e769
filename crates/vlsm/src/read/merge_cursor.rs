//! Merges sorted sources into one sequence, forwards or backwards.
//!
//! A merge moves in one direction only; a walk from both ends uses two merges. So it needs no
//! change of direction, which is a common source of bugs.
//!
//! Algorithm: the winner is the source with the smallest (backwards: largest) entry, and the
//! runner-up is the next one. After a step the winner usually still wins, which takes one
//! comparison with the runner-up. Otherwise a pass over the sources, of which there are few, finds
//! both again.

use bytes::Bytes;
use std::cmp::Ordering;
use vlsm_core::key::compare;
use vlsm_core::{Cursor, Entry, Result, Trailer};

/// The direction of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// A one-way merge over cursors.
pub(crate) struct MergeCursor {
    sources: Vec<Box<dyn Cursor + Send>>,
    direction: Direction,
    winner: Option<usize>,
    runner_up: Option<usize>,
}

impl MergeCursor {
    pub fn new(sources: Vec<Box<dyn Cursor + Send>>, direction: Direction) -> Self {
        Self { sources, direction, winner: None, runner_up: None }
    }

    /// Moves to the first entry at or after the position; a merge that goes backwards moves to the
    /// last entry before it.
    pub fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.winner = None;
        for source in &mut self.sources {
            match self.direction {
                Direction::Forward => source.seek(key, trailer)?,
                Direction::Backward => source.seek_before(key, trailer)?,
            }
        }
        self.elect();
        Ok(())
    }

    /// As [`MergeCursor::seek`] for all sources from `first` on; the others keep their positions.
    pub fn skip(&mut self, first: usize, key: &[u8]) -> Result<()> {
        self.winner = None;
        for source in self.sources.iter_mut().skip(first) {
            match self.direction {
                Direction::Forward => source.seek(key, Trailer::FIRST)?,
                Direction::Backward => source.seek_before(key, Trailer::FIRST)?,
            }
        }
        self.elect();
        Ok(())
    }

    /// Moves to the end at which the merge starts.
    pub fn seek_start(&mut self) -> Result<()> {
        self.winner = None;
        for source in &mut self.sources {
            match self.direction {
                Direction::Forward => source.seek_first()?,
                Direction::Backward => source.seek_last()?,
            }
        }
        self.elect();
        Ok(())
    }

    /// Moves one entry on in the merge's direction.
    pub fn step(&mut self) -> Result<()> {
        let Some(winner) = self.winner.take() else { return Ok(()) };
        match self.direction {
            Direction::Forward => self.sources[winner].next()?,
            Direction::Backward => self.sources[winner].prev()?,
        }
        let still_wins = self.sources[winner].valid()
            && self.runner_up.is_none_or(|other| self.is_ahead(winner, other));
        if still_wins {
            self.winner = Some(winner);
        } else {
            self.elect();
        }
        Ok(())
    }

    /// The current entry of the merge.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.winner.map(|winner| self.sources[winner].entry())
    }

    /// The value of the current entry; empty if there is none.
    pub fn value_shared(&self) -> Bytes {
        self.winner.map_or_else(Bytes::new, |winner| self.sources[winner].value_shared())
    }

    fn is_ahead(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.sources[a].entry(), self.sources[b].entry());
        let order = compare(a.key, a.trailer, b.key, b.trailer);
        match self.direction {
            Direction::Forward => order == Ordering::Less,
            Direction::Backward => order == Ordering::Greater,
        }
    }

    fn elect(&mut self) {
        let (mut winner, mut runner_up) = (None, None);
        for index in 0..self.sources.len() {
            if !self.sources[index].valid() {
                continue;
            }
            if winner.is_none_or(|best| self.is_ahead(index, best)) {
                runner_up = winner;
                winner = Some(index);
            } else if runner_up.is_none_or(|second| self.is_ahead(index, second)) {
                runner_up = Some(index);
            }
        }
        (self.winner, self.runner_up) = (winner, runner_up);
    }
}
