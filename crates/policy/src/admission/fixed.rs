//! `fixed`: a constant limit on writes, CruiseDB's static admission.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §VIII.G, Fig. 16 and 17: "a fixed throughput limit to the average throughput in
//! the unlimited case".
//! 1. With a `rate`, this is the limit from the beginning.
//! 2. Without one, nothing is limited until `window` bytes were written. Then the average
//!    throughput of that time, but at least 1 MB/s, is the limit for as long as the store is open.
//!    Pauses of the writers do not count.
//! 3. Below that limit, RocksDB's write controller works as usual (`slowdown_stop.rs`, with its
//!    default): the paper's static admission is a limit in front of RocksDB.
//!
//! Readings. In the paper the average is that of a whole run without a limit, made beforehand: that
//! is rule 1. Rule 2 is for a store that was never run without a limit. Its window should be long
//! enough for stalls to show. The paper's limiter holds back reads as well. It is in front of a
//! RocksDB, whose reads fill no memory, so only writes are limited here.
//!
//! Cost: O(1). State: the beginning of the measurement.

use super::Admission;
use super::slowdown_stop::{SlowdownStop, SlowdownStopOptions};
use crate::decision::Admit;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::Signals;
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, Micros, Result};

/// The interval of looks while the average is measured. A longer time without a write is a pause.
const LOOK: Micros = Micros(50_000);

/// The least limit that is measured: a stall in a short window must not throttle the store for
/// ever.
const RATE_MIN: BytesPerSec = BytesPerSec(1 << 20);

/// A constant limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FixedOptions {
    /// Bytes of keys and values let in per second; 0 for the average throughput of the first
    /// `window` bytes.
    pub rate: BytesPerSec,
    /// Bytes of keys and values over which the average is measured.
    pub window: Bytes,
}

impl Default for FixedOptions {
    fn default() -> Self {
        Self { rate: BytesPerSec::ZERO, window: Bytes::mib(8 << 10) }
    }
}

impl MechanismOptions for FixedOptions {
    fn check(&self) -> Result<()> {
        all_hold([
            (
                self.rate.0 == 0 || self.rate.0 >= 1 << 10,
                "fixed.rate",
                "must be at least 1 KB/s, or writes would never end; 0 measures the average",
            ),
            (self.window.0 > 0, "fixed.window", "must be at least 1 byte"),
        ])
    }

    fn scale(&mut self, by: Scale) {
        self.window = by.bytes(self.window);
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.rate = BytesPerSec(pick.of(&[0, 1 << 20, 64 << 20]));
        self.window = Bytes::kib(pick.of(&[1, 64]));
    }
}

/// A constant limit.
#[derive(Debug)]
pub struct Fixed {
    controller: SlowdownStop,
    window: Bytes,
    limit: Option<BytesPerSec>,
    /// Bytes written and the time at the last look.
    seen: Bytes,
    looked: Micros,
    /// Bytes written since the measurement began, and the time in which they were.
    written: Bytes,
    took: Micros,
}

impl Mechanism for Fixed {
    const WHAT: &'static str = "CruiseDB's static admission: a constant limit on writes";
    type Options = FixedOptions;

    fn new(tree: &TreeOptions, own: &FixedOptions) -> Result<Self> {
        Ok(Self {
            controller: SlowdownStop::new(tree, &SlowdownStopOptions::default())?,
            window: own.window,
            limit: (own.rate.0 > 0).then_some(own.rate),
            seen: Bytes::ZERO,
            looked: Micros::ZERO,
            written: Bytes::ZERO,
            took: Micros::ZERO,
        })
    }
}

impl Fixed {
    /// Rule 2. True while writers write.
    fn measure(&mut self, signals: &Signals) -> bool {
        let counters = &signals.counters;
        let more = counters.write_bytes.saturating_sub(self.seen);
        let passed = signals.now.saturating_sub(self.looked);
        // Writers that wait are no pause: this is what stalls do to the average.
        let writing = more > Bytes::ZERO || counters.waiting_writers > 0;
        if writing {
            let is_pause = self.seen == Bytes::ZERO || passed > LOOK * 2;
            self.took += if is_pause { LOOK } else { passed };
            self.written += more;
        }
        (self.seen, self.looked) = (counters.write_bytes, signals.now);
        if self.written >= self.window && self.took > Micros::ZERO {
            let rate = self.written.as_f64() / self.took.as_secs_f64();
            self.limit = Some(BytesPerSec(rate as u64).max(RATE_MIN));
        }
        writing
    }
}

impl Admission for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn decide(&mut self, signals: &Signals) -> Admit {
        let writing = self.limit.is_none() && self.measure(signals);
        let controlled = self.controller.decide(signals);
        match self.limit {
            _ if controlled.writes.is_some_and(|rate| self.limit.is_none_or(|own| rate < own)) => {
                Admit { again: writing.then(|| signals.now + LOOK), ..controlled }
            }
            Some(limit) => {
                let (writes, cause) = (Some(limit), Some(WaitCause::Admission));
                Admit { writes, cause, ..Admit::OPEN }
            }
            None => Admit { again: writing.then(|| signals.now + LOOK), ..Admit::OPEN },
        }
    }
}
