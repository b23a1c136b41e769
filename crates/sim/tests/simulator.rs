//! Concurrent clients on the real engine, crashes and reopening, by seed.
//!
//! `SIM_SEEDS=A..B` plays those seeds, or one with `SIM_SEEDS=A`.

mod common;

use std::time::Duration;
use vlsm::Options;
use vlsm_core::{Bytes, BytesPerSec};
use vlsm_sim::clients::{CLASSES, Story, Tally, play};
use vlsm_sim::world::Mechanisms;

/// No write takes longer, in virtual time, on a disk that is never slower than 30 ms. The largest
/// batch, 600 kB, takes 37 s at the slowest rate of `slowdown_stop`, 16 kB/s; and with the least
/// memory that a store can have, one such batch waits for hundreds of small flushes.
const WAIT_MAX: Duration = Duration::from_secs(57);

/// The operations of the tasks beside the clients.
const BESIDE: [&str; 17] = [
    "copy",
    "copy read",
    "copy written",
    "copy that lasts",
    "one of two copies",
    "second copy refused",
    "unfinished copy refused",
    "restore",
    "keyspace",
    "batch over a new keyspace",
    "scan",
    "verify refused",
    "clear",
    "follower opened",
    "follower caught up",
    "follower held a snapshot",
    "follower refused",
];

#[test]
fn every_answer_is_right_whatever_crashes() {
    let seeds = common::seeds("SIM_SEEDS", 0..100);
    let count = seeds.end - seeds.start;
    let (tally, failures) = common::in_parallel(seeds, |seed, tally: &mut Tally| {
        play(&Story::new(seed)).map(|more| tally.add(&more))
    });
    let tally = tally.into_iter().fold(Tally::default(), |mut sum, part| {
        sum.add(&part);
        sum
    });
    println!("{count} seeds: {tally:#?}");
    common::counts(common::of_stories(&tally));
    common::none(&failures);
    common::say_refused();
    if count >= Mechanisms::all().len() as u64 {
        for mechanisms in Mechanisms::all() {
            let played = tally.mechanisms.contains_key(&mechanisms.to_string());
            assert!(played, "{mechanisms}: not once");
        }
    }
    assert!(tally.longest_wait < WAIT_MAX, "a write took {:?}", tally.longest_wait);
    if count >= 100 {
        let fired = [
            ("power cuts", tally.power_cuts),
            ("kills", tally.kills),
            ("closes", tally.closes),
            ("cuts while opening", tally.cut_while_opening),
            ("lost batches", tally.lost),
            ("indeterminate batches", tally.indeterminate),
            ("checks", tally.checks),
            ("batches outside the WAL", tally.unlogged),
            ("batches in files", tally.ingests),
            ("refusals", tally.refused),
            ("lives that file calls ended", tally.failures),
        ];
        common::all_fired(&fired);
        for what in BESIDE {
            assert!(tally.admin.contains_key(what), "{what}: not once");
        }
    }
    if count >= 300 {
        let full = ["out of space", "space returned"];
        let wal = ["WAL recycled", "WAL stored in a window", "WAL not mapped"];
        for work in ["Flush", "Compact", "TrivialMove", "latched"].iter().chain(&full).chain(&wal) {
            assert!(tally.work.contains_key(*work), "{work}: not once");
        }
    }
    // The rarest class of faults comes once in a few hundred stories.
    if count >= 1000 {
        for (kind, name, _) in CLASSES {
            let class = kind.class(name);
            assert!(tally.faults.contains_key(&class), "{class}: not once");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1_000..1_010 {
        let run = || play(&Story::new(seed)).map(|tally| (tally.hash, tally.steps, tally.batches));
        let (first, second) = (run().expect("right"), run().expect("right"));
        assert_eq!(first, second, "seed {seed}");
    }
}

/// Very little memory and space, one worker, and one thread for file operations.
fn narrow(options: &mut Options) {
    options.workers = 1;
    options.io_threads = 1;
    let policy = &mut options.policy;
    policy.tree.memtable_bytes = Bytes::kib(4);
    policy.tree.memtable_count = 2;
    policy.tree.l0_trigger = 1;
    policy.tree.l0_max = 1;
    policy.tree.l0_slowdown = 1;
    policy.tree.l0_stop = 2;
    policy.tree.growth = 2;
    policy.shapes.vlsm.phi = 2;
    policy.tree.l1_bytes = policy.tree.sst_max;
    policy.tree.overflow = Some(Bytes::ZERO);
    policy.tree.debt_soft = Some(Bytes::kib(4));
    policy.tree.debt_hard = Some(Bytes::kib(16));
    policy.admissions.slowdown_stop.delayed_write_rate = BytesPerSec(16 << 10);
}

#[test]
fn writers_never_wait_for_ever() {
    let seeds = common::seeds("NARROW_SEEDS", 0..30);
    let (tally, failures) = common::in_parallel(seeds, |seed, tally: &mut Tally| {
        let story = Story { lives: 1, ops: 200, faults: false, tweak: narrow, ..Story::new(seed) };
        play(&story).map(|more| tally.add(&more))
    });
    common::none(&failures);
    let batches: u64 = tally.iter().map(|tally| tally.batches).sum();
    let longest = tally.iter().map(|tally| tally.longest_wait).max().unwrap_or_default();
    println!("{batches} batches, the longest took {longest:?}");
    common::counts([("operations", batches)]);
    assert!(longest < WAIT_MAX, "a write took {longest:?}");
}

#[test]
fn snapshots_stay_as_they_are() {
    let seeds = common::seeds("SNAPSHOT_SEEDS", 0..100);
    let count = seeds.end - seeds.start;
    let (_, failures) =
        common::in_parallel(seeds, |seed, _: &mut ()| common::snapshots_stay_as_they_are(seed));
    common::none(&failures);
    common::counts([("operations", count * 150), ("snapshots", count * 200)]);
}

#[test]
fn a_keyspace_of_several_regions_is_read_at_one_moment() {
    let (_, failures) =
        common::in_parallel(0..40, |seed, _: &mut ()| common::regions_show_one_moment(seed));
    common::none(&failures);
}

#[test]
fn copies_and_keyspaces_made_at_once_tear_no_batch() {
    let (_, failures) =
        common::in_parallel(0..40, |seed, _: &mut ()| common::copies_tear_no_batch(seed));
    common::none(&failures);
}

#[test]
fn a_refused_ingest_does_not_come_back() {
    let (_, failures) =
        common::in_parallel(0..60, |seed, _: &mut ()| common::refused_ingests_stay_away(seed));
    common::none(&failures);
}

#[test]
fn a_compaction_drops_no_damaged_block() {
    vlsm_sim::closure::a_job_drops_no_damaged_block().expect("nothing is missing");
}
