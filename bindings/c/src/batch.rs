//! Batches: writes, in any keyspaces of one store, that take effect together or not at all.
//!
//! An invalid write, such as one with too long a key, is reported when the batch is written. Then
//! nothing of the batch is written.

use crate::buffer::vlsm_slice;
use crate::call::{bytes, call, changed, free, pair, shared};
use crate::db::{store, vlsm_db};
use crate::error::vlsm_error;
use crate::keyspace::{range, vlsm_keyspace};
use crate::options::{vlsm_write_options, write_options};
use engine::{Batch, Keyspace};
use std::time::Duration;
use vlsm_handle::Owned;

/// A batch.
pub struct vlsm_batch(Owned<Batch>);

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn vlsm_batch_new() -> *mut vlsm_batch {
    Box::into_raw(Box::new(vlsm_batch(Owned::new(Batch::new()))))
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_batch_free(batch: *mut vlsm_batch) {
    unsafe { free(batch) }
}

/// Removes all writes of a batch.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_batch_clear(batch: *mut vlsm_batch) -> *mut vlsm_error {
    call(|| {
        *unsafe { changed(batch, "the batch")? }.0.get_mut()? = Batch::new();
        Ok(())
    })
}

unsafe fn add(
    batch: *mut vlsm_batch,
    keyspace: *const vlsm_keyspace,
    change: impl FnOnce(&mut Batch, &Keyspace) -> crate::call::Outcome,
) -> *mut vlsm_error {
    call(|| unsafe {
        change(changed(batch, "the batch")?.0.get_mut()?, vlsm_keyspace::of(keyspace)?)
    })
}

/// Adds a put.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_batch_put(
    batch: *mut vlsm_batch,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> *mut vlsm_error {
    unsafe {
        add(batch, keyspace, |batch, keyspace| {
            let (key, value) = pair(key, key_len, value, value_len)?;
            batch.put(keyspace, key, value);
            Ok(())
        })
    }
}

/// Adds a put of a value that expires `ttl_micros` microseconds after the write.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_batch_put_with_ttl(
    batch: *mut vlsm_batch,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_micros: u64,
) -> *mut vlsm_error {
    unsafe {
        add(batch, keyspace, |batch, keyspace| {
            let (key, value) = pair(key, key_len, value, value_len)?;
            batch.put_with_ttl(keyspace, key, value, Duration::from_micros(ttl_micros));
            Ok(())
        })
    }
}

/// Adds an operand of the keyspace's merge operator.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_batch_merge(
    batch: *mut vlsm_batch,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
) -> *mut vlsm_error {
    unsafe {
        add(batch, keyspace, |batch, keyspace| {
            let operand = bytes(operand, operand_len, "the operand")?;
            batch.merge(keyspace, bytes(key, key_len, "the key")?, operand);
            Ok(())
        })
    }
}

/// Adds a delete.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_batch_delete(
    batch: *mut vlsm_batch,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
) -> *mut vlsm_error {
    unsafe {
        add(batch, keyspace, |batch, keyspace| {
            batch.delete(keyspace, bytes(key, key_len, "the key")?);
            Ok(())
        })
    }
}

/// Adds a delete of all keys from `lo` (inclusive) to `hi` (exclusive). NULL means no limit.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_batch_delete_range(
    batch: *mut vlsm_batch,
    keyspace: *const vlsm_keyspace,
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
) -> *mut vlsm_error {
    unsafe {
        add(batch, keyspace, |batch, keyspace| {
            batch.delete_range(keyspace, range(lo, hi)?);
            Ok(())
        })
    }
}

/// Writes a batch atomically: all of it or nothing. The batch itself stays unchanged.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_write(
    db: *const vlsm_db,
    batch: *const vlsm_batch,
    options: *const vlsm_write_options,
) -> *mut vlsm_error {
    call(|| unsafe {
        let batch = shared(batch, "the batch")?.0.get()?;
        Ok(store(db)?.write(batch, write_options(options)?)?)
    })
}
