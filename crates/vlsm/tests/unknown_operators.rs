//! Stores that are opened without the merge operator of a keyspace: everything works that need not
//! merge, and no operand is ever lost or changed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use vlsm::{Builder, Db, Error, KeyspaceOptions, MergeOperator};

/// Joins with commas: an operand lost, doubled or out of order shows in the value.
struct Join;

impl MergeOperator for Join {
    fn name(&self) -> &str {
        "test.join"
    }
    fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
        Some(all.join(&b","[..]))
    }
    fn merge_partial(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(operands.join(&b","[..]))
    }
}

/// A tree with small memtables and SSTs.
fn small(path: &Path) -> Builder {
    Db::builder(path).configure(|options| {
        options.policy.tree.memtable_bytes = vlsm::ByteCount(64 << 10);
    })
}

fn with_join(path: &Path) -> Db {
    small(path).merge_operator(Arc::new(Join)).open().unwrap()
}

fn without(path: &Path) -> Db {
    small(path).keep_unknown_operators(true).open().unwrap()
}

fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::UnknownMergeOperator { keyspace, name }
        if keyspace == "words" && name == "test.join")
}

/// A store with the keyspace `words`.
fn made() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = with_join(&path);
    let words = KeyspaceOptions::new().merge_operator("test.join");
    db.create_keyspace("words", words).unwrap();
    db.close().unwrap();
    (folder, path)
}

/// A store of which two of four keys have operands.
fn filled() -> (tempfile::TempDir, std::path::PathBuf) {
    let (folder, path) = made();
    let db = with_join(&path);
    let words = db.keyspace("words").unwrap();
    words.put("a", "1").unwrap();
    words.put("b", "1").unwrap();
    words.merge("b", "2").unwrap();
    words.merge("c", "1").unwrap();
    words.put("d", "1").unwrap();
    db.put("other", "keyspace").unwrap();
    db.close().unwrap();
    (folder, path)
}

#[test]
fn only_keys_with_operands_cannot_be_read() {
    let (_folder, path) = filled();
    assert!(is_unknown(&small(&path).open().unwrap_err()), "only on demand");

    for read_only in [true, false] {
        let builder = small(&path).read_only(read_only).keep_unknown_operators(true);
        let db = builder.open().unwrap();
        let words = db.keyspace("words").unwrap();
        assert_eq!(words.get("a").unwrap().unwrap(), "1");
        assert!(is_unknown(&words.get("b").unwrap_err()));
        assert!(is_unknown(&words.get("c").unwrap_err()));
        assert_eq!(words.get("d").unwrap().unwrap(), "1");
        assert_eq!(db.get("other").unwrap().unwrap(), "keyspace");
        for reversed in [false, true] {
            let (mut pairs, mut read, mut failed) = (words.iter(), Vec::new(), Vec::new());
            while let Some(pair) = if reversed { pairs.next_back() } else { pairs.next() } {
                match pair {
                    Ok((key, _)) => read.push(key),
                    Err(error) => {
                        assert!(is_unknown(&error), "{error}");
                        failed.extend(pairs.failed_key().cloned());
                    }
                }
            }
            if reversed {
                read.reverse();
                failed.reverse();
            }
            assert_eq!(
                (read, failed),
                (vec!["a".into(), "d".into()], vec!["b".into(), "c".into()])
            );
        }
        db.close().unwrap();
    }
}

#[test]
fn a_keyspace_is_renamed_and_cleared_without_its_operator() {
    let (_folder, path) = filled();
    let db = without(&path);
    let words = db.keyspace("words").unwrap();
    words.rename("texts").unwrap();
    let hour = std::time::Duration::from_secs(3600);
    assert!(words.set_options(words.options().ttl(hour)).is_err(), "its values cannot expire");
    words.set_options(words.options().block_bytes(vlsm::ByteCount::kib(8))).unwrap();
    db.close().unwrap();
    let db = with_join(&path);
    let texts = db.keyspace("texts").unwrap();
    assert_eq!(texts.options().block_bytes, Some(vlsm::ByteCount::kib(8)));
    let expected = texts.len().unwrap();
    assert!(expected > 0);
    db.close().unwrap();
    let db = without(&path);
    let texts = db.keyspace("texts").unwrap();
    texts.clear().unwrap();
    assert!(texts.is_empty().unwrap());
    db.close().unwrap();
}

#[test]
fn a_reader_follows_keyspaces_with_operators_that_it_does_not_know() {
    let (_folder, path) = filled();
    let db = with_join(&path);
    let reader = small(&path).keep_unknown_operators(true).follow(true).open().unwrap();
    let options = KeyspaceOptions::new().merge_operator("test.join");
    let more = db.create_keyspace("more", options).unwrap();
    more.put("a", "1").unwrap();
    db.keyspace("words").unwrap().rename("texts").unwrap();
    reader.catch_up().unwrap();
    assert_eq!(reader.keyspace("more").unwrap().get("a").unwrap().unwrap(), "1");
    assert_eq!(reader.keyspace("texts").unwrap().get("a").unwrap().unwrap(), "1");
    // Without the flag it says what is missing, and shows what it showed.
    let strict = small(&path).follow(true).open().map(drop);
    assert!(matches!(strict, Err(Error::UnknownMergeOperator { .. })), "{strict:?}");
    reader.close().unwrap();
    db.close().unwrap();
}

#[test]
fn what_need_not_merge_works_and_the_operator_reads_the_rest_later() {
    let (folder, path) = filled();
    let db = without(&path);
    let words = db.keyspace("words").unwrap();
    let refused = words.merge("a", "2").unwrap_err();
    assert!(matches!(refused, Error::OperandRefused { .. }), "{refused}");
    assert!(refused.to_string().contains("\"test.join\""), "{refused}");
    // A new keyspace needs its operator in any case.
    let more = KeyspaceOptions::new().merge_operator("test.join");
    assert!(matches!(
        db.create_keyspace("more", more.clone()),
        Err(Error::UnknownMergeOperator { .. })
    ));
    assert!(db.create_keyspace("words", more).is_ok(), "it exists, with the same options");
    words.put("c", "new").unwrap();
    assert_eq!(words.get("c").unwrap().unwrap(), "new");
    db.checkpoint(folder.path().join("copy")).unwrap();
    db.close().unwrap();
    assert!(vlsm::verify(&path).unwrap().findings.is_empty());
    for path in [path, folder.path().join("copy")] {
        let db = with_join(&path);
        let words = db.keyspace("words").unwrap();
        let pairs: Vec<_> = words.iter().map(|pair| pair.unwrap()).collect();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let expected = [("a", "1"), ("b", "1,2"), ("c", "new"), ("d", "1")];
        assert!(pairs.iter().copied().eq(expected.map(|(k, v)| (k.as_bytes(), v.as_bytes()))));
        db.close().unwrap();
    }
}

/// Turns of a program that knows the operator and of one that does not, on the same keys, with
/// flushes, compactions and snapshots: the first reads what a model says, each time.
#[test]
fn operands_outlive_any_number_of_compactions_without_the_operator() {
    for seed in 0..4 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (_folder, path) = made();
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        for turn in 0..8 {
            let knows = turn % 2 == 0;
            let db = if knows { with_join(&path) } else { without(&path) };
            let words = db.keyspace("words").unwrap();
            let mut snapshots = Vec::new();
            for step in 0..120 {
                let key = format!("key{}", rng.random_range(0..12));
                let value = format!("{turn}.{step}");
                match rng.random_range(0..20) {
                    0..=11 if knows => {
                        words.merge(&key, &value).unwrap();
                        let entry = model.entry(key);
                        entry.and_modify(|old| *old += &format!(",{value}")).or_insert(value);
                    }
                    0..=3 => drop(db.flush()),
                    4..=5 => words.compact_range(..).unwrap(),
                    6 => snapshots.push(db.snapshot()),
                    7 => snapshots.clear(),
                    8..=12 => {
                        words.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    13 => {
                        words.delete_range("key3".."key5").unwrap();
                        model.retain(|key, _| !("key3".."key5").contains(&key.as_str()));
                    }
                    14..=15 => {
                        let until = format!("{key}5");
                        words.compact_range(key..until).unwrap();
                    }
                    _ => {
                        words.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                }
            }
            drop(snapshots);
            if knows {
                let there = words.iter().map(|pair| pair.unwrap());
                let there: Vec<_> = there.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                let told = model.iter().map(|(k, v)| (k.clone().into(), v.clone().into()));
                assert_eq!(there, told.collect::<Vec<(Vec<u8>, Vec<u8>)>>(), "seed {seed} {turn}");
            } else {
                words.compact_range(..).unwrap();
            }
            db.close().unwrap();
        }
        assert!(!vlsm::verify(&path).unwrap().damaged);
    }
}
