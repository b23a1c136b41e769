//! SILK's rules over candidates and jobs made by hand: slots, preemption, turns, pauses by load.
//! Longer walks are in the test data.

use super::*;
use crate::candidate::Inputs;
use crate::signals::Pressure;
use std::collections::BTreeSet;
use std::sync::Arc;
use vlsm_core::KeyRange;
use vlsm_core::event::JobKind;

fn silk_with(device: u64, own: &SilkOptions) -> Silk {
    let device_bandwidth = BytesPerSec(device);
    let overflow = None;
    let tree =
        TreeOptions { compaction_jobs: 3, device_bandwidth, overflow, ..TreeOptions::default() };
    Silk::new(&tree, own).expect("the options work")
}

fn silk(device: u64) -> Silk {
    silk_with(device, &SilkOptions::default())
}

fn candidate(tree: u64, frees: Class) -> Candidate {
    Candidate {
        tree: TreeId(tree),
        frees,
        kind: JobKind::Compact,
        inputs: Inputs::default(),
        output_level: frees.level() + 1,
        range: KeyRange::closed("a", "z"),
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

#[test]
fn trees_take_turns_and_a_slot_may_be_kept_from_l0() {
    let l0: Vec<_> = (0..3).map(|tree| candidate(tree, Class::L0)).collect();
    let deeper: Vec<_> = (0..3).map(|tree| candidate(tree, Class::Level(1))).collect();
    let all: Vec<_> = l0.iter().chain(&deeper).collect();
    let signals = Signals::default();
    assert_eq!(silk(0).decide(&signals, &all, &[]).start, [0, 1, 2], "L0 first");
    let mut silk = silk_with(0, &SilkOptions { deeper_slot: true, ..SilkOptions::default() });
    assert_eq!(silk.decide(&signals, &all, &[]).start, [0, 1, 5]);
    let jobs = [running(1, &l0[0]), running(2, &l0[1]), running(3, &deeper[2])];
    let left = [&l0[2], &deeper[0], &deeper[1]];
    let grants = silk.decide(&signals, &left, &jobs);
    assert!(grants.start.is_empty() && grants.paused.is_empty(), "{grants:?}");
    assert_eq!(silk.decide(&signals, &left, &jobs[1..]).start, [0]);
    let grants = silk.decide(&signals, &left[1..], &jobs[2..]);
    assert_eq!((grants.start, grants.bandwidth, grants.again), (vec![0, 1], None, None));
}

#[test]
fn any_deeper_job_may_be_preempted_and_goes_on_when_a_slot_is_free() {
    let l0 = candidate(0, Class::L0);
    let deeper: Vec<_> = (1..=3).map(|job| running(job, &candidate(0, Class::Level(2)))).collect();
    let with_l0: Vec<_> = deeper.iter().cloned().chain([running(4, &l0)]).collect();
    let (mut silk, signals) = (silk(0), Signals::default());
    let mut victims = BTreeSet::new();
    for _ in 0..50 {
        let grants = silk.decide(&signals, &[&l0], &deeper);
        assert_eq!((&grants.start[..], grants.paused.len()), (&[0][..], 1));
        assert_eq!(silk.decide(&signals, &[], &with_l0).paused, grants.paused);
        assert!(silk.decide(&signals, &[], &deeper).paused.is_empty());
        victims.extend(grants.paused);
    }
    assert_eq!(victims.len(), 3);
}

#[test]
fn jobs_out_of_l0_wait_for_each_other() {
    let l0 = candidate(0, Class::L0);
    let jobs = [running(1, &l0), running(2, &candidate(0, Class::Level(1)))];
    let (mut silk, signals) = (silk(0), Signals::default());
    let mut decide = |candidate: &Candidate| {
        let grants = silk.decide(&signals, &[candidate], &jobs);
        (grants.start.len(), grants.cancel)
    };
    assert_eq!(decide(&l0), (0, vec![]), "one L0→L1 a tree");
    assert_eq!(decide(&candidate(1, Class::L0)), (1, vec![]), "another tree");
    let within = Candidate { kind: JobKind::MergeWithin, output_level: 0, ..l0.clone() };
    assert_eq!(decide(&within), (1, vec![]), "within L0 beside it");
    let with = |conflicts| Candidate { conflicts, ..within.clone() };
    assert_eq!(decide(&with(vec![JobId(1), JobId(2)])), (0, vec![]), "another one out of L0");
    assert_eq!(decide(&with(vec![JobId(2)])), (1, vec![JobId(2)]), "only deeper ones");
    let mut moved = running(2, &candidate(0, Class::Level(1)));
    Arc::make_mut(&mut moved.candidate).kind = JobKind::TrivialMove;
    let grants = silk.decide(&signals, &[&with(vec![JobId(2)])], &[moved]);
    assert!(grants.start.is_empty(), "a move has ended before it would be cancelled");
}

#[test]
fn whatever_the_device_deeper_jobs_go_on_as_soon_as_clients_are_idle() {
    let jobs = [running(1, &candidate(0, Class::Level(1)))];
    for device in [1, 3 << 20, 60 << 20, 200 << 20, 1 << 40] {
        let mut silk = silk(device);
        let mut paused_at = |millis: u64, write_bytes: u64| {
            let counters = Counters {
                writes: write_bytes / 100,
                write_bytes: Bytes(write_bytes),
                ..Counters::default()
            };
            let now = Micros(millis * 1000);
            let signals = Signals { now, counters, ..Signals::default() };
            let grants = silk.decide(&signals, &[], &jobs);
            let bandwidth = grants.bandwidth.expect("the device is known");
            assert!(bandwidth.floor.0 > 0 && bandwidth.limit >= bandwidth.floor);
            let ends = (millis / 10 + 1) * 10_000;
            assert_eq!(grants.again, Some(Micros(ends)), "when the window ends");
            !grants.paused.is_empty()
        };
        let much = device.max(1 << 20);
        assert!(!paused_at(0, 0), "{device}");
        assert!(paused_at(10, much), "{device}");
        assert!(paused_at(15, much), "{device}: within the window");
        assert!(!paused_at(20, much), "{device}");
    }
}

#[test]
fn nobody_reads_so_much_that_writers_wait_for_ever() {
    // vLSM's flush may need a job out of L1; while readers use the whole device, that job is
    // paused.
    let jobs = [running(1, &candidate(0, Class::Level(1)))];
    let paused =
        |resume_for_writers: bool, stopped_writers: u64, waiting_writers: u64, stop: f64| {
            let own = SilkOptions { resume_for_writers, ..SilkOptions::default() };
            let mut silk = silk_with(200 << 20, &own);
            let pressure = Pressure { stop, ..Pressure::default() };
            let pressure = vec![(TreeId(0), Arc::new(pressure))];
            let mut at = |millis: u64| {
                let gets = millis << 20;
                let counters =
                    Counters { gets, stopped_writers, waiting_writers, ..Counters::default() };
                let (now, pressure) = (Micros(millis * 1000), pressure.clone());
                let signals = Signals { now, counters, pressure, ..Signals::default() };
                !silk.decide(&signals, &[], &jobs).paused.is_empty()
            };
            assert!(!at(0));
            at(10)
        };
    assert!(paused(true, 0, 0, 0.0), "a gigabyte per second is read");
    assert!(!paused(true, 1, 1, 0.0), "a writer waits for a memtable");
    assert!(!paused(true, 0, 1, 1.0), "writes are stopped, and a writer waits");
    assert!(paused(true, 0, 0, 1.0), "nobody writes");
    assert!(paused(true, 0, 1, 0.9), "it waits for something else");
    assert!(paused(false, 1, 1, 1.0), "as in the paper");
}
