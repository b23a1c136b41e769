//! Range deletes, merge operators and expiry end to end: a store of tiny sizes against a map, over
//! flushes, compactions, snapshots and reopening, with one region and with several.
#![allow(clippy::unwrap_used)]

mod tiny;

use std::collections::BTreeMap;
use std::path::Path;
use tiny::tiny;
use vlsm::{Batch, Builder, ByteCount, Db, Keyspace, KeyspaceOptions, Snapshot};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Sizes so small that a few hundred writes make several levels, and range tombstones are cut.
fn small(profile: &str, path: &Path) -> Builder {
    tiny(Db::builder(path).profile(profile).unwrap(), ByteCount::kib(16)).configure(|options| {
        options.policy.shapes.vlsm.sst_min = ByteCount::kib(4);
        options.block_bytes = ByteCount(512);
        options.wal_file_bytes = ByteCount::kib(64);
        options.log = false;
    })
}

/// Random numbers that never change.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{:04}", self.below(600)).into_bytes()
    }
}

fn check(keyspace: &Keyspace, snapshot: Option<&Snapshot>, model: &Model, random: &mut Random) {
    let iter = || match snapshot {
        Some(snapshot) => snapshot.iter(keyspace),
        None => keyspace.iter(),
    };
    let pairs = |pair: vlsm::Result<(bytes::Bytes, bytes::Bytes)>| {
        let (key, value) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    };
    let expected: Vec<_> = model.clone().into_iter().collect();
    let forward: Vec<_> = iter().map(pairs).collect();
    assert_eq!(forward, expected, "forwards");
    let mut backward: Vec<_> = iter().rev().map(pairs).collect();
    backward.reverse();
    assert_eq!(backward, expected, "backwards");
    for _ in 0..40 {
        let key = random.key();
        let found = match snapshot {
            Some(snapshot) => snapshot.get(keyspace, &key).unwrap(),
            None => keyspace.get(&key).unwrap(),
        };
        assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]));
    }
    let (mut lo, mut hi) = (random.key(), random.key());
    if lo > hi {
        std::mem::swap(&mut lo, &mut hi);
    }
    let range = match snapshot {
        Some(snapshot) => snapshot.range(keyspace, lo.clone()..hi.clone()),
        None => keyspace.range(lo.clone()..hi.clone()),
    };
    let within: Vec<_> = range.map(pairs).collect();
    let expected: Vec<_> = model.range(lo..hi).map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(within, expected, "a range");
}

/// One random write into a batch and the model.
fn write(batch: &mut Batch, keyspace: &Keyspace, model: &mut Model, random: &mut Random) {
    let key = random.key();
    match random.below(20) {
        0..8 => {
            let value = vec![b'a' + random.below(26) as u8; 20 + random.below(150) as usize];
            batch.put(keyspace, &key, &value);
            model.insert(key, value);
        }
        8..10 => {
            batch.delete(keyspace, &key);
            model.remove(&key);
        }
        10..18 => {
            let operand = vec![b'A' + random.below(26) as u8; 1 + random.below(30) as usize];
            batch.merge(keyspace, &key, &operand);
            model.entry(key).or_default().extend_from_slice(&operand);
        }
        18 => {
            let hi = format!("key{:04}", random.below(600)).into_bytes();
            batch.delete_range(keyspace, key.clone()..hi.clone());
            if key < hi {
                model.retain(|at, _| !(key.clone()..hi.clone()).contains(at));
            }
        }
        _ => {
            let hi = [&key[..6], b"9"].concat();
            batch.delete_range(keyspace, key.clone()..=hi.clone());
            model.retain(|at, _| !(key.clone()..=hi.clone()).contains(at));
        }
    }
}

fn against_a_map(profile: &str, splits: &[&'static str], seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut random = Random(seed);
    let options = KeyspaceOptions::splits(splits.iter().copied()).merge_operator("append");
    let mut model = Model::new();
    for round in 0..4 {
        let db = small(profile, &path).open().unwrap();
        let keyspace = db.create_keyspace("words", options.clone()).unwrap();
        check(&keyspace, None, &model, &mut random);
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..200 {
            let mut batch = Batch::new();
            for _ in 0..1 + random.below(12) {
                write(&mut batch, &keyspace, &mut model, &mut random);
            }
            db.write(&batch, Default::default()).unwrap();
            if random.below(40) == 0 {
                db.flush().unwrap();
            }
            if random.below(25) == 0 {
                snapshots.push((db.snapshot(), model.clone()));
            }
            if snapshots.len() > 3 {
                snapshots.remove(random.below(4) as usize);
            }
            if step % 40 == 39 {
                if random.below(2) == 0 {
                    db.wait_idle().unwrap();
                }
                check(&keyspace, None, &model, &mut random);
                for (snapshot, then) in &snapshots {
                    check(&keyspace, Some(snapshot), then, &mut random);
                }
            }
        }
        if round % 2 == 0 {
            // A large batch fills memtables of its own.
            let mut batch = Batch::new();
            for _ in 0..8000 {
                write(&mut batch, &keyspace, &mut model, &mut random);
            }
            assert!(batch.encoded_len() > 256 << 10);
            db.write(&batch, Default::default()).unwrap();
            check(&keyspace, None, &model, &mut random);
        }
        db.wait_idle().unwrap();
        for (snapshot, then) in &snapshots {
            check(&keyspace, Some(snapshot), then, &mut random);
        }
        drop(snapshots);
        db.close().unwrap();
    }
    let db = small(profile, &path).open().unwrap();
    let keyspace = db.keyspace("words").unwrap();
    check(&keyspace, None, &model, &mut random);
}

#[test]
fn vlsm_against_a_map() {
    against_a_map("vlsm", &[], 1);
}

#[test]
fn regions_against_a_map() {
    against_a_map("vlsm", &["key0100", "key0101", "key0350"], 2);
}

#[test]
fn rocksdb_shape_against_a_map() {
    against_a_map("rocksdb", &[], 3);
}

#[test]
fn a_tree_without_l0_against_a_map() {
    against_a_map("cruise", &[], 4);
}

#[test]
fn a_long_deleted_stretch_is_not_walked() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("store")).unwrap();
    let key = |n: u64| format!("key{n:08}");
    for n in 0..50_000 {
        db.put(key(n), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.delete_range(key(10)..key(49_990)).unwrap();
    db.put(key(20_000), "a new one").unwrap();
    for _ in 0..2 {
        let before = db.stats().cache_misses;
        assert_eq!((db.iter().count(), db.iter().rev().count()), (21, 21));
        assert_eq!(db.get(key(30_000)).unwrap(), None);
        let blocks = db.stats().cache_misses - before;
        assert!(blocks < 40, "{blocks} blocks read");
        // Once more with the range tombstone in an SST of its own run.
        db.flush().unwrap();
    }
}

#[test]
fn a_full_compaction_leaves_nothing_of_what_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    for profile in ["vlsm", "rocksdb", "cruise"] {
        let db = small(profile, &folder.path().join(profile)).open().unwrap();
        let all = db.default_keyspace();
        let tables = || db.stats().levels.iter().map(|level| level.tables).sum::<u64>();
        all.delete_range("a".."z").unwrap();
        db.flush().unwrap();
        assert_eq!(tables(), 0, "a range tombstone over nothing is not written");
        for n in 0..3000 {
            all.put(format!("key{n:05}"), [7; 50]).unwrap();
        }
        let snapshot = db.snapshot();
        all.delete_range("key".."key02000").unwrap();
        all.delete_range("key01000".."key1").unwrap();
        all.compact_range(..).unwrap();
        assert!(all.iter().next().is_none() && tables() > 0);
        assert_eq!(snapshot.iter(&all).count(), 3000, "the snapshot's");
        drop(snapshot);
        all.put("key", "").unwrap();
        all.delete_range("key"..="key").unwrap();
        all.compact_range(..).unwrap();
        assert_eq!(tables(), 0, "{profile}");
        db.close().unwrap();
    }
}

#[test]
fn range_tombstone_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("store")).unwrap();
    let splits = KeyspaceOptions::splits(["g", "p"]);
    let letters = db.create_keyspace("letters", splits).unwrap();
    let fill = || (b'a'..=b'z').for_each(|letter| letters.put([letter], "x").unwrap());
    let left = || letters.iter().map(|pair| pair.unwrap().0[0] as char).collect::<String>();
    fill();
    letters.delete_range("c".."e").unwrap();
    assert_eq!(left(), "abefghijklmnopqrstuvwxyz", "the upper end stays");
    letters.delete_range("e"..="f").unwrap();
    assert_eq!(left(), "abghijklmnopqrstuvwxyz", "an inclusive end goes");
    let after = (std::ops::Bound::Excluded("g"), std::ops::Bound::Excluded("q"));
    letters.delete_range(after).unwrap();
    assert_eq!(left(), "abgqrstuvwxyz", "over regions, without the lower end");
    letters.delete_range(.."b").unwrap();
    assert_eq!(left(), "bgqrstuvwxyz");
    letters.delete_range("z".."b").unwrap();
    letters.delete_range("b".."b").unwrap();
    assert_eq!(left(), "bgqrstuvwxyz", "empty ranges change nothing");
    let last = vec![0xff; vlsm::MAX_KEY_LEN];
    letters.put(&last, "the largest key").unwrap();
    letters.delete_range("x"..).unwrap();
    assert_eq!((left().as_str(), letters.get(&last).unwrap()), ("bgqrstuvw", None));
    db.flush().unwrap();
    assert_eq!(left(), "bgqrstuvw");
    letters.delete_range("c"..).unwrap();
    assert_eq!(left(), "b", "over regions, without an upper end");
    letters.compact_range(..).unwrap();
    assert_eq!(left(), "b");
    letters.delete_range(..).unwrap();
    assert!(letters.is_empty().unwrap());
    db.flush().unwrap();
    assert!(letters.is_empty().unwrap());
    fill();
    assert_eq!(left().len(), 26, "what is written later shows");
    db.flush().unwrap();
    letters.delete_range("d".."w").unwrap();
    for _ in 0..2 {
        assert_eq!(left(), "abcwxyz", "of a memtable of range tombstones only");
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    fill();

    let mut batch = Batch::new();
    batch.put(&letters, "a", "before");
    batch.delete_range(&letters, "a".."c");
    batch.put(&letters, "b", "after");
    assert_eq!(batch.len(), 3);
    db.write(&batch, Default::default()).unwrap();
    assert_eq!(letters.get("a").unwrap(), None);
    assert_eq!(letters.get("b").unwrap().unwrap(), "after");

    let longest = vec![7; 64 * 1024];
    let nearly = [&longest[..64 * 1024 - 1], &[8]].concat();
    letters.put(&longest, "1").unwrap();
    letters.put(&nearly, "2").unwrap();
    let after = (std::ops::Bound::Excluded(&longest), std::ops::Bound::Included(&nearly));
    letters.delete_range(after).unwrap();
    for _ in 0..2 {
        assert!(
            letters.get(&longest).unwrap().is_some() && letters.get(&nearly).unwrap().is_none()
        );
        db.flush().unwrap();
    }
    letters.delete_range(&longest[..]..=&longest[..]).unwrap();
    assert!(letters.get(&longest).unwrap().is_none());
    assert!(letters.delete_range(vec![0; 70_000]..vec![1]).is_err());
}
