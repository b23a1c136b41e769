//! Unique numbers of files, memtables, runs of L0 and jobs. The numbers of files and runs continue
//! from the manifest; the others restart at each open.

use std::sync::atomic::{AtomicU64, Ordering};

/// The next number of each kind.
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

    /// All memtables so far have numbers below this.
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
