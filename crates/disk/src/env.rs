//! The environment: every wait, thread, clock, random number and file of the engine goes through
//! [`Env`].
//!
//! In production it is the operating system (`RealEnv`). In the simulator it is a seeded scheduler
//! that runs the same engine, its workers and concurrent clients as coroutines on one thread. They
//! switch only at [`Condition::wait`], at file operations, at the start of a thread and at
//! [`Env::interleave`], so a seed determines a run.
//!
//! Rule for callers: no lock is held across a wait, a file operation, the start of a thread or an
//! interleave point, unless the lock is only ever taken with `try_lock`. (A coroutine that blocks
//! on a lock blocks the whole machine.)

use crate::fs::Fs;
use crate::waker::Waker;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::SlowPath;

/// The priority of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// The priority of client threads.
    Normal,
    /// Niced: runs when clients leave processor time.
    Background,
}

/// The payload with which an environment unwinds a thread to stop it for good, as the simulator
/// does at a crash. It is not a panic: code that catches panics must pass it on with
/// `resume_unwind`. Otherwise the thread unwinds again at its next wait.
#[derive(Debug)]
pub struct Stopped;

/// Waits for a thread to end.
pub trait Join: Send {
    /// Returns when the thread has ended: true if it returned, false if it panicked.
    fn join(self: Box<Self>) -> bool;
}

/// The engine's view of the machine.
pub trait Env: Send + Sync + 'static {
    /// The files.
    fn fs(&self) -> &Arc<dyn Fs>;

    /// Monotonic time since the creation of the environment.
    fn now(&self) -> Duration;

    /// Wall-clock time since the Unix epoch: for stamps in files, the LOG, and times to live.
    fn wall_clock(&self) -> Duration;

    /// A random number.
    fn random(&self) -> u64;

    /// The bytes of memory that this process may use, as the machine or its container limits it;
    /// none if that is not known.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    /// The things that are slower on this machine than on others. A store reports them when it is
    /// opened.
    fn slow_paths(&self) -> Vec<SlowPath> {
        Vec::new()
    }

    /// Runs `body` on a thread of its own.
    ///
    /// # Errors
    /// The system's error if it starts no more threads. `body` does not run then.
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Box<dyn FnOnce() + Send + 'static>,
    ) -> io::Result<Box<dyn Join>>;

    /// Waits in the place of threads that have nothing to do. Without it, which is the default,
    /// they wait themselves. An environment whose conditions make the calls of
    /// [`Condition::on_notify`] keeps an `Arc::<Waker>::default()` for this.
    fn waker(&self) -> Option<Arc<Waker>> {
        None
    }

    /// A new condition to wait for. A waiter spins for up to `spin` before it sleeps.
    fn condition(&self, spin: Duration) -> Arc<dyn Condition>;

    /// Whether a thread that panics may still wait and use files, as the drop of the last handle to
    /// a store does. A simulator that runs all threads on one says no.
    fn works_while_panicking(&self) -> bool {
        true
    }

    /// A point where the simulator may switch to another coroutine. Does nothing in production.
    fn interleave(&self) {}
}

/// An event count to wait on. It has no memory except its epoch. The state that a thread waits for
/// lives with the caller, in atomics or behind a lock that is not held while waiting:
///
/// ```text
/// loop {
///     let epoch = condition.epoch();
///     if state_is_there() { break; }
///     condition.wait(epoch, deadline);
/// }
/// ```
///
/// No wake-up is lost: a notify after `epoch()` makes the following `wait` return at once.
/// A notify is cheap when no thread sleeps.
pub trait Condition: Send + Sync {
    /// The number of notifications so far.
    fn epoch(&self) -> u64;

    /// Blocks until the epoch differs from `epoch` (true) or the time of [`Env::now`] reaches
    /// `deadline` (false). May return early with true.
    fn wait(&self, epoch: u64, deadline: Option<Duration>) -> bool;

    /// Wakes all waiters.
    fn notify(&self);

    /// Wakes one waiter, any; the others sleep on, and depend on that one. As after
    /// [`Self::notify`], a `wait` with an older epoch returns at once. By default it wakes all.
    fn notify_one(&self) {
        self.notify();
    }

    /// Calls `call` in the next notification after `epoch`, on the thread that notifies, which may
    /// hold locks. Returns false, and drops `call`, if the epoch has changed already or the
    /// condition calls nothing.
    fn on_notify(&self, epoch: u64, call: Box<dyn FnOnce() + Send>) -> bool {
        let _ = (epoch, call);
        false
    }
}
