//! A store that is opened read-only sees everything, changes nothing, and keeps writers away.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod tiny;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tiny::tiny;
use vlsm::{ByteCount, Db, Error, KeyspaceOptions};

fn small(path: &Path) -> vlsm::Builder {
    tiny(Db::builder(path), ByteCount::kib(64))
}

/// Every file with its content and the time of its last change.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let facts = |path: PathBuf| {
        let changed = fs::metadata(&path).unwrap().modified().unwrap();
        (path.clone(), (fs::read(&path).unwrap(), changed))
    };
    entries.map(facts).collect()
}

/// A store as a killed process leaves it: tables, a WAL with more, files that the manifest does not
/// name.
fn left_behind(folder: &Path) -> PathBuf {
    let (path, copy) = (folder.join("store"), folder.join("copy"));
    let db = small(&path).open().unwrap();
    let users = db.create_keyspace("users", KeyspaceOptions::splits(["m"])).unwrap();
    for n in 0..5_000_u32 {
        db.put(format!("key{n:05}"), format!("value{n}").repeat(10)).unwrap();
    }
    db.wait_idle().unwrap();
    users.put("ada", "1815").unwrap();
    users.put("zuse", "1910").unwrap();
    db.sync().unwrap();
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        // What a background thread removes or renames meanwhile is no part of the store.
        let _ = fs::copy(&file, copy.join(file.file_name().unwrap()));
    }
    fs::write(copy.join("999999.sst"), "left by a job").unwrap();
    copy
}

fn check(db: &Db) {
    assert_eq!(db.iter().count(), 5_000);
    assert_eq!(db.iter().rev().count(), 5_000);
    assert_eq!(db.get("key00042").unwrap().unwrap(), "value42".repeat(10));
    let users: Vec<_> = db.keyspace("users").unwrap().iter().map(|p| p.unwrap().0).collect();
    assert_eq!(users, ["ada", "zuse"]);
}

#[test]
fn it_sees_everything_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = left_behind(folder.path());
    // The end of the manifest was torn by the crash, too.
    let manifest = everything(&path).into_keys().find(|p| p.to_string_lossy().contains("MANIF"));
    let mut torn = fs::read(manifest.as_ref().unwrap()).unwrap();
    torn.extend([7; 11]);
    fs::write(manifest.unwrap(), torn).unwrap();
    let before = everything(&path);
    let db = small(&path).read_only(true).open().unwrap();
    check(&db);
    let users = db.keyspace("users").unwrap();
    let refusals = [
        db.put("a", "b"),
        db.delete("key00042"),
        users.put("a", "b"),
        db.flush(),
        db.wait_idle(),
        db.create_keyspace("more", KeyspaceOptions::new()).map(drop),
    ];
    for refused in refusals {
        assert!(matches!(refused, Err(Error::OpenedReadOnly)), "{refused:?}");
    }
    check(&db);
    assert_eq!(db.stats().installs, 0);
    db.close().unwrap();
    assert_eq!(everything(&path), before);
    // Opened for writing it is the same store, and its leftovers go.
    let db = small(&path).open().unwrap();
    check(&db);
    db.put("more", "1").unwrap();
    db.close().unwrap();
    assert!(!path.join("999999.sst").exists());
}

#[test]
fn a_folder_without_the_right_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = left_behind(folder.path());
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    for file in everything(&path).into_keys() {
        fs::set_permissions(file, fs::Permissions::from_mode(0o400)).unwrap();
    }
    mode(0o500);
    check(&small(&path).read_only(true).open().unwrap());
    // A checkpoint on a medium that was never opened has no LOCK.
    mode(0o700);
    fs::remove_file(path.join("LOCK")).unwrap();
    mode(0o500);
    check(&small(&path).read_only(true).open().unwrap());
    mode(0o700);
    assert!(!path.join("LOCK").exists());
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let read = || Db::builder(&path).read_only(true).open();
    assert!(matches!(read(), Err(Error::Missing { .. })));
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    assert!(matches!(read(), Err(Error::Missing { .. })));
    fs::write(path.join("letter.txt"), "dear").unwrap();
    assert!(matches!(read(), Err(Error::NotAStore { .. })));
    fs::remove_file(path.join("letter.txt")).unwrap();
    let db = Db::open(&path).unwrap();
    db.put("a", "1").unwrap();
    assert!(matches!(read(), Err(Error::Locked { .. })));
    db.close().unwrap();
    let (one, two) = (read().unwrap(), read().unwrap());
    assert_eq!(one.get("a").unwrap(), two.get("a").unwrap());
    assert!(matches!(Db::open(&path), Err(Error::Locked { .. })));
    drop(one);
    assert!(matches!(Db::open(&path), Err(Error::Locked { .. })));
    two.close().unwrap();
    Db::open(&path).unwrap().put("b", "2").unwrap();
}

#[test]
fn damage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = left_behind(folder.path());
    let sst = everything(&path).into_keys().find(|p| p.extension().is_some_and(|e| e == "sst"));
    fs::remove_file(sst.unwrap()).unwrap();
    let opened = small(&path).read_only(true).open();
    assert!(matches!(opened, Err(Error::Corruption { .. })), "{opened:?}");
}
