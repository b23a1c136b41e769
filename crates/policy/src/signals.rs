//! The engine's observations, as plain values.
//!
//! Counters are cumulative since the store was opened: each policy chooses its own window for
//! differences.

use crate::candidate::Candidate;
use crate::device::DeviceMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vlsm_core::{Bytes, JobId, KeyRange, MemtableId, Micros, Seq, TreeId};

/// A sealed memtable, as a shape sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct MemtableFacts {
    /// Its identity; larger is newer.
    pub id: MemtableId,
    /// Bytes of its entries.
    pub bytes: Bytes,
    /// Its keys; none when it is empty.
    pub range: Option<KeyRange>,
    /// Largest sequence number in it.
    pub seq_max: Seq,
    /// Whether all its writers have finished and its largest sequence number is published. Only
    /// then may a job read it.
    pub ready: bool,
    /// Whether its flush is wanted: a flush was requested, or memory or the WAL is at its limit.
    pub wanted: bool,
}

/// The facts of a tree that a shape needs besides its version.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TreeFacts {
    /// The tree that the facts are about.
    pub tree: TreeId,
    /// The time.
    pub now: Micros,
    /// Sealed memtables, oldest first.
    pub memtables: Vec<MemtableFacts>,
    /// Size at which memtables are sealed at the moment.
    pub memtable_bytes: Bytes,
}

impl TreeFacts {
    /// Whether memtables must be flushed by a shape that gathers this many first.
    #[must_use]
    pub fn is_due(&self, gathered: usize) -> bool {
        let mut ready = self.memtables.iter().take_while(|memtable| memtable.ready);
        ready.clone().count() >= gathered || ready.any(|memtable| memtable.wanted)
    }
}

/// The fill of one level.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LevelPressure {
    /// The level, 1 or deeper.
    pub level: u8,
    /// Its visible bytes.
    pub bytes: Bytes,
    /// Its target; none for the last level, which has none.
    pub target: Option<Bytes>,
    /// Bytes beyond the target.
    pub debt: Bytes,
}

/// How close a tree is to its bounds, according to its shape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pressure {
    /// Runs in L0.
    pub l0_runs: usize,
    /// Runs that a flush wrote.
    pub l0_flushed: usize,
    /// Bytes in L0.
    pub l0_bytes: Bytes,
    /// Each level below L0.
    pub levels: Vec<LevelPressure>,
    /// Bytes over all levels that compaction owes.
    pub debt: Bytes,
    /// Progress towards slowing writes down, by the trigger nearest to its bound; 1.0 is at the
    /// bound.
    pub slowdown: f64,
    /// Progress towards stopping writes; 1.0 is at the bound.
    pub stop: f64,
    /// Whether the trigger nearest to its bound is L0 (else it is debt).
    pub by_l0: bool,
}

/// The stages that a flush would have to wait for if L0 were full at this moment, L0 first.
///
/// A compaction chain (vLSM (2024), §3): its length is the number of stages, its width the bytes
/// of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Level and bytes of each stage.
    pub stages: Vec<(u8, Bytes)>,
}

/// A job under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    /// The job.
    pub job: JobId,
    /// The candidate that it was started from: its kind, inputs and output level.
    pub candidate: Arc<Candidate>,
    /// Input bytes merged so far.
    pub done: Bytes,
    /// Input bytes left.
    pub left: Bytes,
    /// The time at which it was paused; none if it is not paused.
    pub paused_since: Option<Micros>,
    /// Its result is being installed: it ends soon, and cannot be cancelled any more.
    pub installing: bool,
}

impl Running {
    /// Bytes of its memtables that it has merged so far.
    #[must_use]
    pub fn merged_memory(&self) -> Bytes {
        let candidate = &self.candidate;
        let memory = candidate.bytes_in.saturating_sub(candidate.inputs.table_bytes());
        if candidate.inputs.memtables.is_empty() || memory == Bytes::ZERO {
            return Bytes::ZERO;
        }
        let share = self.done.as_f64() / (self.done + self.left).as_f64().max(1.0);
        Bytes((memory.as_f64() * share) as u64)
    }
}

/// Counters since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Write operations admitted.
    pub writes: u64,
    /// Bytes of keys and values admitted.
    pub write_bytes: Bytes,
    /// Point reads.
    pub gets: u64,
    /// Iterators positioned.
    pub scans: u64,
    /// Bytes on the device of blocks read into the block cache.
    pub cache_miss_bytes: Bytes,
    /// Bytes that jobs read.
    pub job_read_bytes: Bytes,
    /// Bytes that jobs wrote.
    pub job_written_bytes: Bytes,
    /// Spans of time (`Bandwidth::span`) in which a job waited because the limit was used up.
    pub waited_spans: u64,
    /// Writers waiting at the moment (not cumulative).
    pub waiting_writers: u64,
    /// Writers that wait for a memtable or for memory at the moment.
    pub stopped_writers: u64,
}

/// The memtables of the store, or of one tree.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MemtableSignals {
    /// Bytes in active memtables.
    pub active: Bytes,
    /// Bytes in sealed memtables.
    pub immutable: Bytes,
    /// Number of sealed memtables.
    pub immutable_count: usize,
    /// Bytes of all memtables that may exist.
    pub capacity: Bytes,
    /// Bytes in memtables that no running job has merged yet, of the tree that has the most.
    pub unmerged: Bytes,
}

impl MemtableSignals {
    /// Share of the capacity in use, 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        match self.capacity.0 {
            0 => 0.0,
            capacity => (self.active + self.immutable).as_f64() / capacity as f64,
        }
    }
}

/// Everything that a schedule or an admission may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals {
    /// The time.
    pub now: Micros,
    /// Worker threads.
    pub workers: usize,
    /// Cumulative counters.
    pub counters: Counters,
    /// Memtables.
    pub memtables: MemtableSignals,
    /// The throughput of the device, as far as it was measured.
    pub device: Arc<DeviceMap>,
    /// Pressure of each tree that is not idle.
    pub pressure: Vec<(TreeId, Arc<Pressure>)>,
}
