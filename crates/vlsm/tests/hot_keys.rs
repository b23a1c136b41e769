//! Hot keys stay in memory over flushes where the shape asks for it (TRIAD-MEM): they read as
//! before, through crashes, snapshots, copies and iterators, and what is flushed on request is in
//! tables.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use vlsm::{Batch, ByteCount, Db, Durability, Env, KeyspaceOptions, WriteOptions};
use vlsm_core::{Kind, Seq};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest::Manifest;
use vlsm_disk::wal::{Entries, RecoverOptions, recover};
use vlsm_testfs::{CrashMode, SimFs};

const FOLDER: &str = "/store";
/// Keys that are written all the time.
const HOT: u64 = 20;

fn env(disk: &SimFs) -> Arc<dyn Env> {
    RealEnv::with_fs(Arc::new(disk.clone()))
}

fn open_with(disk: &SimFs, hot_keys: f64) -> Db {
    let builder = Db::builder(FOLDER).env(env(disk)).profile("triad").unwrap();
    let builder = builder.configure(|options| {
        (options.workers, options.io_threads, options.log) = (1, 1, false);
        options.wal_file_bytes = ByteCount::kib(64);
        options.durability = Durability::Buffered;
        options.policy.tree.memtable_bytes = ByteCount::kib(32);
        options.policy.tree.sst_max = ByteCount::kib(32);
        options.policy.tree.l1_bytes = ByteCount::kib(256);
        options.policy.shapes.triad.hot_keys = hot_keys;
    });
    builder.open().unwrap()
}

fn open(disk: &SimFs) -> Db {
    open_with(disk, 1.0)
}

fn value(round: u64) -> Vec<u8> {
    format!("{round:06}").repeat(10).into_bytes()
}

/// One round: every hot key, and three cold ones. It ends when nothing is left to flush: a writer
/// that is faster than the flushes has newer versions of all hot keys when they choose, so how many
/// stay would be chance.
fn round(db: &Db, round: u64) {
    for key in 0..HOT {
        db.put(key.to_be_bytes(), value(round)).unwrap();
    }
    for key in 0..3 {
        db.put((1_000 + round * 3 + key).to_be_bytes(), value(round)).unwrap();
    }
    db.wait_idle().unwrap();
}

/// Asserts that the store is as after these rounds.
fn check(db: &Db, rounds: u64) {
    for key in 0..HOT {
        assert_eq!(db.get(key.to_be_bytes()).unwrap().unwrap(), value(rounds - 1), "{key}");
    }
    let pairs: Vec<_> = db.iter().map(Result::unwrap).collect();
    assert_eq!(pairs.len() as u64, HOT + 3 * rounds);
    let mut back: Vec<_> = db.iter().rev().map(Result::unwrap).collect();
    back.reverse();
    assert_eq!(pairs, back);
}

/// Entries of the log that are not in tables; kept ones and others.
fn unflushed(disk: &SimFs) -> (u64, u64) {
    let (_, state) = Manifest::recover(&env(disk), Path::new(FOLDER)).unwrap();
    let flushed = state.trees.values().next().unwrap().flushed_seq;
    let min_wal = state.numbers.min_wal;
    let options = RecoverOptions { min_wal, read_only: true, ..RecoverOptions::default() };
    let (mut kept, mut others) = (0, 0);
    recover(disk, Path::new(FOLDER), options, &mut |batch| {
        for (entry, n) in Entries::new(&batch.payload).zip(batch.first_seq.0..) {
            let counts = u64::from(Seq(n) > flushed);
            match entry.unwrap().kind {
                Kind::Kept => kept += counts,
                _ => others += counts,
            }
        }
        Ok(())
    })
    .unwrap();
    (kept, others)
}

#[test]
fn keys_that_stay_in_memory_read_as_before() {
    let disk = SimFs::new();
    let db = open(&disk);
    let mut snapshots = Vec::new();
    for n in 0..150 {
        round(&db, n);
        if n % 40 == 10 {
            snapshots.push((n, db.snapshot()));
        }
    }
    let stats = db.stats();
    assert!(stats.kept_keys >= 2 * HOT && stats.flush.jobs > 3, "{stats:#?}");
    assert_eq!(stats.kept_bytes.0, stats.kept_keys * 68, "of 8 and 60 bytes each");
    check(&db, 150);
    let main = db.default_keyspace();
    for (n, snapshot) in snapshots {
        for key in 0..HOT {
            let found = snapshot.get(&main, key.to_be_bytes()).unwrap().unwrap();
            assert_eq!(found, value(n), "{key} at round {n}");
        }
        assert_eq!(snapshot.iter(&main).count() as u64, HOT + 3 * (n + 1));
    }
    db.close().unwrap();
    let report = vlsm::verify_with(&env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn they_survive_power_failures_one_after_the_other() {
    let mut disk = SimFs::new();
    let (lives, rounds) = (6, 40);
    let mut kept = 0;
    for life in 0..lives {
        let db = open(&disk);
        if life > 0 {
            check(&db, life * rounds);
            // The log is taken over, and nothing is flushed, before the next failure.
            let again = disk.fork();
            again.crash(CrashMode::LoseAll, life);
            let db = open(&again);
            check(&db, life * rounds);
            db.close().unwrap();
        }
        (life * rounds..(life + 1) * rounds).for_each(|n| round(&db, n));
        let mut batch = Batch::new();
        batch.put(&db.default_keyspace(), 0_u64.to_be_bytes(), value((life + 1) * rounds - 1));
        db.write(&batch, WriteOptions::durability(Durability::Sync)).unwrap();
        kept += db.stats().kept_keys;
        let image = disk.fork();
        image.crash(CrashMode::LoseAll, life);
        db.close().unwrap();
        disk = image;
    }
    assert!(kept > HOT, "{kept}");
    let db = open_with(&disk, 0.0);
    check(&db, lives * rounds);
    db.close().unwrap();
}

/// A newer version in memory, of any kind, decides; also after a crash.
#[test]
fn what_is_newer_hides_them() {
    let disk = SimFs::new();
    let db = open(&disk);
    (0..100).for_each(|n| round(&db, n));
    assert!(db.stats().kept_keys > 0);
    db.delete(0_u64.to_be_bytes()).unwrap();
    db.put(1_u64.to_be_bytes(), "new").unwrap();
    db.delete_range(2_u64.to_be_bytes()..5_u64.to_be_bytes()).unwrap();
    let check = |db: &Db| {
        let get = |key: u64| db.get(key.to_be_bytes()).unwrap();
        assert_eq!(get(0), None);
        assert_eq!(get(1).as_deref(), Some(&b"new"[..]));
        assert_eq!([get(2), get(3), get(4)], [None, None, None]);
        assert_eq!(get(5).unwrap(), value(99));
    };
    check(&db);
    let image = disk.fork();
    image.kill();
    db.flush().unwrap();
    check(&db);
    db.close().unwrap();
    for disk in [disk, image] {
        let db = open(&disk);
        check(&db);
        db.close().unwrap();
    }
}

/// With a merge operator the value below an operand counts.
#[test]
fn operands_find_the_value_that_stays_in_memory() {
    let disk = SimFs::new();
    let db = open(&disk);
    let sums = db.create_keyspace("sums", KeyspaceOptions::new().merge_operator("append")).unwrap();
    for n in 0..150_u64 {
        for key in 0..HOT {
            sums.put(key.to_be_bytes(), value(n)).unwrap();
        }
        (0..3).for_each(|key| sums.put((1_000 + n * 3 + key).to_be_bytes(), value(n)).unwrap());
        db.wait_idle().unwrap();
    }
    assert!(db.stats().kept_keys > 0);
    (0..HOT).for_each(|key| sums.merge(key.to_be_bytes(), "+").unwrap());
    let image = disk.fork();
    image.kill();
    let expected = [&value(149)[..], b"+"].concat();
    for db in [db, open(&image)] {
        let sums = db.keyspace("sums").unwrap();
        for key in 0..HOT {
            assert_eq!(sums.get(key.to_be_bytes()).unwrap().unwrap(), expected, "{key}");
        }
        db.close().unwrap();
    }
}

#[test]
fn a_copy_has_them() {
    let disk = SimFs::new();
    let db = open(&disk);
    (0..100).for_each(|n| round(&db, n));
    assert!(db.stats().kept_keys > 0);
    db.checkpoint("/copy").unwrap();
    let copy = Db::builder("/copy").env(env(&disk)).profile("rocksdb").unwrap().open().unwrap();
    check(&copy, 100);
    copy.close().unwrap();
    db.close().unwrap();
}

#[test]
fn a_flush_on_request_leaves_nothing_in_memory() {
    let disk = SimFs::new();
    let db = open(&disk);
    (0..60).for_each(|n| round(&db, n));
    db.flush().unwrap();
    assert!(db.stats().flush.jobs > 1);
    db.close().unwrap();
    assert_eq!(unflushed(&disk), (0, 0));
    let db = open(&disk);
    check(&db, 60);
    // Without one the log has them. Rounds end with the first flush that keeps some: a later one
    // may find newer versions of all of them, and keep none.
    let kept = |n: &u64| {
        round(&db, *n);
        db.stats().kept_keys > 0
    };
    assert!((60..1_000).find(kept).is_some());
    db.close().unwrap();
    assert!(unflushed(&disk).0 > 0);
}
