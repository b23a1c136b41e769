//! The table cache: open readers of SSTs.
//!
//! Readers (index and filter of a file in memory) are kept in the tables of the current version, as
//! far as the ledger has room for them. Otherwise a file is opened for one use. An install that
//! changes nothing else evicts the coldest readers ([`without_cold`]).
//!
//! If another process writes the store, it may remove a file that a view here still needs. So the
//! files of all views are held open ([`Held`]), and readers are created from these.

use crate::shared::Shared;
use crate::shared::counters::Counter;
use crate::shared::events::Events;
use crate::shared::memory::Memory;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vlsm_core::event::Event;
use vlsm_core::{Error, FileMeta, FileNumber, FileUid, Result, Table, Version};
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::fs::pool::FilePool;
use vlsm_disk::sst::{BlockCache, SstCursor, SstReader, Tail, sst_path};
use vlsm_disk::{File, Gauge};

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

/// Evicts about `bytes` of readers, and returns the version without them: first the readers that
/// were not used since the last call. None if there is none to evict. An older version still has
/// the readers.
pub(crate) fn without_cold(version: &Version, bytes: &mut u64, evicted: &Gauge) -> Option<Version> {
    let mut next = version.clone();
    let mut any = false;
    // From the bottom up, because every read searches the upper levels.
    let runs = next.l0.iter_mut().map(|run| &mut run.tables);
    for tables in next.levels.iter_mut().rev().chain(runs) {
        *tables = tables.map(|table| {
            if *bytes == 0 || !table.attachment.is_set() || table.attachment.take_used() {
                return None;
            }
            let reader: &SstReader = table.attachment.peek()?;
            reader.charge_to(evicted);
            *bytes = bytes.saturating_sub(reader.memory_bytes() as u64);
            any = true;
            Some(Arc::new(table.detached()))
        });
    }
    any.then_some(next)
}

/// Files that stay open even if another process removes them, by number and uid.
pub(crate) type Held = BTreeMap<(FileNumber, FileUid), HeldFile>;

/// A file that stays open as long as a table refers to it.
#[derive(Clone)]
pub(crate) struct HeldFile {
    /// The metadata that all tables of the file share.
    pub meta: Arc<FileMeta>,
    pub file: Arc<dyn File>,
    /// The WALs that hold values of it, by number.
    pub values: Vec<(u64, Arc<dyn File>)>,
}

impl HeldFile {
    /// The WAL of this number, if it holds values of the file.
    pub fn values_in(&self, wal: u64) -> Option<Arc<dyn File>> {
        let found = self.values.iter().find(|(number, _)| *number == wal);
        found.map(|(_, file)| file.clone())
    }
}

/// Opens SSTs, and keeps their readers.
pub(crate) struct TableCache {
    dir: PathBuf,
    pool: Arc<FilePool>,
    cache: Arc<BlockCache>,
    memory: Arc<Memory>,
    events: Arc<Events>,
    direct_reads: bool,
    /// Whether [`Event::Buffered`] was emitted.
    buffered: AtomicBool,
    open_bytes: Counter,
    /// Not empty only in a store that another process writes.
    held: Mutex<Held>,
}

impl TableCache {
    pub fn new(shared: &Shared) -> Self {
        let Shared { env, dir, memory, events, options, .. } = shared;
        Self {
            cache: memory.cache.clone(),
            pool: FilePool::new(env.fs()),
            dir: dir.clone(),
            memory: memory.clone(),
            events: events.clone(),
            direct_reads: options.direct_reads,
            buffered: AtomicBool::new(false),
            open_bytes: Counter::default(),
            held: Mutex::default(),
        }
    }

    /// The files that are held now.
    pub fn held(&self) -> Held {
        self.held.lock().clone()
    }

    /// Also holds these files, and releases the files to which no table refers any more.
    pub fn hold(&self, files: Held) {
        let mut held = self.held.lock();
        held.extend(files);
        let (shown, gone) = std::mem::take(&mut *held)
            .into_iter()
            .partition::<Held, _>(|(_, held)| Arc::strong_count(&held.meta) > 1);
        *held = shown;
        drop(held);
        // The files are closed while no lock is held.
        drop(gone);
    }

    /// Opens an SST, and reports once if direct I/O is not possible.
    pub fn open_file(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = self.pool.open(path, options)?;
        let buffered = options.direct && !file.is_direct();
        if buffered && !self.buffered.swap(true, Ordering::Relaxed) {
            self.events.emit(Event::Buffered { path: path.to_owned() });
        }
        Ok(file)
    }

    /// Whether blocks come from the device, not from the page cache.
    #[inline]
    pub fn reads_directly(&self) -> bool {
        self.direct_reads && !self.buffered.load(Ordering::Relaxed)
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The reader of a table's file, which is opened if necessary.
    #[inline]
    pub fn reader<'a>(&self, table: &'a Table) -> Result<OpenFile<'a>> {
        match table.attachment.get() {
            Some(kept) => Ok(OpenFile::Kept(kept)),
            None => Ok(OpenFile::Lent(self.open_to_keep(table)?)),
        }
    }

    /// The reader of a table's file, to keep.
    pub fn shared_reader(&self, table: &Table) -> Result<Arc<SstReader>> {
        match table.attachment.share() {
            Some(kept) => {
                table.attachment.mark_used();
                Ok(kept)
            }
            None => self.open_to_keep(table),
        }
    }

    /// The reader of a table's file for a job. A job does not mark the table as used, and checks no
    /// filter.
    pub fn reader_for_job(&self, table: &Table) -> Result<Arc<SstReader>> {
        match table.attachment.share() {
            Some(kept) => Ok(kept),
            None => Ok(Arc::new(self.charged(self.open(&table.file)?.without_filter()))),
        }
    }

    /// Opens a file and keeps it open, if there is memory for that.
    #[cold]
    fn open_to_keep(&self, table: &Table) -> Result<Arc<SstReader>> {
        let reader = Arc::new(self.charged(self.open(&table.file)?));
        if self.memory.readers_fit() {
            table.attachment.set(reader.clone());
        }
        Ok(reader)
    }

    /// Opens a file that will be ingested. Its reader is for [`TableCache::keep`].
    pub fn open_new(&self, file: &FileMeta) -> Result<SstReader> {
        self.open(file)
    }

    /// Keeps a reader with the new table of its file, if there is memory for that.
    pub fn keep(&self, table: &Table, reader: SstReader) {
        if self.memory.readers_fit() {
            table.attachment.set(Arc::new(self.charged(reader)));
        }
    }

    /// The reader of a file that a job wrote, and that has this tail, for
    /// [`TableCache::keep`]. None if there is no memory for it, or the file cannot be opened now.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the tail is of another file.
    pub fn open_written(&self, file: &FileMeta, tail: Tail) -> Result<Option<SstReader>> {
        if !self.memory.readers_fit() {
            return Ok(None);
        }
        match self.open_with(file, Some(tail)) {
            Ok(reader) => Ok(Some(reader)),
            Err(Error::Io { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(&self, file: &FileMeta) -> Result<SstReader> {
        self.open_with(file, None)
    }

    /// Opens a file. If its tail is given, nothing is read.
    fn open_with(&self, file: &FileMeta, tail: Option<Tail>) -> Result<SstReader> {
        let path = sst_path(&self.dir, file.number);
        let options = OpenOptions::READ.direct(self.direct_reads);
        let held = self.held.lock().get(&(file.number, file.uid)).cloned();
        let opened = match &held {
            Some(held) => held.file.clone(),
            None => self
                .open_file(&path, options)
                .map_err(|error| Error::io("cannot open SST", &path, error))?,
        };
        let reader = match tail {
            Some(tail) => SstReader::written(opened, &path, file, tail)?,
            None => SstReader::open(opened, &path, file)?,
        };
        let reader = reader.with_values(|wal, path| {
            match held.as_ref().and_then(|held| held.values_in(wal)) {
                Some(file) => Ok(file),
                None => self.pool.open(path, OpenOptions::READ),
            }
        })?;
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
}
