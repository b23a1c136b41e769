//! Iterators of a transaction: the pairs of its snapshot with its own writes on top.
//!
//! 1. The snapshot's iterator is walked from both ends. A pair that was read ahead and not returned
//!    yet is kept in `front` or `back`. Pairs in ranges that the transaction has deleted are
//!    skipped.
//! 2. The next key is the nearer of the snapshot's and the transaction's own. If both have the same
//!    key, the own writes determine its value; operands merge into the snapshot's value.
//! 3. Each step records how far the iterator has got. The commit checks this part of the range.
//!
//! Threads and locks: the reads are shared with the transaction behind a lock, which is held for a
//! moment.

use super::Transaction;
use crate::catalog::KeyspaceInfo;
use crate::iter::{Iter, is_empty};
use crate::keyspace::Keyspace;
use crate::own_writes::OwnWrites;
use crate::read::changes::{RangeRead, Reads};
use crate::write::batch::other_store;
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::Bound;
use std::sync::Arc;
#[cfg(doc)]
use vlsm_core::Error;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Micros, Result, TreeId};

impl Transaction {
    pub(super) fn within(
        &self,
        keyspace: &Keyspace,
        lo: Bound<Bytes>,
        hi: Bound<Bytes>,
    ) -> TransactionIter {
        let (info, held) = (keyspace.info.clone(), &self.snapshot.held);
        let trees = match info.store == held.engine.shared.store_uid {
            true => held.engine.reader.trees_at(&info, held.at.seq),
            false => Err(other_store()),
        };
        let trees = trees.map(|trees| trees.iter().collect::<Vec<_>>());
        let place = match &trees {
            Ok(trees) => noted(&self.reads, (&info, trees), &lo, &hi),
            Err(error) => Err(error.clone()),
        };
        // Without trees `place` is an error, which is returned first.
        let trees = trees.unwrap_or_default();
        TransactionIter {
            base: self.snapshot.range(keyspace, (lo.clone(), hi.clone())),
            front: None,
            back: None,
            own: match planted::is(Bug::OwnWriteUnseen) || place.is_err() {
                true => Arc::default(),
                false => self.own().clone(),
            },
            now: self.snapshot.held.at.now,
            info,
            trees,
            reads: self.reads.clone(),
            finished: place.is_ok() && is_empty(&lo, &hi),
            place,
            from: lo.clone(),
            lo,
            hi,
            failed: None,
        }
    }
}

/// Records a range of which nothing is read yet, and returns its index among the reads.
fn noted(
    reads: &Mutex<Reads>,
    keyspace: (&KeyspaceInfo, &[TreeId]),
    lo: &Bound<Bytes>,
    hi: &Bound<Bytes>,
) -> Result<usize> {
    reads.lock().add_range(RangeRead {
        trees: touched(keyspace, lo, hi),
        lo: lo.clone(),
        hi: hi.clone(),
        front: None,
        back: None,
        all: false,
    })
}

/// The trees of the regions that a range touches.
fn touched(
    (info, trees): (&KeyspaceInfo, &[TreeId]),
    lo: &Bound<Bytes>,
    hi: &Bound<Bytes>,
) -> Vec<TreeId> {
    let region = |bound: &Bound<Bytes>, none: usize| match bound {
        Bound::Included(key) | Bound::Excluded(key) => info.region_of(key),
        Bound::Unbounded => none,
    };
    let (first, last) = (region(lo, 0), region(hi, trees.len() - 1));
    trees.get(first..=last).unwrap_or_default().to_vec()
}

/// A pair of the snapshot that was read ahead and not returned yet: a key and its value, or the
/// error of the merge operator for this key alone.
type Ahead = Option<(Bytes, Result<Bytes>)>;

/// Pairs of a keyspace as a [`Transaction`] sees them, in key order, with the writes that it had
/// made when the iterator began.
///
/// Errors are as those of [`Iter`]: after [`Error::MergeFailed`] or [`Error::UnknownMergeOperator`]
/// the iterator continues with the next key. After any other error it is at its end.
pub struct TransactionIter {
    base: Iter,
    front: Ahead,
    back: Ahead,
    own: Arc<OwnWrites>,
    now: Micros,
    info: Arc<KeyspaceInfo>,
    /// The trees of the keyspace that the transaction sees.
    trees: Vec<TreeId>,
    /// The lower end of the range.
    from: Bound<Bytes>,
    /// The rest of the range.
    lo: Bound<Bytes>,
    hi: Bound<Bytes>,
    reads: Arc<Mutex<Reads>>,
    /// The index of the range among the reads, or an error to return first.
    place: Result<usize>,
    finished: bool,
    failed: Option<Bytes>,
}

/// One end of an iterator.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Front,
    Back,
}

impl TransactionIter {
    /// The key whose operands could not be combined, if the last result was [`Error::MergeFailed`]
    /// or [`Error::UnknownMergeOperator`]; otherwise none.
    #[must_use]
    pub fn failed_key(&self) -> Option<&Bytes> {
        self.failed.as_ref()
    }

    /// Moves the front to the first pair at or after `key`, forwards or backwards, within the
    /// iterator's range. The back stays where it is. Each call counts as another range that the
    /// transaction has read from.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let key = Bytes::copy_from_slice(key.as_ref());
        let below = match &self.from {
            Bound::Included(from) => key < *from,
            Bound::Excluded(from) => key <= *from,
            Bound::Unbounded => false,
        };
        let lo = if below { self.from.clone() } else { Bound::Included(key) };
        // A new walk begins, so that the pairs that the old one has read ahead need not be undone.
        if self.place.is_ok() {
            self.place = noted(&self.reads, (&self.info, &self.trees), &lo, &self.hi);
        }
        self.finished = self.place.is_ok() && is_empty(&lo, &self.hi);
        self.base = self.base.again(lo.clone(), self.hi.clone());
        (self.lo, self.front, self.back, self.failed) = (lo, None, None, None);
    }

    /// The key of the next pair of the snapshot from a side, without pairs in ranges that the
    /// transaction has deleted. Where the two sides have met, the last pair may be the one that the
    /// other side has read ahead.
    fn look(&mut self, side: Side) -> Result<Option<Bytes>> {
        let Self { base, front, back, own, info, trees, .. } = self;
        let (ahead, other) = match side {
            Side::Front => (front, back),
            Side::Back => (back, front),
        };
        while ahead.is_none() {
            let pair = match side {
                Side::Front => base.next(),
                Side::Back => base.next_back(),
            };
            let pair = match pair {
                None => other.take(),
                Some(Ok((key, value))) => Some((key, Ok(value))),
                Some(Err(error)) => match base.failed_key() {
                    Some(key) => Some((key.clone(), Err(error))),
                    None => return Err(error),
                },
            };
            match pair {
                None => break,
                Some((key, _)) if own.deletes(trees[info.region_of(&key)], &key) => {}
                pair => *ahead = pair,
            }
        }
        Ok(ahead.as_ref().map(|(key, _)| key.clone()))
    }

    /// The next pair from a side.
    fn step(&mut self, side: Side) -> Result<Ahead> {
        loop {
            let base = self.look(side)?;
            let own = match side {
                Side::Front => self.own.first_in(&self.trees, &self.lo, &self.hi),
                Side::Back => self.own.last_in(&self.trees, &self.lo, &self.hi),
            };
            let own = own.cloned();
            let Some((base_first, own_first)) = first(base, own.as_ref(), side) else {
                return Ok(None);
            };
            let ahead = match side {
                Side::Front => &mut self.front,
                Side::Back => &mut self.back,
            };
            let below = if base_first { ahead.take() } else { None };
            let Some(key) = own.filter(|_| own_first) else { return Ok(below) };
            // The next step begins behind this key.
            match side {
                Side::Front => self.lo = Bound::Excluded(key.clone()),
                Side::Back => self.hi = Bound::Excluded(key.clone()),
            }
            let below = || below.map(|(_, value)| value).transpose();
            let say = self.own.say(self.trees[self.info.region_of(&key)], &key, self.now)?;
            if let Some(value) = say.value(&self.info.made().rules, &key, below).transpose() {
                return Ok(Some((key, value)));
            }
        }
    }

    fn next_from(&mut self, side: Side) -> Option<Result<(Bytes, Bytes)>> {
        if self.finished {
            return None;
        }
        let step = self.place.clone().and_then(|place| Ok((place, self.step(side)?)));
        self.failed = None;
        self.finished = !matches!(step, Ok((_, Some(_))));
        let place = self.place.as_ref().copied().unwrap_or(usize::MAX);
        let key = step.as_ref().ok().and_then(|(_, pair)| Some(&pair.as_ref()?.0));
        self.reads.lock().walked(place, side == Side::Front, key);
        if let (Side::Back, Some(key)) = (side, key) {
            self.hi = Bound::Excluded(key.clone());
        }
        match step {
            Ok((_, Some((key, Ok(value))))) => Some(Ok((key, value))),
            Ok((_, Some((key, Err(error))))) => {
                self.failed = Some(key);
                Some(Err(error))
            }
            Ok((_, None)) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Whether the next key of a side is the snapshot's, and whether it is an own one. Both are true if
/// the keys are equal. None at the end.
fn first(base: Option<Bytes>, own: Option<&Bytes>, side: Side) -> Option<(bool, bool)> {
    let (base, own) = match (&base, own) {
        (None, None) => return None,
        (Some(_), None) => return Some((true, false)),
        (None, Some(_)) => return Some((false, true)),
        (Some(base), Some(own)) => (base, own),
    };
    let order = match side {
        Side::Front => base.cmp(own),
        Side::Back => own.cmp(base),
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
