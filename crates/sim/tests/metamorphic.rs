//! The same operations read the same under every shape, schedule and admission that is registered,
//! through crashes, and whatever mechanisms a store had before.
//!
//! `META_SEEDS=A..B` chooses the operations, and `TRIPLES_OPS=N` their number in each life of a
//! store.

mod common;

use vlsm_policy::{admission, schedule, shape};
use vlsm_sim::Rng;
use vlsm_sim::clients::{Story, Tally, play};
use vlsm_sim::model::lives::{Lived, live};
use vlsm_sim::world::Mechanisms;

/// Lives of one store of the same mechanisms.
const LIVES: usize = 4;
/// The least number of lives of a store that goes through all mechanisms.
const MOVES: usize = 24;

fn ops() -> u64 {
    common::number("TRIPLES_OPS", 100)
}

#[test]
fn every_mechanism_reads_the_same_through_crashes() {
    let all = Mechanisms::all();
    let (shapes, schedules) = (shape::REGISTRY.len(), schedule::REGISTRY.len());
    let admissions = admission::REGISTRY.len();
    assert_eq!(all.len(), shapes * schedules * admissions, "{:?}", Mechanisms::refused());
    let (seeds, ops) = (common::seeds("META_SEEDS", 0..2), ops());
    let count = all.len() as u64;
    // All mechanisms of a seed, then those of the next one. Each run has crashes of its own.
    let numbers = seeds.start * count..seeds.end * count;
    type Read = Vec<(u64, Mechanisms, Lived)>;
    let (read, failures) = common::in_parallel(numbers, |number, read: &mut Read| {
        let (seed, mechanisms) = (number / count, Mechanisms::of(number % count));
        read.push((seed, mechanisms, live(seed, number, ops, &[mechanisms; LIVES])?));
        Ok(())
    });
    common::none(&failures);
    let mut sum = Lived::default();
    for seed in seeds {
        let of_seed = || read.iter().flatten().filter(move |read| read.0 == seed);
        assert_eq!(of_seed().count(), all.len(), "seed {seed}");
        let first = of_seed().next().expect("there are mechanisms");
        for (_, mechanisms, lived) in of_seed() {
            let same = lived.digest == first.2.digest;
            assert!(same, "seed {seed}: {mechanisms} reads otherwise than {}", first.1);
            sum.add(lived);
        }
    }
    println!("{} combinations, {ops} operations a life: {sum:?}", all.len());
    say(&sum);
    fired(&sum);
}

#[test]
fn a_store_goes_from_any_mechanisms_to_any_others() {
    let (seeds, ops) = (common::seeds("META_SEEDS", 0..2), ops());
    let (lived, failures) = common::in_parallel(seeds, |seed, sum: &mut Lived| {
        let mut order = Vec::new();
        let mut rng = Rng::new(seed);
        while order.len() < MOVES.max(Mechanisms::all().len()) {
            order.extend(shuffled(&mut rng));
        }
        sum.add(&live(seed, seed, ops, &order)?);
        Ok(())
    });
    common::none(&failures);
    let mut sum = Lived::default();
    lived.iter().for_each(|part| sum.add(part));
    println!("{ops} operations a life: {sum:?}");
    say(&sum);
    fired(&sum);
}

fn shuffled(rng: &mut Rng) -> Vec<Mechanisms> {
    let mut all = Mechanisms::all().to_vec();
    for last in (1..all.len()).rev() {
        all.swap(last, rng.index(last + 1));
    }
    all
}

fn say(lived: &Lived) {
    common::counts([
        ("operations", (lived.closes + lived.kills + lived.power_cuts) * ops()),
        ("closes", lived.closes),
        ("kills", lived.kills),
        ("power cuts", lived.power_cuts),
        ("jobs cancelled", lived.cancelled),
    ]);
}

fn fired(lived: &Lived) {
    common::all_fired(&[
        ("orderly closes", lived.closes),
        ("deaths of the process", lived.kills),
        ("power cuts", lived.power_cuts),
        ("power cuts while a store is brought into form", lived.early),
        ("pauses of a job", lived.paused),
        ("jobs cancelled", lived.cancelled),
    ]);
}

#[test]
fn every_mechanism_survives_the_same_crashes_and_faults() {
    let all = Mechanisms::all();
    // About as many stories, however many mechanisms there are.
    let seeds = common::seeds("META_SEEDS", 0..(72 / all.len() as u64).max(2));
    let (played, failures) = common::in_parallel(seeds, |seed, sum: &mut Tally| {
        for mechanisms in all {
            let story = Story { mechanisms: Some(*mechanisms), ..Story::new(seed) };
            sum.add(&play(&story)?);
        }
        Ok(())
    });
    common::none(&failures);
    let mut sum = Tally::default();
    played.iter().for_each(|part| sum.add(part));
    let batches = sum.batches;
    println!("{} mechanisms, {batches} batches", all.len());
    common::counts(common::of_stories(&sum));
    common::all_fired(&[("batches", batches)]);
}
