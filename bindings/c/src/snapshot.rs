//! Snapshots: all keyspaces as they were at one moment.
//!
//! Each read of a keyspace takes a snapshot or NULL, so that one function does both.

use crate::call::{Outcome, free, give, shared};
use crate::db::{store, vlsm_db};
use crate::error::vlsm_error;
use engine::Snapshot;
use vlsm_handle::Owned;

/// A snapshot. Until it is freed, it keeps the data that it shows on the disk, and the store open.
pub struct vlsm_snapshot(Owned<Snapshot>);

/// The snapshot of a handle; none for NULL.
pub(crate) unsafe fn perhaps<'a>(snapshot: *const vlsm_snapshot) -> Outcome<Option<&'a Snapshot>> {
    if snapshot.is_null() {
        return Ok(None);
    }
    Ok(Some(unsafe { shared(snapshot, "the snapshot") }?.0.get()?))
}

/// Takes a snapshot of the present state of the store.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_snapshot_new(
    db: *const vlsm_db,
    snapshot: *mut *mut vlsm_snapshot,
) -> *mut vlsm_error {
    unsafe { give(snapshot, || Ok(vlsm_snapshot(Owned::new(store(db)?.snapshot())))) }
}

/// Frees a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_snapshot_free(snapshot: *mut vlsm_snapshot) {
    unsafe { free(snapshot) }
}
