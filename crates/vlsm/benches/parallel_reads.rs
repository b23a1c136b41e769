//! The time of 64 keys read together, compared with 64 gets, and of seeks over several runs.
//!
//! `cargo bench -p vlsm --bench parallel_reads -- FOLDER`. The store is in the folder, which should
//! be on the device to be measured, and stays there for the next run; without an argument it is a
//! temporary one. Random keys are read with direct I/O and a cache of 1 MB, so nearly each key
//! reads a block, and then with all data in the cache. The two ways alternate, each on keys of its
//! own; the medians are printed. Seeks have one way only: compare them with those of another build
//! on the same store, in turns.

#![allow(clippy::disallowed_methods)] // A program of its own: files and time are the system's.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vlsm::{ByteCount, Db};
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::posix::PosixFs;
use vlsm_testfs::{Fault, FaultFs, Op, Rule};

const KEYS: u64 = 1_000_000;
const TOGETHER: usize = 64;
const ROUNDS: usize = 200;
const SEEKS: usize = 2_000;

fn key(number: u64) -> [u8; 24] {
    let mut key = [b'k'; 24];
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn open(path: &Path, cache: ByteCount, io_threads: usize, slower: Duration) -> Db {
    let mut builder = Db::builder(path);
    if slower > Duration::ZERO {
        let fs = FaultFs::new(Arc::new(PosixFs));
        let delay = Fault::Delay(Arc::new(move || std::thread::sleep(slower)));
        fs.add(Rule::once(Op::Read, ".sst", delay).forever());
        builder = builder.env(RealEnv::with_fs(Arc::new(fs)));
    }
    let builder = builder.configure(|options| {
        options.direct_reads = true;
        options.memory_limit = ByteCount::mib(768);
        options.cache_limit = Some(cache);
        options.io_threads = io_threads;
        // Several levels, each of which may have the next key.
        options.policy.tree.l1_bytes = ByteCount::mib(8);
        options.policy.tree.growth = 4;
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

/// The times of random seeks by several clients, sorted, and the blocks that one reads.
fn seeks(db: &Db, clients: u64) -> (Vec<Duration>, f64) {
    let client = |seed| {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut times = Vec::with_capacity(SEEKS);
        for _ in 0..SEEKS {
            let begun = Instant::now();
            let first = db.range(key(rng.random_range(0..KEYS - 1))..).next();
            times.push(begun.elapsed());
            first.expect("there is a pair").expect("is read");
        }
        times
    };
    let before = db.stats().cache_misses;
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let clients = (0..clients).map(|seed| scope.spawn(move || client(seed)));
        let clients = clients.collect::<Vec<_>>();
        clients.into_iter().flat_map(|client| client.join().expect("ends")).collect()
    });
    times.sort();
    let read = (db.stats().cache_misses - before) as f64 / times.len() as f64;
    (times, read)
}

/// A store of which all levels overlap.
fn fill(path: &Path) {
    let db = open(path, ByteCount::mib(1), 4, Duration::ZERO);
    let (mut rng, mut value) = (SmallRng::seed_from_u64(1), [0; 176]);
    let mut put = |number| {
        rng.fill(&mut value[..]);
        db.put(key(number), value).expect("written");
    };
    // Each key once, not in key order, and some a second time, so that all levels overlap.
    (0..KEYS).for_each(|number| put(number * 7_919 % KEYS));
    (0..KEYS / 8).for_each(|number| put(number * 104_729 % KEYS));
    db.flush().expect("flushed");
    db.wait_idle().expect("idle");
    db.close().expect("closed");
}

fn main() {
    let folder = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let temporary = tempfile::tempdir().expect("a folder for the store");
    let path = folder.map_or(temporary.path().to_owned(), PathBuf::from).join("parallel_reads");
    if !path.exists() {
        fill(&path);
    }
    let (none, half) = (Duration::ZERO, Duration::from_micros(500));
    for (what, cache, io_threads, slower) in [
        ("from the device, 4 I/O threads", ByteCount::mib(1), 4, none),
        ("from the device, 16 I/O threads", ByteCount::mib(1), 16, none),
        ("from a device that takes 0.5 ms more", ByteCount::mib(1), 4, half),
        ("from the cache", ByteCount::mib(400), 4, none),
    ] {
        let db = open(&path, cache, io_threads, slower);
        if cache > ByteCount::mib(1) {
            assert_eq!(db.iter().count() as u64, KEYS);
        }
        let (alone, together, blocks) = compare(&db);
        let ratio = alone.as_secs_f64() / together.as_secs_f64();
        println!(
            "{what}: {TOGETHER} gets {alone:?}, together {together:?} ({ratio:.1} times as fast, \
             {blocks} blocks read)"
        );
        for clients in [1, 8] {
            let (times, read) = seeks(&db, clients);
            let (middle, rare) = (times[times.len() / 2], times[times.len() * 99 / 100]);
            println!(
                "{what}: {clients} clients seek in {middle:?} (median), {rare:?} (P99), {read:.1} \
                 blocks read"
            );
        }
        db.close().expect("closed");
    }
}
