//! The memory of a running job: chunks that it reads, and output that is not written yet.
//!
//! The share of jobs (`budget`) is divided by all that may run at once. Within its part a job that
//! reads many runs reads less of each ahead.

use crate::budget::jobs_share;
use crate::job::merge::{READ_DEPTH, READ_LEN, READ_LEN_WANTED};
use crate::job::output::UNWRITTEN_MAX;
use crate::options::Options;
use vlsm_core::Bytes;

/// The sizes of a job's buffers.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    /// Bytes for the chunks of all runs.
    read: usize,
    /// The least bytes of a chunk: those of a block.
    least: usize,
    /// The number of runs that are read.
    runs: usize,
    /// Bytes of a chunk.
    pub read_len: usize,
    /// The number of chunks of a run that are read ahead.
    pub depth: usize,
    pub unwritten_max: usize,
}

impl Buffers {
    /// The buffers of one job: the share of jobs is divided by all concurrent compactions and a
    /// flush. Half of it is for chunks that are read, half for unwritten output.
    pub fn of(options: &Options, workers: usize) -> Self {
        let jobs = workers.max(options.policy.tree.compaction_jobs) as u64 + 1;
        let half = usize::try_from(jobs_share(options.memory_limit.0) / jobs / 2);
        let half = half.unwrap_or(usize::MAX);
        let least = options.block_bytes.0 as usize;
        let unwritten_max = half.clamp(64 << 10, UNWRITTEN_MAX);
        Self { read: half, least, runs: 0, read_len: least, depth: 1, unwritten_max }
    }

    /// Divides the bytes for reading among `runs` runs. If a chunk would be shorter than
    /// [`READ_LEN_WANTED`], fewer chunks are read ahead.
    pub fn read_by(&mut self, runs: usize) {
        let each = |depth: usize| self.read / (runs * (depth + 1)).max(1);
        let depth = if each(READ_DEPTH) < READ_LEN_WANTED { 1 } else { READ_DEPTH };
        // Only a few sizes, so that the allocator can reuse the memory.
        let len = (each(depth) + 1).next_power_of_two() / 2;
        self.read_len = len.min(READ_LEN).max(self.least);
        (self.runs, self.depth) = (runs, depth);
    }

    /// The most memory that the buffers take.
    pub fn bytes(self, bytes_in: Bytes) -> u64 {
        let most = self.runs * (self.depth + 1) * self.read_len + self.unwritten_max;
        (most as u64).min(bytes_in.0.saturating_mul(2))
    }
}
