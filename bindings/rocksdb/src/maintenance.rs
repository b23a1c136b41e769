//! Flushes, compactions, sizes and checks.
//!
//! A flush of one column family flushes all, because vLSM flushes whole stores. A compaction of a
//! range goes down to the last level, in jobs as narrow as any other.

use crate::bag::Bag;
use crate::call::{Outcome, api, array, byte_lists, bytes, count, shared};
use crate::status::{Failure, Kind};
use crate::store::{Store, place, rocksdb_column_family_handle_t, rocksdb_t, store};
use std::ffi::{c_char, c_int};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ptr::null;

type Handle = rocksdb_column_family_handle_t;

/// Flushes a store.
pub(crate) unsafe fn flush(store: &Store, options: *const Bag) -> Outcome {
    unsafe { shared(options, "the flush options")? };
    Ok(store.db.flush()?)
}

/// The two ends of a range of keys.
type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A range of keys. A NULL end means no limit.
unsafe fn range<'a>(
    from: (*const c_char, usize),
    to: (*const c_char, usize),
) -> Outcome<Range<'a>> {
    unsafe {
        let from = if from.0.is_null() { Unbounded } else { Included(bytes(from.0, from.1)?) };
        // As in RocksDB, the end of a compaction is inclusive.
        let to = if to.0.is_null() { Unbounded } else { Included(bytes(to.0, to.1)?) };
        Ok((from, to))
    }
}

unsafe fn compact(
    db: *const rocksdb_t,
    family: *const Handle,
    from: (*const c_char, usize),
    to: (*const c_char, usize),
) -> Outcome {
    unsafe {
        let (_, family) = place(db, family)?;
        Ok(family.keyspace.compact_range(range(from, to)?)?)
    }
}

/// The arrays in which C passes ranges.
type Ends = (*const *const c_char, *const usize);

/// The sizes of ranges, whose ends are exclusive.
unsafe fn sizes(
    db: *const rocksdb_t,
    family: *const Handle,
    number: c_int,
    (from, to): (Ends, Ends),
    sizes: *mut u64,
) -> Outcome {
    unsafe {
        let (_, family) = place(db, family)?;
        let number = count(number)?;
        let (from, to) = (byte_lists(from.0, from.1, number)?, byte_lists(to.0, to.1, number)?);
        array(sizes.cast_const(), number)?;
        for (at, (from, to)) in from.into_iter().zip(to).enumerate() {
            let found = match from < to {
                true => family.keyspace.approximate_size((Included(from), Excluded(to)))?.bytes.0,
                false => 0,
            };
            sizes.add(at).write(found);
        }
        Ok(())
    }
}

/// Checks every byte of a store that is open, as another reader of its folder.
fn verify(store: &Store) -> Outcome {
    let reader =
        engine::Db::builder(store.db.path()).follow(true).keep_unknown_operators(true).open()?;
    let report = reader.verify(&mut |_| {})?;
    reader.close()?;
    let damaged = report.findings.iter().find(|it| it.severity == engine::Severity::Damage);
    match damaged {
        None => Ok(()),
        Some(found) => {
            let what = format!("{}: {}", found.path.display(), found.what);
            Err(Failure::new(Kind::Corruption, what))
        }
    }
}

api! {
    fallible fn rocksdb_flush(db: *mut rocksdb_t, options: *const Bag) {
        flush(store(db)?, options)
    }

    fallible fn rocksdb_flush_cf(
        db: *mut rocksdb_t, options: *const Bag, family: *mut Handle,
    ) {
        let (store, _) = place(db, family)?;
        flush(store, options)
    }

    fallible fn rocksdb_flush_cfs(
        db: *mut rocksdb_t, options: *const Bag, families: *mut *mut Handle, number: c_int,
    ) {
        for family in array(families, count(number)?)? {
            place(db, *family)?;
        }
        flush(store(db)?, options)
    }

    fallible fn rocksdb_flush_wal(db: *mut rocksdb_t, sync: u8) {
        let _ = sync;
        Ok(store(db)?.db.sync()?)
    }

    fallible fn rocksdb_flush_wal_with_options(db: *mut rocksdb_t, options: *const Bag) {
        let _ = options;
        Ok(store(db)?.db.sync()?)
    }

    fn rocksdb_compact_range(
        db: *mut rocksdb_t,
        from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
    ) {
        compact(db, null(), (from, from_len), (to, to_len))
    }

    fn rocksdb_compact_range_cf(
        db: *mut rocksdb_t, family: *mut Handle,
        from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
    ) {
        compact(db, family, (from, from_len), (to, to_len))
    }

    fn rocksdb_compact_range_opt(
        db: *mut rocksdb_t, options: *mut Bag,
        from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
    ) {
        let _ = options;
        compact(db, null(), (from, from_len), (to, to_len))
    }

    fn rocksdb_compact_range_cf_opt(
        db: *mut rocksdb_t, family: *mut Handle, options: *mut Bag,
        from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
    ) {
        let _ = options;
        compact(db, family, (from, from_len), (to, to_len))
    }

    fallible fn rocksdb_suggest_compact_range(
        db: *mut rocksdb_t,
        from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
    ) {
        // This is only a suggestion, and vLSM decides by itself when to compact.
        store(db)?;
        range((from, from_len), (to, to_len)).map(|_| ())
    }

    fallible fn rocksdb_suggest_compact_range_cf(
        db: *mut rocksdb_t, family: *mut Handle,
        from: *const c_char, from_len: usize, to: *const c_char, to_len: usize,
    ) {
        place(db, family)?;
        range((from, from_len), (to, to_len)).map(|_| ())
    }

    fallible fn rocksdb_wait_for_compact(db: *mut rocksdb_t, options: *mut Bag) {
        let store = store(db)?;
        if shared(options, "the options")?.flag("flush") {
            store.db.flush()?;
        }
        store.db.wait_idle()?;
        match shared(options, "the options")?.flag("close_db") {
            true => Ok(store.db.clone().close()?),
            false => Ok(()),
        }
    }

    fallible fn rocksdb_approximate_sizes(
        db: *mut rocksdb_t, number: c_int,
        from: *const *const c_char, from_lens: *const usize,
        to: *const *const c_char, to_lens: *const usize, found: *mut u64,
    ) {
        sizes(db, null(), number, ((from, from_lens), (to, to_lens)), found)
    }

    fallible fn rocksdb_approximate_sizes_cf(
        db: *mut rocksdb_t, family: *mut Handle, number: c_int,
        from: *const *const c_char, from_lens: *const usize,
        to: *const *const c_char, to_lens: *const usize, found: *mut u64,
    ) {
        sizes(db, family, number, ((from, from_lens), (to, to_lens)), found)
    }

    fallible fn rocksdb_approximate_sizes_cf_with_flags(
        db: *mut rocksdb_t, family: *mut Handle, number: c_int,
        from: *const *const c_char, from_lens: *const usize,
        to: *const *const c_char, to_lens: *const usize, flags: u8, found: *mut u64,
    ) {
        let _ = flags;
        sizes(db, family, number, ((from, from_lens), (to, to_lens)), found)
    }

    fallible fn rocksdb_approximate_sizes_with_options(
        db: *mut rocksdb_t, options: *const Bag, number: c_int,
        from: *const *const c_char, from_lens: *const usize,
        to: *const *const c_char, to_lens: *const usize, found: *mut u64,
    ) {
        let _ = options;
        sizes(db, null(), number, ((from, from_lens), (to, to_lens)), found)
    }

    fallible fn rocksdb_approximate_sizes_cf_with_options(
        db: *mut rocksdb_t, family: *mut Handle, options: *const Bag, number: c_int,
        from: *const *const c_char, from_lens: *const usize,
        to: *const *const c_char, to_lens: *const usize, found: *mut u64,
    ) {
        let _ = options;
        sizes(db, family, number, ((from, from_lens), (to, to_lens)), found)
    }

    fallible fn rocksdb_verify_checksum(db: *mut rocksdb_t) {
        verify(store(db)?)
    }

    fallible fn rocksdb_verify_checksum_with_options(db: *mut rocksdb_t, options: *const Bag) {
        let _ = options;
        verify(store(db)?)
    }

    fallible fn rocksdb_verify_file_checksums(db: *mut rocksdb_t) {
        verify(store(db)?)
    }

    fallible fn rocksdb_verify_file_checksums_with_options(
        db: *mut rocksdb_t, options: *const Bag,
    ) {
        let _ = options;
        verify(store(db)?)
    }
}
