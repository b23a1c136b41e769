//! The admission gate: how fast writers are let in.
//!
//! A token bucket, first come, first served. A writer's turn is its place in the row of all bytes
//! that were asked for; it is let in once so many bytes may have passed, its own not among them. A
//! new rate changes when a turn comes, not whose it is, and what was let in ahead stays owed. There
//! are no refill ticks, so the bucket adds no delay of its own. A rate of zero is a stop: writers
//! wait until the rate changes. Who gives up leaves a gap: those behind come sooner by its bytes.
//!
//! Threads and locks: whether the gate is open is one atomic; the turns of those who wait are
//! behind a lock that is held for a few instructions. The admission's answer is set by the control
//! tick.

use crate::health::Health;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Mutex, Slip, slips};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::WaitCause;
use vlsm_core::{BytesPerSec, Error, Micros, Result};
use vlsm_disk::{Condition, Env};
use vlsm_policy::Admit;

const OPEN: u64 = u64::MAX;
/// What may be let in at once after a pause, as time at the current rate.
const BURST: Duration = Duration::from_millis(1);
const SECOND: u128 = 1_000_000_000;

/// Who is let in when; all places and sums in bytes since the store was opened.
struct Turns {
    /// Bytes per second; [`OPEN`] for no limit, 0 for a stop.
    rate: u64,
    /// When it came into force.
    since: Duration,
    /// What might have passed by then.
    passed: u64,
    /// The end of the row.
    given: u64,
    /// Places of writers that gave up, with their bytes, as long as writers wait ahead of them.
    gaps: BTreeMap<u64, u64>,
}

impl Turns {
    const NONE: Self =
        Self { rate: OPEN, since: Duration::ZERO, passed: 0, given: 0, gaps: BTreeMap::new() };

    /// Bytes that may have passed by now. Without a limit, all that were asked for.
    fn passed(&self, now: Duration) -> u64 {
        if self.rate == OPEN {
            return self.given;
        }
        let bytes = now.saturating_sub(self.since).as_nanos() * u128::from(self.rate) / SECOND;
        self.passed.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    fn change(&mut self, rate: u64, now: Duration) {
        (self.passed, self.since, self.rate) = (self.passed(now), now, rate);
        self.close_gaps(now);
    }

    /// Gaps that nobody waits ahead of are bytes that have passed.
    fn close_gaps(&mut self, now: Duration) {
        while let Some((&place, &bytes)) = self.gaps.first_key_value()
            && place <= self.passed(now)
        {
            self.gaps.remove(&place);
            self.passed = self.passed.saturating_add(bytes);
        }
    }

    /// Puts a writer at the end of the row: its place.
    fn take(&mut self, bytes: u64, now: Duration) -> u64 {
        self.close_gaps(now);
        let burst = (u128::from(self.rate) * BURST.as_nanos() / SECOND) as u64;
        let place = self.given.max(self.passed(now).saturating_sub(burst));
        self.given = place.saturating_add(bytes);
        place
    }

    /// When the turn at this place comes; none while nobody is let in.
    fn due(&self, place: u64) -> Option<Duration> {
        let gaps: u64 = self.gaps.range(..place).map(|gap| gap.1).sum();
        let ahead = u128::from(place.saturating_sub(self.passed).saturating_sub(gaps));
        match self.rate {
            0 => None,
            OPEN => Some(self.since),
            rate => {
                let wait = (ahead * SECOND).div_ceil(u128::from(rate));
                Some(self.since + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Takes back a turn that was not used. True when others wait behind it.
    fn give_back(&mut self, place: u64, bytes: u64) -> bool {
        if place.saturating_add(bytes) == self.given {
            self.given = place;
            return false;
        }
        if bytes > 0 {
            self.gaps.insert(place, bytes);
        }
        true
    }
}

/// Holds writers back as the admission says.
pub(crate) struct Gate {
    /// As [`Turns::rate`], for those who need no turn.
    rate: AtomicU64,
    turns: Mutex<Turns>,
    cause: AtomicU8,
    changed: Arc<dyn Condition>,
}

impl Gate {
    pub fn new(env: &dyn Env) -> Self {
        Self {
            rate: AtomicU64::new(OPEN),
            turns: Mutex::new(Turns::NONE),
            cause: AtomicU8::new(WaitCause::Admission as u8),
            changed: env.condition(Duration::ZERO),
        }
    }

    /// Puts an admission's answer in force.
    pub fn set(&self, admit: Admit, now: Duration) {
        if let Some(cause) = admit.cause {
            self.cause.store(cause as u8, Ordering::Relaxed);
        }
        let rate = admit.writes.map_or(OPEN, |rate| rate.0);
        let mut turns = self.turns.lock();
        if turns.rate == rate {
            return;
        }
        turns.change(rate, now);
        self.rate.store(rate, Ordering::Release);
        drop(turns);
        if !slips(Slip::GateNoNotify) {
            self.changed.notify();
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
        let mut place = None;
        let turn = |now| {
            let mut turns = self.turns.lock();
            let place = *place.get_or_insert_with(|| turns.take(bytes, now));
            turns.due(place)
        };
        let admitted = self.wait(env, health, give_up, turn);
        if let (Err(_), Some(place)) = (&admitted, place)
            && self.turns.lock().give_back(place, bytes)
        {
            self.changed.notify();
        }
        admitted
    }

    /// Waits for a turn, of which `due` tells when it comes.
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
        gate.set(Admit::stop(WaitCause::L0Bound), env.now());
        let start = env.now();
        let refused = admit(Some(start + Duration::from_millis(5)));
        assert!(matches!(refused, Err(Error::Busy { cause: "L0 bound", .. })), "{refused:?}");
        assert!(env.now() >= start + Duration::from_millis(5), "not before its deadline");
        // At 1 KB/s, 100 bytes are due every 98 ms, but for a burst at first.
        let writes = Some(BytesPerSec(1 << 10));
        let slow = Admit { writes, cause: Some(WaitCause::Admission), again: None };
        gate.set(slow, env.now());
        let soon = || Some(env.now() + Duration::from_millis(1));
        let results: Vec<bool> = (0..3).map(|_| admit(soon()).is_ok()).collect();
        assert_eq!(results, [true, false, false], "the bucket lets one in and holds the next");
        gate.set(Admit::OPEN, env.now());
        admit(None).expect("open again");
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Turns at 100 bytes a second from the beginning.
    fn slow_turns() -> Turns {
        let mut turns = Turns::NONE;
        turns.change(100, Duration::ZERO);
        turns
    }

    /// When these turns come, in seconds.
    fn dues<const N: usize>(turns: &Turns, places: [u64; N]) -> [f64; N] {
        places.map(|place| turns.due(place).expect("no stop").as_secs_f64())
    }

    #[test]
    fn turns_stay_in_order_whatever_the_rate_does() {
        let mut turns = slow_turns();
        let [a, b, c] = [100, 100, 100].map(|bytes| turns.take(bytes, Duration::ZERO));
        assert_eq!(dues(&turns, [a, b, c]), [0.0, 1.0, 2.0]);
        // Half a second's bytes have passed; the rest comes twice as fast, and the next one last.
        turns.change(200, seconds(0.5));
        let d = turns.take(100, seconds(0.5));
        assert_eq!(dues(&turns, [b, c, d]), [0.75, 1.25, 1.75]);
        turns.change(0, seconds(1.0));
        assert_eq!(turns.due(c), None, "a stop");
        turns.change(100, seconds(5.0));
        assert_eq!(dues(&turns, [c, d]), [5.5, 6.5]);
    }

    #[test]
    fn what_was_let_in_ahead_stays_owed_and_what_nobody_used_is_lost() {
        let mut turns = slow_turns();
        turns.take(100, Duration::ZERO);
        turns.change(50, Duration::ZERO);
        let next = turns.take(10, Duration::ZERO);
        assert_eq!(turns.due(next), Some(seconds(2.0)), "a new rate forgives nothing");
        // After a pause only a burst: a millisecond of 50,000 bytes a second.
        turns.change(50_000, seconds(10.0));
        let [first, second] = [50, 50].map(|bytes| turns.take(bytes, seconds(20.0)));
        let third = turns.take(50, seconds(20.0));
        assert!([first, second].iter().all(|place| turns.due(*place) <= Some(seconds(20.0))));
        assert_eq!(turns.due(third), Some(seconds(20.001)));
    }

    #[test]
    fn who_gives_up_delays_nobody_and_helps_nobody_ahead() {
        let mut turns = slow_turns();
        let [first, ahead, gone, last] = [100; 4].map(|bytes| turns.take(bytes, Duration::ZERO));
        assert!(turns.give_back(gone, 100), "one is behind");
        assert_eq!(dues(&turns, [first, ahead, last]), [0.0, 1.0, 2.0]);
        // Once its place has come the gap has passed, whatever the rate does.
        turns.change(50, seconds(1.0));
        assert_eq!(dues(&turns, [last]), [3.0]);
        turns.change(100, seconds(3.0));
        assert!(turns.gaps.is_empty());
        let next = turns.take(100, seconds(3.0));
        assert_eq!(dues(&turns, [last, next]), [3.0, 4.0]);
    }

    #[test]
    fn the_last_one_that_gives_up_was_never_there() {
        let mut turns = slow_turns();
        let first = turns.take(1_000, Duration::ZERO);
        for _ in 0..10 {
            let place = turns.take(500, seconds(1.0));
            assert_eq!(dues(&turns, [place]), [10.0]);
            assert!(!turns.give_back(place, 500), "nobody is behind");
        }
        assert!(turns.gaps.is_empty() && turns.due(first) <= Some(seconds(1.0)));
    }

    #[test]
    fn open_lets_all_in_and_nothing_of_it_is_owed() {
        let mut turns = slow_turns();
        let last = [100; 4].map(|bytes| turns.take(bytes, Duration::ZERO))[3];
        turns.change(OPEN, seconds(0.5));
        assert_eq!(dues(&turns, [last]), [0.5]);
        turns.change(100, seconds(0.6));
        let next = turns.take(100, seconds(0.6));
        assert_eq!(dues(&turns, [next]), [0.6]);
    }

    #[test]
    fn a_failure_gives_its_turn_back_and_those_behind_come_sooner() {
        let env: Arc<dyn Env> = RealEnv::new();
        let health = Health::new(Arc::new(Events::new(env.clone(), None, None)), false);
        let gate = Gate::new(&*env);
        let admit = |bytes, give_up| gate.admit(&*env, &health, bytes, give_up);
        let wait_for = |given| {
            while gate.turns.lock().given < given {
                std::thread::yield_now();
            }
        };
        // A second's bytes are let in, a minute's wait behind them, and one byte behind those.
        let slow = |rate| Admit { writes: Some(BytesPerSec(rate)), ..Admit::OPEN };
        gate.set(slow(1 << 20), env.now());
        admit(1 << 20, None).expect("the burst");
        std::thread::scope(|scope| {
            let soon = env.now() + Duration::from_millis(50);
            let ahead = scope.spawn(move || admit(60 << 20, Some(soon)));
            wait_for(61 << 20);
            admit(1, Some(soon + Duration::from_secs(30)))
                .expect("nothing is ahead of it any more");
            assert!(matches!(ahead.join().expect("no panic"), Err(Error::Busy { .. })));
        });
        // A full disk sends those away who wait, and nothing of them is owed.
        gate.set(slow(1), env.now());
        admit(1 << 20, None).expect("the burst");
        let given = gate.turns.lock().given;
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| admit(1 << 20, None));
            wait_for(given + (1 << 20));
            assert!(health.run_out("disk".into()));
            gate.wake();
            assert!(waits.join().expect("no panic").is_err());
        });
        assert_eq!(gate.turns.lock().given, given);
    }
}
