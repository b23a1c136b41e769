//! One thread that waits in the place of many.
//!
//! A thread that has nothing to do until a condition is notified costs memory and a place among the
//! threads that the system allows. With a waker it ends instead:
//! 1. It leaves its work as `Dormant`, with the condition and its epoch (`Waker::suspend`).
//! 2. The next notification of the condition hands the work to the waker's thread. The caller of
//!    the notification may hold a lock, so it starts no thread itself.
//! 3. The waker's thread starts a thread, which continues the work.
//!
//! If the system starts no thread, the waker's own thread does the work, one step after the other,
//! as far as that is possible without waiting for other work ([`Thread::Lent`]); file calls and
//! their pace it does wait for. Before each step it asks the system again. So a callback of one
//! store must not wait for another store either.
//!
//! Threads and locks: the waker's thread is started for the first dormant work, and ends after the
//! last. The lock is held for a few instructions, and never while a thread is started or work runs.
//! A thread inherits its processors, and on Linux its nice value, from the thread that starts it.
//! So the threads of a store that was idle have those of the thread that started the waker, which
//! may be another store's.
//!
//! Invariant: while there is dormant or ready work, the thread runs. A thread that unwinds (a
//! simulated machine lost power) drops all of it, because nobody would continue it.

use crate::env::{Condition, Env, Priority, Stopped};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::planted::{self, Bug};

/// The pause before work that waits for a time is tried again on the lent thread.
const RETRY: Duration = Duration::from_millis(1);

/// The thread that continues work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thread {
    /// A thread of its own, which may wait.
    Own,
    /// The waker's thread. The work returns where it would wait.
    Lent,
}

/// How a thread left its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// The thread is not needed any more.
    Done,
    /// There may be more to do.
    GoOn,
    /// It waits for a time.
    Soon,
}

/// Work without a thread. The fields are dropped in this order.
#[derive(Clone)]
pub(crate) struct Dormant {
    /// The environment that starts its thread.
    pub env: Arc<dyn Env>,
    /// The name of its thread.
    pub name: String,
    /// The priority of its thread.
    pub priority: Priority,
    /// Continues the work. On a thread of its own until it is [`Left::Done`].
    pub go_on: Arc<dyn Fn(Thread) -> Left + Send + Sync>,
}

/// Starts threads for dormant work.
#[derive(Default)]
pub struct Waker {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    dormant: BTreeMap<u64, Dormant>,
    next: u64,
    /// Work whose condition was notified.
    ready: VecDeque<Dormant>,
    /// Whether the thread has work in hand, which is in neither list.
    busy: bool,
    serving: Serving,
}

/// The state of the waker's thread.
#[derive(Default)]
enum Serving {
    #[default]
    No,
    /// Notifies this condition when it runs, or cannot be started.
    Starting(Arc<dyn Condition>),
    /// It runs, and sleeps on this condition.
    Yes(Arc<dyn Condition>),
}

impl Waker {
    /// Continues the work after the next notification of `condition` after `epoch`. Returns false
    /// if the epoch has changed already or the waker has no thread. The caller continues then.
    pub(crate) fn suspend(
        self: &Arc<Self>,
        work: Dormant,
        condition: &dyn Condition,
        epoch: u64,
    ) -> bool {
        let Some(number) = self.keep(work) else { return false };
        let waker = self.clone();
        let kept = condition.on_notify(epoch, Box::new(move || waker.wake(number)));
        if !kept {
            let mut state = self.state.lock();
            let work = state.dormant.remove(&number);
            let wake = state.serving.wake();
            drop(state);
            drop(work);
            // The thread may have seen it, and nothing else.
            wake.inspect(|wake| wake.notify());
        }
        kept
    }

    /// Whether its thread runs although there is no work: it is about to end.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        let none = state.dormant.is_empty() && state.ready.is_empty();
        none && !state.busy && matches!(state.serving, Serving::Yes(_))
    }

    /// Keeps the work under a number. None if the waker's thread cannot be started.
    fn keep(self: &Arc<Self>, work: Dormant) -> Option<u64> {
        loop {
            let mut state = self.state.lock();
            match &state.serving {
                Serving::Yes(_) => return Some(state.keep(work)),
                Serving::Starting(wake) => {
                    let (wake, epoch) = (wake.clone(), wake.epoch());
                    drop(state);
                    wake.wait(epoch, None);
                }
                Serving::No => {
                    let wake = work.env.condition(Duration::ZERO);
                    state.serving = Serving::Starting(wake.clone());
                    drop(state);
                    let started = caught(|| self.start(&work.env, &wake)).unwrap_or(false);
                    let mut state = self.state.lock();
                    let serving = if started { Serving::Yes(wake.clone()) } else { Serving::No };
                    state.serving = serving;
                    let kept = started.then(|| state.keep(work));
                    drop(state);
                    wake.notify();
                    return kept;
                }
            }
        }
    }

    /// Starts the waker's thread, which sleeps on `wake`.
    fn start(self: &Arc<Self>, env: &Arc<dyn Env>, wake: &Arc<dyn Condition>) -> bool {
        let (waker, wake) = (self.clone(), wake.clone());
        let serve = move || waker.serve(&*wake);
        env.spawn("vlsm-waker", Priority::Normal, Box::new(serve)).is_ok()
    }

    /// Hands work to the waker's thread.
    fn wake(&self, number: u64) {
        if planted::is(Bug::DormantForgotten) {
            return;
        }
        let mut state = self.state.lock();
        let Some(work) = state.dormant.remove(&number) else { return };
        state.ready.push_back(work);
        let wake = state.serving.wake();
        drop(state);
        wake.inspect(|wake| wake.notify());
    }

    /// The loop of the waker's thread.
    fn serve(&self, wake: &dyn Condition) {
        let _unwinding = ForgetOnUnwind(self);
        // How many in turn had to wait for a time.
        let mut vain = 0;
        loop {
            let epoch = wake.epoch();
            let mut state = self.state.lock();
            if let Some(work) = state.ready.pop_front() {
                state.busy = true;
                drop(state);
                let left = go_on(&work);
                vain = if left == Left::Soon { vain + 1 } else { 0 };
                let mut state = self.state.lock();
                state.busy = false;
                if left != Left::Done {
                    state.ready.push_back(work.clone());
                }
                if vain >= state.ready.len() && vain > 0 {
                    drop(state);
                    pause(&*work.env);
                    vain = 0;
                }
                continue;
            }
            // One that starts this thread is about to leave work here.
            if state.dormant.is_empty() && matches!(state.serving, Serving::Yes(_)) {
                state.serving = Serving::No;
                return;
            }
            drop(state);
            wake.wait(epoch, None);
        }
    }
}

impl State {
    fn keep(&mut self, work: Dormant) -> u64 {
        self.next += 1;
        self.dormant.insert(self.next, work);
        self.next
    }
}

impl Serving {
    fn wake(&self) -> Option<Arc<dyn Condition>> {
        match self {
            Self::Yes(wake) => Some(wake.clone()),
            Self::No | Self::Starting(_) => None,
        }
    }
}

fn pause(env: &dyn Env) {
    let never = env.condition(Duration::ZERO);
    never.wait(never.epoch(), Some(env.now() + RETRY));
}

/// Continues work on a thread of its own, or on this one.
fn go_on(work: &Dormant) -> Left {
    let body = work.go_on.clone();
    let own = move || {
        body(Thread::Own);
    };
    let start = || work.env.spawn(&work.name, work.priority, Box::new(own)).is_ok();
    // A panic of the environment started nothing; one of the work has been noted, and ends it.
    match caught(start) {
        None => Left::Soon,
        Some(true) => Left::Done,
        Some(false) => caught(|| (work.go_on)(Thread::Lent)).unwrap_or(Left::Done),
    }
}

/// The result of a call; none if it panicked.
fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Stopped>() => resume_unwind(payload),
        Err(_) => None,
    }
}

/// Drops all work when the waker's thread unwinds.
struct ForgetOnUnwind<'a>(&'a Waker);

impl Drop for ForgetOnUnwind<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state.lock();
            let State { dormant, ready, serving, .. } = &mut *state;
            *serving = Serving::No;
            let forgotten = (std::mem::take(dormant), std::mem::take(ready));
            drop(state);
            drop(forgotten);
        }
    }
}

#[cfg(test)]
mod tests;
