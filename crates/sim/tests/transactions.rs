//! Concurrent transactions have an order in which they could have run one after the other.
//!
//! `SERIAL_SEEDS=A..B` runs those seeds.

mod common;

use vlsm_sim::serial::{self, Counts};

#[test]
fn concurrent_transactions_are_serializable() {
    let seeds = common::seeds("SERIAL_SEEDS", 0..150);
    let (counts, failures) = common::in_parallel(seeds, |seed, all: &mut Vec<Counts>| {
        serial::run(seed).map(|counts| all.push(counts))
    });
    common::none(&failures);
    let sum = |of: fn(&Counts) -> u64| counts.iter().flatten().map(of).sum::<u64>();
    let told = [
        ("committed transactions", sum(|counts| counts.committed)),
        ("conflicts", sum(|counts| counts.conflicts)),
        ("appended after", sum(|counts| counts.edges[0])),
        ("read after", sum(|counts| counts.edges[1])),
        ("overwritten after", sum(|counts| counts.edges[2])),
    ];
    common::counts(told);
    common::all_fired(&told);
}
