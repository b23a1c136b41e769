//! DLC's OLTP: sysbench's transaction at a load that is high and low in turn.
//!
//! Source: dlc.txt §6.1 and 6.2: a transaction of 10 point reads, 4 ranges, 2 updates, 1 delete and
//! 1 insert; 1,200 per second for 500 s, then 300 per second for 100 s; §6.2.3: 550 or 1,100 s over
//! 50 s; §6.3: the high load without a pause; §6.2.2 and 6.4: without ranges and updates, at
//! read:write ratios of 5:5, 1:9 (of 2,500 and 2,350 per second) and 9:1. The rates are nine tenths
//! of what the paper's machine could do: give a peak of your own (`Pattern::with_peak`).
//!
//! From sysbench's oltp_read_write: ranges of 100 rows; the delete and the insert are of the same
//! row, which keeps the table's size; a row is a key of 16 and a value of 184 bytes (dlc.txt §6.1).
//! Ours: what one of the read:write ratios counts is operations, of which a transaction has twenty.
//! The low load of those is a quarter of the high one, as it is of the default transaction. Keys
//! are zipfian (the paper does not say; sysbench's default differs from version to version).

use super::data::{KeyOrder, Shape};
use super::keys::Choice;
use super::sizes::Sizes;
use super::{Preset, THETA, Transaction, Workload};
use crate::arrivals::{Arrivals, Pattern};

/// The transaction of sysbench.
const OLTP: Transaction =
    Transaction { reads: 10, scans: 4, scan_length: 100, updates: 2, replaces: 1 };

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
    let none = Workload::none(name, Choice::Zipfian(THETA));
    let workload = Workload { transactions: 100.0, transaction, ..none };
    Preset {
        shape: Shape { key_size: 16, values: Sizes::Fixed(184), order: KeyOrder::Hashed },
        arrivals: Some(arrivals),
        ..Preset::new(name, what, workload)
    }
}
