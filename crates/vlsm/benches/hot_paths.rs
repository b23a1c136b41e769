//! The time of one operation on the paths where every nanosecond counts, to measure the cost of a
//! change.
//!
//! `cargo bench -p vlsm --bench hot_paths`. One thread. Gets of random keys and iterators that read
//! one pair, over a memtable that nothing changes meanwhile; then puts with the durability `Lazy`
//! and `Buffered` into a store of their own. The paths run in short rounds, in turns, and the
//! processor time of the thread is measured, so other programs disturb little. It prints the
//! fastest round and the lower quartile of the rounds, in nanoseconds for one operation. To compare
//! two versions, build the program of each and run the two in turns: the noise of one run is larger
//! than typical differences.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use vlsm::{Db, Durability, Keyspace, WriteOptions};

const KEYS: u64 = 20_000;
const ROUNDS: u64 = 150;
/// The operations of a round.
const COUNT: u64 = 5_000;
const VALUE: [u8; 100] = [7; 100];

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The processor time of this thread, in nanoseconds.
fn used() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The nanoseconds of one call of `work`, averaged over a round.
fn cost(seed: u64, work: &dyn Fn(u64)) -> f64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let begun = used();
    for _ in 0..COUNT {
        work(rng.random_range(0..KEYS));
    }
    (used() - begun) / COUNT as f64
}

fn put(main: &Keyspace, number: u64, durability: Durability) {
    let options = WriteOptions::durability(durability);
    main.put_with(key(number), VALUE, options).expect("takes writes");
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let open = |name| Db::open(folder.path().join(name)).expect("a new store");
    let (still, written) = (open("still"), open("written"));
    let (main, other) = (still.default_keyspace(), written.default_keyspace());
    for number in 0..KEYS {
        put(&main, number, Durability::Lazy);
    }
    type Work<'a> = (&'a str, Box<dyn Fn(u64) + 'a>);
    let works: [Work<'_>; 4] = [
        ("get", Box::new(|number| assert!(main.get(key(number)).expect("reads").is_some()))),
        ("scan of one", Box::new(|number| assert!(main.range(key(number)..).next().is_some()))),
        ("put, Lazy", Box::new(|number| put(&other, number, Durability::Lazy))),
        ("put, Buffered", Box::new(|number| put(&other, number, Durability::Buffered))),
    ];
    let mut costs: [Vec<f64>; 4] = Default::default();
    for round in 0..ROUNDS {
        for ((_, work), costs) in works.iter().zip(&mut costs) {
            costs.push(cost(round, work));
        }
    }
    for ((name, _), mut costs) in works.iter().zip(costs) {
        costs.sort_by(f64::total_cmp);
        println!("{name:<14} {:>9.1} ns {:>9.1} ns", costs[0], costs[costs.len() / 4]);
    }
    drop(works);
    still.close().expect("closes");
    written.close().expect("closes");
}
