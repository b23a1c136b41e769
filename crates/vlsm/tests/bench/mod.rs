//! A store of small sizes on a disk in memory of which chosen calls fail; what was acknowledged.
#![allow(dead_code, reason = "each test program uses a part")]

use crate::tiny::tiny;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vlsm::{ByteCount, Db, Durability, Error, Event, WriteOptions};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{FaultFs, SimFs};

/// Longer than anything takes that ends.
pub const HANG: Duration = Duration::from_secs(60);
/// The folder of the store.
pub const FOLDER: &str = "/store";

/// A disk whose calls may fail, and what was acknowledged.
pub struct Bench {
    pub disk: SimFs,
    pub faults: FaultFs,
    pub failures: Arc<AtomicU64>,
    /// The number of times that the device became full, and that space returned.
    pub shortages: Arc<[AtomicU64; 2]>,
    pub acknowledged: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Bench {
    pub fn new() -> Self {
        let disk = SimFs::new();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        let (failures, shortages) = (Arc::default(), Arc::default());
        Self { disk, faults, failures, shortages, acknowledged: BTreeMap::new() }
    }

    /// Opens a store of small sizes with one worker.
    pub fn open(&self) -> Db {
        let (failures, shortages) = (self.failures.clone(), self.shortages.clone());
        small(Db::builder(FOLDER).env(RealEnv::with_fs(Arc::new(self.faults.clone()))))
            .listener(move |event| {
                let counter = match event {
                    Event::BackgroundError { .. } => &*failures,
                    Event::OutOfSpace { .. } => &shortages[0],
                    Event::SpaceReturned { .. } => &shortages[1],
                    _ => return,
                };
                counter.fetch_add(1, Ordering::SeqCst);
            })
            .open()
            .unwrap()
    }

    pub fn put(&mut self, db: &Db, n: u64, durability: Durability) -> Result<(), Error> {
        let (key, value) = (n.to_be_bytes(), n.to_string().repeat(30));
        let put = || {
            let main = db.default_keyspace();
            main.put_with(key, &value, WriteOptions::durability(durability))
        };
        // The call that panics may be made on this thread.
        let panicked = || Err(Error::Internal("planted".into()));
        catch_unwind(AssertUnwindSafe(put)).unwrap_or_else(|_| panicked())?;
        self.acknowledged.insert(key.to_vec(), value.into_bytes());
        Ok(())
    }

    /// Checks that the store shows all acknowledged writes, and besides them at most `failed`
    /// writes.
    pub fn look(&self, db: &Db, failed: u64) {
        let seen: BTreeMap<Vec<u8>, Vec<u8>> = db
            .iter()
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
            .collect();
        for (key, value) in &self.acknowledged {
            assert_eq!(seen.get(key), Some(value), "what was acknowledged is there");
        }
        let more = seen.len() - self.acknowledged.len();
        assert!(more as u64 <= failed, "{more} more than acknowledged, {failed} failed");
    }

    /// Loses the process, and opens the store on a good disk.
    pub fn reopen(&self, failed: u64) {
        self.faults.end_all();
        self.disk.kill();
        let db = self.open();
        self.look(&db, failed);
        db.put("another", "write").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
    }

    pub fn ssts(&self) -> Vec<PathBuf> {
        let files = self.disk.files().into_keys();
        files.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect()
    }
}

pub fn small(builder: vlsm::Builder) -> vlsm::Builder {
    tiny(builder, ByteCount::kib(32)).configure(|options| {
        options.workers = 1;
        options.log = false;
        options.wal_file_bytes = ByteCount::kib(64);
        options.wal_sync_bytes = ByteCount::kib(16);
        options.policy.tree.sst_max = ByteCount::kib(16);
        options.policy.tree.l1_bytes = ByteCount::kib(32);
    })
}

/// Writes are taken again, soon and by themselves.
pub fn taken_again(db: &Db) {
    for _ in 0..1_000 {
        match db.put("again", "taken") {
            Ok(()) => return,
            Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
        }
        pause(Duration::from_millis(10));
    }
    panic!("writes are not taken after space returned");
}

#[allow(clippy::disallowed_methods)]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Waits until something is so.
pub fn soon(is_so: impl Fn() -> bool) {
    let tries = HANG.as_millis();
    let mut tried = (0..tries).map(|_| pause(Duration::from_millis(1)));
    assert!(is_so() || tried.any(|()| is_so()), "it never happens");
}
