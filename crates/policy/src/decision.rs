//! What a schedule and an admission answer. A decision carries its cause.
//! Plain values that the engine checks before it acts on them.

use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, JobId};

/// How much a running job may do until the next decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// As much as it can.
    #[default]
    Unlimited,
    /// Nothing: it is paused and keeps its reservation.
    Paused,
    /// At most this many bytes of merge work.
    Upto(Bytes),
}

/// A schedule's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grants {
    /// Candidates to start, as indices into the list the schedule was given, most urgent first.
    pub start: Vec<usize>,
    /// Jobs to cancel; their unfinished output is discarded.
    pub cancel: Vec<JobId>,
    /// Shares of running jobs. A job not named here is unlimited.
    pub shares: Vec<(JobId, Share)>,
    /// Limit on what jobs read and write together; none for no limit.
    pub background_limit: Option<BytesPerSec>,
    /// Number of workers, where the schedule governs it (ADOC).
    pub workers: Option<usize>,
    /// Size of the next memtables, where the schedule governs it (ADOC).
    pub memtable_bytes: Option<Bytes>,
}

/// An admission's answer, in force until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Admit {
    /// Bytes of keys and values let in per second; none for no limit, zero for a stop.
    pub writes: Option<BytesPerSec>,
    /// Why writes are held back, when they are.
    pub cause: Option<WaitCause>,
}

impl Admit {
    /// Everything is let in.
    pub const OPEN: Self = Self { writes: None, cause: None };

    /// Nothing is let in.
    #[must_use]
    pub fn stop(cause: WaitCause) -> Self {
        Self { writes: Some(BytesPerSec::ZERO), cause: Some(cause) }
    }
}
