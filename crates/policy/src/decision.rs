//! The answers of a schedule and an admission. A decision carries its cause. These are plain
//! values, which the engine checks before it acts on them.

use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, JobId, Micros};

/// The bytes of jobs that count towards a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Bytes written, as RocksDB's rate limiter counts them.
    #[default]
    Written,
    /// Bytes read and written.
    ReadAndWritten,
}

/// The bandwidth of all jobs together. Flushes may use all of it, regardless of other jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bandwidth {
    /// The bytes per second that all jobs together may move, as `counted` counts them.
    pub limit: BytesPerSec,
    /// The rate of all jobs of the classes `Memtable` and `L0` when the limit is used up.
    pub floor: BytesPerSec,
    /// The bytes that use up the limit.
    pub counted: Counted,
    /// Whether compactions take theirs in turn; else the more urgent class goes first.
    pub in_turn: bool,
    /// The length of the spans that `Counters::waited_spans` counts; zero for no count.
    pub span: Micros,
}

/// The order of jobs' file calls on the device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOrder {
    /// Jobs whose calls go first. A write of another job also waits while a write of theirs is
    /// under way.
    pub first: Vec<JobId>,
    /// The longest time that such a write waits.
    pub patience: Micros,
}

/// A schedule's answer, in force until the next one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grants {
    /// Candidates to start, as indices into the list the schedule was given, most urgent first.
    pub start: Vec<usize>,
    /// Jobs to cancel; their unfinished output is discarded. A job that is already being installed
    /// cannot be cancelled any more; candidates that conflict with it are then not started.
    pub cancel: Vec<JobId>,
    /// Jobs that are paused and keep their reservations.
    pub paused: Vec<JobId>,
    /// The order of jobs' file calls; none to make them as they come.
    pub order: Option<CallOrder>,
    /// Limit on the bytes that jobs move; none for no limit.
    pub bandwidth: Option<Bandwidth>,
    /// Size at which memtables are sealed, where the schedule governs it (ADOC); at most that of
    /// the options.
    pub memtable_bytes: Option<Bytes>,
    /// The time of the next decision without an event. None while nothing runs: an idle store wakes
    /// no worker.
    pub again: Option<Micros>,
}

/// An admission's answer, in force until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Admit {
    /// Bytes of keys and values let in per second; none for no limit, zero for a stop.
    pub writes: Option<BytesPerSec>,
    /// Where reads are limited together with writes, the bytes that a read counts as. None if reads
    /// are not limited.
    pub reads: Option<Bytes>,
    /// The cause of the limit or stop, if there is one.
    pub cause: Option<WaitCause>,
    /// The time of the next decision without an event. None while nothing is written.
    pub again: Option<Micros>,
}

impl Admit {
    /// Everything is let in.
    pub const OPEN: Self = Self { writes: None, reads: None, cause: None, again: None };

    /// Nothing is let in.
    #[must_use]
    pub fn stop(cause: WaitCause) -> Self {
        Self { writes: Some(BytesPerSec::ZERO), cause: Some(cause), ..Self::OPEN }
    }
}
