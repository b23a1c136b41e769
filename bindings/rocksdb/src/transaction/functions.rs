//! `rocksdb_transaction_*`: reads, writes, savepoints and the end of a transaction.
//!
//! Two handles that a program gets here are freed by `rocksdb_free`, which runs no destructor: that
//! of the snapshot and that of the batch. They are plain copies of objects that the transaction
//! owns, and are valid until it is freed.

use super::{Txn, of, rocksdb_transaction_t};
use crate::bag::Bag;
use crate::batch::rep::Op;
use crate::batch::{pair, rocksdb_writebatch_t, rocksdb_writebatch_wi_t};
use crate::call::{Outcome, api, bytes, free, give, shared, value_out};
use crate::db::{Places, asked, pinned, rocksdb_pinnableslice_t};
use crate::iterator::{Cursor, rocksdb_iterator_t};
use crate::snapshot::rocksdb_snapshot_t;
use crate::status::Failure;
use crate::store::{Family, family_of, rocksdb_column_family_handle_t};
use std::ffi::c_char;
use std::ptr::{null, null_mut};
use std::sync::Arc;

type Handle = rocksdb_column_family_handle_t;
type Transaction = rocksdb_transaction_t;
type Pinned = rocksdb_pinnableslice_t;

/// A block of `malloc` with the bits of a value that another object owns.
unsafe fn lend<T>(value: &T) -> *mut T {
    unsafe {
        let to = libc::malloc(size_of::<T>()).cast::<T>();
        if !to.is_null() {
            std::ptr::copy_nonoverlapping(value, to, 1);
        }
        to
    }
}

/// Adds a write to a key and a value.
unsafe fn write<'a>(
    txn: *mut Transaction,
    family: *const Handle,
    (key, value): (&'a [u8], &'a [u8]),
    op: fn(u32, &'a [u8], &'a [u8]) -> Op<'a>,
) -> Outcome {
    unsafe {
        let txn = of(txn)?;
        let family = family_of(&txn.store, family)?;
        txn.write(&family, key, op(family.id, key, value))
    }
}

/// Reads a key.
unsafe fn get(
    txn: *mut Transaction,
    options: *const Bag,
    family: *const Handle,
    key: (*const c_char, usize),
    update: bool,
) -> Outcome<Option<Vec<u8>>> {
    unsafe {
        let (txn, options) = (of(txn)?, shared(options, "the read options")?);
        let family = family_of(&txn.store, family)?;
        let key = bytes(key.0, key.1)?;
        match update {
            true => txn.get_for_update(&family, options, key),
            false => txn.get(&family, options, key),
        }
    }
}

/// Reads several keys.
unsafe fn multi_get(
    txn: *mut Transaction,
    options: *const Bag,
    families: *const *const Handle,
    number: usize,
    (keys, lens): (*const *const c_char, *const usize),
    to: Places,
    update: bool,
) -> Outcome {
    let results = || unsafe {
        let (txn, options) = (of(txn)?, shared(options, "the read options")?);
        let asked = asked(&txn.store, families, number, keys, lens)?;
        let get = |(family, key): (Arc<Family>, &[u8])| match update {
            true => txn.get_for_update(&family, options, key),
            false => txn.get(&family, options, key),
        };
        Ok(asked.into_iter().map(get).collect())
    };
    unsafe { to.fill(number, results()) }
}

/// Iterates over the store with the transaction's writes.
unsafe fn iterate(
    txn: *mut Transaction,
    options: *const Bag,
    family: *const Handle,
) -> Outcome<*mut rocksdb_iterator_t> {
    unsafe {
        let (txn, options) = (of(txn)?, shared(options, "the read options")?);
        let family = family_of(&txn.store, family)?;
        let own = Some(txn.writes.index.clone());
        Ok(give(rocksdb_iterator_t::new(Cursor::new(&txn.store, family, options, own)?)))
    }
}

/// Adds the writes of a batch.
fn rebuild(txn: &mut Txn, batch: &crate::batch::rep::WriteBatch) -> Outcome {
    batch.for_engine(&txn.store)?;
    for op in batch.ops() {
        let op = op?;
        let (id, key) = match op {
            Op::Put(id, key, _) | Op::Merge(id, key, _) => (id, key),
            Op::Delete(id, key) | Op::SingleDelete(id, key) => (id, key),
            Op::LogData(_) => continue,
            Op::DeleteRange(..) => {
                return Err(Failure::missing("a transaction does not support range deletes"));
            }
        };
        let family = txn.store.family(id)?;
        txn.write(&family, key, op)?;
    }
    Ok(())
}

api! {
    fallible fn rocksdb_transaction_put(
        txn: *mut Transaction,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(txn, null(), pair((key, key_len), (value, value_len))?, Op::Put)
    }

    fallible fn rocksdb_transaction_put_cf(
        txn: *mut Transaction, family: *mut Handle,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(txn, family, pair((key, key_len), (value, value_len))?, Op::Put)
    }

    fallible fn rocksdb_transaction_merge(
        txn: *mut Transaction,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(txn, null(), pair((key, key_len), (value, value_len))?, Op::Merge)
    }

    fallible fn rocksdb_transaction_merge_cf(
        txn: *mut Transaction, family: *mut Handle,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(txn, family, pair((key, key_len), (value, value_len))?, Op::Merge)
    }

    fallible fn rocksdb_transaction_delete(
        txn: *mut Transaction, key: *const c_char, key_len: usize,
    ) {
        write(txn, null(), (bytes(key, key_len)?, &[]), |id, key, _| Op::Delete(id, key))
    }

    fallible fn rocksdb_transaction_delete_cf(
        txn: *mut Transaction, family: *mut Handle, key: *const c_char, key_len: usize,
    ) {
        write(txn, family, (bytes(key, key_len)?, &[]), |id, key, _| Op::Delete(id, key))
    }

    fn rocksdb_transaction_put_log_data(
        txn: *mut Transaction, data: *const c_char, len: usize,
    ) {
        of(txn)?.writes.add(Op::LogData(bytes(data, len)?));
        Ok(())
    }

    fallible fn rocksdb_transaction_get(
        txn: *mut Transaction, options: *const Bag,
        key: *const c_char, key_len: usize, len: *mut usize,
    ) -> *mut c_char {
        let value = get(txn, options, null(), (key, key_len), false)?;
        Ok(value_out(value.as_deref(), len))
    }

    fallible fn rocksdb_transaction_get_cf(
        txn: *mut Transaction, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, len: *mut usize,
    ) -> *mut c_char {
        let value = get(txn, options, family, (key, key_len), false)?;
        Ok(value_out(value.as_deref(), len))
    }

    fallible fn rocksdb_transaction_get_for_update(
        txn: *mut Transaction, options: *const Bag,
        key: *const c_char, key_len: usize, len: *mut usize, exclusive: u8,
    ) -> *mut c_char {
        let _ = exclusive;
        let value = get(txn, options, null(), (key, key_len), true)?;
        Ok(value_out(value.as_deref(), len))
    }

    fallible fn rocksdb_transaction_get_for_update_cf(
        txn: *mut Transaction, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, len: *mut usize, exclusive: u8,
    ) -> *mut c_char {
        let _ = exclusive;
        let value = get(txn, options, family, (key, key_len), true)?;
        Ok(value_out(value.as_deref(), len))
    }

    fallible fn rocksdb_transaction_get_pinned(
        txn: *mut Transaction, options: *const Bag, key: *const c_char, key_len: usize,
    ) -> *mut Pinned {
        Ok(pinned(get(txn, options, null(), (key, key_len), false)?))
    }

    fallible fn rocksdb_transaction_get_pinned_cf(
        txn: *mut Transaction, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
    ) -> *mut Pinned {
        Ok(pinned(get(txn, options, family, (key, key_len), false)?))
    }

    fallible fn rocksdb_transaction_get_pinned_for_update(
        txn: *mut Transaction, options: *const Bag,
        key: *const c_char, key_len: usize, exclusive: u8,
    ) -> *mut Pinned {
        let _ = exclusive;
        Ok(pinned(get(txn, options, null(), (key, key_len), true)?))
    }

    fallible fn rocksdb_transaction_get_pinned_for_update_cf(
        txn: *mut Transaction, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, exclusive: u8,
    ) -> *mut Pinned {
        let _ = exclusive;
        Ok(pinned(get(txn, options, family, (key, key_len), true)?))
    }

    fn rocksdb_transaction_multi_get(
        txn: *mut Transaction, options: *const Bag, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(txn, options, null(), number, (keys, key_lens), to, false)
    }

    fn rocksdb_transaction_multi_get_cf(
        txn: *mut Transaction, options: *const Bag, families: *const *const Handle, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(txn, options, families, number, (keys, key_lens), to, false)
    }

    fn rocksdb_transaction_multi_get_for_update(
        txn: *mut Transaction, options: *const Bag, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(txn, options, null(), number, (keys, key_lens), to, true)
    }

    fn rocksdb_transaction_multi_get_for_update_cf(
        txn: *mut Transaction, options: *const Bag, families: *const *const Handle, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(txn, options, families, number, (keys, key_lens), to, true)
    }
}

api! {
    fn rocksdb_transaction_create_iterator(
        txn: *mut Transaction, options: *const Bag,
    ) -> *mut rocksdb_iterator_t {
        iterate(txn, options, null())
    }

    fn rocksdb_transaction_create_iterator_cf(
        txn: *mut Transaction, options: *const Bag, family: *mut Handle,
    ) -> *mut rocksdb_iterator_t {
        iterate(txn, options, family)
    }

    fallible fn rocksdb_transaction_commit(txn: *mut Transaction) {
        of(txn)?.commit()
    }

    fallible fn rocksdb_transaction_rollback(txn: *mut Transaction) {
        Ok(of(txn)?.rollback())
    }

    fn rocksdb_transaction_set_savepoint(txn: *mut Transaction) {
        of(txn)?.writes.batch.set_savepoint();
        Ok(())
    }

    fallible fn rocksdb_transaction_rollback_to_savepoint(txn: *mut Transaction) {
        of(txn)?.writes.rollback()
    }

    fn rocksdb_transaction_destroy(txn: *mut Transaction) {
        free(txn)
    }

    fn rocksdb_transaction_get_snapshot(txn: *mut Transaction) -> *const rocksdb_snapshot_t {
        let txn = of(txn)?;
        // The transaction keeps the snapshot; the dropped handle leaves its reference alone.
        let handle = rocksdb_snapshot_t::of(txn.snapshot.clone());
        Ok(lend(&handle).cast_const())
    }

    fn rocksdb_transaction_get_writebatch_wi(
        txn: *mut Transaction,
    ) -> *mut rocksdb_writebatch_wi_t {
        let txn = of(txn)?;
        let copy = Box::new(txn.writes.to_lend());
        let lent = lend(&*copy);
        txn.lent = Some(copy);
        Ok(lent)
    }

    fallible fn rocksdb_transaction_rebuild_from_writebatch(
        txn: *mut Transaction, batch: *mut rocksdb_writebatch_t,
    ) {
        rebuild(of(txn)?, &shared(batch, "the batch")?.0)
    }

    fallible fn rocksdb_transaction_rebuild_from_writebatch_wi(
        txn: *mut Transaction, batch: *mut rocksdb_writebatch_wi_t,
    ) {
        rebuild(of(txn)?, &shared(batch, "the batch")?.batch)
    }

    fallible fn rocksdb_transaction_set_name(
        txn: *mut Transaction, name: *const c_char, len: usize,
    ) {
        of(txn)?;
        bytes(name, len)?;
        Err(Failure::missing(
            "vLSM has no prepared transactions, so a transaction has no name: commit it at once",
        ))
    }

    fn rocksdb_transaction_get_name(txn: *mut Transaction, len: *mut usize) -> *mut c_char {
        of(txn)?;
        if let Some(len) = len.as_mut() {
            *len = 0;
        }
        Ok(null_mut())
    }

    fallible fn rocksdb_transaction_prepare(txn: *mut Transaction) {
        of(txn)?;
        Err(Failure::missing(
            "vLSM has no two-phase commit: commit the transaction at once, or keep the prepared \
             writes in a column family of their own",
        ))
    }
}
