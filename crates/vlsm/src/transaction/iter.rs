//! Iterators of a transaction: the pairs of its snapshot with its own writes on top.
//!
//! 1. The snapshot's iterator is walked from both ends; a pair that was looked at and not returned
//!    waits in `front` or `back`. Pairs in ranges that the transaction has deleted are passed over.
//! 2. The keys that the transaction has written lie beside it, in order. The nearer one of the two
//!    is next; of the same key the own writes decide, perhaps with the snapshot's value below.
//! 3. Each step records how far the iterator has got. The commit checks this part of the range.
//!
//! Threads and locks: what was read is shared with the transaction behind a lock, held for a
//! moment.

use super::Transaction;
use crate::iter::{Iter, is_empty};
use crate::keyspace::Keyspace;
use crate::own_writes::Say;
use crate::read::changes::{RangeRead, Reads};
use crate::rules::Rules;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, RangeTombstones, Result, Seq, TreeId};

impl Transaction {
    pub(super) fn within(
        &self,
        keyspace: &Keyspace,
        lo: Bound<Bytes>,
        hi: Bound<Bytes>,
    ) -> TransactionIter {
        let trees = keyspace.info.trees.clone();
        let base = self.snapshot.range(keyspace, (lo.clone(), hi.clone()));
        let (own, deleted) = match is_empty(&lo, &hi) || planted::is(Bug::OwnWriteUnseen) {
            true => Default::default(),
            false => (self.own_pairs(keyspace, &lo, &hi), self.own.deleted_in(&trees)),
        };
        let read = RangeRead { trees, lo, hi, front: None, back: None, all: false };
        let place = self.reads.lock().add_range(read);
        let (place, refused) = match place {
            Ok(place) => (place, None),
            Err(error) => (usize::MAX, Some(error)),
        };
        TransactionIter {
            base,
            front: None,
            back: None,
            own,
            deleted,
            rules: keyspace.info.rules.clone(),
            reads: self.reads.clone(),
            place,
            refused,
            finished: false,
        }
    }

    /// What the own writes say about each key that they have in a range.
    fn own_pairs(
        &self,
        keyspace: &Keyspace,
        lo: &Bound<Bytes>,
        hi: &Bound<Bytes>,
    ) -> VecDeque<(Bytes, Say)> {
        let keys = self.own.keys_in(&keyspace.info.trees, lo, hi).into_iter();
        let now = self.snapshot.held.at.now;
        let say = |key: Bytes| {
            let tree: TreeId = keyspace.tree_of(&key);
            let say = self.own.say(tree, &key, now).expect("a batch accepted these writes");
            (key, say)
        };
        keys.map(say).collect()
    }
}

/// A pair of the snapshot that was looked at and not returned yet.
type Ahead = Option<Result<(Bytes, Bytes)>>;

/// Pairs of a keyspace as a [`Transaction`] sees them, in key order. After an error it is at its
/// end.
pub struct TransactionIter {
    base: Iter,
    front: Ahead,
    back: Ahead,
    /// What the own writes say about the keys that are left, in order.
    own: VecDeque<(Bytes, Say)>,
    /// The ranges that the transaction has deleted.
    deleted: RangeTombstones,
    rules: Arc<Rules>,
    reads: Arc<Mutex<Reads>>,
    place: usize,
    refused: Option<Error>,
    finished: bool,
}

/// An end of an iterator.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Front,
    Back,
}

impl TransactionIter {
    /// The next pair of the snapshot from a side, without those that the transaction has deleted by
    /// a range. Where the two sides have met, the last pair may be the one that the other side has
    /// looked at.
    fn look(&mut self, side: Side) -> &mut Ahead {
        let Self { base, front, back, deleted, .. } = self;
        let (ahead, other) = match side {
            Side::Front => (front, back),
            Side::Back => (back, front),
        };
        while ahead.is_none() {
            let pair = match side {
                Side::Front => base.next(),
                Side::Back => base.next_back(),
            };
            match pair {
                Some(Ok((key, _))) if deleted.cover(&key, Seq::MAX) > Seq::ZERO => {}
                Some(pair) => *ahead = Some(pair),
                None => {
                    *ahead = other.take();
                    break;
                }
            }
        }
        ahead
    }

    /// The next pair from a side.
    fn step(&mut self, side: Side) -> Result<Option<(Bytes, Bytes)>> {
        loop {
            let base = match self.look(side) {
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok((key, _))) => Some(key.clone()),
                None => None,
            };
            let own = match side {
                Side::Front => self.own.front(),
                Side::Back => self.own.back(),
            };
            let own = own.map(|(key, _)| key.clone());
            let Some((base_first, own_first)) = first(base, own, side) else { return Ok(None) };
            let below = if base_first { self.look(side).take().transpose()? } else { None };
            let taken = match side {
                _ if !own_first => return Ok(below),
                Side::Front => self.own.pop_front(),
                Side::Back => self.own.pop_back(),
            };
            let Some((key, say)) = taken else { return Ok(None) };
            let below = below.map(|(_, value)| value);
            if let Some(value) = say.value(&self.rules, &key, || Ok(below))? {
                return Ok(Some((key, value)));
            }
        }
    }

    fn next_from(&mut self, side: Side) -> Option<Result<(Bytes, Bytes)>> {
        if self.finished {
            return None;
        }
        if let Some(error) = self.refused.take() {
            self.finished = true;
            return Some(Err(error));
        }
        let step = self.step(side);
        let mut reads = self.reads.lock();
        if let Some(read) = reads.range(self.place) {
            match &step {
                Ok(Some((key, _))) if side == Side::Front => read.front = Some(key.clone()),
                Ok(Some((key, _))) => read.back = Some(key.clone()),
                Ok(None) | Err(_) => read.all = true,
            }
        }
        drop(reads);
        self.finished = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

/// Whether the next pair of a side is the snapshot's, and whether it is an own one; both for the
/// same key; none at the end.
fn first(base: Option<Bytes>, own: Option<Bytes>, side: Side) -> Option<(bool, bool)> {
    let (base, own) = match (base, own) {
        (None, None) => return None,
        (Some(_), None) => return Some((true, false)),
        (None, Some(_)) => return Some((false, true)),
        (Some(base), Some(own)) => (base, own),
    };
    let order = match side {
        Side::Front => base.cmp(&own),
        Side::Back => own.cmp(&base),
    };
    Some((order.is_le(), order.is_ge()))
}

impl Iterator for TransactionIter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_from(Side::Front)
    }
}

impl DoubleEndedIterator for TransactionIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_from(Side::Back)
    }
}

impl std::iter::FusedIterator for TransactionIter {}

impl std::fmt::Debug for TransactionIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransactionIter").finish_non_exhaustive()
    }
}
