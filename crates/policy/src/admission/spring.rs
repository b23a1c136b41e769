//! `spring`: bLSM's watermarks on memory. Writers are slowed down in proportion, not stopped.
//!
//! Source: "bLSM: A General Purpose Log Structured Merge Tree" (2012), §4.3, and its published code
//! (`mergeManager.cpp`: `tick`, "linear backpressure model"; `memTreeComponent.h`: the low
//! watermark). Memory is a spring between the writers and the merges: it absorbs bursts, and it
//! pushes back the harder, the further it is compressed. m is the bytes of memtables that no merge
//! has taken out yet. |C0| is half of all memtables: the other half is C0′, which a merge reads.
//! 1. Below the low watermark, `low` · |C0|, there is no limit.
//! 2. Between the watermarks each byte takes a time in proportion to x ÷ (1 − x), where x goes from
//!    0 at the low watermark to 1 at the high one, `high` · |C0|. The limit is (the bytes between
//!    the watermarks ÷ `time`) · (1 − x) ÷ x.
//! 3. The limit never falls below one memtable in ten times `time`. So at the high watermark and
//!    above writers wait for the merge, up to this trickle.
//! 4. If nothing was written for `time`, there is no limit until the next look.
//!
//! The rate follows the merges without a measurement of them: where merges take out D bytes a
//! second, the writers' rate settles at D, and x at 1 ÷ (1 + D · `time` ÷ bytes between the
//! watermarks). A disturbance fades within `time`. A merge that ends shows as a step in the memory
//! in use, but not in m, which falls all the time as the merge goes on.
//!
//! Both watermarks leave room for the work of other shapes and for few memtables: the low one is at
//! least what a merge gathers (`l0_trigger` memtables, at most half of all), and the high one at
//! least one memtable above it. Otherwise writers would wait for memtables that no merge takes.
//!
//! Readings:
//! - the code delays each operation by 1 ms + 5 s · (fill ÷ 0.95 − 1), from 95 % of C0 on, and
//!   stops at 100 %. This time depends on the number of clients. The gate here paces bytes of all
//!   clients together. The time is in proportion to x where the pressure is low, as in the code,
//!   and grows without bound where memory is nearly full, so that the stop is not needed;
//! - the low watermark of the code, 80 % of C0, is where C0→C1 begins to read. So it is also where
//!   there is a merge to wait for;
//! - m is what the paper calls the size of C0. With snowshoveling entries leave C0 while the merge
//!   goes on. A memtable is freed as a whole, so the memory in use says little about the merge.
//!
//! Deviations: one rate holds for the store, and m is that of the tree that has the most. A stop is
//! a trickle, because the shape may still be waiting for the memtable that is being filled.
//!
//! Cost: O(1). State: the number of writes, and the time of the last one.

use super::{Admission, Writing};
use crate::decision::Admit;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::Signals;
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, Micros, Result};

/// The time between looks at the memory while writes may have to be limited.
const LOOK: Micros = Micros(5_000);
/// A memtable is let in within this many times `time` (rule 3).
const TRICKLE: f64 = 10.0;

/// bLSM's watermarks, as shares of C0: half of all memtables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SpringOptions {
    /// The share of C0 from which on writers are slowed down.
    pub low: f64,
    /// The share of C0 at which writers wait for the merge.
    pub high: f64,
    /// The time in which the bytes between the watermarks are let in at half of the way. A longer
    /// time makes the writers' rate steadier, and keeps more memory free for a burst.
    pub time: Micros,
}

impl Default for SpringOptions {
    fn default() -> Self {
        Self { low: 0.8, high: 1.0, time: Micros(1_000_000) }
    }
}

impl MechanismOptions for SpringOptions {
    fn check(&self) -> Result<()> {
        let (low, high) = (self.low, self.high);
        all_hold([
            (
                low > 0.0 && low < 2.0,
                "spring.low",
                "must be above 0 and below 2: C0 is half of all memtables",
            ),
            (
                high > low && high <= 2.0,
                "spring.high",
                "must be above spring.low, and at most 2: C0 is half of all memtables",
            ),
            (
                (1_000..=3_600_000_000).contains(&self.time.0),
                "spring.time",
                "must be from 1 ms (1000) to an hour (3600000000)",
            ),
        ])
    }

    fn scale(&mut self, by: Scale) {
        self.time = by.time(self.time);
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.low = pick.of(&[0.2, 0.8, 1.5]);
        self.high = self.low + pick.of(&[0.2, 0.5]);
        self.time = Micros(pick.of(&[1_000, 5_000]));
    }
}

/// bLSM's watermarks.
#[derive(Debug)]
pub struct Spring {
    /// The watermarks and one memtable, as shares of all memtables.
    low: f64,
    high: f64,
    memtable: f64,
    time: Micros,
    writing: Writing,
}

impl Mechanism for Spring {
    const WHAT: &'static str = "bLSM: between two watermarks of memory writers are slowed down";
    type Options = SpringOptions;

    fn new(tree: &TreeOptions, own: &SpringOptions) -> Result<Self> {
        let memtable = 1.0 / tree.memtable_count as f64;
        let gathered = tree.l0_trigger.min(tree.memtable_count / 2).max(1) as f64 * memtable;
        let low = (own.low / 2.0).max(gathered);
        let high = (own.high / 2.0).max(low + memtable);
        Ok(Self { low, high, memtable, time: own.time, writing: Writing::default() })
    }
}

impl Spring {
    /// Rules 2 and 3: bytes per second, at this share of all memtables. None below the low
    /// watermark.
    fn limit(&self, fill: f64, capacity: Bytes) -> Option<BytesPerSec> {
        let x = (fill - self.low) / (self.high - self.low);
        if x <= 0.0 {
            return None;
        }
        let seconds = self.time.as_secs_f64();
        let rate = (self.high - self.low) / seconds * (1.0 - x) / x;
        let least = self.memtable / (TRICKLE * seconds);
        Some(BytesPerSec((rate.max(least) * capacity.as_f64()).max(1.0) as u64))
    }
}

impl Admission for Spring {
    fn name(&self) -> &'static str {
        "spring"
    }

    fn decide(&mut self, signals: &Signals) -> Admit {
        let (memtables, now) = (&signals.memtables, signals.now);
        let writing = self.writing.look(signals, self.time);
        let fill = memtables.unmerged.as_f64() / memtables.capacity.as_f64().max(1.0);
        // A memtable that is sealed calls for a decision, so the watermark cannot be passed unseen.
        if !writing || fill < self.low - self.memtable {
            return Admit::OPEN;
        }
        let writes = self.limit(fill, memtables.capacity);
        let cause = writes.map(|_| WaitCause::Admission);
        Admit { writes, cause, again: Some(now + LOOK), ..Admit::OPEN }
    }
}
