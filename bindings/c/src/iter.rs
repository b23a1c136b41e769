//! Iterators: the pairs of a range in the order of their keys, from both ends.
//!
//! An iterator shows the store as of one moment: that of its snapshot or transaction, or of its
//! creation. It returns pairs from the front and from the back. The two ends meet, and no pair is
//! returned twice.

use crate::buffer::vlsm_slice;
use crate::call::{bytes, call, changed, free, give, out};
use crate::error::vlsm_error;
use crate::keyspace::{range, vlsm_keyspace};
use crate::snapshot::{perhaps, vlsm_snapshot};
use engine::{Bytes, Iter, TransactionIter};
use vlsm_handle::Owned;

/// An iterator. Until it is freed, it keeps the data that it shows on the disk, and the store open.
pub struct vlsm_iter(Owned<State>);

/// The pairs of an iterator of the engine.
pub(crate) trait Pairs:
    DoubleEndedIterator<Item = engine::Result<(Bytes, Bytes)>> + Send
{
    /// Moves the front to the first pair at or after a key.
    fn seek(&mut self, key: &[u8]);
}

impl Pairs for Iter {
    fn seek(&mut self, key: &[u8]) {
        Self::seek(self, key);
    }
}

impl Pairs for TransactionIter {
    fn seek(&mut self, key: &[u8]) {
        Self::seek(self, key);
    }
}

/// An iterator with the pair that it returned last.
pub(crate) struct State {
    pairs: Box<dyn Pairs>,
    last: Option<(Bytes, Bytes)>,
}

impl vlsm_iter {
    pub(crate) fn new(pairs: impl Pairs + 'static) -> Self {
        Self(Owned::new(State { pairs: Box::new(pairs), last: None }))
    }
}

/// Iterates over the keys from `lo` (inclusive) to `hi` (exclusive), in the present state or a
/// snapshot. A NULL limit means no limit, a NULL snapshot the present state.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_iter_new(
    keyspace: *const vlsm_keyspace,
    snapshot: *const vlsm_snapshot,
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
    iter: *mut *mut vlsm_iter,
) -> *mut vlsm_error {
    unsafe {
        give(iter, || {
            let (keyspace, range) = (vlsm_keyspace::of(keyspace)?, range(lo, hi)?);
            let pairs = match perhaps(snapshot)? {
                Some(snapshot) => snapshot.range(keyspace, range),
                None => keyspace.range(range),
            };
            Ok(vlsm_iter::new(pairs))
        })
    }
}

/// Iterates over the keys that begin with a prefix. Otherwise like vlsm_iter_new.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_iter_prefix(
    keyspace: *const vlsm_keyspace,
    snapshot: *const vlsm_snapshot,
    prefix: *const u8,
    prefix_len: usize,
    iter: *mut *mut vlsm_iter,
) -> *mut vlsm_error {
    unsafe {
        give(iter, || {
            let keyspace = vlsm_keyspace::of(keyspace)?;
            let prefix = bytes(prefix, prefix_len, "the prefix")?;
            let pairs = match perhaps(snapshot)? {
                Some(snapshot) => snapshot.prefix(keyspace, prefix),
                None => keyspace.prefix(prefix),
            };
            Ok(vlsm_iter::new(pairs))
        })
    }
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_iter_free(iter: *mut vlsm_iter) {
    unsafe { free(iter) }
}

unsafe fn step(
    iter: *mut vlsm_iter,
    key: *mut vlsm_slice,
    value: *mut vlsm_slice,
    next: impl FnOnce(&mut dyn Pairs) -> Option<engine::Result<(Bytes, Bytes)>>,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (key, value) = (out(key)?, out(value)?);
        (*key, *value) = (vlsm_slice::NONE, vlsm_slice::NONE);
        let state = changed(iter, "the iterator")?.0.get_mut()?;
        state.last = next(&mut *state.pairs).transpose()?;
        if let Some((k, v)) = &state.last {
            (*key, *value) = (vlsm_slice::of(k), vlsm_slice::of(v));
        }
        Ok(())
    })
}

/// Returns the next pair from the front. After the last pair the data of the key is NULL. Key and
/// value are valid until the next call on the iterator. After VLSM_MERGE the next call continues
/// with the next key; after any other error it returns the error again, or the end.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_iter_next(
    iter: *mut vlsm_iter,
    key: *mut vlsm_slice,
    value: *mut vlsm_slice,
) -> *mut vlsm_error {
    unsafe { step(iter, key, value, |pairs| pairs.next()) }
}

/// Returns the next pair from the back. Otherwise like vlsm_iter_next.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_iter_next_back(
    iter: *mut vlsm_iter,
    key: *mut vlsm_slice,
    value: *mut vlsm_slice,
) -> *mut vlsm_error {
    unsafe { step(iter, key, value, |pairs| pairs.next_back()) }
}

/// Moves the front to the first pair at or after a key, forwards or backwards, within the range.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_iter_seek(
    iter: *mut vlsm_iter,
    key: *const u8,
    key_len: usize,
) -> *mut vlsm_error {
    call(|| unsafe {
        let state = changed(iter, "the iterator")?.0.get_mut()?;
        let key = bytes(key, key_len, "the key")?;
        state.pairs.seek(key);
        state.last = None;
        Ok(())
    })
}
