//! The cost of a transaction, compared with the batch that it commits.
//!
//! `cargo bench -p vlsm --bench transactions`. One thread writes batches of four random keys, and
//! transactions with the same writes. Then it also reads each key before it writes it: gets and a
//! batch, and a transaction. Batches and transactions alternate in rounds over one store that fits
//! in memory; the ratio is that of adjacent rounds, and its median is printed. Then two and four
//! threads run transactions that read and write, on keys of their own, where no conflict is
//! possible, and on the same hundred keys; the medians of as many rounds are printed.

#![allow(clippy::disallowed_methods)] // A program of its own: files and time are the system's.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ops::Range;
use std::time::{Duration, Instant};
use vlsm::{Batch, Db, Durability, WriteOptions};

const KEYS: u64 = 200_000;
const ROUNDS: usize = 7;
const SLICE: Duration = Duration::from_millis(700);
/// The number of keys of a transaction.
const WIDTH: usize = 4;

fn key(number: u64) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The calls of `work` per second in a slice.
fn rate(mut work: impl FnMut(&mut SmallRng), seed: u64) -> f64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (begun, mut count) = (Instant::now(), 0_u64);
    while begun.elapsed() < SLICE {
        for _ in 0..16 {
            work(&mut rng);
        }
        count += 16;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let db = Db::open(folder.path().join("store")).expect("a new store");
    let main = db.default_keyspace();
    let (value, options) = ([7_u8; 176], WriteOptions::durability(Durability::Buffered));
    for number in 0..KEYS {
        main.put(key(number), value).expect("takes writes");
    }
    db.wait_idle().expect("becomes idle");
    let batch = |rng: &mut SmallRng, reads: bool| {
        let mut batch = Batch::new();
        for _ in 0..WIDTH {
            let key = key(rng.random_range(0..KEYS));
            if reads {
                main.get(key).expect("can be read");
            }
            batch.put(&main, key, value);
        }
        db.write(&batch, options).expect("takes writes");
    };
    let transaction = |rng: &mut SmallRng, reads: bool, keys: Range<u64>| {
        let mut transaction = db.transaction();
        for _ in 0..WIDTH {
            let key = key(rng.random_range(keys.clone()));
            if reads {
                transaction.get(&main, key).expect("can be read");
            }
            transaction.put(&main, key, value).expect("is valid");
        }
        transaction.commit_with(options).is_ok()
    };
    let mut rates: [Vec<f64>; 4] = Default::default();
    for round in 0..ROUNDS as u64 {
        for reads in [false, true] {
            let at = 2 * usize::from(reads);
            rates[at].push(rate(|rng| batch(rng, reads), round));
            let commit = |rng: &mut SmallRng| assert!(transaction(rng, reads, 0..KEYS));
            rates[at + 1].push(rate(commit, round));
        }
    }
    for (what, at) in [("four writes", 0), ("four reads and writes", 2)] {
        let pairs = rates[at + 1].iter().zip(&rates[at]);
        println!(
            "{what}: {:.0} transactions a second, {:.2} of {:.0} batches",
            median(rates[at + 1].clone()),
            median(pairs.map(|(transactions, batches)| transactions / batches).collect()),
            median(rates[at].clone()),
        );
    }
    for threads in [2, 4] {
        for shared in [false, true] {
            let one = |_| together(threads, shared, &|rng, keys| transaction(rng, true, keys));
            let rounds: Vec<_> = (0..ROUNDS).map(one).collect();
            println!(
                "{threads} threads, {}: {:.0} commits a second, {:.2} % conflicts",
                if shared { "the same 100 keys" } else { "keys of their own" },
                median(rounds.iter().map(|round| round.0).collect()),
                median(rounds.iter().map(|round| round.1).collect()),
            );
        }
    }
}

/// Runs transactions of several threads at once, on keys of their own or on the same hundred.
/// Returns the commits per second, and the conflicts in percent.
fn together(
    threads: u64,
    shared: bool,
    transaction: &(dyn Fn(&mut SmallRng, Range<u64>) -> bool + Sync),
) -> (f64, f64) {
    let run = |thread: u64| {
        let keys = match shared {
            true => 0..100,
            false => thread * KEYS / threads..(thread + 1) * KEYS / threads,
        };
        let (mut done, mut tried) = (0_u64, 0_u64);
        let each = |rng: &mut SmallRng| {
            tried += 1;
            done += u64::from(transaction(rng, keys.clone()));
        };
        let rate = rate(each, thread);
        (rate * done as f64 / tried as f64, tried - done, tried)
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let one = |thread| scope.spawn(move || run(thread));
        let handles: Vec<_> = (0..threads).map(one).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    let (conflicts, tried) = all.iter().fold((0, 0), |sum, one| (sum.0 + one.1, sum.1 + one.2));
    (all.iter().map(|one| one.0).sum(), 100.0 * conflicts as f64 / tried as f64)
}
