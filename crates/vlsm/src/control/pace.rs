//! How fast jobs may move bytes: a schedule's bandwidth as two token buckets.
//!
//! 1. One bucket is filled at the limit. Every step of a job takes what it moved from it, below
//!    zero if need be; a job of any class may step while it is above zero.
//! 2. A second one is filled at the floor. Jobs of the classes `Memtable` and `L0` may step while
//!    either is above zero. They take from the floor's only what the limit does not let through, so
//!    that the floor is theirs when the limit is used up, however much they moved before.
//! 3. What the floor alone let through takes the limit's no further below zero than what [`BURST`]
//!    fills: deeper jobs do not pay for a peak when it is over.
//! 4. Among jobs that may step workers take the most urgent one, so deeper classes get what the
//!    urgent ones leave; or compactions in turn, where the schedule says so.
//! 5. Refills that a job waited for are counted, where the schedule asks for it: spans of time of
//!    a length that it gives.
//!
//! Buckets hold what [`BURST`] fills. Under the lock of the control's state.

use std::time::Duration;
use vlsm_core::Bytes;
use vlsm_policy::{Bandwidth, Class, Counted};

/// What may be moved at once after a pause, as time at the rate.
const BURST: Duration = Duration::from_millis(10);

/// What jobs may move.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    bandwidth: Option<Bandwidth>,
    /// Since when the buckets were filled.
    at: Duration,
    limit: f64,
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
            (self.limit, self.floor) = (0.0, 0.0);
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
        self.floor = fill(self.floor, bandwidth.floor.as_f64());
        self.at = now;
    }

    /// Whether jobs of a class may step, by what was filled last.
    pub fn allows(&self, class: Class) -> bool {
        self.bandwidth.is_none() || self.limit > 0.0 || is_urgent(class) && self.floor > 0.0
    }

    /// Takes what a step moved.
    pub fn spend(&mut self, class: Class, read: Bytes, written: Bytes) {
        let Some(bandwidth) = self.bandwidth else { return };
        let moved = match bandwidth.counted {
            Counted::Written => written,
            Counted::ReadAndWritten => read + written,
        };
        let by_floor = self.limit <= 0.0 && is_urgent(class) && bandwidth.floor.0 > 0;
        let left = self.limit - moved.as_f64();
        if by_floor {
            self.floor -= moved.as_f64();
            let least = -bandwidth.limit.as_f64() * BURST.as_secs_f64();
            self.limit = left.max(least.min(self.limit));
        } else {
            self.limit = left;
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
        let floor = until(self.floor, bandwidth.floor.as_f64()).filter(|_| is_urgent(class));
        [limit, floor].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vlsm_core::BytesPerSec;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn urgent_jobs_have_their_floor_and_deeper_ones_what_is_left() {
        let mut pace = Pace::default();
        assert!(pace.allows(Class::Level(2)), "no limit");
        let bandwidth = Bandwidth {
            limit: BytesPerSec(1_000_000),
            floor: BytesPerSec(500_000),
            counted: Counted::ReadAndWritten,
            ..Bandwidth::default()
        };
        pace.set(at(100), Some(bandwidth));
        assert!(!pace.allows(Class::L0), "the buckets begin empty");
        pace.fill(at(102));
        assert!(pace.allows(Class::L0) && pace.allows(Class::Level(1)));
        // 2,000 bytes came; 10,000 are moved, so the limit has to wait for 8 ms.
        pace.spend(Class::Level(1), Bytes(6_000), Bytes(4_000));
        assert!(!pace.allows(Class::Level(1)));
        assert!(pace.allows(Class::Memtable), "the floor was not touched");
        assert!(pace.next(Class::Level(1)).is_some_and(|time| time > at(109) && time < at(111)));
        pace.spend(Class::L0, Bytes(0), Bytes(3_000));
        assert!(!pace.allows(Class::L0));
        assert!(pace.next(Class::L0).is_some_and(|time| time > at(105) && time < at(107)));
        // After a long pause no more than a burst is there.
        pace.fill(at(10_000));
        pace.spend(Class::Level(1), Bytes(10_001), Bytes(0));
        assert!(!pace.allows(Class::Level(1)));
        // A peak under the floor makes no debt that outlasts it.
        pace.spend(Class::L0, Bytes(1 << 30), Bytes(0));
        assert!(pace.next(Class::Level(1)).is_some_and(|time| time < at(10_030)));
        pace.set(at(10_000), None);
        assert!(pace.allows(Class::Level(1)) && pace.next(Class::Level(1)).is_none());
    }

    #[test]
    fn the_floor_is_there_when_the_limit_is_used_up_and_is_no_way_around_it() {
        let mut pace = Pace::default();
        let bandwidth = Bandwidth {
            limit: BytesPerSec(10_000_000),
            floor: BytesPerSec(500_000),
            counted: Counted::Written,
            ..Bandwidth::default()
        };
        pace.set(at(0), Some(bandwidth));
        // For a second an urgent job has the limit, twenty times the floor.
        for millis in 1..1_000 {
            pace.fill(at(millis));
            pace.spend(Class::L0, Bytes(0), Bytes(9_000));
        }
        pace.fill(at(1_000));
        pace.spend(Class::Level(1), Bytes(0), Bytes(10_000_000));
        assert!(!pace.allows(Class::Level(1)), "a second's worth was moved");
        assert!(pace.allows(Class::L0), "the floor was not used");
        // Without a floor an urgent job makes all the debt that it moves.
        let mut pace = Pace::default();
        pace.set(at(0), Some(Bandwidth { floor: BytesPerSec::ZERO, ..bandwidth }));
        pace.fill(at(1));
        pace.spend(Class::L0, Bytes(0), Bytes(5_000_000));
        pace.spend(Class::Memtable, Bytes(0), Bytes(5_000_000));
        assert!(pace.next(Class::L0).is_some_and(|time| time > at(990)), "{pace:?}");
    }

    #[test]
    fn a_refill_that_somebody_waits_for_counts_once() {
        let mut pace = Pace::default();
        pace.fill(at(5));
        pace.wait(at(7));
        let limit = BytesPerSec(1_000);
        pace.set(at(5), Some(Bandwidth { limit, ..Bandwidth::default() }));
        pace.wait(at(7));
        assert_eq!(pace.drained(), 0, "nobody asked for it");
        let refill = vlsm_core::Micros(10_000);
        pace.set(at(5), Some(Bandwidth { limit, refill, ..Bandwidth::default() }));
        pace.wait(at(7));
        pace.wait(at(9));
        assert_eq!(pace.drained(), 1);
        // From the second to the fourth one, then the fourth again.
        pace.fill(at(15));
        pace.wait(at(31));
        pace.fill(at(35));
        pace.wait(at(36));
        assert_eq!(pace.drained(), 4);
        pace.fill(at(95));
        pace.wait(at(95));
        assert_eq!(pace.drained(), 5);
    }

    #[test]
    fn what_is_not_counted_is_free_and_a_limit_of_zero_lets_nothing_through() {
        let mut pace = Pace::default();
        let bandwidth = Bandwidth {
            limit: BytesPerSec(1_000),
            floor: BytesPerSec::ZERO,
            counted: Counted::Written,
            ..Bandwidth::default()
        };
        pace.set(at(0), Some(bandwidth));
        pace.fill(at(1));
        pace.spend(Class::L0, Bytes(1 << 30), Bytes(0));
        assert!(pace.allows(Class::L0), "reads are not counted");
        pace.set(at(1), Some(Bandwidth { limit: BytesPerSec::ZERO, ..bandwidth }));
        pace.spend(Class::L0, Bytes(0), Bytes(1));
        pace.fill(at(100_000));
        assert!(!pace.allows(Class::L0) && pace.next(Class::L0).is_none());
    }
}
