//! Counters since the store was opened. Each is a relaxed atomic, beside counters that the same
//! code uses; those of reads are striped. The control tick and `stats()` read them.

use crate::shared::attribution::Attribution;
use crate::shared::latency::{Histogram, Latencies};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vlsm_core::Striped;
use vlsm_core::event::{JobKind, WaitCause};
use vlsm_core::version::LEVELS_MAX;

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds without an atomic addition, for callers whose lock lets only one thread add at a time.
    #[inline]
    pub fn bump(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The work of the jobs that make room in one level.
#[derive(Debug, Default)]
pub(crate) struct LevelCounter {
    pub jobs: Counter,
    pub moves: Counter,
    pub read: Counter,
    pub written: Counter,
    pub entries_in: Counter,
    pub entries_dropped: Counter,
    pub ssts_in: Counter,
    pub poor_in: Counter,
    pub ssts_out: Counter,
    pub good_out_by_count: Counter,
    pub good_out_by_ratio: Counter,
    pub paused: Counter,
    pub cancelled: Counter,
    pub wasted: Counter,
    /// Input bytes of the widest single job.
    pub widest: AtomicU64,
}

/// The counters of reads.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    pub gets: Counter,
    pub memtable_hits: Counter,
    pub scans: Counter,
    pub filter_checks: Counter,
    pub filter_negatives: Counter,
    pub filter_false_positives: Counter,
}

/// All counters of the engine.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub writes: Counter,
    pub write_bytes: Counter,
    pub batches: Counter,
    /// Transactions that committed writes, and transactions that failed with a conflict.
    pub transactions: Counter,
    pub conflicts: Counter,
    pub waiting_writers: Counter,
    /// Writers among `waiting_writers` that wait until a job frees a memtable or a WAL file.
    pub stopped_writers: Counter,
    pub reads: Striped<ReadCounters>,
    pub wal_bytes: Counter,
    pub wal_mapped_bytes: Counter,
    pub wal_ready_bytes: Counter,
    pub wal_filled_bytes: Counter,
    pub wal_lengthened_bytes: Counter,
    /// Bytes written to the reserve.
    pub reserve_bytes: Counter,
    pub wal_writes: Counter,
    pub wal_syncs: Counter,
    /// Syncs of the WAL that a caller waits for.
    pub awaited_syncs: Counter,
    pub manifest_bytes: Counter,
    pub installs: Counter,
    pub rotations: Counter,
    /// Hot keys that flushes left in memory, and the bytes of these entries.
    pub kept: Counter,
    pub kept_bytes: Counter,
    /// Values that flushes left in the WAL, and their bytes.
    pub logged_values: Counter,
    pub logged_bytes: Counter,
    pub shape_asks: Counter,
    pub shortages: Counter,
    /// Index 0 is for flushes; index n is for compactions from level n - 1 (so index 1 is for those
    /// out of L0, or out of memory if memtables are merged into L1).
    pub levels: [LevelCounter; LEVELS_MAX + 2],
    /// The waits by cause.
    pub waits: [Histogram; WaitCause::ALL.len()],
    /// The waits by tree and cause.
    pub attribution: Attribution,
    /// The latencies of operations.
    pub latencies: Latencies,
}

impl Counters {
    /// The sum of a counter of reads.
    pub fn sum_of_reads(&self, counter: fn(&ReadCounters) -> &Counter) -> u64 {
        self.reads.iter().map(|reads| counter(reads).get()).sum()
    }

    /// The counter of a job's source: flush, L0, L1 and so on.
    pub fn level(&self, kind: JobKind, from: u8) -> &LevelCounter {
        match kind {
            JobKind::Flush => &self.levels[0],
            _ => &self.levels[(usize::from(from) + 1).min(LEVELS_MAX + 1)],
        }
    }

    /// Counts a wait of a write or read.
    pub fn waited(&self, cause: WaitCause, took: Duration) {
        self.waits[cause as usize].add(took);
    }

    /// Bytes that jobs have read and written.
    pub fn job_bytes(&self) -> (u64, u64) {
        let sum =
            |field: fn(&LevelCounter) -> &Counter| self.levels.iter().map(|l| field(l).get()).sum();
        (sum(|level| &level.read), sum(|level| &level.written))
    }
}
