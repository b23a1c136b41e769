//! The disk is full at every n-th byte of free space: reads are served, writes refused without a
//! trace, and the store resumes by itself.
//!
//! `DISK_FULL_STRIDE=1` tries every number of free bytes; `FULL_SEEDS=A..B` other stories.

mod common;

use vlsm_sim::full::{Tally, opens_full_of_leftovers, play};

/// Small amounts of free space, where SSTs and the manifest are refused, and larger ones, where
/// WALs are.
const WINDOWS: [(u64, u64); 2] = [(0, 16 << 10), (16 << 10, 512 << 10)];

#[test]
fn a_full_disk_refuses_writes_and_the_store_resumes_by_itself() {
    let seeds = common::seeds("FULL_SEEDS", 0..1);
    let stride = common::number("DISK_FULL_STRIDE", 61);
    let points: Vec<u64> = WINDOWS
        .iter()
        .zip([stride, stride.saturating_mul(31)])
        .flat_map(|(&(from, to), stride)| (from..to).step_by(stride.max(1) as usize))
        .collect();
    let count = points.len() as u64;
    let stories = seeds.start * count..seeds.end * count;
    let (tally, failures) = common::in_parallel(stories, |story, tally: &mut Tally| {
        let seed = story / count;
        // The seeds share the points between those of this stride.
        let free = points[(story % count) as usize] + seed % stride.max(1);
        play(seed, free).map(|more| tally.add(&more))
    });
    let tally = tally.into_iter().fold(Tally::default(), |mut sum, part| {
        sum.add(&part);
        sum
    });
    println!("{tally:#?}");
    common::counts([
        ("stories", tally.stories),
        ("fault: full for an SST", tally.by_file[0]),
        ("fault: full for a WAL", tally.by_file[1]),
        ("fault: full for the manifest", tally.by_file[2]),
        ("resumed", tally.resumed),
        ("ended on a full disk", tally.ended_full),
        ("opened on a full disk", tally.opened_full),
    ]);
    common::none(&failures);
    common::all_fired(&[
        ("refusals", tally.refused),
        ("refusals for an SST", tally.by_file[0]),
        ("refusals for a WAL", tally.by_file[1]),
        ("refusals for the manifest", tally.by_file[2]),
        ("resumed", tally.resumed),
        ("ended on a full disk", tally.ended_full),
        ("opened on a full disk", tally.opened_full),
    ]);
}

#[test]
fn a_disk_full_of_the_stores_own_leftovers_keeps_no_store_closed() {
    let seeds = common::seeds("FULL_SEEDS", 0..40);
    let (_, failures) =
        common::in_parallel(seeds, |seed, _: &mut ()| opens_full_of_leftovers(seed));
    common::none(&failures);
}

#[test]
fn a_paused_job_that_met_the_full_disk_says_so_at_once() {
    // In these stories a paused job once reported the full disk only when it continued, 1.4 s after
    // the disk had room again, and the store refused writes once more.
    play(10_023, 19).expect("a right story");
    play(10_035, 4_911).expect("a right story");
}
