//! Reads of several keys at once: the same answers as reads of one key each, errors of single keys
//! included, and reads of the device that are made at the same time.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod tiny;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tiny::tiny;
use vlsm::{Builder, ByteCount, Bytes, Db, Error, Keyspace, KeyspaceOptions, SstFileWriter};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{Fault, FaultFs, Op, Rule, SimFs};

const KEYS: u32 = 4_000;

fn key(number: u32) -> String {
    format!("k{number:05}")
}

fn value(number: u32) -> String {
    format!("{number} ").repeat(30)
}

/// A store of which several levels are on the disk.
fn fill(builder: Builder) {
    let db = tiny(builder, ByteCount::kib(64)).open().unwrap();
    for number in 0..KEYS {
        // Not in the order of the keys, so that files overlap.
        let number = number * 1_237 % KEYS;
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
}

/// Reads that wait for each other.
#[derive(Default)]
struct Crowd {
    now: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Crowd {
    /// Stays for a moment, or until four are here.
    fn enter(&self) {
        let mut now = self.now.lock().unwrap();
        now.0 += 1;
        now.1 = now.1.max(now.0);
        self.changed.notify_all();
        let alone = |now: &mut (usize, usize)| now.1 < 4;
        let waited = self.changed.wait_timeout_while(now, Duration::from_secs(2), alone);
        waited.unwrap().0.0 -= 1;
    }
}

#[test]
fn what_is_not_in_memory_is_read_at_the_same_time_and_once() {
    let fs = FaultFs::new(Arc::new(SimFs::new()));
    let env = RealEnv::with_fs(Arc::new(fs.clone()));
    let builder = || Db::builder(Path::new("/store")).env(env.clone());
    fill(builder());
    let db = tiny(builder(), ByteCount::kib(64)).open().unwrap();
    let crowd = Arc::new(Crowd::default());
    let entered = crowd.clone();
    let delay = Fault::Delay(Arc::new(move || entered.enter()));
    let reads = fs.add(Rule::once(Op::Read, ".sst", delay).forever());

    let spread: Vec<u32> = (0..KEYS).step_by(100).collect();
    let found = db.multi_get(spread.iter().map(|number| key(*number)));
    for (number, found) in spread.iter().zip(found) {
        assert_eq!(found.unwrap().unwrap(), value(*number));
    }
    assert!(crowd.now.lock().unwrap().1 >= 4, "the reads were made one after the other");

    let before = fs.fired(reads);
    let again = db.multi_get(spread.iter().map(|number| key(*number)));
    assert!(again.iter().all(Result::is_ok));
    assert_eq!(fs.fired(reads), before, "everything is in the cache");

    // Fifty keys of ten bytes and values of 180: three blocks, or a few more where levels overlap.
    let misses = db.stats().cache_misses;
    let near = db.multi_get((2_010..2_060).map(key));
    assert!(near.iter().all(|found| matches!(found, Ok(Some(_)))));
    let misses = db.stats().cache_misses - misses;
    assert!((1..=12).contains(&misses), "{misses} blocks for 50 neighbours");
    db.close().unwrap();
}

/// Nothing stays in memory, so that each read has to go to the disk.
#[test]
fn without_a_cache_a_block_is_read_once_and_copies_of_a_file_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.sst");
    let mut writer = SstFileWriter::create(&file).unwrap();
    for number in 0..KEYS {
        writer.put(key(number), value(number)).unwrap();
    }
    writer.finish().unwrap();
    let db = Db::builder(folder.path().join("store")).configure(|options| {
        options.memory_limit = options.least_memory();
        options.cache_limit = Some(ByteCount::ZERO);
    });
    let db = db.open().unwrap();
    let main = db.default_keyspace();
    main.ingest([&file]).unwrap();
    let before = db.snapshot();
    main.delete_range(..).unwrap();
    let deleted = db.snapshot();
    main.ingest([&file]).unwrap();

    let keys: Vec<String> = (2_000..2_016).chain(100..110).map(key).collect();
    let read = db.stats().cache_misses;
    let found = main.multi_get(&keys);
    assert!(found.iter().all(|found| matches!(found, Ok(Some(_)))));
    let read = db.stats().cache_misses - read;
    assert!(read <= 6, "{read} reads for two neighbourhoods of less than a block");
    assert!(before.multi_get(&main, &keys).iter().all(|found| matches!(found, Ok(Some(_)))));
    assert!(deleted.multi_get(&main, &keys).iter().all(|found| matches!(found, Ok(None))));
    db.close().unwrap();
}

type Found = Vec<Result<Option<Bytes>, String>>;

fn plain(found: impl IntoIterator<Item = vlsm::Result<Option<Bytes>>>) -> Found {
    found.into_iter().map(|found| found.map_err(|error| error.to_string())).collect()
}

/// Writes of all kinds at random, over a store that was filled before.
fn scramble(words: &Keyspace, rng: &mut SmallRng, count: usize) {
    for _ in 0..count {
        let number = rng.random_range(0..KEYS);
        match rng.random_range(0..20) {
            0 => words.delete_range(key(number)..key(number + 20)).unwrap(),
            1..5 => words.delete(key(number)).unwrap(),
            5..12 => words.merge(key(number), "+").unwrap(),
            _ => words.put(key(number), value(number ^ 1)).unwrap(),
        }
    }
}

#[test]
fn the_answers_are_those_of_single_reads() {
    for (cache, seed) in [(None, 1), (Some(ByteCount::ZERO), 2), (Some(ByteCount::kib(64)), 3)] {
        let env = RealEnv::with_fs(Arc::new(SimFs::new()));
        let builder = tiny(Db::builder(Path::new("/store")).env(env), ByteCount::kib(64));
        let db = builder.configure(|options| options.cache_limit = cache).open().unwrap();
        let options = KeyspaceOptions::splits([key(1_000), key(3_000)]).merge_operator("append");
        let words = db.create_keyspace("words", options).unwrap();
        let mut rng = SmallRng::seed_from_u64(seed);
        for number in 0..KEYS {
            words.put(key(number), value(number)).unwrap();
        }
        scramble(&words, &mut rng, 3_000);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let snapshot = db.snapshot();
        scramble(&words, &mut rng, 1_000);
        let mut transaction = db.transaction();
        for _ in 0..300 {
            let number = rng.random_range(0..KEYS);
            match rng.random_range(0..4) {
                0 => transaction.put(&words, key(number), "own").unwrap(),
                1 => transaction.merge(&words, key(number), "own").unwrap(),
                2 => transaction.delete(&words, key(number)).unwrap(),
                _ => transaction.delete_range(&words, key(number)..key(number + 5)).unwrap(),
            }
        }
        for count in [0, 1, 2, 63, 64, 65, 700] {
            // Some keys twice, some that were never there.
            let keys: Vec<String> =
                (0..count).map(|_| key(rng.random_range(0..KEYS + 200))).collect();
            let single = plain(keys.iter().map(|key| words.get(key)));
            assert_eq!(plain(words.multi_get(&keys)), single, "{count}");
            let single = plain(keys.iter().map(|key| snapshot.get(&words, key)));
            assert_eq!(plain(snapshot.multi_get(&words, &keys)), single, "{count}, snapshot");
            let single = plain(keys.iter().map(|key| transaction.get(&words, key)));
            assert_eq!(plain(transaction.multi_get(&words, &keys)), single, "{count}, own writes");
        }
        db.close().unwrap();
    }
}

#[test]
fn damage_is_an_error_of_its_keys_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fill(Db::builder(&path));
    let ssts = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let ssts = ssts.filter(|path| path.extension().is_some_and(|kind| kind == "sst"));
    let largest = ssts.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    bytes[9_000] ^= 1;
    std::fs::write(&largest, bytes).unwrap();

    let db = tiny(Db::builder(&path), ByteCount::kib(64)).open().unwrap();
    let found = db.multi_get((0..KEYS).map(key));
    let damaged = found.iter().filter(|found| matches!(found, Err(Error::Corruption { .. })));
    assert!((1..200).contains(&damaged.count()), "about one block is damaged");
    for (number, found) in (0..KEYS).zip(found) {
        match (found, db.get(key(number))) {
            (Ok(together), Ok(alone)) => assert_eq!(together, alone),
            (Err(together), Err(alone)) => assert_eq!(together.to_string(), alone.to_string()),
            other => panic!("{number}: {other:?}"),
        }
    }
    db.close().unwrap();
}

#[test]
fn a_transaction_conflicts_over_keys_that_it_read_together() {
    let env = RealEnv::with_fs(Arc::new(SimFs::new()));
    let db = Db::builder(Path::new("/store")).env(env).open().unwrap();
    let main = db.default_keyspace();
    for written in ["a", "own", "c"] {
        let mut transaction = db.transaction();
        transaction.put(&main, "own", "1").unwrap();
        let found: vlsm::Result<Vec<_>> =
            transaction.multi_get(&main, ["a", "own", "b"]).into_iter().collect();
        assert_eq!(found.unwrap()[1], Some("1".into()));
        main.put(written, "2").unwrap();
        let committed = transaction.commit();
        assert_eq!(committed.is_err(), written == "a", "{written}: {committed:?}");
    }
    db.close().unwrap();
}
