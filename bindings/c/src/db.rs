//! Stores: opening, closing, copying, keyspaces and statistics.
//!
//! Every handle of a store keeps it open. `vlsm_close` closes it although other handles exist:
//! calls on those then return VLSM_CLOSED, and they still have to be freed.

use crate::VLSM_ABI_VERSION;
use crate::buffer::{vlsm_bytes, vlsm_names};
use crate::call::{Outcome, call, free, give, out, path, shared, text};
use crate::error::{Failure, vlsm_code, vlsm_error};
use crate::keyspace::vlsm_keyspace;
use crate::options::{Opening, keyspace_options, vlsm_keyspace_options, vlsm_options};
use engine::Db;
use std::ffi::c_char;
use vlsm_handle::Owned;

/// An open store.
pub struct vlsm_db(Owned<Db>);

/// The store of a handle.
pub(crate) unsafe fn store<'a>(db: *const vlsm_db) -> Outcome<&'a Db> {
    Ok(unsafe { shared(db, "the store") }?.0.get()?)
}

/// Opens the store in a folder, with options or NULL for the defaults. Call it as vlsm_open, which
/// adds the version of the header.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_open_abi(
    abi: u32,
    folder: *const c_char,
    options: *const vlsm_options,
    db: *mut *mut vlsm_db,
) -> *mut vlsm_error {
    unsafe {
        give(db, || {
            if abi != VLSM_ABI_VERSION {
                let what = format!(
                    "the program was compiled with version {abi} of vlsm.h, and the library has \
                     version {VLSM_ABI_VERSION}: compile it again with the library's header"
                );
                return Err(Failure::Own(vlsm_code::VLSM_ABI, what));
            }
            let folder = path(folder, "the folder")?;
            let db = match options.as_ref() {
                Some(options) => options.0.get()?.open(folder)?,
                None => Opening::default().open(folder)?,
            };
            Ok(vlsm_db(Owned::new(db)))
        })
    }
}

/// Opens a store for reading, also while another process writes it. It shows the present state
/// until vlsm_catch_up is called.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_open_beside(
    folder: *const c_char,
    db: *mut *mut vlsm_db,
) -> *mut vlsm_error {
    unsafe {
        give(db, || Ok(vlsm_db(Owned::new(Db::open_read_only(path(folder, "the folder")?)?))))
    }
}

/// Makes later writes of the writing process visible in a store that was opened by
/// vlsm_open_beside. After an error the store shows what it showed before.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_catch_up(db: *const vlsm_db) -> *mut vlsm_error {
    call(|| {
        unsafe { store(db)? }.catch_up()?;
        Ok(())
    })
}

/// Closes a store: all acknowledged writes are then in its files, and another process may open it.
/// Calls on its other handles return VLSM_CLOSED. The handle still has to be freed. It returns an
/// error if the last writes could not be made durable; the store is closed nevertheless.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_close(db: *const vlsm_db) -> *mut vlsm_error {
    call(|| Ok(unsafe { store(db)? }.clone().close()?))
}

/// Frees the handle of a store. The store is closed with its last handle, but then errors are not
/// reported: call vlsm_close before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_db_free(db: *mut vlsm_db) {
    unsafe { free(db) }
}

/// Opens the keyspace with this name.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_open(
    db: *const vlsm_db,
    name: *const c_char,
    keyspace: *mut *mut vlsm_keyspace,
) -> *mut vlsm_error {
    unsafe {
        give(keyspace, || Ok(vlsm_keyspace::new(store(db)?.keyspace(text(name, "the name")?)?)))
    }
}

/// Opens the keyspace with this name, or creates it with these options (NULL for the defaults). It
/// is an error if it exists with other options.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_create(
    db: *const vlsm_db,
    name: *const c_char,
    options: *const vlsm_keyspace_options,
    keyspace: *mut *mut vlsm_keyspace,
) -> *mut vlsm_error {
    unsafe {
        give(keyspace, || {
            let (name, options) = (text(name, "the name")?, keyspace_options(options)?);
            Ok(vlsm_keyspace::new(store(db)?.create_keyspace(name, options)?))
        })
    }
}

/// Opens the keyspace `default`, which every store has.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_default(
    db: *const vlsm_db,
    keyspace: *mut *mut vlsm_keyspace,
) -> *mut vlsm_error {
    unsafe { give(keyspace, || Ok(vlsm_keyspace::new(store(db)?.default_keyspace()))) }
}

/// Removes a keyspace and all its data. Its handles still have to be freed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_drop(
    db: *const vlsm_db,
    keyspace: *const vlsm_keyspace,
) -> *mut vlsm_error {
    call(|| unsafe { Ok(store(db)?.drop_keyspace(vlsm_keyspace::of(keyspace)?)?) })
}

/// Lists the names of all keyspaces. The caller frees the list with vlsm_names_free.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspaces(
    db: *const vlsm_db,
    names: *mut *mut vlsm_names,
) -> *mut vlsm_error {
    unsafe { give(names, || Ok(vlsm_names::of(store(db)?.keyspaces()))) }
}

/// Waits until all writes so far are on the device.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_sync(db: *const vlsm_db) -> *mut vlsm_error {
    call(|| Ok(unsafe { store(db)? }.sync()?))
}

/// Flushes all memtables and waits until that is done.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_flush(db: *const vlsm_db) -> *mut vlsm_error {
    call(|| Ok(unsafe { store(db)? }.flush()?))
}

/// Waits until nothing is left to flush or to compact.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_wait_idle(db: *const vlsm_db) -> *mut vlsm_error {
    call(|| Ok(unsafe { store(db)? }.wait_idle()?))
}

/// Copies the present state of the store into a new folder. SSTs are hard links where the file
/// system supports them.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_checkpoint(
    db: *const vlsm_db,
    target: *const c_char,
) -> *mut vlsm_error {
    call(|| unsafe {
        store(db)?.checkpoint(path(target, "the target")?)?;
        Ok(())
    })
}

/// Checks a checkpoint and copies it into a new folder.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_restore(
    checkpoint: *const c_char,
    target: *const c_char,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (from, target) = (path(checkpoint, "the checkpoint")?, path(target, "the target")?);
        engine::restore(from, target)?;
        Ok(())
    })
}

/// Returns the counters of the store in the text format of Prometheus, with a NUL byte after the
/// end. The caller frees the text with vlsm_bytes_free.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_stats(db: *const vlsm_db, text: *mut vlsm_bytes) -> *mut vlsm_error {
    call(|| unsafe {
        let text = out(text)?;
        *text = vlsm_bytes::NONE;
        *text = vlsm_bytes::of_text(store(db)?.stats().prometheus());
        Ok(())
    })
}
