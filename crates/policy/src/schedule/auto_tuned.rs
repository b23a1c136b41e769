//! `auto_tuned`: the slots of `fifo` under RocksDB's auto-tuned rate limiter.
//!
//! Source: "SILK: Preventing Latency Spikes in Log-Structured Merge Key-Value Stores" (2019), §2.3;
//! RocksDB's `GenericRateLimiter` (`TuneLocked`). One rate limits the bytes that jobs write,
//! flushes first. It is between a twentieth of a maximum and the maximum, and at first half of it.
//! RocksDB's limiter is refilled every 100 ms, and it counts the refills that a request waited for.
//! The first request after each 100 refills tunes the rate:
//! 1. if no refill was waited for (less than 1 %), the rate becomes the least one;
//! 2. if less than 50 % of the refills were waited for: the rate ÷ 1.05;
//! 3. if more than 90 % were waited for: the rate × 1.05. Else the rate stays.
//!
//! A request is a decision while a job runs or a candidate waits. So nothing is tuned while no job
//! wants bandwidth. A period without requests counts as a whole, as in RocksDB: after a pause the
//! limit is the least one. Flushes are served first (`IO_HIGH`). Compactions are served in turn,
//! without regard to their levels (`IO_LOW`).
//!
//! Deviations: the engine's bucket is filled continuously and holds 10 ms, so its refills are spans
//! of time in which a job waited. RocksDB lets one of ten refills serve compactions first.
//!
//! The maximum is the device's bandwidth. While it is unknown nothing is limited. With
//! `step_percent` = 0 nothing is tuned and the limit is the maximum, as in RocksDB's limiter
//! without auto-tuning (SILK (2019), §4.3).
//!
//! Liveness: the limit is never zero, and in `fifo` no tree starves.
//!
//! Cost: O(1) on top of `fifo`'s. State: the rate, the time when it was tuned, the count of
//! waited-for refills at that time.

use super::fifo::Fifo;
use super::{Schedule, device_bandwidth};
use crate::candidate::Candidate;
use crate::decision::{Bandwidth, Counted, Grants};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Running, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::{BytesPerSec, Micros, Result};

/// The largest rate ÷ the least rate.
const RANGE: f64 = 20.0;
/// Refills in a period.
const REFILLS: u64 = 100;

/// The constants of RocksDB's `GenericRateLimiter`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AutoTunedOptions {
    /// The interval of tuning, in microseconds.
    pub period: Micros,
    /// The rate falls when less than this percentage of the refills was waited for.
    pub low_percent: u64,
    /// The rate rises when more than this percentage of the refills was waited for.
    pub high_percent: u64,
    /// The step in percent; 0 keeps the limit at its maximum.
    pub step_percent: u64,
}

impl Default for AutoTunedOptions {
    fn default() -> Self {
        Self { period: Micros(10_000_000), low_percent: 50, high_percent: 90, step_percent: 5 }
    }
}

impl MechanismOptions for AutoTunedOptions {
    fn check(&self) -> Result<()> {
        let rules = [
            (
                (1_000..=3_600_000_000).contains(&self.period.0),
                "auto_tuned.period",
                "must be from 1 ms (1000) to an hour (3600000000)",
            ),
            (
                self.low_percent <= self.high_percent,
                "auto_tuned.low_percent",
                "must be at most high_percent",
            ),
            (
                self.high_percent < 100,
                "auto_tuned.high_percent",
                "must be less than 100, or the limit would never rise",
            ),
            (self.step_percent <= 100, "auto_tuned.step_percent", "must be at most 100"),
        ];
        all_hold(rules)
    }

    fn scale(&mut self, by: Scale) {
        self.period = by.time(self.period);
    }

    fn shrink(&mut self, _: &TreeOptions, _: &mut Pick<'_>) {
        self.period = Micros(20_000);
    }
}

/// RocksDB with its auto-tuned rate limiter.
#[derive(Debug)]
pub struct AutoTuned {
    options: AutoTunedOptions,
    /// The maximum; zero for the least measured throughput.
    device: BytesPerSec,
    fifo: Fifo,
    tuned: Option<Tuned>,
}

/// The limit, with the time and the count of waited-for refills when it was set.
#[derive(Debug, Clone, Copy)]
struct Tuned {
    rate: f64,
    at: Micros,
    drained: u64,
}

impl Mechanism for AutoTuned {
    const WHAT: &'static str =
        "as fifo, under RocksDB's limit that grows and shrinks with the demand";
    type Options = AutoTunedOptions;

    fn new(tree: &TreeOptions, own: &AutoTunedOptions) -> Result<Self> {
        let (options, device) = (own.clone(), tree.device_bandwidth);
        Ok(Self { options, device, fifo: Fifo::of(tree), tuned: None })
    }
}

impl AutoTuned {
    fn refill(&self) -> Micros {
        Micros(self.options.period.0 / REFILLS)
    }

    /// Rules 1 to 3.
    fn tune(&self, signals: &Signals, most: f64, wanted: bool) -> Tuned {
        let (at, drained) = (signals.now, signals.counters.waited_spans);
        let Some(tuned) = self.tuned else { return Tuned { rate: most / 2.0, at, drained } };
        let passed = at.saturating_sub(tuned.at);
        if !wanted || passed < self.options.period {
            return Tuned { rate: tuned.rate.min(most), ..tuned };
        }
        let refills = passed.0.div_ceil(self.refill().0);
        let percent = 100 * drained.saturating_sub(tuned.drained) / refills;
        let step = 1.0 + self.options.step_percent as f64 / 100.0;
        let rate = if percent == 0 {
            0.0
        } else if percent < self.options.low_percent {
            tuned.rate / step
        } else if percent > self.options.high_percent {
            tuned.rate * step
        } else {
            tuned.rate
        };
        Tuned { rate: rate.clamp(most / RANGE, most), at, drained }
    }
}

impl Schedule for AutoTuned {
    fn name(&self) -> &'static str {
        "auto_tuned"
    }

    fn needs_device(&self) -> bool {
        self.device == BytesPerSec::ZERO
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        let mut grants = self.fifo.decide(signals, candidates, running);
        let Some(most) = device_bandwidth(self.device, signals) else { return grants };
        let mut limit = most;
        if self.options.step_percent > 0 {
            let wanted = !candidates.is_empty() || !running.is_empty();
            let tuned = self.tune(signals, most.as_f64(), wanted);
            self.tuned = Some(tuned);
            limit = BytesPerSec(tuned.rate as u64);
            grants.again = wanted.then(|| tuned.at + self.options.period);
        }
        grants.bandwidth = Some(Bandwidth {
            limit,
            floor: BytesPerSec::ZERO,
            counted: Counted::Written,
            in_turn: true,
            span: self.refill(),
        });
        grants
    }
}
