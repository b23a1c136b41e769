//! Iterators over the pairs of a keyspace.
//!
//! If the merge operator cannot combine the operands of a key, the error is returned in the key's
//! place, and the walk continues after the key. It is returned only for a key within the range, and
//! from one end only. After any other error the iterator is at its end.
//!
//! An [`Iter`] holds a registered sequence number and shows the state at that number. It may be
//! walked from both ends, in any order. Each end has a walk of its own, and both stop where they
//! meet. A walk covers one region, on the view that is current when it begins. When the engine ends
//! the walk to release its view (`read/pins`), a new walk continues after the last pair.

use crate::bounds::KeyBounds;
use crate::catalog::KeyspaceInfo;
use crate::held::Held;
use crate::read::merge_cursor::Direction;
use crate::read::pins::{Holds, Pin, Walk};
use crate::read::user_cursor::{Pair, UserCursor};
use crate::shared::latency::Timed;
use crate::trace::Asked;
use crate::write::batch::other_store;
use bytes::Bytes;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
#[cfg(doc)]
use vlsm_core::Error;
use vlsm_core::Result;
use vlsm_core::key::successor;
use vlsm_core::planted::{self, Bug};

/// Pairs of a keyspace in key order, as of one moment.
///
/// After an error the iterator is at its end: it never skips data that it could not read. There are
/// two exceptions: [`Error::MergeFailed`] and [`Error::UnknownMergeOperator`] concern one key,
/// whose operands the keyspace's merge operator could not combine. [`Iter::failed_key`] is that
/// key, and the iterator continues after it, in both directions.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// use vlsm::{Db, Error, KeyspaceOptions};
///
/// let db = Db::open(folder.path().join("store"))?;
/// let sums = db.create_keyspace("sums", KeyspaceOptions::new().merge_operator("add"))?;
/// sums.put("b", "no number")?;
/// for key in ["a", "b", "c"] {
///     sums.merge(key, 1u64.to_le_bytes())?;
/// }
/// let (mut read, mut failed) = (0, Vec::new());
/// let mut pairs = sums.iter();
/// while let Some(pair) = pairs.next() {
///     match pair {
///         Ok(_) => read += 1,
///         Err(Error::MergeFailed { .. }) => failed.extend(pairs.failed_key().cloned()),
///         Err(error) => return Err(error),
///     }
/// }
/// assert_eq!((read, failed), (2, vec!["b".into()]));
/// # drop(pairs);
/// # db.close()
/// # }
/// ```
pub struct Iter {
    info: Arc<KeyspaceInfo>,
    held: Arc<Held>,
    pin: Pin,
    lo: Bound<Bytes>,
    hi: Bound<Bytes>,
    front: End,
    back: End,
    finished: bool,
    /// The key of the error that was returned last.
    failed: Option<Bytes>,
    /// The time at which the iterator began, if a trace runs, and the number of pairs returned so
    /// far.
    begun: Option<Duration>,
    returned: u64,
}

/// The position of one end of an iterator.
struct End {
    /// The bound at which the walk starts.
    from: Bound<Bytes>,
    region: usize,
    /// The key that was returned last, if `returned`.
    key: Vec<u8>,
    returned: bool,
}

impl End {
    fn at(keyspace: &KeyspaceInfo, from: Bound<Bytes>, unbounded: usize) -> Self {
        let region = match &from {
            Bound::Included(key) | Bound::Excluded(key) => keyspace.region_of(key),
            Bound::Unbounded => unbounded,
        };
        Self { from, region, key: Vec::new(), returned: false }
    }

    /// The bound from which a walk continues: behind the key that was returned last.
    fn resume(&self) -> Bound<&[u8]> {
        match self.last() {
            Some(key) => Bound::Excluded(key),
            None => self.from.as_ref().map(|key| &key[..]),
        }
    }

    /// The key that was returned last.
    #[inline]
    fn last(&self) -> Option<&[u8]> {
        self.returned.then_some(&self.key[..])
    }

    /// Remembers the key that was returned. The key is copied, because a second owner of the
    /// caller's key would cost an allocation.
    #[inline]
    fn set_last(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.returned = true;
    }
}

impl Iter {
    pub(crate) fn new(
        keyspace: &Arc<KeyspaceInfo>,
        held: Arc<Held>,
        range: impl KeyBounds,
    ) -> Self {
        let (lo, hi) = range.key_bounds();
        Self::within(keyspace, held, lo, hi)
    }

    pub(crate) fn with_prefix(
        keyspace: &Arc<KeyspaceInfo>,
        held: Arc<Held>,
        prefix: &[u8],
    ) -> Self {
        let hi = match successor(prefix).map(Bytes::from) {
            Some(end) => Bound::Excluded(end),
            None => Bound::Unbounded,
        };
        Self::within(keyspace, held, Bound::Included(Bytes::copy_from_slice(prefix)), hi)
    }

    fn within(
        keyspace: &Arc<KeyspaceInfo>,
        held: Arc<Held>,
        lo: Bound<Bytes>,
        hi: Bound<Bytes>,
    ) -> Self {
        let front = End::at(keyspace, lo.clone(), 0);
        let back = End::at(keyspace, hi.clone(), keyspace.region_count() - 1);
        let finished = is_empty(&lo, &hi);
        let engine = &held.engine;
        engine.shared.counters.reads.mine().scans.add(1);
        engine.reader.admit(1);
        let pin = Pin::new(&engine.reader);
        let begun = engine.shared.tracer.is_on().then(|| engine.shared.env.now());
        let (info, returned, failed) = (keyspace.clone(), 0, None);
        Self { info, held, pin, lo, hi, front, back, finished, failed, begun, returned }
    }

    /// Another iterator over the same state of the keyspace.
    pub(crate) fn again(&self, lo: Bound<Bytes>, hi: Bound<Bytes>) -> Self {
        Self::within(&self.info, self.held.clone(), lo, hi)
    }

    /// The key whose operands could not be combined, if the last result was [`Error::MergeFailed`]
    /// or [`Error::UnknownMergeOperator`]; otherwise none. A put or delete of the key makes it
    /// readable again.
    #[must_use]
    pub fn failed_key(&self) -> Option<&Bytes> {
        self.failed.as_ref()
    }

    /// Moves the front to the first pair at or after `key`, forwards or backwards, within the
    /// iterator's range. The back stays where it is.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let key = Bytes::copy_from_slice(key.as_ref());
        let below = match &self.lo {
            Bound::Included(lo) => key < *lo,
            Bound::Excluded(lo) => key <= *lo,
            Bound::Unbounded => false,
        };
        let from = if below { self.lo.clone() } else { Bound::Included(key) };
        self.finished = is_empty(&from, &self.hi);
        self.failed = None;
        self.front = End::at(&self.info, from, 0);
        self.pin.lock().front = None;
    }

    /// A walk over an end's region, from the position of the end.
    fn walk(&self, end: &End, direction: Direction) -> Result<Walk> {
        let engine = &self.held.engine;
        if self.info.store != engine.shared.store_uid {
            return Err(other_store());
        }
        let (tree, kept) = self.held.tree(&self.info, end.region)?;
        let since = (!kept).then(|| engine.shared.env.now());
        let at = self.held.at;
        let cursor = UserCursor::new(&tree, engine.reader.tables(), at, direction, end.resume())?;
        Ok(Walk { cursor, tree, since })
    }

    /// The next pair of an end's region; none after the last one.
    fn step(&self, direction: Direction) -> Result<Option<Pair>> {
        self.held.engine.shared.health.check_open()?;
        let mut holds = self.pin.lock();
        let (walk, end) = match direction {
            Direction::Forward => (&mut holds.front, &self.front),
            Direction::Backward => (&mut holds.back, &self.back),
        };
        let mut started = None;
        let walk = match walk {
            Some(walk) => walk,
            None => {
                started = self.held.engine.shared.begin(Timed::Seek);
                walk.insert(self.walk(end, direction)?)
            }
        };
        let pair = walk.cursor.next_pair()?;
        self.held.engine.shared.end(started);
        if pair.is_none() {
            match direction {
                Direction::Forward => holds.front = None,
                Direction::Backward => holds.back = None,
            }
        }
        Ok(pair)
    }

    fn advance_front(&mut self) -> Result<Option<Pair>> {
        while self.front.region <= self.back.region {
            if let Some((key, value)) = self.step(Direction::Forward)? {
                let past_end = match &self.hi {
                    Bound::Included(hi) => key > *hi,
                    Bound::Excluded(hi) => key >= *hi,
                    Bound::Unbounded => false,
                };
                let met = self.back.last().is_some_and(|back| key >= *back);
                return Ok((!past_end && !met).then_some((key, value)));
            }
            self.front.region += 1;
        }
        Ok(None)
    }

    fn advance_back(&mut self) -> Result<Option<Pair>> {
        loop {
            if let Some((key, value)) = self.step(Direction::Backward)? {
                let past_end = match &self.front.from {
                    Bound::Included(lo) => key < *lo,
                    Bound::Excluded(lo) => key <= *lo,
                    Bound::Unbounded => false,
                };
                let met = self.front.last().is_some_and(|front| key <= *front);
                return Ok((!past_end && !met).then_some((key, value)));
            }
            if self.back.region <= self.front.region {
                return Ok(None);
            }
            self.back.region -= 1;
        }
    }

    /// Returns the outcome of a step, and records the end or the failed key.
    fn outcome(&mut self, step: Result<Option<Pair>>) -> Option<Result<(Bytes, Bytes)>> {
        let goes_on = step.is_err() && planted::is(Bug::IteratorPastError);
        self.finished = !matches!(step, Ok(Some(_))) && !goes_on;
        if self.finished {
            *self.pin.lock() = Holds::default();
        }
        self.failed = None;
        match step.transpose()? {
            Ok((key, Ok(value))) => {
                self.returned += 1;
                Some(Ok((key, value)))
            }
            Ok((key, Err(error))) => {
                self.failed = Some(key);
                Some(Err(error))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl Drop for Iter {
    /// Records the scan, if a trace runs.
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            let key = match &self.lo {
                Bound::Included(key) | Bound::Excluded(key) => &key[..],
                Bound::Unbounded => &[],
            };
            // If the keyspace was dropped since, the scan is not traced.
            let Ok(tree) = self.info.tree_of(key) else { return };
            let scan = (tree, Asked::Scan(self.returned), key);
            let shared = &self.held.engine.shared;
            shared.tracer.record(&shared.io, begun, [scan].into_iter());
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let step = self.advance_front();
        if let Ok(Some((key, _))) = &step {
            self.front.set_last(key);
        }
        self.outcome(step)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let step = self.advance_back();
        if let Ok(Some((key, _))) = &step {
            self.back.set_last(key);
        }
        self.outcome(step)
    }
}

impl std::iter::FusedIterator for Iter {}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("keyspace", &self.info.name()).finish_non_exhaustive()
    }
}

/// The number of pairs that are left.
pub(crate) fn count(mut pairs: impl Iterator<Item = Result<(Bytes, Bytes)>>) -> Result<u64> {
    pairs.try_fold(0, |count, pair| pair.map(|_| count + 1))
}

pub(crate) fn is_empty(lo: &Bound<Bytes>, hi: &Bound<Bytes>) -> bool {
    match (lo, hi) {
        (Bound::Included(lo), Bound::Included(hi)) => lo > hi,
        (Bound::Included(lo) | Bound::Excluded(lo), Bound::Included(hi) | Bound::Excluded(hi)) => {
            lo >= hi
        }
        _ => false,
    }
}
