//! The environment in production: the operating system's files, clock, threads and waits.
//!
//! A [`Condition`] is an event count on one word. A notify is one atomic increment and one load. It
//! wakes sleepers only if there are any (`sleepers`: a futex on Linux). A waiter spins first,
//! because the wake-up of a sleeper costs both sides more than a short wait, as long as that helps.
//! Calls in a notification are counted in the same number as the sleepers.
//!
//! Invariant: a waiter counts itself as a sleeper before its last look at the epoch, and a notifier
//! raises the epoch before it looks for sleepers. So one of them sees the other.

use crate::env::{Condition, Env, Join, Priority};
use crate::fs::Fs;
use crate::fs::posix::PosixFs;
use crate::per_process::PerProcess;
use crate::waker::Waker;
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use vlsm_core::event::SlowPath;

mod memory;
mod sleepers;
mod slow_paths;

use sleepers::{Native, Sleepers};

/// The nice value of [`Priority::Background`].
#[cfg(target_os = "linux")]
const BACKGROUND_NICE: i32 = 10;

/// One for each process, because a forked one has none of its parent's threads.
static WAKER: PerProcess<Arc<Waker>> = PerProcess::new();

/// A call in the number of those that a notification wakes; below it are the sleepers.
const CALL: u32 = 1 << 24;

/// After vain spins at most this many waits do not spin.
const SKIP_MAX: u32 = 63;

/// The operating system.
pub struct RealEnv {
    fs: Arc<dyn Fs>,
    start: Instant,
    random: AtomicU64,
}

impl RealEnv {
    /// The operating system with its own files.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::with_fs(Arc::new(PosixFs))
    }

    /// The operating system with other files, for tests that inject faults.
    #[must_use]
    #[allow(clippy::disallowed_methods)]
    pub fn with_fs(fs: Arc<dyn Fs>) -> Arc<Self> {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seed = RandomState::new().hash_one(time);
        Arc::new(Self { fs, start: Instant::now(), random: AtomicU64::new(seed) })
    }
}

impl Env for RealEnv {
    fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[allow(clippy::disallowed_methods)]
    fn wall_clock(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
    fn random(&self) -> u64 {
        const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut x = self.random.fetch_add(GAMMA, Ordering::Relaxed).wrapping_add(GAMMA);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn memory_bytes(&self) -> Option<u64> {
        memory::of_this_process()
    }

    fn slow_paths(&self) -> Vec<SlowPath> {
        slow_paths::of_this_machine()
    }

    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<Box<dyn Join>> {
        let run = move || {
            if priority == Priority::Background {
                give_way();
            }
            body();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Box::new(Thread(thread)))
    }

    fn waker(&self) -> Option<Arc<Waker>> {
        Some(WAKER.of(std::process::id()).clone())
    }

    fn condition(&self, spin: Duration) -> Arc<dyn Condition> {
        Arc::new(EventCount::<Native>::new(spin, self.start))
    }
}

/// Nices this thread, if possible: a sandbox may forbid it.
#[cfg(target_os = "linux")]
fn give_way() {
    let _ = rustix::process::setpriority_process(None, BACKGROUND_NICE);
}

/// Does nothing: outside Linux the call would nice the whole process, its clients included.
#[cfg(not(target_os = "linux"))]
fn give_way() {}

struct Thread(std::thread::JoinHandle<()>);

impl Join for Thread {
    fn join(self: Box<Self>) -> bool {
        self.0.join().is_ok()
    }
}

/// The epoch is 32 bits wide. A waiter misses notifications only if exactly 2³² of them fall
/// between its last look at the epoch and its sleep.
struct EventCount<S> {
    word: AtomicU32,
    /// The sleepers, and [`CALL`] for each call.
    count: AtomicU32,
    sleepers: S,
    /// Calls in the next notification.
    calls: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    spin: Duration,
    start: Instant,
    /// The number of waits that are not to spin, and how many the next vain one adds.
    skip: AtomicU32,
    penalty: AtomicU32,
}

impl<S: Sleepers> EventCount<S> {
    fn new(spin: Duration, start: Instant) -> Self {
        let [word, count, skip, penalty] = [0; 4].map(AtomicU32::new);
        let (sleepers, calls) = (S::default(), Mutex::default());
        Self { word, count, sleepers, calls, spin, start, skip, penalty }
    }

    fn changed(&self, epoch: u64) -> bool {
        self.word.load(Ordering::SeqCst) != epoch as u32
    }

    /// Spins until the epoch changes (true) or the time to spin is over (false).
    ///
    /// With more threads than processors the notifier may have none, and to spin only keeps it from
    /// one. So after a vain spin a number of waits do not spin, twice as many each time.
    fn spin(&self, epoch: u64, deadline: Option<Duration>) -> bool {
        if self.spin.is_zero() {
            return self.changed(epoch);
        }
        // Counts that are off by a few after a race do no harm.
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Ordering::Relaxed);
            return self.changed(epoch);
        }
        let changed = self.spin_now(epoch, deadline);
        let penalty = if changed { 0 } else { self.penalty.load(Ordering::Relaxed) * 2 + 1 };
        self.penalty.store(penalty.min(SKIP_MAX), Ordering::Relaxed);
        self.skip.store(penalty.min(SKIP_MAX), Ordering::Relaxed);
        changed
    }

    fn spin_now(&self, epoch: u64, deadline: Option<Duration>) -> bool {
        let end = self.start.elapsed() + self.spin;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        loop {
            for _ in 0..32 {
                if self.changed(epoch) {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.start.elapsed() >= end {
                return self.changed(epoch);
            }
        }
    }

    fn sleep(&self, epoch: u64, deadline: Option<Duration>) -> bool {
        loop {
            if self.changed(epoch) {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_sub(self.start.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            // Interrupted, timed out or changed already: the loop checks.
            self.sleepers.sleep(&self.word, epoch as u32, left);
        }
    }

    /// Makes the calls of a notification.
    fn call(&self) {
        let mut held = self.calls.lock();
        let calls = std::mem::take(&mut *held);
        self.count.fetch_sub(calls.len() as u32 * CALL, Ordering::SeqCst);
        drop(held);
        calls.into_iter().for_each(|call| call());
    }
}

impl<S: Sleepers> Condition for EventCount<S> {
    fn epoch(&self) -> u64 {
        u64::from(self.word.load(Ordering::SeqCst))
    }

    fn wait(&self, epoch: u64, deadline: Option<Duration>) -> bool {
        if self.spin(epoch, deadline) {
            return true;
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        let changed = self.sleep(epoch, deadline);
        self.count.fetch_sub(1, Ordering::SeqCst);
        changed
    }

    fn notify(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
        let count = self.count.load(Ordering::SeqCst);
        if !count.is_multiple_of(CALL) {
            self.sleepers.wake(&self.word);
        }
        if count >= CALL {
            self.call();
        }
    }

    fn notify_one(&self) {
        self.word.fetch_add(1, Ordering::SeqCst);
        let count = self.count.load(Ordering::SeqCst);
        if !count.is_multiple_of(CALL) {
            self.sleepers.wake_one(&self.word);
        }
        if count >= CALL {
            self.call();
        }
    }

    fn on_notify(&self, epoch: u64, call: Box<dyn FnOnce() + Send>) -> bool {
        let mut calls = self.calls.lock();
        if calls.len() as u32 >= u32::MAX / CALL {
            return false;
        }
        self.count.fetch_add(CALL, Ordering::SeqCst);
        if self.changed(epoch) {
            self.count.fetch_sub(CALL, Ordering::SeqCst);
            return false;
        }
        calls.push(call);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sleepers::Portable;

    /// This platform's condition, and that of platforms without a futex.
    fn conditions(env: &RealEnv, spin: Duration) -> [Arc<dyn Condition>; 2] {
        [env.condition(spin), Arc::new(EventCount::<Portable>::new(spin, env.start))]
    }

    #[test]
    fn waits_are_ended_by_notify_or_deadline() {
        let env = RealEnv::new();
        let spins = [Duration::ZERO, Duration::from_micros(50)];
        for condition in spins.into_iter().flat_map(|spin| conditions(&env, spin)) {
            let epoch = condition.epoch();
            assert!(!condition.wait(epoch, Some(env.now() + Duration::from_millis(2))));
            condition.notify();
            assert!(condition.wait(epoch, None), "a notify before the wait is not lost");
        }
    }

    #[test]
    fn no_wake_up_is_lost_between_two_threads() {
        let env = RealEnv::new();
        let (pings, pongs) = (conditions(&env, Duration::ZERO), conditions(&env, Duration::ZERO));
        for (ping, pong) in pings.into_iter().zip(pongs) {
            play(&env, ping, pong);
        }
    }

    fn play(env: &RealEnv, ping: Arc<dyn Condition>, pong: Arc<dyn Condition>) {
        let turn = Arc::new(AtomicU64::new(0));
        let rounds = 20_000;
        let body = {
            let (ping, pong, turn) = (ping.clone(), pong.clone(), turn.clone());
            move || {
                for round in 0..rounds {
                    wait_for(&*ping, &turn, 2 * round + 1);
                    turn.store(2 * round + 2, Ordering::SeqCst);
                    pong.notify();
                }
            }
        };
        let thread = env.spawn("pong", Priority::Background, Box::new(body)).expect("started");
        for round in 0..rounds {
            turn.store(2 * round + 1, Ordering::SeqCst);
            ping.notify();
            wait_for(&*pong, &turn, 2 * round + 2);
        }
        assert!(thread.join());
    }

    fn wait_for(condition: &dyn Condition, turn: &AtomicU64, value: u64) {
        loop {
            let epoch = condition.epoch();
            if turn.load(Ordering::SeqCst) == value {
                return;
            }
            condition.wait(epoch, None);
        }
    }

    #[test]
    fn notify_one_wakes_one_after_the_other() {
        let env = RealEnv::new();
        for condition in conditions(&env, Duration::ZERO) {
            let (open, through) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let sleepers = (0..3).map(|number| {
                let (condition, open, through) = (condition.clone(), open.clone(), through.clone());
                let body = move || {
                    wait_for(&*condition, &open, 1);
                    through.fetch_add(1, Ordering::SeqCst);
                    condition.notify_one();
                };
                env.spawn(&number.to_string(), Priority::Normal, Box::new(body)).expect("started")
            });
            let sleepers: Vec<_> = sleepers.collect();
            open.store(1, Ordering::SeqCst);
            condition.notify_one();
            assert!(sleepers.into_iter().all(Join::join));
            assert_eq!(through.load(Ordering::SeqCst), 3);
        }
    }

    #[test]
    fn random_numbers_differ() {
        let env = RealEnv::new();
        let numbers: std::collections::BTreeSet<u64> = (0..1000).map(|_| env.random()).collect();
        assert_eq!(numbers.len(), 1000);
        assert_ne!(RealEnv::new().random(), env.random());
    }
}
