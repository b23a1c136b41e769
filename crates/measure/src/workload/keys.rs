//! The choice of an operation's record: uniform, zipfian (scrambled), latest, hot ranges.
//!
//! The zipfian distribution gives rank r (from 1) the probability r^−θ / H, where H is the sum over
//! all ranks. Rejection-inversion (`rand_distr`) samples it exactly and without a table.
//! *Scrambled*: a hash maps ranks to records, so popular records lie apart in key order. *Latest*:
//! rank 1 is the record inserted last. *Hot ranges*: some ranges in key order are popular, and some
//! records in each of them. With hashed keys the picker tries records until one is in the range.

use super::data::{KeyOrder, mix};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};

/// A distribution of records.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// All records are equally likely.
    #[default]
    Uniform,
    /// A few records are popular: zipfian with this constant, scrambled.
    Zipfian(f64),
    /// Recent records are popular: zipfian with this constant, from the newest back.
    Latest(f64),
    /// Some ranges of keys are popular.
    HotRanges(HotRanges),
    /// For scans only. Each client starts at a place of its own; each of its scans begins where the
    /// last one ended (on average, if keys are hashed).
    InOrder,
}

/// Ranges of equal numbers of keys, some of them hot. The probability of the x-th hottest is
/// proportional to a·e^(b·x) + c·e^(d·x). The ranges lie in random order.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HotRanges {
    /// The number of ranges.
    pub ranges: u32,
    /// a, b, c and d.
    pub heat: [f64; 4],
    /// a and b: within a range, the ranks up to r have the probability a·r^b together. A hash maps
    /// ranks to records, so a record may have several.
    pub ranks: [f64; 2],
}

/// Picks records.
pub struct Picker {
    choice: Choice,
    /// The distribution over the records that existed at the start.
    zipf: Zipf<f64>,
    start: u64,
    order: KeyOrder,
    /// The shares of ranges, added up.
    heat: Vec<f64>,
}

impl Picker {
    /// A picker for `records` records at the start of the run, whose keys have this order.
    #[must_use]
    pub fn new(choice: Choice, records: u64, order: KeyOrder) -> Self {
        let start = records.max(1);
        let theta = match choice {
            Choice::Zipfian(theta) | Choice::Latest(theta) => theta,
            _ => 0.0,
        };
        let zipf = Zipf::new(start as f64, theta).expect("at least one record, θ is not negative");
        let heat = match &choice {
            Choice::HotRanges(hot) => hot.cumulative(),
            _ => Vec::new(),
        };
        Self { choice, zipf, start, order, heat }
    }

    /// One of `count` records.
    #[inline]
    pub fn pick(&self, rng: &mut Xoshiro256PlusPlus, count: u64) -> u64 {
        match &self.choice {
            Choice::Uniform | Choice::InOrder => rng.random_range(0..count.max(1)),
            Choice::Zipfian(_) => scramble(self.rank(rng), self.start),
            Choice::Latest(_) => (count.max(1) - 1).saturating_sub(self.rank(rng)),
            Choice::HotRanges(hot) => self.in_range(hot, rng),
        }
    }

    /// A rank from 0.
    #[inline]
    fn rank(&self, rng: &mut impl Rng) -> u64 {
        (self.zipf.sample(rng) as u64).clamp(1, self.start) - 1
    }

    /// A record of a hot range.
    fn in_range(&self, hot: &HotRanges, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let heat = rng.random::<f64>();
        let range = self.heat.partition_point(|sum| *sum <= heat).min(self.heat.len() - 1) as u64;
        let [a, b] = hot.ranks;
        let rank = (rng.random::<f64>() / a).powf(1.0 / b).ceil() as u64;
        let hash = mix(rank ^ mix(range));
        let ranges = self.heat.len() as u64;
        match self.order {
            KeyOrder::Sequential => {
                let size = (self.start / ranges).max(1);
                (range * size + hash % size).min(self.start - 1)
            }
            KeyOrder::Hashed => {
                let record = |attempt| mix(hash.wrapping_add(attempt)) % self.start;
                // On average one of `ranges` records is in the range; maybe none of very few.
                let inside = |record: &u64| range_of(mix(*record), ranges) == range;
                (0..64 * ranges).map(record).find(inside).unwrap_or(hash % self.start)
            }
        }
    }
}

/// The range of a hashed key's number.
#[inline]
fn range_of(number: u64, ranges: u64) -> u64 {
    ((u128::from(number) * u128::from(ranges)) >> 64) as u64
}

impl HotRanges {
    /// The cumulative shares of all ranges in key order.
    fn cumulative(&self) -> Vec<f64> {
        let mut shares = self.shares();
        // Shuffle without a seed, for the same order in every run.
        for i in (1..shares.len()).rev() {
            shares.swap(i, (mix(i as u64) % (i as u64 + 1)) as usize);
        }
        let mut sum = 0.0;
        let add = |share| {
            sum += share;
            sum
        };
        shares.into_iter().map(add).collect()
    }

    /// The share of each range, the hottest first.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let [a, b, c, d] = self.heat;
        let heat = |x: u32| a * (b * f64::from(x)).exp() + c * (d * f64::from(x)).exp();
        let total: f64 = (1..=self.ranges).map(heat).sum();
        (1..=self.ranges).map(|x| heat(x) / total).collect()
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
        let picker = Picker::new(choice, records, KeyOrder::Hashed);
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
        // Sum the expectations per record, as the scramble may give two ranks to one record.
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
        // The most popular records are not neighbours.
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
        let picker = Picker::new(Choice::Latest(0.99), 10, KeyOrder::Hashed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        assert!((0..1000).any(|_| picker.pick(&mut rng, 500) == 499));
        let none = Picker::new(Choice::Zipfian(0.99), 0, KeyOrder::Hashed);
        assert_eq!(none.pick(&mut rng, 0), 0);
    }
}
