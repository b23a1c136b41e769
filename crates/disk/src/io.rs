//! Blocking file calls on threads of their own, so that jobs never wait for the device.
//!
//! 1. `submit` queues a closure and hands back a [`Pending`]; one idle thread is woken.
//! 2. The thread runs it, keeps its result in the pending, and notifies the condition given at
//!    construction (the one the workers wait for).
//! 3. Whoever holds the pending asks `is_ready` or takes the result.
//!
//! Invariants: every submitted closure runs or answers `Closed`; one that panics answers
//! `Error::Internal`, and its thread goes on. No lock is held while a closure runs or a thread
//! waits. The queue is bounded by the budgets of those who submit: a job has a few calls in flight.
//!
//! A thread that unwinds while it waits (a simulated machine lost power) closes the pool and drops
//! what is queued: closures hold whom they work for, who holds the pool.

use crate::env::{Condition, Env, Join, Priority};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vlsm_core::{Error, Result};

type Work = Box<dyn FnOnce() + Send>;

/// Threads that do blocking file calls.
pub struct IoPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Box<dyn Join>>>,
}

struct Shared {
    state: Mutex<State>,
    /// One for each thread, so that a submit wakes only one.
    wake: Vec<Arc<dyn Condition>>,
    done: Arc<dyn Condition>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    idle: Vec<usize>,
    closed: bool,
}

/// A result that is not there yet.
pub struct Pending<T>(Arc<Slot<T>>);

struct Slot<T> {
    ready: AtomicBool,
    result: Mutex<Option<Result<T>>>,
}

impl<T> Pending<T> {
    fn new() -> Self {
        Self(Arc::new(Slot { ready: AtomicBool::new(false), result: Mutex::new(None) }))
    }

    /// One that is there already, for calls that had nothing to do.
    #[must_use]
    pub fn ready(result: Result<T>) -> Self {
        let pending = Self::new();
        pending.0.put(result);
        pending
    }

    /// Whether the result is there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.ready.load(Ordering::Acquire)
    }

    /// The result, if it is there and was not taken before.
    #[must_use]
    pub fn try_take(&self) -> Option<Result<T>> {
        if !self.is_ready() {
            return None;
        }
        self.0.result.lock().take()
    }
}

impl<T> Slot<T> {
    fn put(&self, result: Result<T>) {
        *self.result.lock() = Some(result);
        self.ready.store(true, Ordering::Release);
    }
}

impl IoPool {
    /// Starts the threads. Every completion notifies `done`.
    #[must_use]
    pub fn new(
        env: &Arc<dyn Env>,
        threads: usize,
        priority: Priority,
        done: Arc<dyn Condition>,
    ) -> Self {
        let wake = (0..threads.max(1)).map(|_| env.condition(Duration::ZERO)).collect();
        let shared = Arc::new(Shared { state: Mutex::default(), wake, done });
        let start = |index: usize| {
            let shared = shared.clone();
            env.spawn(&format!("vlsm-io-{index}"), priority, Box::new(move || shared.run(index)))
        };
        let threads = Mutex::new((0..threads.max(1)).map(start).collect());
        Self { shared, threads }
    }

    /// Has a thread run `work`.
    pub fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let pending = Pending::new();
        let slot = pending.0.clone();
        let work: Work = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
                Err(Error::Internal("a file call of the background panicked".into()))
            });
            slot.put(result);
        });
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            return Pending::ready(Err(Error::Closed));
        }
        state.queue.push_back(work);
        let idle = state.idle.pop();
        drop(state);
        if let Some(index) = idle {
            self.shared.wake[index].notify();
        }
        pending
    }

    /// Waits for a result. Not for jobs, which give way instead.
    ///
    /// # Errors
    /// What the closure failed with.
    pub fn wait<T>(&self, pending: &Pending<T>) -> Result<T> {
        loop {
            let epoch = self.shared.done.epoch();
            if pending.is_ready() {
                let taken = pending.try_take();
                return taken.unwrap_or_else(|| {
                    Err(Error::Internal("the result of a file call was taken twice".into()))
                });
            }
            self.shared.done.wait(epoch, None);
        }
    }

    /// Runs what is queued, then ends the threads. Later submits answer [`Error::Closed`].
    pub fn shutdown(&self) {
        self.shared.state.lock().closed = true;
        for wake in &self.shared.wake {
            wake.notify();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            thread.join();
        }
    }
}

impl Drop for IoPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Closes the pool when its thread unwinds.
struct CloseOnUnwind<'a>(&'a Shared);

impl Drop for CloseOnUnwind<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let queue = {
                let mut state = self.0.state.lock();
                state.closed = true;
                std::mem::take(&mut state.queue)
            };
            drop(queue);
        }
    }
}

impl Shared {
    /// The life of thread `index`.
    fn run(&self, index: usize) {
        let _unwinding = CloseOnUnwind(self);
        let wake = &self.wake[index];
        loop {
            let epoch = wake.epoch();
            let work = {
                let mut state = self.state.lock();
                let work = state.queue.pop_front();
                state.idle.retain(|idle| *idle != index);
                if work.is_none() {
                    if state.closed {
                        return;
                    }
                    state.idle.push(index);
                }
                work
            };
            match work {
                Some(work) => {
                    work();
                    self.done.notify();
                }
                None => {
                    wake.wait(epoch, None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env_real::RealEnv;

    #[test]
    fn results_errors_and_panics_come_back() {
        let env: Arc<dyn Env> = RealEnv::new();
        let done = env.condition(Duration::from_micros(20));
        let pool = IoPool::new(&env, 2, Priority::Normal, done);
        let calls: Vec<_> = (0..1000_u64).map(|n| pool.submit(move || Ok(n * n))).collect();
        for (n, call) in calls.iter().enumerate() {
            assert_eq!(pool.wait(call).expect("answered"), (n * n) as u64);
            assert!(call.try_take().is_none(), "taken once");
        }
        let panics = pool.submit::<()>(|| panic!("as a test"));
        assert!(matches!(pool.wait(&panics), Err(Error::Internal(_))));
        let last = pool.submit(|| Ok(7));
        pool.shutdown();
        assert_eq!(last.try_take().expect("ran before the end").expect("answered"), 7);
        let late = pool.submit(|| Ok(8));
        assert!(matches!(late.try_take(), Some(Err(Error::Closed))));
    }
}
