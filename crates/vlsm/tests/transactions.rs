//! Transactions as one program sees them: own writes, conflicts, savepoints, bad input.
#![allow(clippy::unwrap_used)]

mod tiny;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use tiny::tiny;
use vlsm::{
    ByteCount, ConflictKind, Db, Durability, Error, Keyspace, KeyspaceOptions, Transaction,
    WriteOptions,
};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::SimFs;

fn open() -> (Db, Keyspace) {
    let env = RealEnv::with_fs(Arc::new(SimFs::new()));
    let db = tiny(Db::builder(Path::new("/store")).env(env), ByteCount::kib(64)).open().unwrap();
    let options = KeyspaceOptions::splits(["m"]).merge_operator("append");
    let words = db.create_keyspace("words", options).unwrap();
    (db, words)
}

fn fill(words: &Keyspace, text: &str) {
    for pair in text.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap();
        words.put(key, value).unwrap();
    }
}

/// What a transaction sees, from the front or from the back.
fn seen(transaction: &Transaction, words: &Keyspace, back: bool) -> String {
    let pairs = transaction.iter(words);
    let pairs: Vec<_> = match back {
        false => pairs.collect(),
        true => pairs.rev().collect(),
    };
    let text = |pair: vlsm::Result<(bytes::Bytes, bytes::Bytes)>| {
        let (key, value) = pair.unwrap();
        format!("{}={}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value))
    };
    pairs.into_iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Does one write of a script, as in `put a 1`, `delete a`, `clear a c` (a range), `merge a x`.
fn write(transaction: &mut Transaction, words: &Keyspace, line: &str) {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["put", key, value] => transaction.put(words, key, value),
        ["delete", key] => transaction.delete(words, key),
        ["clear", lo, hi] => transaction.delete_range(words, lo..hi),
        ["merge", key, operand] => transaction.merge(words, key, operand),
        _ => panic!("{line}"),
    }
    .unwrap();
}

#[test]
fn own_writes_are_seen_and_committed_as_they_were_seen() {
    // The store, the writes of the transaction, what it sees.
    let cases = [
        ("", "put a 1", "a=1"),
        ("a=1 n=2", "", "a=1 n=2"),
        ("a=1 n=2", "put b x; delete n", "a=1 b=x"),
        ("a=1 n=2", "delete a; put a 3", "a=3 n=2"),
        ("a=1 b=2 n=3 z=4", "clear b o", "a=1 z=4"),
        ("a=1 b=2 n=3 z=4", "clear b o; put c x; put n y", "a=1 c=x n=y z=4"),
        ("a=1 b=2", "put b x; clear a c; put a y", "a=y"),
        ("a=1", "merge a x; merge a y", "a=1xy"),
        ("a=1", "delete a; merge a x", "a=x"),
        ("a=1", "clear a b; merge a x; merge b y", "a=x b=y"),
        ("a=1", "merge a x; put a 2; merge a z", "a=2z"),
        ("a=1", "merge b x; clear a z; merge b y", "b=y"),
    ];
    for (before, script, expected) in cases {
        for flushed in [false, true] {
            let what = format!("{before}; {script}; flushed: {flushed}");
            let (db, words) = open();
            fill(&words, before);
            if flushed {
                db.flush().unwrap();
            }
            let mut transaction = db.transaction();
            for line in script.split(';').map(str::trim).filter(|line| !line.is_empty()) {
                write(&mut transaction, &words, line);
            }
            assert_eq!(seen(&transaction, &words, false), expected, "{what}");
            let reversed: Vec<_> = expected.split_whitespace().rev().collect();
            assert_eq!(seen(&transaction, &words, true), reversed.join(" "), "{what}");
            for key in ["a", "b", "c", "n", "z"] {
                let pair = expected.split_whitespace().find_map(|pair| {
                    pair.split_once('=').filter(|(of, _)| *of == key).map(|(_, value)| value)
                });
                let found = transaction.get(&words, key).unwrap();
                assert_eq!(found.as_deref(), pair.map(str::as_bytes), "{what}: {key}");
                assert_eq!(transaction.contains_key(&words, key).unwrap(), pair.is_some());
            }
            transaction.commit().unwrap();
            assert_eq!(seen(&db.transaction(), &words, false), expected, "{what}: committed");
        }
    }
}

#[test]
fn both_ends_of_an_iterator_meet_once() {
    let (db, words) = open();
    fill(&words, "a=1 b=2 n=3 z=4");
    for takes in 0..64_u32 {
        let mut transaction = db.transaction();
        for line in ["put c 5", "delete b", "put y 6"] {
            write(&mut transaction, &words, line);
        }
        let mut pairs = transaction.iter(&words);
        let (mut front, mut back) = (Vec::new(), Vec::new());
        for turn in 0..8 {
            match takes >> turn & 1 {
                0 => front.extend(pairs.next().map(|pair| pair.unwrap().0)),
                _ => back.extend(pairs.next_back().map(|pair| pair.unwrap().0)),
            }
        }
        back.reverse();
        assert_eq!([front, back].concat(), ["a", "c", "n", "y", "z"], "{takes:b}");
    }
}

/// The iterator of a plain keyspace with the same pairs is the model.
#[test]
fn seeks_of_a_transaction_are_those_of_any_iterator() {
    let (db, words) = open();
    fill(&words, "a=1 b=2 n=3 z=4");
    let model = db.create_keyspace("model", KeyspaceOptions::new()).unwrap();
    fill(&model, "a=1 c=5 n=3 y=6 z=4");
    let mut transaction = db.transaction();
    for line in ["put c 5", "delete b", "put y 6", "put x 1", "clear x y"] {
        write(&mut transaction, &words, line);
    }
    let within = (Bound::Excluded("a"), Bound::Excluded("z"));
    for range in [(Bound::Unbounded, Bound::Unbounded), within] {
        for turns in 0..5_u32.pow(6) {
            let mut pairs = transaction.range(&words, range);
            let mut expected = model.range(range);
            for turn in 0..6 {
                let what = format!("{range:?}, {turns}, turn {turn}");
                let (ours, theirs) = match turns / 5_u32.pow(turn) % 5 {
                    0 => (pairs.next(), expected.next()),
                    1 => (pairs.next_back(), expected.next_back()),
                    seek => {
                        let key = ["", "b", "n"][seek as usize - 2];
                        pairs.seek(key);
                        expected.seek(key);
                        continue;
                    }
                };
                assert_eq!(ours.transpose().unwrap(), theirs.transpose().unwrap(), "{what}");
            }
        }
    }
}

/// A read of a transaction, as in `get a`, `first`, `last`, `range a c`, `prefix a`, `seek b` (and
/// the next pair), `turn b` (the same after the first pair), `own a` (a read that its own write
/// answers), `nothing`.
fn read(transaction: &mut Transaction, words: &Keyspace, line: &str) {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["get", key] => drop(transaction.get(words, key).unwrap()),
        ["first"] => drop(transaction.iter(words).next()),
        ["last"] => drop(transaction.iter(words).next_back()),
        ["range", lo, hi] => drop(transaction.range(words, lo..hi).collect::<Vec<_>>()),
        ["prefix", prefix] => drop(transaction.prefix(words, prefix).collect::<Vec<_>>()),
        ["seek", key] => {
            let mut pairs = transaction.iter(words);
            pairs.seek(key);
            pairs.next();
        }
        ["turn", key] => {
            let mut pairs = transaction.iter(words);
            pairs.next();
            pairs.seek(key);
            pairs.next();
        }
        ["own", key] => {
            transaction.put(words, key, "own").unwrap();
            transaction.get(words, key).unwrap();
        }
        ["nothing"] => {}
        _ => panic!("{line}"),
    }
}

#[test]
fn a_commit_fails_just_where_a_read_was_changed() {
    use ConflictKind::{Key, Range};
    // A read of a store with a, c, n and z; what somebody else writes then; the conflict.
    let cases = [
        ("get a", "put a 2", Some(Key)),
        ("get a", "put b 2", None),
        ("get b", "put b 2", Some(Key)),
        ("get a", "delete a", Some(Key)),
        ("get a", "merge a x", Some(Key)),
        ("get a", "clear 0 b", Some(Key)),
        ("get a", "clear b n", None),
        ("own a", "put a 2", None),
        ("nothing", "put a 2", None),
        ("range a c", "put b 2", Some(Range)),
        ("range a c", "put c 2", None),
        ("range a c", "clear b z", Some(Range)),
        ("range a c", "clear c z", None),
        ("range a zz", "put o 2", Some(Range)),
        ("prefix a", "put ab 2", Some(Range)),
        ("prefix a", "put b 2", None),
        ("first", "put 0 2", Some(Range)),
        ("first", "delete a", Some(Range)),
        ("first", "put b 2", None),
        ("last", "put zz 2", Some(Range)),
        ("last", "put y 2", None),
        ("last", "clear o zz", Some(Range)),
        ("seek b", "put aa 2", None),
        ("seek b", "put bb 2", Some(Range)),
        ("seek b", "delete c", Some(Range)),
        ("seek b", "put d 2", None),
        ("turn n", "put 0 2", Some(Range)),
        ("turn n", "put b 2", None),
        ("turn n", "delete n", Some(Range)),
        ("turn n", "put o 2", None),
    ];
    for (reads, writes, expected) in cases {
        for settle in [false, true] {
            let what = format!("{reads}, {writes}, flushed and merged: {settle}");
            let (db, words) = open();
            fill(&words, "a=1 c=1 n=1 z=1");
            let mut transaction = db.transaction();
            read(&mut transaction, &words, reads);
            transaction.put(&words, "result", "written").unwrap();
            let mut other = db.transaction();
            write(&mut other, &words, writes);
            other.commit().unwrap();
            if settle {
                words.compact_range(..).unwrap();
            }
            match (transaction.commit(), expected) {
                (Ok(()), None) => assert!(words.get("result").unwrap().is_some(), "{what}"),
                (Err(Error::Conflict { keyspace, what: kind }), Some(expected)) => {
                    assert_eq!((keyspace.as_str(), kind), ("words", expected), "{what}");
                    assert_eq!(words.get("result").unwrap(), None, "{what}");
                }
                other => panic!("{what}: {other:?}"),
            }
            let stats = db.stats();
            assert_eq!(stats.conflicts, u64::from(expected.is_some()), "{what}");
            assert_eq!(stats.transactions, 1 + u64::from(expected.is_none()), "{what}");
        }
    }
}

#[test]
fn ingested_files_conflict_and_unread_snapshots_do_not() {
    let (db, words) = open();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("more.sst");
    let real = Db::open(folder.path().join("real")).unwrap();
    let main = real.default_keyspace();
    let mut writer = vlsm::SstFileWriter::create(&file).unwrap();
    writer.put("b", "ingested").unwrap();
    writer.finish().unwrap();
    let mut transaction = real.transaction();
    transaction.range(&main, "a".."c").for_each(drop);
    transaction.put(&main, "x", "1").unwrap();
    main.ingest([&file]).unwrap();
    let refused = transaction.commit();
    assert!(matches!(refused, Err(Error::Conflict { what: ConflictKind::Range, .. })));
    real.close().unwrap();

    // What is read past the transaction is not checked.
    fill(&words, "a=1");
    let mut transaction = db.transaction();
    transaction.snapshot().get(&words, "a").unwrap();
    transaction.put(&words, "x", "1").unwrap();
    words.put("a", "2").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn savepoints_undo_what_came_after() {
    let (db, words) = open();
    let mut transaction = db.transaction();
    write(&mut transaction, &words, "put a 1");
    transaction.savepoint();
    write(&mut transaction, &words, "put b 2");
    transaction.savepoint();
    for line in ["clear a c", "delete b", "put c 3"] {
        write(&mut transaction, &words, line);
    }
    assert_eq!(seen(&transaction, &words, false), "c=3");
    transaction.rollback_to_savepoint().unwrap();
    assert_eq!(seen(&transaction, &words, false), "a=1 b=2");
    transaction.rollback_to_savepoint().unwrap();
    assert_eq!((seen(&transaction, &words, false), transaction.write_count()), ("a=1".into(), 1));
    let none = transaction.rollback_to_savepoint();
    assert!(matches!(none, Err(Error::InvalidArgument(_))), "{none:?}");
    write(&mut transaction, &words, "put d 4");
    transaction.commit().unwrap();
    assert_eq!(seen(&db.transaction(), &words, false), "a=1 d=4");

    let mut transaction = db.transaction();
    write(&mut transaction, &words, "put e 5");
    transaction.rollback();
    assert_eq!(transaction.write_count(), 0);
    transaction.commit().unwrap();
    let mut dropped = db.transaction();
    write(&mut dropped, &words, "put f 6");
    drop(dropped);
    assert_eq!(seen(&db.transaction(), &words, false), "a=1 d=4");
}

#[test]
fn increments_of_four_threads_are_all_kept() {
    let (db, words) = open();
    let count = |value: Option<&[u8]>| {
        value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, words) = (&db, &words);
            scope.spawn(move || {
                for _ in 0..250 {
                    if thread % 2 == 0 {
                        let add = |value: Option<&[u8]>| Some((count(value) + 1).to_le_bytes());
                        words.fetch_update("n", add).unwrap();
                    } else {
                        db.transact(|transaction| {
                            let before = count(transaction.get(words, "n")?.as_deref());
                            transaction.put(words, "n", (before + 1).to_le_bytes())
                        })
                        .unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(count(words.get("n").unwrap().as_deref()), 1_000);
}

#[test]
fn one_of_several_inserts_wins() {
    let (db, words) = open();
    let won: usize = std::thread::scope(|scope| {
        let one = |thread: usize| {
            let words = &words;
            scope.spawn(move || {
                let insert = |n: u32| {
                    let key = format!("k{n:03}");
                    words.insert_if_absent(key, thread.to_string()).unwrap().is_none()
                };
                (0..200).filter(|n| insert(*n)).count()
            })
        };
        (0..4).map(one).collect::<Vec<_>>().into_iter().map(|run| run.join().unwrap()).sum()
    });
    assert_eq!(won, 200);
    db.close().unwrap();
}

#[test]
fn changes_of_one_key_take_options_and_are_the_same_on_a_store() {
    let (db, words) = open();
    let syncs = WriteOptions::durability(Durability::Sync);
    assert_eq!(words.insert_if_absent_with("a", "1", syncs).unwrap(), None);
    assert_eq!(words.insert_if_absent_with("a", "2", syncs).unwrap(), Some("1".into()));
    let swapped = words.compare_and_swap_with("a", Some(b"1"), Some(b"3"), syncs).unwrap();
    assert_eq!(swapped, Ok(()));
    let twice = |old: Option<&[u8]>| old.map(|old| old.repeat(2));
    assert_eq!(words.fetch_update_with("a", syncs, twice).unwrap(), Some("3".into()));
    assert_eq!(words.get("a").unwrap(), Some("33".into()));
    assert_eq!(words.fetch_update_with("b", syncs, twice).unwrap(), None);

    assert_eq!(db.insert_if_absent("a", "1").unwrap(), None);
    assert_eq!(db.compare_and_swap("a", Some(b"2"), None).unwrap(), Err(Some("1".into())));
    assert_eq!(db.fetch_update("a", twice).unwrap(), Some("1".into()));
    assert_eq!(db.get("a").unwrap(), Some("11".into()));
    assert_eq!(words.get("a").unwrap(), Some("33".into()), "another keyspace");
    db.close().unwrap();
}

#[test]
fn an_error_of_the_work_writes_nothing() {
    let (db, words) = open();
    let failed: vlsm::Result<()> = db.transact(|transaction| {
        transaction.put(&words, "a", "1")?;
        Err(Error::InvalidArgument("no".into()))
    });
    assert!(matches!(failed, Err(Error::InvalidArgument(_))));
    let kept = db.transact(|transaction| {
        transaction.put(&words, "a", "1")?;
        transaction.rollback();
        Ok(7)
    });
    assert_eq!((kept.unwrap(), words.get("a").unwrap()), (7, None));
    let own: Result<(), Box<dyn std::error::Error>> = db.try_transact(|transaction| {
        transaction.put(&words, "a", "1")?;
        Err("enough".into())
    });
    assert_eq!((own.unwrap_err().to_string(), words.get("a").unwrap()), ("enough".into(), None));
    // A transaction that always meets another write is given up after so many tries.
    let mut tries = 0;
    let outrun: vlsm::Result<()> = db.transact(|transaction| {
        tries += 1;
        transaction.get(&words, "a")?;
        words.put("a", tries.to_string())?;
        transaction.put(&words, "b", "1")
    });
    assert!(matches!(outrun, Err(Error::Conflict { .. })), "{outrun:?}");
    assert_eq!(tries, vlsm::TRANSACT_TRIES);
    // One that was begun before its keyspace was cleared is tried again, whatever the error is.
    let mut tries = 0;
    let cleared: Result<(), Box<dyn std::error::Error>> = db.try_transact(|transaction| {
        tries += 1;
        if tries == 1 {
            words.clear()?;
        }
        Ok(transaction.put(&words, "c", "1")?)
    });
    assert!(cleared.is_ok() && tries == 2, "{cleared:?}, {tries}");
    assert_eq!(words.get("c").unwrap(), Some("1".into()));
    // An error of its own is no conflict, even if it is one of another store.
    let mut tries = 0;
    let foreign: vlsm::Result<()> = db.transact(|_| {
        tries += 1;
        let (keyspace, what) = ("elsewhere".into(), vlsm::ConflictKind::Key);
        Err(Error::Conflict { keyspace, what })
    });
    assert!(foreign.is_err() && tries == 1);
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    type Act<'a> = &'a dyn Fn(&mut Transaction) -> vlsm::Result<()>;
    let (db, words) = open();
    let (other, foreign) = open();
    let long = vec![b'k'; 64 * 1024 + 1];
    let plain = db.default_keyspace();
    let cases: [(&str, Act<'_>); 8] = [
        ("a foreign keyspace, put", &|txn| txn.put(&foreign, "a", "1")),
        ("a foreign keyspace, get", &|txn| txn.get(&foreign, "a").map(drop)),
        ("a foreign keyspace, iter", &|txn| txn.iter(&foreign).next().unwrap().map(drop)),
        ("a key that is too long", &|txn| txn.put(&words, &long, "1")),
        ("a key to delete that is too long", &|txn| txn.delete(&words, &long)),
        ("an operand without an operator", &|txn| txn.merge(&plain, "a", "1")),
        ("a value that expires over operands", &|txn| {
            txn.put_with_ttl(&words, "a", "1", std::time::Duration::from_secs(1))
        }),
        ("no savepoint", &|txn| txn.rollback_to_savepoint()),
    ];
    for (what, act) in cases {
        let mut transaction = db.transaction();
        transaction.put(&words, what, "kept").unwrap();
        let refused = act(&mut transaction);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{what}: {refused:?}");
        assert_eq!(transaction.write_count(), 1, "{what}");
        transaction.commit().unwrap();
        assert_eq!(words.get(what).unwrap().as_deref(), Some(&b"kept"[..]), "{what}");
    }
    // Empty keys and inverted ranges are what they are for any other read and write.
    let mut transaction = db.transaction();
    transaction.put(&words, "", "empty").unwrap();
    transaction.delete_range(&words, "z".."a").unwrap();
    assert_eq!(transaction.write_count(), 1);
    assert_eq!(transaction.range(&words, "z".."a").count(), 0);
    assert_eq!(transaction.get(&words, "").unwrap().as_deref(), Some(&b"empty"[..]));
    let not_logged = WriteOptions::durability(Durability::NoWal);
    transaction.put(&plain, "two keyspaces", "").unwrap();
    let refused = transaction.commit_with(not_logged);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    // A closed store.
    let mut late = db.transaction();
    late.put(&words, "a", "1").unwrap();
    let _ = late.get(&words, "b").unwrap();
    db.close().unwrap();
    assert!(matches!(late.get(&words, "c"), Err(Error::Closed)));
    assert!(matches!(late.iter(&words).next(), Some(Err(Error::Closed))));
    assert!(matches!(late.commit(), Err(Error::Closed)));
    other.close().unwrap();
}

#[test]
fn a_refused_use_of_another_store_is_forgotten() {
    let (db, words) = open();
    let env = RealEnv::with_fs(Arc::new(SimFs::new()));
    let other = Db::builder(Path::new("/other")).env(env).open().unwrap();
    let many = KeyspaceOptions::splits(["b", "c", "d", "e", "f", "g", "h"]);
    let foreign = other.create_keyspace("foreign", many).unwrap();
    let mut transaction = db.transaction();
    transaction.put(&foreign, "z", "1").unwrap_err();
    transaction.get(&foreign, "z").unwrap_err();
    let mut pairs = transaction.range(&foreign, "a".."z");
    assert!(matches!(pairs.next(), Some(Err(Error::InvalidArgument(_)))));
    assert!(pairs.next().is_none());
    transaction.put(&words, "a", "1").unwrap();
    words.put("b", "somebody else's").unwrap();
    transaction.commit().unwrap();
    assert_eq!(words.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_key_that_cannot_be_merged_is_an_error_of_that_key_alone() {
    let (db, _) = open();
    let sums = KeyspaceOptions::new().merge_operator("add");
    let sums = db.create_keyspace("sums", sums).unwrap();
    for key in ["b", "d"] {
        sums.put(key, "no number").unwrap();
        sums.merge(key, 1_u64.to_le_bytes()).unwrap();
    }
    for key in ["a", "c", "e"] {
        sums.put(key, 7_u64.to_le_bytes()).unwrap();
    }
    let mut transaction = db.transaction();
    transaction.put(&sums, "b", 5_u64.to_le_bytes()).unwrap();
    let mut pairs = transaction.iter(&sums);
    let (mut keys, mut failed) = (Vec::new(), Vec::new());
    while let Some(pair) = pairs.next() {
        match pair {
            Ok((key, _)) => keys.push(key),
            Err(Error::MergeFailed { .. }) => failed.extend(pairs.failed_key().cloned()),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(
        (keys.as_slice(), failed.as_slice()),
        (&["a", "b", "c", "e"].map(Into::into)[..], &["d".into()][..])
    );
    transaction.delete_range(&sums, "d".."e").unwrap();
    assert_eq!(transaction.iter(&sums).rev().map(Result::unwrap).count(), 4);
    transaction.commit().unwrap();
    assert_eq!(sums.iter().map(Result::unwrap).count(), 4);
}

#[test]
fn what_reads_nothing_conflicts_with_nothing() {
    let (db, words) = open();
    let count = 2_000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..count {
                    let mut transaction = db.transaction();
                    transaction.merge(&words, "a", "x").unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(words.get("a").unwrap().map(|value| value.len()), Some(2 * count));
}

#[test]
fn transactions_are_owned_and_can_be_sent() {
    fn owned<T: Send + 'static>() {}
    owned::<Transaction>();
    owned::<vlsm::TransactionIter>();
}
