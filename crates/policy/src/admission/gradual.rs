//! `gradual`: writers are slowed down while memory fills up, so that none of them has to stop.
//!
//! Ours; the law is that of bLSM's spring (`spring.rs`), in front of RocksDB's write controller
//! (`slowdown_stop.rs`). With the controller alone writers run at full speed until the last
//! memtable is full, and then all of them wait for the rest of a flush.
//! 1. x is the used share of the memory that writers can fill before they must wait for a flush: 0
//!    while no memtable is sealed, 1 when the active one is full and no other one is empty.
//! 2. Up to x = ¼ there is no limit, and no cost.
//! 3. Beyond, the limit is (that memory ÷ `time`) · (1 − x) ÷ x, but at least a hundredth of that
//!    memory in `time`. So the memory that is left is filled ever more slowly.
//! 4. If nothing was written for `time`, there is no limit until the next look.
//! 5. Where the controller's limit is lower, it holds.
//!
//! So if a flush takes longer than the filling of a memtable, each write is delayed a little,
//! instead of one write for the whole rest of the flush. The writers' mean rate is the same, that
//! of the flushes.
//!
//! Difference from the spring: this one counts a memtable until it is freed, not until it is
//! merged, because the end of a flush takes time, too: it is synced and installed.
//!
//! Cost: O(trees). State: the controller's, the number of writes, and the time of the last one.

use super::slowdown_stop::{SlowdownStop, SlowdownStopOptions};
use super::{Admission, Writing};
use crate::decision::Admit;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{MemtableSignals, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{BytesPerSec, Micros, Result};

/// The time between looks at the memory while a memtable is sealed.
const LOOK: Micros = Micros(5_000);
/// The least x with a limit.
const LIMITED_FROM: f64 = 0.25;
/// The memory is let in within this many times `time` (rule 3).
const TRICKLE: f64 = 100.0;

/// A limit on writes that grows stricter as memory fills up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GradualOptions {
    /// The time in which the memory for writes is let in when half of it is used.
    pub time: Micros,
}

impl Default for GradualOptions {
    fn default() -> Self {
        Self { time: Micros(50_000) }
    }
}

impl MechanismOptions for GradualOptions {
    fn check(&self) -> Result<()> {
        all_hold([(
            (1_000..=3_600_000_000).contains(&self.time.0),
            "gradual.time",
            "must be from 1 ms (1000) to an hour (3600000000)",
        )])
    }

    fn scale(&mut self, by: Scale) {
        self.time = by.time(self.time);
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.time = Micros(pick.of(&[1_000, 5_000, 50_000]));
    }
}

/// A limit on writes that grows stricter as memory fills up.
#[derive(Debug)]
pub struct Gradual {
    controller: SlowdownStop,
    memtable_count: usize,
    time: Micros,
    writing: Writing,
}

impl Mechanism for Gradual {
    const WHAT: &'static str = "a limit that grows stricter as memory fills up, then RocksDB's";
    type Options = GradualOptions;

    fn new(tree: &TreeOptions, own: &GradualOptions) -> Result<Self> {
        let controller = SlowdownStop::new(tree, &SlowdownStopOptions::default())?;
        let (memtable_count, time) = (tree.memtable_count, own.time);
        Ok(Self { controller, memtable_count, time, writing: Writing::default() })
    }
}

impl Gradual {
    /// The bytes that writers can fill, and x: the used share of them.
    fn used(&self, memtables: &MemtableSignals) -> (f64, f64) {
        let memtable = memtables.capacity.as_f64() / self.memtable_count as f64;
        let memory = memtable * (self.memtable_count - 1) as f64;
        let empty = (self.memtable_count - 1).saturating_sub(memtables.immutable_count);
        let left = memtable * empty as f64 + (memtable - memtables.active.as_f64()).max(0.0);
        (memory, 1.0 - left / memory.max(1.0))
    }

    /// Rule 3.
    fn limit(&self, memory: f64, x: f64) -> BytesPerSec {
        let rate = memory / self.time.as_secs_f64();
        BytesPerSec((rate * ((1.0 - x) / x).max(1.0 / TRICKLE)).max(1.0) as u64)
    }
}

impl Admission for Gradual {
    fn name(&self) -> &'static str {
        "gradual"
    }

    fn decide(&mut self, signals: &Signals) -> Admit {
        let controlled = self.controller.decide(signals);
        let writing = self.writing.look(signals, self.time);
        let (memory, x) = self.used(&signals.memtables);
        if !writing || x <= 0.0 {
            return controlled;
        }
        let again = Some(signals.now + LOOK);
        let own = (x > LIMITED_FROM).then(|| self.limit(memory, x));
        match (own, controlled.writes) {
            (Some(own), controlled) if controlled.is_none_or(|rate| own < rate) => {
                let cause = Some(WaitCause::MemtableFull);
                Admit { writes: Some(own), cause, again, ..Admit::OPEN }
            }
            _ => Admit { again, ..controlled },
        }
    }
}
