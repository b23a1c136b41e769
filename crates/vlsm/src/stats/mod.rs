//! The counters and measurements of a store since it was opened, as one value to print or to write
//! as JSON.
//!
//! [`trees`] counts the trees, [`families`] turns the values into a list of metrics, and
//! [`prometheus`] writes these as text.

#[cfg(feature = "metrics")]
mod facade;
mod families;
mod jobs;
mod prometheus;
mod trees;

use crate::control::chain::ChainSummary;
use crate::engine::Engine;
use crate::read::view::StoreView;
use crate::shared::Shared;
use crate::shared::counters::Counters;
use crate::shared::latency::{LatencyStats, Timed};
use crate::shared::memory::MemoryStats;
pub use jobs::JobStats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use trees::Trees;
use vlsm_core::event::WaitCause;
use vlsm_core::{ByteCount, BytesPerSec, Micros};
use vlsm_disk::Way;

/// The waits for one cause: those of writes, and those of reads if the admission limits reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitStats {
    /// The cause.
    pub cause: WaitCause,
    /// The number of waits.
    pub count: u64,
    /// The sum of the waits.
    pub total: Micros,
    /// The longest wait.
    pub longest: Micros,
    /// The distribution of all these waits.
    #[serde(default)]
    pub latency: LatencyStats,
}

/// The latencies of successful operations, as their callers saw them: from the call to its return,
/// including all waits.
///
/// Only a random sample of the operations is measured, because a measurement costs a third of the
/// time of a get in memory. The sampling rates below are averages. So the longest operation of all
/// may be missing; [`Stats::waits`] has every wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latencies {
    /// Point reads of one key; one of 64 is measured.
    pub get: LatencyStats,
    /// Calls of `multi_get`, with any number of keys; one of 16 is measured.
    #[serde(default)]
    pub multi_get: LatencyStats,
    /// Writes: batches, single writes, and the writes that transactions commit; one of 64 is
    /// measured.
    pub write: LatencyStats,
    /// Starts of scans: an iterator positions itself in the tree and finds its first pair. One of
    /// 64 is measured. An iterator starts again at each end from which it is used, after a seek, at
    /// the next region, and after the engine has released the state that it was reading.
    pub seek: LatencyStats,
    /// Commits of transactions, including their checks; one of 16 is measured.
    pub transaction: LatencyStats,
}

/// The work of the jobs that make room in one level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkStats {
    /// Finished jobs, moves included.
    pub jobs: u64,
    /// Jobs that only moved tables.
    pub moves: u64,
    /// Bytes read from SSTs, including those of running jobs.
    pub read: ByteCount,
    /// Bytes written to SSTs, including those of running and cancelled jobs.
    pub written: ByteCount,
    /// Entries merged.
    pub entries_in: u64,
    /// Entries dropped: shadowed entries, and tombstones with nothing below them.
    pub entries_dropped: u64,
    /// Input bytes of the widest single job.
    pub widest: ByteCount,
    /// SSTs that jobs took out of this level, including moved ones.
    pub ssts_in: u64,
    /// Poor vSSTs among `ssts_in`: vSSTs that overlap too much of the next level. The shape `vlsm`
    /// adds them to a job when there are too few good ones.
    pub poor_in: u64,
    /// SSTs that jobs wrote or moved into L1. For jobs into other levels it is 0.
    pub ssts_out: u64,
    /// Good vSSTs among `ssts_out`, graded by the number of overlapped SSTs.
    pub good_out_by_count: u64,
    /// Good vSSTs among `ssts_out`, graded by the ratio of bytes.
    pub good_out_by_ratio: u64,
    /// The number of times that a schedule paused a job.
    pub paused: u64,
    /// Jobs without a result: cancelled by the schedule, or failed.
    pub cancelled: u64,
    /// Bytes that these jobs had written.
    pub wasted: ByteCount,
}

/// One level at this moment, summed over trees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelStats {
    /// The level; 0 is L0.
    pub level: u8,
    /// Runs in L0. For a deeper level, the number of trees with tables in it.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Visible bytes.
    pub bytes: ByteCount,
    /// Target size, summed over these trees; none for L0 and the last level.
    pub target: Option<ByteCount>,
    /// Tables that are good vSSTs, graded by the number of overlapped SSTs ("vLSM: Low tail latency
    /// and I/O amplification in LSM-based KV stores", 2024, §4.2).
    pub good_by_count: u64,
    /// Tables that are good vSSTs, graded by the ratio of bytes.
    pub good_by_ratio: u64,
}

/// One keyspace at this moment, summed over its regions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// The name of the keyspace.
    pub name: String,
    /// The number of its regions.
    pub regions: u64,
    /// Its levels; L0 is always present.
    pub levels: Vec<LevelStats>,
    /// Bytes in its memtables, including the sealed ones.
    pub memtable_bytes: ByteCount,
    /// Memtables that wait for their flush.
    pub sealed_memtables: u64,
    /// Entries in SSTs, including shadowed entries and tombstones.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Bytes that compactions have to merge until all levels are within their bounds.
    pub debt: ByteCount,
    /// The waits of writes into the keyspace, without causes that never occurred. A batch over
    /// several keyspaces counts for the first one. Waits for the WAL, which all keyspaces share,
    /// are only in [`Stats::waits`].
    #[serde(default)]
    pub waits: Vec<KeyspaceWait>,
    /// The compaction chains for which its memtables waited.
    #[serde(default)]
    pub chains: ChainSummary,
}

/// The waits of writes into one keyspace for one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeyspaceWait {
    /// The cause.
    pub cause: WaitCause,
    /// The number of waits.
    pub count: u64,
    /// The sum of the waits.
    pub total: Micros,
}

impl KeyspaceStats {
    /// Bytes in SSTs.
    #[must_use]
    pub fn sst_bytes(&self) -> ByteCount {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// The number of SSTs and of slices of SSTs.
    #[must_use]
    pub fn ssts(&self) -> u64 {
        self.levels.iter().map(|level| level.tables).sum()
    }
}

/// The snapshots that are held at this moment, including those of iterators and transactions.
///
/// A snapshot keeps the versions that it shows, so compactions cannot drop them. A count that only
/// grows, or an age of hours, usually means that the application forgot to drop a handle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotStats {
    /// The number of snapshots. Clones of a [`Snapshot`](crate::Snapshot) count once.
    pub count: u64,
    /// The age of the oldest snapshot; none without snapshots. For an iterator without a snapshot
    /// the age is counted from the first reading of the statistics.
    pub oldest: Option<Micros>,
}

/// The files of a store at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileStats {
    /// SSTs in the trees. They may be fewer than the tables, because several tables may be slices
    /// of one file.
    pub ssts: u64,
    /// Their length.
    pub sst_bytes: ByteCount,
    /// SSTs among them that are open: their index and filter are in memory.
    pub open_ssts: u64,
    /// WAL files that may hold writes that are in no SST yet, including the current file.
    pub wals: u64,
    /// Their length.
    pub wal_bytes: ByteCount,
    /// SSTs that left the trees and that readers still use: iterators, snapshots over a compaction
    /// filter, running gets. [`Stats::zombie_files`] also counts files that wait for their removal.
    pub pinned: u64,
    /// Their length: the space that would be free without those readers.
    pub pinned_bytes: ByteCount,
}

/// Counters and measurements of a store since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// Time since the environment was created.
    pub at: Micros,
    /// Keys written.
    pub writes: u64,
    /// Batches written.
    pub batches: u64,
    /// Transactions that committed writes.
    #[serde(default)]
    pub transactions: u64,
    /// Commits of transactions that failed with a conflict.
    #[serde(default)]
    pub conflicts: u64,
    /// Bytes admitted, in the WAL's encoding: keys, values and a few bytes for each.
    pub write_bytes: ByteCount,
    /// Point reads.
    pub gets: u64,
    /// Point reads answered by a memtable.
    pub memtable_hits: u64,
    /// Iterators created.
    pub scans: u64,
    /// Filters checked.
    pub filter_checks: u64,
    /// Filter checks that saved a read.
    pub filter_negatives: u64,
    /// Filter checks that saved no read although the key was absent.
    pub filter_false_positives: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks read into the cache.
    pub cache_misses: u64,
    /// Bytes of the blocks read into the cache.
    pub cache_miss_bytes: ByteCount,
    /// Blocks that compactions wrote in place of cached ones, and that the cache kept.
    pub cache_rewrites: u64,
    /// The option `memory_limit`.
    pub memory_limit: ByteCount,
    /// Memory by kind.
    pub memory: MemoryStats,
    /// The peak of each kind of memory, each at its own moment.
    pub memory_peaks: MemoryStats,
    /// The peak of all kinds together.
    pub memory_peak: ByteCount,
    /// The size at which memtables are sealed at this moment: that of the options, or a smaller
    /// size that the schedule sets.
    #[serde(default)]
    pub memtable_bytes: ByteCount,
    /// The used share of memtable memory in the fullest tree, as the admission sees it.
    pub memtable_fill: f64,
    /// Bytes per second that the admission allows; none without a limit.
    pub write_limit: Option<BytesPerSec>,
    /// The limit on the bytes per second that jobs read. It leaves clients their share of a slow
    /// device. None without a limit.
    pub job_read_limit: Option<BytesPerSec>,
    /// The limit on the bytes per second that compactions write, for the same reason. None without
    /// a limit.
    pub job_write_limit: Option<BytesPerSec>,
    /// Bytes written to the WAL.
    pub wal_bytes: ByteCount,
    /// The part of `wal_bytes` that was copied into the mapped memory of the files, without a
    /// system call.
    pub wal_mapped_bytes: ByteCount,
    /// Bytes of WAL files that were brought into memory, ready to be written there. The system
    /// counts them as written at that moment, not when records are copied into them.
    pub wal_ready_bytes: ByteCount,
    /// Bytes of WAL headers, and of zeros that extend WAL files. A recycled file is extended only
    /// if it is too short.
    pub wal_filled_bytes: ByteCount,
    /// The part of those zeros that extended the current file. They may be overwritten before they
    /// reach the device; it then sees one write instead of two.
    pub wal_lengthened_bytes: ByteCount,
    /// Bytes written to the reserve, the space that allows opening the store on a full device.
    pub reserve_bytes: ByteCount,
    /// Groups of records written to the WAL, each by one system call or one copy.
    pub wal_writes: u64,
    /// Syncs of the WAL.
    pub wal_syncs: u64,
    /// Bytes written to the manifest.
    pub manifest_bytes: ByteCount,
    /// Bytes written to the readable LOG.
    pub log_bytes: ByteCount,
    /// Bytes of indexes, filters and properties that were read to open SSTs. Jobs hand over those
    /// of new SSTs, as far as memory has room.
    pub open_bytes: ByteCount,
    /// Edits installed.
    pub installs: u64,
    /// Memtables sealed.
    pub rotations: u64,
    /// Hot keys that flushes left in memory (option `hot_keys` of `triad`).
    #[serde(default)]
    pub kept_keys: u64,
    /// The bytes of these keys and their values, which were written to the WAL once more.
    #[serde(default)]
    pub kept_bytes: ByteCount,
    /// Values that flushes left in the WAL (option `log_values` of `triad`).
    #[serde(default)]
    pub logged_values: u64,
    /// The bytes of these values.
    #[serde(default)]
    pub logged_bytes: ByteCount,
    /// The number of times that the shape was evaluated for a tree. Idle trees are skipped.
    pub shape_asks: u64,
    /// The latencies of reads and writes.
    #[serde(default)]
    pub latencies: Latencies,
    /// Waits by cause, without causes that never occurred.
    pub waits: Vec<WaitStats>,
    /// Flushes.
    pub flush: WorkStats,
    /// Compactions by source level. Index 0 is L0, or the memtables if they are merged into L1.
    /// Trailing levels without work are omitted.
    pub compactions: Vec<WorkStats>,
    /// The levels at this moment.
    pub levels: Vec<LevelStats>,
    /// The keyspaces at this moment, in the order in which they were created.
    #[serde(default)]
    pub keyspaces: Vec<KeyspaceStats>,
    /// The jobs running at this moment, the oldest first.
    #[serde(default)]
    pub jobs: Vec<JobStats>,
    /// The snapshots that are held at this moment.
    #[serde(default)]
    pub snapshots: SnapshotStats,
    /// The files at this moment.
    #[serde(default)]
    pub files: FileStats,
    /// The compaction chains for which memtables or writers waited.
    pub chains: ChainSummary,
    /// The compaction chains that stood behind L0, one for each flush.
    pub standing_chains: ChainSummary,
    /// Files that left the trees and are still in use or not yet removed.
    pub zombie_files: u64,
    /// The part of these files that the file system failed to remove.
    #[serde(default)]
    pub stuck_files: u64,
    /// Panics of merge operators, compaction filters and the listener that were caught.
    #[serde(default)]
    pub callback_panics: u64,
    /// Whether writes are refused at this moment because the device is full.
    pub out_of_space: bool,
    /// The number of times that the device became full.
    pub shortages: u64,
    /// The failure that made the store read-only. None without such a failure, also if the store
    /// was opened read-only.
    pub read_only: Option<String>,
}

impl Stats {
    /// Bytes written to SSTs, WAL (including the zeros of new files), manifest, `LOG` and reserve.
    #[must_use]
    pub fn bytes_written(&self) -> ByteCount {
        let compactions: ByteCount = self.compactions.iter().map(|work| work.written).sum();
        let log = self.wal_bytes + self.wal_filled_bytes + self.manifest_bytes;
        self.flush.written + compactions + log + self.log_bytes + self.reserve_bytes
    }

    /// Bytes that jobs and readers read from SSTs.
    #[must_use]
    pub fn bytes_read(&self) -> ByteCount {
        let compactions: ByteCount = self.compactions.iter().map(|work| work.read).sum();
        self.flush.read + compactions + self.cache_miss_bytes + self.open_bytes
    }

    /// Bytes written to SSTs by flushes and compactions, per byte admitted. The WAL is not counted.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let compactions: ByteCount = self.compactions.iter().map(|work| work.written).sum();
        (self.flush.written + compactions).as_f64() / self.write_bytes.as_f64().max(1.0)
    }

    /// The longest single wait of a write, for any cause.
    #[must_use]
    pub fn longest_wait(&self) -> Micros {
        self.waits.iter().map(|wait| wait.longest).max().unwrap_or_default()
    }
}

/// Collects all counters and the present state of the trees.
pub(crate) fn stats(engine: &Engine) -> Stats {
    let Engine { shared, reader, installer, control, .. } = engine;
    let counters = &shared.counters;
    let (cache, view) = (reader.tables().cache().counters(), reader.views().load_full());
    let trees = Trees::of(engine, &view);
    let (memory, peak) = shared.memory.stats_and_peak();
    let (chains, standing_chains) = control.state().chains.both();
    Stats {
        at: shared.now_micros(),
        writes: counters.writes.get(),
        batches: counters.batches.get(),
        transactions: counters.transactions.get(),
        conflicts: counters.conflicts.get(),
        write_bytes: ByteCount(counters.write_bytes.get()),
        gets: counters.sum_of_reads(|reads| &reads.gets),
        memtable_hits: counters.sum_of_reads(|reads| &reads.memtable_hits),
        scans: counters.sum_of_reads(|reads| &reads.scans),
        filter_checks: counters.sum_of_reads(|reads| &reads.filter_checks),
        filter_negatives: counters.sum_of_reads(|reads| &reads.filter_negatives),
        filter_false_positives: counters.sum_of_reads(|reads| &reads.filter_false_positives),
        cache_hits: cache.hits,
        cache_misses: cache.misses,
        cache_miss_bytes: ByteCount(cache.miss_bytes),
        cache_rewrites: cache.rewrites,
        memory_limit: shared.options.memory_limit,
        memtable_bytes: control.memtable_bytes(),
        memtable_fill: control.memtable_signals(&view).fill(),
        write_limit: shared.gate.limit(),
        job_read_limit: shared.io.bulk().limit(Way::Read).map(BytesPerSec),
        job_write_limit: shared.io.bulk().limit(Way::Write).map(BytesPerSec),
        memory,
        memory_peaks: peak.kinds,
        memory_peak: peak.total,
        wal_bytes: ByteCount(counters.wal_bytes.get()),
        wal_mapped_bytes: ByteCount(counters.wal_mapped_bytes.get()),
        wal_ready_bytes: ByteCount(counters.wal_ready_bytes.get()),
        wal_filled_bytes: ByteCount(counters.wal_filled_bytes.get()),
        wal_lengthened_bytes: ByteCount(counters.wal_lengthened_bytes.get()),
        reserve_bytes: ByteCount(counters.reserve_bytes.get()),
        wal_writes: counters.wal_writes.get(),
        wal_syncs: counters.wal_syncs.get(),
        manifest_bytes: ByteCount(counters.manifest_bytes.get()),
        log_bytes: ByteCount(shared.events.log_bytes()),
        open_bytes: ByteCount(reader.tables().open_bytes()),
        installs: counters.installs.get(),
        rotations: counters.rotations.get(),
        kept_keys: counters.kept.get(),
        kept_bytes: ByteCount(counters.kept_bytes.get()),
        logged_values: counters.logged_values.get(),
        logged_bytes: ByteCount(counters.logged_bytes.get()),
        shape_asks: counters.shape_asks.get(),
        latencies: latencies(shared),
        waits: waits(counters),
        flush: work_of(counters, 0),
        compactions: compactions_of(counters),
        levels: trees.levels(),
        keyspaces: trees.keyspaces(engine),
        jobs: jobs::jobs(engine),
        snapshots: snapshots(engine),
        files: files(engine, &view),
        chains,
        standing_chains,
        zombie_files: installer.dead().zombies().0 as u64,
        stuck_files: installer.dead().stuck() as u64,
        callback_panics: shared.events.panics(),
        out_of_space: shared.health.is_out_of_space(),
        shortages: counters.shortages.get(),
        read_only: shared.health.cause().map(|cause| cause.to_string()),
    }
}

/// The compactions by source level, without trailing levels that no job has worked on.
fn compactions_of(counters: &Counters) -> Vec<WorkStats> {
    let levels = (1..counters.levels.len()).map(|index| work_of(counters, index));
    let mut compactions: Vec<WorkStats> = levels.collect();
    while compactions.last() == Some(&WorkStats::default()) {
        compactions.pop();
    }
    compactions
}

fn work_of(counters: &Counters, index: usize) -> WorkStats {
    let level = &counters.levels[index];
    WorkStats {
        jobs: level.jobs.get(),
        moves: level.moves.get(),
        read: ByteCount(level.read.get()),
        written: ByteCount(level.written.get()),
        entries_in: level.entries_in.get(),
        entries_dropped: level.entries_dropped.get(),
        widest: ByteCount(level.widest.load(Ordering::Relaxed)),
        ssts_in: level.ssts_in.get(),
        poor_in: level.poor_in.get(),
        ssts_out: level.ssts_out.get(),
        good_out_by_count: level.good_out_by_count.get(),
        good_out_by_ratio: level.good_out_by_ratio.get(),
        paused: level.paused.get(),
        cancelled: level.cancelled.get(),
        wasted: ByteCount(level.wasted.get()),
    }
}

fn snapshots(engine: &Engine) -> SnapshotStats {
    let (count, oldest) = engine.reader.held();
    let now = engine.shared.env.now();
    let age = |since: Duration| Micros(now.saturating_sub(since).as_micros() as u64);
    SnapshotStats { count, oldest: oldest.map(age) }
}

fn files(engine: &Engine, view: &StoreView) -> FileStats {
    let mut ssts = BTreeMap::new();
    for (_, table) in view.trees().flat_map(|tree| tree.version.tables()) {
        let open = ssts.entry(table.file.number).or_insert((table.file.bytes, false));
        open.1 |= table.attachment.is_set();
    }
    let (pinned, pinned_bytes) = engine.installer.dead().pinned();
    FileStats {
        ssts: ssts.len() as u64,
        sst_bytes: ssts.values().map(|(bytes, _)| *bytes).sum(),
        open_ssts: ssts.values().filter(|(_, open)| *open).count() as u64,
        wals: engine.log.live_numbers().len() as u64,
        wal_bytes: ByteCount(engine.log.live_bytes()),
        pinned,
        pinned_bytes: ByteCount(pinned_bytes),
    }
}

fn latencies(shared: &Shared) -> Latencies {
    let of = |kind| shared.counters.latencies.stats(kind);
    Latencies {
        get: of(Timed::Get),
        multi_get: of(Timed::MultiGet),
        write: of(Timed::Write),
        seek: of(Timed::Seek),
        transaction: of(Timed::Transaction),
    }
}

fn waits(counters: &Counters) -> Vec<WaitStats> {
    let wait = |cause: WaitCause| {
        let latency = counters.waits[cause as usize].stats();
        let micros = |duration: Duration| Micros(duration.as_micros() as u64);
        let (total, longest) = (micros(latency.sum), micros(latency.max));
        WaitStats { cause, count: latency.count, total, longest, latency }
    };
    WaitCause::ALL.map(wait).into_iter().filter(|wait| wait.count > 0).collect()
}

#[cfg(all(test, not(shuttle)))]
mod tests;
