//! Compares the store's own skip list with crossbeam-skiplist, as a memtable: pairs of 24 + 176
//! bytes in random order, 8 MB and 64 MB, 1, 2 and 15 writers, then random gets by one reader.
//!
//! `cargo bench -p vlsm --bench memtable`. Rounds alternate between the two; the medians of the
//! rounds are printed.

use crossbeam_skiplist::SkipMap;
use std::cmp::Reverse;
use std::hint::black_box;
use std::sync::Barrier;
use vlsm::memtable::{ArenaPool, Memtable};
use vlsm_core::{Kind, MemtableId, Seq, Trailer};
use vlsm_disk::Charge;

const VALUE: [u8; 176] = [7; 176];

/// A key of 24 bytes whose first eight are random.
fn key(seq: u64) -> [u8; 24] {
    let mut z = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut key = [b'0'; 24];
    key[..8].copy_from_slice(&(z ^ (z >> 31)).to_be_bytes());
    key[16..].copy_from_slice(&seq.to_be_bytes());
    key
}

/// A map that takes writes from many threads.
trait Map: Sync {
    fn insert(&self, seq: u64);
    fn get(&self, seq: u64) -> bool;
}

struct Own(Memtable);

impl Map for Own {
    fn insert(&self, seq: u64) {
        let seq = Seq(seq);
        let size = Memtable::entry_size(24, VALUE.len(), seq);
        let mut space = self.0.reserve(1, size, seq..=seq).expect("the arena is large enough");
        self.0.insert(&mut space, &key(seq.0), Trailer::new(seq, Kind::Put), &VALUE);
        self.0.end_write();
    }

    fn get(&self, seq: u64) -> bool {
        self.0.get(&key(seq), Seq::MAX).is_some_and(|(_, value)| black_box(value)[0] == 7)
    }
}

type Versioned = (Box<[u8]>, Reverse<u64>);

struct Crossbeam(SkipMap<Versioned, Box<[u8]>>);

impl Map for Crossbeam {
    fn insert(&self, seq: u64) {
        self.0.insert((Box::new(key(seq)), Reverse(seq)), Box::new(VALUE));
    }

    fn get(&self, seq: u64) -> bool {
        let from = (key(seq).into(), Reverse(u64::MAX));
        let found = self.0.range(from..).next();
        found.is_some_and(|entry| entry.key().0[..] == key(seq) && black_box(entry.value())[0] == 7)
    }
}

/// The processor time of this process in nanoseconds. Other programs disturb it little.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds of processor time per insert and per get.
fn measure(map: &dyn Map, count: u64, threads: u64) -> (f64, f64) {
    let barrier = Barrier::new(threads as usize + 1);
    let insert = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    (0..count / threads).for_each(|i| map.insert(1 + i * threads + thread));
                })
            })
            .collect();
        let start = cpu_time();
        barrier.wait();
        handles.into_iter().for_each(|handle| handle.join().expect("no writer panics"));
        (cpu_time() - start) / count as f64
    });
    let gets = 100_000;
    let start = cpu_time();
    let found = (0..gets).filter(|i| map.get(1 + i * 7919 % (count / threads * threads))).count();
    assert_eq!(found as u64, gets);
    (insert, (cpu_time() - start) / gets as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let rounds = 7;
    println!("ns of processor time per operation, medians of {rounds} rounds, {cores} cores");
    println!(
        "{:>9} {:>7} {:>15} {:>15} {:>12} {:>12}",
        "memtable", "writers", "insert", "crossbeam", "get", "crossbeam"
    );
    for megabytes in [8_u64, 64] {
        let count = (megabytes << 20) / 200;
        let pool = ArenaPool::new(
            Memtable::arena_bytes(count as usize * 240),
            1,
            u64::MAX,
            Default::default(),
        );
        assert!(pool.take_spare(u64::MAX).is_none(), "it has none before it is asked");
        for threads in [1, 2, 15] {
            let (mut own, mut other) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                pool.fill(Charge::set);
                let map = Own(Memtable::new(
                    MemtableId(1),
                    pool.take_spare(u64::MAX).expect("just filled"),
                ));
                own.push(measure(&map, count, threads));
                drop(map);
                other.push(measure(&Crossbeam(SkipMap::new()), count, threads));
            }
            let column = |all: &[(f64, f64)], get: bool| {
                median(all.iter().map(|&(i, g)| if get { g } else { i }).collect())
            };
            println!(
                "{megabytes:>6} MB {threads:>7} {:>15.0} {:>15.0} {:>12.0} {:>12.0}",
                column(&own, false),
                column(&other, false),
                column(&own, true),
                column(&other, true),
            );
        }
    }
}
