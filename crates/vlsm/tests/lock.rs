//! The error of opening a store that this process holds already, which names the handles that may
//! hold it, and the lock file, which stays empty.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;
use vlsm::{Db, Error};

fn refused(path: &Path) -> String {
    let error = Db::open(path).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn this_process_holds_it_with_a_handle_an_iterator_or_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let here = |text: &str| {
        assert!(text.contains("this process"), "{text}");
        assert!(text.contains("iterator") && text.contains("snapshot"), "{text}");
        assert!(text.contains("close()"), "{text}");
    };
    let db = Db::open(&path).unwrap();
    db.put("apple", "green").unwrap();
    here(&refused(&path));
    let (iter, snapshot, keyspace) = (db.iter(), db.snapshot(), db.default_keyspace());
    drop(db);
    here(&refused(&path));
    drop(iter);
    here(&refused(&path));
    drop(snapshot);
    here(&refused(&path));
    drop(keyspace);
    Db::open(&path).unwrap().close().unwrap();
    let reader = Db::builder(&path).read_only(true).open().unwrap();
    here(&refused(&path));
    reader.close().unwrap();
    // Under another name it is the same store.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let db = Db::open(&path).unwrap();
    here(&refused(&link));
    db.close().unwrap();
    Db::open(&link).unwrap().close().unwrap();
}

#[test]
fn the_lock_file_stays_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    assert_eq!(std::fs::read(path.join("LOCK")).unwrap(), b"");
    db.close().unwrap();
}
