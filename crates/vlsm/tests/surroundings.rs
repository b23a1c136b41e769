//! A store in adverse surroundings: a full device, files that cannot be removed, strangers in its
//! folder, a system without threads. None of them loses data or stops the store for good.
#![allow(clippy::unwrap_used)]

mod altered;
mod bench;
mod tiny;

use altered::Altered;
use bench::{Bench, FOLDER, HANG, small, soon, taken_again};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use vlsm::{Db, Durability, Env, Error, KeyspaceOptions, SstFileWriter};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest;
use vlsm_disk::wal::reader::read_header;
use vlsm_disk::wal::{wal_number, wal_path};
use vlsm_disk::{Fs, Priority};
use vlsm_testfs::{CrashMode, Fault, FaultFs, Op, Rule, SimFs};

/// The file that could not be synced is removed and made anew once there is space.
#[test]
fn an_sst_for_which_there_is_no_space_is_made_anew() {
    for op in [Op::Create, Op::Write, Op::Sync] {
        let mut bench = Bench::new();
        let db = bench.open();
        bench.put(&db, 0, Durability::Sync).unwrap();
        let full = bench.faults.add(Rule::once(op, ".sst", Fault::NoSpace));
        let refused = db.flush().unwrap_err();
        assert!(matches!(refused, Error::NoSpace { .. }), "{op:?}: {refused}");
        assert_eq!(bench.faults.fired(full), 1);
        taken_again(&db);
        bench.put(&db, 1, Durability::Sync).unwrap();
        db.flush().unwrap();
        assert_eq!(bench.failures.load(Ordering::SeqCst), 0, "{op:?}");
        let numbers = db.stats().levels.iter().map(|level| level.tables).sum::<u64>();
        soon(|| bench.ssts().len() as u64 == numbers);
        db.close().unwrap();
        bench.disk.crash(CrashMode::LoseAll, 1);
        // It has what was put to see whether writes are taken again.
        bench.reopen(1);
    }
}

/// Others took the last byte of the device: the store opens by its reserve, and what is deleted
/// makes room. Without a reserve it does not, and is as it was.
#[test]
fn a_store_on_a_full_device_opens_for_deleting() {
    let has_reserve = |bench: &Bench| bench.disk.files().contains_key(Path::new("/store/RESERVE"));
    for killed in [false, true] {
        let mut bench = Bench::new();
        let db = bench.open();
        for n in 0..2_000 {
            bench.put(&db, n, Durability::Buffered).unwrap();
        }
        soon(|| has_reserve(&bench));
        let last = Durability::Sync;
        bench.put(&db, 2_000, last).unwrap();
        if killed {
            bench.disk.kill();
            drop(db);
        } else {
            db.close().unwrap();
        }
        let (poor, before) = (bench.disk.fork(), bench.disk.used());
        bench.disk.set_capacity(Some(before));
        let db = bench.open();
        assert!(!has_reserve(&bench), "killed {killed}: opened by its reserve");
        bench.look(&db, 0);
        let main = db.default_keyspace();
        main.delete_range(0_u64.to_be_bytes()..1_990_u64.to_be_bytes()).unwrap();
        main.compact_range(..).unwrap();
        assert!(bench.disk.used() < before / 2, "killed {killed}: {}", bench.disk.used());
        bench.acknowledged.retain(|key, _| key[..] >= 1_990_u64.to_be_bytes()[..]);
        bench.look(&db, 0);
        bench.disk.set_capacity(None);
        for n in 0..2_000 {
            bench.put(&db, n, Durability::Buffered).unwrap();
        }
        soon(|| has_reserve(&bench));
        db.close().unwrap();
        bench.reopen(0);

        poor.remove(Path::new("/store/RESERVE")).unwrap();
        poor.set_capacity(Some(poor.used()));
        let files = poor.files();
        let env = RealEnv::with_fs(Arc::new(poor.clone()));
        match small(Db::builder(FOLDER).env(env)).open() {
            Err(Error::NoSpace { .. }) => assert_eq!(poor.files(), files, "killed {killed}"),
            Err(error) => panic!("killed {killed}: {error}"),
            // What the dead process had left made room enough.
            Ok(db) => {
                let removed = files.keys().any(|path| !poor.files().contains_key(path));
                assert!(killed && removed, "killed {killed}: there was no room");
                db.close().unwrap();
            }
        }
    }
}

/// While the manifest cannot grow, an ingest or a new keyspace is refused and has no effect: the
/// caller does not wait for space that may never come, and no crash brings the change back.
#[test]
fn what_the_manifest_has_no_room_for_is_refused_for_good() {
    for cut in [0, 100, usize::MAX] {
        let mut bench = Bench::new();
        let db = bench.open();
        bench.put(&db, 0, Durability::Sync).unwrap();
        let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(bench.disk.clone()));
        let path = Path::new("/outside.sst");
        let mut file = SstFileWriter::create_in(&env, path, db.options()).unwrap();
        file.put("ingested", "value").unwrap();
        file.finish().unwrap();
        let full = Rule::once(Op::Write, "MANIFEST", Fault::CutWrite(cut)).forever();
        let full = bench.faults.add(full);
        for ingests in [true, false] {
            let (sender, answer) = mpsc::channel();
            let db = db.clone();
            let asks = move || {
                let result = match ingests {
                    true => db.default_keyspace().ingest([path]).map(drop),
                    false => db.create_keyspace("new", KeyspaceOptions::default()).map(drop),
                };
                let _ = sender.send(result);
            };
            let begun = env.spawn("asks", Priority::Normal, Box::new(asks)).unwrap();
            let refused = answer.recv_timeout(HANG).expect("nobody waits for ever");
            assert!(matches!(refused, Err(Error::NoSpace { .. })), "{cut}: {refused:?}");
            assert!(begun.join());
        }
        assert!(bench.faults.fired(full) > 0);
        assert!(matches!(db.put("a", "b"), Err(Error::NoSpace { .. })), "{cut}");
        assert!(bench.ssts().iter().all(|file| file == path), "{cut}: its copy is removed");
        for (mode, seed) in CrashMode::ALL.into_iter().zip(0..) {
            let disk = bench.disk.fork();
            disk.crash(mode, seed);
            let fork = Bench { faults: FaultFs::new(Arc::new(disk.clone())), disk, ..Bench::new() };
            let db = fork.open();
            assert_eq!(db.get("ingested").unwrap(), None, "{cut} {mode:?}: refused, and there");
            assert!(db.keyspace("new").is_err(), "{cut} {mode:?}: refused, and there");
            db.close().unwrap();
        }
        bench.faults.end(full);
        taken_again(&db);
        db.default_keyspace().ingest([path]).unwrap();
        assert_eq!(db.get("ingested").unwrap().as_deref(), Some(&b"value"[..]), "{cut}");
        db.create_keyspace("new", KeyspaceOptions::default()).unwrap();
        assert_eq!(bench.failures.load(Ordering::SeqCst), 0, "{cut}");
        db.close().unwrap();
        // It has what was put to see whether writes are taken again, and the file.
        bench.reopen(2);
    }
}

/// An opening on a full device seals the last WAL instead of taking it over. The one that had been
/// prepared is removed then; a crash before the manifest knows that keeps no store closed.
#[test]
fn a_prepared_wal_that_a_full_opening_passed_over_is_not_missed() {
    let is_wal = |path: &PathBuf| path.extension().is_some_and(|end| end == "wal");
    let wals = |disk: &SimFs| disk.files().into_keys().filter(is_wal).collect::<Vec<_>>();
    let listed = |disk: &SimFs| manifest::log::read(disk, Path::new(FOLDER)).unwrap().state.wals;
    let (bench, killed) = loop {
        let mut bench = Bench::new();
        let db = bench.open();
        let mut n = 0;
        while wals(&bench.disk).len() < 2 {
            bench.put(&db, n, Durability::Sync).unwrap();
            n += 1;
        }
        soon(|| listed(&bench.disk).len() == 2);
        let killed = bench.disk.fork();
        db.close().unwrap();
        let second = wals(&killed)[1].clone();
        let number = wal_number(&second).unwrap();
        if !read_header(&killed, &second, number).unwrap().0.started {
            break (bench, killed);
        }
        // The writer was faster than this.
    };
    let faults = FaultFs::new(Arc::new(killed.clone()));
    let bench = Bench { faults, disk: killed, ..bench };
    // There is room neither for a usual WAL nor for a short one that takes over.
    let no_room = |nth| Rule::once(Op::Write, ".wal.tmp", Fault::NoSpace).nth(nth);
    let full = [1, 2].map(|nth| bench.faults.add(no_room(nth)));
    let last = bench.faults.add(Rule::once(Op::Write, "MANIFEST", Fault::Eio).forever());
    let env = RealEnv::with_fs(Arc::new(bench.faults.clone()));
    let refused = small(Db::builder(FOLDER).env(env)).open();
    assert!(refused.is_err(), "as if it had crashed there");
    assert_eq!(full.map(|rule| bench.faults.fired(rule)), [1, 1]);
    assert!(bench.faults.fired(last) > 0);
    let (there, listed) = (wals(&bench.disk), listed(&bench.disk));
    assert!(there.len() == 2 && listed.len() == 2, "{there:?}, {listed:?}");
    assert!(!there.contains(&wal_path(Path::new(FOLDER), listed[1])), "it was removed");
    for mode in CrashMode::ALL {
        let disk = bench.disk.fork();
        disk.crash(mode, 1);
        let fork = FaultFs::new(Arc::new(disk.clone()));
        let acknowledged = bench.acknowledged.clone();
        Bench { faults: fork, disk, acknowledged, ..Bench::new() }.reopen(0);
    }
}

/// A file that the store does not need and that cannot be removed takes space and has no other
/// effect.
#[test]
fn garbage_that_cannot_be_removed_stops_nothing() {
    let mut bench = Bench::new();
    let failing = Rule::once(Op::Remove, "", Fault::Eio).forever();
    let rule = bench.faults.add(failing);
    let db = bench.open();
    for n in 0..3_000 {
        bench.put(&db, n % 300, Durability::Buffered).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    soon(|| db.stats().stuck_files > 0);
    assert!(bench.faults.fired(rule) > 0);
    assert_eq!(bench.failures.load(Ordering::SeqCst), 0);
    bench.look(&db, 0);
    db.close().unwrap();
    // Nor does an opening mind its leftovers.
    let db = bench.open();
    bench.look(&db, 0);
    bench.put(&db, 1, Durability::Sync).unwrap();
    db.close().unwrap();
    let left = bench.disk.files().len();
    bench.faults.end_all();
    bench.reopen(0);
    // It has what the first one wrote besides.
    bench.reopen(1);
    assert!(bench.disk.files().len() < left, "what was left is removed once that can be done");
}

/// Each dead file is tried once, and with each of them one of those that could not be removed: the
/// calls do not grow with the square of their number.
#[test]
fn garbage_is_not_tried_over_and_over() {
    let mut bench = Bench::new();
    let rule = bench.faults.add(Rule::once(Op::Remove, ".sst", Fault::Eio).forever());
    let db = bench.open();
    for n in 0..20_000 {
        bench.put(&db, n % 300, Durability::Buffered).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    soon(|| db.stats().zombie_files == db.stats().stuck_files);
    let (stuck, tried) = (db.stats().stuck_files, bench.faults.fired(rule));
    assert!(stuck > 50, "{stuck} files");
    assert!((stuck..=3 * stuck).contains(&tried), "{tried} calls for {stuck} files");
    // Once they can be removed, all of them go with the next dead file.
    bench.faults.end(rule);
    for n in 0..1_000 {
        bench.put(&db, n % 300, Durability::Buffered).unwrap();
    }
    db.flush().unwrap();
    soon(|| db.stats().stuck_files == 0);
    db.close().unwrap();
}

/// Files whose names only look like the store's: it neither reads nor removes them, and gives no
/// file a number that follows from theirs.
#[test]
fn strangers_in_the_folder_change_nothing() {
    let strangers = [
        "7.sst",
        "0000007.sst",
        "+00007.sst",
        "9000000000000.sst",
        "72057594037927935.sst",
        "1700000000000000000.sst",
        "18446744073709551615.sst",
        "99999999999999999999.sst",
        "7.wal",
        "0000007.wal",
        "18446744073709551615.wal",
        "MANIFEST-7",
        "MANIFEST-18446744073709551615",
    ];
    for name in strangers {
        let mut bench = Bench::new();
        let db = bench.open();
        bench.put(&db, 0, Durability::Sync).unwrap();
        db.close().unwrap();
        let path = Path::new(FOLDER).join(name);
        bench.disk.set_content(&path, b"not yours".to_vec());
        for n in 1..4 {
            let db = bench.open();
            bench.look(&db, 0);
            bench.put(&db, n, Durability::Sync).unwrap();
            db.flush().unwrap();
            db.close().unwrap();
        }
        bench.disk.crash(CrashMode::LoseAll, 1);
        bench.reopen(0);
        assert_eq!(bench.disk.content(&path).as_deref(), Some(&b"not yours"[..]), "{name}");
        let ours = bench.disk.files().into_keys().filter(|other| *other != path);
        let longest = ours.map(|path| path.file_name().unwrap().len()).max();
        assert!(longest <= Some("MANIFEST-000001".len()), "{name} gave its number to another");
    }
    // A WAL of a number that the store cannot have given would pass for its newest.
    let mut bench = Bench::new();
    let db = bench.open();
    bench.put(&db, 0, Durability::Sync).unwrap();
    db.close().unwrap();
    let path = Path::new(FOLDER).join("72057594037927935.wal");
    bench.disk.set_content(&path, b"not yours".to_vec());
    let before = bench.disk.files();
    let env = RealEnv::with_fs(Arc::new(bench.disk.clone()));
    let refused = small(Db::builder(FOLDER).env(env)).open().unwrap_err().to_string();
    assert!(refused.contains("72057594037927935.wal") && refused.contains("move"), "{refused}");
    bench.disk.remove(&path).unwrap();
    assert_eq!(bench.disk.files().len() + 1, before.len());
    bench.reopen(0);
}

/// A system without a thread left refuses the opening, which leaves neither threads nor a lock.
#[test]
fn threads_that_cannot_be_started_are_an_error_of_the_opening() {
    let mut bench = Bench::new();
    let db = bench.open();
    bench.put(&db, 0, Durability::Sync).unwrap();
    db.close().unwrap();
    for read_only in [false, true] {
        let mut refused = 0;
        for left in 0.. {
            let real = RealEnv::with_fs(Arc::new(bench.disk.clone()));
            let (mut env, left_now) = (Altered::of(real), AtomicU64::new(left));
            env.may_start = Box::new(move |_| {
                let taken = |left: u64| left.checked_sub(1);
                let started = left_now.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken);
                started.map(drop).map_err(|_| std::io::ErrorKind::WouldBlock.into())
            });
            let env: Arc<dyn Env> = Arc::new(env);
            let held = Arc::downgrade(&env);
            match small(Db::builder(FOLDER).env(env)).read_only(read_only).open() {
                Ok(db) => {
                    bench.look(&db, 0);
                    db.close().unwrap();
                    break;
                }
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    assert!(text.contains("cannot start a thread"), "{left}: {text}");
                }
            }
            assert_eq!(held.strong_count(), 0, "{left}: a thread lives on");
        }
        // One thread for file calls, and one that flushes. Later ones need not start: the store
        // goes on with those that it has.
        assert!(refused >= if read_only { 1 } else { 2 }, "{refused}");
    }
    bench.reopen(0);
}
