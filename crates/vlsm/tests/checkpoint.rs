//! Checkpoints and their restoring: one moment, complete, independent of the store they are of.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod tiny;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use tiny::tiny;
use vlsm::{Batch, ByteCount, Db, Durability, Env, Error, KeyspaceOptions, WriteOptions};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::posix::PosixFs;
use vlsm_testfs::{Fault, FaultFs, Op, Rule};

fn small(path: &Path) -> vlsm::Builder {
    tiny(Db::builder(path), ByteCount::kib(64))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Batch `n` puts key n into both keyspaces.
fn write(db: &Db, n: u64) {
    let (main, other) = (db.default_keyspace(), db.keyspace("other").unwrap());
    let mut batch = Batch::new();
    // The keys of one keyspace ascend, those of the other are all over the place.
    batch.put(&main, n.to_be_bytes(), vec![b'a'; 50]);
    let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    batch.put(&other, scattered.to_be_bytes(), [&n.to_be_bytes()[..], &[b'b'; 200]].concat());
    db.write(&batch, WriteOptions::default()).unwrap();
}

/// The store holds batches 0 up to some number, each whole, and nothing else; which number.
fn prefix(path: &Path) -> u64 {
    let report = vlsm::verify(path).unwrap();
    assert!(!report.damaged, "{:#?}", report.findings);
    let db = small(path).read_only(true).open().unwrap();
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().unwrap());
    let main: Vec<u64> = db.iter().map(|pair| number(&pair.unwrap().0)).collect();
    let other = db.keyspace("other").unwrap();
    let other: BTreeSet<u64> = other.iter().map(|pair| number(&pair.unwrap().1)).collect();
    assert_eq!(main, (0..main.len() as u64).collect::<Vec<_>>());
    assert!(other.iter().copied().eq(main.iter().copied()));
    main.len() as u64
}

#[test]
fn an_exact_prefix_while_writers_flushes_and_compactions_run() {
    let folder = tempfile::tempdir().unwrap();
    let db = small(&folder.path().join("store")).open().unwrap();
    db.create_keyspace("other", KeyspaceOptions::splits([vec![0x60], vec![0xa0]])).unwrap();
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let before = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                write(&db, n);
                done.store(n + 1, Ordering::Release);
            }
        });
        let mut before = Vec::new();
        for round in 0..12 {
            while done.load(Ordering::Acquire) < round * 1_500 {
                std::thread::yield_now();
            }
            let acknowledged = done.load(Ordering::Acquire);
            let report = db.checkpoint(folder.path().join(round.to_string())).unwrap();
            assert!(report.wals > 0 && report.copied == 0, "{report:?}");
            before.push((acknowledged, done.load(Ordering::Acquire)));
        }
        stop.store(true, Ordering::Relaxed);
        before
    });
    // The store goes on, uses its WALs again and removes its SSTs; the checkpoints do not change.
    let written = done.load(Ordering::Acquire);
    (written..written + 5_000).for_each(|n| write(&db, n));
    db.wait_idle().unwrap();
    for (round, (acknowledged, later)) in before.into_iter().enumerate() {
        let found = prefix(&folder.path().join(round.to_string()));
        assert!((acknowledged..=later + 1).contains(&found), "{acknowledged} {found} {later}");
    }
    // A checkpoint is a store that takes writes of its own.
    let path = folder.path().join("7");
    let count = prefix(&path);
    let copy = small(&path).open().unwrap();
    (count..count + 2_000).for_each(|n| write(&copy, n));
    let foreign = copy.snapshot().get(&db.default_keyspace(), "key");
    assert!(matches!(foreign, Err(Error::InvalidArgument(_))), "it is another store");
    copy.close().unwrap();
    assert_eq!(prefix(&path), count + 2_000);
    db.close().unwrap();
    assert_eq!(prefix(&folder.path().join("store")), written + 5_000);
}

#[test]
fn writes_of_every_durability_are_in_it_and_ssts_are_links() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("store"), folder.path().join("a/b/copy"));
    let db = small(&path).open().unwrap();
    let main = db.default_keyspace();
    for durability in [Durability::Sync, Durability::Buffered, Durability::Lazy, Durability::NoWal]
    {
        let key = format!("{durability:?}");
        main.put_with(&key, &key, WriteOptions::durability(durability)).unwrap();
    }
    let mut large = Batch::new();
    (0..6_000_u32).for_each(|n| large.put(&main, format!("large{n}"), vec![b'x'; 100]));
    db.write(&large, WriteOptions::default()).unwrap();
    let report = db.checkpoint(&target).unwrap();
    db.close().unwrap();
    let copy = Db::builder(&target).read_only(true).open().unwrap();
    assert_eq!(copy.iter().count(), 6_004);
    assert_eq!(vlsm::verify(&target).unwrap().findings, []);
    let ssts = names(&target).into_iter().filter(|name| name.ends_with(".sst"));
    let ssts: Vec<_> = ssts.collect();
    assert_eq!(ssts.len() as u64, report.ssts);
    assert!(report.ssts > 0 && report.bytes > ByteCount::kib(64), "{report:?}");
    let links = |name: &String| fs::metadata(target.join(name)).unwrap().nlink();
    assert!(ssts.iter().all(|name| links(name) >= 1));
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn bad_targets_are_refused_and_nothing_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    db.put("key", "value").unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("letter.txt"), "dear").unwrap();
    let refused = db.checkpoint(&full);
    assert!(matches!(&refused, Err(Error::InvalidArgument(why)) if why.contains("not empty")));
    let other = folder.path().join("other");
    Db::open(&other).unwrap().close().unwrap();
    assert!(matches!(db.checkpoint(&other), Err(Error::AlreadyExists { .. })));
    let file = db.checkpoint(full.join("letter.txt"));
    assert!(matches!(file, Err(Error::Io { .. })), "{file:?}");
    assert_eq!(names(&full), ["letter.txt"]);
    db.close().unwrap();
    let reader = Db::builder(&path).read_only(true).open().unwrap();
    let refused = reader.checkpoint(folder.path().join("new"));
    assert!(matches!(refused, Err(Error::OpenedReadOnly)));
    assert!(!folder.path().join("new").exists());
    assert!(matches!(vlsm::restore(&path, &full), Err(Error::InvalidArgument(_))));
    assert!(matches!(vlsm::restore(&path, &other), Err(Error::AlreadyExists { .. })));
    let gone = vlsm::restore(folder.path().join("gone"), folder.path().join("new"));
    assert!(matches!(gone, Err(Error::Missing { .. })));
    drop(reader);
    let open = Db::open(&path).unwrap();
    let busy = vlsm::restore(&path, folder.path().join("new"));
    assert!(matches!(busy, Err(Error::Locked { .. })));
    drop(open);
}

/// A batch over a new keyspace and an old one is whole in every copy, or not there.
#[test]
fn keyspaces_that_are_made_meanwhile_tear_no_batch() {
    let folder = tempfile::tempdir().unwrap();
    let db = small(&folder.path().join("store")).open().unwrap();
    let (main, stop) = (db.default_keyspace(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u32.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let other = db.create_keyspace(&format!("k{n}"), KeyspaceOptions::new()).unwrap();
                let mut batch = Batch::new();
                batch.put(&main, n.to_be_bytes(), "old");
                batch.put(&other, n.to_be_bytes(), "new");
                db.write(&batch, WriteOptions::default()).unwrap();
            }
        });
        for round in 0..30 {
            db.checkpoint(folder.path().join(round.to_string())).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    for round in 0..30 {
        let copy = small(&folder.path().join(round.to_string())).open().unwrap();
        let keys: Vec<_> = copy.iter().map(|pair| pair.unwrap().0).collect();
        for (n, key) in (0_u32..).zip(&keys) {
            assert_eq!(key[..], n.to_be_bytes());
            let other = copy.keyspace(&format!("k{n}")).expect("made before the batch");
            assert_eq!(other.get(key).unwrap().as_deref(), Some(&b"new"[..]), "{round}: {n}");
        }
        copy.close().unwrap();
    }
    db.close().unwrap();
}

#[test]
fn of_several_copies_into_one_folder_one_is_made_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (path, backup) = (folder.path().join("store"), folder.path().join("backup"));
    filled(&path);
    let db = small(&path).open().unwrap();
    db.checkpoint(&backup).unwrap();
    let copy = |n: usize, target: &Path| match n % 2 {
        0 => db.checkpoint(target),
        _ => vlsm::restore(&backup, target),
    };
    let (mut busy, mut later) = (0, 0);
    for round in 0..30 {
        let target = folder.path().join(format!("copy {round}"));
        let start = Barrier::new(4);
        let results: Vec<_> = std::thread::scope(|scope| {
            let begin = |n| {
                let (start, target, copy) = (&start, &target, &copy);
                scope.spawn(move || {
                    start.wait();
                    copy(n, target)
                })
            };
            let threads: Vec<_> = (0..4).map(begin).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        for error in results.into_iter().filter_map(Result::err) {
            match error {
                Error::Locked { .. } => busy += 1,
                Error::AlreadyExists { .. } => later += 1,
                error => panic!("{error}"),
            }
        }
        assert_eq!(prefix(&target), 3_100);
    }
    println!("{busy} were refused while another copied, {later} afterwards");
    assert!(busy > 0, "none met another");
    db.close().unwrap();
}

/// However long the SSTs take, for instance on their way to another device, the store keeps no
/// more of its WAL meanwhile than without the checkpoint.
#[test]
fn a_slow_copy_keeps_no_wal() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("store"), folder.path().join("copy"));
    let gate = Arc::new(Barrier::new(2));
    let slow = gate.clone();
    let delay = Fault::Delay(Arc::new(move || {
        slow.wait();
        slow.wait();
    }));
    let (env, _faults) = faulty(Op::Link, ".sst", delay, false);
    let db = small(&path).env(env).open().unwrap();
    db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (0..2_000).for_each(|n| write(&db, n));
    db.flush().unwrap();
    (2_000..2_100).for_each(|n| write(&db, n));
    let copying = std::thread::spawn({
        let (db, target) = (db.clone(), target.clone());
        move || db.checkpoint(&target).unwrap()
    });
    gate.wait();
    // Some 3 MB of WAL.
    (2_100..12_000).for_each(|n| write(&db, n));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let wals = names(&path).into_iter().filter(|name| name.ends_with(".wal")).count();
    gate.wait();
    assert!(copying.join().unwrap().ssts > 0);
    assert!(wals < 10, "{wals} WALs of 64 KB");
    assert_eq!(prefix(&target), 2_100);
    db.close().unwrap();
}

/// An environment in which some calls fail.
fn faulty(op: Op, path: &str, error: Fault, forever: bool) -> (Arc<dyn Env>, FaultFs) {
    let fs = FaultFs::new(Arc::new(PosixFs));
    fs.add(Rule { ops: vec![op], path: path.into(), nth: 1, forever, fault: error });
    (RealEnv::with_fs(Arc::new(fs.clone())), fs)
}

fn filled(path: &Path) -> Vec<String> {
    let db = small(path).open().unwrap();
    db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (0..3_000).for_each(|n| write(&db, n));
    db.wait_idle().unwrap();
    (3_000..3_100).for_each(|n| write(&db, n));
    db.close().unwrap();
    names(path)
}

#[test]
fn a_restore_is_checked_and_complete_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("store"), folder.path().join("restored"));
    let files = filled(&path);
    let report = vlsm::restore(&path, &target).unwrap();
    assert!(report.ssts > 0 && report.copied == 0 && report.wals > 0, "{report:?}");
    assert_eq!(prefix(&target), 3_100);
    assert_eq!(prefix(&path), 3_100);
    // On another device everything is copied.
    if let Ok(other) = tempfile::tempdir_in("/dev/shm") {
        let target = other.path().join("restored");
        let report = vlsm::restore(&path, &target).unwrap();
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        let all = if device(&target) == device(&path) { 0 } else { report.ssts };
        assert_eq!((report.copied, prefix(&target)), (all, 3_100));
    }
    for failing in [Op::Write, Op::Sync, Op::Create] {
        let target = folder.path().join(format!("{failing:?}"));
        let name = target.to_string_lossy().into_owned();
        let (env, fs) = faulty(failing, &name, Fault::NoSpace, true);
        let failed = vlsm::restore_with(&env, &path, &target);
        assert!(matches!(failed, Err(Error::NoSpace { .. })), "{failing:?}: {failed:?}");
        assert!(fs.calls() > 0 && names(&target).is_empty(), "{:?}", names(&target));
        // Once there is space it works.
        vlsm::restore(&path, &target).unwrap();
        assert_eq!(prefix(&target), 3_100);
    }
    // Damage anywhere is an error with its place, and nothing is made.
    for kind in [".sst", ".wal", "MANIFEST"] {
        let name = files.iter().rfind(|name| name.contains(kind)).unwrap();
        let damaged = path.join(name);
        let whole = fs::read(&damaged).unwrap();
        let mut bytes = whole.clone();
        let at = if kind == ".sst" { 5 } else { 16 };
        bytes[at] ^= 1;
        fs::write(&damaged, bytes).unwrap();
        let target = folder.path().join("none");
        let refused = vlsm::restore(&path, &target);
        let place = |at: &PathBuf| *at == damaged;
        assert!(matches!(&refused, Err(Error::Corruption { path, .. }) if place(path)), "{kind}");
        assert!(names(&target).is_empty());
        fs::write(&damaged, whole).unwrap();
    }
    assert_eq!(prefix(&path), 3_100);
}

#[test]
fn a_copy_into_the_store_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let db = Db::open(&store).unwrap();
    db.put("apple", "green").unwrap();
    db.flush().unwrap();
    std::os::unix::fs::symlink(&store, folder.path().join("link")).unwrap();
    fs::create_dir(folder.path().join("beside")).unwrap();
    let inside = ["store", "store/", "store/copy", "store/a/b", "link", "link/copy"];
    let inside = inside.iter().chain(&["beside/../store/copy", "store/../store", "link/../store"]);
    let into = |target: &str| folder.path().join(target);
    let refused = |copy: &dyn Fn(&Path) -> vlsm::Result<vlsm::CopyReport>| {
        let before = names(&store);
        for target in inside.clone() {
            let error = copy(&into(target)).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{target}: {error:?}");
            let text = error.to_string();
            assert!(text.contains("itself") && text.contains("outside"), "{target}: {text}");
            assert_eq!(names(&store), before, "{target}");
        }
    };
    refused(&|target| db.checkpoint(target));
    // A name that only begins alike is another folder.
    db.checkpoint(into("store-copy")).unwrap();
    db.checkpoint(into("beside/../other")).unwrap();
    db.close().unwrap();
    refused(&|target| vlsm::restore(&store, target));
    refused(&|target| vlsm::restore(into("link"), target));
    vlsm::restore(into("link"), into("restored")).unwrap();
    assert!(!vlsm::verify(&store).unwrap().damaged);
}
