//! The WAL in the memory of its files, on the real file system: when it is used, when it is not,
//! and that no failure is a signal. (The crashes are in `kill9`, `power_cuts` and the simulator.)
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use vlsm::{ByteCount, Db, Durability, Error, Result, Stats, WriteOptions};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::posix::PosixFs;
use vlsm_testfs::{CrashMode, Fault, FaultFs, Op, Rule, SimFs};

const CHILD: &str = "WAL_WINDOW_CHILD";

struct Bench {
    folder: tempfile::TempDir,
    faults: FaultFs,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), faults: FaultFs::new(Arc::new(PosixFs)) }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// A store whose memtable holds all that a test writes, so that its WALs stay.
    fn open(&self) -> Db {
        open(&self.store(), &self.faults)
    }

    /// The same with files so large that a window has several groups of `Lazy` writers ready, of
    /// 64 KB each: a sixteenth of the file is kept ready, and a group longer than half of that is
    /// written by a call.
    fn open_large_files(&self) -> Db {
        open_with(&self.store(), &self.faults, ByteCount::mib(8))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.store().join("LOG")).unwrap()
    }

    /// The newest WAL that was begun.
    fn current(&self, db: &Db) -> Option<PathBuf> {
        // Its successor is prepared long before it is full, and says so in its header.
        let wals = std::fs::read_dir(self.store()).unwrap().map(|entry| entry.unwrap().path());
        let begun = |path: &PathBuf| {
            let name = path.to_string_lossy().into_owned();
            let flags = || std::fs::read(path).unwrap().get(12).copied();
            name.ends_with(".wal") && flags().is_some_and(|flags| flags & 1 == 1)
        };
        assert!(db.stats().files.wals > 0);
        wals.filter(begun).max()
    }
}

fn open(store: &Path, faults: &FaultFs) -> Db {
    open_with(store, faults, ByteCount::mib(1))
}

fn open_with(store: &Path, faults: &FaultFs, wal_file_bytes: ByteCount) -> Db {
    let env = RealEnv::with_fs(Arc::new(faults.clone()));
    let builder = Db::builder(store).env(env).configure(|options| {
        options.wal_file_bytes = wal_file_bytes;
        options.wal_sync_bytes = ByteCount::kib(256);
        options.policy.tree.memtable_bytes = ByteCount::mib(64);
    });
    builder.open().unwrap()
}

fn value(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + n as usize % 40)
}

fn put(db: &Db, n: u64, durability: Durability) -> Result<()> {
    db.put_with(n.to_be_bytes(), value(n), WriteOptions::durability(durability))
}

/// Writes these numbers.
fn write(db: &Db, numbers: std::ops::Range<u64>, durability: Durability) -> Stats {
    numbers.for_each(|n| put(db, n, durability).unwrap());
    db.stats()
}

fn check(db: &Db, count: u64) {
    let there: Vec<_> = db.iter().map(Result::unwrap).collect();
    assert_eq!(there.len() as u64, count);
    for (n, (key, found)) in there.iter().enumerate() {
        assert_eq!((&key[..], &found[..]), (&n.to_be_bytes()[..], &value(n as u64)[..]));
    }
}

#[test]
fn buffered_and_lazy_writes_go_through_memory_and_synced_ones_through_calls() {
    for durability in [Durability::Buffered, Durability::Lazy, Durability::Sync] {
        let bench = Bench::new();
        let db = bench.open_large_files();
        let mut count = if durability == Durability::Sync { 500 } else { 20_000 };
        let mut stats = write(&db, 0..count, durability);
        // Calls write the rest while the background has not caught up with this loop.
        while durability != Durability::Sync && stats.wal_mapped_bytes < ByteCount::mib(1) {
            assert!(count < 200_000, "{durability:?}: {} through memory", stats.wal_mapped_bytes);
            stats = write(&db, count..count + 1_000, durability);
            count += 1_000;
        }
        assert!(stats.wal_mapped_bytes <= stats.wal_bytes, "{durability:?}");
        assert!(durability != Durability::Sync || stats.wal_mapped_bytes.0 == 0);
        assert!(!bench.log().contains("cannot map the WAL"));
        db.sync().unwrap();
        let before = db.stats().wal_mapped_bytes;
        // After a synced write come calls, and then memory again.
        put(&db, count, Durability::Sync).unwrap();
        put(&db, count + 1, Durability::Buffered).unwrap();
        assert_eq!(db.stats().wal_mapped_bytes, before);
        check(&db, count + 2);
        let mut end = count + 2;
        while db.stats().wal_mapped_bytes == before {
            assert!(end < count + 200_000, "{durability:?}: never again");
            put(&db, end, Durability::Buffered).unwrap();
            end += 1;
        }
        drop(db);
        let db = bench.open_large_files();
        check(&db, end);
        db.close().unwrap();
        let report = vlsm::verify(bench.store()).unwrap();
        assert!(!report.damaged, "{:#?}", report.findings);
    }
}

#[test]
fn where_files_cannot_be_mapped_calls_do_it_and_the_log_says_so_once() {
    for op in [Op::Map, Op::Populate] {
        let bench = Bench::new();
        let refused = bench.faults.add(Rule::once(op, ".wal", Fault::Eio).forever());
        let db = bench.open();
        let stats = write(&db, 0..20_000, Durability::Buffered);
        assert_eq!((stats.wal_mapped_bytes.0, stats.read_only), (0, None), "{op:?}");
        let asked = bench.faults.fired(refused);
        assert!((1..=2).contains(&asked), "{op:?}: of this file and the next one, then never");
        db.close().unwrap();
        let said = bench.log().matches("cannot map the WAL").count();
        assert_eq!(said, 1, "{op:?}: {}", bench.log());
        let db = bench.open();
        check(&db, 20_000);
        db.close().unwrap();
    }
}

/// Writes through memory until the rule or the cut makes a write fail; returns the number of
/// acknowledged writes, and the error.
fn write_until_it_fails(db: &Db, from: u64) -> (u64, Error) {
    for n in from..from + 200_000 {
        if let Err(error) = put(db, n, Durability::Buffered) {
            return (n, error);
        }
    }
    panic!("nothing failed");
}

#[test]
fn a_failed_store_latches_and_what_was_acknowledged_stays() {
    let bench = Bench::new();
    let db = bench.open();
    let failed = bench.faults.add(Rule::once(Op::Store, ".wal", Fault::Eio).nth(500));
    let (count, error) = write_until_it_fails(&db, 0);
    assert!(matches!(error, Error::Io { .. } | Error::ReadOnly { .. }), "{error:?}");
    assert_eq!(bench.faults.fired(failed), 1);
    assert!(error.to_string().contains(".wal"), "{error}");
    assert!(matches!(put(&db, count, Durability::Buffered), Err(Error::ReadOnly { .. })));
    check(&db, count);
    assert!(db.close().is_err());
    let db = bench.open();
    check(&db, count);
    db.close().unwrap();
}

/// Repeats a case, each time with another store, until it says that memory was written. While the
/// background has not caught up, writes are made by calls.
fn through_memory(attempt: impl Fn() -> bool) {
    assert!((0..100).any(|_| attempt()), "always by calls");
}

#[test]
fn a_full_device_is_an_error_of_the_preparation() {
    through_memory(|| {
        let (disk, store) = (SimFs::new(), Path::new("/store"));
        let db = open(store, &FaultFs::new(Arc::new(disk.clone())));
        let mut stats = write(&db, 0..5_000, Durability::Buffered);
        disk.set_capacity(Some(disk.used() + 10_000));
        let (count, error) = write_until_it_fails(&db, 5_000);
        assert!(matches!(error, Error::NoSpace { .. }), "{error:?}");
        let memory_until_then = db.stats().wal_mapped_bytes > stats.wal_mapped_bytes;
        check(&db, count);
        disk.set_capacity(None);
        stats = db.stats();
        let mut end = count;
        while db.stats().wal_mapped_bytes == stats.wal_mapped_bytes {
            // Until the store has noticed the space.
            end += u64::from(put(&db, end, Durability::Buffered).is_ok());
        }
        disk.kill();
        drop(db);
        let db = open(store, &FaultFs::new(Arc::new(disk)));
        check(&db, end);
        db.close().unwrap();
        memory_until_then
    });
}

/// Writes until a write fails; none if the store went on to another file before, because calls
/// had made this one as long as it was.
fn fails_in(wal: &Path, bench: &Bench, db: &Db, from: u64) -> Option<Error> {
    for n in from.. {
        if let Err(error) = put(db, n, Durability::Buffered) {
            return Some(error);
        }
        if n % 64 == 0 && bench.current(db).is_some_and(|current| current != wal) {
            return None;
        }
    }
    unreachable!("a file is full after some of the numbers")
}

/// Wherever the cut is: before the page in use, in it, ahead of it where memory is ready, and far
/// ahead, where the file is found too short when more of it is brought into memory.
#[test]
fn a_file_that_something_else_cuts_is_an_error_and_no_signal() {
    for (ahead, synced) in
        [(i64::MIN, false), (-10_000, true), (-1, false), (5_000, false), (100_000, true)]
    {
        through_memory(|| a_cut_is_an_error(ahead, synced));
    }
}

/// Whether memory was written up to the cut.
fn a_cut_is_an_error(ahead: i64, synced: bool) -> bool {
    let bench = Bench::new();
    let db = bench.open();
    let mut count = 0;
    while db.stats().wal_mapped_bytes.0 < 1 << 18 {
        write(&db, count..count + 100, Durability::Buffered);
        count += 100;
    }
    if synced {
        db.sync().unwrap();
    }
    let wal = bench.current(&db).unwrap();
    let content = std::fs::read(&wal).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap() as i64 + 1;
    let left = end.saturating_add(ahead).max(0);
    if left >= content.len() as i64 {
        return false;
    }
    let file = std::fs::OpenOptions::new().write(true).open(&wal).unwrap();
    file.set_len(left as u64).unwrap();
    let Some(error) = fails_in(&wal, &bench, &db, count) else { return false };
    let known =
        matches!(error, Error::Io { .. } | Error::Corruption { .. } | Error::ReadOnly { .. });
    assert!(known && error.to_string().contains(".wal"), "{ahead}: {error:?}");
    assert!(db.stats().read_only.is_some(), "{ahead}");
    assert!(db.close().is_err(), "{ahead}");
    true
}

/// A sync in the background ends somewhere in the file. Were it within a record, the log would
/// claim that the record is durable, and its end may be lost: no damage, but the end of the log.
#[test]
fn what_a_power_cut_tears_beyond_a_background_sync_is_no_damage() {
    let value = |n: u64| vec![n as u8; if n.is_multiple_of(2) { 5_000 } else { 10 }];
    let mut lost = 0;
    for seed in 0..60_u64 {
        let (disk, store) = (SimFs::new(), Path::new("/store"));
        let db = open(store, &FaultFs::new(Arc::new(disk.clone())));
        let count = 250 + 10 * seed;
        for n in 0..count {
            let options = WriteOptions::durability(Durability::Buffered);
            db.put_with(n.to_be_bytes(), value(n), options).unwrap();
        }
        disk.crash(CrashMode::Random, seed);
        drop(db);
        let db = open(store, &FaultFs::new(Arc::new(disk)));
        let there: Vec<_> = db.iter().map(Result::unwrap).collect();
        for (n, (key, found)) in (0_u64..).zip(&there) {
            assert_eq!((&key[..], &found[..]), (&n.to_be_bytes()[..], &value(n)[..]), "{seed}");
        }
        lost += count - there.len() as u64;
        db.close().unwrap();
    }
    assert!(lost > 60, "{lost}: records were torn");
}

/// The child writes only `Buffered`, tells what was acknowledged, and how much went through memory.
#[test]
fn what_is_in_memory_survives_a_kill() {
    if let Ok(store) = std::env::var(CHILD) {
        let db = open(Path::new(&store), &FaultFs::new(Arc::new(PosixFs)));
        for n in db.iter().count() as u64.. {
            put(&db, n, Durability::Buffered).unwrap();
            let mapped = db.stats().wal_mapped_bytes.0;
            let told = [n.to_le_bytes(), mapped.to_le_bytes()].concat();
            std::io::stderr().write_all(&told).unwrap();
        }
    }
    let bench = Bench::new();
    let name = "what_is_in_memory_survives_a_kill";
    let mut least = 0;
    for round in 1..=5_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([name, "--exact", "--nocapture"]).env(CHILD, bench.store());
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = [0; 16];
        let mut pipe = child.stderr.take().unwrap();
        let word =
            |at: usize, told: &[u8; 16]| u64::from_le_bytes(told[at..at + 8].try_into().unwrap());
        loop {
            pipe.read_exact(&mut told).unwrap();
            if word(8, &told) > round * (100 << 10) {
                break;
            }
        }
        child.kill().unwrap();
        while pipe.read_exact(&mut told).is_ok() {}
        least = least.max(word(0, &told) + 1);
        child.wait().unwrap();
        let db = bench.open();
        let there = db.iter().count() as u64;
        assert!(there >= least, "round {round}: {there} of {least}");
        check(&db, there);
        db.close().unwrap();
    }
}
