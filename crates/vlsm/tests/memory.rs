//! One limit of memory: many trees under it, readers that come and go, iterators that hold nothing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;
use std::time::{Duration, Instant};
use vlsm::{
    Batch, ByteCount, Db, Error, Iter, Keyspace, KeyspaceOptions, Options, Stats, WriteOptions,
};

fn open(folder: &tempfile::TempDir, configure: impl FnOnce(&mut Options)) -> Db {
    let set = |options: &mut Options| {
        let policy = &mut options.policy;
        policy.tree.memtable_bytes = ByteCount::mib(1);
        policy.tree.sst_max = ByteCount::kib(256);
        policy.shapes.vlsm.sst_min = ByteCount::kib(32);
        policy.tree.l1_bytes = ByteCount::mib(1);
        policy.shapes.vlsm.phi = 4;
        options.wal_file_bytes = ByteCount::mib(1);
        options.memory_limit = ByteCount::mib(32);
        configure(options);
    };
    Db::builder(folder.path().join("store")).configure(set).open().unwrap()
}

/// A keyspace of 256 regions, one for each first byte of a key.
fn many(db: &Db) -> Keyspace {
    let splits = (1..=255_u8).map(|first| vec![first]);
    db.create_keyspace("many", KeyspaceOptions::splits(splits)).unwrap()
}

fn key(region: u8, n: u64) -> Vec<u8> {
    [&[region][..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat()
}

/// A write that must not wait for long.
fn soon() -> WriteOptions {
    WriteOptions::default().deadline(Duration::from_secs(60))
}

#[test]
fn many_small_trees_neither_exceed_the_limit_nor_wedge_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, |_| {});
    let many = many(&db);
    for region in 0..=255 {
        many.put_with(key(region, 0), "first", soon()).unwrap();
    }
    let first = db.stats().memory;
    assert!(first.active <= ByteCount::mib(2), "256 trees of one pair take {}", first.active);
    assert_eq!(db.stats().rotations, 0);
    // Until it is full a memtable of each would be eight times the limit.
    let (each, value) = (600, [7_u8; 400]);
    for n in 1..each {
        for region in 0..=255 {
            many.put_with(key(region, n), value, soon()).unwrap();
        }
    }
    let stats = db.stats();
    let limit = stats.memory_limit.as_f64() * 1.05;
    assert!(stats.memory_peak.as_f64() < limit, "{} {:?}", stats.memory_peak, stats.memory_peaks);
    assert!(stats.rotations > 10, "{} rotations", stats.rotations);
    // The largest go first: what is flushed is not dust.
    let mean = (each * 256 * 400) / stats.rotations;
    assert!(mean > 10_000, "{mean} bytes a rotation");
    assert_eq!(many.iter().count() as u64, each * 256);
    db.close().unwrap();
}

#[test]
fn writers_of_many_trees_at_once_make_progress() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, |options| {
        options.policy.tree.memtable_bytes = ByteCount::kib(64);
        options.memory_limit = ByteCount::mib(4);
    });
    let many = many(&db);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (db, many) = (&db, &many);
            scope.spawn(move || {
                for n in 0..40 {
                    // Batches over many trees, now and then one that is larger than the limit.
                    let mut batch = Batch::new();
                    let value = vec![1; if n % 20 == 19 { 20_000 } else { 300 }];
                    for region in (0..=255_u8).filter(|region| u64::from(region % 4) == thread) {
                        batch.put(many, key(region, n), &value);
                    }
                    db.write(&batch, soon()).unwrap();
                }
            });
        }
    });
    assert_eq!(many.iter().count(), 256 * 40);
    let stats = db.stats();
    assert!(stats.rotations > 256, "{}", stats.rotations);
    println!("{:?}", stats.waits);
    db.close().unwrap();
}

#[test]
fn the_least_limit_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Db::builder(folder.path().join("store"))
        .configure(|options| options.memory_limit = ByteCount::mib(1))
        .open();
    let Err(Error::InvalidOption { option: "memory_limit", why }) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("at least") && why.contains("bytes"), "{why}");
    assert!(!folder.path().join("store").exists());
}

#[test]
fn cold_readers_are_let_go_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, |options| {
        options.policy.tree.memtable_bytes = ByteCount::kib(256);
        options.policy.tree.sst_max = ByteCount::kib(64);
        options.block_bytes = ByteCount(512);
        options.bits_per_key = 64;
        options.memory_limit = ByteCount::mib(2);
    });
    // Their filters alone are 2.4 MB.
    let count = 300_000_u64;
    for n in 0..count {
        db.put(key(0, n), n.to_string()).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let tables: u64 = db.stats().levels.iter().map(|level| level.tables).sum();
    let opened = db.stats().open_bytes;
    let mut most = ByteCount::ZERO;
    for round in 0..2 {
        for n in (0..count).step_by(31) {
            let value = db.get(key(0, n)).unwrap();
            assert_eq!(value.as_deref(), Some(n.to_string().as_bytes()), "{round}");
        }
        assert_eq!(db.iter().count() as u64, count);
        most = most.max(db.stats().memory.readers);
    }
    let stats = db.stats();
    println!("{tables} tables, readers {most} at most, {} opened", stats.open_bytes - opened);
    let limit = stats.memory_limit.as_f64();
    let (peak, kinds) = (stats.memory_peak, stats.memory_peaks);
    println!("the peak is {:.3} of the limit", peak.as_f64() / limit);
    assert!(peak.as_f64() < limit * 1.05, "{peak} in all: {kinds:?}");
    assert!(most.as_f64() > limit / 8.0, "as many as may be are kept: {most}");
    assert!(stats.open_bytes > opened, "they do not all fit");
    db.close().unwrap();
}

#[test]
fn memory_kept_for_the_next_memtable_goes_before_readers_do() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, |options| {
        options.policy.tree.memtable_bytes = ByteCount::mib(2);
        options.policy.tree.sst_max = ByteCount::kib(256);
        options.policy.shapes.vlsm.sst_min = ByteCount::kib(64);
        options.policy.tree.l1_bytes = ByteCount::mib(4);
        options.bits_per_key = 64;
        options.memory_limit = options.least_memory();
    });
    // The active memtable has 1.4 of its 2 MB in the end, so the readers have room beside it.
    let count = 392_000_u64;
    for n in 0..count {
        db.put(key(0, n), n.to_string()).unwrap();
    }
    db.wait_idle().unwrap();
    let read_all = || {
        for n in (0..count).step_by(7) {
            assert!(db.get(key(0, n)).unwrap().is_some());
        }
        db.stats()
    };
    // The first round finds out what is needed and may open a file twice.
    let first = read_all();
    let stats = read_all();
    println!("{}: {:?}", stats.memory_limit, stats.memory);
    let beside_a_spare = stats.memory.readers + stats.memory.active + ByteCount::mib(2);
    assert!(beside_a_spare.as_f64() > stats.memory_limit.as_f64() * 0.9, "there is room for all");
    assert_eq!(stats.open_bytes, first.open_bytes, "files are opened again and again");
    db.close().unwrap();
}

/// The number of SSTs in the store's folder.
fn ssts(folder: &tempfile::TempDir) -> u64 {
    let files = std::fs::read_dir(folder.path().join("store")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.extension() == Some("sst".as_ref())).count() as u64
}

/// Overwrites every key.
fn rewrite(db: &Db, count: u64, round: u64) {
    for n in 0..count {
        db.put(key(0, n), format!("{round}/{n}").repeat(8)).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
}

#[test]
fn an_iterator_that_stands_still_holds_neither_files_nor_memtables() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, |options| options.policy.tree.memtable_bytes = ByteCount::kib(256));
    let count = 20_000;
    rewrite(&db, count, 0);
    db.put(key(0, 0), "in the memtable").unwrap();
    let expected: Vec<(Bytes, Bytes)> = db.iter().map(Result::unwrap).collect();
    let (mut slow, mut idle): (Iter, Iter) = (db.iter(), db.iter());
    let idle_first = idle.next().unwrap().unwrap();
    let mut seen: (Vec<_>, Vec<_>) = Default::default();
    for round in 1..=5 {
        for _ in 0..100 {
            seen.0.extend(slow.next().unwrap());
            seen.1.extend(slow.next_back().unwrap());
        }
        rewrite(&db, count, round);
        let (since, mut held) = (Instant::now(), db.stats());
        let tables = |stats: &Stats| stats.levels.iter().map(|level| level.tables).sum::<u64>();
        while ssts(&folder) != tables(&held) || held.memory.pinned_memtables > ByteCount::ZERO {
            let what = (ssts(&folder), tables(&held), held.memory.pinned_memtables);
            assert!(since.elapsed() < Duration::from_secs(20), "round {round}: {what:?}");
            std::thread::sleep(Duration::from_millis(5));
            held = db.stats();
        }
    }
    seen.0.extend(slow.map(Result::unwrap));
    seen.0.extend(seen.1.into_iter().rev());
    assert!(seen.0 == expected, "the slow one read exactly its moment");
    let rest = idle.map(Result::unwrap);
    assert!(std::iter::once(idle_first).chain(rest).eq(expected), "so did the idle one");
    db.close().unwrap();
}

#[test]
fn the_cache_takes_what_it_may_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let read_all = |most: Option<ByteCount>| {
        let db = open(&folder, |options| options.cache_limit = most);
        if db.get(key(0, 0)).unwrap().is_none() {
            (0..20_000).for_each(|n| db.put(key(0, n), [1; 400]).unwrap());
            db.wait_idle().unwrap();
        }
        (0..20_000).for_each(|n| assert!(db.get(key(0, n)).unwrap().is_some()));
        let held = db.stats().memory.cache;
        db.close().unwrap();
        held
    };
    let free = read_all(None);
    assert!(free > ByteCount::mib(6), "nothing else needs the memory: {free}");
    let limited = read_all(Some(ByteCount::mib(2)));
    assert!(limited > ByteCount::mib(1) && limited <= ByteCount::mib(2), "{limited}");
    assert_eq!(read_all(Some(ByteCount::ZERO)), ByteCount::ZERO);
}

#[test]
fn memtables_that_are_gathered_go_out_when_somebody_wants_them() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder, |options| {
        options.policy.shape = "sp_lsm".into();
        options.policy.tree.memtable_count = 24;
        options.policy.shapes.sp_lsm.gather = 12;
        options.memory_limit = ByteCount::mib(64);
        options.wal_limit = ByteCount::mib(6);
    });
    let tables = || db.stats().levels.iter().map(|level| level.tables).sum::<u64>();
    let write = |from: u64, to: u64| {
        (from..to).for_each(|n| db.put(key(0, n), [7; 1000]).unwrap());
        db.wait_idle().unwrap();
    };
    write(0, 3_000);
    let memory = db.stats().memory;
    assert!(tables() == 0 && memory.sealed >= ByteCount::mib(2), "{memory:?}");
    db.flush().unwrap();
    assert!(tables() > 0 && db.stats().memory.sealed == ByteCount::ZERO);
    // Fewer than twelve, but the WAL is beyond its limit, once or again while they are merged.
    let merges = || db.stats().compactions[0].jobs;
    assert_eq!(merges(), 1);
    // A file of the WAL takes what comes until the next one is there, so: slowly. Whoever readies
    // that one looks at the limit, in the background.
    (30..100).for_each(|n| write(n * 100, (n + 1) * 100));
    let start = Instant::now();
    while merges() < 2 {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", db.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
    db.close().unwrap();
}
