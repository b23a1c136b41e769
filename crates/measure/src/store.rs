//! The interface of a store under measurement: an ordered key-value store with its counters.
//!
//! [`NullStore`] answers at once. A run over it measures the driver's own floor.

use crate::clock::{self, Clock};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use vlsm_policy::Counters;

/// The reason why an operation failed.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;
/// The result of an operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// A store under measurement. All operations may be called from many threads.
pub trait Store: Send + Sync {
    /// Sets a key.
    ///
    /// # Errors
    /// The store fails. The other operations return its failures, too.
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()>;

    /// Reads a key. Returns the length of its value.
    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>>;

    /// Removes a key.
    fn delete(&self, key: &[u8]) -> StoreResult<()>;

    /// Reads up to `limit` pairs in key order from `start` on. Returns their number.
    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize>;

    /// Does all writes of a transaction: atomically if the store can, else one after another.
    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        writes.iter().try_for_each(|write| match write {
            Write::Put(key, value) => self.put(key, value),
            Write::Delete(key) => self.delete(key),
        })
    }

    /// Flushes memory to the device and waits for background work to end. Returns false if it has
    /// not ended after `limit`, or if `give_up` returns true.
    fn settle(&self, limit: Duration, give_up: &dyn Fn() -> bool) -> StoreResult<bool>;

    /// The store's own counters.
    fn stats(&self) -> StoreStats;

    /// The store's current state. It is called often, so it must be cheap.
    fn look(&self) -> Look {
        Look { levels: self.stats().levels, ..Look::default() }
    }

    /// Background jobs that ended and chains that were seen since the last call, in seconds of this
    /// clock. Empty if the store does not report them.
    fn marks(&self, _clock: &Clock) -> Marks {
        Marks::default()
    }

    /// The names and values of its setup, for a report. Empty if the options of its specification
    /// are its whole setup.
    fn describe(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Closes it, so that its folder can be opened again, and returns its last counters: those
    /// before closing, with the bytes that the closing and running work still moved if the store
    /// can report them.
    fn close(self: Box<Self>) -> (StoreStats, StoreResult<()>) {
        (self.stats(), Ok(()))
    }
}

/// A background job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobMark {
    /// Seconds since the phase began; negative when it began before.
    pub start: f64,
    /// Seconds since the phase began.
    pub end: f64,
    /// `flush`, `compact`, `merge_within`, `trivial_move`.
    pub kind: String,
    /// The level it reads from; 0 for memtables and L0.
    pub from: u8,
    /// The level it writes to.
    pub to: u8,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// A compaction chain (vLSM (2024), §2.3).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ChainMark {
    /// Seconds since the phase began.
    pub at: f64,
    /// The level that each stage reads from, and the bytes of the stage.
    pub stages: Vec<(u8, u64)>,
    /// The seconds that a memtable waited for it; `None` if it only stood behind L0.
    pub waited: Option<f64>,
}

impl ChainMark {
    /// Bytes over all stages.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.stages.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// The background work that a store reports.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Marks {
    /// Jobs that ended.
    pub jobs: Vec<JobMark>,
    /// Chains that were seen.
    pub chains: Vec<ChainMark>,
}

impl Marks {
    /// Shifts all times by this many seconds.
    #[must_use]
    pub fn shifted(mut self, by: f64) -> Self {
        for job in &mut self.jobs {
            job.start += by;
            job.end += by;
        }
        self.chains.iter_mut().for_each(|chain| chain.at += by);
        self
    }
}

/// One write of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write<'a> {
    /// Sets a key to a value.
    Put(&'a [u8], &'a [u8]),
    /// Removes a key.
    Delete(&'a [u8]),
}

/// Bytes and files of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LevelStats {
    /// Tables.
    pub tables: u64,
    /// Bytes.
    pub bytes: u64,
    /// The target of its bytes, if it has one.
    pub target: Option<u64>,
    /// Tables that are good vSSTs by the number of SSTs that they overlap (vLSM (2024), §4.2).
    pub good_by_count: u64,
    /// Tables that are good vSSTs by the ratio of bytes.
    pub good_by_ratio: u64,
}

/// SSTs that jobs brought into L1 and took out of it (vLSM (2024), §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VsstStats {
    /// SSTs brought into L1.
    pub into: u64,
    /// Good vSSTs among `into`, by the number of SSTs that they overlap.
    pub good_by_count: u64,
    /// Good vSSTs among `into`, by the ratio of bytes.
    pub good_by_ratio: u64,
    /// SSTs taken out of L1.
    pub out: u64,
    /// Poor vSSTs among `out`, by the reading that the store uses.
    pub poor: u64,
}

impl VsstStats {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            into: self.into.saturating_sub(before.into),
            good_by_count: self.good_by_count.saturating_sub(before.good_by_count),
            good_by_ratio: self.good_by_ratio.saturating_sub(before.good_by_ratio),
            out: self.out.saturating_sub(before.out),
            poor: self.poor.saturating_sub(before.poor),
        }
    }
}

/// Waits of writes with one cause.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WaitStats {
    /// The cause.
    pub cause: String,
    /// The number of waits.
    pub count: u64,
    /// The time of all waits together, in microseconds.
    pub total_us: u64,
    /// The longest one since the store was opened, in microseconds.
    pub longest_us: u64,
}

/// Memory that a store counts towards its limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoreMemory {
    /// The limit.
    pub limit: u64,
    /// The largest memory since the opening.
    pub peak: u64,
    /// The largest memory of each kind, each at its own moment.
    pub peaks: Vec<(String, u64)>,
}

/// The state of a store at a moment.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// Its levels, L0 first.
    pub levels: Vec<LevelStats>,
    /// The counters of client operations and of its own work since it was opened, which its
    /// policies use; `None` if it has no such policies.
    pub counters: Option<Counters>,
    /// The state of its admission; `None` if it does not report it.
    pub admitted: Option<Admitted>,
    /// Its own estimate of the bytes that compaction still has to move; `None` if it has none.
    pub pending: Option<u64>,
}

/// The input and the decision of a store's admission at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Admitted {
    /// Share of the memory for memtables that is in use.
    pub fill: f64,
    /// Bytes per second that it lets in; `None` for no limit.
    pub limit: Option<f64>,
}

/// A store's own statistics. Counters count from its opening. A counter that a store lacks is zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreStats {
    /// Bytes written to the WAL.
    pub wal_bytes: u64,
    /// Syncs of the WAL.
    pub wal_syncs: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Bytes read by compactions.
    pub compaction_read: u64,
    /// Bytes written by compactions.
    pub compaction_written: u64,
    /// Bytes read from the device for gets and scans, and to open files.
    pub read_bytes: u64,
    /// Those of them that opened SSTs: indexes, filters and properties. Only our store counts them.
    pub open_bytes: u64,
    /// Other bytes written: manifests, zeros of new logs.
    pub other_written: u64,
    /// The most bytes that the system may count beyond those written: it counts a whole piece of
    /// its page cache even if only a few bytes of it were written.
    pub rounding: u64,
    /// Bytes that the page cache may have kept from the device, where the system counts: reads that
    /// it served, and writes that were overwritten before a sync.
    pub cached: u64,
    /// Compactions out of L0.
    pub l0_compactions: u64,
    /// The number of memtables that waited for a compaction chain.
    pub chains: u64,
    /// Stages of the longest chain since the opening.
    pub chain_length: u64,
    /// Bytes of the widest chain since the opening.
    pub chain_width: u64,
    /// Bytes of all chains together.
    pub chain_bytes: u64,
    /// Longest time that a memtable waited for its chain since the opening, in microseconds.
    pub chain_waited_us: u64,
    /// Stages of the longest chain that stood behind L0 when a flush began, since the opening.
    pub standing_length: u64,
    /// Bytes of the widest such chain.
    pub standing_width: u64,
    /// Bytes of all such chains together.
    pub standing_bytes: u64,
    /// The number of such chains: one per flush.
    pub standing_count: u64,
    /// Bytes into the widest compaction since the opening.
    pub widest_job: u64,
    /// SSTs into and out of L1.
    pub vssts: VsstStats,
    /// Waits of writes by cause.
    pub waits: Vec<WaitStats>,
    /// Levels, L0 first.
    pub levels: Vec<LevelStats>,
    /// Bytes of all files of the store.
    pub disk_bytes: u64,
    /// Its memory.
    pub memory: StoreMemory,
}

impl StoreStats {
    /// The counters of bytes.
    fn bytes(&mut self) -> [&mut u64; 9] {
        [
            &mut self.wal_bytes,
            &mut self.flush_bytes,
            &mut self.compaction_read,
            &mut self.compaction_written,
            &mut self.read_bytes,
            &mut self.open_bytes,
            &mut self.other_written,
            &mut self.rounding,
            &mut self.cached,
        ]
    }

    /// Combines the counters of bytes with those of another; everything else stays.
    fn combined(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        let (mut combined, mut other) = (self.clone(), other.clone());
        for (bytes, other) in combined.bytes().into_iter().zip(other.bytes()) {
            *bytes = combine(*bytes, *other);
        }
        combined
    }

    /// The counts since `before`: counters are subtracted; levels, file bytes and maxima stay.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.combined(before, u64::saturating_sub);
        since.wal_syncs = self.wal_syncs.saturating_sub(before.wal_syncs);
        since.l0_compactions = self.l0_compactions.saturating_sub(before.l0_compactions);
        since.chains = self.chains.saturating_sub(before.chains);
        since.chain_bytes = self.chain_bytes.saturating_sub(before.chain_bytes);
        since.vssts = self.vssts.since(&before.vssts);
        for wait in &mut since.waits {
            if let Some(old) = before.waits.iter().find(|old| old.cause == wait.cause) {
                wait.count = wait.count.saturating_sub(old.count);
                wait.total_us = wait.total_us.saturating_sub(old.total_us);
            }
        }
        since
    }

    /// Adds the byte counters of an earlier opening of the same store.
    #[must_use]
    pub fn plus(&self, earlier: &Self) -> Self {
        self.combined(earlier, |bytes, earlier| bytes + earlier)
    }

    /// Takes the byte counters of a later moment; everything else stays.
    #[must_use]
    pub fn with_bytes_of(&self, later: &Self) -> Self {
        self.combined(later, |_, later| later)
    }

    /// All bytes the store says it wrote to files.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.wal_bytes + self.flush_bytes + self.compaction_written + self.other_written
    }

    /// All bytes the store says it read from files.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.compaction_read + self.read_bytes
    }
}

/// A store that does nothing and answers at once, or after a fixed time.
#[derive(Debug, Clone, Copy, Default)]
pub struct NullStore {
    /// The time that each operation sleeps.
    pub delay: Duration,
}

impl NullStore {
    fn answer<T>(&self, answer: T) -> StoreResult<T> {
        if !self.delay.is_zero() {
            clock::sleep(self.delay);
        }
        Ok(answer)
    }
}

impl Store for NullStore {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        std::hint::black_box((key, value));
        self.answer(())
    }

    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>> {
        std::hint::black_box(key);
        self.answer(Some(0))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        std::hint::black_box(key);
        self.answer(())
    }

    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize> {
        std::hint::black_box(start);
        self.answer(limit)
    }

    fn settle(&self, _limit: Duration, _give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        Ok(true)
    }

    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}
