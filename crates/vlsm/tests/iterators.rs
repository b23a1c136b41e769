//! Iterators that turn: next after prev, prev after next, seeks after either, at a snapshot while
//! the store is overwritten, flushed and compacted under them.
//!
//! A line of [`TURNS`] is the life of one iterator, a word a step. What it must show is computed
//! from a map, with two positions that meet. `crates/sim/src/model.rs` does the same at random.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use vlsm::{Batch, ByteCount, Bytes, Db, Iter, Keyspace, KeyspaceOptions};
use vlsm::{PairRef, Snapshot, WriteOptions};

/// `>` next, `<` next_back, `>9` nine of them, `@250` seek to k250; `overwrite`, `flush` and
/// `compact` happen to the store.
const TURNS: &str = "
    > < > < > < >3 <3 > <
    < > < @150 < > @040 > < @280 > <
    >9 @020 >2 @019 >2 @150 < >2 @000 >
    # Onto keys that are gone, one by one and as ranges, and onto merged ones.
    @100 > < @129 > @130 > @131 > < @200 >2 @209 > @060 >3 @061 >
    # The ends meet, and a seek parts them again.
    @288 >9 > < @010 > < > <
    >300 < > @020 > < @285 > > > > > @285 >9 < @011 <
    @999 > < @100 > <
    >5 <300 > @030 >2 <300 < @080 > <9 >9
    @150 >3 <300 @090 > <2 >300 < @150 > <300
    # The store changes under it, between every two turns.
    > < overwrite > < flush > < compact > < @150 > < overwrite < > compact > < @020 > < flush < >
    @140 > overwrite flush > < compact @139 > @131 > < overwrite compact @010 >9 <9 @200 >9
    overwrite >150 compact <20 > < flush @100 >5 < compact >300
    <150 overwrite compact >5 < flush @150 <5 > @010 <300 >
";

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn key(n: u64) -> Vec<u8> {
    format!("k{n:03}").into_bytes()
}

fn open(folder: &std::path::Path) -> (Db, Keyspace) {
    let builder = Db::builder(folder.join("store")).configure(|options| {
        let policy = &mut options.policy;
        policy.tree.memtable_bytes = ByteCount::kib(16);
        policy.tree.sst_max = ByteCount::kib(4);
        policy.shapes.vlsm.sst_min = ByteCount::kib(1);
        policy.tree.l1_bytes = ByteCount::kib(8);
        policy.shapes.vlsm.phi = 2;
        options.block_bytes = ByteCount(512);
    });
    let db = builder.open().unwrap();
    let options = KeyspaceOptions::splits(["k077", "k205"]).merge_operator("append");
    let words = db.create_keyspace("words", options).unwrap();
    (db, words)
}

/// Some of everything, in levels, L0 and memtables, and what it adds up to within k010 and k289.
fn fill(db: &Db, words: &Keyspace) -> Pairs {
    let mut map = BTreeMap::new();
    for n in 0..300 {
        words.put(key(n), format!("{n}").repeat(20)).unwrap();
        map.insert(key(n), format!("{n}").repeat(20).into_bytes());
    }
    words.compact_range(..).unwrap();
    let erase = |map: &mut BTreeMap<_, _>, from, to| {
        words.delete_range(key(from)..key(to)).unwrap();
        map.retain(|k: &Vec<u8>, _: &mut Vec<u8>| !(key(from)..key(to)).contains(k));
    };
    for round in 0..3_u64 {
        erase(&mut map, 100 + round, 130 - round);
        for n in (round..300).step_by(7) {
            words.merge(key(n), "+").unwrap();
            map.entry(key(n)).or_default().push(b'+');
        }
        for n in (round * 3..300).step_by(20) {
            words.delete(key(n)).unwrap();
            map.remove(&key(n));
        }
        if round < 2 {
            db.flush().unwrap();
        }
    }
    erase(&mut map, 200, 210);
    map.range(key(10)..key(290)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// One iterator, and what it must show.
struct Turning {
    iter: Iter,
    pairs: Pairs,
    /// The next pair from either end: the front's, and the one behind the back's.
    at: (usize, usize),
}

impl Turning {
    fn new(words: &Keyspace, snapshot: &Snapshot, pairs: &Pairs) -> Self {
        let iter = snapshot.range(words, key(10)..key(290));
        Self { iter, pairs: pairs.clone(), at: (0, pairs.len()) }
    }

    fn step(&mut self, word: &str, line: &str) {
        let (turn, rest) = word.split_at(1);
        if turn == "@" {
            let key = key(rest.parse().unwrap());
            self.iter.seek(&key);
            self.at.0 = self.pairs.partition_point(|pair| pair.0 < key);
            return;
        }
        for _ in 0..rest.parse().unwrap_or(1) {
            let (front, back) = self.at;
            // Half of the pairs are lent.
            let lent = (front + back).is_multiple_of(2);
            let kept = |pair: PairRef<'_>| (pair.key().to_vec(), pair.value().to_vec());
            let owned = |(key, value): (Bytes, Bytes)| (key.to_vec(), value.to_vec());
            let found = match (turn, lent) {
                (">", true) => self.iter.next_ref().map(|pair| pair.map(kept)),
                (">", false) => self.iter.next().map(|pair| pair.map(owned)),
                (_, true) => self.iter.next_back_ref().map(|pair| pair.map(kept)),
                (_, false) => self.iter.next_back().map(|pair| pair.map(owned)),
            };
            let expected = match (turn, front < back) {
                (">", more) => more.then_some(front),
                (_, more) => more.then(|| back - 1),
            };
            match (turn, expected) {
                (_, None) => {}
                (">", Some(_)) => self.at.0 += 1,
                (_, Some(_)) => self.at.1 -= 1,
            }
            let found = found.transpose().unwrap();
            let expected = expected.map(|index| self.pairs[index].clone());
            assert_eq!(found, expected, "{word:?} in {line:?}");
        }
    }
}

#[test]
fn an_iterator_may_turn_at_any_time() {
    let folder = tempfile::tempdir().unwrap();
    let (db, words) = open(folder.path());
    let pairs = fill(&db, &words);
    assert!(pairs.iter().any(|pair| pair.1.ends_with(b"+")) && pairs.len() < 280 - 30 - 10);
    let snapshot = db.snapshot();
    for line in TURNS.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut turning = Turning::new(&words, &snapshot, &pairs);
        for (word, round) in line.split_whitespace().zip(0_u64..) {
            match word {
                "overwrite" => {
                    let mut batch = Batch::new();
                    batch.delete_range(&words, key(round * 9)..key(round * 20));
                    (0..300).for_each(|n| batch.merge(&words, key(n), "later"));
                    batch.delete_range(&words, key(140)..key(150));
                    (0..300).step_by(3).for_each(|n| batch.put(&words, key(n), "anew"));
                    db.write(&batch, WriteOptions::default()).unwrap();
                }
                "flush" => db.flush().unwrap(),
                "compact" => words.compact_range(..).unwrap(),
                turn => turning.step(turn, line),
            }
        }
    }
    db.close().unwrap();
}
