//! Batches that a reader can count: batch `n` writes `n` into two keyspaces, and one key of a ring
//! in each. So the number of batches that are there decides every key.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use vlsm::{Batch, Db, Keyspace, WriteOptions};

/// Each key of the ring is written again after so many batches.
pub const RING: u64 = 200;

/// Batch `n`, over two keyspaces: the counter, the same counter in the other one, and one key of
/// the ring in each.
pub fn write(db: &Db, other: &Keyspace, n: u64) {
    let (default, mut batch) = (db.default_keyspace(), Batch::new());
    let value = format!("{n:020}").repeat(10);
    for keyspace in [&default, other] {
        batch.put(keyspace, "counter", n.to_be_bytes());
        batch.put(keyspace, format!("ring{:04}", n % RING), &value);
    }
    db.write(&batch, WriteOptions::default()).unwrap();
}

pub fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

/// Checks that the pairs are those after exactly so many batches, which is returned.
pub fn check_pairs(pairs: impl Iterator<Item = vlsm::Result<(vlsm::Bytes, vlsm::Bytes)>>) -> u64 {
    let pairs: BTreeMap<_, _> = pairs.map(Result::unwrap).collect();
    let Some(last) = pairs.get(&b"counter"[..]) else {
        assert!(pairs.is_empty());
        return 0;
    };
    let last = number(last);
    assert_eq!(pairs.len() as u64, 1 + last.min(RING), "after {last}");
    for n in (last + 1).saturating_sub(RING).max(1)..=last {
        let key = format!("ring{:04}", n % RING);
        assert_eq!(pairs[key.as_bytes()], format!("{n:020}").repeat(10), "{key} after {last}");
    }
    last
}

/// Checks both keyspaces, in one snapshot. Returns the number of batches that it shows.
pub fn check(reader: &Db) -> u64 {
    let snapshot = reader.snapshot();
    let (one, two) = (reader.default_keyspace(), reader.keyspace("other").unwrap());
    let last = check_pairs(snapshot.iter(&one));
    assert_eq!(check_pairs(snapshot.iter(&two)), last);
    assert_eq!(check_pairs(snapshot.iter(&two).rev()), last);
    if last > 0 {
        assert_eq!(number(&reader.get("counter").unwrap().unwrap()), last);
    }
    last
}
