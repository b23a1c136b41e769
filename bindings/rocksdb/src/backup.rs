//! The backup engine: numbered copies of a store in one folder.
//!
//! 1. A backup is a checkpoint that is copied, file by file and checked, into the folder `N`. It
//!    shares no file with the store and none with other backups.
//! 2. It is made under a name that no backup has and then renamed, so a crash leaves no partial
//!    backup.
//! 3. A restore is another checked copy, into a new or empty folder, or over a store that no
//!    process has open, which is removed first.
//!
//! RocksDB's backups share files; these do not, and cost their whole size each.

use crate::bag::Bag;
use crate::call::{Outcome, api, free, give, path, shared};
use crate::status::{Failure, Kind};
use crate::store::{rocksdb_t, store};
use parking_lot::Mutex;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A folder of backups.
pub struct rocksdb_backup_engine_t {
    folder: PathBuf,
    /// One backup is made at a time.
    making: Mutex<()>,
}

/// A backup, as its list knows it.
struct Backup {
    id: u32,
    made: i64,
    bytes: u64,
    files: u32,
}

/// A list of backups.
pub struct rocksdb_backup_engine_info_t(Vec<Backup>);

/// The temporary files of a backup in progress. A process that dies leaves them behind.
const PARTS: [&str; 2] = ["making.checkpoint", "making.copy"];

impl rocksdb_backup_engine_t {
    fn open(folder: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(folder)?;
        let engine = Self { folder: folder.to_owned(), making: Mutex::default() };
        engine.clean()?;
        Ok(engine)
    }

    /// Removes the unfinished parts of an earlier process.
    fn clean(&self) -> Outcome {
        for part in PARTS.map(|part| self.folder.join(part)) {
            if part.exists() {
                std::fs::remove_dir_all(part)?;
            }
        }
        Ok(())
    }

    /// The numbers of the backups, ascending.
    fn ids(&self) -> Outcome<Vec<u32>> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn backup(&self, id: u32) -> Outcome<PathBuf> {
        let folder = self.folder.join(id.to_string());
        match folder.is_dir() {
            true => Ok(folder),
            false => Err(Failure::new(Kind::NotFound, format!("there is no backup {id}"))),
        }
    }

    unsafe fn make(&self, db: *mut rocksdb_t, flush: bool) -> Outcome<u32> {
        let store = unsafe { store(db)? };
        let _alone = self.making.lock();
        self.clean()?;
        if flush {
            store.db.flush()?;
        }
        let id = self.ids()?.last().map_or(1, |last| last + 1);
        let [checkpoint, copy] = PARTS.map(|part| self.folder.join(part));
        store.db.checkpoint(&checkpoint)?;
        engine::restore(&checkpoint, &copy)?;
        std::fs::remove_dir_all(&checkpoint)?;
        std::fs::rename(&copy, self.folder.join(id.to_string()))?;
        std::fs::File::open(&self.folder)?.sync_all()?;
        Ok(id)
    }

    fn restore(&self, id: u32, to: &Path) -> Outcome {
        let from = self.backup(id)?;
        if to.join("CURRENT").exists() {
            // Checks the backup before the store that it replaces is gone.
            self.verify(id)?;
            crate::files::destroy(to)?;
        }
        engine::restore(from, to)?;
        Ok(())
    }

    fn verify(&self, id: u32) -> Outcome {
        let report = engine::verify(self.backup(id)?)?;
        let mut findings = report.findings.iter();
        match findings.find(|it| it.severity == engine::Severity::Damage) {
            None => Ok(()),
            Some(found) => {
                let what = format!("{}: {}", found.path.display(), found.what);
                Err(Failure::new(Kind::Corruption, what))
            }
        }
    }

    fn purge(&self, keep: usize) -> Outcome {
        let ids = self.ids()?;
        for id in &ids[..ids.len().saturating_sub(keep)] {
            self.delete(*id)?;
        }
        Ok(())
    }

    fn delete(&self, id: u32) -> Outcome {
        Ok(std::fs::remove_dir_all(self.backup(id)?)?)
    }

    fn info(&self) -> Outcome<Vec<Backup>> {
        let describe = |id: u32| {
            let folder = self.backup(id)?;
            let made = std::fs::metadata(&folder)?.modified()?.duration_since(UNIX_EPOCH);
            let made = made.map_or(0, |since| since.as_secs() as i64);
            let mut backup = Backup { id, made, bytes: 0, files: 0 };
            for entry in std::fs::read_dir(folder)? {
                backup.bytes += entry?.metadata()?.len();
                backup.files += 1;
            }
            Ok(backup)
        };
        self.ids()?.into_iter().map(describe).collect()
    }
}

type Engine = rocksdb_backup_engine_t;
type Info = rocksdb_backup_engine_info_t;

/// A backup of a list.
unsafe fn at<'a>(info: *const Info, index: c_int) -> Outcome<&'a Backup> {
    let info = unsafe { shared(info, "the list")? };
    let backup = usize::try_from(index).ok().and_then(|index| info.0.get(index));
    backup.ok_or_else(|| Failure::argument(format!("there is no backup at index {index}")))
}

api! {
    fallible fn rocksdb_backup_engine_open(
        options: *const Bag, folder: *const c_char,
    ) -> *mut Engine {
        let _ = options;
        Ok(give(Engine::open(path(folder)?)?))
    }

    fn rocksdb_backup_engine_options_create(folder: *const c_char) -> *mut Bag {
        let mut options = Bag::new("backup_engine_options");
        options.keep("backup_dir", Arc::new(path(folder)?.to_owned()));
        Ok(give(options))
    }

    fn rocksdb_backup_engine_options_set_backup_dir(options: *mut Bag, folder: *const c_char) {
        let folder = Arc::new(path(folder)?.to_owned());
        crate::call::changed(options, "the options")?.keep("backup_dir", folder);
        Ok(())
    }

    fallible fn rocksdb_backup_engine_open_opts(
        options: *const Bag, env: *mut c_void,
    ) -> *mut Engine {
        let _ = env;
        let folder = shared(options, "the options")?.kept::<PathBuf>("backup_dir");
        let folder = folder.ok_or_else(|| Failure::argument("the options name no folder"))?;
        Ok(give(Engine::open(&folder)?))
    }

    fallible fn rocksdb_backup_engine_create_new_backup(
        engine: *mut Engine, db: *mut rocksdb_t,
    ) {
        shared(engine, "the backup engine")?.make(db, false).map(|_| ())
    }

    fallible fn rocksdb_backup_engine_create_new_backup_flush(
        engine: *mut Engine, db: *mut rocksdb_t, flush: u8,
    ) {
        shared(engine, "the backup engine")?.make(db, flush != 0).map(|_| ())
    }

    fallible fn rocksdb_backup_engine_create_new_backup_with_options(
        engine: *mut Engine, db: *mut rocksdb_t, options: *const Bag, id: *mut u32,
    ) {
        let flush = options.as_ref().is_some_and(|options| options.flag("flush_before_backup"));
        let made = shared(engine, "the backup engine")?.make(db, flush)?;
        if let Some(id) = id.as_mut() {
            *id = made;
        }
        Ok(())
    }

    fallible fn rocksdb_backup_engine_purge_old_backups(engine: *mut Engine, keep: u32) {
        shared(engine, "the backup engine")?.purge(keep as usize)
    }

    fallible fn rocksdb_backup_engine_verify_backup(engine: *mut Engine, id: u32) {
        shared(engine, "the backup engine")?.verify(id)
    }

    fallible fn rocksdb_backup_engine_restore_db_from_latest_backup(
        engine: *mut Engine, folder: *const c_char, wal: *const c_char, options: *const Bag,
    ) {
        let _ = (wal, options);
        let engine = shared(engine, "the backup engine")?;
        let none = || Failure::new(Kind::NotFound, "there is no backup");
        engine.restore(*engine.ids()?.last().ok_or_else(none)?, path(folder)?)
    }

    fallible fn rocksdb_backup_engine_restore_db_from_backup(
        engine: *mut Engine, folder: *const c_char, wal: *const c_char, options: *const Bag,
        id: u32,
    ) {
        let _ = (wal, options);
        shared(engine, "the backup engine")?.restore(id, path(folder)?)
    }

    fn rocksdb_backup_engine_get_backup_info(engine: *mut Engine) -> *const Info {
        let backups = shared(engine, "the backup engine")?.info().unwrap_or_default();
        Ok(give(rocksdb_backup_engine_info_t(backups)).cast_const())
    }

    fn rocksdb_backup_engine_info_count(info: *const Info) -> c_int {
        Ok(shared(info, "the list")?.0.len() as c_int)
    }

    fn rocksdb_backup_engine_info_timestamp(info: *const Info, index: c_int) -> i64 {
        Ok(at(info, index)?.made)
    }

    fn rocksdb_backup_engine_info_backup_id(info: *const Info, index: c_int) -> u32 {
        Ok(at(info, index)?.id)
    }

    fn rocksdb_backup_engine_info_size(info: *const Info, index: c_int) -> u64 {
        Ok(at(info, index)?.bytes)
    }

    fn rocksdb_backup_engine_info_number_files(info: *const Info, index: c_int) -> u32 {
        Ok(at(info, index)?.files)
    }

    fn rocksdb_backup_engine_info_destroy(info: *const Info) {
        free(info.cast_mut())
    }

    fn rocksdb_backup_engine_close(engine: *mut Engine) {
        free(engine)
    }
}
