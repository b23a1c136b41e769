//! ADOC over a simulated store whose flushes have a given speed: each overflow, and its bounds.
//! Time is simulated, too; nothing here waits.

use super::*;
use crate::candidate::Inputs;
use crate::signals::{MemtableSignals, Pressure};
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{KeyRange, MemtableId, TreeId};

fn flush(id: u64, bytes: Bytes) -> Running {
    let candidate = Candidate {
        tree: TreeId(0),
        frees: Class::Memtable,
        kind: JobKind::Flush,
        inputs: Inputs { memtables: vec![MemtableId(id)], tables: Vec::new() },
        output_level: 0,
        range: KeyRange::closed("a", "z"),
        bytes_in: bytes,
        bytes_out: bytes,
        score: 1.0,
        sets_cursor: None,
        conflicts: Vec::new(),
    };
    Running {
        job: JobId(id),
        candidate: Arc::new(candidate),
        done: Bytes::ZERO,
        left: bytes,
        paused_since: None,
        installing: false,
    }
}

fn adoc(tree: &TreeOptions) -> Adoc {
    Adoc::new(tree, &AdocOptions::default()).expect("the options work")
}

/// A store with one flush a second, of a given speed.
struct Loop {
    adoc: Adoc,
    second: u64,
    pressure: Pressure,
    sealed: usize,
}

impl Loop {
    fn new() -> Self {
        let memtable_bytes = Bytes::mib(512);
        let rocksdb = crate::profile("rocksdb").expect("known").tree;
        let tree = TreeOptions { memtable_bytes, ..rocksdb };
        let pressure = Pressure::default();
        let mut world = Self { adoc: adoc(&tree), second: 0, pressure, sealed: 0 };
        world.sealed = 2;
        assert_eq!(world.flush(100), (1, 64), "the first one does not count");
        world.sealed = 0;
        assert_eq!(world.flush(400), (1, 64), "nothing overflows");
        world
    }

    /// Runs a flush of 100 MB at `speed` MB/s, then ends the second that it began in.
    fn flush(&mut self, speed: u64) -> (usize, u64) {
        let job = flush(self.second + 1, Bytes::mib(100));
        let at = |second: u64, part: u64| Micros(second * 1_000_000 + part);
        let took = 100 * 1_000_000 / speed;
        let memtables =
            MemtableSignals { immutable_count: self.sealed, ..MemtableSignals::default() };
        let signals = |now: Micros| Signals {
            now,
            workers: 4,
            memtables,
            pressure: vec![(TreeId(0), Arc::new(self.pressure.clone()))],
            ..Signals::default()
        };
        let begin = signals(at(self.second, 0));
        self.adoc.decide(&begin, &[], std::slice::from_ref(&job));
        let end = signals(at(self.second, took));
        self.adoc.decide(&end, &[], &[]);
        self.second += 1;
        let last = signals(at(self.second, 0));
        let grants = self.adoc.decide(&last, &[], &[]);
        (self.adoc.slots(), grants.memtable_bytes.map_or(0, |bytes| bytes.0 >> 20))
    }
}

#[test]
fn each_overflow_has_its_answer() {
    let mut world = Loop::new();
    // L0: more threads.
    world.pressure.l0_runs = 20;
    assert_eq!(world.flush(400), (3, 64));
    assert_eq!(world.flush(400), (5, 64));
    assert_eq!(world.flush(400), (6, 64));
    assert_eq!(world.flush(400), (6, 64), "eight jobs at most for four workers");
    // Memory overflows because flushes are slow: fewer threads, larger batches.
    world.pressure.l0_runs = 0;
    assert_eq!(world.flush(190), (3, 128));
    assert_eq!(world.flush(190), (1, 192));
    assert_eq!(world.flush(190), (1, 256));
    // Redundant data: more threads, smaller batches, slow or not.
    world.pressure.debt = Bytes::mib(64 << 10);
    assert_eq!(world.flush(190), (3, 128));
    assert_eq!(world.flush(400), (5, 64));
    assert_eq!(world.flush(400), (6, 64), "no smaller than at first");
    world.pressure.debt = Bytes::ZERO;
    // One memtable waits: more threads. Two: larger batches, too.
    world.flush(190);
    world.sealed = 1;
    assert_eq!(world.flush(210), (5, 128));
    world.sealed = 2;
    assert_eq!(world.flush(210), (6, 192));
}

#[test]
fn under_steady_overflow_it_stays_within_its_bounds() {
    let mut world = Loop::new();
    world.sealed = 2;
    for _ in 0..20 {
        world.flush(300);
    }
    assert_eq!(world.flush(300), (6, 512), "not beyond memtable_bytes");
    // Too many threads make flushes slow, and fewer make them fast, so the number goes up and down.
    let mut seen = Vec::new();
    for _ in 0..20 {
        let speed = if world.adoc.slots() > 3 { 150 } else { 350 };
        seen.push(world.flush(speed).0);
    }
    assert!(seen.contains(&5) && seen.contains(&3), "{seen:?}");
    assert!(seen.iter().all(|slots| (1..=6).contains(slots)), "{seen:?}");
}

#[test]
fn nothing_changes_without_a_flush_nor_within_an_interval() {
    let mut world = Loop::new();
    let tree = Pressure { l0_runs: 20, ..Pressure::default() };
    let pressure = vec![(TreeId(0), Arc::new(tree))];
    for millis in [2_100, 2_900, 3_500, 4_600] {
        let now = Micros(millis * 1_000);
        let pressure = pressure.clone();
        let signals = Signals { now, pressure, ..Signals::default() };
        assert_eq!(world.adoc.decide(&signals, &[], &[]).again, None, "nothing is to do");
        assert_eq!(world.adoc.slots(), 1);
    }
}

#[test]
fn constants_fit_the_options() {
    let mut adoc = adoc(&TreeOptions { compaction_jobs: 2, ..TreeOptions::default() });
    assert_eq!((adoc.batch, adoc.batches), (Bytes::mib(8), (Bytes::mib(8), Bytes::mib(8))));
    let signs = Signs { slow: true, sealed: 2, l0: true, debt: false };
    adoc.tune(signs, 16);
    adoc.tune(signs, 16);
    assert_eq!((adoc.slots(), adoc.batch), (2, Bytes::mib(8)));
    let refused = |options: AdocOptions| options.check().expect_err("refused").to_string();
    let both = AdocOptions::default();
    both.check().expect("the published ones work");
    let interval = AdocOptions { interval: Micros(1), ..both.clone() };
    assert!(refused(interval).contains("adoc.interval"));
    assert!(refused(AdocOptions { batch: Bytes(1), ..both }).contains("adoc.batch"));
}
