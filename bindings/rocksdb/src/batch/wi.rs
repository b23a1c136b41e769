//! Batches with an index: `rocksdb_writebatch_wi_t`, whose writes can be read before they are
//! written.
//!
//! RocksDB indexes no deleted ranges and refuses them here; so does this library, when the batch is
//! written.

use super::index::{Index, read_through};
use super::rep::{Op, WriteBatch};
use super::{Handle, Target, add, add_joined, batch_functions, id, iterate, joined, pair, ranges};
use crate::bag::Bag;
use crate::call::{Outcome, api, bytes, changed, free, give, shared, value_out};
use crate::db::{pinned, read, rocksdb_pinnableslice_t};
use crate::iterator::rocksdb_iterator_t;
use crate::options::apply::of_write;
use crate::status::Failure;
use crate::store::{rocksdb_t, store};
use parking_lot::Mutex;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// A batch with an index.
pub struct rocksdb_writebatch_wi_t {
    pub(crate) batch: WriteBatch,
    /// Iterators over it see later writes.
    pub(crate) index: Arc<Mutex<Index>>,
    /// A copy of a transaction's writes, which is only read.
    lent: bool,
}

impl rocksdb_writebatch_wi_t {
    pub(crate) fn new() -> Self {
        Self { batch: WriteBatch::new(), index: Arc::default(), lent: false }
    }

    /// A copy to look at.
    pub(crate) fn to_lend(&self) -> Self {
        Self { batch: self.batch.clone(), index: self.index.clone(), lent: true }
    }

    pub(crate) fn add(&mut self, op: Op<'_>) {
        if self.lent {
            return;
        }
        self.batch.add(op);
        self.index.lock().add(op);
    }

    /// Makes the index again, after writes were undone.
    pub(crate) fn reindex(&self) {
        *self.index.lock() = Index::of(&self.batch);
    }

    pub(crate) fn rollback(&mut self) -> Outcome {
        if self.lent {
            return Err(Failure::missing("the batch of a transaction can only be read"));
        }
        self.batch.rollback()?;
        self.reindex();
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        if self.lent {
            return;
        }
        self.batch.clear();
        self.reindex();
    }
}

impl Target for rocksdb_writebatch_wi_t {
    fn target(&mut self, op: Op<'_>) {
        if matches!(op, Op::DeleteRange(..)) {
            self.fail(Failure::missing(
                "a batch with an index does not support range deletes: use rocksdb_writebatch_t",
            ));
            return;
        }
        self.add(op);
    }
    fn fail(&mut self, failure: Failure) {
        if self.lent {
            return;
        }
        self.batch.fail(failure);
    }
}

batch_functions! { rocksdb_writebatch_wi_t:
    rocksdb_writebatch_wi_put rocksdb_writebatch_wi_put_cf
    rocksdb_writebatch_wi_putv rocksdb_writebatch_wi_putv_cf
    rocksdb_writebatch_wi_merge rocksdb_writebatch_wi_merge_cf
    rocksdb_writebatch_wi_mergev rocksdb_writebatch_wi_mergev_cf
    rocksdb_writebatch_wi_delete rocksdb_writebatch_wi_delete_cf
    rocksdb_writebatch_wi_singledelete rocksdb_writebatch_wi_singledelete_cf
    rocksdb_writebatch_wi_deletev rocksdb_writebatch_wi_deletev_cf
    rocksdb_writebatch_wi_delete_range rocksdb_writebatch_wi_delete_range_cf
    rocksdb_writebatch_wi_delete_rangev rocksdb_writebatch_wi_delete_rangev_cf
}

/// The value of a key: that of the batch, or of the store below it.
unsafe fn through(
    batch: *const rocksdb_writebatch_wi_t,
    db: *const rocksdb_t,
    options: *const Bag,
    family: *const Handle,
    key: (*const c_char, usize),
) -> Outcome<Option<Vec<u8>>> {
    unsafe {
        let (store, options) = (store(db)?, shared(options, "the read options")?);
        let key = bytes(key.0, key.1)?;
        let index = shared(batch, "the batch")?.index.lock().clone();
        let below = |family: &_| Ok(read(family, options, key)?.map(Into::into));
        read_through(&index, store, id(family)?, key, below)
    }
}

/// The value of a key in the batch alone.
unsafe fn alone(
    batch: *const rocksdb_writebatch_wi_t,
    family: *const Handle,
    key: (*const c_char, usize),
) -> Outcome<Option<Vec<u8>>> {
    unsafe {
        let key = bytes(key.0, key.1)?;
        let index = shared(batch, "the batch")?.index.lock().clone();
        let Some(entry) = index.get(id(family)?, key).cloned() else { return Ok(None) };
        entry.alone()
    }
}

/// An iterator over the store with the writes of a batch. It takes the base iterator.
unsafe fn over(
    batch: *const rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
    options: *const Bag,
) -> Outcome<*mut rocksdb_iterator_t> {
    unsafe {
        let own = shared(batch, "the batch")?.index.clone();
        let cursor = rocksdb_iterator_t::take(base)?.over(own, options.as_ref());
        Ok(give(rocksdb_iterator_t::new(cursor)))
    }
}

type Batch = rocksdb_writebatch_wi_t;

api! {
    fn rocksdb_writebatch_wi_create(reserved: usize, overwrite: u8) -> *mut Batch {
        let _ = (reserved, overwrite);
        Ok(give(Batch::new()))
    }

    fn rocksdb_writebatch_wi_create_with_params(
        comparator: *mut c_void, reserved: usize, overwrite: u8, most: usize, protection: usize,
    ) -> *mut Batch {
        let _ = (comparator, reserved, overwrite, most, protection);
        Ok(give(Batch::new()))
    }

    fn rocksdb_writebatch_wi_destroy(batch: *mut Batch) {
        free(batch)
    }

    fn rocksdb_writebatch_wi_clear(batch: *mut Batch) {
        changed(batch, "the batch")?.clear();
        Ok(())
    }

    fn rocksdb_writebatch_wi_count(batch: *mut Batch) -> c_int {
        Ok(shared(batch, "the batch")?.batch.count() as c_int)
    }

    fn rocksdb_writebatch_wi_put_log_data(batch: *mut Batch, data: *const c_char, len: usize) {
        add(batch, || Ok(Op::LogData(bytes(data, len)?)))
    }

    fn rocksdb_writebatch_wi_data(batch: *mut Batch, len: *mut usize) -> *const c_char {
        let bytes = shared(batch, "the batch")?.batch.bytes();
        if let Some(len) = len.as_mut() {
            *len = bytes.len();
        }
        Ok(bytes.as_ptr().cast())
    }

    fn rocksdb_writebatch_wi_iterate(
        batch: *mut Batch, state: *mut c_void,
        put: Option<super::Pair>, deleted: Option<super::One>,
    ) {
        iterate(&shared(batch, "the batch")?.batch, state, (put, deleted, None))
    }

    fn rocksdb_writebatch_wi_set_save_point(batch: *mut Batch) {
        let batch = changed(batch, "the batch")?;
        if !batch.lent {
            batch.batch.set_savepoint();
        }
        Ok(())
    }

    fallible fn rocksdb_writebatch_wi_rollback_to_save_point(batch: *mut Batch) {
        changed(batch, "the batch")?.rollback()
    }

    fallible fn rocksdb_write_writebatch_wi(
        db: *mut rocksdb_t, options: *const Bag, batch: *mut Batch,
    ) {
        let store = store(db)?;
        let options = of_write(options, store.manual_wal)?;
        shared(batch, "the batch")?.batch.write(store, options)
    }

    fallible fn rocksdb_writebatch_wi_get_from_batch(
        batch: *mut Batch, options: *const Bag, key: *const c_char, len: usize, to: *mut usize,
    ) -> *mut c_char {
        let _ = options;
        Ok(value_out(alone(batch, std::ptr::null(), (key, len))?.as_deref(), to))
    }

    fallible fn rocksdb_writebatch_wi_get_from_batch_cf(
        batch: *mut Batch, options: *const Bag, family: *mut Handle,
        key: *const c_char, len: usize, to: *mut usize,
    ) -> *mut c_char {
        let _ = options;
        Ok(value_out(alone(batch, family, (key, len))?.as_deref(), to))
    }

    fallible fn rocksdb_writebatch_wi_get_from_batch_and_db(
        batch: *mut Batch, db: *mut rocksdb_t, options: *const Bag,
        key: *const c_char, len: usize, to: *mut usize,
    ) -> *mut c_char {
        let value = through(batch, db, options, std::ptr::null(), (key, len))?;
        Ok(value_out(value.as_deref(), to))
    }

    fallible fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        batch: *mut Batch, db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, len: usize, to: *mut usize,
    ) -> *mut c_char {
        let value = through(batch, db, options, family, (key, len))?;
        Ok(value_out(value.as_deref(), to))
    }

    fallible fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
        batch: *mut Batch, db: *mut rocksdb_t, options: *const Bag,
        key: *const c_char, len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(through(batch, db, options, std::ptr::null(), (key, len))?))
    }

    fallible fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
        batch: *mut Batch, db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(through(batch, db, options, family, (key, len))?))
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base(
        batch: *mut Batch, base: *mut rocksdb_iterator_t,
    ) -> *mut rocksdb_iterator_t {
        over(batch, base, std::ptr::null())
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
        batch: *mut Batch, base: *mut rocksdb_iterator_t, family: *mut Handle,
    ) -> *mut rocksdb_iterator_t {
        let _ = family;
        over(batch, base, std::ptr::null())
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
        batch: *mut Batch, base: *mut rocksdb_iterator_t, options: *const Bag,
    ) -> *mut rocksdb_iterator_t {
        over(batch, base, options)
    }

    fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        batch: *mut Batch, base: *mut rocksdb_iterator_t, family: *mut Handle,
        options: *const Bag,
    ) -> *mut rocksdb_iterator_t {
        let _ = family;
        over(batch, base, options)
    }
}
