//! Transactions: reads and writes that take effect together, as if no other write came in between.
//!
//! A commit fails with `VLSM_CONFLICT`, and writes nothing, if data that the transaction read was
//! changed. The caller then begins a new transaction and repeats the work.

use crate::buffer::{vlsm_bytes, vlsm_slice};
use crate::call::{Outcome, bytes, call, changed, free, give, out, pair};
use crate::db::{store, vlsm_db};
use crate::error::{Failure, vlsm_error};
use crate::iter::vlsm_iter;
use crate::keyspace::{range, vlsm_keyspace};
use crate::options::{vlsm_write_options, write_options};
use engine::Transaction;
use std::time::Duration;
use vlsm_handle::Owned;

/// A transaction. After vlsm_transaction_commit it cannot be used any more, but still has to be
/// freed. A transaction that is freed without a commit writes nothing.
pub struct vlsm_transaction(Owned<Option<Transaction>>);

/// The transaction of a handle.
unsafe fn of<'a>(transaction: *mut vlsm_transaction) -> Outcome<&'a mut Transaction> {
    let transaction = unsafe { changed(transaction, "the transaction")? };
    let ended = || Failure::argument("the transaction was committed: begin another one");
    transaction.0.get_mut()?.as_mut().ok_or_else(ended)
}

/// Begins a transaction on the present state of the store.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_new(
    db: *const vlsm_db,
    transaction: *mut *mut vlsm_transaction,
) -> *mut vlsm_error {
    unsafe {
        give(transaction, || Ok(vlsm_transaction(Owned::new(Some(store(db)?.transaction())))))
    }
}

/// Frees a transaction. If it was not committed, none of its writes take effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_free(transaction: *mut vlsm_transaction) {
    unsafe { free(transaction) }
}

/// Reads a key as the transaction has written it, or else as of the begin of the transaction.
/// Otherwise like vlsm_get.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_get(
    transaction: *mut vlsm_transaction,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    value: *mut vlsm_bytes,
) -> *mut vlsm_error {
    call(|| unsafe {
        let value = out(value)?;
        *value = vlsm_bytes::NONE;
        let (keyspace, key) = (vlsm_keyspace::of(keyspace)?, bytes(key, key_len, "the key")?);
        *value = vlsm_bytes::of(of(transaction)?.get(keyspace, key)?);
        Ok(())
    })
}

/// Iterates over a range with the transaction's writes so far. The part of the range that was
/// iterated over counts as read. Otherwise like vlsm_iter_new.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_iter(
    transaction: *mut vlsm_transaction,
    keyspace: *const vlsm_keyspace,
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
    iter: *mut *mut vlsm_iter,
) -> *mut vlsm_error {
    unsafe {
        give(iter, || {
            let (keyspace, range) = (vlsm_keyspace::of(keyspace)?, range(lo, hi)?);
            Ok(vlsm_iter::new(of(transaction)?.range(keyspace, range)))
        })
    }
}

/// Sets a key to a value.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_put(
    transaction: *mut vlsm_transaction,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (key, value) = pair(key, key_len, value, value_len)?;
        Ok(of(transaction)?.put(vlsm_keyspace::of(keyspace)?, key, value)?)
    })
}

/// Sets a key to a value that expires `ttl_micros` microseconds from now.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_put_with_ttl(
    transaction: *mut vlsm_transaction,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_micros: u64,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (key, value) = pair(key, key_len, value, value_len)?;
        let (keyspace, ttl) = (vlsm_keyspace::of(keyspace)?, Duration::from_micros(ttl_micros));
        Ok(of(transaction)?.put_with_ttl(keyspace, key, value, ttl)?)
    })
}

/// Writes an operand of the merge operator, which changes the value without reading it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_merge(
    transaction: *mut vlsm_transaction,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
    operand: *const u8,
    operand_len: usize,
) -> *mut vlsm_error {
    call(|| unsafe {
        let operand = bytes(operand, operand_len, "the operand")?;
        let key = bytes(key, key_len, "the key")?;
        Ok(of(transaction)?.merge(vlsm_keyspace::of(keyspace)?, key, operand)?)
    })
}

/// Removes a key.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_delete(
    transaction: *mut vlsm_transaction,
    keyspace: *const vlsm_keyspace,
    key: *const u8,
    key_len: usize,
) -> *mut vlsm_error {
    call(|| unsafe {
        let key = bytes(key, key_len, "the key")?;
        Ok(of(transaction)?.delete(vlsm_keyspace::of(keyspace)?, key)?)
    })
}

/// Removes a range of keys. The limits are those of vlsm_delete_range.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_delete_range(
    transaction: *mut vlsm_transaction,
    keyspace: *const vlsm_keyspace,
    lo: *const vlsm_slice,
    hi: *const vlsm_slice,
) -> *mut vlsm_error {
    call(|| unsafe {
        Ok(of(transaction)?.delete_range(vlsm_keyspace::of(keyspace)?, range(lo, hi)?)?)
    })
}

/// Sets a savepoint after the writes so far. Savepoints may be nested.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_savepoint(
    transaction: *mut vlsm_transaction,
) -> *mut vlsm_error {
    call(|| Ok(unsafe { of(transaction)? }.savepoint()))
}

/// Undoes the writes since the last savepoint, and removes it.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_rollback_to_savepoint(
    transaction: *mut vlsm_transaction,
) -> *mut vlsm_error {
    call(|| Ok(unsafe { of(transaction)? }.rollback_to_savepoint()?))
}

/// Undoes all writes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_rollback(
    transaction: *mut vlsm_transaction,
) -> *mut vlsm_error {
    call(|| Ok(unsafe { of(transaction)? }.rollback()))
}

/// Commits a transaction. It fails with VLSM_CONFLICT if data that it read was changed. Then
/// nothing is written, and a new transaction can repeat the work.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_transaction_commit(
    transaction: *mut vlsm_transaction,
    options: *const vlsm_write_options,
) -> *mut vlsm_error {
    call(|| unsafe {
        let options = write_options(options)?;
        of(transaction)?;
        let transaction = changed(transaction, "the transaction")?.0.get_mut()?.take();
        transaction.map_or(Ok(()), |transaction| transaction.commit_with(options))?;
        Ok(())
    })
}
