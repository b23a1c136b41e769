//! The real engine under shuttle: thousands of schedules of a few threads.
//!
//! 1. [`ShuttleEnv`] is an environment whose threads, conditions and locks are shuttle's, over a
//!    disk in memory. Time advances when it is read, and immediately to the deadline of a waiter: a
//!    deadline may always have passed.
//! 2. [`holds`] runs a scenario under as many schedules as `SCHEDULES` says. A panic, a thread that
//!    waits forever or one that never ends fails it, and the schedule is printed.
//! 3. [`finds`] plants a mistake first and demands that some schedule fails.
//!
//! Shuttle explores interleavings, not the reorderings of weak memory.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod scenarios;

use crate::sync::{Mutex, Race, plant};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Condvar;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use vlsm_disk::env::{Condition, Env, Join, Priority};
use vlsm_disk::fs::Fs;
use vlsm_testfs::SimFs;

/// The machine under shuttle.
struct ShuttleEnv {
    fs: Arc<dyn Fs>,
    clock: Arc<AtomicU64>,
    random: AtomicU64,
}

impl ShuttleEnv {
    fn new(disk: SimFs) -> Arc<Self> {
        // A point at which another thread may go on, as any look at an atomic is.
        let point = shuttle::sync::atomic::AtomicBool::new(false);
        disk.set_interleave(Arc::new(move || {
            point.load(std::sync::atomic::Ordering::SeqCst);
        }));
        Arc::new(Self { fs: Arc::new(disk), clock: Arc::default(), random: AtomicU64::new(1) })
    }
}

impl Env for ShuttleEnv {
    fn works_while_panicking(&self) -> bool {
        false
    }
    fn fs(&self) -> &Arc<dyn Fs> {
        &self.fs
    }
    fn now(&self) -> Duration {
        Duration::from_micros(self.clock.fetch_add(1, Relaxed))
    }
    fn wall_clock(&self) -> Duration {
        self.now()
    }
    fn random(&self) -> u64 {
        self.random.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn spawn(
        &self,
        _: &str,
        _: Priority,
        body: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<Box<dyn Join>> {
        Ok(Box::new(Thread(thread::spawn(body))))
    }
    fn condition(&self, _: Duration) -> Arc<dyn Condition> {
        let (epoch, changed) = (Mutex::new(0), Condvar::new());
        Arc::new(ShuttleCondition { epoch, changed, clock: self.clock.clone() })
    }
    /// The thread stands still for a while: all others that can go on come first.
    fn interleave(&self) {
        thread::yield_now();
    }
}

struct Thread(thread::JoinHandle<()>);

impl Join for Thread {
    fn join(self: Box<Self>) -> bool {
        self.0.join().is_ok()
    }
}

/// A thread that panics latches the store, which notifies its conditions, some of them twice: a
/// poisoned lock would be a panic in a panic.
struct ShuttleCondition {
    epoch: Mutex<u64>,
    changed: Condvar,
    clock: Arc<AtomicU64>,
}

impl Condition for ShuttleCondition {
    fn epoch(&self) -> u64 {
        *self.epoch.lock()
    }

    fn wait(&self, epoch: u64, deadline: Option<Duration>) -> bool {
        if let Some(deadline) = deadline {
            thread::yield_now();
            self.clock.fetch_max(deadline.as_micros() as u64, Relaxed);
            return self.epoch() != epoch;
        }
        let mut now = self.epoch.lock();
        while *now == epoch {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    fn notify(&self) {
        *self.epoch.lock() += 1;
        self.changed.notify_all();
    }

    fn notify_one(&self) {
        *self.epoch.lock() += 1;
        self.changed.notify_one();
    }
}

fn schedules() -> usize {
    std::env::var("SCHEDULES").map_or(500, |text| text.parse().expect("SCHEDULES is a number"))
}

/// Half of the schedules choose the next thread at random each time; the other half (PCT) let one
/// thread run as long as it can, with a few forced changes, so that a thread may stand still while
/// others do much.
fn explore(scenario: fn(), schedules: usize, failures: FailurePersistence) {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    config.failure_persistence = failures;
    config.stack_size = 256 << 10;
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(scenario);
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(scenario);
}

/// Asserts that a scenario holds under many schedules.
fn holds(scenario: fn()) {
    plant(None);
    explore(scenario, schedules(), FailurePersistence::Print);
}

/// Asserts that a scenario fails once a mistake is planted.
fn finds(race: Race, scenario: fn()) {
    plant(Some(race));
    let failures = FailurePersistence::None;
    let run = catch_unwind(AssertUnwindSafe(|| explore(scenario, 20_000, failures)));
    plant(None);
    assert!(run.is_err(), "{race:?} was planted and not found");
}

fn store_path() -> PathBuf {
    PathBuf::from("/store")
}
