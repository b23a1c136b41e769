//! Failures of the device and panics in the background: writes are refused, reads go on, nothing
//! hangs, and a store reopened on a good device has everything that was acknowledged.
//!
//! The disk is in memory; chosen calls of it fail, or panic, by rules (`vlsm_testfs::FaultFs`).
#![allow(clippy::unwrap_used)]

mod altered;
mod bench;
mod tiny;

use altered::Altered;
use bench::{Bench, FOLDER, HANG, pause, small, soon, taken_again};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use vlsm::{BytesPerSec, Db, Durability, Env, Error, KeyspaceOptions, WriteOptions};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{CrashMode, Fault, FaultFs, Op, Rule, SimFs};

/// The WAL of a new store. (The next one is prepared at any time.)
const WAL: &str = "000001.wal";

/// A fault that only counts.
fn counted() -> (Arc<AtomicU64>, Fault) {
    let calls = Arc::new(AtomicU64::new(0));
    let count = calls.clone();
    let counting = Fault::Delay(Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    (calls, counting)
}

#[test]
fn a_failed_sync_latches_and_is_never_tried_again() {
    for (op, path) in
        [(Op::Sync, WAL), (Op::Sync, ".sst"), (Op::Sync, "MANIFEST"), (Op::SyncDir, "")]
    {
        for fault in [Fault::Eio, Fault::NoSpace] {
            if path == ".sst" && matches!(fault, Fault::NoSpace) {
                // Nothing of the file was promised: it is made anew (the next test).
                continue;
            }
            let what = format!("{op:?} of {path:?}");
            let mut bench = Bench::new();
            let db = bench.open();
            bench.put(&db, 0, Durability::Sync).unwrap();
            // The next WAL is prepared meanwhile, which syncs the folder, too.
            soon(|| {
                let before = bench.faults.calls();
                pause(Duration::from_millis(20));
                bench.faults.calls() == before
            });
            let failed = bench.faults.add(Rule::once(op, path, fault));
            let (calls, counting) = counted();
            bench.faults.add(Rule::once(op, path, counting).forever());
            let result = bench.put(&db, 1, Durability::Sync).and_then(|()| db.flush());
            let error = result.unwrap_err();
            assert!(!matches!(error, Error::NoSpace { .. }), "{what}: {error}");
            assert_eq!(bench.faults.fired(failed), 1, "{what}");
            assert!(db.stats().read_only.is_some(), "{what}");
            for n in 2..5 {
                let refused = bench.put(&db, n, Durability::Sync);
                assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{what}: {refused:?}");
            }
            assert!(db.sync().is_err() || path != WAL, "{what}: not durable");
            assert!(db.flush().is_err() && db.wait_idle().is_err(), "{what}");
            bench.look(&db, 1);
            assert!(db.close().is_err(), "{what}: closing tells");
            assert_eq!(calls.load(Ordering::SeqCst), 0, "{what}: tried again");
            assert_eq!(bench.failures.load(Ordering::SeqCst), 1, "{what}: one event");
            bench.reopen(1);
        }
    }
}

#[test]
fn a_panic_in_any_file_call_stops_writes_and_nothing_else() {
    let places = [
        (Op::Create, ".sst"),
        (Op::Write, ".sst"),
        (Op::Sync, ".sst"),
        (Op::Read, ".sst"),
        (Op::Remove, ".sst"),
        (Op::SyncDir, ""),
        (Op::Write, "MANIFEST"),
        (Op::Sync, "MANIFEST"),
        (Op::Create, ".wal.tmp"),
        (Op::Write, ".wal"),
        (Op::Map, ".wal"),
        (Op::Populate, ".wal"),
        (Op::Store, ".wal"),
        (Op::Sync, ".wal"),
    ];
    for (op, path) in places {
        for durability in [Durability::Buffered, Durability::Sync] {
            let mapped = matches!(op, Op::Map | Op::Populate | Op::Store);
            if mapped && durability == Durability::Sync {
                // Synced writes are calls.
                continue;
            }
            let what = format!("{op:?} of {path:?}, {durability:?}");
            let mut bench = Bench::new();
            let db = bench.open();
            bench.put(&db, 0, durability).unwrap();
            let planted = Fault::Delay(Arc::new(|| panic!("planted")));
            let rule = bench.faults.add(Rule::once(op, path, planted));
            let mut failed = 0;
            for n in 1..20_000 {
                // All keys are written again and again, so that files are merged and removed.
                if bench.put(&db, n % 500, durability).is_err() {
                    failed = 1;
                    break;
                }
            }
            assert_eq!(bench.faults.fired(rule), 1, "{what}");
            let refused = bench.put(&db, 1_000, durability);
            assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{what}: {refused:?}");
            assert_eq!(failed, 1, "{what}");
            assert!(db.flush().is_err() && db.wait_idle().is_err(), "{what}");
            assert!(db.stats().read_only.is_some(), "{what}");
            // A `Sync` write is visible before it is synced.
            bench.look(&db, 1);
            assert!(db.close().is_err(), "{what}: closing tells");
            // Writes are refused from the failure on, and the event may follow a moment later.
            assert_eq!(bench.failures.load(Ordering::SeqCst), 1, "{what}: one event");
            bench.reopen(1);
        }
    }
}

/// An edit of the manifest that the device refuses, after any part of it.
#[test]
fn an_edit_waits_for_space_and_nothing_is_deleted() {
    for cut in (0..240).step_by(12) {
        let mut bench = Bench::new();
        let db = bench.open();
        for n in 0..100 {
            bench.put(&db, n, Durability::Buffered).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        for n in 50..150 {
            bench.put(&db, n, Durability::Buffered).unwrap();
        }
        let before = bench.ssts();
        let full =
            bench.faults.add(Rule::once(Op::Write, "MANIFEST", Fault::CutWrite(cut)).forever());
        let refused = db.flush();
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{cut}: {refused:?}");
        assert!(matches!(db.put("a", "b"), Err(Error::NoSpace { .. })), "{cut}");
        assert!(matches!(db.wait_idle(), Err(Error::NoSpace { .. })), "{cut}");
        assert!(db.stats().out_of_space && db.stats().read_only.is_none(), "{cut}");
        bench.look(&db, 0);
        let during = bench.ssts();
        assert!(during.len() > before.len(), "{cut}: the edit's own files stay");
        assert!(before.iter().all(|path| during.contains(path)), "{cut}: nothing is deleted");
        for (mode, seed) in CrashMode::ALL.into_iter().zip(0..) {
            let disk = bench.disk.fork();
            disk.crash(mode, seed);
            let fork = Bench { faults: FaultFs::new(Arc::new(disk.clone())), disk, ..Bench::new() };
            let db = fork.open();
            // Buffered writes may be lost with the power; what was flushed may not.
            assert!(db.iter().map(Result::unwrap).count() >= 100, "{cut} {mode:?}");
            db.close().unwrap();
        }
        bench.faults.end(full);
        taken_again(&db);
        db.flush().unwrap();
        db.wait_idle().unwrap();
        bench.look(&db, 1);
        let stats = db.stats();
        db.close().unwrap();
        // Writes are taken from the moment that space returned, and the event may follow later.
        let told = bench.shortages.each_ref().map(|count| count.load(Ordering::SeqCst));
        assert_eq!((stats.shortages, told), (1, [1, 1]), "{cut}: told once");
        bench.reopen(1);
    }
}

#[test]
fn after_a_failed_append_nobody_writes_on() {
    for round in 0..20 {
        let faults = FaultFs::new(Arc::new(SimFs::new()));
        let mut env = Altered::of(RealEnv::with_fs(Arc::new(faults.clone())));
        env.interleave = Box::new(|real| {
            if real.random().is_multiple_of(4) {
                pause(Duration::from_micros(real.random() % 300));
            }
        });
        let db = small(Db::builder(Path::new(FOLDER)).env(Arc::new(env))).open().unwrap();
        db.put("first", "1").unwrap();
        let nth = round % 7 + 1;
        // By a call, or through memory, which is used once a few pages have been written.
        let op = [Op::Write, Op::Store][(round % 2) as usize];
        while op == Op::Store && db.stats().wal_mapped_bytes.0 == 0 {
            db.put("more", [b'-'; 200]).unwrap();
        }
        let failed = faults.add(Rule::once(op, WAL, Fault::Eio).nth(nth));
        let (calls, counting) = counted();
        faults.add(Rule::once(op, WAL, counting).nth(nth + 1).forever());
        std::thread::scope(|scope| {
            for client in 0..6_u64 {
                let (db, client) = (&db, client);
                let put = move |n: &u64| db.put(client.to_be_bytes(), n.to_string());
                scope.spawn(move || (0..).find(|n| put(n).is_err()));
            }
        });
        assert_eq!(faults.fired(failed), 1);
        assert_eq!(calls.load(Ordering::SeqCst), 0, "round {round}");
        assert!(db.close().is_err());
    }
}

/// A close that cannot make everything durable reports it: `close` returns the error, and where the
/// last handle is dropped instead an event has it.
#[test]
fn a_failed_close_is_told() {
    let lost = [
        (Durability::Lazy, Op::Write, WAL),
        (Durability::Lazy, Op::Sync, WAL),
        (Durability::Buffered, Op::Sync, WAL),
        (Durability::NoWal, Op::Create, ".sst"),
        (Durability::NoWal, Op::Write, ".sst"),
        (Durability::NoWal, Op::Sync, ".sst"),
        (Durability::NoWal, Op::Write, "MANIFEST"),
        (Durability::NoWal, Op::Sync, "MANIFEST"),
    ];
    for (durability, op, path) in lost {
        for dropped in [false, true] {
            let what = format!("{op:?} of {path:?}, {durability:?}, dropped: {dropped}");
            let mut bench = Bench::new();
            let db = bench.open();
            bench.put(&db, 0, Durability::Sync).unwrap();
            let failing = bench.faults.add(Rule::once(op, path, Fault::Eio).forever());
            let options = WriteOptions::durability(durability);
            db.default_keyspace().put_with("last", "write", options).unwrap();
            assert_eq!(bench.failures.load(Ordering::SeqCst), 0, "{what}");
            if dropped {
                drop(db);
            } else {
                assert!(db.close().is_err(), "{what}");
            }
            assert!(bench.faults.fired(failing) > 0, "{what}");
            assert_eq!(bench.failures.load(Ordering::SeqCst), 1, "{what}: one event");
            bench.reopen(1);
        }
    }
}

/// The outcome of work on a thread of its own, once it is there.
#[allow(clippy::disallowed_methods)]
fn aside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> mpsc::Receiver<R> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive
}

/// Makes such calls stand still until the returned flag is lowered. Also returns a wait for the
/// first of them.
fn stand_still(bench: &Bench, op: Op, path: &str) -> (Arc<AtomicBool>, impl Fn() + use<>) {
    let still = Arc::new(AtomicBool::new(true));
    let stands = still.clone();
    let wait = Fault::Delay(Arc::new(move || {
        while stands.load(Ordering::SeqCst) {
            pause(Duration::from_millis(1));
        }
    }));
    let rule = bench.faults.add(Rule::once(op, path, wait).forever());
    let faults = bench.faults.clone();
    let until_it_stands = move || soon(|| faults.fired(rule) > 0);
    (still, until_it_stands)
}

/// Whatever happens while a flush waits for its device, it ends.
#[test]
fn a_flush_never_waits_for_ever() {
    for meanwhile in ["the store is latched", "it is closed", "it is written on", "two flush"] {
        let mut bench = Bench::new();
        let db = bench.open();
        for n in 0..50 {
            bench.put(&db, n, Durability::Buffered).unwrap();
        }
        let (still, until_it_stands) = stand_still(&bench, Op::Write, ".sst");
        let flushing = db.clone();
        let flushed = aside(move || flushing.flush());
        until_it_stands();
        let told = || flushed.recv_timeout(HANG).expect(meanwhile);
        match meanwhile {
            "the store is latched" => {
                // By a call or through memory.
                for op in [Op::Write, Op::Store] {
                    bench.faults.add(Rule::once(op, WAL, Fault::Eio));
                }
                bench.put(&db, 50, Durability::Buffered).unwrap_err();
                let told = told();
                assert!(matches!(told, Err(Error::ReadOnly { .. })), "{told:?}");
                still.store(false, Ordering::SeqCst);
                assert!(db.close().is_err());
            }
            "it is closed" => {
                let closing = aside(move || db.close());
                let told = told();
                assert!(matches!(told, Err(Error::Closed)), "{told:?}");
                still.store(false, Ordering::SeqCst);
                closing.recv_timeout(HANG).expect("closing ends").unwrap();
            }
            _ => {
                // Beyond all memtables, so that writers wait, too; they may give up.
                let give_up = WriteOptions::default().deadline(Duration::from_millis(200));
                let more =
                    |n: u64| db.default_keyspace().put_with(n.to_be_bytes(), [0; 99], give_up);
                let busy = (1_000..20_000).find_map(|n| more(n).err());
                assert!(matches!(busy, Some(Error::Busy { .. })), "{busy:?}");
                let second = db.clone();
                let second = aside(move || second.flush());
                still.store(false, Ordering::SeqCst);
                if meanwhile == "two flush" {
                    second.recv_timeout(HANG).expect("the second one ends").unwrap();
                    db.flush().unwrap();
                } else {
                    (20_000_u64..30_000).for_each(|n| db.put(n.to_be_bytes(), [0; 99]).unwrap());
                }
                told().unwrap();
                db.close().unwrap();
                bench.look(&bench.open(), 30_000);
                continue;
            }
        }
        bench.reopen(1);
    }
}

/// A change of the manifest fails while the store is being closed: the manifest may list a WAL that
/// was prepared, so closing does not remove it.
#[test]
fn closing_keeps_a_wal_that_the_manifest_may_list() {
    for fault in [Fault::Eio, Fault::NoSpace] {
        let mut bench = Bench::new();
        let db = bench.open();
        let (still, until_it_stands) = stand_still(&bench, Op::Write, "MANIFEST");
        let failing = bench.faults.add(Rule::once(Op::Sync, "MANIFEST", fault));
        // When a part of the first WAL is used, the next one is prepared.
        (0..20).for_each(|n| bench.put(&db, n, Durability::Sync).unwrap());
        until_it_stands();
        let handle = db.clone();
        let closing = aside(move || handle.close());
        soon(|| matches!(db.get("any"), Err(Error::Closed)));
        still.store(false, Ordering::SeqCst);
        let closed = closing.recv_timeout(HANG).expect("closing ends");
        assert!(bench.faults.fired(failing) > 0, "{closed:?}");
        assert!(closed.is_err(), "the failure is told");
        bench.reopen(0);
    }
}

/// The ticket of a write that was admitted and found no memtable is given back: the next writer
/// does not wait for its bytes.
#[test]
fn a_write_that_came_to_nothing_delays_nobody() {
    let bench = Bench::new();
    let db = small(Db::builder(FOLDER).env(RealEnv::with_fs(Arc::new(bench.faults.clone()))))
        .configure(|options| {
            let policy = &mut options.policy;
            (policy.shape, policy.admission) = ("tiered_l0".into(), "slowdown_stop".into());
            (policy.tree.l0_trigger, policy.tree.l0_max) = (4, 100);
            (policy.tree.l0_slowdown, policy.tree.l0_stop) = (1, 100);
            policy.admissions.slowdown_stop.delayed_write_rate = BytesPerSec(1 << 20);
        })
        .open()
        .unwrap();
    let put = |n: u64, bytes: usize, patience: u64| {
        let give_up = WriteOptions::default().deadline(Duration::from_millis(patience));
        db.default_keyspace().put_with(n.to_be_bytes(), vec![0; bytes], give_up)
    };
    // A run in L0 slows writers down.
    put(0, 99, 60_000).unwrap();
    db.flush().unwrap();
    soon(|| db.stats().write_limit.is_some());
    let (still, _) = stand_still(&bench, Op::Write, ".sst");
    let full = (0..10_000).find_map(|n| put(n, 99, 1_000).err());
    // What was written is paid by now; each of these is worth 16 ms.
    let refused: Vec<_> = (0..10).map(|n| put(n, 16 << 10, 0).unwrap_err()).collect();
    for error in full.into_iter().chain(refused) {
        assert!(matches!(error, Error::Busy { cause: "memtable full", .. }), "{error:?}");
    }
    still.store(false, Ordering::SeqCst);
    db.close().unwrap();
}

/// Closes while file calls stand still, and looks for what is left behind.
fn close_meanwhile(bench: &Bench, db: Db, still: &AtomicBool, refused: &mpsc::Receiver<Outcome>) {
    let closing = aside(move || db.close());
    let told = refused.recv_timeout(HANG).expect("who waits is told");
    assert!(matches!(told, Err(Error::Closed)), "{told:?}");
    still.store(false, Ordering::SeqCst);
    closing.recv_timeout(HANG).expect("closing ends").unwrap();
    let env: Arc<dyn Env> = RealEnv::with_fs(Arc::new(bench.disk.clone()));
    let report = vlsm::verify_with(&env, Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    bench.reopen(0);
}

type Outcome = Result<(), Error>;

/// The unfinished output of a compaction is removed by the close.
#[test]
fn closing_during_a_compaction_leaves_no_file_of_it() {
    let mut bench = Bench::new();
    let db = bench.open();
    for n in 0..2_000 {
        bench.put(&db, n % 500, Durability::Buffered).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let (still, until_it_stands) = stand_still(&bench, Op::Write, ".sst");
    // Before the request, or there might be nothing left to merge.
    for n in 0..100 {
        bench.put(&db, n * 5, Durability::Buffered).unwrap();
    }
    let main = db.default_keyspace();
    let refused = aside(move || main.compact_range(..).and(main.put("more", "")));
    until_it_stands();
    close_meanwhile(&bench, db, &still, &refused);
}

/// A job that ended while another one's edit was written: its own was not, and its files go.
#[test]
fn closing_before_an_install_leaves_no_file_of_the_job() {
    let mut bench = Bench::new();
    let db = bench.open();
    let flush = |db: &Db| {
        let db = db.clone();
        aside(move || db.flush())
    };
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    let (still, until_it_stands) = stand_still(&bench, Op::Sync, "MANIFEST");
    bench.put(&db, 0, Durability::Buffered).unwrap();
    let first = flush(&db);
    until_it_stands();
    other.put("key", "value").unwrap();
    let refused = flush(&db);
    soon(|| db.stats().flush.jobs == 2);
    assert_eq!(bench.ssts().len(), 2);
    drop(other);
    close_meanwhile(&bench, db, &still, &refused);
    assert!(matches!(first.recv_timeout(HANG), Ok(Err(Error::Closed))));
}

/// The list of WALs is written in the background after a keyspace was dropped. If that fails, the
/// manifest takes no further change: the store is latched, instead of repeating jobs whose results
/// cannot be installed.
#[test]
fn a_failed_release_of_wals_latches() {
    let mut bench = Bench::new();
    let db = bench.open();
    let gone = db.create_keyspace("gone", KeyspaceOptions::new()).unwrap();
    // Only this write needs the first WAL in the end.
    gone.put("key", "value").unwrap();
    (0..3_000).for_each(|n| bench.put(&db, n, Durability::Buffered).unwrap());
    soon(|| {
        let before = bench.faults.calls();
        pause(Duration::from_millis(20));
        bench.faults.calls() == before && db.stats().jobs.is_empty()
    });
    // The first change of the manifest is the drop itself.
    let failing = bench.faults.add(Rule::once(Op::Sync, "MANIFEST", Fault::Eio).nth(2));
    db.drop_keyspace(&gone).unwrap();
    soon(|| db.stats().read_only.is_some());
    assert_eq!(bench.faults.fired(failing), 1);
    assert!(matches!(bench.put(&db, 1, Durability::Buffered), Err(Error::ReadOnly { .. })));
    bench.look(&db, 0);
    bench.reopen(0);
}
