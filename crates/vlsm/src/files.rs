//! The store's SST files: names, open readers, numbers, and the end of those that no tree shows any
//! more.
//!
//! A file dies in three steps: an edit takes its last table out of the current version (it becomes
//! a *zombie*), the last reader that still sees it drops its view (only the zombie list holds its
//! metadata), and a background thread removes it. No drop on a latency path does a file operation.

use crate::counters::Counter;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vlsm_core::{Error, FileMeta, FileNumber, Result};
use vlsm_disk::Env;
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::sst::{BlockCache, SstCursor, SstReader};

/// The path of an SST.
#[must_use]
pub fn sst_path(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(format!("{:06}.sst", number.0))
}

/// The number in an SST's file name.
#[must_use]
pub fn sst_number(name: &Path) -> Option<FileNumber> {
    let digits = name.to_str()?.strip_suffix(".sst")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    digits.parse().ok().map(FileNumber)
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

/// Open SSTs and dead ones.
pub(crate) struct Files {
    env: Arc<dyn Env>,
    dir: PathBuf,
    cache: Arc<BlockCache>,
    direct_reads: bool,
    open_bytes: Counter,
    zombies: Mutex<Vec<Arc<FileMeta>>>,
}

impl Files {
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, cache_bytes: u64, direct_reads: bool) -> Self {
        let cache = Arc::new(BlockCache::new(cache_bytes));
        let (open_bytes, zombies) = (Counter::default(), Mutex::default());
        Self { env, dir, cache, direct_reads, open_bytes, zombies }
    }

    /// The block cache.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The reader of a file, opened at the first use.
    #[inline]
    pub fn reader<'a>(&self, file: &'a FileMeta) -> Result<&'a Arc<SstReader>> {
        if file.reader.get().is_none() {
            let reader = Arc::new(self.open(file)?);
            // When two threads open it at once, one of them wins.
            let _ = file.reader.set(Arc::new(reader));
        }
        file.reader
            .get()
            .and_then(|any| any.downcast_ref::<Arc<SstReader>>())
            .ok_or_else(|| Error::Internal("a file's reader is of another type".into()))
    }

    #[cold]
    fn open(&self, file: &FileMeta) -> Result<SstReader> {
        let path = sst_path(&self.dir, file.number);
        let options = OpenOptions::READ.direct(self.direct_reads);
        let opened = self.env.fs().open(&path, options);
        let opened = opened.map_err(|error| Error::io("cannot open SST", &path, error))?;
        let reader = SstReader::open(opened, &path, file)?;
        self.open_bytes.add(reader.open_bytes());
        Ok(reader)
    }

    /// Bytes that were read to open files.
    pub fn open_bytes(&self) -> u64 {
        self.open_bytes.get()
    }

    /// A cursor over a file through the block cache.
    pub fn cursor(&self, file: &FileMeta) -> Result<SstCursor> {
        Ok(self.reader(file)?.cursor(&self.cache, true))
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

    /// Number of zombies and their bytes.
    pub fn zombies(&self) -> (usize, u64) {
        let zombies = self.zombies.lock();
        (zombies.len(), zombies.iter().map(|file| file.bytes.0).sum())
    }

    /// Removes the files that nobody sees any more. Does file calls: on a background thread only.
    pub fn remove_dead(&self) -> Result<()> {
        let mut dead = Vec::new();
        self.zombies.lock().retain(|file| {
            let unseen = Arc::strong_count(file) == 1;
            if unseen {
                dead.push(file.clone());
            }
            !unseen
        });
        while let Some(file) = dead.pop() {
            let path = sst_path(&self.dir, file.number);
            if let Err(error) = self.env.fs().remove(&path) {
                dead.push(file);
                self.bury(dead);
                return Err(Error::io("cannot remove", &path, error));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
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
