//! Copies and files of a store: checkpoints, files of sorted pairs and their ingest, and its end.
//!
//! The files are vLSM's: `rocksdb_sstfilewriter_*` makes files that `rocksdb_ingest_external_file`
//! takes, and neither reads those of RocksDB.

use crate::bag::Bag;
use crate::call::{Outcome, api, array, bytes, changed, free, give, path, shared};
use crate::options::apply::{check, of_keyspace, of_store};
use crate::status::{Failure, Kind};
use crate::store::{Store, place, rocksdb_column_family_handle_t, rocksdb_t, store};
use engine::env::{Env, RealEnv};
use engine::{IngestOptions, KeyspaceOptions, SstFileWriter};
use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::sync::Arc;
use vlsm_handle::Owned;

/// A maker of checkpoints.
pub struct rocksdb_checkpoint_t(Owned<Arc<Store>>);

impl rocksdb_checkpoint_t {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self(Owned::new(store.clone()))
    }
}

/// A writer of a file of sorted pairs.
pub struct rocksdb_sstfilewriter_t {
    options: Bag,
    writer: Option<SstFileWriter>,
    bytes: u64,
}

impl rocksdb_sstfilewriter_t {
    fn writer(&mut self) -> Outcome<&mut SstFileWriter> {
        let closed = || Failure::argument("the file is not open: rocksdb_sstfilewriter_open");
        self.writer.as_mut().ok_or_else(closed)
    }
}

/// Opens a file with the options of a keyspace.
fn open_writer(options: &Bag, file: &Path) -> Outcome<SstFileWriter> {
    check(options)?;
    let own = of_keyspace(options, KeyspaceOptions::new(), None);
    let mut to = of_store(options);
    if let Some(compression) = own.compression {
        to.compression = compression;
    }
    to.block_bytes = own.block_bytes.unwrap_or(to.block_bytes);
    to.bits_per_key = own.bits_per_key.unwrap_or(to.bits_per_key);
    let env: Arc<dyn Env> = RealEnv::new();
    Ok(SstFileWriter::create_in(&env, file, &to)?)
}

unsafe fn put(
    writer: *mut rocksdb_sstfilewriter_t,
    key: (*const c_char, usize),
    value: (*const c_char, usize),
) -> Outcome {
    unsafe {
        let (key, value) = (bytes(key.0, key.1)?, bytes(value.0, value.1)?);
        Ok(changed(writer, "the writer")?.writer()?.put(key, value)?)
    }
}

unsafe fn ingest(
    db: *const rocksdb_t,
    family: *const rocksdb_column_family_handle_t,
    files: (*const *const c_char, usize),
    options: *const Bag,
) -> Outcome {
    unsafe {
        let (_, family) = place(db, family)?;
        let options = shared(options, "the options")?;
        check(options)?;
        let files: Outcome<Vec<&Path>> =
            array(files.0, files.1)?.iter().map(|file| path(*file)).collect();
        let how = match options.flag("move_files") {
            true => IngestOptions::moving(),
            false => IngestOptions::default(),
        };
        family.keyspace.ingest_with(files?, how)?;
        Ok(())
    }
}

/// Whether a name is that of a file that a store makes in its folder.
fn is_ours(name: &str) -> bool {
    let is_number = |text: &str| text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = |suffix| name.strip_suffix(suffix).is_some_and(is_number);
    let values = name.strip_suffix(".values").and_then(|name| name.split_once('-'));
    ["LOCK", "CURRENT", "CURRENT.tmp", "LOG", "LOG.old", "LOG.rocksdb"].contains(&name)
        || [".sst", ".wal", ".wal.tmp"].into_iter().any(numbered)
        || values.is_some_and(|(sst, wal)| is_number(sst) && is_number(wal))
        || ["MANIFEST-", "DEVICE", "RESERVE", "STATS."].iter().any(|ours| name.starts_with(ours))
}

/// Removes a store's files, and its folder if nothing else is in it. The lock keeps writers out.
pub(crate) fn destroy(folder: &Path) -> Outcome {
    if !folder.exists() {
        return Ok(());
    }
    let list = || -> Outcome<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder)?;
        Ok(entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
    };
    let name = |file: &Path| file.file_name().map(|name| name.to_string_lossy().into_owned());
    crate::open::refuse_rocksdb(folder)?;
    // As RocksDB: there is nothing to destroy in a folder without a store.
    if !folder.join("CURRENT").exists() {
        return Ok(());
    }
    let lock_path = folder.join("LOCK");
    let env: Arc<dyn Env> = RealEnv::new();
    let lock = env.fs().lock(&lock_path)?;
    if lock.is_none() {
        let what = format!("lock {}: the database is open", lock_path.display());
        return Err(Failure::new(Kind::Io, what));
    }
    // `CURRENT` comes first, so that a partly removed store is never opened.
    for file in std::iter::once(folder.join("CURRENT")).chain(list()?) {
        if name(&file).is_some_and(|name| is_ours(&name)) && file.is_file() {
            std::fs::remove_file(&file)?;
        }
    }
    drop(lock);
    let _ = std::fs::remove_dir(folder);
    Ok(())
}

api! {
    fallible fn rocksdb_destroy_db(options: *const Bag, name: *const c_char) {
        let _ = options;
        destroy(path(name)?)
    }

    fallible fn rocksdb_checkpoint_object_create(
        db: *mut rocksdb_t,
    ) -> *mut rocksdb_checkpoint_t {
        Ok(give(rocksdb_checkpoint_t::new(store(db)?)))
    }

    fallible fn rocksdb_checkpoint_create(
        checkpoint: *mut rocksdb_checkpoint_t, folder: *const c_char, log_size: u64,
    ) {
        let _ = log_size;
        let (store, folder) = (shared(checkpoint, "the checkpoint")?.0.get()?, path(folder)?);
        if folder.exists() {
            return Err(Failure::argument("Directory exists"));
        }
        store.db.checkpoint(folder)?;
        Ok(())
    }

    fn rocksdb_checkpoint_object_destroy(checkpoint: *mut rocksdb_checkpoint_t) {
        free(checkpoint)
    }

    fn rocksdb_sstfilewriter_create(
        env: *const c_void, options: *const Bag,
    ) -> *mut rocksdb_sstfilewriter_t {
        let _ = env;
        let options = shared(options, "the options")?.clone();
        Ok(give(rocksdb_sstfilewriter_t { options, writer: None, bytes: 0 }))
    }

    fn rocksdb_sstfilewriter_create_with_comparator(
        env: *const c_void, options: *const Bag, comparator: *const c_void,
    ) -> *mut rocksdb_sstfilewriter_t {
        let _ = (env, comparator);
        let options = shared(options, "the options")?.clone();
        Ok(give(rocksdb_sstfilewriter_t { options, writer: None, bytes: 0 }))
    }

    fallible fn rocksdb_sstfilewriter_open(
        writer: *mut rocksdb_sstfilewriter_t, name: *const c_char,
    ) {
        let writer = changed(writer, "the writer")?;
        writer.writer = Some(open_writer(&writer.options, path(name)?)?);
        writer.bytes = 0;
        Ok(())
    }

    fallible fn rocksdb_sstfilewriter_add(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        put(writer, (key, key_len), (value, value_len))
    }

    fallible fn rocksdb_sstfilewriter_put(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize,
    ) {
        put(writer, (key, key_len), (value, value_len))
    }

    fallible fn rocksdb_sstfilewriter_delete(
        writer: *mut rocksdb_sstfilewriter_t, key: *const c_char, key_len: usize,
    ) {
        Ok(changed(writer, "the writer")?.writer()?.delete(bytes(key, key_len)?)?)
    }

    fallible fn rocksdb_sstfilewriter_finish(writer: *mut rocksdb_sstfilewriter_t) {
        let writer = changed(writer, "the writer")?;
        writer.writer()?;
        if let Some(open) = writer.writer.take() {
            writer.bytes = open.finish()?.bytes.0;
        }
        Ok(())
    }

    fn rocksdb_sstfilewriter_file_size(writer: *mut rocksdb_sstfilewriter_t, to: *mut u64) {
        let writer = shared(writer, "the writer")?;
        if let Some(to) = to.as_mut() {
            *to = writer.writer.as_ref().map_or(writer.bytes, |writer| writer.bytes().0);
        }
        Ok(())
    }

    fn rocksdb_sstfilewriter_destroy(writer: *mut rocksdb_sstfilewriter_t) {
        free(writer)
    }

    fallible fn rocksdb_ingest_external_file(
        db: *mut rocksdb_t, files: *const *const c_char, number: usize, options: *const Bag,
    ) {
        ingest(db, null(), (files, number), options)
    }

    fallible fn rocksdb_ingest_external_file_cf(
        db: *mut rocksdb_t, family: *mut rocksdb_column_family_handle_t,
        files: *const *const c_char, number: usize, options: *const Bag,
    ) {
        ingest(db, family, (files, number), options)
    }
}
