//! A schedule's bandwidth as three token buckets, as the engine keeps them: all jobs take from the
//! first, which is filled at the limit, and flushes from one of their own as well; urgent ones go
//! on while the floor's holds anything, and take from it what the limit does not let through.
//! Buckets hold what [`BURST`] fills and go below zero by what one step moves; by no more than they
//! fill in [`BURST`] the limit's for what the floor alone let through, and the floor's for what a
//! flush's own one did.

use super::per;
use vlsm_core::{BytesPerSec, Micros};
use vlsm_policy::{Bandwidth, Class, Counted};

/// What may be moved at once after a pause, as time at the rate.
const BURST: Micros = Micros(10_000);

#[derive(Debug, Default)]
pub struct Pace {
    bandwidth: Option<Bandwidth>,
    limit: f64,
    flushes: f64,
    floor: f64,
    drained: u64,
    /// The refill that was counted last.
    last: u64,
}

impl Pace {
    pub fn set(&mut self, bandwidth: Option<Bandwidth>) {
        if self.bandwidth.is_none() {
            (self.limit, self.flushes, self.floor) = (0.0, 0.0, 0.0);
        }
        self.bandwidth = bandwidth;
    }

    /// Fills the buckets for a time that has passed.
    pub fn fill(&mut self, passed: Micros) {
        let Some(Bandwidth { limit, floor, .. }) = self.bandwidth else { return };
        let fill = |bucket: f64, rate: f64| (bucket + per(passed, rate)).min(per(BURST, rate));
        self.limit = fill(self.limit, limit.as_f64());
        self.flushes = fill(self.flushes, limit.as_f64());
        self.floor = fill(self.floor, floor.as_f64());
    }

    /// Whether jobs of a class may move anything now.
    pub fn allows(&self, class: Class) -> bool {
        self.bandwidth.is_none()
            || self.limit > 0.0
            || is_urgent(class) && self.floor > 0.0
            || class == Class::Memtable && self.flushes > 0.0
    }

    /// Counts the refill of this time: a job waits for it. How many were waited for.
    pub fn wait(&mut self, now: Micros) -> u64 {
        let refill = self.bandwidth.and_then(|bandwidth| now.0.checked_div(bandwidth.refill.0));
        if let Some(refill) = refill
            && refill != self.last
        {
            (self.drained, self.last) = (self.drained + 1, refill);
        }
        self.drained
    }

    /// Whether compactions move in turn.
    pub fn is_in_turn(&self) -> bool {
        self.bandwidth.is_some_and(|bandwidth| bandwidth.in_turn)
    }

    /// Takes what a job moved.
    pub fn spend(&mut self, class: Class, read: u64, written: u64) {
        let Some(bandwidth) = self.bandwidth else { return };
        let moved = match bandwidth.counted {
            Counted::Written => written,
            Counted::ReadAndWritten => read + written,
        };
        let (moved, is_flush) = (moved as f64, class == Class::Memtable);
        let own = is_flush && self.flushes > 0.0;
        let beyond = self.limit <= 0.0 && is_urgent(class) && bandwidth.floor.0 > 0;
        let taken = |bucket: f64, rate: BytesPerSec, bounded: bool| {
            let least = bucket.min(-per(BURST, rate.as_f64()));
            if bounded { (bucket - moved).max(least) } else { bucket - moved }
        };
        self.limit = taken(self.limit, bandwidth.limit, beyond && !own);
        if beyond {
            self.floor = taken(self.floor, bandwidth.floor, own);
        }
        if is_flush {
            self.flushes -= moved;
        }
    }
}

fn is_urgent(class: Class) -> bool {
    matches!(class, Class::Memtable | Class::L0)
}
