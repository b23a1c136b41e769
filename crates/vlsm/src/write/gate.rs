//! The admission gate: how fast writers are let in.
//!
//! A token bucket in virtual time. Each writer takes the next due time and moves it on by its bytes
//! ÷ rate; then it waits for its own due time. There are no refill ticks, so the bucket adds no
//! delay of its own. A rate of zero is a stop: writers wait until the rate changes.
//!
//! Threads and locks: `due` is one atomic; the admission's answer is set by the control tick.

use crate::health::Health;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Slip, slips};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::WaitCause;
use vlsm_core::{BytesPerSec, Error, Micros, Result};
use vlsm_disk::{Condition, Env};
use vlsm_policy::Admit;

const OPEN: u64 = u64::MAX;
/// What may be let in at once after a pause, as time at the current rate.
const BURST: Duration = Duration::from_millis(1);

/// Holds writers back as the admission says.
pub(crate) struct Gate {
    /// Bytes per second; [`OPEN`] for no limit, 0 for a stop.
    rate: AtomicU64,
    cause: AtomicU8,
    /// The time in nanoseconds at which the next byte is due.
    due: AtomicU64,
    changed: Arc<dyn Condition>,
}

impl Gate {
    pub fn new(env: &dyn Env) -> Self {
        Self {
            rate: AtomicU64::new(OPEN),
            cause: AtomicU8::new(WaitCause::Admission as u8),
            due: AtomicU64::new(0),
            changed: env.condition(Duration::ZERO),
        }
    }

    /// Puts an admission's answer in force.
    pub fn set(&self, admit: Admit) {
        if let Some(cause) = admit.cause {
            self.cause.store(cause as u8, Ordering::Relaxed);
        }
        let rate = admit.writes.map_or(OPEN, |rate| rate.0);
        if self.rate.swap(rate, Ordering::AcqRel) != rate {
            // Turns given at the old rate are void: their holders take new ones.
            self.due.store(0, Ordering::Release);
            if !slips(Slip::GateNoNotify) {
                self.changed.notify();
            }
        }
    }

    /// Wakes waiters so that they look at the store's health.
    pub fn wake(&self) {
        if !slips(Slip::CloseNoNotify) {
            self.changed.notify();
        }
    }

    /// Whether everybody is let in at once.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.rate.load(Ordering::Acquire) == OPEN
    }

    /// Bytes per second that are let in; none for no limit.
    pub fn limit(&self) -> Option<BytesPerSec> {
        let rate = self.rate.load(Ordering::Acquire);
        (rate != OPEN).then_some(BytesPerSec(rate))
    }

    /// Whether nobody is let in until something changes.
    pub fn is_stopped(&self) -> bool {
        self.rate.load(Ordering::Acquire) == 0
    }

    /// Lets a write of `bytes` in, when its time has come.
    pub fn admit(
        &self,
        env: &dyn Env,
        health: &Health,
        bytes: u64,
        give_up: Option<Duration>,
    ) -> Result<()> {
        let start = env.now();
        let mut turn: Option<(u64, Duration)> = None;
        loop {
            let epoch = self.changed.epoch();
            health.check()?;
            let now = env.now();
            let wake_at = match self.rate.load(Ordering::Acquire) {
                OPEN => return Ok(()),
                0 => None,
                rate => {
                    let due = match turn {
                        Some((at_rate, due)) if at_rate == rate => due,
                        _ => self.take_turn(now, bytes, rate),
                    };
                    turn = Some((rate, due));
                    if due <= now {
                        return Ok(());
                    }
                    Some(due)
                }
            };
            if give_up.is_some_and(|give_up| give_up <= now) {
                let waited = Micros(now.saturating_sub(start).as_micros() as u64);
                return Err(Error::Busy { waited, cause: self.cause().name() });
            }
            let until = [wake_at, give_up].into_iter().flatten().min();
            self.changed.wait(epoch, until);
        }
    }

    /// Takes the next due time and moves it on.
    fn take_turn(&self, now: Duration, bytes: u64, rate: u64) -> Duration {
        let now = now.as_nanos() as u64;
        let cost = (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
        let earliest = now.saturating_sub(BURST.as_nanos() as u64);
        let taken = self.due.fetch_update(Ordering::AcqRel, Ordering::Acquire, |due| {
            Some(due.max(earliest) + cost)
        });
        let due = taken.unwrap_or_else(|due| due).max(earliest);
        Duration::from_nanos(due)
    }

    /// Why writers are held back, or were last.
    pub fn cause(&self) -> WaitCause {
        let number = usize::from(self.cause.load(Ordering::Relaxed));
        WaitCause::ALL.get(number).copied().unwrap_or(WaitCause::Admission)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::events::Events;
    use vlsm_disk::env_real::RealEnv;

    #[test]
    fn a_stop_holds_writers_until_their_deadline_and_an_open_gate_nobody() {
        let env: Arc<dyn Env> = RealEnv::new();
        let health = Health::new(Arc::new(Events::new(env.clone(), None, None)), false);
        let gate = Gate::new(&*env);
        let admit = |give_up| gate.admit(&*env, &health, 100, give_up);
        admit(None).expect("open");
        gate.set(Admit::stop(WaitCause::L0Bound));
        let start = env.now();
        let refused = admit(Some(start + Duration::from_millis(5)));
        assert!(matches!(refused, Err(Error::Busy { cause: "L0 bound", .. })), "{refused:?}");
        assert!(env.now() >= start + Duration::from_millis(5), "not before its deadline");
        // At 1 KB/s, 100 bytes are due every 98 ms, but for a burst at first.
        let writes = Some(BytesPerSec(1 << 10));
        gate.set(Admit { writes, cause: Some(WaitCause::Admission), again: None });
        let soon = || Some(env.now() + Duration::from_millis(1));
        let results: Vec<bool> = (0..3).map(|_| admit(soon()).is_ok()).collect();
        assert_eq!(results, [true, false, false], "the bucket lets one in and holds the next");
        gate.set(Admit::OPEN);
        admit(None).expect("open again");
    }
}
