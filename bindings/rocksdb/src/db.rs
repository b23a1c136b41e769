//! Writes and reads of single keys, and of several at once.
//!
//! A read uses the snapshot of its read options, or else the newest state. The caller frees the
//! result of `rocksdb_get`; a pinned value belongs to its handle.

use crate::bag::Bag;
use crate::batch::rep::forward;
use crate::batch::rocksdb_writebatch_t;
use crate::call::{
    Outcome, api, array, byte_lists, bytes, free, give, rocksdb_slice_t, set_error, shared,
    value_out,
};
use crate::options::apply::{check_read, of_write};
use crate::snapshot::Seen;
use crate::status::Failure;
use crate::store::{
    Family, Store, family_of, place, rocksdb_column_family_handle_t, rocksdb_t, store,
};
use engine::{Bytes, WriteOptions};
use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Arc;

type Handle = rocksdb_column_family_handle_t;

/// A value that belongs to its handle.
pub struct rocksdb_pinnableslice_t(pub(crate) Vec<u8>);

/// A value as `rocksdb_get_pinned` gives it.
pub(crate) fn pinned(value: Option<Vec<u8>>) -> *mut rocksdb_pinnableslice_t {
    value.map_or(null_mut(), |value| give(rocksdb_pinnableslice_t(value)))
}

/// The value of a key, according to the read options.
pub(crate) fn read(family: &Family, options: &Bag, key: &[u8]) -> Outcome<Option<Bytes>> {
    check_read(options)?;
    Ok(match options.kept::<Seen>("snapshot") {
        Some(seen) => seen.snapshot.get(&family.keyspace, key)?,
        None => family.keyspace.get(key)?,
    })
}

/// Like `read`, with the arguments of C.
unsafe fn found(
    db: *const rocksdb_t,
    family: *const Handle,
    options: *const Bag,
    key: *const c_char,
    len: usize,
) -> Outcome<Option<Bytes>> {
    unsafe {
        let (_, family) = place(db, family)?;
        read(&family, shared(options, "the read options")?, bytes(key, len)?)
    }
}

/// The values of several keys, each with its result.
fn read_each(
    store: &Store,
    options: &Bag,
    asked: &[(Arc<Family>, &[u8])],
) -> Outcome<Vec<engine::Result<Option<Bytes>>>> {
    check_read(options)?;
    let seen = options.kept::<Seen>("snapshot");
    let one = asked.first().is_none_or(|(first, _)| asked.iter().all(|(it, _)| it.id == first.id));
    if let (true, Some((family, _))) = (one, asked.first()) {
        let keys = asked.iter().map(|(_, key)| *key);
        return Ok(match seen {
            Some(seen) => seen.snapshot.multi_get(&family.keyspace, keys),
            None => family.keyspace.multi_get(keys),
        });
    }
    // Several keyspaces: all as of one moment.
    let seen = seen.unwrap_or_else(|| Arc::new(Seen { snapshot: store.db.snapshot() }));
    let get = |(family, key): &(Arc<Family>, &[u8])| seen.snapshot.get(&family.keyspace, key);
    Ok(asked.iter().map(get).collect())
}

/// The places of C's results of several reads.
pub(crate) struct Places {
    pub values: *mut *mut c_char,
    pub lens: *mut usize,
    pub errors: *mut *mut c_char,
}

impl Places {
    /// Passes the results to C. An error of the whole call becomes the error of each.
    pub(crate) unsafe fn fill(
        &self,
        number: usize,
        results: Outcome<Vec<Outcome<Option<Vec<u8>>>>>,
    ) -> Outcome {
        let results = results.unwrap_or_else(|all| vec![Err(all); number]);
        for (at, result) in results.into_iter().enumerate() {
            // SAFETY: c.h has the caller give as many places as keys; they may be uninitialized.
            unsafe {
                let error = self.errors.add(at);
                error.write(null_mut());
                let value = result.unwrap_or_else(|failure| {
                    set_error(error, &failure);
                    None
                });
                self.values.add(at).write(value_out(value.as_deref(), self.lens.add(at)));
            }
        }
        Ok(())
    }
}

/// The keys of C with their column families; NULL for all in `default`.
pub(crate) unsafe fn asked<'a>(
    store: &Arc<Store>,
    families: *const *const Handle,
    number: usize,
    keys: *const *const c_char,
    lens: *const usize,
) -> Outcome<Vec<(Arc<Family>, &'a [u8])>> {
    let keys = unsafe { byte_lists(keys, lens, number)? };
    if families.is_null() {
        let main = store.main()?;
        return Ok(keys.into_iter().map(|key| (main.clone(), key)).collect());
    }
    let families = unsafe { array(families, number)? };
    let each = families.iter().zip(keys);
    each.map(|(family, key)| Ok((unsafe { family_of(store, *family)? }, key))).collect()
}

/// Results as this library returns them.
fn own(results: Vec<engine::Result<Option<Bytes>>>) -> Vec<Outcome<Option<Vec<u8>>>> {
    let own = |result: engine::Result<Option<Bytes>>| Ok(result?.map(|value| value.to_vec()));
    results.into_iter().map(own).collect()
}

/// As `rocksdb_multi_get_cf`.
pub(crate) unsafe fn multi_get(
    store: Outcome<&Arc<Store>>,
    options: *const Bag,
    families: *const *const Handle,
    number: usize,
    (keys, lens): (*const *const c_char, *const usize),
    to: Places,
) -> Outcome {
    let results = || unsafe {
        let store = store?;
        let asked = asked(store, families, number, keys, lens)?;
        Ok(own(read_each(store, shared(options, "the read options")?, &asked)?))
    };
    unsafe { to.fill(number, results()) }
}

/// Writes one change.
unsafe fn write_one(
    db: *const rocksdb_t,
    options: *const Bag,
    family: *const Handle,
    write: impl FnOnce(&Family, WriteOptions) -> Outcome,
) -> Outcome {
    unsafe {
        let (store, family) = place(db, family)?;
        write(&family, of_write(options, store.manual_wal)?)
    }
}

/// As `rocksdb_batched_multi_get_cf`.
unsafe fn batched(
    db: *const rocksdb_t,
    options: *const Bag,
    family: *const Handle,
    keys: Outcome<Vec<&[u8]>>,
    number: usize,
    (values, errors): (*mut *mut rocksdb_pinnableslice_t, *mut *mut c_char),
) -> Outcome {
    let results = || unsafe {
        let (store, family) = place(db, family)?;
        let asked: Vec<_> = keys?.into_iter().map(|key| (family.clone(), key)).collect();
        Ok(own(read_each(store, shared(options, "the read options")?, &asked)?))
    };
    let results: Outcome<Vec<Outcome<Option<Vec<u8>>>>> = results();
    let results = results.unwrap_or_else(|all| vec![Err(all); number]);
    for (at, result) in results.into_iter().enumerate() {
        // SAFETY: c.h has the caller give as many places as keys.
        unsafe {
            errors.add(at).write(null_mut());
            let value = result.unwrap_or_else(|failure| {
                set_error(errors.add(at), &failure);
                None
            });
            values.add(at).write(pinned(value));
        }
    }
    Ok(())
}

/// Copies a value into the caller's buffer if there is room. The length is returned in any case.
unsafe fn into_buffer(
    value: Option<Bytes>,
    (buffer, size): (*mut c_char, usize),
    len: *mut usize,
    found: *mut u8,
) -> u8 {
    unsafe {
        if let Some(found) = found.as_mut() {
            *found = value.is_some().into();
        }
        let Some(value) = value else { return 0 };
        if let Some(len) = len.as_mut() {
            *len = value.len();
        }
        if value.len() > size || (buffer.is_null() && !value.is_empty()) {
            return 0;
        }
        std::ptr::copy_nonoverlapping(value.as_ptr().cast(), buffer, value.len());
        1
    }
}

/// Whether a key exists. vLSM's answer is certain, and includes the value.
unsafe fn may_exist(
    found: Outcome<Option<Bytes>>,
    value: *mut *mut c_char,
    len: *mut usize,
    value_found: *mut u8,
) -> Outcome<u8> {
    // An error is no proof of absence.
    let Ok(found) = found else { return Ok(1) };
    unsafe {
        if let Some(value_found) = value_found.as_mut() {
            *value_found = found.is_some().into();
        }
        if let (Some(value), true) = (value.as_mut(), found.is_some()) {
            *value = value_out(found.as_deref(), len);
        }
    }
    Ok(found.is_some().into())
}

api! {
    fallible fn rocksdb_put(
        db: *mut rocksdb_t, options: *const Bag,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        write_one(db, options, null_mut(), |to, how| Ok(to.keyspace.put_with(key, value, how)?))
    }

    fallible fn rocksdb_put_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        write_one(db, options, family, |to, how| Ok(to.keyspace.put_with(key, value, how)?))
    }

    fallible fn rocksdb_delete(
        db: *mut rocksdb_t, options: *const Bag, key: *const c_char, key_len: usize,
    ) {
        let key = bytes(key, key_len)?;
        write_one(db, options, null_mut(), |to, how| Ok(to.keyspace.delete_with(key, how)?))
    }

    fallible fn rocksdb_delete_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
    ) {
        let key = bytes(key, key_len)?;
        write_one(db, options, family, |to, how| Ok(to.keyspace.delete_with(key, how)?))
    }

    fallible fn rocksdb_singledelete(
        db: *mut rocksdb_t, options: *const Bag, key: *const c_char, key_len: usize,
    ) {
        let key = bytes(key, key_len)?;
        write_one(db, options, null_mut(), |to, how| Ok(to.keyspace.delete_with(key, how)?))
    }

    fallible fn rocksdb_singledelete_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
    ) {
        let key = bytes(key, key_len)?;
        write_one(db, options, family, |to, how| Ok(to.keyspace.delete_with(key, how)?))
    }

    fallible fn rocksdb_delete_range_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
    ) {
        let range = forward(bytes(from, from_len)?, bytes(to, to_len)?)?;
        write_one(db, options, family, |to, how| Ok(to.keyspace.delete_range_with(range, how)?))
    }

    fallible fn rocksdb_merge(
        db: *mut rocksdb_t, options: *const Bag,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        write_one(db, options, null_mut(), |to, how| Ok(to.keyspace.merge_with(key, value, how)?))
    }

    fallible fn rocksdb_merge_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        write_one(db, options, family, |to, how| Ok(to.keyspace.merge_with(key, value, how)?))
    }

    fallible fn rocksdb_write(
        db: *mut rocksdb_t, options: *const Bag, batch: *mut rocksdb_writebatch_t,
    ) {
        let store = store(db)?;
        let options = of_write(options, store.manual_wal)?;
        shared(batch, "the batch")?.0.write(store, options)
    }

    fallible fn rocksdb_get(
        db: *mut rocksdb_t, options: *const Bag,
        key: *const c_char, key_len: usize, len: *mut usize,
    ) -> *mut c_char {
        let found = found(db, null_mut(), options, key, key_len)?;
        Ok(value_out(found.as_deref(), len))
    }

    fallible fn rocksdb_get_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, len: *mut usize,
    ) -> *mut c_char {
        let found = found(db, family, options, key, key_len)?;
        Ok(value_out(found.as_deref(), len))
    }

    fallible fn rocksdb_get_pinned(
        db: *mut rocksdb_t, options: *const Bag, key: *const c_char, key_len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(found(db, null_mut(), options, key, key_len)?.map(Into::into)))
    }

    fallible fn rocksdb_get_pinned_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(found(db, family, options, key, key_len)?.map(Into::into)))
    }

    fallible fn rocksdb_get_pinned_v2(
        db: *mut rocksdb_t, options: *const Bag, key: *const c_char, key_len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(found(db, null_mut(), options, key, key_len)?.map(Into::into)))
    }

    fallible fn rocksdb_get_pinned_cf_v2(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
    ) -> *mut rocksdb_pinnableslice_t {
        Ok(pinned(found(db, family, options, key, key_len)?.map(Into::into)))
    }

    fn rocksdb_pinnableslice_destroy(value: *mut rocksdb_pinnableslice_t) {
        free(value)
    }

    fn rocksdb_pinnableslice_value(
        value: *const rocksdb_pinnableslice_t, len: *mut usize,
    ) -> *const c_char {
        let value = value.as_ref();
        if let Some(len) = len.as_mut() {
            *len = value.map_or(0, |value| value.0.len());
        }
        Ok(value.map_or(std::ptr::null(), |value| value.0.as_ptr().cast()))
    }

    fn rocksdb_pinnable_handle_destroy(value: *mut rocksdb_pinnableslice_t) {
        free(value)
    }

    fn rocksdb_pinnable_handle_get_value(
        value: *const rocksdb_pinnableslice_t, len: *mut usize,
    ) -> *const c_char {
        Ok(rocksdb_pinnableslice_value(value, len))
    }

    fallible fn rocksdb_get_into_buffer(
        db: *mut rocksdb_t, options: *const Bag, key: *const c_char, key_len: usize,
        buffer: *mut c_char, size: usize, len: *mut usize, there: *mut u8,
    ) -> u8 {
        let value = found(db, null_mut(), options, key, key_len)?;
        Ok(into_buffer(value, (buffer, size), len, there))
    }

    fallible fn rocksdb_get_into_buffer_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize,
        buffer: *mut c_char, size: usize, len: *mut usize, there: *mut u8,
    ) -> u8 {
        let value = found(db, family, options, key, key_len)?;
        Ok(into_buffer(value, (buffer, size), len, there))
    }

    fn rocksdb_multi_get(
        db: *mut rocksdb_t, options: *const Bag, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(store(db), options, std::ptr::null(), number, (keys, key_lens), to)
    }

    fn rocksdb_multi_get_cf(
        db: *mut rocksdb_t, options: *const Bag, families: *const *const Handle, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut c_char, lens: *mut usize, errors: *mut *mut c_char,
    ) {
        let to = Places { values, lens, errors };
        multi_get(store(db), options, families, number, (keys, key_lens), to)
    }

    fn rocksdb_batched_multi_get_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle, number: usize,
        keys: *const *const c_char, key_lens: *const usize,
        values: *mut *mut rocksdb_pinnableslice_t, errors: *mut *mut c_char, sorted: bool,
    ) {
        let _ = sorted;
        let keys = byte_lists(keys, key_lens, number);
        batched(db, options, family, keys, number, (values, errors))
    }

    fn rocksdb_batched_multi_get_cf_slice(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle, number: usize,
        keys: *const rocksdb_slice_t,
        values: *mut *mut rocksdb_pinnableslice_t, errors: *mut *mut c_char, sorted: bool,
    ) {
        let _ = sorted;
        let keys = array(keys, number)?.iter().map(|key| bytes(key.data, key.size)).collect();
        batched(db, options, family, keys, number, (values, errors))
    }

    fn rocksdb_key_may_exist(
        db: *mut rocksdb_t, options: *const Bag, key: *const c_char, key_len: usize,
        value: *mut *mut c_char, len: *mut usize,
        timestamp: *const c_char, timestamp_len: usize, value_found: *mut u8,
    ) -> u8 {
        let _ = (timestamp, timestamp_len);
        may_exist(found(db, null_mut(), options, key, key_len), value, len, value_found)
    }

    fn rocksdb_key_may_exist_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
        key: *const c_char, key_len: usize, value: *mut *mut c_char, len: *mut usize,
        timestamp: *const c_char, timestamp_len: usize, value_found: *mut u8,
    ) -> u8 {
        let _ = (timestamp, timestamp_len);
        may_exist(found(db, family, options, key, key_len), value, len, value_found)
    }

    fn rocksdb_get_latest_sequence_number(db: *mut rocksdb_t) -> u64 {
        Ok(store(db)?.db.snapshot().seq().0)
    }

    fallible fn rocksdb_repair_db(options: *const Bag, name: *const c_char) {
        let _ = (options, name);
        Err(Failure::missing(
            "this library repairs nothing: `vlsm verify FOLDER` says what is damaged, and \
             `vlsm repair FOLDER` saves what can be saved",
        ))
    }
}
