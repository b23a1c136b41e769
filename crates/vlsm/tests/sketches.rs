//! The sketches of L0's keys: made where the shape asks for them, kept over a reopening, and not
//! missed where they are not there.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use vlsm::{ByteCount, Db, Env};
use vlsm_core::Table;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest::Manifest;
use vlsm_testfs::SimFs;

const FOLDER: &str = "/store";
/// Keys of a run.
const KEYS: u64 = 3_000;

fn env(disk: &SimFs) -> Arc<dyn Env> {
    RealEnv::with_fs(Arc::new(disk.clone()))
}

/// A store that flushes only when it is asked to.
fn open(disk: &SimFs, shape: &str) -> Db {
    let builder = Db::builder(FOLDER).env(env(disk)).profile("triad").unwrap();
    let builder = builder.configure(|options| {
        (options.workers, options.io_threads, options.log) = (1, 1, false);
        options.wal_file_bytes = ByteCount::mib(1);
        options.policy.shape = shape.into();
        options.policy.tree.memtable_bytes = ByteCount::mib(1);
    });
    builder.open().unwrap()
}

/// One run of the keys from `first` on, each written twice.
fn run(db: &Db, first: u64) {
    for n in (first..first + KEYS).chain(first..first + KEYS) {
        db.put(n.to_be_bytes(), [7; 20]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

fn runs(db: &Db) -> u64 {
    db.stats().levels.first().map_or(0, |level| level.runs)
}

/// The tables of L0, and those below, as the manifest of the closed store has them.
fn tables(disk: &SimFs) -> (Vec<Arc<Table>>, Vec<Arc<Table>>) {
    let (_, state) = Manifest::recover(&env(disk), Path::new(FOLDER)).unwrap();
    let version = state.trees.values().find(|version| !version.l0.is_empty());
    let version = version.or_else(|| state.trees.values().next()).unwrap();
    let l0 = version.l0.iter().flat_map(|run| run.tables.iter().cloned());
    let below = version.levels.iter().flat_map(|tables| tables.iter().cloned());
    (l0.collect(), below.collect())
}

#[test]
fn they_decide_also_after_a_reopening() {
    let disk = SimFs::new();
    let db = open(&disk, "triad");
    (0..3).for_each(|n| run(&db, n * KEYS));
    assert_eq!(runs(&db), 3);
    db.close().unwrap();
    let (l0, _) = tables(&disk);
    let keys = |table: &Arc<Table>| table.file.sketch.as_ref().unwrap().keys();
    assert_eq!(l0.iter().map(keys).collect::<Vec<_>>(), [KEYS; 3]);
    // Opening may write the manifest anew; the sketches are in it again.
    for _ in 0..2 {
        open(&disk, "triad").close().unwrap();
        assert_eq!(tables(&disk).0.iter().map(keys).collect::<Vec<_>>(), [KEYS; 3]);
    }
    let db = open(&disk, "triad");
    run(&db, 3 * KEYS);
    assert_eq!(runs(&db), 4, "deferred");
    db.close().unwrap();
    let db = open(&disk, "triad");
    run(&db, 0);
    assert_eq!(runs(&db), 5, "12000 of 15000 keys are distinct: an overlap of 0.2");
    run(&db, 0);
    assert_eq!(runs(&db), 0, "six runs");
    assert_eq!(db.iter().count() as u64, 4 * KEYS);
    db.close().unwrap();
    let (l0, below) = tables(&disk);
    assert!(l0.is_empty() && !below.is_empty());
    assert!(below.iter().all(|table| table.file.sketch.is_none()), "below L0 there are none");
    // Four runs of the same keys: an overlap of 3 in 4.
    let db = open(&disk, "triad");
    (0..3).for_each(|_| run(&db, 50_000));
    assert_eq!(runs(&db), 3);
    run(&db, 50_000);
    assert_eq!(runs(&db), 0, "due before the trigger");
    db.close().unwrap();
}

/// A store of another shape, or of an older version, has none. Then the number of runs decides.
#[test]
fn a_store_without_them_is_compacted_by_its_runs() {
    let disk = SimFs::new();
    let db = open(&disk, "tiered_l0");
    (0..4).for_each(|_| run(&db, 0));
    assert_eq!(runs(&db), 4);
    db.close().unwrap();
    assert!(tables(&disk).0.iter().all(|table| table.file.sketch.is_none()));
    let db = open(&disk, "triad");
    db.wait_idle().unwrap();
    run(&db, 0);
    assert_eq!(runs(&db), 5, "the same keys five times, but nobody knows");
    run(&db, 0);
    assert_eq!(runs(&db), 0);
    assert_eq!(db.iter().count() as u64, KEYS);
    db.close().unwrap();
}
