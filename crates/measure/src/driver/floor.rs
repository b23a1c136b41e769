//! What the driver costs by itself, and whether it can keep the rate it is asked for: a short run
//! of the same kind over a store that does nothing. Arrivals that vary are tried at their peak.

use super::{Outcome, Phase, run};
use crate::arrivals::Arrivals;
use crate::store::NullStore;
use crate::workload::Records;
use crate::workload::data::Data;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Seconds of a try.
const SECONDS: f64 = 0.5;
/// Tries at most, until one is as good as it shall be.
const TRIES: usize = 10;
/// What P99.9 of the driver alone shall be at most, in nanoseconds.
const AIM: u64 = 200_000;
/// The share of the rate that has to be reached; a machine that stands still for a moment is no
/// reason to refuse.
const REACHED: f64 = 0.9;

/// The driver over a store that does nothing: the least that any figure of a run can be.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Floor {
    /// Requests per second, in an open loop.
    pub rate: Option<f64>,
    /// Its 99th percentile in microseconds.
    pub p99_us: f64,
    /// Its 99.9th percentile in microseconds.
    pub p999_us: f64,
    /// Processor time per operation in microseconds.
    pub cpu_us_per_op: f64,
}

/// The driver cannot keep the rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TooFast {
    /// Requests per second that were asked for.
    pub asked: f64,
    /// Requests per second that it can offer.
    pub reached: f64,
    /// By so many clients.
    pub threads: usize,
}

impl fmt::Display for TooFast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, reached, threads } = self;
        write!(
            f,
            "{asked:.0} requests per second are more than the driver can offer with {threads} \
             client threads: over a store that does nothing it reaches {reached:.0}. Ask for fewer"
        )
    }
}

impl std::error::Error for TooFast {}

impl From<TooFast> for String {
    fn from(error: TooFast) -> Self {
        error.to_string()
    }
}

/// What the driver costs by itself.
///
/// # Errors
/// [`TooFast`] when it cannot keep the phase's rate even over a store that does nothing: what it
/// would measure then is itself.
pub fn floor(phase: &Phase, data: &Data) -> Result<Floor, TooFast> {
    let asked = phase.arrivals.peak();
    let p999 = |outcome: &Outcome| outcome.latencies.quantile(0.999);
    let mut outcome = brief(phase, data);
    if let Some(asked) = asked {
        // Something else may have had the machine: the best of a few tries is the driver's own.
        for _ in 1..TRIES {
            if reached(&outcome) >= REACHED * asked && p999(&outcome) <= AIM {
                break;
            }
            let again = brief(phase, data);
            let better = (reached(&again) >= REACHED * asked, u64::MAX - p999(&again))
                > (reached(&outcome) >= REACHED * asked, u64::MAX - p999(&outcome));
            outcome = if better { again } else { outcome };
        }
        let reached = reached(&outcome);
        if reached < REACHED * asked {
            return Err(TooFast { asked, reached, threads: phase.threads });
        }
    }
    let at = |quantile| outcome.latencies.quantile(quantile) as f64 / 1e3;
    let ops = outcome.latencies.count().max(1) as f64;
    let cpu_us_per_op = outcome.usage.cpu_nanos as f64 / 1e3 / ops;
    Ok(Floor { rate: asked, p99_us: at(0.99), p999_us: at(0.999), cpu_us_per_op })
}

/// Requests per second.
fn reached(outcome: &Outcome) -> f64 {
    outcome.latencies.count() as f64 / outcome.seconds.max(1e-9)
}

fn brief(phase: &Phase, data: &Data) -> Outcome {
    let arrivals = phase.arrivals.at_peak();
    // Few requests per second need longer to say something.
    let slow = arrivals.peak().is_some_and(|rate| rate < 2000.0);
    let brief = Phase {
        workload: phase.workload.clone(),
        ops: None,
        seconds: Some(if slow && arrivals != Arrivals::Closed { 2.0 * SECONDS } else { SECONDS }),
        interval: SECONDS,
        arrivals,
        threads: phase.threads,
        seed: phase.seed,
    };
    let records = Arc::new(Records::new(1_000_000));
    let stop = AtomicBool::new(false);
    run(&NullStore::default(), data, &records, &brief, &stop, &mut |progress| {
        // What is not served soon after its time is far too much.
        if progress.seconds > 3.0 * SECONDS {
            stop.store(true, Relaxed);
        }
    })
}
