//! Each rule of `priority`, on candidates and jobs made by hand: which ones start, and whose file
//! calls go first.

use super::*;
use crate::candidate::Inputs;
use crate::signals::{LevelPressure, Pressure};
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, KeyRange};

const MEMORY: Class = Class::Memtable;
const NOTHING: [usize; 0] = [];
const NOBODY: [JobId; 0] = [];

/// A compaction of these keys into the level below.
fn candidate(tree: u64, frees: Class, lo: &'static str, hi: &'static str) -> Candidate {
    let output_level = if let Class::Level(level) = frees { level + 1 } else { 1 };
    Candidate {
        tree: TreeId(tree),
        frees,
        kind: JobKind::Compact,
        inputs: Inputs::default(),
        output_level,
        range: KeyRange::closed(lo, hi),
        bytes_in: Bytes(1),
        bytes_out: Bytes(1),
        score: 1.0,
        sets_cursor: None,
        conflicts: Vec::new(),
    }
}

fn running(job: u64, candidate: &Candidate) -> Running {
    Running {
        job: JobId(job),
        candidate: Arc::new(candidate.clone()),
        done: Bytes::ZERO,
        left: Bytes(1),
        paused_since: None,
        installing: false,
    }
}

fn priority() -> Priority {
    Priority::new(&TreeOptions::default(), &PriorityOptions::default()).expect("they work")
}

fn signals() -> Signals {
    Signals { workers: 2, ..Signals::default() }
}

/// Signals with one level of tree 0, a byte larger than `times` its target.
fn with_level(level: u8, times: u64) -> Signals {
    let (bytes, target) = (Bytes(times * 10 + 1), Some(Bytes(10)));
    let level = LevelPressure { level, bytes, target, debt: Bytes::ZERO };
    let pressure = Pressure { levels: vec![level], ..Pressure::default() };
    Signals { pressure: vec![(TreeId(0), Arc::new(pressure))], ..signals() }
}

#[test]
fn deeper_jobs_start_beside_those_of_memory_and_moves_always() {
    let memory = candidate(0, MEMORY, "a", "z");
    let level = |tree, level| candidate(tree, Class::Level(level), "a", "b");
    let deep = [level(0, 2), level(1, 1), level(1, 3)];
    let moved = Candidate { kind: JobKind::TrivialMove, ..level(0, 4) };
    let all = [&deep[0], &deep[1], &deep[2], &memory, &moved];
    assert_eq!(priority().decide(&signals(), &all, &[]).start, [0, 1, 3, 4]);
    let runs = [running(1, &deep[0]), running(2, &deep[1])];
    assert_eq!(priority().decide(&signals(), &all[2..], &runs).start, [1, 2], "no slot is left");
}

#[test]
fn none_overtakes_one_that_needs_the_same_and_only_lacks_a_slot() {
    let full = [running(1, &candidate(1, Class::Level(2), "a", "b"))];
    let signals = Signals { workers: 1, ..Signals::default() };
    // They write into the same keys of L1.
    let memory = candidate(0, MEMORY, "a", "z");
    let ahead = Candidate { output_level: 1, ..candidate(0, Class::Level(1), "a", "b") };
    let mut priority = priority();
    assert_eq!(priority.decide(&signals, &[&ahead, &memory], &full).start, NOTHING);
    assert_eq!(priority.decide(&signals, &[&memory, &ahead], &full).start, [0], "it is first");
    assert_eq!(priority.decide(&signals, &[&ahead, &memory], &[]).start, [0]);
    // A candidate that waits for a running job is not ahead.
    let held = Candidate { conflicts: vec![JobId(1)], ..ahead.clone() };
    assert_eq!(priority.decide(&signals, &[&held, &memory], &full).start, [1]);
    // Nor does it hold another tree up.
    let other = candidate(2, MEMORY, "a", "z");
    assert_eq!(priority.decide(&signals, &[&ahead, &memory, &other], &full).start, [2]);
}

#[test]
fn calls_of_memory_and_of_far_levels_go_first() {
    let job = |id, frees| running(id, &candidate(0, frees, "a", "b"));
    let runs =
        [job(1, MEMORY), job(2, Class::L0), job(3, Class::Level(1)), job(4, Class::Level(2))];
    let first = |signals: &Signals| {
        let order = priority().decide(signals, &[], &runs).order.expect("there is one");
        assert_eq!(order.patience, Micros(1_000_000));
        order.first
    };
    assert_eq!(first(&signals()), [JobId(1), JobId(2)]);
    assert_eq!(first(&with_level(2, 4)), [JobId(1), JobId(2)]);
    assert_eq!(first(&with_level(2, 5)), [JobId(1), JobId(2), JobId(4)]);
    let idle = priority().decide(&signals(), &[], &[]);
    assert_eq!((idle.order.expect("there is one").first, idle.paused), (vec![], NOBODY.to_vec()));
}

#[test]
fn trees_take_turns() {
    let list: Vec<_> = (0..3).map(|tree| candidate(tree, Class::Level(1), "a", "b")).collect();
    let all: Vec<_> = list.iter().collect();
    let mut priority = Priority { compaction_jobs: 1, ..priority() };
    let mut turn = |running: &[Running]| priority.decide(&signals(), &all, running).start;
    let turns: Vec<usize> = (0..4).flat_map(|_| turn(&[])).collect();
    assert_eq!(turns, [0, 1, 2, 0]);
    assert_eq!(turn(&[running(1, &list[0])]), NOTHING, "one slot");
}
