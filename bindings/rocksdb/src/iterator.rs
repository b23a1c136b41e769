//! Iterators: one position that moves in both directions.
//!
//! 1. An iterator of the engine begins at a bound and goes in one direction. A seek, or a step in
//!    the other direction, begins another one over the same snapshot.
//! 2. The writes of a batch or a transaction, if there are any, are merged in: they take precedence
//!    over the store's pairs, and keys that they delete are skipped.
//! 3. The bounds of the read options end the iteration. With `prefix_same_as_start`, so does the
//!    first key whose prefix differs from that of the seek.
//!
//! A tailing iterator reads the newest state at each step.

use crate::bag::Bag;
use crate::batch::index::{At, Index};
use crate::call::{
    Outcome, api, array, bytes, changed, free, give, rocksdb_slice_t, set_error, shared,
};
use crate::options::apply::check_read;
use crate::snapshot::Seen;
use crate::status::{Failure, Kind};
use crate::store::{
    Family, Store, family_of, place, rocksdb_column_family_handle_t, rocksdb_t, store,
};
use engine::{Bytes, Iter, Snapshot};
use parking_lot::Mutex;
use std::ffi::c_char;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;
use vlsm_handle::Owned;

type Handle = rocksdb_column_family_handle_t;

/// The state that an iterator reads.
pub(crate) struct Cursor {
    pub store: Arc<Store>,
    pub family: Arc<Family>,
    pub snapshot: Snapshot,
    /// Whether the snapshot was given, and stays when the iterator is refreshed.
    pub fixed: bool,
    pub tailing: bool,
    pub lower: Option<Vec<u8>>,
    pub upper: Option<Vec<u8>>,
    pub same_prefix: bool,
    /// Writes that are merged in.
    pub own: Option<Arc<Mutex<Index>>>,
    walk: Option<Walk>,
    /// The current pair: a part of a block or a memtable, or a separate value if it was merged.
    at: Option<(Bytes, Bytes)>,
    prefix: Option<Vec<u8>>,
    failure: Option<Failure>,
}

/// A walk in one direction.
struct Walk {
    forward: bool,
    base: Iter,
    /// The next pair of the engine, once it was read.
    peeked: Option<Option<(Bytes, Bytes)>>,
}

/// The later of two lower bounds.
fn later(a: Bound<Vec<u8>>, lower: Option<&Vec<u8>>) -> Bound<Vec<u8>> {
    match (&a, lower) {
        (_, None) => a,
        (Unbounded, Some(lower)) => Included(lower.clone()),
        (Included(key), Some(lower)) if key < lower => Included(lower.clone()),
        (Excluded(key), Some(lower)) if key < lower => Included(lower.clone()),
        _ => a,
    }
}

/// The earlier of an upper bound and the one, exclusive, of the read options.
fn earlier(a: Bound<Vec<u8>>, upper: Option<&Vec<u8>>) -> Bound<Vec<u8>> {
    match (&a, upper) {
        (_, None) => a,
        (Unbounded, Some(upper)) => Excluded(upper.clone()),
        (Included(key) | Excluded(key), Some(upper)) if key >= upper => Excluded(upper.clone()),
        _ => a,
    }
}

/// Whether a range holds no key at all.
fn empty(lo: &Bound<Vec<u8>>, hi: &Bound<Vec<u8>>) -> bool {
    match (lo, hi) {
        (Included(lo), Included(hi)) => lo > hi,
        (Included(lo) | Excluded(lo), Included(hi) | Excluded(hi)) => lo >= hi,
        _ => false,
    }
}

impl Cursor {
    /// An iterator according to the read options.
    pub(crate) fn new(
        store: &Arc<Store>,
        family: Arc<Family>,
        options: &Bag,
        own: Option<Arc<Mutex<Index>>>,
    ) -> Outcome<Self> {
        let refused = check_read(options).err();
        let seen = options.kept::<Seen>("snapshot");
        let bound = |key| options.kept::<Vec<u8>>(key).map(|bytes| bytes.to_vec());
        Ok(Self {
            fixed: seen.is_some(),
            snapshot: seen.map_or_else(|| store.db.snapshot(), |seen| seen.snapshot.clone()),
            store: store.clone(),
            family,
            tailing: options.flag("tailing"),
            lower: bound("lower_bound"),
            upper: bound("upper_bound"),
            same_prefix: options.flag("prefix_same_as_start"),
            own,
            walk: None,
            at: None,
            prefix: None,
            failure: refused,
        })
    }

    /// The same without a position, for a merge with the writes of a batch.
    pub(crate) fn over(self, own: Arc<Mutex<Index>>, options: Option<&Bag>) -> Self {
        let bound = |key| options?.kept::<Vec<u8>>(key).map(|bytes| bytes.to_vec());
        let (lower, upper) = (bound("lower_bound"), bound("upper_bound"));
        let (lower, upper) = (lower.or(self.lower.clone()), upper.or(self.upper.clone()));
        Self { own: Some(own), walk: None, at: None, lower, upper, ..self }
    }

    /// Shows the newest state from here on.
    fn refresh(&mut self) {
        // Like RocksDB, this also moves an iterator over a snapshot to the newest state.
        (self.snapshot, self.fixed) = (self.store.db.snapshot(), false);
        (self.walk, self.at, self.failure) = (None, None, None);
    }

    /// Begins a walk. `from` is its start: the lower bound forwards, the upper bound backwards.
    fn begin(&mut self, from: Bound<Vec<u8>>, forward: bool) -> bool {
        if self.tailing && !self.fixed {
            self.snapshot = self.store.db.snapshot();
        }
        let (lo, hi) = match forward {
            true => (later(from, self.lower.as_ref()), earlier(Unbounded, self.upper.as_ref())),
            false => (later(Unbounded, self.lower.as_ref()), earlier(from, self.upper.as_ref())),
        };
        self.walk = None;
        if empty(&lo, &hi) {
            return false;
        }
        let base = self.snapshot.range(&self.family.keyspace, (lo, hi));
        self.walk = Some(Walk { forward, base, peeked: None });
        true
    }

    /// Moves to the next pair of the walk, from a place of the writes on.
    fn step(&mut self, mut own_at: At) -> Outcome {
        self.at = None;
        let Some(walk) = &mut self.walk else { return Ok(()) };
        loop {
            if walk.peeked.is_none() {
                let next = if walk.forward { walk.base.next() } else { walk.base.next_back() };
                walk.peeked = Some(next.transpose()?);
            }
            let base = walk.peeked.as_ref().and_then(Option::as_ref);
            let own = self.own.as_ref().and_then(|own| {
                let own = own.lock();
                let (key, entry) = own.next(self.family.id, &own_at, walk.forward)?;
                Some((key.to_vec(), entry.clone()))
            });
            let beyond = |key: &[u8]| match walk.forward {
                true => self.upper.as_ref().is_some_and(|upper| key >= upper.as_slice()),
                false => self.lower.as_ref().is_some_and(|lower| key < lower.as_slice()),
            };
            let own = own.filter(|(key, _)| !beyond(key));
            let Some((key, entry)) = own else {
                let taken = walk.peeked.take().flatten();
                return self.arrive(taken);
            };
            let order = base.map(|(base, _)| match walk.forward {
                true => base[..].cmp(&key[..]),
                false => key[..].cmp(&base[..]),
            });
            if order == Some(std::cmp::Ordering::Less) {
                let taken = walk.peeked.take().flatten();
                return self.arrive(taken);
            }
            let below = match order {
                Some(std::cmp::Ordering::Equal) => walk.peeked.take().flatten(),
                _ => None,
            };
            let below = below.map(|(_, value)| value.to_vec());
            if let Some(value) = entry.value(&self.family, &key, || Ok(below))? {
                return self.arrive(Some((key.into(), value.into())));
            }
            own_at = At::Key(key, false);
        }
    }

    /// Moves to a pair, unless its prefix differs.
    fn arrive(&mut self, pair: Option<(Bytes, Bytes)>) -> Outcome {
        let transform = self.family.prefix.as_ref().filter(|_| self.same_prefix);
        self.at = pair.filter(|(key, _)| match (transform, &self.prefix) {
            (Some(transform), Some(prefix)) => transform.prefix(key).as_ref() == Some(prefix),
            _ => true,
        });
        Ok(())
    }

    fn note(&mut self, outcome: Outcome) {
        if let Err(failure) = outcome {
            (self.at, self.walk, self.failure) = (None, None, Some(failure));
        }
    }

    /// Goes to the first pair at or after a key, or at or before it; none for an end.
    pub(crate) fn seek(&mut self, key: Option<&[u8]>, forward: bool) {
        self.failure = None;
        let transform = self.family.prefix.as_ref().filter(|_| self.same_prefix);
        self.prefix = key.and_then(|key| transform?.prefix(key));
        let from = key.map_or(Unbounded, |key| Included(key.to_vec()));
        let key_of_own = key.filter(|_| self.own.is_some());
        let own_at = |bound: Option<&Vec<u8>>, inclusive: bool| match (key_of_own, bound) {
            (None, None) => At::End,
            (Some(key), None) => At::Key(key.to_vec(), true),
            (None, Some(bound)) => At::Key(bound.clone(), inclusive),
            (Some(key), Some(bound)) => {
                let inside = if forward { key > bound.as_slice() } else { key < bound.as_slice() };
                if inside { At::Key(key.to_vec(), true) } else { At::Key(bound.clone(), inclusive) }
            }
        };
        let own_at = match forward {
            true => own_at(self.lower.as_ref(), true),
            false => own_at(self.upper.as_ref(), false),
        };
        self.at = None;
        if self.begin(from, forward) {
            let outcome = self.step(own_at);
            self.note(outcome);
            // Without a key to seek, the prefix is that of the first pair.
            if let (None, Some((first, _))) = (key, &self.at) {
                let transform = self.family.prefix.as_ref().filter(|_| self.same_prefix);
                self.prefix = transform.and_then(|transform| transform.prefix(first));
            }
        }
    }

    /// Continues from the current pair.
    fn go(&mut self, forward: bool) {
        let Some((key, _)) = self.at.take() else { return };
        let same = self.walk.as_ref().is_some_and(|walk| walk.forward == forward);
        if (same && !self.tailing) || self.begin(Excluded(key.to_vec()), forward) {
            // Without writes to merge in, their place is not looked at.
            let own_at = self.own.as_ref().map_or(At::End, |_| At::Key(key.to_vec(), false));
            let outcome = self.step(own_at);
            self.note(outcome);
        }
    }
}

/// An iterator's handle.
pub struct rocksdb_iterator_t(Owned<Mutex<Cursor>>);

impl rocksdb_iterator_t {
    pub(crate) fn new(cursor: Cursor) -> Self {
        Self(Owned::new(Mutex::new(cursor)))
    }

    /// The cursor, taken out of the handle.
    pub(crate) unsafe fn take(iter: *mut Self) -> Outcome<Cursor> {
        let iter = unsafe { changed(iter, "the iterator")? };
        let cursor = iter.0.get()?.lock();
        let taken = Cursor {
            store: cursor.store.clone(),
            family: cursor.family.clone(),
            snapshot: cursor.snapshot.clone(),
            lower: cursor.lower.clone(),
            upper: cursor.upper.clone(),
            own: cursor.own.clone(),
            walk: None,
            at: None,
            prefix: None,
            failure: cursor.failure.clone(),
            ..*cursor
        };
        drop(cursor);
        // In c.h the callee owns the base iterator.
        drop(unsafe { Box::from_raw(iter) });
        Ok(taken)
    }
}

unsafe fn with<T>(
    iter: *const rocksdb_iterator_t,
    work: impl FnOnce(&mut Cursor) -> Outcome<T>,
) -> Outcome<T> {
    work(&mut unsafe { shared(iter, "the iterator")? }.0.get()?.lock())
}

/// The bytes of a piece of the current pair: they belong to the iterator until it moves.
unsafe fn piece(iter: *const rocksdb_iterator_t, value: bool) -> Outcome<rocksdb_slice_t> {
    unsafe {
        with(iter, |cursor| {
            let pair = cursor.at.as_ref();
            let piece = pair.map(|(key, val)| if value { val } else { key });
            Ok(piece.map_or(rocksdb_slice_t::NONE, |bytes| rocksdb_slice_t::of(bytes)))
        })
    }
}

unsafe fn piece_to(
    iter: *const rocksdb_iterator_t,
    value: bool,
    len: *mut usize,
) -> Outcome<*const c_char> {
    unsafe {
        let piece = piece(iter, value)?;
        if let Some(len) = len.as_mut() {
            *len = piece.size;
        }
        Ok(piece.data)
    }
}

api! {
    fn rocksdb_create_iterator(
        db: *mut rocksdb_t, options: *const Bag,
    ) -> *mut rocksdb_iterator_t {
        let store = store(db)?;
        let options = shared(options, "the read options")?;
        Ok(give(rocksdb_iterator_t::new(Cursor::new(store, store.main()?, options, None)?)))
    }

    fn rocksdb_create_iterator_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
    ) -> *mut rocksdb_iterator_t {
        let (store, family) = place(db, family)?;
        let options = shared(options, "the read options")?;
        Ok(give(rocksdb_iterator_t::new(Cursor::new(store, family, options, None)?)))
    }

    fallible fn rocksdb_create_iterators(
        db: *mut rocksdb_t, options: *mut Bag, families: *mut *mut Handle,
        iterators: *mut *mut rocksdb_iterator_t, number: usize,
    ) {
        let store = store(db)?;
        let options = shared(options, "the read options")?;
        check_read(options)?;
        // All show the same moment.
        let snapshot = store.db.snapshot();
        let mut cursors = Vec::new();
        for family in array(families, number)? {
            let mut cursor = Cursor::new(store, family_of(store, *family)?, options, None)?;
            if !cursor.fixed {
                cursor.snapshot = snapshot.clone();
            }
            cursors.push(cursor);
        }
        array(iterators, number)?;
        for (at, cursor) in cursors.into_iter().enumerate() {
            iterators.add(at).write(give(rocksdb_iterator_t::new(cursor)));
        }
        Ok(())
    }

    fn rocksdb_iter_destroy(iter: *mut rocksdb_iterator_t) {
        free(iter)
    }

    fn rocksdb_iter_valid(iter: *const rocksdb_iterator_t) -> u8 {
        with(iter, |cursor| Ok(cursor.at.is_some().into()))
    }

    fn rocksdb_iter_seek_to_first(iter: *mut rocksdb_iterator_t) {
        with(iter, |cursor| Ok(cursor.seek(None, true)))
    }

    fn rocksdb_iter_seek_to_last(iter: *mut rocksdb_iterator_t) {
        with(iter, |cursor| Ok(cursor.seek(None, false)))
    }

    fn rocksdb_iter_seek(iter: *mut rocksdb_iterator_t, key: *const c_char, len: usize) {
        with(iter, |cursor| Ok(cursor.seek(Some(bytes(key, len)?), true)))
    }

    fn rocksdb_iter_seek_for_prev(iter: *mut rocksdb_iterator_t, key: *const c_char, len: usize) {
        with(iter, |cursor| Ok(cursor.seek(Some(bytes(key, len)?), false)))
    }

    fn rocksdb_iter_next(iter: *mut rocksdb_iterator_t) {
        with(iter, |cursor| Ok(cursor.go(true)))
    }

    fn rocksdb_iter_prev(iter: *mut rocksdb_iterator_t) {
        with(iter, |cursor| Ok(cursor.go(false)))
    }

    fn rocksdb_iter_key(iter: *const rocksdb_iterator_t, len: *mut usize) -> *const c_char {
        piece_to(iter, false, len)
    }

    fn rocksdb_iter_value(iter: *const rocksdb_iterator_t, len: *mut usize) -> *const c_char {
        piece_to(iter, true, len)
    }

    fn rocksdb_iter_key_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        piece(iter, false)
    }

    fn rocksdb_iter_value_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        piece(iter, true)
    }

    fn rocksdb_iter_timestamp(iter: *const rocksdb_iterator_t, len: *mut usize) -> *const c_char {
        let _ = iter;
        if let Some(len) = len.as_mut() {
            *len = 0;
        }
        // No entry has a timestamp, but programs make a slice of the pointer nevertheless.
        Ok(c"".as_ptr())
    }

    fn rocksdb_iter_get_error(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        let failure = match with(iter, |cursor| Ok(cursor.failure.clone())) {
            Ok(failure) => failure,
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            set_error(errptr, &failure);
        }
        Ok(())
    }

    fallible fn rocksdb_iter_refresh(iter: *const rocksdb_iterator_t) {
        with(iter, |cursor| match cursor.own.is_some() {
            true => Err(Failure::new(Kind::NotSupported, "Refresh() is not supported")),
            false => Ok(cursor.refresh()),
        })
    }
}
