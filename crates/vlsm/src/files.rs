//! The store's SST files: names, open readers, numbers, and the end of those that no tree shows any
//! more.
//!
//! A file dies in three steps: an edit takes its last table out of the current version (it becomes
//! a *zombie*), the last reader that still sees it drops its view (only the zombie list holds its
//! metadata), and a background thread removes it. No drop on a latency path does a file operation.
//!
//! Readers (index and filter of a file in memory) are kept in the tables of the current version, as
//! far as the ledger has room for them; else a file is opened for one use. The coldest ones are let
//! go by an install that changes nothing else ([`colder`]).

use crate::counters::Counter;
use crate::events::Events;
use crate::memory::Memory;
use crate::sync::Mutex;
use std::any::Any;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vlsm_core::event::Event;
use vlsm_core::{Error, FileMeta, FileNumber, Result, Table, Version};
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::fs::pool::FilePool;
use vlsm_disk::names;
use vlsm_disk::sst::{BlockCache, SstCursor, SstReader};
use vlsm_disk::{Env, File, Gauge};

/// The path of an SST.
#[must_use]
pub fn sst_path(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(names::digits(number.0) + ".sst")
}

/// The number in an SST's file name.
#[must_use]
pub fn sst_number(name: &Path) -> Option<FileNumber> {
    names::number(name, "", ".sst").map(FileNumber)
}

/// Numbers that are given once.
#[derive(Debug)]
pub(crate) struct Numbers {
    file: AtomicU64,
    memtable: AtomicU64,
    run: AtomicU64,
    job: AtomicU64,
}

impl Numbers {
    pub fn new(next_file: u64, next_run: u64, next_memtable: u64) -> Self {
        Self {
            file: AtomicU64::new(next_file),
            memtable: AtomicU64::new(next_memtable),
            run: AtomicU64::new(next_run),
            job: AtomicU64::new(1),
        }
    }

    pub fn next_file(&self) -> u64 {
        self.file.fetch_add(1, Ordering::Relaxed)
    }

    pub fn next_memtable(&self) -> u64 {
        self.memtable.fetch_add(1, Ordering::Relaxed)
    }

    /// No memtable has this number or a larger one yet.
    pub fn memtables_end(&self) -> u64 {
        self.memtable.load(Ordering::Relaxed)
    }

    pub fn next_run(&self) -> u64 {
        self.run.fetch_add(1, Ordering::Relaxed)
    }

    pub fn next_job(&self) -> u64 {
        self.job.fetch_add(1, Ordering::Relaxed)
    }

    /// The numbers that the next file and the next run would get.
    pub fn peek(&self) -> (u64, u64) {
        (self.file.load(Ordering::Relaxed), self.run.load(Ordering::Relaxed))
    }
}

/// An open file: kept by its table, or lent for one use.
pub(crate) enum OpenFile<'a> {
    Kept(&'a SstReader),
    Lent(Arc<SstReader>),
}

impl Deref for OpenFile<'_> {
    type Target = SstReader;

    #[inline]
    fn deref(&self) -> &SstReader {
        match self {
            Self::Kept(reader) => reader,
            Self::Lent(reader) => reader,
        }
    }
}

type AnyReader = Arc<dyn Any + Send + Sync>;

#[inline]
fn as_reader(any: &AnyReader) -> Result<&SstReader> {
    any.downcast_ref().ok_or_else(other_type)
}

fn as_shared(any: &AnyReader) -> Result<Arc<SstReader>> {
    any.clone().downcast().map_err(|_| other_type())
}

#[cold]
fn other_type() -> Error {
    Error::Internal("a file's reader is of another type".into())
}

/// The version with readers of about `bytes` let go, those first that were not used since this was
/// last asked; none when there are none. Who sees the version before still has them.
pub(crate) fn colder(version: &Version, bytes: &mut u64, let_go: &Gauge) -> Option<Version> {
    let mut next = version.clone();
    let mut any = false;
    // From the bottom up: every read asks what lies above.
    let runs = next.l0.iter_mut().map(|run| &mut run.tables);
    for tables in next.levels.iter_mut().rev().chain(runs) {
        *tables = tables.map(|table| {
            if *bytes == 0 || !table.reader.is_filled() || table.reader.take_used() {
                return None;
            }
            let reader = as_reader(table.reader.peek()?).ok()?;
            reader.charge_to(let_go);
            *bytes = bytes.saturating_sub(reader.memory_bytes() as u64);
            any = true;
            Some(Arc::new(table.without_reader()))
        });
    }
    any.then_some(next)
}

/// Open SSTs and dead ones.
pub(crate) struct Files {
    env: Arc<dyn Env>,
    dir: PathBuf,
    pool: Arc<FilePool>,
    cache: Arc<BlockCache>,
    memory: Arc<Memory>,
    events: Arc<Events>,
    direct_reads: bool,
    /// Whether [`Event::Buffered`] was told.
    buffered: AtomicBool,
    open_bytes: Counter,
    zombies: Mutex<Vec<Arc<FileMeta>>>,
    /// Dead files that the system did not remove when asked.
    stuck: Mutex<Vec<Arc<FileMeta>>>,
}

impl Files {
    pub fn new(
        env: Arc<dyn Env>,
        dir: PathBuf,
        memory: Arc<Memory>,
        events: Arc<Events>,
        direct_reads: bool,
    ) -> Self {
        Self {
            cache: memory.cache.clone(),
            pool: FilePool::new(env.fs()),
            env,
            dir,
            memory,
            events,
            direct_reads,
            buffered: AtomicBool::new(false),
            open_bytes: Counter::default(),
            zombies: Mutex::default(),
            stuck: Mutex::default(),
        }
    }

    /// Opens an SST, and tells where that cannot be done as asked for.
    pub fn open_file(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = self.pool.open(path, options)?;
        let buffered = options.direct && !file.is_direct();
        if buffered && !self.buffered.swap(true, Ordering::Relaxed) {
            self.events.emit(Event::Buffered { path: path.to_owned() });
        }
        Ok(file)
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The reader of a table's file, opened where it is not.
    #[inline]
    pub fn reader<'a>(&self, table: &'a Table) -> Result<OpenFile<'a>> {
        match table.reader.get() {
            Some(kept) => Ok(OpenFile::Kept(as_reader(kept)?)),
            None => Ok(OpenFile::Lent(self.open_to_keep(table)?)),
        }
    }

    /// The reader of a table's file, to hold on to.
    pub fn shared_reader(&self, table: &Table) -> Result<Arc<SstReader>> {
        match table.reader.get() {
            Some(kept) => as_shared(kept),
            None => self.open_to_keep(table),
        }
    }

    /// The reader of a table's file for a job, which does not make the table a used one and asks no
    /// filter.
    pub fn reader_for_job(&self, table: &Table) -> Result<Arc<SstReader>> {
        match table.reader.peek() {
            Some(kept) => as_shared(kept),
            None => Ok(Arc::new(self.charged(self.open(&table.file)?.without_filter()))),
        }
    }

    /// Opens a file and keeps it open, if there is memory for that.
    #[cold]
    fn open_to_keep(&self, table: &Table) -> Result<Arc<SstReader>> {
        let reader = Arc::new(self.charged(self.open(&table.file)?));
        if self.memory.readers_fit() {
            table.reader.fill(reader.clone());
        }
        Ok(reader)
    }

    /// Opens a file that is to be ingested: the reader for [`Files::keep`].
    pub fn open_new(&self, file: &FileMeta) -> Result<SstReader> {
        self.open(file)
    }

    /// Keeps a reader with the new table of its file, if there is memory for that.
    pub fn keep(&self, table: &Table, reader: SstReader) {
        if self.memory.readers_fit() {
            table.reader.fill(Arc::new(self.charged(reader)));
        }
    }

    fn open(&self, file: &FileMeta) -> Result<SstReader> {
        let path = sst_path(&self.dir, file.number);
        let options = OpenOptions::READ.direct(self.direct_reads);
        let opened = self.open_file(&path, options);
        let opened = opened.map_err(|error| Error::io("cannot open SST", &path, error))?;
        let reader = SstReader::open(opened, &path, file)?;
        self.open_bytes.add(reader.open_bytes());
        Ok(reader)
    }

    fn charged(&self, reader: SstReader) -> SstReader {
        reader.charge_to(&self.memory.readers);
        self.memory.note_reader();
        reader
    }

    /// Bytes that were read to open files.
    pub fn open_bytes(&self) -> u64 {
        self.open_bytes.get()
    }

    /// A cursor over a table's file through the block cache.
    pub fn cursor(&self, table: &Table) -> Result<SstCursor> {
        Ok(self.shared_reader(table)?.cursor(&self.cache, true))
    }

    /// Notes files that left the current version.
    pub fn bury(&self, files: impl IntoIterator<Item = Arc<FileMeta>>) {
        let mut zombies = self.zombies.lock();
        for file in files {
            // A file that is consumed slice by slice is named several times.
            if !zombies.iter().any(|zombie| zombie.number == file.number) {
                zombies.push(file);
            }
        }
    }

    /// Whether there is a zombie that nobody sees any more.
    pub fn any_dead(&self) -> bool {
        self.zombies.lock().iter().any(|file| Arc::strong_count(file) == 1)
    }

    /// Number of zombies and their bytes, with those that cannot be removed.
    pub fn zombies(&self) -> (usize, u64) {
        let count = |files: &[Arc<FileMeta>]| {
            (files.len(), files.iter().map(|file| file.bytes.0).sum::<u64>())
        };
        let (zombies, stuck) = (count(&self.zombies.lock()), count(&self.stuck.lock()));
        (zombies.0 + stuck.0, zombies.1 + stuck.1)
    }

    /// Number of dead files that the system did not remove when asked.
    pub fn stuck(&self) -> usize {
        self.stuck.lock().len()
    }

    /// Removes the files that nobody sees any more, and tries those again that could not be removed
    /// before. Does file calls: on a background thread only.
    pub fn remove_dead(&self) {
        let mut dead = std::mem::take(&mut *self.stuck.lock());
        let known = dead.len();
        self.zombies.lock().retain(|file| {
            let unseen = Arc::strong_count(file) == 1;
            if unseen {
                dead.push(file.clone());
            }
            !unseen
        });
        for (n, file) in dead.into_iter().enumerate() {
            let path = sst_path(&self.dir, file.number);
            match self.env.fs().remove(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    if n >= known {
                        let error = Error::io("cannot remove", &path, error);
                        self.events.emit(Event::NotRemoved { error });
                    }
                    self.stuck.lock().push(file);
                }
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let path = sst_path(Path::new("store"), FileNumber(42));
        assert_eq!(path, Path::new("store/000042.sst"));
        assert_eq!(sst_number(Path::new("000042.sst")), Some(FileNumber(42)));
        assert_eq!(sst_number(Path::new("1234567.sst")), Some(FileNumber(1_234_567)));
        for other in ["x.sst", "42.wal", ".sst", "+1.sst"] {
            assert_eq!(sst_number(Path::new(other)), None, "{other}");
        }
    }
}
