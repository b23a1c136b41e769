//! Long reads and writes of jobs: in pieces, at a rate that leaves the device to clients.
//!
//! A limit may be in force while clients wait for the device and no writer waits for a job
//! ([`crate::throttle`] says which). Threads and locks: one lock for each direction, held for the
//! arithmetic of a piece, not while it is read or written.

use crate::env::{Condition, Env};
use crate::throttle::Throttle;
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The time after its last device call in which a client counts as active.
const CLIENTS_STAY: Duration = Duration::from_millis(50);

/// The direction of a bulk call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A read from the device.
    Read,
    /// A write to the device.
    Write,
}

/// The state that bulk calls share.
pub struct Bulk {
    pub(super) env: Arc<dyn Env>,
    reads: Mutex<Throttle>,
    writes: Mutex<Throttle>,
    /// Only for sleeping: it is never notified.
    sleep: Arc<dyn Condition>,
    /// The clients' device calls at the last report, the time when that number last changed, in
    /// microseconds, and whether a writer waits for a job.
    calls: AtomicU64,
    called: AtomicU64,
    urgent: AtomicBool,
    /// No limit is ever in force.
    unlimited: AtomicBool,
}

impl Bulk {
    pub(super) fn new(env: &Arc<dyn Env>) -> Self {
        Self {
            env: env.clone(),
            reads: Mutex::default(),
            writes: Mutex::default(),
            sleep: env.condition(Duration::ZERO),
            calls: AtomicU64::new(0),
            called: AtomicU64::new(0),
            urgent: AtomicBool::new(false),
            unlimited: AtomicBool::new(false),
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

    /// Lets bulk calls go as fast as the device takes them, whatever clients do.
    pub fn set_unlimited(&self) {
        self.unlimited.store(true, Ordering::Relaxed);
    }

    /// Whether a limit may be in force: clients wait for the device and no writer waits for a job.
    fn waiting(&self, now: Duration) -> bool {
        if self.unlimited.load(Ordering::Relaxed) {
            return false;
        }
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
    pub(super) fn depth(&self, threads: usize) -> usize {
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
