//! Concurrent clients on the real engine, crashes and reopening, by seed.
//!
//! `SIM_SEEDS=A..B` plays those seeds, or one with `SIM_SEEDS=A`.

mod common;

use std::time::Duration;
use vlsm_sim::clients::{Story, Tally, play};

/// No write takes longer, in virtual time, on a disk that is never slower than 30 ms.
const WAIT_MAX: Duration = Duration::from_secs(20);

fn story(seed: u64) -> Story {
    Story { seed, lives: 4, clients: 4, ops: 60 }
}

#[test]
fn every_answer_is_right_whatever_crashes() {
    let seeds = common::seeds("SIM_SEEDS", 0..100);
    let count = seeds.end - seeds.start;
    let (tally, failures) = common::in_parallel(seeds, |seed, tally: &mut Tally| {
        play(&story(seed)).map(|more| tally.add(&more))
    });
    let tally = tally.into_iter().fold(Tally::default(), |mut sum, part| {
        sum.add(&part);
        sum
    });
    println!("{count} seeds: {tally:#?}");
    common::none(&failures);
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
        ];
        common::all_fired(&fired);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1_000..1_010 {
        let run = || play(&story(seed)).map(|tally| (tally.hash, tally.steps, tally.batches));
        let (first, second) = (run().expect("right"), run().expect("right"));
        assert_eq!(first, second, "seed {seed}");
    }
}
