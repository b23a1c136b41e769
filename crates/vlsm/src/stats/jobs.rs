//! The jobs under way: what each does, and how far it is. Cancelled ones are left out, because
//! nothing more comes of them.

use crate::engine::Engine;
use serde::{Deserialize, Serialize};
use vlsm_core::ByteCount;
use vlsm_core::event::JobKind;
use vlsm_policy::{Class, Running};

/// A flush or a compaction that is under way at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobStats {
    /// The name of the keyspace; empty if it was just dropped.
    pub keyspace: String,
    /// A flush, a merge or a move.
    pub kind: JobKind,
    /// The level that it makes room in; none for memtables.
    pub from: Option<u8>,
    /// The level that it writes into.
    pub to: u8,
    /// Bytes that it reads in all, as it expects.
    pub bytes: ByteCount,
    /// Bytes that it has merged.
    pub done: ByteCount,
    /// Whether the schedule has paused it.
    pub paused: bool,
}

/// All jobs, those under way for longest first.
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
