//! Measurements of merges in memory, which run only on request.
//!
//! - `FIGURES=time cargo test --release -p vlsm --lib merge_speed -- --nocapture`: the time of each
//!   load;
//! - `FIGURES=LOAD` with the name of one load, under
//!   `valgrind --tool=callgrind --fair-sched=yes --toggle-collect='*Merge*step*'`: the instructions
//!   of one merge of that load. Valgrind runs the program that
//!   `cargo test --release -p vlsm --lib --no-run` prints, with the arguments
//!   `merge_speed --test-threads=1`.
//!
//! Both need `CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16` in the environment: with the 4 units of a
//! release the compiler takes more than 24 GB for the tests of the crate.

use super::*;
use crate::memtable::{Arena, Memtable};
use std::time::Instant;
use vlsm_core::MemtableId;
use vlsm_disk::sst::Compression;

/// The number of pairs of a load, for any number of runs.
const PAIRS: u64 = 160_000;

/// The inputs of a merge.
struct Load {
    name: &'static str,
    /// The share of each run in the pairs.
    runs: &'static [u64],
    order: Order,
    compression: Compression,
    /// Whether the runs are memtables.
    memory: bool,
}

/// The distribution of the keys among the runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Each key belongs to a run at random.
    Random,
    /// Each group of a hundred keys belongs to a run at random.
    Groups,
}

const fn load(name: &'static str, runs: &'static [u64], order: Order) -> Load {
    Load { name, runs, order, compression: Compression::None, memory: false }
}

const LOADS: [Load; 7] = [
    Load { memory: true, ..load("flush", &[1], Order::Random) },
    load("one", &[1], Order::Random),
    load("two", &[1, 1], Order::Random),
    load("eight", &[1; 8], Order::Random),
    load("level", &[1, 8], Order::Random),
    load("groups", &[1, 1], Order::Groups),
    Load { compression: Compression::Lz4, ..load("lz4", &[1, 1], Order::Random) },
];

fn scatter(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The entries of each run: keys of 24 bytes, values of 176, half of each value random.
fn entries(load: &Load) -> Vec<Vec<Entry>> {
    let total: u64 = load.runs.iter().sum();
    let mut runs = vec![Vec::new(); load.runs.len()];
    for n in 0..PAIRS {
        let (number, group) = match load.order {
            Order::Random => (scatter(n), n),
            Order::Groups => (n, n / 100),
        };
        let mut share = (scatter(scatter(group) ^ (scatter(group) >> 29)) >> 32) % total;
        let run = load.runs.iter().position(|&part| {
            let found = share < part;
            share = share.wrapping_sub(part);
            found
        });
        let mut value = vec![n as u8; 176];
        for at in (0..88).step_by(8) {
            value[at..at + 8].copy_from_slice(&scatter(n ^ scatter(at as u64 + 1)).to_le_bytes());
        }
        let key = format!("user{number:020}").into_bytes();
        runs[run.expect("a share")].push((key, Trailer::new(Seq(n), Kind::Put), value));
    }
    runs.iter_mut().for_each(|run| run.sort());
    runs
}

/// A memtable into which the entries were written in the order of their sequence numbers.
fn memtable(mut run: Vec<Entry>) -> Arc<Memtable> {
    run.sort_by_key(|(_, trailer, _)| trailer.seq());
    let size =
        |(key, trailer, value): &Entry| Memtable::entry_size(key.len(), value.len(), trailer.seq());
    let bytes: usize = run.iter().map(size).sum();
    let memtable = Memtable::new(MemtableId(1), Arena::new(2 * bytes));
    for entry @ (key, trailer, value) in &run {
        let seq = trailer.seq();
        let mut space = memtable.reserve(1, size(entry), seq..=seq).expect("room");
        memtable.insert(&mut space, key, *trailer, value);
        memtable.end_write();
    }
    memtable.seal();
    Arc::new(memtable)
}

#[allow(clippy::disallowed_methods)]
fn merge_once(load: &Load, options: SstOptions) -> (u64, Duration) {
    let pool = pool();
    let source = |run: Vec<Entry>| {
        if load.memory {
            return Source::memory(memtable(run).cursor().fetching());
        }
        let reader = sst_with(&run, options);
        let range = reader.summary().clone().into_meta(FileNumber(1)).range();
        Source::tables(Scanner::new(vec![(reader, range)], READ_LEN, READ_DEPTH))
    };
    let sources = entries(load).into_iter().map(source).collect();
    // Lets the allocator join freed memory now, not during the merge.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(64 << 10)));
    let mut uid = 0;
    let make_uid = move || {
        uid += 1;
        FileUid(uid)
    };
    let rule = CutRule::Size { sst: Bytes::mib(8) };
    let outputs = Outputs::new(options, Cutter::new(rule, Tables::default()), make_uid);
    let mut merge = Merge::new(sources, everything(), outputs).expect("sound");
    let mut ran = Duration::ZERO;
    loop {
        let start = Instant::now();
        let step = merge.step(pool.ranked(Rank::Later), 256 << 10).expect("sound");
        while let Some(request) = merge.outputs().next_write() {
            merge.outputs().written(request.buf);
        }
        match step {
            Step::Done => return (merge.counters().entries_in, ran),
            Step::Blocked => std::thread::sleep(Duration::from_micros(100)),
            Step::Ran(_) => ran += start.elapsed(),
        }
    }
}

#[test]
fn merge_speed() {
    let Ok(figures) = std::env::var("FIGURES") else { return };
    let timed = figures == "time";
    let loads = LOADS.iter().filter(|load| timed || load.name == figures);
    for load in loads {
        let options = SstOptions { compression: load.compression, ..SstOptions::default() };
        for _ in 0..if timed { 3 } else { 1 } {
            let (count, time) = merge_once(load, options);
            assert_eq!(count, PAIRS);
            let each = time.as_secs_f64() / PAIRS as f64;
            let speed = 200.0 / each / 1e6;
            println!("{}: {:.0} ns each, {speed:.0} MB/s", load.name, each * 1e9);
        }
    }
}
