//! Each rule of `priority`, on candidates and jobs made by hand: who starts, who is paused, who has
//! waited long enough.

use super::*;
use crate::candidate::Inputs;
use crate::signals::{LevelPressure, Pressure};
use std::sync::Arc;
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

fn at(millis: u64) -> Signals {
    Signals { now: Micros(millis * 1_000), workers: 2, ..Signals::default() }
}

/// As [`at`], with a level of tree 0 that has so many times its target.
fn with_level(millis: u64, level: u8, times: u64) -> Signals {
    let (bytes, target) = (Bytes(times * 10 + 1), Some(Bytes(10)));
    let level = LevelPressure { level, bytes, target, debt: Bytes::ZERO };
    let pressure = Pressure { levels: vec![level], ..Pressure::default() };
    Signals { pressure: vec![(TreeId(0), Arc::new(pressure))], ..at(millis) }
}

#[test]
fn deeper_jobs_start_only_where_memory_has_no_work_and_moves_always() {
    let memory = candidate(0, MEMORY, "a", "z");
    let level = |tree, level| candidate(tree, Class::Level(level), "a", "b");
    let deep = [level(0, 2), level(1, 1)];
    let moved = Candidate { kind: JobKind::TrivialMove, ..level(0, 3) };
    let mut priority = priority();
    let grants = priority.decide(&at(0), &[&deep[0], &deep[1], &memory, &moved], &[]);
    assert_eq!((grants.start, grants.again), (vec![2, 3], Some(Micros(1_000_000))));
    let grants = priority.decide(&at(1), &[&deep[0], &deep[1], &moved], &[]);
    assert_eq!((grants.start, grants.again), (vec![2, 0, 1], None));
    // A job out of memory takes no slot, but while it runs deeper ones do not start.
    let runs = [running(1, &memory)];
    let grants = priority.decide(&at(2), &[&deep[0], &deep[1]], &runs);
    assert_eq!(grants.start, NOTHING);
}

#[test]
fn what_runs_is_paused_unless_memory_waits_for_it() {
    let level = |level| candidate(0, Class::Level(level), "a", "b");
    let runs = [running(1, &level(1)), running(2, &level(2))];
    let mut priority = priority();
    assert_eq!(priority.decide(&at(0), &[], &runs).paused, NOBODY);
    let mut memory = candidate(0, MEMORY, "a", "z");
    memory.conflicts = vec![JobId(1)];
    let grants = priority.decide(&at(1), &[&memory], &runs);
    assert_eq!((grants.start, grants.paused), (vec![], vec![JobId(2)]));
    // Of an L0 the same holds.
    memory.frees = Class::L0;
    let grants = priority.decide(&at(2), &[&memory], &runs);
    assert_eq!((grants.start, grants.paused), (vec![], vec![JobId(2)]));
    memory.conflicts.clear();
    let grants = priority.decide(&at(3), &[&memory], &runs);
    assert_eq!((grants.start, grants.paused), (vec![0], vec![JobId(1), JobId(2)]));
    assert_eq!(priority.decide(&at(4), &[], &runs).paused, NOBODY, "memory has no work");
}

#[test]
fn who_has_waited_long_goes_through_and_waits_again() {
    let memory = candidate(0, MEMORY, "a", "z");
    let deep = candidate(0, Class::Level(2), "a", "b");
    let both = [running(1, &memory), running(2, &deep), running(3, &deep)];
    let mut priority = priority();
    let paused = |priority: &mut Priority, now: u64, runs: &[Running]| {
        let grants = priority.decide(&at(now), &[], runs);
        (grants.paused.iter().map(|job| job.0).collect::<Vec<_>>(), grants.again)
    };
    let ms = |millis: u64| Some(Micros(millis * 1_000));
    assert_eq!(paused(&mut priority, 500, &both), (vec![2, 3], ms(1_500)));
    assert_eq!(paused(&mut priority, 1_499, &both), (vec![2, 3], ms(1_500)));
    assert_eq!(paused(&mut priority, 1_500, &both), (vec![3], None), "one of them");
    assert_eq!(paused(&mut priority, 9_000, &both), (vec![3], None), "to its end");
    let left = [both[0].clone(), both[2].clone()];
    assert_eq!(paused(&mut priority, 9_001, &left), (vec![3], ms(10_001)));
    assert_eq!(paused(&mut priority, 10_001, &left), (vec![], None));
}

#[test]
fn who_has_waited_long_starts_before_memory() {
    let mut priority = priority();
    // They write into the same keys of L1, so that one has to wait for the other.
    let memory = candidate(0, MEMORY, "a", "z");
    let deep = Candidate { output_level: 1, ..candidate(0, Class::Level(1), "a", "b") };
    assert_eq!(priority.decide(&at(0), &[&memory, &deep], &[]).start, [0]);
    let runs = [running(1, &memory)];
    assert_eq!(priority.decide(&at(2_000), &[], &runs).start, NOTHING);
    assert_eq!(priority.decide(&at(2_001), &[&memory, &deep], &[]).start, [1]);
    // Granted, it runs to its end, although memory has work.
    let runs = [running(2, &deep), running(3, &candidate(1, MEMORY, "a", "z"))];
    assert_eq!(priority.decide(&at(2_002), &[], &runs).paused, NOBODY);
    // Then it waits again.
    assert_eq!(priority.decide(&at(5_000), &[&memory, &deep], &[]).start, [0]);
}

#[test]
fn a_level_far_beyond_its_target_goes_before_memory_of_its_tree() {
    let memory = [candidate(0, MEMORY, "a", "z"), candidate(1, MEMORY, "a", "z")];
    let deep = candidate(0, Class::Level(2), "a", "b");
    let list = [&memory[0], &memory[1], &deep];
    let mut priority = priority();
    assert_eq!(priority.decide(&with_level(0, 2, 4), &list, &[]).start, [0, 1]);
    assert_eq!(priority.decide(&with_level(1, 2, 5), &list, &[]).start, [2, 1]);
    let runs = [running(1, &memory[0]), running(2, &deep), running(3, &memory[1])];
    assert_eq!(priority.decide(&with_level(2, 2, 5), &[], &runs).paused, [JobId(1)]);
    assert_eq!(priority.decide(&with_level(3, 2, 4), &[], &runs).paused, [JobId(2)]);
    // Without a job of the level there is nothing to go first.
    assert_eq!(priority.decide(&with_level(4, 2, 9), &[], &runs[..1]).paused, NOBODY);
    let shallow = candidate(0, Class::Level(1), "a", "b");
    let runs = [running(4, &memory[0]), running(5, &shallow)];
    assert_eq!(priority.decide(&with_level(5, 2, 9), &[], &runs).paused, [JobId(5)]);
}

#[test]
fn trees_take_turns() {
    let list: Vec<_> = (0..3).map(|tree| candidate(tree, Class::Level(1), "a", "b")).collect();
    let all: Vec<_> = list.iter().collect();
    let mut priority = Priority { compaction_jobs: 1, ..priority() };
    let mut turn = |running: &[Running]| priority.decide(&at(0), &all, running).start;
    let turns: Vec<usize> = (0..4).flat_map(|_| turn(&[])).collect();
    assert_eq!(turns, [0, 1, 2, 0]);
    assert_eq!(turn(&[running(1, &list[0])]), NOTHING, "one slot");
}
