//! The store through its public face, on the real file system.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod tiny;

use std::cell::RefCell;
use tiny::tiny;
use vlsm::{Batch, ByteCount, Db, Durability, Error, KeyspaceOptions, WriteOptions};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn what_is_put_is_there_after_reopening() {
    let folder = folder();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    for n in 0..10_000_u32 {
        db.put(format!("key{n:06}"), format!("value{n}")).unwrap();
    }
    db.delete("key000007").unwrap();
    assert_eq!(db.get("key000008").unwrap().as_deref(), Some(&b"value8"[..]));
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert_eq!(db.get("key000007").unwrap(), None);
    assert_eq!(db.iter().count(), 9_999);
    assert_eq!(db.iter().rev().count(), 9_999);
    db.flush().unwrap();
    assert_eq!(db.get("key009999").unwrap().as_deref(), Some(&b"value9999"[..]));
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    let keys: Vec<_> = db.range("key000005".."key000009").map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys, ["key000005", "key000006", "key000008"]);
}

#[test]
fn many_flushes_and_compactions_keep_everything() {
    let folder = folder();
    for profile in ["vlsm", "rocksdb", "lsmi", "cruise"] {
        let path = folder.path().join(profile);
        let open = || {
            let builder = Db::builder(&path).profile(profile).unwrap();
            tiny(builder, vlsm::ByteCount::kib(256)).open().unwrap()
        };
        let db = open();
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let db = db.clone();
                std::thread::spawn(move || {
                    for n in 0..30_000_u64 {
                        let key = (n * 4 + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        db.put(key.to_be_bytes(), [n as u8; 100]).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(db.iter().count(), 120_000, "{profile}");
        db.close().unwrap();
        let db = open();
        assert_eq!(db.iter().map(|pair| pair.unwrap().1.len()).sum::<usize>(), 12_000_000);
        assert_eq!(db.iter().rev().count(), 120_000);
        let key = (4 * 17_u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        assert_eq!(db.get(key.to_be_bytes()).unwrap().as_deref(), Some(&[17_u8; 100][..]));
        db.wait_idle().unwrap();
        println!("{profile}: {:#?}", db.stats());
    }
}

#[test]
fn large_batches_are_whole_and_durable() {
    let folder = folder();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    let other = db.create_keyspace("other", KeyspaceOptions::splits(["g", "p"])).unwrap();
    let main = db.default_keyspace();
    db.put("k0005", "old").unwrap();
    let mut batch = Batch::new();
    for n in 0..20_000_u32 {
        batch.put(&main, format!("k{n:04}"), vec![b'x'; 100]);
        batch.put(&other, format!("{}{n}", (b'a' + (n % 26) as u8) as char), "y");
    }
    db.write(&batch, WriteOptions::durability(Durability::Sync)).unwrap();
    db.put("k0006", "new").unwrap();
    let check = |db: &Db| {
        let other = db.keyspace("other").unwrap();
        assert_eq!(db.iter().count(), 20_000);
        assert_eq!(other.iter().count(), 20_000);
        assert!(other.iter().map(|pair| pair.unwrap().0).is_sorted());
        assert_eq!(db.get("k0005").unwrap().unwrap().len(), 100);
        assert_eq!(db.get("k0006").unwrap().as_deref(), Some(&b"new"[..]));
    };
    check(&db);
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    check(&db);
    db.flush().unwrap();
    check(&db);
}

#[test]
fn snapshots_see_their_moment() {
    let folder = folder();
    let db = Db::open(folder.path().join("store")).unwrap();
    let main = db.default_keyspace();
    db.put("a", "1").unwrap();
    let before = db.snapshot();
    db.put("a", "2").unwrap();
    db.put("b", "3").unwrap();
    db.flush().unwrap();
    db.delete("a").unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(before.get(&main, "a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(before.iter(&main).count(), 1);
    assert_eq!(db.iter().count(), 1);
}

#[test]
fn a_second_opener_and_odd_folders_are_refused() {
    let folder = folder();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    assert!(matches!(Db::open(&path), Err(Error::Locked { .. })));
    db.close().unwrap();
    drop(Db::open(&path).unwrap());
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::File::create(other.join("letter.txt")).unwrap();
    assert!(matches!(Db::open(&other), Err(Error::NotAStore { .. })));
    let names = std::fs::read_dir(&other).unwrap();
    assert_eq!(names.count(), 1, "nothing was added");
    let missing = Db::builder(folder.path().join("none")).create_if_missing(false).open();
    assert!(matches!(missing, Err(Error::Missing { .. })));
}

/// A crash while a store is made leaves some of its files; an opening makes it anew.
#[test]
fn a_half_made_store_is_made_anew() {
    for name in ["LOCK", "LOG", "MANIFEST-000001", "CURRENT.tmp", "000001.wal.tmp"] {
        let folder = folder();
        std::fs::write(folder.path().join(name), "torn").unwrap();
        let db = Db::open(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        db.put("a", "1").unwrap();
        db.close().unwrap();
        let db = Db::open(folder.path()).unwrap();
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]), "{name}");
    }
    for stranger in ["1.wal.tmp", "000001.wal", "000001.sst", "manifest"] {
        let folder = folder();
        std::fs::write(folder.path().join(stranger), "mine").unwrap();
        assert!(matches!(Db::open(folder.path()), Err(Error::NotAStore { .. })), "{stranger}");
        assert_eq!(std::fs::read(folder.path().join(stranger)).unwrap(), b"mine");
    }
}

#[test]
fn options_that_cannot_work_leave_no_folder_behind() {
    let folder = folder();
    let path = folder.path().join("store");
    let refused = |change: fn(&mut vlsm::Options), why: &str| {
        let error = Db::builder(&path).configure(change).open().unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }) && error.to_string().contains(why));
        assert!(!path.exists(), "{error}");
    };
    refused(|options| options.policy.shape = "tierd_l0".into(), "did you mean \"tiered_l0\"");
    refused(|options| options.policy.schedule = "silky".into(), "did you mean \"silk\"");
    refused(|options| options.policy.admission = String::new(), "There are: open");
    refused(|options| options.policy.tree.l0_max = 0, "l0_trigger");
    refused(|options| options.memory_limit = vlsm::ByteCount(1), "is too little");
}

#[test]
fn the_same_can_be_asked_of_a_store_a_keyspace_a_snapshot_and_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("store")).unwrap();
    let main = db.default_keyspace();
    assert!(main.is_empty().unwrap() && main.first().unwrap().is_none());
    let before = db.snapshot();
    let lazy = WriteOptions::durability(Durability::Lazy);
    db.put_with("a", "1", lazy).unwrap();
    for key in ["b", "ba", "c"] {
        main.put(key, "1").unwrap();
    }
    main.delete_with("c", lazy).unwrap();
    main.put("d", "1").unwrap();
    main.delete_range_with("d".., lazy).unwrap();
    let (now, transaction) = (db.snapshot(), db.transaction());
    let (first, last) = (("a".into(), "1".into()), ("ba".into(), "1".into()));
    assert_eq!(
        [main.first(), now.first(&main), transaction.first(&main)].map(Result::unwrap),
        [Some(first.clone()), Some(first.clone()), Some(first)]
    );
    assert_eq!(
        [main.last(), now.last(&main), transaction.last(&main)].map(Result::unwrap),
        [Some(last.clone()), Some(last.clone()), Some(last)]
    );
    assert_eq!([main.len(), now.len(&main), transaction.len(&main)].map(Result::unwrap), [3; 3]);
    assert_eq!((before.len(&main).unwrap(), before.is_empty(&main).unwrap()), (0, true));
    assert!(!now.is_empty(&main).unwrap() && !transaction.is_empty(&main).unwrap());
    for key in ["a", "c"] {
        let there = key == "a";
        let found = [db.contains_key(key), main.contains_key(key), now.contains_key(&main, key)];
        assert_eq!(found.map(Result::unwrap), [there; 3]);
        assert_eq!(transaction.contains_key(&main, key).unwrap(), there);
    }
    let keys = ["c", "ba"];
    for found in [
        db.multi_get(keys),
        main.multi_get(keys),
        now.multi_get(&main, keys),
        transaction.multi_get(&main, keys),
    ] {
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, [None, Some("1".into())]);
    }
    assert_eq!(db.prefix("b").count(), 2);
    assert_eq!((&main).into_iter().count(), 3);
    for pair in &main {
        pair.unwrap();
    }
}

#[test]
fn a_panic_that_drops_the_last_handle_closes_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for turn in 0..3 {
        let panicked = std::panic::catch_unwind(|| {
            let db = Db::open(&path).unwrap();
            let main = db.default_keyspace();
            let mut transaction = db.transaction();
            transaction.put(&main, "never", "1").unwrap();
            let lazy = WriteOptions::durability(Durability::Lazy);
            main.put_with(format!("lazy {turn}"), "1", lazy).unwrap();
            let mut pairs = main.iter();
            pairs.next().unwrap().unwrap();
            drop(db);
            panic!("of the caller");
        });
        assert!(panicked.is_err());
    }
    // The lock is free at once, and the writes in the process's buffer were written.
    let db = Db::open(&path).unwrap();
    assert_eq!(db.default_keyspace().len().unwrap(), 3);
    db.close().unwrap();
}

#[test]
fn a_panic_of_the_caller_leaves_the_store_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("store")).unwrap();
    let panicked = std::panic::catch_unwind(|| {
        db.put("before", "1").unwrap();
        let mut transaction = db.transaction();
        transaction.put(&db.default_keyspace(), "never", "1").unwrap();
        panic!("of the caller");
    });
    assert!(panicked.is_err());
    assert!(db.contains_key("before").unwrap() && !db.contains_key("never").unwrap());
    db.put("after", "1").unwrap();
    db.close().unwrap();
}

/// Uses a store when it is dropped.
struct AtTheEnd(Db, &'static str);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        // A panic here ends the process.
        assert_eq!(self.0.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        self.0.put(self.1, "ended").unwrap();
    }
}

/// A thread ends its own variables in an order that nobody chooses, ours among them.
#[test]
fn a_variable_of_a_thread_uses_the_store_when_the_thread_ends() {
    thread_local! {
        static EARLY: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
    }
    let folder = folder();
    let uncached = Db::builder(folder.path().join("store"))
        .configure(|options| options.cache_limit = Some(ByteCount::ZERO));
    let db = uncached.open().unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let used = db.clone();
    let thread = std::thread::spawn(move || {
        EARLY.set(Some(AtTheEnd(used.clone(), "early")));
        used.put("between", "").unwrap();
        used.get("key").unwrap();
        LATE.set(Some(AtTheEnd(used, "late")));
    });
    thread.join().unwrap();
    for key in ["early", "late"] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"ended"[..]), "{key}");
    }
    assert!(db.stats().cache_misses >= 3, "each get of the flushed key reads its block");
    db.close().unwrap();
}
