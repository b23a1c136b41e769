//! Keyspaces: reads and writes of single keys, and operations on ranges and whole keyspaces.
//!
//! A read sees the present state, or that of a snapshot. A write returns when its durability says
//! so; see `vlsm_write_options`.

use crate::buffer::{vlsm_bytes, vlsm_slice};
use crate::call::{Outcome, array, bytes, call, free, out, pair, shared, text};
use crate::error::{Failure, vlsm_error};
use crate::options::{keyspace_options, vlsm_keyspace_options, vlsm_write_options, write_options};
use crate::snapshot::{perhaps, vlsm_snapshot};
use engine::{Bytes, Keyspace};
use std::ffi::c_char;
use std::ops::Bound;
use std::time::Duration;
use vlsm_handle::Owned;

/// A keyspace of an open store.
pub struct vlsm_keyspace(Owned<Keyspace>);

impl vlsm_keyspace {
    pub(crate) fn new(keyspace: Keyspace) -> Self {
        Self(Owned::new(keyspace))
    }

    /// The keyspace of a handle.
    pub(crate) unsafe fn of<'a>(keyspace: *const Self) -> Outcome<&'a Keyspace> {
        Ok(unsafe { shared(keyspace, "the keyspace") }?.0.get()?)
    }
}

/// The range of keys from `lo` (inclusive) to `hi` (exclusive); NULL means no limit.
pub(crate) unsafe fn range(
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
) -> Outcome<(Bound<Bytes>, Bound<Bytes>)> {
    let end = |at: *const vlsm_slice| {
        let Some(at) = (unsafe { at.as_ref() }) else { return Ok::<_, Failure>(None) };
        Ok(Some(Bytes::copy_from_slice(unsafe { at.bytes("an end of the range")? })))
    };
    let (lo, hi) = (end(lo)?, end(hi)?);
    Ok((lo.map_or(Bound::Unbounded, Bound::Included), hi.map_or(Bound::Unbounded, Bound::Excluded)))
}

/// Frees the handle of a keyspace. The keyspace stays in the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_free(keyspace: *mut vlsm_keyspace) {
    unsafe { free(keyspace) }
}

/// Returns the name of a keyspace, with a NUL byte after the end. The caller frees it with
/// vlsm_bytes_free.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_name(
    keyspace: *const vlsm_keyspace,
    name: *mut vlsm_bytes,
) -> *mut vlsm_error {
    call(|| unsafe {
        let name = out(name)?;
        *name = vlsm_bytes::NONE;
        *name = vlsm_bytes::of_text(vlsm_keyspace::of(keyspace)?.name());
        Ok(())
    })
}

/// Renames a keyspace.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_rename(
    keyspace: *const vlsm_keyspace,
    name: *const c_char,
) -> *mut vlsm_error {
    call(|| unsafe { Ok(vlsm_keyspace::of(keyspace)?.rename(text(name, "the name")?)?) })
}

/// Changes the options of a keyspace, except its splits and its merge operator.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_set_options(
    keyspace: *const vlsm_keyspace,
    options: *const vlsm_keyspace_options,
) -> *mut vlsm_error {
    call(|| unsafe { Ok(vlsm_keyspace::of(keyspace)?.set_options(keyspace_options(options)?)?) })
}

/// Removes all data of a keyspace, at the cost of one record.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_clear(keyspace: *const vlsm_keyspace) -> *mut vlsm_error {
    call(|| Ok(unsafe { vlsm_keyspace::of(keyspace)? }.clear()?))
}

/// Sets a key to a value. The key has at most 65,536 bytes, the value at most 2^30.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_put(
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    options: *const vlsm_write_options,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (key, value) = pair(key, key_len, value, value_len)?;
        Ok(vlsm_keyspace::of(keyspace)?.put_with(key, value, write_options(options)?)?)
    })
}

/// Sets a key to a value that expires after `ttl_micros` microseconds.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_put_with_ttl(
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_micros: u64,
    options: *const vlsm_write_options,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (key, value) = pair(key, key_len, value, value_len)?;
        let (ttl, options) = (Duration::from_micros(ttl_micros), write_options(options)?);
        Ok(vlsm_keyspace::of(keyspace)?.put_with_ttl_with(key, value, ttl, options)?)
    })
}

/// Removes a key. An absent key is no error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_delete(
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    options: *const vlsm_write_options,
) -> *mut vlsm_error {
    call(|| unsafe {
        let key = bytes(key, key_len, "the key")?;
        Ok(vlsm_keyspace::of(keyspace)?.delete_with(key, write_options(options)?)?)
    })
}

/// Removes all keys from `lo` (inclusive) to `hi` (exclusive); NULL means no limit. It costs one
/// write for each region.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_delete_range(
    keyspace: *const vlsm_keyspace,
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
    options: *const vlsm_write_options,
) -> *mut vlsm_error {
    call(|| unsafe {
        let range = range(lo, hi)?;
        Ok(vlsm_keyspace::of(keyspace)?.delete_range_with(range, write_options(options)?)?)
    })
}

/// Writes an operand of the keyspace's merge operator, which changes the value without reading it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_merge(
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
    options: *const vlsm_write_options,
) -> *mut vlsm_error {
    call(|| unsafe {
        let operand = bytes(operand, operand_len, "the operand")?;
        let (key, options) = (bytes(key, key_len, "the key")?, write_options(options)?);
        Ok(vlsm_keyspace::of(keyspace)?.merge_with(key, operand, options)?)
    })
}

/// Reads the value of a key, in the present state (NULL) or a snapshot. Its data is NULL if the key
/// is absent. The value is not copied; the caller frees it with vlsm_bytes_free.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_get(
    keyspace: *const vlsm_keyspace,
    snapshot: *const vlsm_snapshot,
    key: *const u8,
    key_len: usize,
    value: *mut vlsm_bytes,
) -> *mut vlsm_error {
    call(|| unsafe {
        let value = out(value)?;
        *value = vlsm_bytes::NONE;
        let (keyspace, key) = (vlsm_keyspace::of(keyspace)?, bytes(key, key_len, "the key")?);
        let found = match perhaps(snapshot)? {
            Some(snapshot) => snapshot.get(keyspace, key)?,
            None => keyspace.get(key)?,
        };
        *value = vlsm_bytes::of(found);
        Ok(())
    })
}

/// Reads the values of many keys as of one moment, in one round. `values` must have room for
/// `count` values; the caller frees each with vlsm_bytes_free. After an error all of them are
/// cleared.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_multi_get(
    keyspace: *const vlsm_keyspace,
    snapshot: *const vlsm_snapshot,
    keys: *const vlsm_slice,
    count: usize,
    values: *mut vlsm_bytes,
) -> *mut vlsm_error {
    call(|| unsafe {
        let keys = array(keys, count, "the keys")?;
        // This checks the pointer. The memory may be uninitialized, so it is only written.
        array(values.cast_const(), count, "the values")?;
        for index in 0..count {
            values.add(index).write(vlsm_bytes::NONE);
        }
        let keyspace = vlsm_keyspace::of(keyspace)?;
        let keys: Outcome<Vec<&[u8]>> = keys.iter().map(|key| key.bytes("a key")).collect();
        let found = match perhaps(snapshot)? {
            Some(snapshot) => snapshot.multi_get(keyspace, keys?),
            None => keyspace.multi_get(keys?),
        };
        let found: Vec<Option<Bytes>> = found.into_iter().collect::<engine::Result<_>>()?;
        for (index, value) in found.into_iter().enumerate() {
            values.add(index).write(vlsm_bytes::of(value));
        }
        Ok(())
    })
}

/// Sets a key to a value if it has the expected one. NULL stands for an absent key, in `expected`
/// and in `new_value`. `*done` says whether the value was as expected; if not, nothing is written.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_compare_and_swap(
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    expected: *const vlsm_slice,
    new_value: *const vlsm_slice,
    options: *const vlsm_write_options,
    done: *mut bool,
) -> *mut vlsm_error {
    call(|| unsafe {
        let done = out(done)?;
        *done = false;
        let value = |of: *const vlsm_slice, what| of.as_ref().map(|of| of.bytes(what)).transpose();
        let (expected, new) = (value(expected, "expected")?, value(new_value, "new_value")?);
        let (key, options) = (bytes(key, key_len, "the key")?, write_options(options)?);
        let keyspace = vlsm_keyspace::of(keyspace)?;
        *done = keyspace.compare_and_swap_with(key, expected, new, options)?.is_ok();
        Ok(())
    })
}

/// Compacts a range of keys down to the last level and waits until that is done. The limits are
/// those of vlsm_delete_range.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_compact_range(
    keyspace: *const vlsm_keyspace,
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
) -> *mut vlsm_error {
    call(|| unsafe { Ok(vlsm_keyspace::of(keyspace)?.compact_range(range(lo, hi)?)?) })
}

/// Estimates the bytes and the number of entries in a range of keys. The limits are those of
/// vlsm_delete_range.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_approximate_size(
    keyspace: *const vlsm_keyspace,
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
    size: *mut u64,
    entries: *mut u64,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (size, entries) = (out(size)?, out(entries)?);
        (*size, *entries) = (0, 0);
        let found = vlsm_keyspace::of(keyspace)?.approximate_size(range(lo, hi)?)?;
        (*size, *entries) = (found.bytes.0, found.entries);
        Ok(())
    })
}
