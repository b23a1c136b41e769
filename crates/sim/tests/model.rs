//! Random operations equal sorted maps. `MODEL_SEEDS=A..B` and `MODEL_OPS=N` choose how many.

mod common;

use vlsm_sim::model::{Counts, run, run_under};
use vlsm_sim::world::Mechanisms;

#[test]
fn equals_the_oracle() {
    let seeds = common::seeds("MODEL_SEEDS", 0..40);
    let ops = common::number("MODEL_OPS", 1_500);
    let full = seeds.end - seeds.start >= 40;
    let (counts, failures) = common::in_parallel(seeds.clone(), |seed, counts: &mut Counts| {
        for (name, count) in run(seed, ops)? {
            *counts.entry(name).or_default() += count;
        }
        Ok(())
    });
    let mut sum = Counts::new();
    for (name, count) in counts.into_iter().flatten() {
        *sum.entry(name).or_default() += count;
    }
    println!("seeds {seeds:?}, {ops} operations each: {sum:?}");
    let all = ("operations", ops * (seeds.end - seeds.start));
    common::counts(std::iter::once(all).chain(sum.iter().map(|(name, count)| (*name, *count))));
    common::none(&failures);
    if full {
        assert!(sum.len() == 18 && sum.values().all(|count| *count > 0), "{sum:?}");
    }
}

/// In both, an hour passes while the readers of SSTs hold more than their share of the memory and
/// none can be evicted.
#[test]
fn an_idle_store_is_idle() {
    let schedule = "fifo";
    let open = Mechanisms { shape: "lsmi", schedule, admission: "open" };
    let slowed = Mechanisms { shape: "tiered_l0", schedule, admission: "slowdown_stop" };
    for (seed, mechanisms) in [(297, open), (308, slowed)] {
        run_under(seed, 2_500, Some(mechanisms)).expect("right");
    }
}
