//! The driver's floor: its own cost, and the rates that it can offer. A short run of the same kind
//! over a store that does nothing measures it. Arrivals that vary are tried at their peak.

use super::{Outcome, Phase, run};
use crate::store::NullStore;
use crate::workload::Records;
use crate::workload::data::Data;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Seconds of a try.
const SECONDS: f64 = 0.5;
/// The largest number of tries to reach the rate and [`AIM`].
const TRIES: usize = 10;
/// The aim for P99.9 of the driver alone, in nanoseconds.
const AIM: u64 = 200_000;
/// The share of the rate that must be reached. It is below one, because a short pause of the
/// machine is no reason to refuse a rate.
const REACHED: f64 = 0.9;

/// The driver over a store that does nothing. No figure of a run can be below this.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Floor {
    /// Requests per second, in an open loop.
    pub rate: Option<f64>,
    /// The 99th percentile of latencies in microseconds.
    pub p99_us: f64,
    /// The 99.9th percentile of latencies in microseconds.
    pub p999_us: f64,
    /// Processor time per operation in microseconds.
    pub cpu_us_per_op: f64,
}

/// Measures what the driver costs by itself. `stop` ends this early, with what was measured until
/// then.
///
/// # Errors
/// The driver cannot keep the phase's rate even over a store that does nothing. The phase would
/// then measure the driver. The text has both rates.
pub fn floor(phase: &Phase, data: &Data, stop: &AtomicBool) -> Result<Floor, String> {
    let rate = phase.arrivals.peak();
    let asked = rate.unwrap_or(0.0);
    let p999 = |outcome: &Outcome| Reverse(outcome.latencies.quantile(0.999));
    let quality = |outcome: &Outcome| (reached(outcome) >= REACHED * asked, p999(outcome));
    // Other processes may disturb a try, so the best one counts. A closed loop has no aim.
    let mut outcome = brief(phase, data, stop);
    let mut tries = 1;
    let going = |tries| tries < TRIES && !stop.load(Relaxed);
    while rate.is_some() && going(tries) && quality(&outcome) < (true, Reverse(AIM)) {
        let again = brief(phase, data, stop);
        outcome = if quality(&again) > quality(&outcome) { again } else { outcome };
        tries += 1;
    }
    let reached = reached(&outcome);
    if reached < REACHED * asked && !stop.load(Relaxed) {
        return Err(format!(
            "{asked:.0} requests per second are more than the driver can offer with {} client \
             threads: over a store that does nothing it reaches {reached:.0}. Ask for fewer",
            phase.threads
        ));
    }
    let at = |quantile| outcome.latencies.quantile(quantile) as f64 / 1e3;
    let ops = outcome.latencies.count().max(1) as f64;
    let cpu_us_per_op = outcome.usage.cpu_nanos as f64 / 1e3 / ops;
    Ok(Floor { rate, p99_us: at(0.99), p999_us: at(0.999), cpu_us_per_op })
}

/// The completed requests per second.
fn reached(outcome: &Outcome) -> f64 {
    outcome.latencies.count() as f64 / outcome.seconds.max(1e-9)
}

fn brief(phase: &Phase, data: &Data, stop: &AtomicBool) -> Outcome {
    let arrivals = phase.arrivals.at_peak();
    // At a low rate, measure longer, to have enough requests.
    let slow = arrivals.peak().is_some_and(|rate| rate < 2000.0);
    let seconds = Some(if slow { 2.0 * SECONDS } else { SECONDS });
    let brief = Phase { arrivals, ops: None, seconds, interval: SECONDS, ..phase.clone() };
    let records = Arc::new(Records::new(1_000_000));
    let end = AtomicBool::new(stop.load(Relaxed));
    run(&NullStore::default(), data, &records, &brief, &end, &mut |progress| {
        // Requests that are not served by then show that the rate is far too high.
        if progress.seconds > 3.0 * SECONDS || stop.load(Relaxed) {
            end.store(true, Relaxed);
        }
    })
}
