//! Reads of hot keys while compactions rewrite all data, with `cache_rewrites` and without it.
//!
//! `cargo bench -p vlsm --bench warm_cache [-- FOLDER]`. The store is created in the folder, which
//! should be on the device to be measured; without an argument it is in the folder for temporary
//! files. One thread updates random keys of all at a fixed rate. Another one reads random keys of a
//! twentieth of the key range, which the cache has room for, with a short pause after each read.
//! Reads are direct, so a block that is not in the cache costs a read of the device. The two ways
//! alternate on the same store. For each round the program prints percentiles of the reads, and the
//! blocks that were read and rewritten.

#![allow(clippy::disallowed_methods)] // A program of its own: files and time are the system's.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use vlsm::{ByteCount, Db, Durability};

const KEYS: u64 = 4_000_000;
const HOT: Range<u64> = 1_000_000..1_200_000;
const UPDATES_PER_SECOND: f64 = 60_000.0;
const PAUSE: Duration = Duration::from_micros(50);
const ROUNDS: usize = 3;
const LENGTH: Duration = Duration::from_secs(30);

fn key(number: u64) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A value that cannot be compressed.
fn value(rng: &mut SmallRng) -> [u8; 176] {
    let mut value = [0; 176];
    rng.fill(&mut value[..]);
    value
}

fn open(path: &Path, cache_rewrites: bool) -> Db {
    let builder = Db::builder(path).configure(|options| {
        options.direct_reads = true;
        options.memory_limit = ByteCount::mib(256);
        options.durability = Durability::Lazy;
        options.policy.tree.cache_rewrites = cache_rewrites;
    });
    builder.open().expect("the store opens")
}

/// Updates random keys at the fixed rate until `end` is set.
fn update(db: &Db, end: &AtomicBool) {
    let (mut rng, begun) = (SmallRng::seed_from_u64(1), Instant::now());
    let mut done = 0.0;
    while !end.load(Relaxed) {
        while done < begun.elapsed().as_secs_f64() * UPDATES_PER_SECOND {
            let number = rng.random_range(0..KEYS);
            db.put(key(number), value(&mut rng)).expect("written");
            done += 1.0;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads hot keys until `end` is set. Returns the time of each read.
fn read(db: &Db, end: &AtomicBool) -> Vec<Duration> {
    let (mut rng, mut times) = (SmallRng::seed_from_u64(2), Vec::new());
    while !end.load(Relaxed) {
        let key = key(rng.random_range(HOT));
        let begun = Instant::now();
        assert!(db.get(key).expect("is read").is_some());
        times.push(begun.elapsed());
        std::thread::sleep(PAUSE);
    }
    times
}

fn round(path: &Path, cache_rewrites: bool) {
    let db = open(path, cache_rewrites);
    for number in HOT {
        assert!(db.get(key(number)).expect("is read").is_some());
    }
    let (before, end) = (db.stats(), AtomicBool::new(false));
    let mut times = std::thread::scope(|scope| {
        scope.spawn(|| update(&db, &end));
        let reads = scope.spawn(|| read(&db, &end));
        std::thread::sleep(LENGTH);
        end.store(true, Relaxed);
        reads.join().expect("reads")
    });
    let after = db.stats();
    db.wait_idle().expect("idle");
    db.close().expect("closed");
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
    println!(
        "cache_rewrites = {cache_rewrites:<5}  {} reads: P50 {:.0} µs, P90 {:.0}, P99 {:.0}, \
         P99.9 {:.0}; {} blocks read, {} rewritten in the cache",
        times.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        after.cache_misses - before.cache_misses,
        after.cache_rewrites - before.cache_rewrites,
    );
}

fn main() {
    let folder = match std::env::args().skip(1).find(|word| !word.starts_with("--")) {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder for the store");
    let path = folder.path().join("store");
    let (db, mut rng) = (open(&path, false), SmallRng::seed_from_u64(0));
    // Puts each key once, not in key order.
    for number in 0..KEYS {
        db.put(key(number * 7_919 % KEYS), value(&mut rng)).expect("written");
    }
    db.flush().expect("flushed");
    db.wait_idle().expect("idle");
    db.close().expect("closed");
    for _ in 0..ROUNDS {
        round(&path, false);
        round(&path, true);
    }
}
