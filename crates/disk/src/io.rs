//! Blocking file calls on threads of their own, so that jobs never wait for the device.
//!
//! 1. `submit` queues a closure, returns a [`Pending`], and wakes one idle thread.
//! 2. The thread runs the closure, stores its result in the pending, and notifies the conditions
//!    given at construction ([`Done`]): that of urgent calls only if the call was one. So a waiter
//!    for urgent calls does not wake for each piece of a long read or write.
//! 3. The holder of the pending calls `is_ready` or takes the result.
//!
//! Long reads and writes of jobs are *bulk* ([`Ranked::submit_bulk`]). They have a second queue,
//! which is served after the first one, and proceed in pieces, as [`crate::throttle`] says. While
//! no limit is in force, all threads may do bulk work. Otherwise one thread may, so that the others
//! are free for short or urgent calls.
//!
//! An order may be in force ([`IoPool::set_order`]). Then bulk calls of [`Rank::Later`] are made
//! after those of [`Rank::First`]. Writes among them stay in the queue while a write of
//! [`Rank::First`] is queued or under way, too, each at most for the time that the order gives.
//!
//! Threads come and go. The thread that takes a call starts another one before it makes the call,
//! if no other is idle and there may be more. So one waits for the next call, and no caller of
//! `submit`, who may hold a lock, starts one. A thread that was idle for three seconds ends. The
//! last idle one keeps its place, and the next call has a thread started for it (`waker`). So an
//! idle pool has no thread.
//!
//! Invariants: every submitted closure runs or returns `Closed`; one that panics returns
//! `Error::Internal`, and its thread continues. No lock is held while a closure runs or a thread
//! waits. The queue is bounded, because each job has only a few calls in flight.
//!
//! A thread that unwinds while it waits (a simulated machine lost power) closes the pool and drops
//! the queued closures. Otherwise there would be a cycle: a closure holds its submitter, which
//! holds the pool.

use crate::crew::{Crew, Next, STAYS};
use crate::env::{Condition, Env, Priority};
use crate::waker::Thread;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vlsm_core::{Error, Result};

mod bulk;

pub use bulk::{Bulk, Way};

type Work = Box<dyn FnOnce(&Bulk) + Send>;

/// Threads that do blocking file calls.
pub struct IoPool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    crew: Crew,
    priority: Priority,
    /// One condition for each place of a thread, so that a submit wakes only one.
    wake: Vec<Arc<dyn Condition>>,
    done: Done,
    bulk: Bulk,
}

/// The conditions that ended calls notify.
#[derive(Clone)]
pub struct Done {
    /// Notified by each call.
    pub each: Arc<dyn Condition>,
    /// Notified by each call that is not bulk, and by bulk ones of [`Ranked::urgent`]; none if
    /// nobody waits for them.
    pub urgent: Option<Arc<dyn Condition>>,
}

impl Done {
    fn notify(&self, tells: Tells) {
        if let Some(urgent) = self.urgent.as_ref().filter(|_| tells == Tells::EachAndUrgent) {
            urgent.notify();
        }
        if tells != Tells::Nobody {
            self.each.notify();
        }
    }
}

impl From<Arc<dyn Condition>> for Done {
    fn from(each: Arc<dyn Condition>) -> Self {
        Self { each, urgent: None }
    }
}

/// The place of a call in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rank {
    /// Goes before the others.
    First,
    /// Goes after them.
    #[default]
    Later,
}

/// Whom the end of a call notifies ([`Done`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    Nobody,
    Each,
    EachAndUrgent,
}

impl Tells {
    fn of(urgent: bool) -> Self {
        if urgent { Self::EachAndUrgent } else { Self::Each }
    }
}

/// A call in the queue.
struct Queued {
    work: Work,
    rank: Rank,
    way: Way,
    tells: Tells,
    /// The time of its submission, by the clock of the environment; zero without an order.
    since: Duration,
}

impl Queued {
    fn is_first_write(&self) -> bool {
        (self.rank, self.way) == (Rank::First, Way::Write)
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Queued>,
    bulk: VecDeque<Queued>,
    /// With an order, bulk calls of [`Rank::Later`].
    later: VecDeque<Queued>,
    /// The longest wait of a write of [`Rank::Later`]; none without an order.
    order: Option<Duration>,
    /// Writes of [`Rank::First`] that are queued or under way.
    first: usize,
    /// The number of threads that do bulk work.
    bulky: usize,
    /// The places of idle threads. The last one is woken first.
    idle: Vec<usize>,
    /// The places without a thread.
    free: Vec<usize>,
    /// Whether a thread is being started.
    starting: bool,
    closed: bool,
}

/// The result of a submitted call, which may still be missing.
pub struct Pending<T>(Arc<Slot<T>>);

struct Slot<T> {
    ready: AtomicBool,
    result: Mutex<Option<Result<T>>>,
}

impl<T> Pending<T> {
    fn new() -> Self {
        Self(Arc::new(Slot { ready: AtomicBool::new(false), result: Mutex::new(None) }))
    }

    /// A result that is available at once, for calls with nothing to do.
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

    /// The result, if it is there and was not taken yet.
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
    /// A pool of at most `threads` threads, of which it starts one. Ended calls notify `done`.
    ///
    /// # Errors
    /// The system's error if the thread does not start. If later ones do not, the pool goes on with
    /// those that it has.
    pub fn new(
        env: &Arc<dyn Env>,
        threads: usize,
        priority: Priority,
        done: impl Into<Done>,
    ) -> io::Result<Self> {
        let (threads, done) = (threads.max(1), done.into());
        let wake = (0..threads).map(|_| env.condition(Duration::ZERO)).collect();
        let free = (1..threads).rev().collect();
        let state = Mutex::new(State { free, starting: true, ..State::default() });
        let (crew, bulk) = (Crew::new(env), Bulk::new(env));
        let shared = Arc::new(Shared { state, crew, priority, wake, done, bulk });
        shared.start(0)?;
        Ok(Self { shared })
    }

    /// Runs `work` on a thread of the pool.
    pub fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        self.put((false, Tells::EachAndUrgent), (Rank::Later, Way::Read), move |_| work())
    }

    /// As [`IoPool::submit`], but the end of the call notifies none of the pool's conditions: for
    /// those who wait in a way of their own.
    pub fn submit_quietly(&self, work: impl FnOnce() -> Result<()> + Send + 'static) {
        let kind = (Rank::Later, Way::Read);
        drop(self.put((false, Tells::Nobody), kind, move |_| work()));
    }

    /// The pool for calls of this rank.
    #[must_use]
    pub fn ranked(&self, rank: Rank) -> Ranked<'_> {
        Ranked { pool: self, rank, urgent: false }
    }

    /// Puts an order in force, or ends it. `patience` is the longest time for which a write of
    /// [`Rank::Later`] waits for those of [`Rank::First`].
    pub fn set_order(&self, patience: Option<Duration>) {
        let mut state = self.shared.state.lock();
        if state.order == patience {
            return;
        }
        state.order = patience;
        if patience.is_none() {
            let later = std::mem::take(&mut state.later);
            state.bulk.extend(later);
        }
        let idle = state.idle.pop();
        drop(state);
        if let Some(index) = idle {
            self.shared.wake[index].notify();
        }
    }

    /// The state that bulk calls share.
    #[must_use]
    pub fn bulk(&self) -> &Bulk {
        &self.shared.bulk
    }

    fn put<T: Send + 'static>(
        &self,
        (bulk, tells): (bool, Tells),
        kind: (Rank, Way),
        work: impl FnOnce(&Bulk) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let pending = Pending::new();
        let slot = pending.0.clone();
        let work: Work = Box::new(move |bulk| {
            let result = catch_unwind(AssertUnwindSafe(|| work(bulk))).unwrap_or_else(|_| {
                Err(Error::Internal("a file call of the background panicked".into()))
            });
            slot.put(result);
        });
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            return Pending::ready(Err(Error::Closed));
        }
        state.put((bulk, tells), kind, work, || self.shared.bulk.env.now());
        let idle = state.idle.pop();
        drop(state);
        if let Some(index) = idle {
            self.shared.wake[index].notify();
        }
        pending
    }

    /// Waits for a result. Jobs do not call this; they yield instead.
    ///
    /// # Errors
    /// The closure's error.
    pub fn wait<T>(&self, pending: &Pending<T>) -> Result<T> {
        loop {
            let epoch = self.shared.done.each.epoch();
            if pending.is_ready() {
                let taken = pending.try_take();
                return taken.unwrap_or_else(|| {
                    Err(Error::Internal("the result of a file call was taken twice".into()))
                });
            }
            self.shared.done.each.wait(epoch, None);
        }
    }

    /// Runs the queued work, then ends the threads. Later submits return [`Error::Closed`].
    pub fn shutdown(&self) {
        self.shared.state.lock().closed = true;
        for wake in &self.shared.wake {
            wake.notify();
        }
        self.shared.crew.join();
    }
}

/// A pool for calls of one rank.
#[derive(Clone, Copy)]
pub struct Ranked<'a> {
    pool: &'a IoPool,
    rank: Rank,
    urgent: bool,
}

impl Ranked<'_> {
    /// The same pool, whose bulk calls also notify [`Done::urgent`] if `urgent`.
    #[must_use]
    pub fn urgent(self, urgent: bool) -> Self {
        Self { urgent, ..self }
    }

    /// Runs a write on a thread of the pool at once, as [`IoPool::submit`].
    pub fn submit_write<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        self.pool.put((false, Tells::EachAndUrgent), (self.rank, Way::Write), move |_| work())
    }

    /// Runs `work` on a thread of the pool, after all other work. It makes its calls by the
    /// [`Bulk`] that it receives.
    pub fn submit_bulk<T: Send + 'static>(
        self,
        way: Way,
        work: impl FnOnce(&Bulk) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        self.pool.put((true, Tells::of(self.urgent)), (self.rank, way), work)
    }
}

impl Drop for IoPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Closes the pool when its thread unwinds, or the waker's with its work.
struct CloseOnUnwind(Arc<Shared>);

impl Drop for CloseOnUnwind {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let queues = {
                let mut state = self.0.state.lock();
                state.closed = true;
                let State { queue, bulk, later, .. } = &mut *state;
                [queue, bulk, later].map(std::mem::take)
            };
            drop(queues);
        }
    }
}

impl Shared {
    /// Starts the thread of a place that was taken.
    fn start(self: &Arc<Self>, place: usize) -> io::Result<()> {
        let (closing, begun) = (CloseOnUnwind(self.clone()), AtomicBool::new(false));
        let body = move |thread| {
            let begins = !begun.swap(true, Ordering::Relaxed);
            closing.0.run(place, thread, begins)
        };
        self.crew.start(&format!("vlsm-io-{place}"), self.priority, body).inspect_err(|_| {
            let mut state = self.state.lock();
            state.starting = false;
            state.free.push(place);
        })
    }

    /// Makes calls at place `index` until there are none for a while.
    fn run(self: &Arc<Self>, index: usize, thread: Thread, mut begins: bool) -> Next {
        let wake = &self.wake[index];
        let (mut bulky, mut first) = (false, false);
        let mut since = None;
        loop {
            let epoch = wake.epoch();
            let next = {
                let depth = self.bulk.depth(self.wake.len());
                let mut state = self.state.lock();
                let depth = if state.closed { self.wake.len() } else { depth };
                state.starting &= !std::mem::take(&mut begins);
                state.end_call(std::mem::take(&mut bulky), std::mem::take(&mut first));
                let next = state.next(depth, || self.bulk.env.now());
                match next {
                    Some((call, is_bulk)) => {
                        state.idle.retain(|idle| *idle != index);
                        since = None;
                        // The queue may also hold bulk work that threads left because of a limit
                        // that has ended.
                        let more = state.bulky < depth && state.has_bulk();
                        let other = if more { state.idle.pop() } else { None };
                        Ok((call, is_bulk, other, state.another()))
                    }
                    None if state.closed => return Next::End,
                    None => {
                        let now = self.bulk.env.now();
                        let ends = *since.get_or_insert(now) + STAYS;
                        let awaits = || Next::Await(wake.clone(), epoch);
                        if let Some(next) = state.rest(index, thread, now >= ends, awaits) {
                            return next;
                        }
                        // One that is needed now may not be so later.
                        let stays = if now < ends { ends } else { now + STAYS };
                        let impatient = state.impatient().filter(|_| state.bulky < depth);
                        Err(impatient.map_or(stays, |due| due.min(stays)))
                    }
                }
            };
            match next {
                Ok((call, is_bulk, other, another)) => {
                    (bulky, first) = (is_bulk, call.is_first_write());
                    let tells = call.tells;
                    if let Some(other) = other {
                        self.wake[other].notify();
                    }
                    if let Some(place) = another {
                        // Without it the pool goes on.
                        let _ = self.start(place);
                    }
                    (call.work)(&self.bulk);
                    self.done.notify(tells);
                    if thread == Thread::Lent {
                        self.state.lock().end_call(bulky, first);
                        return Next::GoOn;
                    }
                }
                Err(until) => {
                    wake.wait(epoch, Some(until));
                }
            }
        }
    }
}

impl State {
    fn put(
        &mut self,
        (bulk, tells): (bool, Tells),
        (rank, way): (Rank, Way),
        work: Work,
        now: impl FnOnce() -> Duration,
    ) {
        let ordered = self.order.is_some();
        let since = if ordered { now() } else { Duration::ZERO };
        let rank = if ordered { rank } else { Rank::Later };
        let call = Queued { work, rank, way, tells, since };
        self.first += usize::from(call.is_first_write());
        match bulk {
            false => self.queue.push_back(call),
            true if ordered && rank == Rank::Later => self.later.push_back(call),
            true => self.bulk.push_back(call),
        }
    }

    /// The next call of a thread, and whether it is bulk. At most `depth` threads do bulk work.
    fn next(&mut self, depth: usize, now: impl FnOnce() -> Duration) -> Option<(Queued, bool)> {
        if let Some(call) = self.queue.pop_front() {
            return Some((call, false));
        }
        if self.bulky >= depth {
            return None;
        }
        let mut call = self.bulk.pop_front();
        if call.is_none() {
            let due = self.impatient().is_some_and(|due| due <= now());
            let all = self.first == 0 || due || self.closed;
            let next = self.later.iter().position(|call| all || call.way == Way::Read);
            call = next.and_then(|index| self.later.remove(index));
        }
        self.bulky += usize::from(call.is_some());
        call.map(|call| (call, true))
    }

    /// Counts a call as ended: whether it was bulk, and whether it was a first write.
    fn end_call(&mut self, bulk: bool, first_write: bool) {
        self.bulky -= usize::from(bulk);
        self.first -= usize::from(first_write);
    }

    /// Counts the thread of place `index` as idle. Returns how it goes on without its thread, if it
    /// has stayed for long enough or its thread is lent.
    fn rest(
        &mut self,
        index: usize,
        thread: Thread,
        stayed: bool,
        awaits: impl FnOnce() -> Next,
    ) -> Option<Next> {
        // A write that yields needs a thread that waits until it is due.
        let needed = self.impatient().is_some();
        let lent = thread == Thread::Lent;
        let leaves = (stayed || lent) && !needed;
        self.idle.retain(|idle| *idle != index);
        if leaves && !self.idle.is_empty() {
            self.free.push(index);
            return Some(Next::End);
        }
        self.idle.push(index);
        if leaves { Some(awaits()) } else { lent.then_some(Next::Retry) }
    }

    /// Takes the place of another thread, which is to be started, if none waits for a call.
    fn another(&mut self) -> Option<usize> {
        let lacks = self.idle.is_empty() && !self.starting && !self.closed;
        let place = if lacks { self.free.pop() } else { None };
        self.starting |= place.is_some();
        place
    }

    /// Whether there is bulk work that may begin.
    fn has_bulk(&self) -> bool {
        let may_begin = |call: &Queued| self.first == 0 || call.way == Way::Read;
        !self.bulk.is_empty() || self.later.iter().any(may_begin)
    }

    /// The time at which the oldest of the writes that yield has waited for long enough.
    fn impatient(&self) -> Option<Duration> {
        let oldest = self.later.iter().find(|call| call.way == Way::Write)?;
        Some(oldest.since + self.order.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
