//! Iterators over the pairs of a keyspace.
//!
//! If the merge operator cannot combine the operands of a key, the error is returned in place of
//! the pair, and the walk continues after this key. It is returned only for a key within the range,
//! and from one end only. After any other error the iterator is at its end.
//!
//! An [`Iter`] holds a registered sequence number and shows the state at that number. It may be
//! walked from both ends, in any order. Each end has a walk of its own, and both stop where they
//! meet. A walk covers one region, on the view that is current when it begins. When the engine ends
//! the walk to release its view (`read/pins`), a new walk continues after the last pair.
//!
//! Threads and locks: each step, and each [`PairRef`] until its drop, holds the lock of the
//! iterator's [`Holds`]; the engine only tries it.

use crate::bounds::KeyBounds;
use crate::catalog::KeyspaceInfo;
use crate::held::Held;
use crate::read::merge_cursor::Direction;
use crate::read::pins::{Holds, Pin, Side, Walk};
use crate::read::user_cursor::UserCursor;
use crate::shared::latency::Timed;
use crate::sync::MutexGuard;
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
    scope: Scope,
    pin: Pin,
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

/// The keyspace, the state and the bounds of an iterator.
struct Scope {
    info: Arc<KeyspaceInfo>,
    held: Arc<Held>,
    lo: Bound<Bytes>,
    hi: Bound<Bytes>,
}

/// The position of one end of an iterator. [`Holds`] has the key that was returned last.
struct End {
    region: usize,
    /// The key of the last seek, at which the walk starts instead of at the iterator's bound.
    sought: Option<Bytes>,
}

impl End {
    /// At a bound of the iterator.
    fn at(keyspace: &KeyspaceInfo, bound: &Bound<Bytes>, unbounded: usize) -> Self {
        let region = match bound {
            Bound::Included(key) | Bound::Excluded(key) => keyspace.region_of(key),
            Bound::Unbounded => unbounded,
        };
        Self { region, sought: None }
    }

    /// The bound of the walk, given that of the iterator.
    fn from<'a>(&'a self, bound: &'a Bound<Bytes>) -> Bound<&'a [u8]> {
        match &self.sought {
            Some(key) => Bound::Included(key),
            None => bound.as_ref().map(|key| &key[..]),
        }
    }
}

/// A pair that an iterator lends until its next step ([`Iter::next_ref`]).
///
/// While it exists, the engine cannot take back the memory and the files that the iterator reads,
/// so do not keep it for long. It stays on its thread, because it holds a lock of the iterator; if
/// it is leaked ([`std::mem::forget`]), the iterator's next step waits for ever. To keep the pair
/// itself, call [`PairRef::to_owned`].
pub struct PairRef<'a> {
    holds: MutexGuard<'a, Holds>,
    direction: Direction,
}

impl PairRef<'_> {
    fn cursor(&self) -> &UserCursor {
        match self.direction {
            Direction::Forward => self.holds.front.cursor(),
            Direction::Backward => self.holds.back.cursor(),
        }
    }

    /// The key.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.cursor().key()
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.cursor().value()
    }

    /// Key and value as the iterator's [`next`](Iter::next) returns them: the key copied, the value
    /// shared with the block that holds it.
    #[must_use]
    #[inline]
    pub fn to_owned(&self) -> (Bytes, Bytes) {
        let cursor = self.cursor();
        (Bytes::copy_from_slice(cursor.key()), cursor.value_shared())
    }
}

impl std::fmt::Debug for PairRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairRef").finish_non_exhaustive()
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
        let front = End::at(keyspace, &lo, 0);
        let back = End::at(keyspace, &hi, keyspace.region_count() - 1);
        let finished = is_empty(&lo, &hi);
        let engine = &held.engine;
        engine.shared.counters.reads.mine().scans.add(1);
        engine.reader.admit(1);
        let pin = Pin::new(&engine.reader);
        let begun = engine.shared.tracer.is_on().then(|| engine.shared.env.now());
        let scope = Scope { info: keyspace.clone(), held, lo, hi };
        Self { scope, pin, front, back, finished, failed: None, begun, returned: 0 }
    }

    /// Another iterator over the same state of the keyspace.
    pub(crate) fn again(&self, lo: Bound<Bytes>, hi: Bound<Bytes>) -> Self {
        Self::within(&self.scope.info, self.scope.held.clone(), lo, hi)
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
        let Scope { info, lo, hi, .. } = &self.scope;
        let key = Bytes::copy_from_slice(key.as_ref());
        self.front = match is_empty(lo, &Bound::Included(&key)) {
            // The key is before the range.
            true => End::at(info, lo, 0),
            false => End { region: info.region_of(&key), sought: Some(key) },
        };
        self.finished = is_empty(&self.front.from(lo), hi);
        self.failed = None;
        self.pin.lock().front = Side::default();
    }

    /// The next pair, lent instead of owned: nothing is allocated for it and the value is not
    /// copied, so a scan takes less time. Otherwise as [`next`](Self::next), with which it may
    /// alternate.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, [1; 10])?;
    /// }
    /// let mut bytes = 0;
    /// let mut pairs = db.range("b"..);
    /// while let Some(pair) = pairs.next_ref() {
    ///     let pair = pair?;
    ///     bytes += pair.key().len() + pair.value().len();
    /// }
    /// assert_eq!(bytes, 22);
    /// # drop(pairs);
    /// # db.close()
    /// # }
    /// ```
    pub fn next_ref(&mut self) -> Option<Result<PairRef<'_>>> {
        self.step(Direction::Forward)
    }

    /// As [`Iter::next_ref`], from the back.
    pub fn next_back_ref(&mut self) -> Option<Result<PairRef<'_>>> {
        self.step(Direction::Backward)
    }

    /// Moves one end to its next pair.
    #[inline]
    fn step(&mut self, direction: Direction) -> Option<Result<PairRef<'_>>> {
        if self.finished {
            return None;
        }
        let mut holds = self.pin.lock();
        let moved = match direction {
            Direction::Forward => self.scope.next(&mut self.front, &self.back, &mut holds),
            Direction::Backward => self.scope.next_back(&mut self.back, &self.front, &mut holds),
        };
        self.failed = None;
        if !matches!(moved, Ok(true)) {
            self.finished = moved.is_ok() || !planted::is(Bug::IteratorPastError);
            if self.finished {
                holds.release();
            }
            return moved.err().map(Err);
        }
        let pair = PairRef { holds, direction };
        if let Some(error) = pair.cursor().failure() {
            self.failed = Some(Bytes::copy_from_slice(pair.key()));
            return Some(Err(error.clone()));
        }
        self.returned += 1;
        Some(Ok(pair))
    }
}

impl Scope {
    /// Moves the front to the next pair, and returns whether there is one before the back.
    fn next(&self, front: &mut End, back: &End, holds: &mut Holds) -> Result<bool> {
        while front.region <= back.region {
            if self.advance(front, holds, Direction::Forward)? {
                let key = holds.front.at();
                let past_end = is_empty(&Bound::Included(key), &self.hi);
                let inside = !past_end && holds.back.last().is_none_or(|back| key < back);
                if inside {
                    holds.front.note_last();
                }
                return Ok(inside);
            }
            front.region += 1;
        }
        Ok(false)
    }

    /// The same for the back.
    fn next_back(&self, back: &mut End, front: &End, holds: &mut Holds) -> Result<bool> {
        loop {
            if self.advance(back, holds, Direction::Backward)? {
                let key = holds.back.at();
                let past_end = is_empty(&front.from(&self.lo), &Bound::Included(key));
                let inside = !past_end && holds.front.last().is_none_or(|front| key > front);
                if inside {
                    holds.back.note_last();
                }
                return Ok(inside);
            }
            if back.region <= front.region {
                return Ok(false);
            }
            back.region -= 1;
        }
    }

    /// Moves the walk of an end on, and begins it if necessary. Returns false after the last pair
    /// of the end's region.
    #[inline]
    fn advance(&self, end: &End, holds: &mut Holds, direction: Direction) -> Result<bool> {
        let shared = &self.held.engine.shared;
        shared.health.check_open()?;
        let side = holds.side(direction);
        let mut started = None;
        if side.walk.is_none() {
            started = shared.begin(Timed::Seek);
            side.walk = Some(self.walk(end, side.last(), direction)?);
        }
        let walk = side.walk.as_mut().expect("it has begun");
        let any = walk.cursor.advance()?;
        shared.end(started);
        if !any {
            side.walk = None;
        }
        Ok(any)
    }

    /// A walk over an end's region, from behind the key that was returned last.
    fn walk(&self, end: &End, last: Option<&[u8]>, direction: Direction) -> Result<Walk> {
        let engine = &self.held.engine;
        if self.info.store != engine.shared.store_uid {
            return Err(other_store());
        }
        let (tree, kept) = self.held.tree(&self.info, end.region)?;
        let since = (!kept).then(|| engine.shared.env.now());
        let from = match (last, direction) {
            (Some(key), _) => Bound::Excluded(key),
            (None, Direction::Forward) => end.from(&self.lo),
            (None, Direction::Backward) => end.from(&self.hi),
        };
        let (reads, at) = ((engine.reader.fetcher(), &self.info.habits), self.held.at);
        let cursor = UserCursor::new(&tree, reads, at, direction, from)?;
        Ok(Walk { cursor, tree, since })
    }
}

impl Drop for Iter {
    /// Records the scan, if a trace runs.
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            let Scope { info, held, lo, .. } = &self.scope;
            let key = match lo {
                Bound::Included(key) | Bound::Excluded(key) => &key[..],
                Bound::Unbounded => &[],
            };
            // If the keyspace was dropped since, the scan is not traced.
            let Ok(tree) = info.tree_of(key) else { return };
            let scan = (tree, Asked::Scan(self.returned), key);
            let shared = &held.engine.shared;
            shared.tracer.record(&shared.io, begun, [scan].into_iter());
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward).map(|pair| pair.map(|pair| pair.to_owned()))
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Backward).map(|pair| pair.map(|pair| pair.to_owned()))
    }
}

impl std::iter::FusedIterator for Iter {}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("keyspace", &self.scope.info.name()).finish_non_exhaustive()
    }
}

/// The number of pairs that are left.
pub(crate) fn count(mut pairs: Iter) -> Result<u64> {
    let mut count = 0;
    while let Some(pair) = pairs.next_ref() {
        pair?;
        count += 1;
    }
    Ok(count)
}

/// Whether no key lies between two bounds.
#[inline]
pub(crate) fn is_empty<Lo, Hi>(lo: &Bound<Lo>, hi: &Bound<Hi>) -> bool
where
    Lo: AsRef<[u8]>,
    Hi: AsRef<[u8]>,
{
    match (lo, hi) {
        (Bound::Included(lo), Bound::Included(hi)) => lo.as_ref() > hi.as_ref(),
        (Bound::Included(lo) | Bound::Excluded(lo), Bound::Included(hi) | Bound::Excluded(hi)) => {
            lo.as_ref() >= hi.as_ref()
        }
        _ => false,
    }
}
