//! Any number of SSTs, however few descriptors the process may have.
//!
//! 1. A file of the pool knows its path. Its descriptor is taken back when others need one, and it
//!    is opened again when it is used next. So an SST's index and filter may stay in memory
//!    although its descriptor does not, and a job may have more inputs and outputs than there are
//!    descriptors.
//! 2. The pool keeps half of what the file system allows ([`Fs::files_max`]) without the first
//!    few; the rest is for logs, for folders, and for the program around the store.
//! 3. Which descriptor goes is decided by a clock: the oldest one that was not used since the hand
//!    was there last.
//! 4. A file that was written is synced before its descriptor goes: the system need not remember a
//!    failed write for those who open the file later. If that fails, so does the next sync.
//!
//! The file must stay where it is while it is in use: who removes it waits for its readers.
//!
//! Threads and locks: any thread. A file's lock is held to look for its descriptor, the pool's to
//! move the hand; neither over a file call. They are never held together but for the attempt to
//! take a descriptor back.

use crate::fs::{File, Fs, OpenOptions};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Descriptors that the pool leaves to others before it takes half.
const OTHERS: usize = 16;
/// Descriptors that the pool may have in any case.
const LEAST: usize = 4;

/// Files that have a descriptor as long as there are enough.
pub struct FilePool {
    fs: Arc<dyn Fs>,
    max: usize,
    /// Those with a descriptor, and some that were dropped since. The hand is at the front.
    open: Mutex<VecDeque<Weak<Pooled>>>,
}

impl FilePool {
    /// A pool of as many descriptors as the file system allows.
    #[must_use]
    pub fn new(fs: &Arc<dyn Fs>) -> Arc<Self> {
        let max = fs.files_max().map_or(usize::MAX, |max| max.saturating_sub(OTHERS) / 2);
        Self::with_max(fs, max.max(LEAST))
    }

    /// A pool of `max` descriptors.
    #[must_use]
    pub fn with_max(fs: &Arc<dyn Fs>, max: usize) -> Arc<Self> {
        Arc::new(Self { fs: fs.clone(), max, open: Mutex::default() })
    }

    /// Number of files that the pool knows: those with a descriptor, and some that were dropped
    /// since.
    #[must_use]
    pub fn known(&self) -> usize {
        self.open.lock().len()
    }

    /// Opens a file.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(self: &Arc<Self>, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = self.fs.open(path, options)?;
        if self.max == usize::MAX {
            return Ok(file);
        }
        let pooled = Arc::new_cyclic(|itself| Pooled {
            itself: itself.clone(),
            pool: self.clone(),
            path: path.to_owned(),
            options: OpenOptions { create_new: false, ..options },
            is_direct: file.is_direct(),
            used: AtomicBool::new(false),
            file: Mutex::new(Some(file)),
            failed: Mutex::default(),
        });
        self.admit(&pooled.itself);
        Ok(pooled)
    }

    /// Notes a file that was opened, and takes back the descriptors of others that are too many.
    fn admit(&self, file: &Weak<Pooled>) {
        // Closed after the lock is free.
        let mut closed = Vec::new();
        let mut open = self.open.lock();
        open.push_back(file.clone());
        // Two looks for each that comes, so that those that were dropped are never the most.
        for _ in 0..2 {
            let oldest = open.pop_front();
            open.extend(oldest.filter(|oldest| oldest.strong_count() > 0));
        }
        let mut looks = open.len() * 2;
        while open.len() > self.max && looks > 0 {
            looks -= 1;
            let Some(oldest) = open.pop_front() else { break };
            let Some(file) = oldest.upgrade() else { continue };
            let kept = file.used.swap(false, Ordering::Relaxed);
            let slot = if kept { None } else { file.file.try_lock() };
            let taken = slot.map(|mut slot| slot.take());
            if taken.is_none() {
                open.push_back(oldest);
            }
            // Dropped later, too: this may be the last reference by now.
            closed.push((taken.flatten(), file));
        }
        drop(open);
        for (taken, file) in closed {
            if let Some(Err(error)) = taken.filter(|_| file.options.write).map(|file| file.sync()) {
                *file.failed.lock() = Some(error);
            }
        }
    }
}

/// A file of the pool.
struct Pooled {
    itself: Weak<Self>,
    pool: Arc<FilePool>,
    path: PathBuf,
    options: OpenOptions,
    is_direct: bool,
    /// Whether it was read from since the hand was here.
    used: AtomicBool,
    file: Mutex<Option<Arc<dyn File>>>,
    /// With what the sync failed when the descriptor was taken back.
    failed: Mutex<Option<io::Error>>,
}

impl Pooled {
    fn file(&self) -> io::Result<Arc<dyn File>> {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        if let Some(file) = &*self.file.lock() {
            return Ok(file.clone());
        }
        let file = self.pool.fs.open(&self.path, self.options)?;
        {
            let mut slot = self.file.lock();
            if let Some(there) = &*slot {
                // Somebody else was faster.
                return Ok(there.clone());
            }
            *slot = Some(file.clone());
        }
        self.pool.admit(&self.itself);
        Ok(file)
    }
}

impl File for Pooled {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file()?.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file()?.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(error) = self.failed.lock().take() {
            return Err(error);
        }
        self.file()?.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file()?.len()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file()?.truncate(len)
    }

    fn is_direct(&self) -> bool {
        self.is_direct
    }
}
