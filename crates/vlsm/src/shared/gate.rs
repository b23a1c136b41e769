//! The admission gate: a rate limiter for writers, and for readers if the admission limits reads.
//!
//! It is a token bucket, first come, first served. A writer's ticket is its position in the
//! sequence of all requested bytes; the writer is admitted when the rate has let the bytes before
//! it pass. A new rate changes the due times of tickets, not their order, and bytes that were
//! admitted early remain owed. There are no refill ticks, so the bucket adds no delay of its own. A
//! rate of zero is a stop: writers wait until the rate changes. A writer that gives up, or is
//! admitted and writes nothing, leaves a gap: later writers are admitted earlier by its bytes.
//!
//! Threads and locks: one atomic holds the rate, and so whether the gate is open; the tickets of
//! waiting writers are behind a lock that is held for a few instructions. The control tick sets the
//! admission's decision.

use crate::shared::health::Health;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Mutex, Race, races};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::WaitCause;
use vlsm_core::{BytesPerSec, Error, Micros, Result};
use vlsm_disk::{Condition, Env};
use vlsm_policy::Admit;

const OPEN: u64 = u64::MAX;
/// The burst that is admitted at once after a pause, as time at the current rate.
const BURST: Duration = Duration::from_millis(1);
/// The longest time until the policies decide again while a writer waits.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// A writer that passes within this time counts as admitted at once.
pub(crate) const AT_ONCE: Duration = Duration::from_micros(1);
const SECOND: u128 = 1_000_000_000;

/// The tickets of writers. All positions and sums are in bytes since the store was opened.
struct Tickets {
    /// Bytes per second; [`OPEN`] for no limit, 0 for a stop.
    rate: u64,
    /// The time at which the rate was set.
    since: Duration,
    /// Bytes that had passed by `since`.
    passed: u64,
    /// The end of the queue: the position after the last ticket.
    given: u64,
    /// Tickets up to this position are settled: their unused bytes are lost.
    settled: u64,
    /// The positions of writers that gave up, with their bytes, as long as writers wait ahead of
    /// them. Adjacent gaps are merged, so there are hardly more gaps than waiting writers.
    gaps: BTreeMap<u64, u64>,
    /// Bytes of gaps of which waiters were not notified yet.
    untold: u64,
}

impl Tickets {
    const NONE: Self = Self {
        rate: OPEN,
        since: Duration::ZERO,
        passed: 0,
        given: 0,
        settled: 0,
        gaps: BTreeMap::new(),
        untold: 0,
    };

    /// Bytes that may have passed by now. Without a limit these are all requested bytes.
    fn passed(&self, now: Duration) -> u64 {
        if self.rate == OPEN {
            return self.given;
        }
        let bytes = now.saturating_sub(self.since).as_nanos() * u128::from(self.rate) / SECOND;
        self.passed.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    fn change(&mut self, rate: u64, now: Duration) {
        if self.rate == OPEN {
            self.settled = self.given;
        }
        (self.passed, self.since, self.rate) = (self.passed(now), now, rate);
        self.close_gaps(now);
    }

    /// Removes the gaps whose positions have passed. No ticket waits ahead of them any more, so
    /// their bytes count as passed.
    fn close_gaps(&mut self, now: Duration) {
        while let Some((&place, &bytes)) = self.gaps.first_key_value()
            && place <= self.passed(now)
        {
            self.gaps.remove(&place);
            self.passed = self.passed.saturating_add(bytes);
        }
    }

    /// Puts a writer at the end of the queue. Returns its position.
    fn take(&mut self, bytes: u64, now: Duration) -> u64 {
        self.close_gaps(now);
        let place = self.given.max(self.passed(now).saturating_sub(self.burst()));
        if place > self.given {
            self.settled = self.given;
        }
        self.given = place.saturating_add(bytes);
        place
    }

    /// The bytes of a burst.
    fn burst(&self) -> u64 {
        (u128::from(self.rate) * BURST.as_nanos() / SECOND) as u64
    }

    /// The time at which the ticket at this position is due; none during a stop.
    fn due(&self, place: u64) -> Option<Duration> {
        match self.rate {
            0 => None,
            OPEN => Some(self.since),
            rate => {
                let gaps: u64 = self.gaps.range(..place).map(|gap| gap.1).sum();
                let ahead = u128::from(place.saturating_sub(self.passed).saturating_sub(gaps));
                let wait = (ahead * SECOND).div_ceil(u128::from(rate));
                Some(self.since + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Takes back an unused ticket. Returns true if the waiters behind it should check again: not
    /// during a stop, because its end wakes them, and not for less than a burst, because they may
    /// be late by that much anyway.
    fn give_back(&mut self, place: u64, bytes: u64) -> bool {
        let (mut start, mut end) = (place, place.saturating_add(bytes));
        if end <= self.settled {
            return false;
        }
        if let Some((&before, &len)) = self.gaps.range(..start).next_back()
            && before.saturating_add(len) == start
        {
            self.gaps.remove(&before);
            start = before;
        }
        if let Some(len) = self.gaps.remove(&end) {
            end = end.saturating_add(len);
        }
        if end == self.given {
            self.given = start;
            return false;
        }
        self.gaps.insert(start, end - start);
        self.untold = self.untold.saturating_add(bytes);
        let tell = self.rate != 0 && self.untold > self.burst();
        if tell {
            self.untold = 0;
        }
        tell
    }
}

/// An admitted write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted {
    /// The position of its ticket; none if the gate was open.
    place: Option<u64>,
    bytes: u64,
}

/// Delays writers as the admission decides.
pub(crate) struct Gate {
    /// A copy of [`Tickets::rate`] that is read without the lock.
    rate: AtomicU64,
    /// The bytes for which a read counts; 0 if reads are not limited.
    reads: AtomicU64,
    tickets: Mutex<Tickets>,
    cause: AtomicU8,
    changed: Arc<dyn Condition>,
}

impl Gate {
    /// An open gate. `changed` wakes its waiters.
    pub fn new(changed: Arc<dyn Condition>) -> Self {
        Self {
            rate: AtomicU64::new(OPEN),
            reads: AtomicU64::new(0),
            tickets: Mutex::new(Tickets::NONE),
            cause: AtomicU8::new(WaitCause::Admission as u8),
            changed,
        }
    }

    /// Applies a decision of the admission.
    pub fn set(&self, admit: Admit, now: Duration) {
        if let Some(cause) = admit.cause {
            self.cause.store(cause as u8, Ordering::Relaxed);
        }
        let rate = admit.writes.map_or(OPEN, |rate| rate.0);
        self.reads.store(admit.reads.map_or(0, |bytes| bytes.0), Ordering::Relaxed);
        let mut tickets = self.tickets.lock();
        if tickets.rate == rate {
            return;
        }
        tickets.change(rate, now);
        self.rate.store(rate, Ordering::Release);
        drop(tickets);
        if !races(Race::GateNoNotify) {
            self.changed.notify();
        }
    }

    /// Wakes waiters so that they check the store's health.
    pub fn wake(&self) {
        if !races(Race::CloseNoNotify) {
            self.changed.notify();
        }
    }

    /// Whether all are admitted at once.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.rate.load(Ordering::Acquire) == OPEN
    }

    /// Whether reads are limited like writes.
    #[inline]
    pub fn limits_reads(&self) -> bool {
        self.reads.load(Ordering::Relaxed) > 0
    }

    /// The bytes for which `reads` reads count.
    pub fn read_bytes(&self, reads: usize) -> u64 {
        self.reads.load(Ordering::Relaxed).saturating_mul(reads as u64)
    }

    /// The limit in bytes per second; none without a limit.
    pub fn limit(&self) -> Option<BytesPerSec> {
        let rate = self.rate.load(Ordering::Acquire);
        (rate != OPEN).then_some(BytesPerSec(rate))
    }

    /// Whether the rate is zero: writes wait until it changes.
    pub fn is_stopped(&self) -> bool {
        self.rate.load(Ordering::Acquire) == 0
    }

    /// Waits until a write of `bytes` is admitted.
    pub fn admit(
        &self,
        env: &dyn Env,
        health: &Health,
        bytes: u64,
        give_up: Option<Duration>,
    ) -> Result<Admitted> {
        let mut admitted = Admitted { place: None, bytes: bytes.max(1) };
        let due = |now| {
            let mut tickets = self.tickets.lock();
            let place = *admitted.place.get_or_insert_with(|| tickets.take(admitted.bytes, now));
            tickets.due(place)
        };
        match self.wait(env, health, give_up, due) {
            Ok(()) => Ok(admitted),
            Err(error) => {
                self.give_back(admitted);
                Err(error)
            }
        }
    }

    /// Takes back the ticket of a write that wrote nothing.
    pub fn give_back(&self, admitted: Admitted) {
        let Some(place) = admitted.place else { return };
        let tell = self.tickets.lock().give_back(place, admitted.bytes);
        if tell {
            self.changed.notify();
        }
    }

    /// Waits for a ticket; `due` returns the time at which it is due.
    fn wait(
        &self,
        env: &dyn Env,
        health: &Health,
        give_up: Option<Duration>,
        mut due: impl FnMut(Duration) -> Option<Duration>,
    ) -> Result<()> {
        let start = env.now();
        loop {
            let epoch = self.changed.epoch();
            health.check()?;
            if self.is_open() {
                return Ok(());
            }
            let now = env.now();
            let due = due(now);
            if due.is_some_and(|due| due <= now) {
                return Ok(());
            }
            if give_up.is_some_and(|give_up| give_up <= now) {
                let waited = Micros(now.saturating_sub(start).as_micros() as u64);
                return Err(Error::Busy { waited, cause: self.cause().name() });
            }
            let until = [due, give_up].into_iter().flatten().min();
            self.changed.wait(epoch, until);
        }
    }

    /// The cause for which writers are delayed, or were delayed last.
    pub fn cause(&self) -> WaitCause {
        let number = usize::from(self.cause.load(Ordering::Relaxed));
        WaitCause::ALL.get(number).copied().unwrap_or(WaitCause::Admission)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
