//! Write batches: `rep` has their bytes, `index` makes them readable, `wi` is the kind with an
//! index.
//!
//! A column family in a batch is a number, so a batch is valid only for the store whose handles
//! filled it. c.h has no parameter for the error of a write that cannot be added, so
//! `rocksdb_write` returns that error.

pub(crate) mod index;
pub(crate) mod rep;
mod wi;

pub(crate) use wi::rocksdb_writebatch_wi_t;

use crate::call::{Outcome, api, byte_lists, bytes, changed, count, free, give, shared};
use crate::status::Failure;
use crate::store::rocksdb_column_family_handle_t;
use rep::{Op, WriteBatch};
use std::ffi::{c_char, c_int, c_void};

type Handle = rocksdb_column_family_handle_t;

/// A batch's handle.
pub struct rocksdb_writebatch_t(pub(crate) WriteBatch);

/// The number of a column family; NULL stands for `default`.
pub(crate) unsafe fn id(family: *const Handle) -> Outcome<u32> {
    match unsafe { family.as_ref() } {
        None => Ok(0),
        Some(family) => Ok(family.family()?.id),
    }
}

/// The key and value of C.
pub(crate) unsafe fn pair<'a>(
    key: (*const c_char, usize),
    value: (*const c_char, usize),
) -> Outcome<(&'a [u8], &'a [u8])> {
    unsafe { Ok((bytes(key.0, key.1)?, bytes(value.0, value.1)?)) }
}

/// Lists of bytes, as C passes them.
pub(crate) type Lists = (*const *const c_char, *const usize);

/// Joins pieces from C to one byte string.
pub(crate) unsafe fn joined(number: c_int, lists: Lists) -> Outcome<Vec<u8>> {
    Ok(unsafe { byte_lists(lists.0, lists.1, count(number)?)? }.concat())
}

/// Pairs of keys.
pub(crate) unsafe fn ranges(number: c_int, from: Lists, to: Lists) -> Outcome<(Vec<u8>, Vec<u8>)> {
    unsafe { Ok((joined(number, from)?, joined(number, to)?)) }
}

/// A receiver of the writes of a batch.
pub(crate) trait Target {
    fn target(&mut self, op: Op<'_>);
    fn fail(&mut self, failure: Failure);
}

impl Target for rocksdb_writebatch_t {
    fn target(&mut self, op: Op<'_>) {
        self.0.add(op);
    }
    fn fail(&mut self, failure: Failure) {
        self.0.fail(failure);
    }
}

/// Adds a write, or remembers why it cannot be added.
pub(crate) unsafe fn add<'a, T: Target>(
    batch: *mut T,
    op: impl FnOnce() -> Outcome<Op<'a>>,
) -> Outcome {
    let batch = unsafe { changed(batch, "the batch")? };
    match op() {
        Ok(op) => batch.target(op),
        Err(failure) => batch.fail(failure),
    }
    Ok(())
}

/// Like `add`, for a write whose bytes come in pieces.
pub(crate) unsafe fn add_joined<T: Target, P>(
    batch: *mut T,
    pieces: impl FnOnce() -> Outcome<P>,
    op: impl FnOnce(&P) -> Op<'_>,
) -> Outcome {
    let batch = unsafe { changed(batch, "the batch")? };
    match pieces() {
        Ok(pieces) => batch.target(op(&pieces)),
        Err(failure) => batch.fail(failure),
    }
    Ok(())
}

/// The functions that add writes, which both kinds of batches have.
macro_rules! batch_functions {
    ($batch:ty:
        $put:ident $put_cf:ident $putv:ident $putv_cf:ident
        $merge:ident $merge_cf:ident $mergev:ident $mergev_cf:ident
        $delete:ident $delete_cf:ident $single:ident $single_cf:ident
        $deletev:ident $deletev_cf:ident
        $range:ident $range_cf:ident $rangev:ident $rangev_cf:ident
    ) => {
        $crate::batch::two_pieces! { $batch: Put $put $put_cf $putv $putv_cf }
        $crate::batch::two_pieces! { $batch: Merge $merge $merge_cf $mergev $mergev_cf }
        $crate::batch::one_piece! { $batch: Delete $delete $delete_cf }
        $crate::batch::one_piece! { $batch: SingleDelete $single $single_cf }
        $crate::call::api! {
            fn $deletev(
                batch: *mut $batch, number: c_int,
                keys: *const *const c_char, lens: *const usize,
            ) {
                let joined = || joined(number, (keys, lens));
                add_joined(batch, joined, |key| Op::Delete(0, key))
            }

            fn $deletev_cf(
                batch: *mut $batch, family: *mut Handle,
                number: c_int, keys: *const *const c_char, lens: *const usize,
            ) {
                let joined = || Ok((id(family)?, joined(number, (keys, lens))?));
                add_joined(batch, joined, |(id, key)| Op::Delete(*id, key))
            }

            fn $range(
                batch: *mut $batch,
                from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
            ) {
                add(batch, || {
                    let (from, to) = pair((from, from_len), (to, to_len))?;
                    Ok(Op::DeleteRange(0, from, to))
                })
            }

            fn $range_cf(
                batch: *mut $batch, family: *mut Handle,
                from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
            ) {
                add(batch, || {
                    let (from, to) = pair((from, from_len), (to, to_len))?;
                    Ok(Op::DeleteRange(id(family)?, from, to))
                })
            }

            fn $rangev(
                batch: *mut $batch, number: c_int,
                from: *const *const c_char, from_lens: *const usize,
                to: *const *const c_char, to_lens: *const usize,
            ) {
                let joined = || ranges(number, (from, from_lens), (to, to_lens));
                add_joined(batch, joined, |(from, to)| Op::DeleteRange(0, from, to))
            }

            fn $rangev_cf(
                batch: *mut $batch, family: *mut Handle, number: c_int,
                from: *const *const c_char, from_lens: *const usize,
                to: *const *const c_char, to_lens: *const usize,
            ) {
                let (from, to) = ((from, from_lens), (to, to_lens));
                let joined = || Ok((id(family)?, ranges(number, from, to)?));
                add_joined(batch, joined, |(id, (from, to))| Op::DeleteRange(*id, from, to))
            }
        }
    };
}
pub(crate) use batch_functions;

/// The functions that take a key and a value.
macro_rules! two_pieces {
    ($batch:ty: $op:ident $one:ident $cf:ident $list:ident $list_cf:ident) => {
        $crate::call::api! {
            fn $one(
                batch: *mut $batch,
                key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
            ) {
                add(batch, || {
                    let (key, value) = pair((key, key_len), (value, value_len))?;
                    Ok(Op::$op(0, key, value))
                })
            }

            fn $cf(
                batch: *mut $batch, family: *mut Handle,
                key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
            ) {
                add(batch, || {
                    let (key, value) = pair((key, key_len), (value, value_len))?;
                    Ok(Op::$op(id(family)?, key, value))
                })
            }

            fn $list(
                batch: *mut $batch,
                keys: c_int, key: *const *const c_char, key_lens: *const usize,
                values: c_int, value: *const *const c_char, value_lens: *const usize,
            ) {
                let both =
                    || Ok((joined(keys, (key, key_lens))?, joined(values, (value, value_lens))?));
                add_joined(batch, both, |(key, value)| Op::$op(0, key, value))
            }

            fn $list_cf(
                batch: *mut $batch, family: *mut Handle,
                keys: c_int, key: *const *const c_char, key_lens: *const usize,
                values: c_int, value: *const *const c_char, value_lens: *const usize,
            ) {
                let both = || {
                    let key = joined(keys, (key, key_lens))?;
                    Ok((id(family)?, key, joined(values, (value, value_lens))?))
                };
                add_joined(batch, both, |(id, key, value)| Op::$op(*id, key, value))
            }
        }
    };
}
pub(crate) use two_pieces;

/// The functions that take a key.
macro_rules! one_piece {
    ($batch:ty: $op:ident $one:ident $cf:ident) => {
        $crate::call::api! {
            fn $one(batch: *mut $batch, key: *const c_char, key_len: usize) {
                add(batch, || Ok(Op::$op(0, bytes(key, key_len)?)))
            }

            fn $cf(batch: *mut $batch, family: *mut Handle, key: *const c_char, key_len: usize) {
                add(batch, || Ok(Op::$op(id(family)?, bytes(key, key_len)?)))
            }
        }
    };
}
pub(crate) use one_piece;

batch_functions! { rocksdb_writebatch_t:
    rocksdb_writebatch_put rocksdb_writebatch_put_cf
    rocksdb_writebatch_putv rocksdb_writebatch_putv_cf
    rocksdb_writebatch_merge rocksdb_writebatch_merge_cf
    rocksdb_writebatch_mergev rocksdb_writebatch_mergev_cf
    rocksdb_writebatch_delete rocksdb_writebatch_delete_cf
    rocksdb_writebatch_singledelete rocksdb_writebatch_singledelete_cf
    rocksdb_writebatch_deletev rocksdb_writebatch_deletev_cf
    rocksdb_writebatch_delete_range rocksdb_writebatch_delete_range_cf
    rocksdb_writebatch_delete_rangev rocksdb_writebatch_delete_rangev_cf
}

type Pair = extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize);
type One = extern "C" fn(*mut c_void, *const c_char, usize);
type FamilyPair = extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize);
type FamilyOne = extern "C" fn(*mut c_void, u32, *const c_char, usize);

fn raw(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// Reports the puts and deletes of `default`, and log data.
pub(crate) fn iterate(
    batch: &WriteBatch,
    state: *mut c_void,
    (put, deleted, log): (Option<Pair>, Option<One>, Option<One>),
) -> Outcome {
    for op in batch.ops() {
        match (op?, put, deleted, log) {
            (Op::Put(0, key, value), Some(put), ..) => {
                let ((key, key_len), (value, len)) = (raw(key), raw(value));
                put(state, key, key_len, value, len);
            }
            (Op::Delete(0, key) | Op::SingleDelete(0, key), _, Some(deleted), _) => {
                deleted(state, raw(key).0, key.len());
            }
            (Op::LogData(data), .., Some(log)) => log(state, raw(data).0, data.len()),
            _ => {}
        }
    }
    Ok(())
}

/// Reports the puts, deletes and merges of all column families, and log data.
fn iterate_cf(
    batch: &WriteBatch,
    state: *mut c_void,
    (put, deleted, merge): (Option<FamilyPair>, Option<FamilyOne>, Option<FamilyPair>),
    log: Option<One>,
) -> Outcome {
    for op in batch.ops() {
        match op? {
            Op::Put(id, key, value) => {
                if let Some(put) = put {
                    put(state, id, raw(key).0, key.len(), raw(value).0, value.len());
                }
            }
            Op::Merge(id, key, value) => {
                if let Some(merge) = merge {
                    merge(state, id, raw(key).0, key.len(), raw(value).0, value.len());
                }
            }
            Op::Delete(id, key) | Op::SingleDelete(id, key) => {
                if let Some(deleted) = deleted {
                    deleted(state, id, raw(key).0, key.len());
                }
            }
            Op::LogData(data) => {
                if let Some(log) = log {
                    log(state, raw(data).0, data.len());
                }
            }
            Op::DeleteRange(..) => {}
        }
    }
    Ok(())
}

api! {
    fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t {
        Ok(give(rocksdb_writebatch_t(WriteBatch::new())))
    }

    fn rocksdb_writebatch_create_from(
        rep: *const c_char, len: usize,
    ) -> *mut rocksdb_writebatch_t {
        Ok(give(rocksdb_writebatch_t(WriteBatch::of(bytes(rep, len)?))))
    }

    fn rocksdb_writebatch_create_with_params(
        reserved: usize, most: usize, protection: usize, timestamp: usize,
    ) -> *mut rocksdb_writebatch_t {
        let _ = (reserved, most, protection, timestamp);
        Ok(give(rocksdb_writebatch_t(WriteBatch::new())))
    }

    fn rocksdb_writebatch_destroy(batch: *mut rocksdb_writebatch_t) {
        free(batch)
    }

    fn rocksdb_writebatch_clear(batch: *mut rocksdb_writebatch_t) {
        changed(batch, "the batch")?.0.clear();
        Ok(())
    }

    fn rocksdb_writebatch_count(batch: *mut rocksdb_writebatch_t) -> c_int {
        Ok(shared(batch, "the batch")?.0.count() as c_int)
    }

    fn rocksdb_writebatch_put_log_data(
        batch: *mut rocksdb_writebatch_t, data: *const c_char, len: usize,
    ) {
        add(batch, || Ok(Op::LogData(bytes(data, len)?)))
    }

    fn rocksdb_writebatch_data(
        batch: *mut rocksdb_writebatch_t, len: *mut usize,
    ) -> *const c_char {
        let bytes = shared(batch, "the batch")?.0.bytes();
        if let Some(len) = len.as_mut() {
            *len = bytes.len();
        }
        Ok(bytes.as_ptr().cast())
    }

    fn rocksdb_writebatch_set_save_point(batch: *mut rocksdb_writebatch_t) {
        changed(batch, "the batch")?.0.set_savepoint();
        Ok(())
    }

    fallible fn rocksdb_writebatch_rollback_to_save_point(batch: *mut rocksdb_writebatch_t) {
        changed(batch, "the batch")?.0.rollback()
    }

    fallible fn rocksdb_writebatch_pop_save_point(batch: *mut rocksdb_writebatch_t) {
        changed(batch, "the batch")?.0.pop_savepoint().map(|_| ())
    }

    fallible fn rocksdb_writebatch_verify_checksum(batch: *mut rocksdb_writebatch_t) {
        shared(batch, "the batch")?.0.ops().try_for_each(|op| op.map(|_| ()))
    }

    fn rocksdb_writebatch_iterate(
        batch: *mut rocksdb_writebatch_t, state: *mut c_void,
        put: Option<Pair>, deleted: Option<One>,
    ) {
        iterate(&shared(batch, "the batch")?.0, state, (put, deleted, None))
    }

    fn rocksdb_writebatch_iterate_ld(
        batch: *mut rocksdb_writebatch_t, state: *mut c_void,
        put: Option<Pair>, deleted: Option<One>, log: Option<One>,
    ) {
        iterate(&shared(batch, "the batch")?.0, state, (put, deleted, log))
    }

    fn rocksdb_writebatch_iterate_cf(
        batch: *mut rocksdb_writebatch_t, state: *mut c_void,
        put: Option<FamilyPair>, deleted: Option<FamilyOne>, merge: Option<FamilyPair>,
    ) {
        iterate_cf(&shared(batch, "the batch")?.0, state, (put, deleted, merge), None)
    }

    fn rocksdb_writebatch_iterate_cf_ld(
        batch: *mut rocksdb_writebatch_t, state: *mut c_void,
        put: Option<FamilyPair>, deleted: Option<FamilyOne>, merge: Option<FamilyPair>,
        log: Option<One>,
    ) {
        iterate_cf(&shared(batch, "the batch")?.0, state, (put, deleted, merge), log)
    }
}
