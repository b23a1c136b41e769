//! Reads several items of SSTs from the device at the same time: for reads of several keys
//! ([`multi`](crate::read::multi)), and for a seek that needs blocks of several runs
//! ([`user_cursor`](crate::read::user_cursor)).
//!
//! Threads of the I/O pool take part and so does the caller, who therefore never waits for a busy
//! pool, only for reads that have begun. All calls together leave one of the pool's threads to
//! jobs, if it has two or more. A pool thread that joins a fetch after its end reads nothing; until
//! then it counts as a helper, so a busy pool's queue does not grow.
//!
//! An item that cannot be read is left out. The caller then reads it in the ordinary way, which
//! returns the error.

use crate::read::table_cache::TableCache;
use crate::shared::Shared;
use crate::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vlsm_core::Table;
use vlsm_disk::Condition;
use vlsm_disk::sst::{BlocksRead, SstReader, Wanted};

/// An item that has to be read.
pub enum Missing {
    Reader(Arc<Table>),
    Blocks(Wanted),
}

/// An item that was read.
pub enum Fetched {
    Reader(Arc<SstReader>),
    Blocks(BlocksRead),
}

/// Reads items at the same time.
pub(crate) struct Fetcher {
    shared: Arc<Shared>,
    tables: Arc<TableCache>,
    /// The pool threads that take part in a fetch, or are going to.
    helpers: Arc<AtomicUsize>,
}

impl Fetcher {
    pub fn new(shared: &Arc<Shared>, tables: &Arc<TableCache>) -> Self {
        Self { shared: shared.clone(), tables: tables.clone(), helpers: Arc::default() }
    }

    /// The open SSTs.
    pub fn tables(&self) -> &Arc<TableCache> {
        &self.tables
    }

    /// Reads all items. Returns them in the same order; none for one that could not be read.
    pub fn fetch(&self, missing: Vec<Missing>) -> Vec<Option<Fetched>> {
        let count = missing.len();
        let fetch = Arc::new(Fetch {
            missing,
            fetched: (0..count).map(|_| Mutex::new(None)).collect(),
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(count),
            joined: AtomicUsize::new(0),
            done: self.shared.env.condition(Duration::ZERO),
            tables: self.tables.clone(),
        });
        let most = (self.shared.options.io_threads - 1).max(1);
        let ends = Ends(&fetch, &self.helpers);
        for _ in 1..count {
            let Some(helper) = Helper::new(&fetch, &self.helpers, most) else { break };
            self.shared.io.submit_quietly(move || {
                helper.help();
                Ok(())
            });
        }
        fetch.run();
        fetch.wait();
        drop(ends);
        fetch.fetched.iter().map(|fetched| fetched.lock().take()).collect()
    }
}

/// A running fetch.
struct Fetch {
    missing: Vec<Missing>,
    fetched: Vec<Mutex<Option<Fetched>>>,
    /// The index of the next item to read, and the number of items that are not read yet.
    next: AtomicUsize,
    left: AtomicUsize,
    /// The number of helpers that have begun, and [`OVER`] after the end.
    joined: AtomicUsize,
    done: Arc<dyn Condition>,
    tables: Arc<TableCache>,
}

/// Counts a read as done, even if it failed or panicked.
struct Made<'a>(&'a Fetch);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.done.notify();
        }
    }
}

/// Marks the end in [`Fetch::joined`].
const OVER: usize = 1 << 30;

/// A pool thread that may take part in a fetch. It counts until the end of the fetch, or until it
/// has begun if that is later.
struct Helper {
    fetch: Arc<Fetch>,
    all: Arc<AtomicUsize>,
}

impl Helper {
    /// Another helper, if there are fewer than `most`.
    fn new(fetch: &Arc<Fetch>, all: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { fetch: fetch.clone(), all: all.clone() })
    }

    fn help(&self) {
        if self.fetch.joined.fetch_add(1, Ordering::AcqRel) < OVER {
            self.fetch.run();
        } else {
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Ends a fetch: its helpers do not count any more.
struct Ends<'a>(&'a Fetch, &'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let joined = self.0.joined.fetch_add(OVER, Ordering::AcqRel);
        self.1.fetch_sub(joined, Ordering::Relaxed);
    }
}

impl Fetch {
    /// Reads until all items are taken.
    fn run(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(missing) = self.missing.get(index) else { return };
            let _made = Made(self);
            let fetched = match missing {
                Missing::Reader(table) => self.tables.shared_reader(table).map(Fetched::Reader),
                Missing::Blocks(wanted) => wanted.read().map(Fetched::Blocks),
            };
            *self.fetched[index].lock() = fetched.ok();
        }
    }

    fn wait(&self) {
        loop {
            let epoch = self.done.epoch();
            if self.left.load(Ordering::Acquire) == 0 {
                return;
            }
            self.done.wait(epoch, None);
        }
    }
}
