//! The state *out of space*, and the budget of free space.
//!
//! 1. A full device refuses an operation that lengthens a file: a flush, a compaction, an append to
//!    the manifest, the preparation of a WAL. The output of the operation is discarded (an edit
//!    waits), and the store refuses writes ([`Shared::failed`]).
//! 2. A worker checks the free space (`control/space`), at first soon, then at growing intervals.
//! 3. The free space is a budget. Jobs whose output it covers may run, and take their share of it:
//!    a small compaction may free the space that a large flush needs.
//! 4. When no part of the store waits for space any more, writes are accepted again.
//!
//! A device may report free space and still refuse to allocate it (quotas). Then the store
//! alternates between both states, at growing intervals.
//!
//! Threads and locks: `shortage` is held for a short time only; one thread looks for space at a
//! time.

use crate::shared::Shared;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::{Event, JobKind};
use vlsm_core::{Error, Micros};
use vlsm_policy::Candidate;

/// The time to the first look.
const LOOK_FIRST: Duration = Duration::from_millis(50);
/// The longest time between two looks.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// A shortage that begins this soon after another one continues its pauses.
const SOON: Duration = Duration::from_secs(10);
/// Bytes allowed for an append to the manifest, and for the needs of a job besides its output.
pub(crate) const ROOM: u64 = 64 << 10;

/// The state of a shortage.
#[derive(Default)]
struct Shortage {
    /// The time at which it began.
    since: Duration,
    /// Bytes that jobs may still use before the next look.
    budget: u64,
    /// The time from one look to the next.
    pause: Duration,
    look_at: Duration,
    /// The end of the last shortage; none if there was none.
    ended: Option<Duration>,
}

/// The shortage of space of one store.
#[derive(Default)]
pub(crate) struct Space {
    shortage: Mutex<Shortage>,
    looking: AtomicBool,
}

/// The bytes that a job may need before its inputs are removed.
pub(crate) fn needs(candidate: &Candidate) -> u64 {
    if candidate.kind == JobKind::TrivialMove {
        return ROOM;
    }
    // A compaction also writes what its inputs have in WALs.
    let tables = candidate.inputs.tables.iter();
    let logged: u64 = tables.map(|(_, table)| table.file.logged_bytes.0).sum();
    let bytes = candidate.bytes_in.0.max(candidate.bytes_out.0).saturating_add(logged);
    // Indexes and filters.
    bytes.saturating_add(bytes / 16).saturating_add(ROOM)
}

/// Whether a look for space is due.
pub(crate) enum Look {
    /// A look is due, and the caller is the only thread that looks.
    Now,
    At(Duration),
    /// There is no shortage, or another thread looks.
    Never,
}

impl Shared {
    /// Handles a failure: a lack of space is temporary; every other failure latches the store.
    /// Returns the error.
    pub fn failed(&self, error: Error) -> Error {
        match error {
            Error::NoSpace { path } => self.run_out(path),
            error => self.latch(error),
        }
    }

    /// Refuses writes until there is space.
    fn run_out(&self, path: PathBuf) -> Error {
        let now = self.env.now();
        let new = {
            let mut shortage = self.space.shortage.lock();
            shortage.budget = 0;
            let new = self.health.run_out(path.clone());
            if new {
                let soon = shortage.ended.is_some_and(|ended| now < ended + SOON);
                let pause = if soon { shortage.pause * 2 } else { LOOK_FIRST };
                shortage.pause = pause.min(LOOK_MAX);
                shortage.look_at = now + shortage.pause;
                shortage.since = now;
            }
            new
        };
        if new {
            self.counters.shortages.add(1);
            self.emit(Event::OutOfSpace { path: path.clone() });
            self.channel.wake_all();
            // A stop may last as long as the lack of space.
            self.gate.wake();
        }
        Error::NoSpace { path }
    }

    /// Whether to look for space. After [`Look::Now`] the caller must report the result
    /// ([`Self::looked`]).
    pub fn look(&self) -> Look {
        if !self.health.is_out_of_space() {
            return Look::Never;
        }
        let look_at = self.space.shortage.lock().look_at;
        if self.env.now() < look_at {
            return Look::At(look_at);
        }
        match self.space.looking.swap(true, Ordering::AcqRel) {
            true => Look::Never,
            false => Look::Now,
        }
    }

    /// Records that `free` bytes are free. Writes are accepted again if that is at least `wanted`,
    /// which is none while a part of the store still waits for space.
    pub fn looked(&self, free: u64, wanted: Option<u64>) {
        let now = self.env.now();
        let ended = {
            let mut shortage = self.space.shortage.lock();
            shortage.budget = free;
            if wanted.is_some_and(|wanted| free >= wanted) && self.health.resume() {
                shortage.ended = Some(now);
                Some(now.saturating_sub(shortage.since))
            } else {
                shortage.pause = (shortage.pause * 2).min(LOOK_MAX);
                shortage.look_at = now + shortage.pause;
                None
            }
        };
        self.space.looking.store(false, Ordering::Release);
        if let Some(after) = ended {
            self.emit(Event::SpaceReturned { after: Micros(after.as_micros() as u64) });
        }
    }

    /// The free bytes that the system reports; unlimited if it reports none.
    pub fn free_bytes(&self) -> u64 {
        self.env.fs().free_bytes(&self.dir).unwrap_or(u64::MAX)
    }

    /// The jobs for which there is space.
    pub fn affordable(&self, mut candidates: Vec<Arc<Candidate>>) -> Vec<Arc<Candidate>> {
        if self.health.is_out_of_space() {
            let budget = self.space.shortage.lock().budget;
            candidates.retain(|candidate| needs(candidate) <= budget);
        }
        candidates
    }

    /// Takes a job's share of the budget. Returns false if too little is left.
    pub fn afford(&self, candidate: &Candidate) -> bool {
        if !self.health.is_out_of_space() {
            return true;
        }
        let mut shortage = self.space.shortage.lock();
        let left = shortage.budget.checked_sub(needs(candidate));
        shortage.budget = left.unwrap_or(shortage.budget);
        left.is_some()
    }
}
