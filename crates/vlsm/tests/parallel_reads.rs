//! Reads of several keys at once, and seeks over several runs: the same answers as one read after
//! the other, errors included, and reads of the device that are made at the same time.
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
struct Crowd {
    full: usize,
    patience: Duration,
    /// The number of reads now, and the most at any time.
    now: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Crowd {
    fn new(full: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { full, patience, now: Mutex::default(), changed: Condvar::new() })
    }

    /// Stays for a moment, or until enough are here.
    fn enter(&self) {
        let mut now = self.now.lock().unwrap();
        now.0 += 1;
        now.1 = now.1.max(now.0);
        self.changed.notify_all();
        let alone = |now: &mut (usize, usize)| now.1 < self.full;
        let waited = self.changed.wait_timeout_while(now, self.patience, alone);
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
    let crowd = Crowd::new(4, Duration::from_secs(2));
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

/// A store over `fs` whose open files, but no blocks, are in memory, with direct reads or without.
fn without_blocks(fs: &FaultFs, direct: bool) -> Db {
    let builder = Db::builder(Path::new("/store")).env(RealEnv::with_fs(Arc::new(fs.clone())));
    let builder = tiny(builder, ByteCount::kib(64)).configure(|options| {
        options.direct_reads = direct;
        options.cache_limit = Some(ByteCount::ZERO);
    });
    let db = builder.open().unwrap();
    assert_eq!(db.iter().count() as u32, KEYS);
    db
}

/// A filled store, and a key at which a seek in either direction reads blocks of several runs.
/// Which keys these are depends on the order of the jobs.
fn overlapping() -> (FaultFs, u32) {
    loop {
        let fs = FaultFs::new(Arc::new(SimFs::new()));
        fill(Db::builder(Path::new("/store")).env(RealEnv::with_fs(Arc::new(fs.clone()))));
        let db = without_blocks(&fs, false);
        db.wait_idle().unwrap();
        let reads = fs.add(Rule::once(Op::Read, ".sst", Fault::Delay(Arc::new(|| {}))).forever());
        let several = |number: &u32| {
            let before = fs.fired(reads);
            db.range(key(*number)..).next().unwrap().unwrap();
            let forwards = fs.fired(reads) - before;
            db.range(..key(*number)).next_back().unwrap().unwrap();
            forwards >= 2 && fs.fired(reads) - before >= forwards + 2
        };
        let found = (50..KEYS).step_by(37).find(several);
        fs.end(reads);
        db.close().unwrap();
        if let Some(number) = found {
            return (fs, number);
        }
    }
}

/// With direct reads a seek asks all runs for their blocks at the same time, in both directions.
/// Without it does not, because the page cache would answer sooner than another thread.
#[test]
fn a_seek_reads_the_blocks_of_several_runs_at_the_same_time() {
    let (fs, number) = overlapping();
    for direct in [true, false] {
        let db = without_blocks(&fs, direct);
        for backwards in [false, true] {
            let crowd = Crowd::new(2, Duration::from_millis(if direct { 2_000 } else { 100 }));
            let entered = crowd.clone();
            let delay = Fault::Delay(Arc::new(move || entered.enter()));
            let reads = fs.add(Rule::once(Op::Read, ".sst", delay).forever());
            let middle = key(number);
            let mut found = match backwards {
                false => db.range(middle..),
                true => db.range(..middle),
            };
            let next = if backwards { found.next_back() } else { found.next() };
            let number = if backwards { number - 1 } else { number };
            let expected = (key(number).into(), value(number).into());
            assert_eq!(next.unwrap().unwrap(), expected);
            let (count, together) = (fs.fired(reads), crowd.now.lock().unwrap().1);
            assert!(count >= 2, "the key is in the range of {count} files only");
            assert_eq!(together >= 2, direct, "{together} reads at a time, backwards {backwards}");
            fs.end(reads);
        }
        db.close().unwrap();
    }
}

/// Scans of ninety pairs learn to read what they need at once; seeks alone unlearn it.
#[test]
fn a_scan_reads_at_once_what_scans_before_it_needed() {
    let fs = FaultFs::new(Arc::new(SimFs::new()));
    let builder = || {
        let builder = Db::builder(Path::new("/store"));
        let builder = builder.env(RealEnv::with_fs(Arc::new(fs.clone())));
        builder.configure(|options| options.cache_limit = Some(ByteCount::ZERO))
    };
    let db = builder().open().unwrap();
    let mut rng = SmallRng::seed_from_u64(1);
    for number in 0..KEYS {
        let mut random = [0; 180];
        rng.fill(&mut random[..]);
        db.put(key(number), random).unwrap();
    }
    db.default_keyspace().compact_range(..).unwrap();
    db.close().unwrap();
    let db = builder().open().unwrap();
    let reads = fs.add(Rule::once(Op::Read, ".sst", Fault::Delay(Arc::new(|| {}))).forever());
    let scan = |first: u32, pairs: usize| {
        let before = fs.fired(reads);
        let found = db.range(key(first)..).take(pairs).map(|found| found.unwrap().0);
        assert!(found.eq((first..).take(pairs).map(|number| Bytes::from(key(number)))));
        fs.fired(reads) - before
    };
    let habit = |pairs| (0..60).map(|n| scan(n * 97 % (KEYS - 100), pairs)).sum::<u64>();
    assert!(habit(1) >= 60);
    assert_eq!(scan(1_900, 1), 1, "a seek reads a block");
    let unused = scan(1_900, 90);
    habit(90);
    let used = scan(1_900, 90);
    assert!(unused >= 3 && used <= 2, "{used} reads of a scan, {unused} before others");
    habit(1);
    assert_eq!(scan(1_900, 90), unused, "after seeks alone");
    db.close().unwrap();
}

/// A read that fails or finds damage, whoever makes it, is the error of the seek that needs it, and
/// the next seek works.
#[test]
fn a_seek_returns_the_errors_of_reads_that_other_threads_made() {
    let (fs, number) = overlapping();
    let db = without_blocks(&fs, true);
    for fault in [Fault::Eio, Fault::Misdirected] {
        // The fetch leaves the block out, and the seek fails over it.
        let broken = fs.add(Rule::once(Op::Read, ".sst", fault.clone()).forever());
        let refused = db.range(key(number)..).next().unwrap().unwrap_err();
        assert!(matches!(refused, Error::Io { .. } | Error::Corruption { .. }), "{refused}");
        fs.end(broken);
        // The fetch leaves the block out, and the seek reads it.
        let once = fs.add(Rule::once(Op::Read, ".sst", fault));
        let found = db.range(key(number)..).next().unwrap().unwrap();
        assert_eq!(found, (key(number).into(), value(number).into()));
        assert_eq!(fs.fired(once), 1);
    }
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
