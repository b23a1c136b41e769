//! Blocks that compactions rewrite stay in the block cache if they were there, and only those. The
//! indexes and filters of new tables stay in memory, too.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::ops::Range;
use std::path::Path;
use vlsm::Db;

const KEYS: u32 = 40_000;
/// The keys that are read.
const HOT: Range<u32> = 10_000..20_000;

fn key(number: u32) -> String {
    format!("key{number:06}")
}

/// Blocks of random values are stored as they are, blocks of others are compressed.
#[derive(Clone, Copy)]
enum Values {
    Random,
    Repeated,
}

/// A store whose SSTs are in one level.
struct World {
    db: Db,
    values: Values,
    /// The number of times that all was rewritten.
    rewritten: u32,
}

impl World {
    fn new(path: &Path, values: Values, cache_rewrites: bool) -> Self {
        let configure = |options: &mut vlsm::Options| {
            options.policy.tree.cache_rewrites = cache_rewrites;
        };
        let db = Db::builder(path).configure(configure).open().unwrap();
        let world = Self { db, values, rewritten: 0 };
        (0..KEYS).for_each(|number| world.put(number));
        world.compact();
        world
    }

    fn value(&self, number: u32, version: u32) -> [u8; 100] {
        let mut value = [number as u8; 100];
        if let Values::Random = self.values {
            SmallRng::seed_from_u64(u64::from(number)).fill(&mut value[..]);
        }
        value[..4].copy_from_slice(&version.to_le_bytes());
        value
    }

    /// The value that a key had after all was rewritten so many times.
    fn expected(&self, number: u32, rewritten: u32) -> [u8; 100] {
        self.value(number, if number.is_multiple_of(100) { rewritten } else { 0 })
    }

    fn put(&self, number: u32) {
        self.db.put(key(number), self.expected(number, self.rewritten)).unwrap();
    }

    fn compact(&self) {
        self.db.default_keyspace().compact_range(..).unwrap();
        self.db.wait_idle().unwrap();
    }

    /// Changes a key in each hundred, and rewrites all SSTs. Returns the number of blocks that the
    /// cache kept.
    fn rewrite(&mut self) -> u64 {
        let before = self.db.stats().cache_rewrites;
        self.rewritten += 1;
        (0..KEYS).step_by(100).for_each(|number| self.put(number));
        self.compact();
        self.db.stats().cache_rewrites - before
    }

    /// Reads these keys, and returns the number of blocks that were read from files.
    fn read(&self, numbers: Range<u32>) -> u64 {
        let before = self.db.stats().cache_misses;
        for number in numbers {
            let found = self.db.get(key(number)).unwrap().unwrap();
            assert_eq!(found[..], self.expected(number, self.rewritten), "{number}");
        }
        self.db.stats().cache_misses - before
    }

    fn cached(&self) -> f64 {
        self.db.stats().memory.cache.0 as f64
    }
}

/// Whether two numbers of blocks are the same, except for some at the ends of ranges and files.
fn about(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= 4 + b / 50
}

#[test]
fn what_was_cached_stays_cached() {
    for values in [Values::Random, Values::Repeated] {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::new(&folder.path().join("store"), values, true);
        let blocks = world.read(HOT);
        assert!(blocks > 100, "{blocks} blocks");
        assert_eq!(world.read(HOT), 0);
        let bytes = world.cached();
        for _ in 0..3 {
            let kept = world.rewrite();
            assert!(about(kept, blocks), "{kept} blocks kept of {blocks}");
            let misses = world.read(HOT);
            assert!(misses <= 4, "{misses} blocks of {blocks} read again");
            // The old blocks are gone.
            let grown = world.cached() / bytes;
            assert!(grown < 1.05, "the cache has {grown} of the bytes that it had");
        }
        let cold = world.read(25_000..35_000);
        assert!(about(cold, blocks), "{cold} blocks of {blocks} were not cached");
        world.db.close().unwrap();
    }
}

#[test]
fn without_the_option_all_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(&folder.path().join("store"), Values::Random, false);
    let blocks = world.read(HOT);
    assert_eq!(world.rewrite(), 0);
    let again = world.read(HOT);
    assert!(about(again, blocks), "{again} blocks of {blocks} read again");
    world.db.close().unwrap();
}

/// The indexes and filters of new tables stay in memory when a job has written them.
#[test]
fn nothing_that_was_just_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(&folder.path().join("store"), Values::Random, true);
    for _ in 0..3 {
        world.rewrite();
        world.read(HOT);
        let stats = world.db.stats();
        assert!(stats.memory.readers.0 > 0, "they are in memory");
        assert_eq!(stats.open_bytes.0, 0, "none is read");
    }
    world.db.close().unwrap();
}

/// The cache forgets the old blocks although the snapshot needs them.
#[test]
fn a_snapshot_reads_old_blocks_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(&folder.path().join("store"), Values::Random, true);
    let blocks = world.read(HOT);
    let snapshot = world.db.snapshot();
    world.rewrite();
    let before = world.db.stats().cache_misses;
    for number in HOT {
        let old = snapshot.get(&world.db.default_keyspace(), key(number)).unwrap().unwrap();
        assert_eq!(old[..], world.expected(number, 0), "{number}");
    }
    let again = world.db.stats().cache_misses - before;
    assert!(again <= blocks + 4, "{again} blocks read, {blocks} have these keys");
    world.read(HOT);
    drop(snapshot);
    world.db.close().unwrap();
}
