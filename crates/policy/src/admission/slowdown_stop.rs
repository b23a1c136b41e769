//! `slowdown_stop`: RocksDB's delayed write rate and stop.
//!
//! Source: RocksDB's `ColumnFamilyData::RecalculateWriteStallConditions` and `SetupDelay`.
//!
//! One tree decides: a tree at its stop, else a tree at its slowdown. Among several, the tree
//! nearest to its stop decides.
//! 1. At its stop nothing is let in.
//! 2. At its slowdown writes get the delayed rate. Whenever the pressure has changed, the rate
//!    changes as well: ×0.6 just after a stop or near one; else ×0.8 while the debt has not shrunk;
//!    else ÷0.8, at most the initial rate.
//! 3. Below its slowdown there is no limit. The rate ×1.4 is kept for the next slowdown.
//!
//! Deviations:
//! - RocksDB recomputes when a flush or compaction is installed. We recompute when the pressure has
//!   changed since the last decision, which is the same moment;
//! - "near to the stop" is 94 % of the way, for L0 and for debt. In RocksDB it is two runs short of
//!   36 for L0, and for debt three quarters of the way from the soft to the hard limit;
//! - RocksDB's slowdown for nearly full memtables applies only with more than three of them. It is
//!   left out.
//!
//! Cost: O(trees). State: the rate, and the last state, debt and runs.

use super::Admission;
use crate::decision::Admit;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Pressure, Signals};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, Result};

/// The least rate, in bytes per second.
const RATE_MIN: f64 = 16.0 * 1024.0;
/// The factor of the rate while the debt does not shrink.
const WORSE: f64 = 0.8;
/// The factor while the debt shrinks.
const BETTER: f64 = 1.0 / WORSE;
/// The factor near a stop, or just after one.
const NEAR_STOP: f64 = 0.6;
/// The factor when the slowdown ends.
const RECOVER: f64 = 1.4;
/// The share of the way to the stop that counts as near it.
const NEAR: f64 = 0.94;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Slowed,
    Stopped,
}

/// RocksDB's write controller.
#[derive(Debug)]
pub struct SlowdownStop {
    rate_max: f64,
    rate: f64,
    state: State,
    /// The debt and the runs of the tree that determined the last decision.
    seen: Option<(Bytes, usize)>,
}

/// RocksDB's `delayed_write_rate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SlowdownStopOptions {
    /// The initial rate of delayed writes.
    pub delayed_write_rate: BytesPerSec,
}

impl Default for SlowdownStopOptions {
    fn default() -> Self {
        Self { delayed_write_rate: BytesPerSec(16 << 20) }
    }
}

impl MechanismOptions for SlowdownStopOptions {
    fn check(&self) -> Result<()> {
        all_hold([(
            (16 << 10..=1 << 40).contains(&self.delayed_write_rate.0),
            "delayed_write_rate",
            "must be from 16 KB/s to 1 TB/s",
        )])
    }
}

impl Mechanism for SlowdownStop {
    const WHAT: &'static str = "RocksDB's delayed write rate, then stop";
    type Options = SlowdownStopOptions;

    fn new(_: &TreeOptions, own: &SlowdownStopOptions) -> Result<Self> {
        let rate = own.delayed_write_rate.0 as f64;
        Ok(Self { rate_max: rate, rate, state: State::Free, seen: None })
    }
}

impl SlowdownStop {
    fn adjust(&mut self, now: (Bytes, usize), stop: f64) {
        let factor = match self.seen {
            // The first slowdown after a time without a limit keeps the rate.
            _ if self.state == State::Free => 1.0,
            Some(before) if before == now && self.state == State::Slowed => 1.0,
            _ if self.state == State::Stopped || stop >= NEAR => NEAR_STOP,
            Some(before) if now < before => BETTER,
            _ => WORSE,
        };
        self.rate = (self.rate * factor).clamp(RATE_MIN, self.rate_max);
    }
}

fn cause(pressure: &Pressure) -> WaitCause {
    if pressure.by_l0 { WaitCause::L0Bound } else { WaitCause::LevelDebt }
}

impl Admission for SlowdownStop {
    fn name(&self) -> &'static str {
        "slowdown_stop"
    }

    fn decide(&mut self, signals: &Signals) -> Admit {
        let key = |pressure: &Pressure| {
            let (stop, slowdown) = (pressure.stop, pressure.slowdown);
            (stop >= 1.0, slowdown >= 1.0, stop, slowdown)
        };
        let trees = signals.pressure.iter().map(|(_, pressure)| &**pressure);
        let worst = trees.max_by(|a, b| {
            let (a, b) = (key(a), key(b));
            (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.total_cmp(&b.3))
        });
        let (state, admit) = match worst {
            Some(worst) if worst.stop >= 1.0 => (State::Stopped, Admit::stop(cause(worst))),
            Some(worst) if worst.slowdown >= 1.0 => {
                self.adjust((worst.debt, worst.l0_runs), worst.stop);
                let writes = Some(BytesPerSec(self.rate as u64));
                (State::Slowed, Admit { writes, cause: Some(cause(worst)), ..Admit::OPEN })
            }
            _ => {
                if self.state != State::Free {
                    self.rate = (self.rate * RECOVER).min(self.rate_max);
                }
                (State::Free, Admit::OPEN)
            }
        };
        self.state = state;
        self.seen = worst.map(|worst| (worst.debt, worst.l0_runs));
        admit
    }
}
