//! Hot keys stay in memory over flushes (TRIAD-MEM): stories of stores with shape `triad` under
//! every schedule and admission, with small memtables and clients that write few keys often.
//!
//! `HOT_SEEDS=A..B` plays those seeds.

mod common;

use vlsm_sim::clients::{Tally, play};

#[test]
fn every_answer_is_right_while_keys_stay_in_memory() {
    let seeds = common::seeds("HOT_SEEDS", 0..100);
    let count = seeds.end - seeds.start;
    let (tally, failures) = common::in_parallel(seeds, |seed, tally: &mut Tally| {
        play(&common::hot_keys(seed)).map(|more| tally.add(&more))
    });
    common::none(&failures);
    let sum = |of: fn(&Tally) -> u64| tally.iter().map(of).sum::<u64>();
    let kept = sum(|tally| tally.work.get("hot keys").copied().unwrap_or(0));
    let flushes = sum(|tally| tally.work.get("Flush").copied().unwrap_or(0));
    for what in ["hot keys", "Flush", "Compact", "cancelled"] {
        println!("{what}: {}", tally.iter().filter_map(|t| t.work.get(what)).sum::<u64>());
    }
    println!("{count} seeds: {kept} of {flushes} flushes left hot keys in memory");
    common::counts([("flushes", flushes), ("flushes that kept keys", kept)]);
    common::all_fired(&[
        ("flushes that kept keys", kept),
        ("power cuts", sum(|tally| tally.power_cuts)),
        ("ingests", sum(|tally| tally.ingests)),
    ]);
}

#[test]
fn nothing_newer_is_hidden_while_memtables_are_sealed_fast() {
    let (_, failures) =
        common::in_parallel(0..40, |seed, _: &mut ()| common::hot_keys_hide_nothing(seed));
    common::none(&failures);
}
