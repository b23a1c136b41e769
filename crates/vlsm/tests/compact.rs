//! Ranges compacted by request: entries that no reader can see leave the disk, and no others do.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod tiny;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tiny::tiny;
use vlsm::{ByteCount, Db, Error, KeyspaceOptions};

fn small(profile: &str, path: &Path) -> Db {
    tiny(Db::builder(path).profile(profile).unwrap(), ByteCount::kib(64)).open().unwrap()
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn fill(db: &Db, from: u64, to: u64) {
    (from..to).for_each(|n| db.put(key(n), n.to_string().repeat(10)).unwrap());
}

/// Bytes in L0, in the levels but the last, in the last one.
fn bytes(db: &Db) -> (u64, u64, u64) {
    let levels = db.stats().levels;
    let last = levels.iter().rposition(|level| level.tables > 0).unwrap_or(0);
    let sum = |levels: &[vlsm::LevelStats]| levels.iter().map(|level| level.bytes.0).sum();
    match last {
        0 => (levels[0].bytes.0, 0, 0),
        last => (levels[0].bytes.0, sum(&levels[1..last]), levels[last].bytes.0),
    }
}

#[test]
fn everything_goes_to_the_last_level_and_tombstones_go() {
    let folder = tempfile::tempdir().unwrap();
    for profile in ["vlsm", "rocksdb", "lsmi", "cruise"] {
        let db = small(profile, &folder.path().join(profile));
        fill(&db, 0, 20_000);
        db.wait_idle().unwrap();
        for n in 0..20_000 {
            if n % 10 > 0 {
                db.delete(key(n)).unwrap();
            }
        }
        let main = db.default_keyspace();
        main.compact_range(..).unwrap();
        let (l0, above, last) = bytes(&db);
        assert_eq!((l0, above), (0, 0), "{profile}: {:#?}", db.stats().levels);
        assert!(last < 500_000, "{profile}: {last} bytes for 2000 small records");
        assert_eq!(db.iter().count(), 2_000, "{profile}");
        assert_eq!(db.get(key(70)).unwrap().unwrap(), "70".repeat(10), "{profile}");
        assert_eq!(db.get(key(71)).unwrap(), None, "{profile}");
        for n in 0..20_000 {
            db.delete(key(n)).unwrap();
        }
        main.compact_range(..).unwrap();
        assert_eq!(bytes(&db), (0, 0, 0), "{profile}");
        // Nothing to do, empty and impossible ranges.
        main.compact_range(..).unwrap();
        main.compact_range("b".."b").unwrap();
        main.compact_range("z".."a").unwrap();
        let path = db.path().to_owned();
        db.close().unwrap();
        assert!(!vlsm::verify(path).unwrap().damaged, "{profile}");
    }
}

#[test]
fn a_range_over_regions_and_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let db = small("vlsm", &folder.path().join("store"));
    let split = db.create_keyspace("split", KeyspaceOptions::splits(["4", "8"])).unwrap();
    let name = |n: u64| format!("{}", n * 7_919 % 1_000_000);
    (0..10_000).for_each(|n| split.put(name(n), vec![b'x'; 50]).unwrap());
    db.wait_idle().unwrap();
    let before = db.snapshot();
    (0..10_000).for_each(|n| split.delete(name(n)).unwrap());
    split.compact_range("3"..="5").unwrap();
    assert_eq!(split.iter().count(), 0);
    let seen = before.iter(&split).count();
    assert_eq!(seen, 10_000, "the snapshot keeps what it sees");
    drop(before);
    split.compact_range(..).unwrap();
    assert_eq!(bytes(&db), (0, 0, 0));
}

#[test]
fn beside_writers_and_until_the_store_closes() {
    let folder = tempfile::tempdir().unwrap();
    let db = small("vlsm", &folder.path().join("store"));
    fill(&db, 0, 5_000);
    let main = db.default_keyspace();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut n = 5_000;
            // Bounded: where syncs are slow, each pass would else be many times the one before.
            while !stop.load(Ordering::Relaxed) && n < 100_000 {
                fill(&db, n, n + 100);
                n += 100;
            }
            n
        });
        for _ in 0..3 {
            main.compact_range(..).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        assert_eq!(db.iter().count() as u64, written);
        // Two at once, of the same keys.
        let other = scope.spawn(|| main.compact_range(..));
        main.compact_range(..).unwrap();
        other.join().unwrap().unwrap();
        // A close ends the wait.
        let waits = scope.spawn(|| {
            let started = Instant::now();
            loop {
                match main.compact_range(..) {
                    Ok(()) if started.elapsed() < Duration::from_secs(60) => {}
                    ended => return ended,
                }
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        db.clone().close().unwrap();
        assert!(matches!(waits.join().unwrap(), Err(Error::Closed)));
    });
}
