//! Many short lives of a store: what they leave on the disk, and what is said when a part of it is
//! gone.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use vlsm::{Batch, Db, Durability, Error, KeyspaceOptions, WriteOptions};

/// The store's files that have this ending, with their lengths, by name.
fn files(path: &Path, end: &str) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().unwrap().ends_with(end))
        .map(|entry| (entry.path(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

/// A life that a kill ends: in a process of its own, because a process holds a store's lock until
/// its end.
fn killed(path: &Path, key: &str) {
    let test = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(test);
    child.env("SHORT_LIFE", path).env("SHORT_LIFE_KEY", key);
    let status = child.args(["child", "--exact"]).output().unwrap().status;
    assert!(!status.success(), "it aborts");
}

/// The child process of [`killed`], not a test of its own.
#[test]
fn child() {
    let Some(path) = std::env::var_os("SHORT_LIFE") else { return };
    let db = Db::open(path).unwrap();
    db.put(std::env::var("SHORT_LIFE_KEY").unwrap(), "v").unwrap();
    std::process::abort();
}

#[test]
fn any_number_of_lives_leaves_one_wal_as_long_as_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for life in 0..60_u32 {
        let db = Db::open(&path).unwrap();
        let wals = files(&path, ".wal");
        assert!(wals.len() <= 2, "life {life} begins with {wals:?}");
        assert_eq!(db.iter().count(), life as usize);
        db.put(format!("k{life}"), "v").unwrap();
        db.close().unwrap();
        let wals = files(&path, ".wal");
        let records = 64 * u64::from(life + 1) + 64;
        assert_eq!(wals.len(), 1, "life {life} leaves {wals:?}");
        assert!(wals[0].1 <= 4096 + records, "life {life} leaves {wals:?}");
    }
    let all = files(&path, "");
    assert!(all.len() <= 6 + files(&path, ".sst").len(), "{all:?}");
    assert!(all.iter().map(|(_, len)| len).sum::<u64>() < 100_000, "{all:?}");
    // What is in tables is not taken over any more.
    let db = Db::open(&path).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    Db::open(&path).unwrap().close().unwrap();
    let wals = files(&path, ".wal");
    assert!(wals.len() == 1 && wals[0].1 <= 4096 + 64, "{wals:?}");
}

#[test]
fn lives_that_end_by_a_kill_leave_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for life in 0..12 {
        killed(&path, &format!("k{life:02}"));
        let wals = files(&path, ".wal");
        assert!(wals.len() <= 2, "life {life} leaves {wals:?}");
    }
    let db = Db::open(&path).unwrap();
    assert_eq!(db.iter().count(), 12);
    db.close().unwrap();
    assert_eq!(files(&path, ".wal").len(), 1);
}

#[test]
fn one_keyspace_that_is_never_flushed_holds_only_its_own_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || {
        Db::builder(&path)
            .configure(|options| {
                options.policy.tree.memtable_bytes = vlsm::ByteCount::kib(256);
                options.wal_file_bytes = vlsm::ByteCount::kib(256);
            })
            .open()
            .unwrap()
    };
    for life in 0..8_u32 {
        let db = open();
        let quiet = db.create_keyspace("quiet", KeyspaceOptions::default()).unwrap();
        quiet.put(format!("k{life}"), "v").unwrap();
        for n in 0..2_000_u32 {
            db.put((life * 2_000 + n).to_be_bytes(), [7; 500]).unwrap();
        }
        db.close().unwrap();
    }
    let db = open();
    assert_eq!(db.keyspace("quiet").unwrap().iter().count(), 8);
    assert_eq!(db.iter().count(), 16_000);
    db.wait_idle().unwrap();
    db.close().unwrap();
    let bytes: u64 = files(&path, ".wal").iter().map(|(_, len)| len).sum();
    // 8 MB were written; two memtables and what shares a batch with the quiet keys is left.
    assert!(bytes < 1 << 20, "{bytes} bytes of WAL");
}

#[test]
fn batches_are_taken_over_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let value = |n: u8, len: usize| vec![n; len];
    let db = Db::open(&path).unwrap();
    let second = db.create_keyspace("second", KeyspaceOptions::default()).unwrap();
    let mut large = Batch::new();
    large.put(&db.default_keyspace(), "large", value(1, 700_000));
    large.put(&second, "large", value(2, 400_000));
    db.write(&large, WriteOptions::durability(Durability::Sync)).unwrap();
    db.put("gone", "x").unwrap();
    db.delete("gone").unwrap();
    db.delete_range("la".."lb").unwrap();
    let mut small = Batch::new();
    small.put(&db.default_keyspace(), "small", "s");
    small.put(&second, "small", "s");
    db.write(&small, WriteOptions::default()).unwrap();
    drop((second, db));
    for life in 0..4 {
        let db = Db::open(&path).unwrap();
        let second = db.keyspace("second").unwrap();
        assert_eq!(db.get("large").unwrap(), None, "life {life}");
        assert_eq!(second.get("large").unwrap().unwrap(), value(2, 400_000), "life {life}");
        assert_eq!(second.get("small").unwrap().unwrap(), "s", "life {life}");
        let keys: Vec<_> = db.iter().map(|pair| pair.unwrap().0).collect();
        assert_eq!(keys, ["small"], "life {life}");
    }
    assert!(!vlsm::verify(&path).unwrap().damaged);
}

/// A store of five lives, each closed in order, with nothing flushed in the last two.
fn five_lives(path: &Path) {
    for life in 0..5 {
        let db = Db::open(path).unwrap();
        db.put(format!("k{life}"), "v").unwrap();
        if life == 2 {
            db.flush().unwrap();
        }
        db.close().unwrap();
    }
}

/// A store of which one file is missing or empty cannot be opened, and the error names the file,
/// unless it is one without data: `LOCK`, `LOG` or `LOG.old`.
#[test]
fn a_file_that_is_gone_or_empty_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    five_lives(&whole);
    let names: Vec<_> = files(&whole, "").into_iter().map(|(path, _)| path).collect();
    let mut refused = 0;
    for (round, name) in names.iter().flat_map(|name| [(false, name), (true, name)]).enumerate() {
        let (empty, name) = name;
        let path = folder.path().join(format!("copy{round}"));
        vlsm_copy(&whole, &path);
        let file = path.join(name.file_name().unwrap());
        if empty {
            std::fs::write(&file, b"").unwrap();
        } else {
            std::fs::remove_file(&file).unwrap();
        }
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let what = format!("{name}, empty {empty}");
        let harmless = matches!(&name[..], "LOCK" | "LOG" | "LOG.old");
        let read = || -> Result<usize, Error> {
            let db = Db::open(&path)?;
            let pairs = db.iter().collect::<Result<Vec<_>, _>>()?;
            db.close().map(|()| pairs.len())
        };
        if !harmless {
            let report = vlsm::verify(&path);
            let told = match &report {
                Ok(report) => {
                    report.findings.iter().map(|f| f.path.display().to_string()).collect()
                }
                Err(error) => error.to_string(),
            };
            assert!(report.is_err() || report.is_ok_and(|report| report.damaged), "{what}");
            let folder_is_named = name == "CURRENT";
            assert!(told.contains(&name) || folder_is_named, "{what}: {told}");
        }
        match read() {
            Ok(pairs) => assert!(harmless && pairs == 5, "{what}: {pairs} pairs"),
            Err(error) => {
                refused += 1;
                let told = error.to_string();
                assert!(!harmless && told.contains(&name), "{what}: {told}");
            }
        }
    }
    assert!(refused >= 8, "{refused}");
}

fn vlsm_copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for (path, _) in files(from, "") {
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn salvage_opens_a_store_without_its_logs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    five_lives(&path);
    files(&path, ".wal").into_iter().for_each(|(path, _)| std::fs::remove_file(path).unwrap());
    assert!(matches!(Db::open(&path), Err(Error::Corruption { .. })));
    let db = Db::builder(&path).configure(|options| options.salvage_wal = true).open().unwrap();
    assert_eq!(db.iter().count(), 3, "what was flushed");
    db.put("k9", "v").unwrap();
    db.close().unwrap();
    assert_eq!(Db::open(&path).unwrap().iter().count(), 4);
}

#[test]
fn the_wal_limit_is_one_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let limit = 4 << 20;
    let open = || {
        Db::builder(&path)
            .configure(|options| {
                options.policy.tree.memtable_bytes = vlsm::ByteCount::mib(1);
                options.wal_file_bytes = vlsm::ByteCount::mib(1);
                options.wal_limit = vlsm::ByteCount(limit);
            })
            .open()
            .unwrap()
    };
    for _ in 0..3 {
        let db = open();
        let quiet = db.create_keyspace("quiet", KeyspaceOptions::default()).unwrap();
        quiet.put("k", "v").unwrap();
        for n in 0..100_000_u32 {
            db.put(n.to_be_bytes(), [1; 400]).unwrap();
        }
        db.wait_idle().unwrap();
        // One that is written, one that is prepared, and old ones kept for reuse besides. Each is
        // longer than usual if the machine was too busy to prepare the next one in time. The 40 MB
        // of this life would all be there if the quiet keyspace held them.
        let bytes: u64 = files(&path, ".wal").iter().map(|(_, len)| len).sum();
        assert!(bytes <= limit + (12 << 20), "{bytes} bytes of WAL");
        db.close().unwrap();
    }
}
