//! Snapshots, and the read options that refer to one.
//!
//! Read options keep the state of their snapshot, so reads work even if the snapshot is released
//! too early.

use crate::bag::Bag;
use crate::call::{Outcome, api, bytes, changed, free, give, shared};
use crate::store::{rocksdb_t, store};
use engine::Snapshot;
use std::ffi::c_char;
use std::sync::Arc;
use vlsm_handle::Owned;

/// The state that a snapshot shows.
pub(crate) struct Seen {
    pub snapshot: Snapshot,
}

/// A snapshot's handle. The handle of a transaction without a snapshot shows the newest state.
pub struct rocksdb_snapshot_t(Owned<Option<Arc<Seen>>>);

impl rocksdb_snapshot_t {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self::of(Some(Arc::new(Seen { snapshot })))
    }

    pub(crate) fn of(seen: Option<Arc<Seen>>) -> Self {
        Self(Owned::new(seen))
    }
}

/// Sets a bound of iterators. NULL removes it.
unsafe fn bound(options: *mut Bag, key: &'static str, at: *const c_char, len: usize) -> Outcome {
    unsafe {
        let options = changed(options, "the read options")?;
        match at.is_null() {
            true => options.forget(key),
            false => options.keep(key, Arc::new(bytes(at, len)?.to_vec())),
        }
    }
    Ok(())
}

api! {
    fn rocksdb_create_snapshot(db: *mut rocksdb_t) -> *const rocksdb_snapshot_t {
        Ok(give(rocksdb_snapshot_t::new(store(db)?.db.snapshot())).cast_const())
    }

    fn rocksdb_release_snapshot(db: *mut rocksdb_t, snapshot: *const rocksdb_snapshot_t) {
        let _ = db;
        free(snapshot.cast_mut())
    }

    fn rocksdb_snapshot_get_sequence_number(snapshot: *const rocksdb_snapshot_t) -> u64 {
        let seen = shared(snapshot, "the snapshot")?.0.get()?;
        Ok(seen.as_ref().map_or(0, |seen| seen.snapshot.seq().0))
    }

    fn rocksdb_readoptions_set_snapshot(options: *mut Bag, snapshot: *const rocksdb_snapshot_t) {
        let options = changed(options, "the read options")?;
        match snapshot.as_ref().map(|snapshot| snapshot.0.get()).transpose()? {
            Some(Some(seen)) => options.keep("snapshot", seen.clone()),
            _ => options.forget("snapshot"),
        }
        Ok(())
    }

    fn rocksdb_readoptions_set_iterate_upper_bound(
        options: *mut Bag, key: *const c_char, len: usize,
    ) {
        bound(options, "upper_bound", key, len)
    }

    fn rocksdb_readoptions_set_iterate_lower_bound(
        options: *mut Bag, key: *const c_char, len: usize,
    ) {
        bound(options, "lower_bound", key, len)
    }
}
