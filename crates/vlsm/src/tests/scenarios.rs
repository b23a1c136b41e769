//! The explored scenarios: commit, publishing, syncs, rotation, install, back-pressure and close.
//!
//! Each scenario is a few writes of two or three threads on a store with one worker; the scenario
//! asserts its invariants. Below it are the mistakes that it is known to find.

use super::{ShuttleEnv, finds, holds, store_path};
use crate::memtable::{Arena, Memtable};
use crate::read::view::Views;
use crate::shared::events::Events;
use crate::shared::gate::Gate;
use crate::shared::health::Health;
use crate::sync::Race;
use crate::write::publish::Publisher;
use crate::{Batch, ByteCount, Db, Durability, Error, KeyspaceOptions, WriteOptions};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::WaitCause;
use vlsm_core::{MemtableId, Seq, Trailer};
use vlsm_disk::Env;
use vlsm_disk::wal::{Entries, RecoverOptions, recover};
use vlsm_policy::Admit;
use vlsm_testfs::{CrashMode, SimFs};

fn open(disk: &SimFs) -> Db {
    let env: Arc<dyn Env> = ShuttleEnv::new(disk.clone());
    let builder = Db::builder(store_path()).env(env).configure(|options| {
        options.workers = 1;
        options.io_threads = 2;
        options.log = false;
        options.direct_io = false;
        options.manifest_bytes = ByteCount::ZERO;
        options.policy.tree.memtable_bytes = ByteCount::kib(4);
        options.policy.tree.sst_max = ByteCount::kib(4);
        options.policy.shapes.vlsm.sst_min = ByteCount::kib(4);
        options.policy.tree.l1_bytes = ByteCount::kib(64);
        options.wal_file_bytes = ByteCount::kib(16);
    });
    builder.open().unwrap()
}

/// The keys in the WAL as the system has it now.
fn keys_in_wal(disk: &SimFs) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let disk = disk.fork();
    recover(&disk, &store_path(), RecoverOptions::default(), &mut |batch| {
        for entry in Entries::new(&batch.payload) {
            keys.push(entry.expect("well formed").key.to_vec());
        }
        Ok(())
    })
    .unwrap();
    keys
}

/// Writers see their own writes; what is acknowledged is in the file; a snapshot does not change.
fn commit() {
    let disk = SimFs::new();
    let db = open(&disk);
    let write = |key: &'static str, durability: Durability| {
        let (db, disk) = (db.clone(), disk.clone());
        thread::spawn(move || {
            let mut batch = Batch::new();
            batch.put(&db.default_keyspace(), key, "1");
            batch.put(&db.default_keyspace(), [key, key].concat(), "1");
            db.write(&batch, WriteOptions::durability(durability)).unwrap();
            assert!(db.get(key).unwrap().is_some(), "its own write");
            if durability != Durability::Lazy {
                assert!(keys_in_wal(&disk).contains(&key.into()), "acknowledged, not written");
            }
        })
    };
    let writers = [
        write("a", Durability::Buffered),
        write("b", Durability::Lazy),
        write("c", Durability::Sync),
    ];
    let snapshot = db.snapshot();
    let keyspace = db.default_keyspace();
    let look =
        || ["a", "aa", "b", "bb", "c", "cc"].map(|key| snapshot.get(&keyspace, key).unwrap());
    let first = look();
    assert!(first.chunks(2).all(|pair| pair[0] == pair[1]), "all of a batch or nothing");
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(look(), first, "a snapshot changed");
    drop(snapshot);
    db.close().unwrap();
}

#[test]
fn shuttle_commit() {
    holds(commit);
}

#[test]
fn shuttle_commit_finds() {
    for bug in [Race::PublishAtOnce, Race::WriteNoWait] {
        finds(bug, commit);
    }
}

/// Batches become visible in order, whatever the order in which they end, and each writer wakes.
fn publish() {
    let env: Arc<dyn Env> = ShuttleEnv::new(SimFs::new());
    let health = Arc::new(Health::new(Arc::new(Events::new(env.clone(), None, None)), false));
    let views = Arc::new(Views::new(Seq(0)));
    let publisher = Arc::new(Publisher::new(|| env.condition(Duration::ZERO), &views));
    let writers = [0, 1, 2].map(|ticket| {
        let (publisher, views, health) = (publisher.clone(), views.clone(), health.clone());
        thread::spawn(move || {
            let seq = Seq(ticket + 1);
            publisher.finish(ticket, seq);
            publisher.await_turn(ticket, seq, &health).unwrap();
            assert!(views.visible() >= seq);
        })
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(publisher.in_flight(3), 0);
}

#[test]
fn shuttle_publish() {
    holds(publish);
}

#[test]
fn shuttle_publish_finds() {
    for bug in [Race::PublishNoSecondLook, Race::PublishWakesNobody] {
        finds(bug, publish);
    }
}

/// Writers that have their records synced are all woken; what is acknowledged is on the device.
fn syncs() {
    let disk = SimFs::new();
    let db = open(&disk);
    // Calls take their time, so that some writers come while a sync runs.
    let pause = || (0..thread_rng().gen_range(0..12)).for_each(|_| thread::yield_now());
    disk.set_interleave(Arc::new(pause));
    let write = |key: &'static str| {
        let (db, disk) = (db.clone(), disk.clone());
        thread::spawn(move || {
            pause();
            let sync = WriteOptions::durability(Durability::Sync);
            db.default_keyspace().put_with(key, "1", sync).unwrap();
            let after = disk.fork();
            after.crash(CrashMode::LoseAll, 0);
            assert!(keys_in_wal(&after).contains(&key.into()), "acknowledged, not synced");
        })
    };
    let writers = ["a", "b", "c"].map(write);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    db.close().unwrap();
}

#[test]
fn shuttle_syncs() {
    holds(syncs);
}

#[test]
fn shuttle_syncs_finds() {
    finds(Race::NextGroupSleeps, syncs);
}

/// The last writer, the thread that seals, or both learn that the memtable is drained. Neither
/// learns it before all entries are in it.
fn seal() {
    let memtable = Arc::new(Memtable::new(MemtableId(1), Arena::new(1 << 12)));
    let writers = [1_u64, 2].map(|n| {
        // In the sequencing step, which is one thread's at a time.
        let mut space = memtable.reserve(1, 200, Seq(n)..=Seq(n)).expect("there is room");
        let memtable = memtable.clone();
        thread::spawn(move || {
            let trailer = Trailer::new(Seq(n), vlsm_core::Kind::Put);
            memtable.insert(&mut space, &n.to_be_bytes(), trailer, b"value");
            // A hint that may come too early, but then another one follows.
            memtable.end_write() && memtable.drained()
        })
    });
    let drained = memtable.seal();
    if memtable.drained() {
        for n in [1_u64, 2] {
            assert!(memtable.get(&n.to_be_bytes(), Seq::MAX).is_some(), "drained, and not all in");
        }
    }
    let last = writers.map(|writer| writer.join().unwrap());
    assert!(drained || last.contains(&true), "nobody learnt that it is drained");
    assert!(memtable.drained());
}

#[test]
fn shuttle_seal() {
    holds(seal);
}

#[test]
fn shuttle_seal_finds() {
    finds(Race::EndWriteLooksFirst, seal);
}

/// A writer fills a memtable, which is rotated and flushed while it is at work; nothing is lost.
fn rotation() {
    let disk = SimFs::new();
    let db = open(&disk);
    let value = vec![7; 1500];
    db.put("0", &value).unwrap();
    let writer = {
        let db = db.clone();
        thread::spawn(move || {
            for key in ["1", "2"] {
                let lazy = WriteOptions::durability(Durability::Lazy);
                db.default_keyspace().put_with(key, &value, lazy).unwrap();
            }
        })
    };
    db.flush().unwrap();
    writer.join().unwrap();
    db.flush().unwrap();
    for key in ["0", "1", "2"] {
        assert!(db.get(key).unwrap().is_some(), "a write is gone after its flush");
    }
    db.close().unwrap();
}

#[test]
fn shuttle_rotation() {
    holds(rotation);
}

/// Flushes, a new keyspace and new manifests all want the leadership of installs.
fn install() {
    let disk = SimFs::new();
    let db = open(&disk);
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    let makes = {
        let db = db.clone();
        thread::spawn(move || {
            db.create_keyspace("third", KeyspaceOptions::new()).unwrap();
        })
    };
    let flushes = {
        let db = db.clone();
        thread::spawn(move || {
            db.put("a", "1").unwrap();
            db.flush().unwrap();
        })
    };
    other.put("b", "2").unwrap();
    db.flush().unwrap();
    makes.join().unwrap();
    flushes.join().unwrap();
    assert_eq!(db.keyspaces().len(), 3);
    assert!(db.get("a").unwrap().is_some() && other.get("b").unwrap().is_some());
    db.close().unwrap();
}

#[test]
fn shuttle_install() {
    holds(install);
}

#[test]
fn shuttle_install_finds() {
    for bug in [Race::InstallNoSecondLook, Race::LeadNoNotify] {
        finds(bug, install);
    }
}

/// A stopped gate lets everybody in once it is open again.
fn gate() {
    let env: Arc<dyn Env> = ShuttleEnv::new(SimFs::new());
    let health = Health::new(Arc::new(Events::new(env.clone(), None, None)), false);
    let all = Arc::new((Gate::new(env.condition(Duration::ZERO)), health, env));
    all.0.set(Admit::stop(WaitCause::L0Bound), all.2.now());
    let writers = [1, 2].map(|_| {
        let all = all.clone();
        thread::spawn(move || {
            let _ = all.0.admit(&*all.2, &all.1, 100, None).unwrap();
        })
    });
    all.0.set(Admit::OPEN, all.2.now());
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

#[test]
fn shuttle_gate() {
    holds(gate);
}

#[test]
fn shuttle_gate_finds() {
    finds(Race::GateNoNotify, gate);
}

/// Closing ends every writer, one that is held back at the gate too; what they were told stays.
fn close() {
    let disk = SimFs::new();
    let db = open(&disk);
    let write = |key: &'static str| {
        let db = db.clone();
        thread::spawn(move || match db.put(key, "1") {
            Ok(()) => true,
            Err(Error::Closed) => false,
            Err(error) => panic!("{error}"),
        })
    };
    let first = write("first");
    db.engine.shared.gate.set(Admit::stop(WaitCause::L0Bound), db.engine.shared.env.now());
    let second = write("second");
    db.close().unwrap();
    for (key, writer) in [("first", first), ("second", second)] {
        let told = writer.join().unwrap();
        assert!(!told || keys_in_wal(&disk).contains(&key.into()), "acknowledged and gone");
    }
}

#[test]
fn shuttle_close() {
    holds(close);
}

#[test]
fn shuttle_close_finds() {
    finds(Race::CloseNoNotify, close);
}
