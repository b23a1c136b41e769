//! DLC's OLTP: sysbench's transaction at a load that is high and low in turn.
//!
//! Source: "DLC: A New Compaction Scheme for LSM-tree with High Stability and Low Latency" (2021).
//! §6.1 and 6.2: a transaction of 10 point reads, 4 ranges, 2 updates, 1 delete and 1 insert; 1,200
//! per second for 500 s, then 300 per second for 100 s. §6.2.3: 550 or 1,100 s over 50 s. §6.3: the
//! high load without a pause. §6.2.2 and 6.4: without ranges and updates, at read:write ratios of
//! 5:5, 1:9 (of 2,500 and 2,350 per second) and 9:1. The rates are nine tenths of what the paper's
//! machine could do. For another machine set the peak (`Pattern::with_peak`).
//!
//! From sysbench's oltp_read_write: a range has 100 rows. The delete and the insert are of the same
//! row, which keeps the table's size. A row is a key of 16 and a value of 184 bytes (§6.1).
//!
//! Our choices: the read:write ratios count operations; a transaction has twenty. The low load of
//! these workloads is a quarter of the high one, as in the default transaction. The paper does not
//! give the distribution of keys, so it is sysbench's default. Three quarters of the keys come from
//! one range of a hundredth of the rows. The others come from all rows uniformly, where sysbench
//! prefers the middle. About one of five reads misses the cache. This is close to the paper, whose
//! Eq. 5 weighs a get with 16,000 bytes: a block of 64 KB for every fourth get.

use super::data::{KeyOrder, Shape};
use super::keys::{Choice, HotRanges};
use super::sizes::Sizes;
use super::{Preset, Transaction, Workload};
use crate::arrivals::{Arrivals, Pattern};

/// The transaction of sysbench.
const OLTP: Transaction =
    Transaction { reads: 10, scans: 4, scan_length: 100, updates: 2, replaces: 1 };

/// A hundred ranges, one of which is 298 times as hot as each of the others (298 ÷ 397 is three
/// quarters). All rows of a range are equally likely.
const KEYS: HotRanges =
    HotRanges { ranges: 100, heat: [1.440_940_6e11, -20.0, 1.0, 0.0], ranks: [1e-9, 1.0] };

pub(super) fn all() -> Vec<Preset> {
    let varying = |high: f64, rate: f64, low: f64| {
        Arrivals::Varying(Pattern::new([(high, rate), (low, rate / 4.0)]))
    };
    let oltp = |name: &str, what: &str, arrivals| {
        let what = format!("DLC: transactions of 10 reads, 4 ranges, 4 writes; {what}");
        preset(name, &what, OLTP, arrivals)
    };
    let ratio = |name: &str, reads: u32, replaces: u32, arrivals| {
        let what = format!("DLC: transactions of {reads} reads and {} writes", 2 * replaces);
        let transaction = Transaction { reads, replaces, ..Transaction::default() };
        preset(name, &what, transaction, arrivals)
    };
    vec![
        oltp("dlc", "500 s high, 100 s low", varying(500.0, 1200.0, 100.0)),
        oltp("dlc-550", "550 s high, 50 s low", varying(550.0, 1200.0, 50.0)),
        oltp("dlc-1100", "1,100 s high, 50 s low", varying(1100.0, 1200.0, 50.0)),
        oltp("dlc-sustained", "high without a pause", Arrivals::Open(1200.0)),
        ratio("dlc-5-5", 10, 5, varying(500.0, 2500.0, 100.0)),
        ratio("dlc-1-9", 2, 9, varying(500.0, 2350.0, 100.0)),
        ratio("dlc-9-1", 18, 1, varying(500.0, 2500.0, 100.0)),
    ]
}

fn preset(name: &str, what: &str, transaction: Transaction, arrivals: Arrivals) -> Preset {
    let none = Workload::none(name, Choice::HotRanges(KEYS));
    let workload = Workload { transactions: 100.0, transaction, ..none };
    Preset {
        shape: Shape { key_size: 16, values: Sizes::Fixed(184), order: KeyOrder::Hashed },
        arrivals: Some(arrivals),
        ..Preset::new(name, what, workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::keys::Picker;
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    #[test]
    fn a_hundredth_of_the_rows_has_three_quarters_of_the_requests() {
        let shares = KEYS.shares();
        assert!((shares[0] - 0.75).abs() < 0.002, "{}", shares[0]);
        assert!(shares[1..].iter().all(|share| (share - 0.0025).abs() < 0.0001));
        let (rows, samples) = (10_000, 100_000);
        let picker = Picker::new(Choice::HotRanges(KEYS), rows, KeyOrder::Hashed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut counts = vec![0_u32; rows as usize];
        (0..samples).for_each(|_| counts[picker.pick(&mut rng, rows) as usize] += 1);
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        // The hot range has about a hundred rows, and no row of it is left out.
        let hot: u32 = counts[..130].iter().sum();
        assert!((70_000..80_000).contains(&hot), "{hot}");
        assert!(counts[60] > 400, "{}", counts[60]);
    }
}
