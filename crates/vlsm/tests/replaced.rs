//! Keyspaces that are cleared and dropped: handles, readers, transactions, ingests, files, memory.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vlsm::{
    Batch, Compression, ConflictKind, Db, Error, Keyspace, KeyspaceOptions, SstFileWriter,
    WriteOptions,
};

struct Store {
    db: Db,
    path: PathBuf,
    /// Removed last: a store that is still open would write into it.
    _folder: tempfile::TempDir,
}

fn store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    Store { db, path, _folder: folder }
}

fn fill(keyspace: &Keyspace, keys: u32) {
    for key in 0..keys {
        keyspace.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
}

fn ssts(path: &Path) -> usize {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".sst")).count()
}

/// Waits until it is so.
fn soon(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not in 30 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn dropped<T: std::fmt::Debug>(result: vlsm::Result<T>) {
    match result {
        Err(Error::KeyspaceDropped(name)) => assert_eq!(name, "cache"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_call_of_a_dropped_keyspaces_handle_says_so() {
    let Store { _folder, db, .. } = store();
    let cache = db.create_keyspace("cache", KeyspaceOptions::splits(["m"])).unwrap();
    fill(&cache, 10);
    let mut batch = Batch::new();
    batch.put(&cache, "filled", "before");
    let mut transaction = db.transaction();
    transaction.put(&cache, "also", "before").unwrap();
    db.drop_keyspace(&cache).unwrap();

    assert_eq!((cache.name(), cache.region_count()), ("cache".into(), 2));
    dropped(cache.get("a"));
    dropped(cache.contains_key("a"));
    dropped(cache.multi_get(["a"]).remove(0));
    dropped(cache.put("a", ""));
    dropped(cache.delete("a"));
    dropped(cache.delete_range(..));
    dropped(cache.first());
    dropped(cache.last());
    dropped(cache.is_empty());
    dropped(cache.len());
    dropped(cache.iter().next().unwrap());
    dropped(cache.iter().next_back().unwrap());
    dropped(cache.prefix("a").next().unwrap());
    dropped(cache.salvage().next().unwrap());
    dropped(cache.approximate_size(..));
    dropped(cache.compact_range(..));
    dropped(cache.clear());
    dropped(cache.insert_if_absent("a", ""));
    dropped(db.drop_keyspace(&cache));
    dropped(db.write(&batch, WriteOptions::default()));
    dropped(transaction.commit());
    dropped(db.snapshot().get(&cache, "a"));
    let mut transaction = db.transaction();
    dropped(transaction.get(&cache, "a"));
    dropped(transaction.put(&cache, "a", ""));
    dropped(transaction.iter(&cache).next().unwrap());
    assert!(matches!(db.keyspace("cache"), Err(Error::NoSuchKeyspace(_))));

    // A new one of that name is another one.
    let again = db.create_keyspace("cache", KeyspaceOptions::new()).unwrap();
    assert!(again.is_empty().unwrap());
    dropped(cache.get("a"));
    again.put("a", "new").unwrap();
    db.close().unwrap();
    assert!(matches!(cache.put("a", ""), Err(Error::Closed | Error::KeyspaceDropped(_))));
}

#[test]
fn the_default_keyspace_is_cleared_and_never_dropped() {
    let Store { _folder, db, path } = store();
    db.put("key", "value").unwrap();
    let refused = db.drop_keyspace(&db.default_keyspace()).unwrap_err();
    assert!(matches!(refused, Error::KeyspaceNeeded(_)), "{refused}");
    db.default_keyspace().clear().unwrap();
    assert_eq!(db.get("key").unwrap(), None);
    db.put("other", "value").unwrap();
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.default_keyspace().len().unwrap(), 1);
    let other = store();
    let foreign = other.db.default_keyspace();
    assert!(matches!(db.drop_keyspace(&foreign), Err(Error::InvalidArgument(_))));
}

#[test]
fn the_options_of_a_cleared_keyspace_stay() {
    let Store { _folder, db, path } = store();
    let options = KeyspaceOptions::splits(["g", "p"]).merge_operator("add");
    let sums = db.create_keyspace("sums", options.clone()).unwrap();
    let one = 1_u64.to_le_bytes();
    for round in 0..3 {
        for key in ["a", "h", "z"] {
            sums.merge(key, one).unwrap();
            assert_eq!(sums.get(key).unwrap().as_deref(), Some(&one[..]), "round {round}");
        }
        db.flush().unwrap();
        sums.clear().unwrap();
        assert_eq!(sums.options(), options);
    }
    sums.merge("h", one).unwrap();
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    let sums = db.create_keyspace("sums", options).unwrap();
    assert_eq!(sums.len().unwrap(), 1);
    assert!(
        !vlsm::verify(&{
            db.close().unwrap();
            path
        })
        .unwrap()
        .damaged
    );
}

#[test]
fn readers_from_before_see_what_they_saw() {
    let Store { _folder, db, path } = store();
    let cache = db.create_keyspace("cache", KeyspaceOptions::new()).unwrap();
    fill(&cache, 100);
    db.flush().unwrap();
    cache.put("in memory", "too").unwrap();
    let (first, mut walk) = (db.snapshot(), cache.iter());
    walk.next().unwrap().unwrap();
    cache.clear().unwrap();
    fill(&cache, 7);
    let second = db.snapshot();
    cache.clear().unwrap();
    cache.put("third", "life").unwrap();
    let third = db.snapshot();
    db.drop_keyspace(&cache).unwrap();
    // Walks on old views are taken back, and begin again.
    std::thread::sleep(Duration::from_millis(120));
    db.flush().unwrap();
    assert_eq!(walk.count(), 100);
    let count = |snapshot: &vlsm::Snapshot| snapshot.len(&cache).unwrap();
    assert_eq!([count(&first), count(&second), count(&third)], [101, 7, 1]);
    assert!(first.contains_key(&cache, "in memory").unwrap());
    assert_eq!(second.iter(&cache).rev().count(), 7);
    assert!(ssts(&path) > 0);
    drop((first, second, third));
    soon("the files are removed", || ssts(&path) == 0);
    dropped(db.snapshot().get(&cache, "third"));
}

#[test]
fn memory_and_logs_are_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::builder(&path)
        .configure(|options| {
            options.wal_file_bytes = vlsm::ByteCount::kib(256);
            options.wal_limit = vlsm::ByteCount::mib(17);
        })
        .open()
        .unwrap();
    let cache = db.create_keyspace("cache", KeyspaceOptions::new()).unwrap();
    for _ in 0..60 {
        fill(&cache, 4_000);
        cache.clear().unwrap();
    }
    let wals = || {
        let names = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".wal")).count()
    };
    soon("the logs of cleared data are released", || wals() <= 10);
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert!(db.keyspace("cache").unwrap().is_empty().unwrap());
}

#[test]
fn transactions_meet_a_clear() {
    let Store { _folder, db, .. } = store();
    let cache = db.create_keyspace("cache", KeyspaceOptions::new()).unwrap();
    cache.put("key", "value").unwrap();
    let conflict = |result: vlsm::Result<()>| match result {
        Err(Error::Conflict { keyspace, what }) => {
            assert_eq!((keyspace.as_str(), what), ("cache", ConflictKind::Keyspace));
        }
        other => panic!("{other:?}"),
    };
    // One that read a key, and one that read a range.
    let (mut key, mut range) = (db.transaction(), db.transaction());
    key.get(&cache, "key").unwrap();
    assert_eq!(range.iter(&cache).count(), 1);
    let (mut later, mut blind) = (db.transaction(), db.transaction());
    blind.put(&cache, "blind", "write").unwrap();
    cache.clear().unwrap();
    for transaction in [&mut key, &mut range] {
        transaction.put(&db.default_keyspace(), "seen", "it").unwrap();
    }
    conflict(key.commit());
    conflict(range.commit());
    // It reads what was, and cannot write there.
    assert!(later.contains_key(&cache, "key").unwrap());
    conflict(later.put(&cache, "key", "again"));
    blind.commit().unwrap();
    assert_eq!(cache.len().unwrap(), 1);
    assert!(db.default_keyspace().is_empty().unwrap());
    let mut tries = 0;
    db.transact(|transaction| {
        tries += 1;
        if tries == 1 {
            cache.clear()?;
        }
        transaction.put(&cache, "tries", "two")
    })
    .unwrap();
    assert_eq!((tries, cache.len().unwrap()), (2, 1));
}

#[test]
fn batches_and_ingests_go_to_the_keyspace_as_it_is() {
    let Store { _folder, db, path } = store();
    let cache = db.create_keyspace("cache", KeyspaceOptions::splits(["m"])).unwrap();
    let mut batch = Batch::new();
    batch.put(&cache, "a", "1");
    batch.put(&cache, "z", "1");
    batch.delete_range(&cache, "b".."n");
    cache.put("c", "2").unwrap();
    cache.clear().unwrap();
    db.write(&batch, WriteOptions::default()).unwrap();
    assert_eq!(cache.len().unwrap(), 2);
    let large = vec![1; 400_000];
    let mut batch = Batch::new();
    batch.put(&cache, "large", &large);
    cache.clear().unwrap();
    cache.clear().unwrap();
    db.write(&batch, WriteOptions::default()).unwrap();
    assert_eq!(cache.get("large").unwrap().unwrap(), large);
    let file = path.with_extension("in");
    let mut writer = SstFileWriter::create(&file).unwrap();
    writer.put("b", "ingested").unwrap();
    writer.finish().unwrap();
    cache.clear().unwrap();
    cache.ingest([&file]).unwrap();
    assert_eq!(cache.len().unwrap(), 1);
    db.drop_keyspace(&cache).unwrap();
    dropped(cache.ingest([&file]));
    db.close().unwrap();
    assert!(!vlsm::verify(&path).unwrap().damaged);
}

#[test]
fn clearing_beside_writers_loses_no_later_write() {
    let Store { _folder, db, path } = store();
    let cache = db.create_keyspace("cache", KeyspaceOptions::new()).unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::new()).unwrap();
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let (cache, other, ended) = (&cache, &other, &ended);
            scope.spawn(move || {
                for n in 0_u32.. {
                    if ended.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    let key = [thread.to_be_bytes(), n.to_be_bytes()].concat();
                    cache.put(&key, [1; 300]).unwrap();
                    other.put(thread.to_be_bytes(), n.to_be_bytes()).unwrap();
                    let before = cache.get(&key).unwrap();
                    assert!(before.is_none_or(|value| value == [1; 300][..]));
                }
            });
        }
        for _ in 0..100 {
            cache.clear().unwrap();
            if cache.len().unwrap() > 500 {
                db.flush().unwrap();
            }
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let left = cache.len().unwrap();
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.keyspace("cache").unwrap().len().unwrap(), left);
    assert_eq!(db.keyspace("other").unwrap().len().unwrap(), 3);
}

#[test]
fn a_renamed_keyspace_keeps_its_handles_and_data() {
    let Store { _folder, db, path } = store();
    let sums = db.create_keyspace("draft", KeyspaceOptions::new().merge_operator("add")).unwrap();
    let (other, one) = (sums.clone(), 1_u64.to_le_bytes());
    sums.merge("a", one).unwrap();
    db.flush().unwrap();
    sums.merge("a", one).unwrap();
    db.create_keyspace("taken", KeyspaceOptions::new()).unwrap();
    let mut batch = Batch::new();
    batch.merge(&sums, "a", one);
    assert!(matches!(sums.rename("taken"), Err(Error::NameTaken(name)) if name == "taken"));
    assert!(matches!(sums.rename("default"), Err(Error::NameTaken(_))));
    assert!(matches!(sums.rename(""), Err(Error::InvalidArgument(_))));
    let default = db.default_keyspace();
    assert!(matches!(default.rename("x"), Err(Error::KeyspaceNeeded(_))));
    sums.rename("draft").unwrap();
    sums.rename("book").unwrap();
    db.write(&batch, WriteOptions::default()).unwrap();
    assert_eq!((other.name(), db.keyspaces()[1].as_str()), ("book".into(), "book"));
    let refused = other.merge("a", "short").unwrap_err().to_string();
    assert!(refused.contains("\"book\""), "{refused}");
    let fresh = db.create_keyspace("draft", KeyspaceOptions::new()).unwrap();
    assert!(fresh.is_empty().unwrap());
    sums.clear().unwrap();
    sums.merge("a", one).unwrap();
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.keyspace("book").unwrap().get("a").unwrap().as_deref(), Some(&one[..]));
    assert!(db.keyspace("draft").unwrap().is_empty().unwrap());
}

#[test]
fn options_that_can_change_do_and_last() {
    let Store { _folder, db, path } = store();
    let options = KeyspaceOptions::splits(["m"]).compression([Compression::None]);
    let pages = db.create_keyspace("pages", options).unwrap();
    let fill = |round: u32| {
        for key in 0..2_000_u32 {
            pages.put(key.to_be_bytes(), format!("{round} {}", "words ".repeat(30))).unwrap();
        }
        db.flush().unwrap();
        pages.compact_range(..).unwrap();
        pages.approximate_size(..).unwrap().bytes.0
    };
    let plain = fill(1);
    let own = || {
        pages
            .options()
            .compression([Compression::Lz4])
            .block_bytes(vlsm::ByteCount::kib(16))
            .bits_per_key(4)
            .memtable_bytes(vlsm::ByteCount::kib(64))
            .ttl(Duration::from_secs(3600))
    };
    pages.set_options(own()).unwrap();
    let small = fill(2);
    assert!(small * 2 < plain, "compressed {small}, before {plain}");
    let fixed = |options| match pages.set_options(options).unwrap_err() {
        Error::OptionFixed { keyspace, differences } => {
            assert_eq!((keyspace.as_str(), differences.len()), ("pages", 1));
            differences[0].option
        }
        other => panic!("{other:?}"),
    };
    let mut others = own();
    others.splits = vec!["other".into()];
    assert_eq!(fixed(others), "splits");
    let mut others = pages.options().merge_operator("add");
    others.ttl = None;
    assert_eq!(fixed(others), "merge_operator");
    let impossible = [
        pages.options().bits_per_key(999),
        pages.options().block_bytes(vlsm::ByteCount(1)),
        pages.options().compression([]),
        pages.options().memtable_bytes(vlsm::ByteCount(1)),
    ];
    for options in impossible {
        let refused = pages.set_options(options).unwrap_err();
        assert!(matches!(refused, Error::InvalidOption { .. }), "{refused}");
    }
    let asked = own();
    db.close().unwrap();
    assert!(matches!(pages.set_options(asked.clone()), Err(Error::Closed)));
    let db = Db::open(&path).unwrap();
    assert_eq!(db.create_keyspace("pages", asked.clone()).unwrap().options(), asked);
    let differs = db.create_keyspace("pages", asked.bits_per_key(5)).unwrap_err().to_string();
    assert!(differs.contains("bits_per_key is 4, but 5"), "{differs}");
}

#[test]
fn a_small_memtable_flushes_early() {
    let Store { _folder, db, path } = store();
    let options = KeyspaceOptions::new().memtable_bytes(vlsm::ByteCount::kib(64));
    fill(&db.create_keyspace("log", options).unwrap(), 3_000);
    soon("a flush of the small memtables", || ssts(&path) > 0);
}

#[test]
fn memtables_of_a_keyspace_are_no_larger_than_those_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let large = || KeyspaceOptions::new().memtable_bytes(vlsm::ByteCount::mib(2));
    let open = |mib| {
        let memtable = vlsm::ByteCount::mib(mib);
        Db::builder(&path).configure(|options| options.policy.tree.memtable_bytes = memtable)
    };
    let refused = |told: vlsm::Error| {
        assert!(matches!(told, Error::InvalidOption { option: "memtable_bytes", .. }), "{told:?}");
        assert!(told.to_string().contains("policy.tree.memtable_bytes"), "{told}");
    };
    refused(open(1).default_keyspace(large()).open().unwrap_err());
    let db = open(1).open().unwrap();
    refused(db.create_keyspace("pages", large()).unwrap_err());
    let pages = db.create_keyspace("pages", KeyspaceOptions::new()).unwrap();
    refused(pages.set_options(large()).unwrap_err());
    assert_eq!((pages.options(), db.keyspaces().len()), (KeyspaceOptions::new(), 2));
    db.close().unwrap();
    // A store that is opened with smaller memtables than before takes what it has.
    let db = open(4).open().unwrap();
    db.keyspace("pages").unwrap().set_options(large()).unwrap();
    db.close().unwrap();
    let db = open(1).open().unwrap();
    let pages = db.create_keyspace("pages", large()).unwrap();
    pages.set_options(large().ttl(std::time::Duration::from_secs(60))).unwrap();
    pages.put("a", "1").unwrap();
    db.close().unwrap();
}

#[test]
fn files_to_ingest_are_made_with_the_options_of_the_keyspace() {
    let folder = tempfile::tempdir().unwrap();
    let plain = |options: &mut vlsm::Options| options.compression = vec![vlsm::Compression::None];
    let db = Db::builder(folder.path().join("store")).configure(plain).open().unwrap();
    let options = KeyspaceOptions::new().compression([vlsm::Compression::Lz4]).bits_per_key(0);
    let pages = db.create_keyspace("pages", options).unwrap();
    let fill = |mut writer: vlsm::SstFileWriter| {
        for n in 0..2_000 {
            writer.put(format!("k{n:05}"), "text ".repeat(40)).unwrap();
        }
        writer.finish().unwrap()
    };
    let own = fill(pages.sst_writer(folder.path().join("own")).unwrap());
    let other = fill(db.default_keyspace().sst_writer(folder.path().join("other")).unwrap());
    assert!(own.bytes.0 * 2 < other.bytes.0, "{} and {}", own.bytes, other.bytes);
    let bytes = || -> u64 {
        let stats = db.stats();
        let pages = stats.keyspaces.iter().find(|one| one.name == "pages").unwrap();
        pages.levels.iter().map(|level| level.bytes.0).sum()
    };
    // A file stays as it was made until its pairs are written again.
    pages.ingest([&other.path]).unwrap();
    let before = bytes();
    assert!(before >= other.bytes.0, "{before} of {}", other.bytes);
    pages.put("k00500", "other").unwrap();
    pages.compact_range(..).unwrap();
    assert!(bytes() * 2 < before, "{} after {before}", bytes());
    assert_eq!(pages.len().unwrap(), 2_000);
    db.close().unwrap();
}
