//! What a schedule and an admission answer. A decision carries its cause.
//! Plain values that the engine checks before it acts on them.

use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, JobId, Micros};

/// Which of the bytes that jobs move count towards a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Bytes written, as RocksDB's rate limiter counts them.
    #[default]
    Written,
    /// Bytes read and written.
    ReadAndWritten,
}

/// What all jobs together may take of the device. Flushes may take all of it, whatever other jobs
/// have taken.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bandwidth {
    /// All of them together, per second.
    pub limit: BytesPerSec,
    /// Jobs of the classes `Memtable` and `L0` together may take so much even where the limit is
    /// used up.
    pub floor: BytesPerSec,
    /// What counts.
    pub counted: Counted,
    /// Whether compactions take theirs in turn; else the more urgent class goes first.
    pub in_turn: bool,
    /// How often the limit is thought to be filled up, for `Counters::drained_refills`; zero for
    /// nothing to be counted.
    pub refill: Micros,
}

/// A schedule's answer, in force until the next one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grants {
    /// Candidates to start, as indices into the list the schedule was given, most urgent first.
    pub start: Vec<usize>,
    /// Jobs to cancel; their unfinished output is discarded. One that is already being installed
    /// cannot be cancelled any more; what conflicts with it is then not started.
    pub cancel: Vec<JobId>,
    /// Jobs that get nothing for now and keep what they hold.
    pub paused: Vec<JobId>,
    /// Limit on what jobs move; none for no limit.
    pub bandwidth: Option<Bandwidth>,
    /// Size at which memtables are sealed, where the schedule governs it (ADOC); at most that of
    /// the options.
    pub memtable_bytes: Option<Bytes>,
    /// When to ask again although nothing has happened. None while nothing runs: an idle store
    /// wakes nobody.
    pub again: Option<Micros>,
}

/// An admission's answer, in force until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Admit {
    /// Bytes of keys and values let in per second; none for no limit, zero for a stop.
    pub writes: Option<BytesPerSec>,
    /// Why writes are held back, when they are.
    pub cause: Option<WaitCause>,
    /// When to ask again although nothing has happened. None where nothing is written.
    pub again: Option<Micros>,
}

impl Admit {
    /// Everything is let in.
    pub const OPEN: Self = Self { writes: None, cause: None, again: None };

    /// Nothing is let in.
    #[must_use]
    pub fn stop(cause: WaitCause) -> Self {
        Self { writes: Some(BytesPerSec::ZERO), cause: Some(cause), again: None }
    }
}
