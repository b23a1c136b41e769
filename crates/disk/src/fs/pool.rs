//! Access to any number of SSTs with the few descriptors of a process.
//!
//! 1. A file of the pool knows its path. Its descriptor is closed when other files need one, and
//!    the file is opened again at its next use. So an SST's index and filter may stay in memory
//!    without a descriptor, and a job may have more inputs and outputs than there are descriptors.
//! 2. The pool uses half of what the file system allows ([`Fs::files_max`]), not counting the first
//!    few. The rest is for logs, for folders, and for the program around the store.
//! 3. A clock chooses the descriptor to close: the oldest one that was not used since the hand last
//!    passed it.
//! 4. A written file is synced before its descriptor is closed, because the system need not report
//!    a failed write to a later open. If that sync fails, so does the next sync of the file.
//!
//! A file in use must keep its path: it is removed only after its last reader is gone.
//!
//! Threads and locks: any thread. A file's lock is held to look up its descriptor, the pool's lock
//! to move the hand; neither across a file call. Both are held together only in the attempt to
//! close a descriptor, which takes the file's lock with `try_lock`.

use crate::fs::{File, Fs, OpenOptions};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Descriptors that the pool leaves to others before it takes half.
const OTHERS: usize = 16;
/// The least number of descriptors of the pool.
const LEAST: usize = 4;

/// Files that keep a descriptor while there are enough.
pub struct FilePool {
    fs: Arc<dyn Fs>,
    max: usize,
    /// The files with a descriptor, and some that were dropped since. The hand is at the front.
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
    /// The system's error.
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

    /// Adds a file that was opened, and closes descriptors of others beyond the maximum.
    fn admit(&self, file: &Weak<Pooled>) {
        // The descriptors to close after the lock is free.
        let mut closed = Vec::new();
        let mut open = self.open.lock();
        open.push_back(file.clone());
        // Two checks for each new file, so that dropped files never outnumber the others.
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
            // The file is dropped later, too, because this may be its last reference.
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
    /// Whether it was used since the hand last passed.
    used: AtomicBool,
    file: Mutex<Option<Arc<dyn File>>>,
    /// The error of the sync at which the descriptor was closed.
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
                // Another thread opened it first.
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
