//! The time of gets and scans where all data is in memory.
//!
//! `cargo bench -p vlsm --bench reads [-- NAMES]`. One thread. Two stores of 200,000 pairs of 24 +
//! 176 bytes: one with all of them in its last level, and one with a quarter of them again in a
//! memtable and in each of three runs of L0. Their blocks are in the cache. Of each store it
//! measures gets of random keys, walks from end to end in both directions, by pairs that are lent
//! and by owned ones, and scans of fifty pairs and of one pair from a random key on, as in YCSB E.
//! These take turns. It prints the processor time of the thread in nanoseconds for a pair: the
//! fastest round and the lower quartile of the rounds. To compare two versions, build the program
//! of each and run the two in turns.

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use vlsm::{ByteCount, Db, Durability, Keyspace, WriteOptions};

const KEYS: u64 = 200_000;
const ROUNDS: u64 = 15;
const VALUE: [u8; 176] = [7; 176];
/// The pairs of a short scan, and the number of these scans in a round.
const SHORT: (usize, usize) = (50, 4_000);

/// The gets of a round.
const GETS: usize = 40_000;

/// A key of YCSB's form: neighbours in the store differ after the word and some digits.
fn key(number: u64) -> [u8; 24] {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("user{hash:020}").into_bytes().try_into().expect("24 bytes")
}

/// Puts every so many keys, from the first of them on.
fn put(main: &Keyspace, first: usize, step: usize) {
    let options = WriteOptions::durability(Durability::Lazy);
    for number in (first as u64..KEYS).step_by(step) {
        main.put_with(key(number), VALUE, options).expect("takes writes");
    }
}

fn store(path: &Path, layered: bool) -> Db {
    let configure = |options: &mut vlsm::Options| {
        options.policy.tree.memtable_bytes = ByteCount::mib(64);
        options.memory_limit = ByteCount::mib(1024);
    };
    let db = Db::builder(path).configure(configure).open().expect("a new store");
    let main = db.default_keyspace();
    put(&main, 0, 1);
    db.flush().expect("can be flushed");
    main.compact_range(..).expect("can be compacted");
    if layered {
        for first in 0..3 {
            put(&main, first, 4);
            db.flush().expect("can be flushed");
        }
        put(&main, 3, 4);
    }
    assert_eq!(main.len().expect("reads"), KEYS);
    db
}

/// The processor time of this thread, in nanoseconds.
fn used() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// A kind of read: its name, and a round of it with a seed, which returns the number of its pairs.
type Read = (&'static str, fn(&Keyspace, u64) -> usize);

const READS: [Read; 6] = [
    ("forward, lent", |main, _| {
        let (mut iter, mut pairs) = (main.iter(), 0);
        while let Some(pair) = iter.next_ref() {
            pairs += usize::from(pair.expect("reads").value().len() == VALUE.len());
        }
        pairs
    }),
    ("forward", |main, _| {
        let owned = |pair: vlsm::Result<(Bytes, Bytes)>| pair.expect("reads").1.len();
        main.iter().map(owned).filter(|len| *len == VALUE.len()).count()
    }),
    ("backward, lent", |main, _| {
        let (mut iter, mut pairs) = (main.iter(), 0);
        while let Some(pair) = iter.next_back_ref() {
            pairs += usize::from(pair.expect("reads").value().len() == VALUE.len());
        }
        pairs
    }),
    ("fifty, lent", |main, seed| {
        let (mut rng, mut pairs) = (SmallRng::seed_from_u64(seed), 0);
        for _ in 0..SHORT.1 {
            let mut iter = main.range(key(rng.random_range(0..KEYS))..);
            for _ in 0..SHORT.0 {
                let Some(pair) = iter.next_ref() else { break };
                pairs += usize::from(pair.expect("reads").value().len() == VALUE.len());
            }
        }
        pairs
    }),
    ("get", |main, seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut get = || main.get(key(rng.random_range(0..KEYS))).expect("reads");
        (0..GETS).filter(|_| get().is_some()).count()
    }),
    ("one", |main, seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut first = || main.range(key(rng.random_range(0..KEYS))..).next();
        (0..SHORT.1).filter(|_| first().is_some()).count()
    }),
];

fn main() {
    let asked: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let is_asked = |read: &str| asked.is_empty() || asked.iter().any(|name| name == read);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    for (name, layered) in [("one level", false), ("a memtable, three runs, a level", true)] {
        let db = store(&folder.path().join(name), layered);
        let main = db.default_keyspace();
        let mut costs: [Vec<f64>; READS.len()] = Default::default();
        for round in 0..ROUNDS {
            for ((name, read), costs) in READS.iter().zip(&mut costs) {
                if !is_asked(name) {
                    continue;
                }
                let begun = used();
                let pairs = read(&main, round);
                costs.push((used() - begun) / pairs as f64);
            }
        }
        println!("{name}");
        for ((read, _), mut costs) in READS.iter().zip(costs).filter(|(read, _)| is_asked(read.0)) {
            costs.sort_by(f64::total_cmp);
            println!("  {read:<16} {:>9.1} ns {:>9.1} ns", costs[0], costs[costs.len() / 4]);
        }
        db.close().expect("closes");
    }
}
