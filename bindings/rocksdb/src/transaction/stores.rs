//! `rocksdb_transactiondb_*` and `rocksdb_optimistictransactiondb_*`: stores with transactions.
//!
//! Both are handles to a store like any other. A write to a `TransactionDB` outside of a
//! transaction is a transaction of its own: it waits for the locks of the keys. The plain handle of
//! `..._get_base_db` ignores the locks, as RocksDB's does.

use super::{Rules, Txn, of, rocksdb_transaction_t};
use crate::bag::Bag;
use crate::batch::rep::{Op, WriteBatch};
use crate::batch::{pair, rocksdb_writebatch_t};
use crate::call::{Outcome, api, array, bytes, changed, count, free, give, shared, value_out};
use crate::db::{Places, multi_get, pinned, read, rocksdb_pinnableslice_t};
use crate::files::rocksdb_checkpoint_t;
use crate::iterator::{Cursor, rocksdb_iterator_t};
use crate::open::{Listed, close, create, open_listed, open_one};
use crate::options::apply::of_write;
use crate::snapshot::rocksdb_snapshot_t;
use crate::store::{Access, Store, place, rocksdb_column_family_handle_t, rocksdb_t, store};
use std::ffi::{c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

type Handle = rocksdb_column_family_handle_t;
type Db = rocksdb_t;
type Transaction = rocksdb_transaction_t;

/// The limit for this number of milliseconds; a negative number means no limit.
fn limit(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// Writes outside of a transaction.
unsafe fn write<'a>(
    db: *mut Db,
    options: *const Bag,
    family: *const Handle,
    (key, value): (&'a [u8], &'a [u8]),
    op: fn(u32, &'a [u8], &'a [u8]) -> Op<'a>,
) -> Outcome {
    unsafe {
        let (store, family) = place(db, family)?;
        let mut batch = WriteBatch::new();
        batch.add(op(family.id, key, value));
        write_locked(store, options, &batch)
    }
}

/// Writes a batch, with the locks of its keys.
unsafe fn write_locked(store: &Arc<Store>, options: *const Bag, batch: &WriteBatch) -> Outcome {
    let options = unsafe { of_write(options, store.manual_wal)? };
    batch.for_engine(store)?;
    let limit = limit(*store.lock_millis.lock());
    let mut txn = Txn::new(store, Rules::Locking(limit), options, false);
    for op in batch.ops() {
        match op? {
            Op::Put(id, key, _)
            | Op::Merge(id, key, _)
            | Op::Delete(id, key)
            | Op::SingleDelete(id, key) => txn.claim(&*store.family(id)?, key)?,
            Op::DeleteRange(..) | Op::LogData(_) => {}
        }
    }
    batch.write(store, options)
}

/// Begins a transaction, in an old handle if there is one.
unsafe fn begin(
    db: *mut Db,
    options: *const Bag,
    rules: impl FnOnce(&Store) -> (Rules, bool),
    old: *mut Transaction,
) -> Outcome<*mut Transaction> {
    unsafe {
        let store = store(db)?;
        let options = of_write(options, store.manual_wal)?;
        let (rules, with_snapshot) = rules(store);
        let txn = Txn::new(store, rules, options, with_snapshot);
        match old.is_null() {
            true => Ok(give(rocksdb_transaction_t::new(txn))),
            false => {
                *of(old)? = txn;
                Ok(old)
            }
        }
    }
}

/// Stores the time that writes outside of transactions wait for locks.
unsafe fn with_locks(store: &Arc<Store>, options: *const Bag) -> Outcome<*mut Db> {
    if let Some(options) = unsafe { options.as_ref() } {
        *store.lock_millis.lock() = options.get("default_lock_timeout");
        *store.txn_lock_millis.lock() = options.get("transaction_lock_timeout");
    }
    Ok(give(rocksdb_t::new(store.clone())))
}

unsafe fn get(
    db: *mut Db,
    options: *const Bag,
    family: *const Handle,
    key: (*const c_char, usize),
) -> Outcome<Option<Vec<u8>>> {
    unsafe {
        let (_, family) = place(db, family)?;
        let options = shared(options, "the read options")?;
        Ok(read(&family, options, bytes(key.0, key.1)?)?.map(Into::into))
    }
}

unsafe fn iterate(
    db: *mut Db,
    options: *const Bag,
    family: *const Handle,
) -> Outcome<*mut rocksdb_iterator_t> {
    unsafe {
        let (store, family) = place(db, family)?;
        let options = shared(options, "the read options")?;
        Ok(give(rocksdb_iterator_t::new(Cursor::new(store, family, options, None)?)))
    }
}

/// Another handle to the same store.
unsafe fn base(db: *mut Db) -> Outcome<*mut Db> {
    Ok(give(rocksdb_t::new(unsafe { store(db)? }.clone())))
}

api! {
    fallible fn rocksdb_transactiondb_open(
        options: *const Bag, txn: *const Bag, name: *const c_char,
    ) -> *mut Db {
        with_locks(&open_one(options, name, Access::Write, None)?, txn)
    }

    fallible fn rocksdb_transactiondb_open_column_families(
        options: *const Bag, txn: *const Bag, name: *const c_char, number: c_int,
        names: *const *const c_char, each: *const *const Bag, handles: *mut *mut Handle,
    ) -> *mut Db {
        let listed = Listed { number, names, options: each, handles, ttls: null() };
        with_locks(&open_listed(options, name, listed, Access::Write)?, txn)
    }

    fn rocksdb_transactiondb_close(db: *mut Db) {
        close(db)
    }

    fn rocksdb_transactiondb_get_base_db(db: *mut Db) -> *mut Db {
        base(db)
    }

    fn rocksdb_transactiondb_close_base_db(db: *mut Db) {
        free(db)
    }

    fallible fn rocksdb_transactiondb_create_column_family(
        db: *mut Db, options: *const Bag, name: *const c_char,
    ) -> *mut Handle {
        create(store(db)?, options, name, None)
    }

    fn rocksdb_transaction_begin(
        db: *mut Db, options: *const Bag, txn: *const Bag, old: *mut Transaction,
    ) -> *mut Transaction {
        let txn = shared(txn, "the transaction options")?;
        let rules = |store: &Store| {
            // As in RocksDB, a negative number means the store's limit.
            let own = txn.get::<i64>("lock_timeout");
            let millis = if own < 0 { *store.txn_lock_millis.lock() } else { own };
            (Rules::Locking(limit(millis)), txn.flag("set_snapshot"))
        };
        begin(db, options, rules, old)
    }

    fn rocksdb_transactiondb_get_prepared_transactions(
        db: *mut Db, number: *mut usize,
    ) -> *mut *mut Transaction {
        store(db)?;
        if let Some(number) = number.as_mut() {
            *number = 0;
        }
        Ok(null_mut())
    }

    fn rocksdb_transactiondb_create_snapshot(db: *mut Db) -> *const rocksdb_snapshot_t {
        Ok(give(rocksdb_snapshot_t::new(store(db)?.db.snapshot())).cast_const())
    }

    fn rocksdb_transactiondb_release_snapshot(
        db: *mut Db, snapshot: *const rocksdb_snapshot_t,
    ) {
        let _ = db;
        free(snapshot.cast_mut())
    }

    fallible fn rocksdb_transactiondb_put(
        db: *mut Db, options: *const Bag,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(db, options, null(), pair((key, key_len), (value, value_len))?, Op::Put)
    }

    fallible fn rocksdb_transactiondb_put_cf(
        db: *mut Db, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(db, options, family, pair((key, key_len), (value, value_len))?, Op::Put)
    }

    fallible fn rocksdb_transactiondb_merge(
        db: *mut Db, options: *const Bag,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(db, options, null(), pair((key, key_len), (value, value_len))?, Op::Merge)
    }

    fallible fn rocksdb_transactiondb_merge_cf(
        db: *mut Db, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        write(db, options, family, pair((key, key_len), (value, value_len))?, Op::Merge)
    }

    fallible fn rocksdb_transactiondb_delete(
        db: *mut Db, options: *const Bag, key: *const c_char, key_len: usize,
    ) {
        write(db, options, null(), (bytes(key, key_len)?, &[]), |id, key, _| Op::Delete(id, key))
    }

    fallible fn rocksdb_transactiondb_delete_cf(
        db: *mut Db, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
    ) {
        write(db, options, family, (bytes(key, key_len)?, &[]), |id, key, _| Op::Delete(id, key))
    }

    fallible fn rocksdb_transactiondb_write(
        db: *mut Db, options: *const Bag, batch: *mut rocksdb_writebatch_t,
    ) {
        write_locked(store(db)?, options, &shared(batch, "the batch")?.0)
    }

    fallible fn rocksdb_transactiondb_get(
        db: *mut Db, options: *const Bag,
        key: *const c_char, key_len: usize, len: *mut usize,
    ) -> *mut c_char {
        Ok(value_out(get(db, options, null(), (key, key_len))?.as_deref(), len))
    }

    fallible fn rocksdb_transactiondb_get_cf(
        db: *mut Db, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, len: *mut usize,
    ) -> *mut c_char {
        Ok(value_out(get(db, options, family, (key, key_len))?.as_deref(), len))
    }

    fallible fn rocksdb_transactiondb_get_pinned(
        db: *mut Db, options: *const Bag, key: *const c_char, key_len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(get(db, options, null(), (key, key_len))?))
    }

    fallible fn rocksdb_transactiondb_get_pinned_cf(
        db: *mut Db, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(get(db, options, family, (key, key_len))?))
    }

    fn rocksdb_transactiondb_multi_get(
        db: *mut Db, options: *const Bag, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(store(db), options, null(), number, (keys, key_lens), to)
    }

    fn rocksdb_transactiondb_multi_get_cf(
        db: *mut Db, options: *const Bag, families: *const *const Handle, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(store(db), options, families, number, (keys, key_lens), to)
    }

    fn rocksdb_transactiondb_create_iterator(
        db: *mut Db, options: *const Bag,
    ) -> *mut rocksdb_iterator_t {
        iterate(db, options, null())
    }

    fn rocksdb_transactiondb_create_iterator_cf(
        db: *mut Db, options: *const Bag, family: *mut Handle,
    ) -> *mut rocksdb_iterator_t {
        iterate(db, options, family)
    }
}

api! {
    fallible fn rocksdb_transactiondb_flush(db: *mut Db, options: *const Bag) {
        crate::maintenance::flush(store(db)?, options)
    }

    fallible fn rocksdb_transactiondb_flush_cf(
        db: *mut Db, options: *const Bag, family: *mut Handle,
    ) {
        let (store, _) = place(db, family)?;
        crate::maintenance::flush(store, options)
    }

    fallible fn rocksdb_transactiondb_flush_cfs(
        db: *mut Db, options: *const Bag, families: *mut *mut Handle, number: c_int,
    ) {
        array(families, count(number)?)?;
        crate::maintenance::flush(store(db)?, options)
    }

    fallible fn rocksdb_transactiondb_flush_wal(db: *mut Db, sync: u8) {
        let _ = sync;
        Ok(store(db)?.db.sync()?)
    }

    fallible fn rocksdb_transactiondb_flush_wal_with_options(db: *mut Db, options: *const Bag) {
        let _ = options;
        Ok(store(db)?.db.sync()?)
    }

    fallible fn rocksdb_transactiondb_checkpoint_object_create(
        db: *mut Db,
    ) -> *mut rocksdb_checkpoint_t {
        Ok(give(rocksdb_checkpoint_t::new(store(db)?)))
    }

    fn rocksdb_transactiondb_property_value(
        db: *mut Db, name: *const c_char,
    ) -> *mut c_char {
        crate::properties::text_to(db, null(), name)
    }

    fn rocksdb_transactiondb_property_int(
        db: *mut Db, name: *const c_char, to: *mut u64,
    ) -> c_int {
        crate::properties::number_to(db, null(), name, to)
    }

    fallible fn rocksdb_optimistictransactiondb_open(
        options: *const Bag, name: *const c_char,
    ) -> *mut Db {
        Ok(give(rocksdb_t::new(open_one(options, name, Access::Write, None)?)))
    }

    fallible fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
        options: *const Bag, txn: *const Bag, name: *const c_char,
    ) -> *mut Db {
        let _ = txn;
        Ok(give(rocksdb_t::new(open_one(options, name, Access::Write, None)?)))
    }

    fallible fn rocksdb_optimistictransactiondb_open_column_families(
        options: *const Bag, name: *const c_char, number: c_int,
        names: *const *const c_char, each: *const *const Bag, handles: *mut *mut Handle,
    ) -> *mut Db {
        let listed = Listed { number, names, options: each, handles, ttls: null() };
        Ok(give(rocksdb_t::new(open_listed(options, name, listed, Access::Write)?)))
    }

    fallible fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
        options: *const Bag, txn: *const Bag, name: *const c_char, number: c_int,
        names: *const *const c_char, each: *const *const Bag, handles: *mut *mut Handle,
    ) -> *mut Db {
        let _ = txn;
        let listed = Listed { number, names, options: each, handles, ttls: null() };
        Ok(give(rocksdb_t::new(open_listed(options, name, listed, Access::Write)?)))
    }

    fn rocksdb_optimistictransactiondb_close(db: *mut Db) {
        close(db)
    }

    fn rocksdb_optimistictransactiondb_get_base_db(db: *mut Db) -> *mut Db {
        base(db)
    }

    fn rocksdb_optimistictransactiondb_close_base_db(db: *mut Db) {
        free(db)
    }

    fn rocksdb_optimistictransaction_begin(
        db: *mut Db, options: *const Bag, txn: *const Bag, old: *mut Transaction,
    ) -> *mut Transaction {
        let with_snapshot = shared(txn, "the transaction options")?.flag("set_snapshot");
        begin(db, options, |_| (Rules::Optimistic, with_snapshot), old)
    }

    fallible fn rocksdb_optimistictransactiondb_write(
        db: *mut Db, options: *const Bag, batch: *mut rocksdb_writebatch_t,
    ) {
        let store = store(db)?;
        let options = of_write(options, store.manual_wal)?;
        changed(batch, "the batch")?.0.write(store, options)
    }

    fallible fn rocksdb_optimistictransactiondb_checkpoint_object_create(
        db: *mut Db,
    ) -> *mut rocksdb_checkpoint_t {
        Ok(give(rocksdb_checkpoint_t::new(store(db)?)))
    }

    fn rocksdb_optimistictransactiondb_property_value(
        db: *mut Db, name: *const c_char,
    ) -> *mut c_char {
        crate::properties::text_to(db, null(), name)
    }

    fn rocksdb_optimistictransactiondb_property_int(
        db: *mut Db, name: *const c_char, to: *mut u64,
    ) -> c_int {
        crate::properties::number_to(db, null(), name, to)
    }
}
