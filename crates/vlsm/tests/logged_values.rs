//! Values stay in the WAL over flushes where the shape asks for it (TRIAD-LOG): they read as
//! before, through crashes, compactions, copies and readers beside, and the WALs go when no SST
//! refers to them.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm::{
    Batch, ByteCount, CompactionFilter, Db, Decision, Durability, Env, Error, KeyspaceOptions,
    WriteOptions,
};
use vlsm_disk::Fs;
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{CrashMode, Fault, FaultFs, Op, Rule, SimFs};

const FOLDER: &str = "/store";
const KEYS: u64 = 3_000;

fn env(disk: &SimFs) -> Arc<dyn Env> {
    RealEnv::with_fs(Arc::new(disk.clone()))
}

fn builder(disk: &SimFs) -> vlsm::Builder {
    let builder = Db::builder(FOLDER).env(env(disk)).profile("triad").unwrap();
    builder.configure(|options| {
        (options.workers, options.io_threads, options.log) = (1, 1, false);
        options.wal_file_bytes = ByteCount::kib(64);
        options.durability = Durability::Buffered;
        options.policy.tree.memtable_bytes = ByteCount::kib(64);
        options.policy.tree.sst_max = ByteCount::kib(64);
        options.policy.tree.l1_bytes = ByteCount::kib(512);
        options.policy.tree.l0_trigger = 40;
        options.policy.tree.l0_slowdown = 60;
        options.policy.tree.l0_stop = 80;
        options.policy.tree.l0_max = 80;
        options.policy.shapes.triad.overlap_runs = 40;
        options.policy.shapes.triad.hot_keys = 0.0;
        options.policy.shapes.triad.log_values = true;
    })
}

fn open(disk: &SimFs) -> Db {
    builder(disk).open().unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("{:08x}", n.wrapping_mul(0x9e37_79b9) as u32).into_bytes()
}

/// Some values are too short for a place, some are empty, most are not.
fn value(n: u64, round: u64) -> Vec<u8> {
    let len = [100, 200, 300, 10, 0][n as usize % 5];
    format!("{n:06}/{round:03}/").bytes().cycle().take(len).collect()
}

fn fill(db: &Db, keys: std::ops::Range<u64>, round: u64) {
    keys.for_each(|n| db.put(key(n), value(n, round)).unwrap());
}

/// Asserts that these keys have their values of this round.
fn check(db: &Db, keys: u64, round: u64) {
    let mut expected: Vec<_> = (0..keys).map(|n| (key(n), value(n, round))).collect();
    for (key, value) in &expected {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let asked: Vec<_> = expected.iter().step_by(7).map(|(key, _)| key).collect();
    let found = db.multi_get(&asked);
    for ((_, value), found) in expected.iter().step_by(7).zip(found) {
        assert_eq!(found.unwrap().as_deref(), Some(&value[..]));
    }
    expected.sort();
    let pairs: Vec<_> = db.iter().map(Result::unwrap).collect();
    assert!(
        pairs
            .iter()
            .map(|(k, v)| (&k[..], &v[..]))
            .eq(expected.iter().map(|(k, v)| (&k[..], &v[..])))
    );
    assert_eq!(db.iter().rev().count() as u64, keys);
}

/// The files with this ending.
fn files(disk: &SimFs, end: &str) -> Vec<PathBuf> {
    let of_store =
        |path: &PathBuf| path.starts_with(FOLDER) && path.extension().is_some_and(|e| e == end);
    disk.files().into_keys().filter(of_store).collect()
}

fn sst_bytes(disk: &SimFs) -> u64 {
    let all = disk.files();
    files(disk, "sst").iter().map(|path| all[path]).sum()
}

#[test]
fn flushes_leave_values_in_the_wal() {
    let disk = SimFs::new();
    let db = open(&disk);
    fill(&db, 0..KEYS, 0);
    db.wait_idle().unwrap();
    let logged = files(&disk, "values");
    assert!(logged.len() >= 3, "{logged:?}");
    check(&db, KEYS, 0);
    db.flush().unwrap();
    let stats = db.stats();
    assert_eq!((stats.logged_values, stats.logged_bytes.0), (KEYS * 3 / 5, KEYS / 5 * 600));
    // Three of five values are longer than a place, 200 bytes in the mean.
    assert!(sst_bytes(&disk) < KEYS * 60, "{}", sst_bytes(&disk));
    check(&db, KEYS, 0);
    let snapshot = db.snapshot();
    let main = db.default_keyspace();
    fill(&db, 0..KEYS, 1);
    check(&db, KEYS, 1);
    for n in 0..KEYS {
        assert_eq!(snapshot.get(&main, key(n)).unwrap().unwrap(), value(n, 0));
    }
    drop(snapshot);
    db.default_keyspace().compact_range(..).unwrap();
    db.wait_idle().unwrap();
    check(&db, KEYS, 1);
    db.close().unwrap();
    assert_eq!(files(&disk, "values"), Vec::<PathBuf>::new(), "all values are in L1 or below");
    assert_eq!(files(&disk, "wal").len(), 1, "{:?}", files(&disk, "wal"));
    let report = vlsm::verify_with(&env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn they_survive_restarts_and_power_failures() {
    let mut disk = SimFs::new();
    for life in 0..6 {
        let db = open(&disk);
        if life > 0 {
            check(&db, KEYS, life - 1);
        }
        fill(&db, 0..KEYS, life);
        db.sync().unwrap();
        assert!(!files(&disk, "values").is_empty(), "life {life}");
        let image = disk.fork();
        image.crash(CrashMode::LoseAll, life);
        db.close().unwrap();
        let closed = vlsm::verify_with(&env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
        assert!(closed.findings.is_empty(), "life {life}: {:?}", closed.findings);
        if life % 2 == 0 {
            disk = image;
        }
    }
    // Another shape reads what this one has left, and rewrites it.
    let builder = Db::builder(FOLDER).env(env(&disk)).profile("rocksdb").unwrap();
    let db = builder.open().unwrap();
    check(&db, KEYS, 5);
    db.default_keyspace().compact_range(..).unwrap();
    db.wait_idle().unwrap();
    check(&db, KEYS, 5);
    db.close().unwrap();
    assert_eq!(files(&disk, "values"), Vec::<PathBuf>::new());
}

/// The run has what the WAL does not have in one piece, or not in this form.
#[test]
fn what_the_wal_does_not_have_is_written() {
    let disk = SimFs::new();
    let filter: Arc<dyn CompactionFilter> = Arc::new(Upper);
    let db = builder(&disk).compaction_filter("upper", filter).open().unwrap();
    let sums = KeyspaceOptions::new().merge_operator("append");
    let sums = db.create_keyspace("sums", sums).unwrap();
    let upper = db.create_keyspace("upper", KeyspaceOptions::new()).unwrap();
    let long = "x".repeat(60);
    let mut large = Batch::new();
    for n in 0..2_000_u64 {
        large.put(&db.default_keyspace(), key(n), value(n, 0));
    }
    db.write(&large, WriteOptions::default()).unwrap();
    for n in 0..400_u64 {
        sums.put(key(n), &long).unwrap();
        sums.merge(key(n), &long).unwrap();
        upper.put(key(n), &long).unwrap();
        upper.put_with_ttl(key(1_000 + n), &long, std::time::Duration::from_secs(1_000)).unwrap();
    }
    let unlogged = WriteOptions::durability(Durability::NoWal);
    (2_000..2_200).for_each(|n| db.put_with(key(n), value(n, 0), unlogged).unwrap());
    db.flush().unwrap();
    let check_all = |db: &Db| {
        check(db, 2_200, 0);
        let (sums, upper) = (db.keyspace("sums").unwrap(), db.keyspace("upper").unwrap());
        for n in 0..400 {
            assert_eq!(sums.get(key(n)).unwrap().unwrap(), format!("{long}{long}"));
            assert_eq!(upper.get(key(n)).unwrap().unwrap(), "X".repeat(60));
            assert_eq!(upper.get(key(1_000 + n)).unwrap().unwrap(), "X".repeat(60));
        }
    };
    check_all(&db);
    db.close().unwrap();
    let db = builder(&disk).open().unwrap();
    check_all(&db);
    db.close().unwrap();
}

struct Upper;

impl CompactionFilter for Upper {
    fn name(&self) -> &'static str {
        "upper"
    }

    fn filter(&self, _: u8, _: &[u8], value: &[u8]) -> Decision {
        Decision::Change(value.to_ascii_uppercase())
    }
}

#[test]
fn copies_and_readers_beside_have_them() {
    let disk = SimFs::new();
    let db = open(&disk);
    fill(&db, 0..KEYS, 0);
    db.flush().unwrap();
    assert!(!files(&disk, "values").is_empty());
    let beside = builder(&disk).follow(true).open().unwrap();
    db.checkpoint("/copy").unwrap();
    beside.checkpoint("/copied-beside").unwrap();
    // The copy keeps its values whatever becomes of the store's WALs.
    fill(&db, 0..KEYS, 1);
    db.default_keyspace().compact_range(..).unwrap();
    fill(&db, 0..KEYS, 2);
    db.default_keyspace().compact_range(..).unwrap();
    // It holds the files open.
    check(&beside, KEYS, 0);
    beside.catch_up().unwrap();
    check(&beside, KEYS, 2);
    beside.close().unwrap();
    db.close().unwrap();
    for copied in ["/copy", "/copied-beside"] {
        let copy = Db::builder(copied).env(env(&disk)).open().unwrap();
        check(&copy, KEYS, 0);
        copy.close().unwrap();
    }
    vlsm::restore_with(&env(&disk), Path::new("/copy"), Path::new("/restored")).unwrap();
    let restored = Db::builder("/restored").env(env(&disk)).open().unwrap();
    check(&restored, KEYS, 0);
    restored.close().unwrap();
}

#[test]
fn a_lost_or_damaged_log_is_an_error_that_names_it() {
    let disk = SimFs::new();
    let db = open(&disk);
    fill(&db, 0..KEYS, 0);
    db.flush().unwrap();
    db.close().unwrap();
    let logged = files(&disk, "values");
    let lost = &logged[0];
    let image = disk.fork();
    image.remove(lost).unwrap();
    let error = builder(&image).open().expect_err("refused").to_string();
    assert!(error.contains(&lost.display().to_string()) && error.contains("missing"), "{error}");
    let report = vlsm::verify_with(&env(&image), Path::new(FOLDER), &mut |_| {}).unwrap();
    let finding = report.findings.iter().find(|finding| finding.path == *lost).expect("named");
    assert!(report.damaged && finding.advice.contains("salvage_ssts"), "{finding:?}");
    // Without the SST the store opens; the rest is there.
    let db = builder(&image).configure(|options| options.salvage_ssts = true).open().unwrap();
    let left = db.iter().map(Result::unwrap).count() as u64;
    assert!(left > KEYS / 10 && left < KEYS, "{left}");
    db.close().unwrap();

    let image = disk.fork();
    let mut bytes = image.content(lost).unwrap();
    bytes[4096..].iter_mut().for_each(|byte| *byte ^= 1);
    image.set_content(lost, bytes);
    let report = vlsm::verify_with(&env(&image), Path::new(FOLDER), &mut |_| {}).unwrap();
    let what: Vec<_> = report.findings.iter().map(|finding| finding.what.clone()).collect();
    assert!(report.damaged && what[0].contains("a value does not match its checksum"), "{what:?}");
    let db = builder(&image).read_only(true).open().unwrap();
    let error = db.iter().find_map(Result::err).expect("damage");
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
    db.close().unwrap();
}

#[test]
fn leftovers_are_removed_and_others_are_not_taken() {
    let disk = SimFs::new();
    let db = open(&disk);
    fill(&db, 0..KEYS, 0);
    db.flush().unwrap();
    let sst = files(&disk, "sst").remove(0);
    let error = db.default_keyspace().ingest([&sst]).expect_err("refused").to_string();
    assert!(error.contains("it is an SST of a store"), "{error}");
    db.close().unwrap();
    let logged = files(&disk, "values");
    let of_nobody = Path::new(FOLDER).join("000001-000001.values");
    let foreign = Path::new(FOLDER).join("notes.values");
    for path in [&of_nobody, &foreign] {
        disk.set_content(path, b"anything".to_vec());
    }
    let report = vlsm::verify_with(&env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(!report.damaged && report.findings.len() == 2, "{:?}", report.findings);
    let db = open(&disk);
    check(&db, KEYS, 0);
    db.close().unwrap();
    let left = files(&disk, "values");
    assert!(left.contains(&foreign) && !left.contains(&of_nobody), "{left:?} of {logged:?}");
}

/// A file system without hard links has each WAL copied once; then values are written.
#[test]
fn without_links_values_are_written() {
    let disk = SimFs::new();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    faults.add(Rule::once(Op::Link, ".values", Fault::Unsupported).forever());
    let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(faults));
    let db = builder(&disk).env(env).open().unwrap();
    fill(&db, 0..KEYS, 0);
    db.flush().unwrap();
    let logged = db.stats().logged_values;
    assert!(logged > 0 && logged < KEYS / 5, "{logged}");
    check(&db, KEYS, 0);
    db.close().unwrap();
    let db = open(&disk);
    check(&db, KEYS, 0);
    db.close().unwrap();
}

/// A link that fails otherwise is an error of the flush, like an SST that cannot be written.
#[test]
fn a_link_that_fails_latches_the_store() {
    let disk = SimFs::new();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    faults.add(Rule::once(Op::Link, ".values", Fault::Eio));
    let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(faults));
    let db = builder(&disk).env(env).open().unwrap();
    (0..500).for_each(|n| db.put(key(n), value(n, 0)).unwrap());
    let error = db.flush().expect_err("refused").to_string();
    assert!(error.contains("cannot link to"), "{error}");
    let _ = db.close();
    let db = open(&disk);
    check(&db, 500, 0);
    db.close().unwrap();
    let report = vlsm::verify_with(&self::env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Keyspaces share WALs; each keeps what its runs refer to, whatever becomes of the others.
#[test]
fn keyspaces_that_go_leave_the_others_their_values() {
    let disk = SimFs::new();
    let db = open(&disk);
    let (main, other) =
        (db.default_keyspace(), db.create_keyspace("other", KeyspaceOptions::new()));
    let other = other.unwrap();
    for round in 0..3 {
        for n in 0..KEYS {
            let mut batch = Batch::new();
            batch.put(&main, key(n), value(n, round));
            batch.put(&other, key(n), value(n, round));
            db.write(&batch, WriteOptions::default()).unwrap();
        }
        match round {
            0 => other.clear().unwrap(),
            1 => other.compact_range(..).unwrap(),
            _ => db.drop_keyspace(&other).unwrap(),
        }
        db.flush().unwrap();
        check(&db, KEYS, round);
    }
    assert!(db.stats().logged_values > 2 * KEYS);
    db.close().unwrap();
    let db = open(&disk);
    check(&db, KEYS, 2);
    db.close().unwrap();
    let report = vlsm::verify_with(&env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// The WALs of a memtable that was filled slowly are mostly others': it is written with its values,
/// so it keeps none of them.
#[test]
fn a_slow_keyspace_keeps_no_wals() {
    let disk = SimFs::new();
    let db = open(&disk);
    let slow = db.create_keyspace("slow", KeyspaceOptions::new()).unwrap();
    (0..5).for_each(|n| slow.put(key(n), "a value that is longer than a place").unwrap());
    fill(&db, 0..KEYS, 0);
    db.flush().unwrap();
    assert!(!files(&disk, "values").is_empty());
    db.default_keyspace().compact_range(..).unwrap();
    db.close().unwrap();
    assert_eq!(files(&disk, "values"), Vec::<PathBuf>::new());
    let db = open(&disk);
    let slow = db.keyspace("slow").unwrap();
    assert_eq!(slow.iter().count(), 5);
    check(&db, KEYS, 0);
    db.close().unwrap();
}
