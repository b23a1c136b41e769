//! The time of 64 keys read together, compared with 64 gets.
//!
//! `cargo bench -p vlsm --bench multi_get -- FOLDER`. The store is created in the folder, which
//! should be on the device to be measured; without an argument it is in the folder for temporary
//! files. Random keys are read with direct I/O and a cache of 1 MB, so nearly each key reads a
//! block, and then with all data in the cache. The two ways alternate, each on keys of its own; the
//! medians are printed.

#![allow(clippy::disallowed_methods)] // A program of its own: files and time are the system's.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::time::{Duration, Instant};
use vlsm::{ByteCount, Db};

const KEYS: u64 = 1_000_000;
const TOGETHER: usize = 64;
const ROUNDS: usize = 300;

fn key(number: u64) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn open(path: &Path, cache: ByteCount, io_threads: usize) -> Db {
    let builder = Db::builder(path).configure(|options| {
        options.direct_reads = true;
        options.memory_limit = ByteCount::mib(768);
        options.cache_limit = Some(cache);
        options.io_threads = io_threads;
    });
    builder.open().expect("the store opens")
}

/// The medians of both ways, and the blocks that a round reads together.
fn compare(db: &Db) -> (Duration, Duration, u64) {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut keys = || (0..TOGETHER).map(|_| key(rng.random_range(0..KEYS))).collect::<Vec<_>>();
    let (mut alone, mut together, mut blocks) = (Vec::new(), Vec::new(), 0);
    // The first rounds open files.
    for round in 0..ROUNDS + 50 {
        let (first, second) = (keys(), keys());
        let begun = Instant::now();
        for key in &first {
            assert!(db.get(key).expect("is read").is_some());
        }
        let took = begun.elapsed();
        let before = db.stats().cache_misses;
        let begun = Instant::now();
        let found = db.multi_get(&second);
        let took_together = begun.elapsed();
        assert!(found.into_iter().all(|found| found.expect("is read").is_some()));
        if round >= 50 {
            alone.push(took);
            together.push(took_together);
            blocks += db.stats().cache_misses - before;
        }
    }
    (median(alone), median(together), blocks / ROUNDS as u64)
}

fn main() {
    let folder = match std::env::args().skip(1).find(|word| !word.starts_with("--")) {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder for the store");
    let path = folder.path().join("store");
    let db = open(&path, ByteCount::mib(1), 4);
    // Puts each key once, not in key order.
    for number in 0..KEYS {
        db.put(key(number * 7_919 % KEYS), [7; 176]).expect("written");
    }
    db.flush().expect("flushed");
    db.wait_idle().expect("idle");
    db.close().expect("closed");
    for (what, cache, io_threads) in [
        ("from the device, 4 I/O threads", ByteCount::mib(1), 4),
        ("from the device, 16 I/O threads", ByteCount::mib(1), 16),
        ("from the cache", ByteCount::mib(400), 4),
    ] {
        let db = open(&path, cache, io_threads);
        if cache > ByteCount::mib(1) {
            assert_eq!(db.iter().count() as u64, KEYS);
        }
        let (alone, together, blocks) = compare(&db);
        let ratio = alone.as_secs_f64() / together.as_secs_f64();
        println!(
            "{what}: {TOGETHER} gets {alone:?}, together {together:?} ({ratio:.1} times as fast, \
             {blocks} blocks read)"
        );
        db.close().expect("closed");
    }
}
