//! A reader beside a live writer: it sees an exact prefix of the writer's batches, never disturbs
//! the writer, and keeps what it shows although the writer removes the files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod ring;
mod tiny;

use ring::{check, check_pairs, number, write};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tiny::tiny;
use vlsm::{ByteCount, Db, Error, KeyspaceOptions, Seq};

fn small(path: &Path) -> vlsm::Builder {
    tiny(Db::builder(path), ByteCount::kib(16))
}

/// Every file with its content and the time of its last change. One that the writer removes
/// meanwhile is none.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let facts = |path: PathBuf| {
        let changed = fs::metadata(&path).and_then(|facts| facts.modified()).ok()?;
        Some((path.clone(), (fs::read(&path).ok()?, changed)))
    };
    entries.filter_map(facts).collect()
}

#[test]
fn it_opens_beside_a_writer_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    assert!(matches!(Db::open_read_only(&path), Err(Error::Missing { .. })));
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    assert!(matches!(Db::open_read_only(&path), Err(Error::Missing { .. })));
    let db = small(&path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (1..=1_000).for_each(|n| write(&db, &other, n));
    let reader = small(&path).follow(true).open().unwrap();
    assert_eq!(check(&reader), 1_000);
    let seq = reader.catch_up().unwrap();
    assert_eq!(check(&reader), 1_000);
    assert_eq!(reader.catch_up().unwrap(), seq);
    let refusals = [
        reader.put("a", "b"),
        reader.delete("counter"),
        reader.flush(),
        reader.wait_idle(),
        reader.create_keyspace("more", KeyspaceOptions::new()).map(drop),
    ];
    for refused in refusals {
        assert!(matches!(refused, Err(Error::OpenedReadOnly)), "{refused:?}");
    }
    // A writer sees its own writes, and is told so.
    let error = db.catch_up().unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    db.close().unwrap();
    // Now that the writer rests, every change would be the reader's.
    let before = everything(&path);
    reader.catch_up().unwrap();
    assert_eq!(check(&reader), 1_000);
    reader.close().unwrap();
    assert_eq!(check(&small(&path).follow(true).open().unwrap()), 1_000);
    assert_eq!(everything(&path), before);
}

#[test]
fn what_it_shows_stays_until_it_catches_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (1..=700).for_each(|n| write(&db, &other, n));
    let reader = small(&path).follow(true).open().unwrap();
    let (old, mut half) = (reader.snapshot(), reader.iter());
    let mut pairs: Vec<_> = half.by_ref().take(100).collect();
    let ssts = |path: &Path| -> Vec<PathBuf> {
        everything(path).into_keys().filter(|p| p.extension().is_some_and(|e| e == "sst")).collect()
    };
    db.flush().unwrap();
    let then = ssts(&path);
    (701..=3_000).for_each(|n| write(&db, &other, n));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(then.iter().any(|sst| !sst.exists()), "no file was removed");
    assert_eq!(check(&reader), 700);
    let more = db.create_keyspace("more", KeyspaceOptions::new()).unwrap();
    more.put("a", "1").unwrap();
    assert!(matches!(reader.keyspace("more"), Err(Error::NoSuchKeyspace(_))));
    let first = reader.catch_up().unwrap();
    assert_eq!(check(&reader), 3_000);
    assert_eq!(reader.keyspace("more").unwrap().get("a").unwrap().unwrap(), "1");
    // Those that began before show the state before.
    pairs.extend(half);
    assert_eq!(check_pairs(pairs.into_iter()), 700);
    assert_eq!(check_pairs(old.iter(&reader.default_keyspace())), 700);
    assert_eq!(number(&old.get(&reader.default_keyspace(), "counter").unwrap().unwrap()), 700);
    drop(old);
    write(&db, &other, 3_001);
    assert!(reader.catch_up().unwrap() > first);
    assert_eq!(check(&reader), 3_001);
    // The writer closes and another one opens: the reader does not stand in its way.
    db.close().unwrap();
    assert_eq!(check(&reader), 3_001);
    let db = small(&path).open().unwrap();
    write(&db, &db.keyspace("other").unwrap(), 3_002);
    reader.catch_up().unwrap();
    assert_eq!(check(&reader), 3_002);
    db.close().unwrap();
}

#[test]
fn it_catches_up_two_hundred_times_with_a_busy_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::splits(["ring0100"])).unwrap();
    let reader = small(&path).follow(true).open().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, done) = (&db, &done);
        let written = scope.spawn(move || {
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                write(db, &other, n);
            }
            n
        });
        let (mut last, mut seq, mut rounds) = (0, Seq::ZERO, 0);
        // Two hundred, and until the writer had enough of the processor to show it something.
        while !written.is_finished() && (rounds < 200 || last == 0 || db.stats().installs <= 10) {
            rounds += 1;
            let now = reader.catch_up().unwrap();
            assert!(now >= seq);
            seq = now;
            let shown = check(&reader);
            assert!(shown >= last, "{shown} after {last}");
            last = shown;
        }
        done.store(true, Ordering::Relaxed);
        let written = written.join().unwrap();
        reader.catch_up().unwrap();
        assert_eq!(check(&reader), written);
    });
}

#[test]
fn memory_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // What is written here stays in one memtable.
    let large = tiny(Db::builder(&path), ByteCount::mib(64));
    let db = large.configure(|options| options.memory_limit = ByteCount::mib(1024)).open().unwrap();
    db.put("apple", "green").unwrap();
    let limited = |builder: vlsm::Builder| {
        let builder = builder.configure(|options| options.memory_limit = ByteCount::mib(16));
        builder.follow(true).open()
    };
    let reader = limited(small(&path)).unwrap();
    for n in 0..24_u32 {
        db.put(format!("key{n}"), vec![n as u8; 1 << 20]).unwrap();
    }
    for refused in [reader.catch_up().map(drop), limited(small(&path)).map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::CannotFollow { .. }), "{error:?}");
        assert!(error.to_string().contains("memory_limit"), "{error}");
    }
    assert_eq!(reader.get("apple").unwrap().unwrap(), "green");
    assert_eq!(reader.get("key1").unwrap(), None);
    db.flush().unwrap();
    reader.catch_up().unwrap();
    assert_eq!(reader.get("key1").unwrap().unwrap(), vec![1; 1 << 20]);
    db.close().unwrap();
}

#[test]
fn real_damage_and_another_store_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (1..=1_000).for_each(|n| write(&db, &other, n));
    db.close().unwrap();
    let reader = Db::open_read_only(&path).unwrap();
    let sst = everything(&path).into_keys().find(|p| p.extension().is_some_and(|e| e == "sst"));
    fs::rename(sst.as_ref().unwrap(), folder.path().join("away")).unwrap();
    let error = Db::open_read_only(&path).unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error:?}");
    assert!(error.to_string().contains("missing"), "{error}");
    assert_eq!(check(&reader), 1_000);
    fs::remove_dir_all(&path).unwrap();
    small(&path).open().unwrap().close().unwrap();
    let error = reader.catch_up().unwrap_err();
    assert!(matches!(error, Error::CannotFollow { .. }), "{error:?}");
    assert_eq!(check(&reader), 1_000);
    let salvage = Db::builder(&path).follow(true).configure(|options| options.salvage_wal = true);
    assert!(matches!(salvage.open(), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_copy_and_a_check_beside_a_busy_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (1..=500).for_each(|n| write(&db, &other, n));
    let reader = small(&path).follow(true).open().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (db, done) = (&db, &done);
        let written = scope.spawn(move || {
            let mut n = 500;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                write(db, &other, n);
            }
        });
        let mut last = 0;
        for round in 0..10 {
            let target = folder.path().join(format!("copy{round}"));
            let report = reader.checkpoint(&target).unwrap();
            assert!(report.ssts > 0 && report.wals == 1, "{report:?}");
            let found = vlsm::verify(&target).unwrap();
            assert!(found.findings.is_empty(), "{:?}", found.findings);
            let copy = small(&target).open().unwrap();
            let shown = check(&copy);
            assert!(shown >= last.max(500), "{shown} after {last}");
            last = shown;
            // It is a store of its own.
            write(&copy, &copy.keyspace("other").unwrap(), shown + 1);
            assert_eq!(check(&copy), shown + 1);
            copy.close().unwrap();
            let found = reader.verify(&mut |_| {}).unwrap();
            assert!(found.findings.is_empty(), "{:?}", found.findings);
            assert!(found.ssts > 0 && found.entries > 0, "{found:?}");
            // Neither of the two catches up.
            assert_eq!(check(&reader), 500);
        }
        let error = reader.checkpoint(folder.path().join("copy1")).unwrap_err();
        assert!(matches!(error, Error::AlreadyExists { .. }), "{error:?}");
        done.store(true, Ordering::Relaxed);
        written.join().unwrap();
        assert!(last > 500);
    });
    let error = db.verify(&mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
}

#[test]
fn a_check_beside_a_writer_finds_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (1..=500).for_each(|n| write(&db, &other, n));
    db.flush().unwrap();
    // A file that stays: no job of the writer is under way.
    db.close().unwrap();
    let sst = everything(&path).into_keys().find(|p| p.extension().is_some_and(|e| e == "sst"));
    let sst = sst.unwrap();
    let mut bytes = fs::read(&sst).unwrap();
    bytes[100] ^= 1;
    fs::write(&sst, bytes).unwrap();
    let reader = small(&path).follow(true).open().unwrap();
    let found = reader.verify(&mut |_| {}).unwrap();
    assert!(found.damaged && found.findings.iter().all(|finding| finding.path == sst), "{found:?}");
}

#[test]
fn keyspaces_that_the_writer_clears_and_drops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    (1..=300).for_each(|n| write(&db, &other, n));
    let reader = small(&path).follow(true).open().unwrap();
    let (default, old) = (reader.default_keyspace(), reader.keyspace("other").unwrap());
    let (before, half) = (reader.snapshot(), old.iter());
    other.clear().unwrap();
    assert_eq!(check(&reader), 300);
    reader.catch_up().unwrap();
    assert_eq!((old.iter().count(), old.get("counter").unwrap()), (0, None));
    assert_eq!(number(&reader.get("counter").unwrap().unwrap()), 300);
    // Readers that began before see it still.
    assert_eq!(check_pairs(before.iter(&old)), 300);
    assert_eq!(check_pairs(half), 300);
    reader.catch_up().unwrap();
    other.put("a", "1").unwrap();
    reader.catch_up().unwrap();
    assert_eq!(old.get("a").unwrap().unwrap(), "1");
    assert_eq!(before.get(&old, "a").unwrap(), None);
    db.drop_keyspace(&other).unwrap();
    reader.catch_up().unwrap();
    let error = old.get("a").unwrap_err();
    assert!(matches!(error, Error::KeyspaceDropped(_)), "{error:?}");
    assert!(matches!(reader.keyspace("other"), Err(Error::NoSuchKeyspace(_))));
    assert_eq!(check_pairs(before.iter(&default)), 300);
    let again = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    again.put("b", "2").unwrap();
    reader.catch_up().unwrap();
    assert_eq!(reader.keyspace("other").unwrap().get("b").unwrap().unwrap(), "2");
    db.close().unwrap();
}

#[test]
fn keyspaces_that_the_writer_renames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = small(&path).open().unwrap();
    let draft = db.create_keyspace("draft", KeyspaceOptions::new()).unwrap();
    draft.put("a", "1").unwrap();
    let reader = small(&path).follow(true).open().unwrap();
    let (seen, before) = (reader.keyspace("draft").unwrap(), reader.snapshot());
    draft.rename("book").unwrap();
    draft.put("a", "2").unwrap();
    // The old name is free for another one.
    let again = db.create_keyspace("draft", KeyspaceOptions::new()).unwrap();
    again.put("a", "3").unwrap();
    assert_eq!((seen.name(), seen.get("a").unwrap().unwrap()), ("draft".into(), "1".into()));
    reader.catch_up().unwrap();
    // Its handles follow, as in the process that writes.
    assert_eq!((seen.name(), seen.get("a").unwrap().unwrap()), ("book".into(), "2".into()));
    assert_eq!(reader.keyspace("book").unwrap().get("a").unwrap().unwrap(), "2");
    let draft_now = reader.keyspace("draft").unwrap();
    assert_eq!(draft_now.get("a").unwrap().unwrap(), "3");
    assert_eq!(before.get(&seen, "a").unwrap().unwrap(), "1");
    // The two exchange their names between two looks.
    again.rename("other").unwrap();
    draft.rename("draft").unwrap();
    again.rename("book").unwrap();
    draft.set_options(draft.options().bits_per_key(3)).unwrap();
    reader.catch_up().unwrap();
    assert_eq!((seen.name(), draft_now.name()), ("draft".into(), "book".into()));
    assert_eq!(seen.get("a").unwrap().unwrap(), "2");
    assert_eq!(draft_now.get("a").unwrap().unwrap(), "3");
    assert_eq!(seen.options().bits_per_key, Some(3));
    again.clear().unwrap();
    draft.rename("tale").unwrap();
    reader.catch_up().unwrap();
    assert_eq!((seen.name(), draft_now.name()), ("tale".into(), "book".into()));
    assert!(draft_now.is_empty().unwrap());
    // A cleared keyspace is known by its name: one that was renamed as well has to be opened again.
    draft.clear().unwrap();
    draft.rename("draft").unwrap();
    reader.catch_up().unwrap();
    assert!(matches!(seen.get("a"), Err(Error::KeyspaceDropped(_))));
    assert!(reader.keyspace("draft").unwrap().is_empty().unwrap());
    assert_eq!(before.get(&seen, "a").unwrap().unwrap(), "1");
    let mut names = reader.keyspaces();
    names.sort();
    assert_eq!(names, ["book", "default", "draft"]);
    db.close().unwrap();
}
