//! The same operations read the same under every shape, schedule and admission that is built.
//! `META_SEEDS=A..B` chooses which operations, `META_OPS=N` how many.

mod common;

use vlsm_sim::clients::{Story, play};
use vlsm_sim::model::run_under;
use vlsm_sim::world::Mechanisms;

#[test]
fn every_mechanism_reads_the_same() {
    let seeds = common::seeds("META_SEEDS", 0..4);
    let ops = common::number("META_OPS", 1_000);
    let (_, failures) = common::in_parallel(seeds, |seed, _: &mut ()| {
        let mut first = None;
        for mechanisms in Mechanisms::all() {
            let (_, digest) = run_under(seed, ops, Some(mechanisms))?;
            let expected = *first.get_or_insert(digest);
            if digest != expected {
                return Err(format!("seed {seed}: {mechanisms} reads otherwise than the first"));
            }
        }
        Ok(())
    });
    common::none(&failures);
}

#[test]
fn every_mechanism_survives_the_same_crashes_and_faults() {
    let seeds = common::seeds("META_SEEDS", 0..12);
    let all = Mechanisms::all();
    assert!(all.len() >= 6, "{all:?}");
    let (batches, failures) = common::in_parallel(seeds, |seed, batches: &mut u64| {
        for mechanisms in &all {
            let story = Story { mechanisms: Some(*mechanisms), ..Story::new(seed) };
            *batches += play(&story)?.batches;
        }
        Ok(())
    });
    common::none(&failures);
    println!("{} mechanisms, {} batches", all.len(), batches.iter().sum::<u64>());
}
