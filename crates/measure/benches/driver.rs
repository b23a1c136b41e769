//! The cost of the open-loop driver itself: two clients over a store that answers at once.
//!
//! `cargo bench -p vlsm-measure --bench driver [-- ROUNDS]` alternates between the rates, a few
//! seconds each, and prints each round: the latency of a null operation and the share of one core.
//! Run it on a quiet machine, because every other process shows in the P99.9.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::driver::{Phase, run};
use vlsm_measure::store::NullStore;
use vlsm_measure::workload::data::Data;
use vlsm_measure::workload::{Records, Workload};

/// Seconds of one round at one rate.
const SECONDS: f64 = 4.0;

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(3);
    println!("rate/s   workload  P50 µs  P99 µs  P99.9 µs  max µs  cores  µs/op");
    for _ in 0..rounds {
        for (rate, name) in [(100e3, "load"), (100e3, "a"), (300e3, "load"), (300e3, "a")] {
            round(rate, name);
        }
    }
}

fn round(rate: f64, name: &str) {
    let phase = Phase {
        workload: Workload::named(name).expect("known"),
        arrivals: Arrivals::Open(rate),
        threads: 2,
        ops: None,
        seconds: Some(SECONDS),
        seed: 1,
        interval: 1.0,
    };
    let records = Arc::new(Records::new(1_000_000));
    let stop = AtomicBool::new(false);
    let data = Data::new(24, 176, 1);
    let outcome = run(&NullStore::default(), &data, &records, &phase, &stop, &mut |_| ());
    let at = |quantile| outcome.latencies.quantile(quantile) as f64 / 1e3;
    let cpu = outcome.usage.cpu_nanos as f64;
    println!(
        "{rate:<8} {name:<8} {:>7.1} {:>7.1} {:>9.1} {:>7.0} {:>6.3} {:>6.3}",
        at(0.5),
        at(0.99),
        at(0.999),
        outcome.latencies.max() as f64 / 1e3,
        cpu / 1e9 / outcome.seconds,
        cpu / 1e3 / outcome.latencies.count() as f64,
    );
}
