//! The pace of jobs: a schedule's bandwidth as three token buckets.
//!
//! 1. The first bucket is filled at the limit. Every step of a job takes the bytes that it moved,
//!    if necessary below zero; a job of any class may step while the bucket is above zero.
//! 2. The second bucket is also filled at the limit, and only flushes take from it: a flush may
//!    also step while this bucket is above zero, so it never waits for bytes that other jobs have
//!    moved. Flushes come first, and the other jobs get the rest of the bandwidth.
//! 3. The third bucket is filled at the floor. Jobs of the classes `Memtable` and `L0` may step
//!    while it is above zero. They take from it only when the limit does not let them step, so that
//!    the floor is available when the limit is used up, however much they moved before.
//! 4. A step that only the floor allows takes the first bucket at most one `BURST` below zero:
//!    deeper jobs do not pay for a peak after its end. A step that only the flushes' bucket allows
//!    takes the floor's bucket at most as far, so that some of the floor is left for L0.
//! 5. Among the jobs that may step, workers take the most urgent one, so deeper classes get the
//!    bandwidth that urgent ones leave. If the schedule says so, compactions step in turn instead.
//! 6. If the schedule asks for it, time is divided into spans of a given length, and the spans in
//!    which a job waited because the limit was used up are counted.
//!
//! A bucket holds at most the bytes of a `BURST` at its rate. This is a pure value: the caller
//! passes the time.

use crate::candidate::Class;
use crate::decision::{Bandwidth, Counted};
use std::time::Duration;
use vlsm_core::{Bytes, BytesPerSec};

/// The capacity of a bucket, as time at its rate.
const BURST: Duration = Duration::from_millis(10);

/// The bandwidth of jobs.
#[derive(Debug, Default)]
pub struct Pace {
    bandwidth: Option<Bandwidth>,
    /// The time of the last fill of the buckets.
    at: Duration,
    limit: f64,
    flushes: f64,
    floor: f64,
    /// Spans in which a job waited.
    waited: u64,
    /// The first one after them.
    uncounted: u64,
}

/// Whether a class shares the floor.
fn is_urgent(class: Class) -> bool {
    matches!(class, Class::Memtable | Class::L0)
}

impl Pace {
    /// Sets the bandwidth. True if jobs that lack bandwidth may continue sooner.
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

    /// Whether jobs of a class may step, as of the last fill.
    pub fn allows(&self, class: Class) -> bool {
        self.bandwidth.is_none()
            || self.limit > 0.0
            || is_urgent(class) && self.floor > 0.0
            || class == Class::Memtable && self.flushes > 0.0
    }

    /// Takes the bytes that a step moved.
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

    /// Counts the spans from the last fill until then, because a job waits.
    pub fn wait(&mut self, until: Duration) {
        let Some(span) = self.bandwidth.map(|bandwidth| bandwidth.span.0) else { return };
        let index = |time: Duration| (time.as_micros() as u64).checked_div(span);
        let (Some(first), Some(last)) = (index(self.at), index(until)) else { return };
        self.waited += (last + 1).saturating_sub(first.max(self.uncounted));
        self.uncounted = self.uncounted.max(last + 1);
    }

    /// The number of spans in which a job waited.
    pub fn waited_spans(&self) -> u64 {
        self.waited
    }

    /// The time at which jobs of a class may step again; none if never, or if they may step now.
    pub fn next(&self, class: Class) -> Option<Duration> {
        let bandwidth = self.bandwidth.filter(|_| !self.allows(class))?;
        let until = |bucket: f64, rate: f64| {
            // One byte above zero.
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
