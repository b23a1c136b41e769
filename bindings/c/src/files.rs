//! Files of sorted pairs: they are made outside of a store, which then ingests them all at once.
//!
//! A file is checked completely before it becomes a part of the store.

use crate::call::{Outcome, array, call, changed, free, give, pair, path};
use crate::error::{Failure, vlsm_error};
use crate::keyspace::vlsm_keyspace;
use engine::{IngestOptions, SstFileWriter};
use std::ffi::c_char;
use vlsm_handle::Owned;

/// A file that is being written. If it is freed without vlsm_file_finish, the file is removed.
pub struct vlsm_file(Owned<Option<SstFileWriter>>);

unsafe fn of<'a>(file: *mut vlsm_file) -> Outcome<&'a mut SstFileWriter> {
    let finished = || Failure::argument("the file was finished: create another one");
    unsafe { changed(file, "the file")? }.0.get_mut()?.as_mut().ok_or_else(finished)
}

/// Creates a file for a keyspace, with its options. The file must not exist.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_file_new(
    keyspace: *const vlsm_keyspace,
    file_path: *const c_char,
    file: *mut *mut vlsm_file,
) -> *mut vlsm_error {
    unsafe {
        give(file, || {
            let writer = vlsm_keyspace::of(keyspace)?.sst_writer(path(file_path, "the path")?)?;
            Ok(vlsm_file(Owned::new(Some(writer))))
        })
    }
}

/// Frees a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_file_free(file: *mut vlsm_file) {
    unsafe { free(file) }
}

/// Adds a pair. Keys must ascend.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_file_put(
    file: *mut vlsm_file,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> *mut vlsm_error {
    call(|| unsafe {
        let (key, value) = pair(key, key_len, value, value_len)?;
        Ok(of(file)?.put(key, value)?)
    })
}

/// Finishes a file and syncs it to the device. It must have at least one pair.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_file_finish(file: *mut vlsm_file) -> *mut vlsm_error {
    call(|| unsafe {
        of(file)?;
        let writer = changed(file, "the file")?.0.get_mut()?.take();
        writer.map(SstFileWriter::finish).transpose()?;
        Ok(())
    })
}

/// Adds files to a keyspace, all of them or none. Their pairs replace older ones. Their key ranges
/// must not overlap. `move_files` adds them as hard links, where the file system supports them, and
/// removes the originals.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vlsm_ingest(
    keyspace: *const vlsm_keyspace,
    paths: *const *const c_char,
    count: usize,
    move_files: bool,
) -> *mut vlsm_error {
    call(|| unsafe {
        let paths = array(paths, count, "the paths")?.iter();
        let paths: Outcome<Vec<_>> = paths.map(|at| path(*at, "a path")).collect();
        let options = if move_files { IngestOptions::moving() } else { IngestOptions::default() };
        vlsm_keyspace::of(keyspace)?.ingest_with(paths?, options)?;
        Ok(())
    })
}
