//! Stores: opened, closed, copied, asked.
//!
//! A store's handle is one of several that keep it open. `vlsm_close` ends it whatever else there
//! is: the other handles then say that the store is closed, and still have to be freed.

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

/// Opens the store in a folder, with options or NULL for the defaults. Called as vlsm_open, which
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

/// Opens a store to read, also while another process writes it. It shows the state of now until
/// vlsm_catch_up.
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

/// Shows what the writing process has written since a store was opened by vlsm_open_beside. On an
/// error it shows what it showed before.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_catch_up(db: *const vlsm_db) -> *mut vlsm_error {
    call(|| {
        unsafe { store(db)? }.catch_up()?;
        Ok(())
    })
}

/// Closes a store: everything that was acknowledged is in its files, and another process may open
/// it. Its other handles then return VLSM_CLOSED. The handle still has to be freed. An error says
/// what could not be written; the store is closed all the same.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_close(db: *const vlsm_db) -> *mut vlsm_error {
    call(|| Ok(unsafe { store(db)? }.clone().close()?))
}

/// Frees the handle of a store. The store closes with its last handle, and then nobody hears of
/// errors: call vlsm_close before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_db_free(db: *mut vlsm_db) {
    unsafe { free(db) }
}

/// The keyspace of a name.
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

/// The keyspace of a name, made with these options (NULL for the defaults) if there is none. One
/// that exists with other options is an error.
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

/// The keyspace `default`, which every store has.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_default(
    db: *const vlsm_db,
    keyspace: *mut *mut vlsm_keyspace,
) -> *mut vlsm_error {
    unsafe { give(keyspace, || Ok(vlsm_keyspace::new(store(db)?.default_keyspace()))) }
}

/// Removes a keyspace with everything that it holds. Its handles still have to be freed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_keyspace_drop(
    db: *const vlsm_db,
    keyspace: *const vlsm_keyspace,
) -> *mut vlsm_error {
    call(|| unsafe { Ok(store(db)?.drop_keyspace(vlsm_keyspace::of(keyspace)?)?) })
}

/// The names of all keyspaces. The caller frees the list by vlsm_names_free.
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

/// Writes all memtables into files and waits for it.
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

/// Copies the store, as of now, into a new folder. Files are linked where the file system can.
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

/// The counters of the store in the text format of Prometheus, with a NUL byte after the end. The
/// caller frees it by vlsm_bytes_free.
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
