//! Which record an operation is about: uniform, zipfian (scrambled), latest.
//!
//! The zipfian distribution gives rank r (from 1) the probability r^−θ / H, H being the sum over
//! all ranks. Sampled by rejection-inversion (`rand_distr`), exact and without a table.
//! *Scrambled*: which record has which rank is decided by a hash, so popular records lie apart in
//! key order. *Latest*: rank 1 is the record inserted last.

use super::data::mix;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};

/// A distribution of records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Each record alike.
    Uniform,
    /// A few records often: zipfian with this constant, scrambled.
    Zipfian(f64),
    /// Recent records often: zipfian with this constant, from the newest back.
    Latest(f64),
}

/// Picks records.
pub struct Picker {
    choice: Choice,
    /// Over the records that were there at the start.
    zipf: Zipf<f64>,
    start: u64,
}

impl Picker {
    /// For `records` records at the start of the run.
    #[must_use]
    pub fn new(choice: Choice, records: u64) -> Self {
        let start = records.max(1);
        let theta = match choice {
            Choice::Uniform => 0.0,
            Choice::Zipfian(theta) | Choice::Latest(theta) => theta,
        };
        let zipf = Zipf::new(start as f64, theta).expect("at least one record, θ is not negative");
        Self { choice, zipf, start }
    }

    /// One of `count` records.
    #[inline]
    pub fn pick(&self, rng: &mut Xoshiro256PlusPlus, count: u64) -> u64 {
        match self.choice {
            Choice::Uniform => rng.random_range(0..count.max(1)),
            Choice::Zipfian(_) => scramble(self.rank(rng), self.start),
            Choice::Latest(_) => (count.max(1) - 1).saturating_sub(self.rank(rng)),
        }
    }

    /// A rank from 0.
    #[inline]
    fn rank(&self, rng: &mut impl Rng) -> u64 {
        (self.zipf.sample(rng) as u64).clamp(1, self.start) - 1
    }
}

/// The record of a rank.
#[inline]
fn scramble(rank: u64, records: u64) -> u64 {
    mix(rank ^ 0x5851_f42d_4c95_7f2d) % records
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::HashMap;

    fn counts(choice: Choice, records: u64, samples: u64) -> HashMap<u64, u64> {
        let picker = Picker::new(choice, records);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut counts = HashMap::new();
        for _ in 0..samples {
            let record = picker.pick(&mut rng, records);
            assert!(record < records);
            *counts.entry(record).or_insert(0) += 1;
        }
        counts
    }

    #[test]
    fn zipfian_follows_the_theory() {
        let (records, samples) = (10_000, 500_000);
        let counts = counts(Choice::Zipfian(0.99), records, samples);
        let weight = |rank: u64| (rank as f64).powf(-0.99);
        let total: f64 = (1..=records).map(weight).sum();
        // What each record should get: the scramble may give two ranks to one record.
        let mut expected = HashMap::<u64, f64>::new();
        for rank in 0..records {
            let share = weight(rank + 1) / total;
            *expected.entry(scramble(rank, records)).or_default() += share * samples as f64;
        }
        for rank in [0, 1, 2, 5, 10, 50, 100] {
            let record = scramble(rank, records);
            let (found, expected) = (counts[&record] as f64, expected[&record]);
            let tolerance = 5.0 * expected.sqrt();
            assert!((found - expected).abs() < tolerance, "rank {rank}: {found} of {expected}");
        }
        // Most popular records are not neighbours.
        assert!(scramble(0, records).abs_diff(scramble(1, records)) > 1);
    }

    #[test]
    fn latest_prefers_the_newest() {
        let counts = counts(Choice::Latest(0.99), 1000, 100_000);
        let at = |record| counts.get(&record).copied().unwrap_or(0);
        assert!(at(999) > at(998) && at(998) > at(990) && at(990) > at(500));
        assert!(at(999) > 10_000, "the newest record gets about 13 %");
    }

    #[test]
    fn uniform_gives_each_record_its_share() {
        let counts = counts(Choice::Uniform, 100, 100_000);
        assert!(counts.len() == 100 && counts.values().all(|&n| (800..1200).contains(&n)));
    }

    #[test]
    fn latest_reaches_records_inserted_during_the_run() {
        let picker = Picker::new(Choice::Latest(0.99), 10);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        assert!((0..1000).any(|_| picker.pick(&mut rng, 500) == 499));
        assert_eq!(Picker::new(Choice::Zipfian(0.99), 0).pick(&mut rng, 0), 0);
    }
}
