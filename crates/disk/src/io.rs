//! Blocking file calls on threads of their own, so that jobs never wait for the device.
//!
//! 1. `submit` queues a closure, returns a [`Pending`], and wakes one idle thread.
//! 2. The thread runs the closure, stores its result in the pending, and notifies the condition
//!    given at construction (the workers wait on it).
//! 3. The holder of the pending calls `is_ready` or takes the result.
//!
//! Long reads and writes of jobs are *bulk* ([`IoPool::submit_bulk`]). They have a second queue,
//! which is served after the first one, and proceed in pieces, as [`crate::throttle`] says. While
//! no limit is in force, all threads may do bulk work. Otherwise one thread may, so that the others
//! are free for short or urgent calls.
//!
//! Invariants: every submitted closure runs or returns `Closed`; one that panics returns
//! `Error::Internal`, and its thread continues. No lock is held while a closure runs or a thread
//! waits. The queue is bounded, because each job has only a few calls in flight.
//!
//! A thread that unwinds while it waits (a simulated machine lost power) closes the pool and drops
//! the queued closures. Otherwise there would be a cycle: a closure holds its submitter, which
//! holds the pool.

use crate::env::{Condition, Env, Join, Priority};
use crate::throttle::Throttle;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use vlsm_core::{Error, Result};

type Work = Box<dyn FnOnce(&Bulk) + Send>;

/// The time after its last device call in which a client counts as active.
const CLIENTS_STAY: Duration = Duration::from_millis(50);

/// Threads that do blocking file calls.
pub struct IoPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Box<dyn Join>>>,
}

struct Shared {
    state: Mutex<State>,
    /// One condition for each thread, so that a submit wakes only one.
    wake: Vec<Arc<dyn Condition>>,
    done: Arc<dyn Condition>,
    bulk: Bulk,
}

/// The direction of a bulk call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// The state that bulk calls share.
pub struct Bulk {
    env: Arc<dyn Env>,
    reads: Mutex<Throttle>,
    writes: Mutex<Throttle>,
    /// Only for sleeping: it is never notified.
    sleep: Arc<dyn Condition>,
    /// The clients' device calls at the last report, the time when that number last changed, in
    /// microseconds, and whether a writer waits for a job.
    calls: AtomicU64,
    called: AtomicU64,
    urgent: AtomicBool,
}

impl Bulk {
    fn new(env: &Arc<dyn Env>) -> Self {
        Self {
            env: env.clone(),
            reads: Mutex::default(),
            writes: Mutex::default(),
            sleep: env.condition(Duration::ZERO),
            calls: AtomicU64::new(0),
            called: AtomicU64::new(0),
            urgent: AtomicBool::new(false),
        }
    }

    /// Reports what clients do: the number of their device calls so far, and whether a writer waits
    /// for a job.
    pub fn note_clients(&self, calls: u64, urgent: bool) {
        if self.calls.swap(calls, Ordering::Relaxed) != calls {
            self.called.store(self.env.now().as_micros() as u64, Ordering::Relaxed);
        }
        self.urgent.store(urgent, Ordering::Relaxed);
    }

    /// Whether clients wait for the device and no writer waits for a job.
    fn waiting(&self, now: Duration) -> bool {
        let called = Duration::from_micros(self.called.load(Ordering::Relaxed));
        let stay = !called.is_zero() && now.saturating_sub(called) <= CLIENTS_STAY;
        stay && !self.urgent.load(Ordering::Relaxed)
    }

    fn throttle(&self, way: Way) -> &Mutex<Throttle> {
        match way {
            Way::Read => &self.reads,
            Way::Write => &self.writes,
        }
    }

    /// The limit in force in one direction, in bytes per second.
    #[must_use]
    pub fn limit(&self, way: Way) -> Option<u64> {
        let limit = self.throttle(way).lock().rate();
        limit.filter(|_| self.waiting(self.env.now()))
    }

    /// The number of threads that may do bulk work.
    fn depth(&self, threads: usize) -> usize {
        let limited = [Way::Read, Way::Write].iter().any(|way| self.limit(*way).is_some());
        if limited { 1 } else { threads }
    }

    /// Makes a call of `len` bytes in pieces, and calls `piece` with the range of each. Blocks.
    ///
    /// # Errors
    /// The first error of a piece. No further piece is made.
    pub fn call(
        &self,
        way: Way,
        len: usize,
        mut piece: impl FnMut(Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let now = self.env.now();
            let waiting = self.waiting(now);
            let (bytes, start) = self.throttle(way).lock().begin(now, len - done, waiting);
            if start > now {
                self.sleep.wait(self.sleep.epoch(), Some(start));
            }
            let before = self.env.now();
            piece(done..done + bytes)?;
            let after = self.env.now();
            let took = after.saturating_sub(before);
            self.throttle(way).lock().end(after, bytes, took, waiting);
            done += bytes;
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    bulk: VecDeque<Work>,
    /// The number of threads that do bulk work.
    bulky: usize,
    idle: Vec<usize>,
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
    /// Starts the threads. Every completion notifies `done`.
    ///
    /// # Errors
    /// The system's error if not all threads start. Those that did are then ended.
    pub fn new(
        env: &Arc<dyn Env>,
        threads: usize,
        priority: Priority,
        done: Arc<dyn Condition>,
    ) -> io::Result<Self> {
        let wake = (0..threads.max(1)).map(|_| env.condition(Duration::ZERO)).collect();
        let bulk = Bulk::new(env);
        let shared = Arc::new(Shared { state: Mutex::default(), wake, done, bulk });
        let start = |index: usize| {
            let shared = shared.clone();
            env.spawn(&format!("vlsm-io-{index}"), priority, Box::new(move || shared.run(index)))
        };
        let pool = Self { shared: shared.clone(), threads: Mutex::default() };
        for thread in (0..threads.max(1)).map(start) {
            match thread {
                Ok(thread) => pool.threads.lock().push(thread),
                Err(error) => {
                    pool.shutdown();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    /// Runs `work` on a thread of the pool.
    pub fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        self.put(false, move |_| work())
    }

    /// Runs `work` on a thread of the pool, after all other work. It makes its calls by the
    /// [`Bulk`] that it receives.
    pub fn submit_bulk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Bulk) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        self.put(true, work)
    }

    /// The state that bulk calls share.
    #[must_use]
    pub fn bulk(&self) -> &Bulk {
        &self.shared.bulk
    }

    fn put<T: Send + 'static>(
        &self,
        bulk: bool,
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
        match bulk {
            true => state.bulk.push_back(work),
            false => state.queue.push_back(work),
        }
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

    /// Runs the queued work, then ends the threads. Later submits return [`Error::Closed`].
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
            let queues = {
                let mut state = self.0.state.lock();
                state.closed = true;
                (std::mem::take(&mut state.queue), std::mem::take(&mut state.bulk))
            };
            drop(queues);
        }
    }
}

impl Shared {
    /// The loop of thread `index`.
    fn run(&self, index: usize) {
        let _unwinding = CloseOnUnwind(self);
        let wake = &self.wake[index];
        let mut bulky = false;
        loop {
            let epoch = wake.epoch();
            let next = {
                let depth = self.bulk.depth(self.wake.len());
                let mut state = self.state.lock();
                let depth = if state.closed { self.wake.len() } else { depth };
                state.bulky -= usize::from(std::mem::take(&mut bulky));
                let next = state.next(depth);
                state.idle.retain(|idle| *idle != index);
                if next.is_none() {
                    if state.closed {
                        return;
                    }
                    state.idle.push(index);
                }
                // The queue may also hold bulk work that threads left because of a limit that has
                // ended.
                let more = state.bulky < depth && !state.bulk.is_empty();
                let other = if more && next.is_some() { state.idle.pop() } else { None };
                next.map(|(work, is_bulk)| (work, is_bulk, other))
            };
            match next {
                Some((work, is_bulk, other)) => {
                    bulky = is_bulk;
                    if let Some(other) = other {
                        self.wake[other].notify();
                    }
                    work(&self.bulk);
                    self.done.notify();
                }
                None => {
                    wake.wait(epoch, None);
                }
            }
        }
    }
}

impl State {
    /// The next work of a thread, and whether it is bulk. At most `depth` threads do bulk work.
    fn next(&mut self, depth: usize) -> Option<(Work, bool)> {
        if let Some(work) = self.queue.pop_front() {
            return Some((work, false));
        }
        let work = if self.bulky < depth { self.bulk.pop_front() } else { None };
        self.bulky += usize::from(work.is_some());
        work.map(|work| (work, true))
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
        let pool = IoPool::new(&env, 2, Priority::Normal, done).expect("started");
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

    #[test]
    fn short_calls_go_first_and_all_bulk_work_is_done_in_the_end() {
        let env: Arc<dyn Env> = RealEnv::new();
        let pool = IoPool::new(&env, 1, Priority::Normal, env.condition(Duration::ZERO));
        let pool = pool.expect("started");
        let (gate, order) = (env.condition(Duration::ZERO), Arc::new(Mutex::new(Vec::new())));
        let open = Arc::new(AtomicBool::new(false));
        let (held, opened) = (gate.clone(), open.clone());
        let first = pool.submit(move || {
            loop {
                let epoch = held.epoch();
                if opened.load(Ordering::SeqCst) {
                    return Ok(());
                }
                held.wait(epoch, None);
            }
        });
        let note = |what: &'static str| {
            let order = order.clone();
            move || {
                order.lock().push(what);
                Ok(())
            }
        };
        let bulk = [note("bulk"), note("bulk")].map(|work| pool.submit_bulk(move |_| work()));
        let short = pool.submit(note("short"));
        open.store(true, Ordering::SeqCst);
        gate.notify();
        pool.shutdown();
        assert!(first.is_ready() && short.is_ready() && bulk.iter().all(Pending::is_ready));
        assert_eq!(*order.lock(), ["short", "bulk", "bulk"]);
    }

    /// Calls of a slow device, while clients are active.
    #[test]
    fn one_thread_does_bulk_work_in_pieces_while_there_is_a_limit() {
        let env: Arc<dyn Env> = RealEnv::new();
        let pool = IoPool::new(&env, 4, Priority::Normal, env.condition(Duration::ZERO));
        let pool = Arc::new(pool.expect("started"));
        let (running, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let rounds = |clients: bool| {
            most.store(0, Ordering::SeqCst);
            let calls = (0..40).map(|number| {
                let (pool, env) = (Arc::downgrade(&pool), env.clone());
                let (running, most) = (running.clone(), most.clone());
                move |bulk: &Bulk| {
                    let mut pieces = Vec::new();
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let called = bulk.call(Way::Read, 64 << 10, |part| {
                        if let Some(pool) = pool.upgrade().filter(|_| clients) {
                            pool.bulk().note_clients(number + 1, false);
                        }
                        let pause = env.condition(Duration::ZERO);
                        pause.wait(pause.epoch(), Some(env.now() + Duration::from_millis(5)));
                        pieces.push(part);
                        Ok(())
                    });
                    running.fetch_sub(1, Ordering::SeqCst);
                    called.map(|()| pieces).map_err(|error| Error::Internal(error.to_string()))
                }
            });
            let calls: Vec<_> = calls.map(|work| pool.submit_bulk(work)).collect();
            let pieces: Vec<_> = calls.iter().map(|call| pool.wait(call).expect("done")).collect();
            for pieces in &pieces {
                let mut ends = 0;
                pieces.iter().for_each(|piece| {
                    assert_eq!(std::mem::replace(&mut ends, piece.end), piece.start);
                });
                assert_eq!(ends, 64 << 10, "each byte once, in order");
            }
            (pieces.last().map_or(0, Vec::len), most.load(Ordering::SeqCst))
        };
        assert_eq!(rounds(false), (1, 4), "nobody else is there");
        rounds(true);
        assert!(pool.bulk().limit(Way::Read).is_some() && pool.bulk().limit(Way::Write).is_none());
        // On a loaded machine the clients may seem to pause, and the limit is lifted meanwhile.
        let mut found = (0..20).map(|_| rounds(true));
        assert!(found.any(|(pieces, most)| pieces > 1 && most == 1), "never one thread in pieces");
    }
}
