//! Salvage: all pairs that it returns are those written last, and all other keys lie in a range
//! that it reports.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod tiny;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use tiny::tiny;
use vlsm::{ByteCount, DamagedRange, Db, Error, KeyspaceOptions, Salvaged};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn small(path: &Path) -> vlsm::Builder {
    tiny(Db::builder(path), ByteCount::kib(64))
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// A closed store of two regions with several levels, old versions, deletes and a range delete that
/// hide what lies below, and something in the WAL; and what it holds.
fn filled(path: &Path) -> Contents {
    let options = KeyspaceOptions::splits([key(3000)]);
    let db = small(path).default_keyspace(options).open().unwrap();
    let mut all = Contents::new();
    let mut put = |n: u64, round: u64| {
        let value = format!("value {n} of round {round} {}", "x".repeat(60)).into_bytes();
        db.put(key(n), &value).unwrap();
        all.insert(key(n), value);
    };
    (0..5000).for_each(|n| put(n, 0));
    (0..5000).filter(|n| n % 7 == 0).for_each(|n| put(n, 1));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for n in (0..5000).filter(|n| n % 11 == 0) {
        db.delete(key(n)).unwrap();
        all.remove(&key(n));
    }
    db.delete_range(key(1000)..key(1100)).unwrap();
    all.retain(|k, _| *k < key(1000) || *k >= key(1100));
    db.flush().unwrap();
    for n in (0..5000).filter(|n| n % 13 == 0) {
        db.put(key(n), "in the WAL").unwrap();
        all.insert(key(n), b"in the WAL".to_vec());
    }
    db.close().unwrap();
    all
}

fn contains(range: &DamagedRange, key: &[u8]) -> bool {
    let below = match &range.to {
        Bound::Included(to) => key <= &to[..],
        Bound::Excluded(to) => key < &to[..],
        Bound::Unbounded => true,
    };
    below && key >= &range.from[..]
}

/// Reads what can be read and compares. Number of pairs, and the damaged ranges.
fn check(path: &Path, all: &Contents, what: &str) -> (usize, Vec<DamagedRange>) {
    let db = small(path).read_only(true).allow_missing_ssts(true).open().unwrap();
    let (mut found, mut ranges) = (Contents::new(), Vec::new());
    for item in db.default_keyspace().salvage() {
        match item.unwrap_or_else(|error| panic!("{what}: {error}")) {
            Salvaged::Pair(key, value) => {
                let last = found.last_key_value().map(|(key, _)| key.clone());
                assert!(last.is_none_or(|last| last[..] < key[..]), "{what}: keys ascend");
                let told = ranges.iter().any(|range| contains(range, &key));
                assert!(!told, "{what}: a pair of a range that is left out");
                found.insert(key.to_vec(), value.to_vec());
            }
            Salvaged::Damaged(range) => ranges.push(range),
            other => panic!("{what}: {other:?}"),
        }
    }
    for (key, value) in &found {
        assert_eq!(all.get(key), Some(value), "{what}: stale or never written");
    }
    for key in all.keys().filter(|key| !found.contains_key(*key)) {
        let told = ranges.iter().any(|range| contains(range, key));
        assert!(told, "{what}: {} is missing and not told", String::from_utf8_lossy(key));
    }
    // No other reader passes over damage.
    let read: vlsm::Result<Vec<_>> = db.iter().collect();
    assert_eq!(read.is_err(), !ranges.is_empty(), "{what}: {ranges:?}");
    db.close().unwrap();
    (found.len(), ranges)
}

fn ssts(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut ssts: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "sst")).collect();
    ssts.sort();
    ssts
}

#[test]
fn a_sound_store_is_read_completely() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let all = filled(&path);
    let (found, ranges) = check(&path, &all, "sound");
    assert_eq!((found, ranges.len()), (all.len(), 0));
    let error = small(&path).allow_missing_ssts(true).open().unwrap_err();
    assert!(error.to_string().contains("read_only"), "{error}");
}

#[test]
fn damage_anywhere_costs_its_range_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let all = filled(&path);
    let files = ssts(&path);
    assert!(files.len() > 6, "{}", files.len());
    let (mut flipped, mut partial) = (0, 0);
    for file in &files {
        let sound = std::fs::read(file).unwrap();
        std::fs::remove_file(file).unwrap();
        let (_, ranges) = check(&path, &all, &format!("{} missing", file.display()));
        assert!(!ranges.is_empty(), "{} is missing", file.display());
        assert!(small(&path).open().is_err(), "nobody else opens it");
        for len in [0, sound.len() / 2, sound.len() - 4096] {
            std::fs::write(file, &sound[..len]).unwrap();
            let (_, ranges) = check(&path, &all, &format!("{} cut to {len}", file.display()));
            assert!(!ranges.is_empty(), "{} is cut to {len}", file.display());
        }
        for part in 0..12 {
            let at = sound.len() * part / 12 + 100;
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            std::fs::write(file, &bytes).unwrap();
            let what = format!("byte {at} of {}", file.display());
            let (found, ranges) = check(&path, &all, &what);
            flipped += u32::from(!ranges.is_empty());
            partial += u32::from(!ranges.is_empty() && found * 10 > all.len() * 9);
        }
        std::fs::write(file, &sound).unwrap();
    }
    println!("{flipped} flips were damage, {partial} of them of less than a tenth of the pairs");
    assert!(flipped > 20 && partial > 20, "{flipped}, {partial}");
    // Several at once.
    for (file, part) in files.iter().step_by(2).zip([3, 5, 7].into_iter().cycle()) {
        let mut bytes = std::fs::read(file).unwrap();
        let at = bytes.len() * part / 12;
        bytes[at] ^= 0x80;
        std::fs::write(file, bytes).unwrap();
    }
    let (found, ranges) = check(&path, &all, "several");
    assert!(found > 0 && ranges.len() > 1, "{found}, {}", ranges.len());
}

#[test]
fn a_value_that_cannot_be_made_costs_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let adds = KeyspaceOptions::new().merge_operator("add");
    let db = Db::builder(&path).default_keyspace(adds).open().unwrap();
    // Operands that cannot be combined are refused; a value that is no number is found when it is
    // read.
    db.put("bad", "no number").unwrap();
    for name in ["a", "bad", "c", "z"] {
        db.merge(name, 1_u64.to_le_bytes()).unwrap();
    }
    db.flush().unwrap();
    db.put("worse", "no number").unwrap();
    db.merge("worse", 1_u64.to_le_bytes()).unwrap();
    let read = || {
        let (mut pairs, mut left) = (Vec::new(), Vec::new());
        for item in db.default_keyspace().salvage() {
            match item.unwrap() {
                Salvaged::Pair(key, _) => pairs.push(key),
                Salvaged::Damaged(range) => {
                    assert!(matches!(range.error, Error::MergeFailed { .. }), "{range:?}");
                    assert_eq!(range.to, Bound::Included(range.from.clone()));
                    left.push(range.from);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(
            (pairs, left),
            (
                vec!["a".into(), "c".into(), "z".into()],
                vec!["bad".into(), "worse".into()] as Vec<bytes::Bytes>
            )
        );
    };
    read();
    db.flush().unwrap();
    read();
    db.close().unwrap();
}
