//! A cache on disk with a time to live: computed results are kept for a while, also across
//! restarts.
//!
//! ```text
//! cargo run -p vlsm --example cache [FOLDER]
//! ```
//!
//! 1. The keyspace has a time to live, so no cleanup is needed: reads do not return an expired
//!    value, and compactions remove it.
//! 2. A value may have a shorter time to live of its own (`put_with_ttl`).
//! 3. The contents of a cache can be computed again. So its writes are `Lazy`: they return when
//!    they are in memory, and a crash may lose the last of them.

use std::path::{Path, PathBuf};
use std::time::Duration;
use vlsm::{Batch, Bytes, Db, Durability, Keyspace, KeyspaceOptions, Result, WriteOptions};

const HOUR: Duration = Duration::from_secs(3600);

/// A cache of results, with the text of the request as the key.
struct Cache {
    db: Db,
    results: Keyspace,
}

impl Cache {
    fn open(folder: &Path) -> Result<Self> {
        let db = Db::open(folder)?;
        let results = db.create_keyspace("results", KeyspaceOptions::new().ttl(HOUR))?;
        Ok(Self { db, results })
    }

    /// The cached result of a request, or the one that `compute` returns. If two threads miss at
    /// the same time, both compute, and the later result stays. This does a cache no harm.
    fn get_or(&self, request: &str, compute: impl FnOnce() -> String) -> Result<Bytes> {
        if let Some(kept) = self.results.get(request)? {
            return Ok(kept);
        }
        let result = compute();
        self.results.put_with(request, &result, WriteOptions::durability(Durability::Lazy))?;
        Ok(result.into())
    }

    /// Keeps several results with another time to live.
    fn keep(&self, results: &[(&str, &str)], time: Duration) -> Result<()> {
        let mut batch = Batch::new();
        for (request, result) in results {
            batch.put_with_ttl(&self.results, request, result, time);
        }
        self.db.write(&batch, WriteOptions::durability(Durability::Lazy))
    }

    /// Deletes all results of a kind at the cost of one write.
    fn forget(&self, kind: &str) -> Result<()> {
        let end = format!("{kind};"); // the byte after the colon
        self.results.delete_range(format!("{kind}:")..end)
    }
}

/// Fills and reads a cache in `folder`.
pub fn run(folder: &Path) -> Result<String> {
    let cache = Cache::open(folder)?;
    cache.forget("square")?;
    let mut computed = 0;
    for round in 0..3 {
        for n in 0_u64..50 {
            let result = cache.get_or(&format!("square:{n}"), || {
                computed += 1;
                (n * n).to_string()
            })?;
            assert_eq!(result, (n * n).to_string(), "round {round}");
        }
    }
    assert_eq!(computed, 50); // once each, not three times

    // Values with a short time to live: after it they are gone for every reader. The time of each
    // begins when it is put into the batch, so one may expire a moment before another.
    cache.keep(&[("price:tea", "2"), ("price:milk", "1")], Duration::from_millis(1))?;
    while cache.results.prefix("price:").next().is_some() {
        std::thread::yield_now();
    }
    assert!(!cache.results.contains_key("price:tea")?);

    // The results are still there after a restart.
    cache.db.clone().close()?;
    drop(cache);
    let cache = Cache::open(folder)?;
    let kept = cache.get_or("square:7", || unreachable!("it is kept for an hour"))?;
    assert_eq!(kept, "49");
    cache.forget("square")?;
    assert!(cache.results.is_empty()?);
    cache.db.close()?;
    Ok(format!("150 requests, {computed} computed\n"))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| temporary.path().join("store"));
    print!("{}", run(&folder)?);
    Ok(())
}
