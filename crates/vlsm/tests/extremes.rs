//! Options and numbers at their ends: what a store wrote with them it reads again, or it refuses
//! them before anything is written.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm::{ByteCount, Db, Env, Error, KeyspaceOptions};
use vlsm_core::Seq;
use vlsm_disk::Fs;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::manifest::{Manifest, State};
use vlsm_testfs::SimFs;

const FOLDER: &str = "/store";

fn env(disk: &SimFs) -> Arc<dyn Env> {
    RealEnv::with_fs(Arc::new(disk.clone()))
}

/// A store of tiny memtables whose L0 grows for ever.
fn tall(disk: &SimFs) -> vlsm::Builder {
    Db::builder(FOLDER).env(env(disk)).configure(|options| {
        options.workers = 1;
        options.io_threads = 1;
        options.log = false;
        options.bits_per_key = 0;
        options.wal_file_bytes = ByteCount::mib(1);
        options.manifest_bytes = ByteCount::kib(256);
        let policy = &mut options.policy;
        (policy.shape, policy.admission) = ("tiered_l0".into(), "open".into());
        policy.tree.memtable_bytes = ByteCount::kib(4);
        policy.tree.l1_bytes = ByteCount::mib(64);
        policy.shapes.tiered_l0.intra_l0 = false;
        policy.tree.l0_trigger = 1 << 15;
        (policy.tree.l0_max, policy.tree.l0_slowdown, policy.tree.l0_stop) =
            (1 << 16, 1 << 16, 1 << 16);
        (policy.tree.debt_soft, policy.tree.debt_hard) = (None, None);
    })
}

fn runs(db: &Db) -> u64 {
    db.stats().levels.first().map_or(0, |level| level.runs)
}

/// As many runs of L0 as a profile allows come to lie there while compaction is behind, and one job
/// merges them all.
#[test]
fn thousands_of_runs_are_read_again_and_merged() {
    const RUNS: u32 = 4_200;
    let disk = SimFs::new();
    let db = tall(&disk).open().unwrap();
    for n in 0..RUNS {
        db.put((n % 1_000).to_be_bytes(), n.to_be_bytes()).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(runs(&db), u64::from(RUNS));
    let check = |db: &Db| {
        for key in 0..1_000_u32 {
            let last = (0..RUNS).rev().find(|n| n % 1_000 == key).unwrap();
            assert_eq!(db.get(key.to_be_bytes()).unwrap().unwrap()[..], last.to_be_bytes());
        }
        assert_eq!(db.iter().count(), 1_000);
    };
    check(&db);
    db.close().unwrap();
    let db = tall(&disk).open().unwrap();
    assert_eq!(runs(&db), u64::from(RUNS));
    check(&db);
    db.close().unwrap();
    // Under usual options L0 is far beyond its bounds: it is merged, in one edit.
    let usual = |builder: vlsm::Builder| {
        builder.configure(|options| {
            options.policy.tree.l0_trigger = 4;
            (options.policy.tree.l0_slowdown, options.policy.tree.l0_stop) = (20, 36);
        })
    };
    let db = usual(tall(&disk)).open().unwrap();
    db.wait_idle().unwrap();
    assert!(runs(&db) < 4, "{}", runs(&db));
    check(&db);
    db.close().unwrap();
    let db = tall(&disk).open().unwrap();
    check(&db);
    db.close().unwrap();
}

#[test]
fn ten_thousand_keyspaces_are_read_again() {
    const COUNT: usize = 10_000;
    let disk = SimFs::new();
    let open = || {
        let small = |options: &mut vlsm::Options| {
            options.workers = 1;
            options.io_threads = 1;
            options.log = false;
            options.manifest_bytes = ByteCount::kib(256);
        };
        Db::builder(FOLDER).env(env(&disk)).configure(small).open()
    };
    let name = |n: usize| format!("keyspace-{n}");
    let db = open().unwrap();
    for n in 0..COUNT {
        let keyspace = db.create_keyspace(&name(n), KeyspaceOptions::new()).unwrap();
        keyspace.put("key", name(n)).unwrap();
    }
    let check = |db: &Db| {
        assert_eq!(db.keyspaces().len(), COUNT + 1);
        for n in 0..COUNT {
            let found = db.keyspace(&name(n)).unwrap().get("key").unwrap();
            assert_eq!(found.as_deref(), Some(name(n).as_bytes()));
        }
    };
    check(&db);
    db.close().unwrap();
    let db = open().unwrap();
    check(&db);
    db.close().unwrap();
    let report = vlsm::verify_with(&env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
    assert!(!report.damaged, "{:?}", report.findings);
}

/// A store whose numbers `grow` has set.
fn aged(grow: impl Fn(&mut State)) -> SimFs {
    let disk = SimFs::new();
    let db = plain(&disk, false).unwrap();
    db.put("old", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let env = env(&disk);
    let (_, mut state) = Manifest::recover(&env, Path::new(FOLDER)).unwrap();
    grow(&mut state);
    let gone = |path: &PathBuf| !path.to_string_lossy().ends_with(".sst");
    disk.files().into_keys().filter(gone).for_each(|path| disk.remove(&path).unwrap());
    (state.wals, state.numbers.min_wal) = (Vec::new(), 0);
    Manifest::begin(&env, Path::new(FOLDER), &state).unwrap();
    disk
}

fn plain(disk: &SimFs, read_only: bool) -> Result<Db, Error> {
    let log = |options: &mut vlsm::Options| options.log = false;
    Db::builder(FOLDER).env(env(disk)).configure(log).read_only(read_only).open()
}

fn contents(disk: &SimFs) -> Vec<(PathBuf, Vec<u8>)> {
    let content = |path: PathBuf| (path.clone(), disk.content(&path).unwrap());
    disk.files().into_keys().map(content).collect()
}

/// A kind of number, and the change that brings it near its end.
type Age<'a> = (&'a str, &'a dyn Fn(&mut State));

/// A store is opened for writing while more numbers are left than one opening can use. With fewer
/// left it is refused, and can still be read.
#[test]
fn numbers_end_before_they_wrap() {
    const LAST: u64 = 1 << 55;
    let last_seq = Seq(Seq::MAX.0 / 2);
    let ages: [Age<'_>; 3] = [
        ("file numbers", &|state| state.numbers.next_file = LAST),
        ("numbers of runs", &|state| state.numbers.next_run = LAST),
        ("sequence numbers", &|state| state.numbers.last_seq = last_seq),
    ];
    for (what, grow) in ages {
        let disk = aged(grow);
        let db = plain(&disk, false).unwrap_or_else(|error| panic!("{what}: {error}"));
        db.put("new", "value").unwrap();
        db.flush().unwrap();
        db.put("newer", "value").unwrap();
        db.close().unwrap();
        let before = contents(&disk);
        let refused = plain(&disk, false).unwrap_err();
        assert!(matches!(&refused, Error::UsedUp { what: told, .. } if *told == what), "{refused}");
        assert!(contents(&disk) == before, "{what}: a refused opening changes nothing");
        let db = plain(&disk, true).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(db.iter().map(Result::unwrap).count(), 3, "{what}");
        db.close().unwrap();
        let report = vlsm::verify_with(&env(&disk), Path::new(FOLDER), &mut |_| {}).unwrap();
        assert!(!report.damaged, "{what}: {:?}", report.findings);
    }
}

/// A keyspace for which there is no tree number left is refused, and nothing of it stays.
#[test]
fn trees_end_before_their_numbers() {
    let disk = aged(|state| state.numbers.next_tree = (1 << 40) - 2);
    let db = plain(&disk, false).unwrap();
    let make = |name: &str, splits: &[&'static str]| {
        db.create_keyspace(name, KeyspaceOptions::splits(splits.to_vec())).map(drop)
    };
    make("first", &[]).unwrap();
    for (name, splits) in [("two", &["a"][..]), ("three", &["a", "b"])] {
        let refused = make(name, splits).unwrap_err();
        assert!(refused.to_string().contains("no further tree"), "{refused}");
    }
    make("last", &[]).unwrap();
    assert!(make("more", &[]).is_err());
    db.keyspace("last").unwrap().put("key", "value").unwrap();
    db.close().unwrap();
    let db = plain(&disk, false).unwrap();
    assert_eq!(db.keyspaces().len(), 3);
    assert!(db.keyspace("last").unwrap().get("key").unwrap().is_some());
    db.close().unwrap();
}
