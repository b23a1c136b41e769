//! How fast jobs may move bytes: a schedule's bandwidth as three token buckets.
//!
//! 1. One bucket is filled at the limit. Every step of a job takes what it moved from it, below
//!    zero if need be; a job of any class may step while it is above zero.
//! 2. A second one is filled at the limit, too, and flushes alone take from it: one may also step
//!    while this one is above zero, so it never waits for what other jobs have moved. All the
//!    bandwidth is theirs first, and the others get the rest.
//! 3. A third one is filled at the floor. Jobs of the classes `Memtable` and `L0` may step while it
//!    is above zero. They take from it only what the limit does not let through, so that the floor
//!    is theirs when the limit is used up, however much they moved before.
//! 4. What the floor alone let through takes the limit's no further below zero than what `BURST`
//!    fills: deeper jobs do not pay for a peak when it is over. What a flush's own one let through
//!    takes the floor's no further, so that some of that is left for L0.
//! 5. Among jobs that may step workers take the most urgent one, so deeper classes get what the
//!    urgent ones leave; or compactions in turn, where the schedule says so.
//! 6. Refills that a job waited for are counted, where the schedule asks for it: spans of time of
//!    a length that it gives.
//!
//! Buckets hold what `BURST` fills. A pure value: the caller says what time it is.

use crate::{Bandwidth, Class, Counted};
use std::time::Duration;
use vlsm_core::{Bytes, BytesPerSec};

/// What may be moved at once after a pause, as time at the rate.
const BURST: Duration = Duration::from_millis(10);

/// What jobs may move.
#[derive(Debug, Default)]
pub struct Pace {
    bandwidth: Option<Bandwidth>,
    /// Since when the buckets were filled.
    at: Duration,
    limit: f64,
    flushes: f64,
    floor: f64,
    /// Refills that a job waited for.
    drained: u64,
    /// The first one after them.
    undrained: u64,
}

/// Whether a class has a part in the floor.
fn is_urgent(class: Class) -> bool {
    matches!(class, Class::Memtable | Class::L0)
}

impl Pace {
    /// Puts a bandwidth in force. True where jobs that lacked some may go on sooner.
    pub fn set(&mut self, now: Duration, bandwidth: Option<Bandwidth>) -> bool {
        self.fill(now);
        if self.bandwidth.is_none() {
            (self.limit, self.flushes, self.floor) = (0.0, 0.0, 0.0);
        }
        let before = std::mem::replace(&mut self.bandwidth, bandwidth);
        match (before, bandwidth) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(old), Some(new)) => new.limit > old.limit || new.floor > old.floor,
        }
    }

    /// Fills the buckets up to now.
    pub fn fill(&mut self, now: Duration) {
        let Some(bandwidth) = self.bandwidth else {
            self.at = now;
            return;
        };
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let fill =
            |bucket: f64, rate: f64| (bucket + rate * passed).min(rate * BURST.as_secs_f64());
        self.limit = fill(self.limit, bandwidth.limit.as_f64());
        self.flushes = fill(self.flushes, bandwidth.limit.as_f64());
        self.floor = fill(self.floor, bandwidth.floor.as_f64());
        self.at = now;
    }

    /// Whether jobs of a class may step, by what was filled last.
    pub fn allows(&self, class: Class) -> bool {
        self.bandwidth.is_none()
            || self.limit > 0.0
            || is_urgent(class) && self.floor > 0.0
            || class == Class::Memtable && self.flushes > 0.0
    }

    /// Takes what a step moved.
    pub fn spend(&mut self, class: Class, read: Bytes, written: Bytes) {
        let Some(bandwidth) = self.bandwidth else { return };
        let moved = match bandwidth.counted {
            Counted::Written => written,
            Counted::ReadAndWritten => read + written,
        };
        let (moved, is_flush) = (moved.as_f64(), class == Class::Memtable);
        let own = is_flush && self.flushes > 0.0;
        let beyond = self.limit <= 0.0 && is_urgent(class) && bandwidth.floor.0 > 0;
        let take = |bucket: &mut f64, rate: BytesPerSec, bounded: bool| {
            let least = (-rate.as_f64() * BURST.as_secs_f64()).min(*bucket);
            *bucket = if bounded { (*bucket - moved).max(least) } else { *bucket - moved };
        };
        take(&mut self.limit, bandwidth.limit, beyond && !own);
        if beyond {
            take(&mut self.floor, bandwidth.floor, own);
        }
        if is_flush {
            take(&mut self.flushes, bandwidth.limit, false);
        }
    }

    /// Whether compactions step in turn, whatever their classes.
    pub fn is_in_turn(&self) -> bool {
        self.bandwidth.is_some_and(|bandwidth| bandwidth.in_turn)
    }

    /// Counts the refills from the last filling until then: a job waits for them.
    pub fn wait(&mut self, until: Duration) {
        let Some(refill) = self.bandwidth.map(|bandwidth| bandwidth.refill.0) else { return };
        let index = |time: Duration| (time.as_micros() as u64).checked_div(refill);
        let (Some(first), Some(last)) = (index(self.at), index(until)) else { return };
        self.drained += (last + 1).saturating_sub(first.max(self.undrained));
        self.undrained = self.undrained.max(last + 1);
    }

    /// How many refills a job waited for.
    pub fn drained(&self) -> u64 {
        self.drained
    }

    /// When jobs of a class may step again; none for never, or when they may now.
    pub fn next(&self, class: Class) -> Option<Duration> {
        let bandwidth = self.bandwidth.filter(|_| !self.allows(class))?;
        let until = |bucket: f64, rate: f64| {
            // One byte more than nothing.
            let seconds = (rate > 0.0).then(|| (1.0 - bucket) / rate)?;
            Some(self.at + Duration::from_secs_f64(seconds.clamp(0.0, 60.0)))
        };
        let limit = until(self.limit, bandwidth.limit.as_f64());
        let flushes = until(self.flushes, bandwidth.limit.as_f64());
        let flushes = flushes.filter(|_| class == Class::Memtable);
        let floor = until(self.floor, bandwidth.floor.as_f64()).filter(|_| is_urgent(class));
        [limit, flushes, floor].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
