//! The running jobs: the work of each, and its progress. Cancelled jobs are omitted, because they
//! have no result.

use crate::engine::Engine;
use serde::{Deserialize, Serialize};
use vlsm_core::ByteCount;
use vlsm_core::event::JobKind;
use vlsm_policy::{Class, Running};

/// A flush or a compaction that is running at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobStats {
    /// The name of the keyspace; empty if the keyspace was just dropped.
    pub keyspace: String,
    /// A flush, a merge or a move.
    pub kind: JobKind,
    /// The level in which the job makes room; none if it makes room for memtables.
    pub from: Option<u8>,
    /// The level into which the job writes.
    pub to: u8,
    /// Bytes that the job is expected to read in all.
    pub bytes: ByteCount,
    /// Bytes that the job has merged.
    pub done: ByteCount,
    /// Whether the schedule has paused the job.
    pub paused: bool,
}

/// All running jobs, the oldest first.
pub(super) fn jobs(engine: &Engine) -> Vec<JobStats> {
    let running = engine.control.state().running();
    let stats = |job: &Running| {
        let candidate = &job.candidate;
        let owner = engine.catalog.owner(candidate.tree);
        JobStats {
            keyspace: owner.map(|info| info.name()).unwrap_or_default(),
            kind: candidate.kind,
            from: (candidate.frees != Class::Memtable).then(|| candidate.frees.level()),
            to: candidate.output_level,
            bytes: candidate.bytes_in,
            done: job.done.min(candidate.bytes_in),
            paused: job.paused_since.is_some(),
        }
    };
    running.iter().map(stats).collect()
}
