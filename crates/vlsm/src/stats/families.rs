//! A store's statistics as metrics: families of samples with labels, the form that monitoring
//! systems use.
//!
//! This is the only list of metrics. The text for Prometheus and the output for other monitoring
//! systems are written from it. The rules:
//!
//! - A name begins with `vlsm_` and ends with its unit. Times are in seconds, sizes in bytes. The
//!   name of a counter ends with `_total`.
//! - A counter counts since the store was opened; a gauge shows the present value.
//! - Every family is always present, so that a dashboard can name it. A sample without a value (a
//!   limit where there is none) is omitted.
//! - Labels have few values: `keyspace`, `level`, `cause`, `kind`. None holds a key.
//!
//! A histogram has a bucket for each power of two of nanoseconds from 512 ns to 17 s. Its counts
//! are exact ([`LatencyStats::count_up_to`]).

use super::{JobStats, KeyspaceStats, KeyspaceWait, LevelStats, Stats, WorkStats};
use crate::control::chain::ChainSummary;
use crate::shared::latency::LatencyStats;
use std::time::Duration;
use vlsm_core::Micros;
use vlsm_core::event::WaitCause;

/// The exponents of the smallest and the largest bucket's bound.
const BOUNDS: std::ops::RangeInclusive<u32> = 9..=34;

/// The kind of a family's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A sample's labels: names and values.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Count(u64),
    Number(f64),
    Histogram(LatencyStats),
}

/// A metric with its samples.
#[derive(Debug)]
pub(super) struct Family {
    pub name: &'static str,
    pub kind: Kind,
    /// A description for people.
    pub help: &'static str,
    pub samples: Vec<(Labels, Value)>,
}

/// The bounds of a histogram's buckets.
pub(super) fn bounds() -> impl Iterator<Item = Duration> {
    BOUNDS.map(|exponent| Duration::from_nanos(1 << exponent))
}

/// The families under construction.
struct Families(Vec<Family>);

impl Families {
    fn add(
        &mut self,
        kind: Kind,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, Value)>,
    ) {
        let samples = samples.into_iter().collect();
        self.0.push(Family { name, kind, help, samples });
    }

    /// A counter without labels.
    fn count(&mut self, name: &'static str, help: &'static str, value: u64) {
        self.add(Kind::Counter, name, help, [(Labels::new(), Value::Count(value))]);
    }

    /// A gauge without labels.
    fn gauge(&mut self, name: &'static str, help: &'static str, value: impl Into<Option<Value>>) {
        let sample = value.into().map(|value| (Labels::new(), value));
        self.add(Kind::Gauge, name, help, sample);
    }

    fn histogram(&mut self, name: &'static str, help: &'static str, latency: &LatencyStats) {
        let value = Value::Histogram(latency.clone());
        self.add(Kind::Histogram, name, help, [(Labels::new(), value)]);
    }
}

fn seconds(micros: Micros) -> Value {
    Value::Number(Duration::from_micros(micros.0).as_secs_f64())
}

fn flag(on: bool) -> Value {
    Value::Count(u64::from(on))
}

/// The value of a `cause` label.
pub(super) fn cause_label(cause: WaitCause) -> String {
    cause.name().to_lowercase().replace(' ', "_")
}

/// All metrics of a store.
pub(super) fn families(stats: &Stats) -> Vec<Family> {
    let mut all = Families(Vec::new());
    operations(&mut all, stats);
    waits(&mut all, stats);
    chains(&mut all, stats);
    reads(&mut all, stats);
    jobs(&mut all, stats);
    running(&mut all, stats);
    keyspaces(&mut all, &stats.keyspaces);
    memory(&mut all, stats);
    logs(&mut all, stats);
    files(&mut all, stats);
    health(&mut all, stats);
    all.0
}

fn operations(all: &mut Families, stats: &Stats) {
    let latencies = &stats.latencies;
    let help = "Time since the store's environment was made.";
    all.gauge("vlsm_uptime_seconds", help, seconds(stats.at));
    all.count("vlsm_batches_total", "Batches written, single writes included.", stats.batches);
    all.count("vlsm_writes_total", "Keys written.", stats.writes);
    let help = "Bytes of the batches written: keys, values and a few bytes each.";
    all.count("vlsm_write_bytes_total", help, stats.write_bytes.0);
    all.count("vlsm_gets_total", "Point reads.", stats.gets);
    all.count("vlsm_scans_total", "Iterators created.", stats.scans);
    all.count("vlsm_transactions_total", "Transactions that wrote.", stats.transactions);
    let help = "Commits of transactions that were refused because of another write.";
    all.count("vlsm_transaction_conflicts_total", help, stats.conflicts);
    all.histogram("vlsm_get_seconds", "Latency of gets; a sample of 1 in 64.", &latencies.get);
    let help = "Latency of gets of several keys at once; a sample of 1 in 16.";
    all.histogram("vlsm_multi_get_seconds", help, &latencies.multi_get);
    let help = "Latency of writes; a sample of 1 in 64.";
    all.histogram("vlsm_write_seconds", help, &latencies.write);
    let help = "Time of iterators to find their first pair; a sample of 1 in 64.";
    all.histogram("vlsm_seek_seconds", help, &latencies.seek);
    let help = "Latency of commits of transactions; a sample of 1 in 16.";
    all.histogram("vlsm_transaction_seconds", help, &latencies.transaction);
}

fn waits(all: &mut Families, stats: &Stats) {
    let samples = WaitCause::ALL.map(|cause| {
        let wait = stats.waits.iter().find(|wait| wait.cause == cause);
        let latency = wait.map(|wait| wait.latency.clone()).unwrap_or_default();
        (vec![("cause", cause_label(cause))], Value::Histogram(latency))
    });
    let help = "Waits of writes, and of reads that are limited, by cause; not sampled.";
    all.add(Kind::Histogram, "vlsm_wait_seconds", help, samples);
}

fn chains(all: &mut Families, stats: &Stats) {
    let ChainSummary {
        count, length_max, width_max, width_total, waited_max, waited_total, ..
    } = &stats.chains;
    all.count("vlsm_chains_total", "Compaction chains that a full memtable waited for.", *count);
    let help = "Bytes that these chains merged while a memtable waited.";
    all.count("vlsm_chain_width_bytes_total", help, width_total.0);
    let help = "Time that full memtables waited for chains.";
    let waited = [(Labels::new(), seconds(*waited_total))];
    all.add(Kind::Counter, "vlsm_chain_waited_seconds_total", help, waited);
    let help = "The longest wait for a chain.";
    all.gauge("vlsm_chain_waited_max_seconds", help, seconds(*waited_max));
    let help = "Levels of the longest chain.";
    all.gauge("vlsm_chain_length_max", help, Value::Count(*length_max));
    let help = "Bytes of the widest chain.";
    all.gauge("vlsm_chain_width_max_bytes", help, Value::Count(width_max.0));
    let help = "Bytes of the widest chain behind L0 at the start of a flush.";
    let standing = Value::Count(stats.standing_chains.width_max.0);
    all.gauge("vlsm_standing_chain_width_max_bytes", help, standing);
}

fn reads(all: &mut Families, stats: &Stats) {
    let help = "Point reads answered by a memtable.";
    all.count("vlsm_memtable_hits_total", help, stats.memtable_hits);
    all.count("vlsm_cache_hits_total", "Blocks found in the block cache.", stats.cache_hits);
    all.count("vlsm_cache_misses_total", "Blocks read into the block cache.", stats.cache_misses);
    let help = "Bytes of the blocks read into the block cache.";
    all.count("vlsm_cache_miss_bytes_total", help, stats.cache_miss_bytes.0);
    let help = "Blocks that compactions wrote in place of cached ones.";
    all.count("vlsm_cache_rewrites_total", help, stats.cache_rewrites);
    all.count("vlsm_filter_checks_total", "Filters checked.", stats.filter_checks);
    let help = "Filter checks that saved a read.";
    all.count("vlsm_filter_negatives_total", help, stats.filter_negatives);
    let help = "Filter checks that did not save a read although the key was absent.";
    all.count("vlsm_filter_false_positives_total", help, stats.filter_false_positives);
    let help = "Bytes of indexes, filters and properties read to open SSTs.";
    all.count("vlsm_sst_open_bytes_total", help, stats.open_bytes.0);
}

/// The work of jobs by the place in which they make room: `memtable` for flushes, otherwise the
/// level.
fn jobs(all: &mut Families, stats: &Stats) {
    let compactions = stats.compactions.iter().enumerate();
    let compactions = compactions.map(|(level, work)| (level.to_string(), work));
    let works: Vec<(String, &WorkStats)> =
        [("memtable".to_owned(), &stats.flush)].into_iter().chain(compactions).collect();
    let mut count = |name, help, of: fn(&WorkStats) -> u64| {
        let sample = |(level, work): &(String, &WorkStats)| {
            (vec![("level", level.clone())], Value::Count(of(work)))
        };
        all.add(Kind::Counter, name, help, works.iter().map(sample));
    };
    count("vlsm_jobs_total", "Finished flushes and compactions, by source.", |work| work.jobs);
    count("vlsm_job_moves_total", "Finished jobs that only moved SSTs.", |work| work.moves);
    count("vlsm_job_read_bytes_total", "Bytes that jobs read from SSTs.", |work| work.read.0);
    count("vlsm_job_written_bytes_total", "Bytes that jobs wrote.", |work| work.written.0);
    count("vlsm_job_entries_total", "Entries that jobs merged.", |work| work.entries_in);
    let help = "Entries that jobs dropped: shadowed ones and unneeded tombstones.";
    count("vlsm_job_entries_dropped_total", help, |work| work.entries_dropped);
    let help = "Jobs without a result: cancelled or failed.";
    count("vlsm_jobs_cancelled_total", help, |work| work.cancelled);
    count("vlsm_jobs_paused_total", "Pauses of jobs by the schedule.", |work| work.paused);
    all.count("vlsm_installs_total", "Results of jobs installed in the trees.", stats.installs);
    all.count("vlsm_rotations_total", "Memtables sealed.", stats.rotations);
}

/// The running jobs, by the same places; places without a job have zeros.
fn running(all: &mut Families, stats: &Stats) {
    let levels = stats.jobs.iter().filter_map(|job| job.from).map(|level| usize::from(level) + 1);
    let levels = levels.max().unwrap_or(0).max(stats.compactions.len());
    let places: Vec<Option<u8>> = [None].into_iter().chain((0..levels as u8).map(Some)).collect();
    let mut sum = |name, help, of: fn(&JobStats) -> u64| {
        let sample = |place: &Option<u8>| {
            let name = place.map_or("memtable".to_owned(), |level| level.to_string());
            let jobs = stats.jobs.iter().filter(|job| job.from == *place);
            (vec![("level", name)], Value::Count(jobs.map(of).sum()))
        };
        all.add(Kind::Gauge, name, help, places.iter().map(sample));
    };
    sum("vlsm_running_jobs", "Flushes and compactions under way, by source.", |_| 1);
    let help = "Running jobs that the schedule has paused.";
    sum("vlsm_running_jobs_paused", help, |job| u64::from(job.paused));
    let help = "Bytes that the running jobs are expected to read in total.";
    sum("vlsm_running_job_bytes", help, |job| job.bytes.0);
    let help = "Bytes that the jobs under way have merged.";
    sum("vlsm_running_job_done_bytes", help, |job| job.done.0);
}

fn keyspaces(all: &mut Families, keyspaces: &[KeyspaceStats]) {
    let mut levels = |name, help, of: fn(&LevelStats) -> Option<u64>| {
        let samples = keyspaces.iter().flat_map(|keyspace| {
            keyspace.levels.iter().filter_map(move |level| {
                let name = ("keyspace", keyspace.name.clone());
                let labels = vec![name, ("level", level.level.to_string())];
                Some((labels, Value::Count(of(level)?)))
            })
        });
        all.add(Kind::Gauge, name, help, samples);
    };
    levels("vlsm_level_ssts", "SSTs of a level.", |level| Some(level.tables));
    levels("vlsm_level_bytes", "Bytes of a level.", |level| Some(level.bytes.0));
    levels("vlsm_level_runs", "Runs of L0; of a deeper level, regions with SSTs.", |level| {
        Some(level.runs)
    });
    levels("vlsm_level_target_bytes", "Target size of a level, where it has one.", |level| {
        level.target.map(|target| target.0)
    });
    let mut gauge = |name, help, of: fn(&KeyspaceStats) -> u64| {
        let sample = |keyspace: &KeyspaceStats| {
            (vec![("keyspace", keyspace.name.clone())], Value::Count(of(keyspace)))
        };
        all.add(Kind::Gauge, name, help, keyspaces.iter().map(sample));
    };
    gauge("vlsm_keyspace_memtable_bytes", "Bytes in memtables.", |of| of.memtable_bytes.0);
    let help = "Memtables that wait for their flush.";
    gauge("vlsm_keyspace_sealed_memtables", help, |of| of.sealed_memtables);
    let help = "Bytes that compactions have to merge until all levels are within their bounds.";
    gauge("vlsm_keyspace_debt_bytes", help, |of| of.debt.0);
    let help = "Entries in SSTs, shadowed ones and tombstones included.";
    gauge("vlsm_keyspace_entries", help, |of| of.entries);
    gauge("vlsm_keyspace_tombstones", "Tombstones in SSTs.", |of| of.tombstones);
    keyspace_waits(all, keyspaces);
}

/// The waits of each keyspace, by each cause that occurred in it.
fn keyspace_waits(all: &mut Families, keyspaces: &[KeyspaceStats]) {
    let mut waits = |name, help, of: fn(&KeyspaceWait) -> Value| {
        let samples = keyspaces.iter().flat_map(|keyspace| {
            keyspace.waits.iter().map(move |wait| {
                let name = ("keyspace", keyspace.name.clone());
                (vec![name, ("cause", cause_label(wait.cause))], of(wait))
            })
        });
        all.add(Kind::Counter, name, help, samples);
    };
    let help = "Waits of writes into a keyspace, without those for the WAL.";
    waits("vlsm_keyspace_waits_total", help, |wait| Value::Count(wait.count));
    let help = "Time that writes into a keyspace waited, without waits for the WAL.";
    waits("vlsm_keyspace_wait_seconds_total", help, |wait| seconds(wait.total));
    let mut chains = |name, help, of: fn(&ChainSummary) -> Value| {
        let sample = |keyspace: &KeyspaceStats| {
            (vec![("keyspace", keyspace.name.clone())], of(&keyspace.chains))
        };
        all.add(Kind::Counter, name, help, keyspaces.iter().map(sample));
    };
    let help = "Compaction chains that full memtables of a keyspace waited for.";
    chains("vlsm_keyspace_chains_total", help, |chains| Value::Count(chains.count));
    let help = "Time that full memtables of a keyspace waited for chains.";
    chains("vlsm_keyspace_chain_waited_seconds_total", help, |chains| seconds(chains.waited_total));
    let help = "Bytes that chains of a keyspace merged while a full memtable waited.";
    chains("vlsm_keyspace_chain_width_bytes_total", help, |chains| {
        Value::Count(chains.width_total.0)
    });
}

fn memory(all: &mut Families, stats: &Stats) {
    let samples = stats
        .memory
        .kinds()
        .map(|(kind, bytes)| (vec![("kind", kind.replace(' ', "_"))], Value::Count(bytes.0)));
    all.add(Kind::Gauge, "vlsm_memory_bytes", "Memory by kind.", samples);
    let help = "The option memory_limit.";
    all.gauge("vlsm_memory_limit_bytes", help, Value::Count(stats.memory_limit.0));
    let help = "The peak of all memory together.";
    all.gauge("vlsm_memory_peak_bytes", help, Value::Count(stats.memory_peak.0));
    let help = "Used share of memtable memory in the fullest tree.";
    all.gauge("vlsm_memtable_fill_ratio", help, Value::Number(stats.memtable_fill));
    let help = "Size at which memtables are sealed at the moment.";
    all.gauge("vlsm_memtable_seal_bytes", help, Value::Count(stats.memtable_bytes.0));
}

fn logs(all: &mut Families, stats: &Stats) {
    all.count("vlsm_wal_bytes_total", "Bytes written to the WAL.", stats.wal_bytes.0);
    let help = "Bytes copied into memory-mapped WAL files, without a system call.";
    all.count("vlsm_wal_mapped_bytes_total", help, stats.wal_mapped_bytes.0);
    let help = "Bytes of memory-mapped WAL files that were populated in advance.";
    all.count("vlsm_wal_ready_bytes_total", help, stats.wal_ready_bytes.0);
    let help = "Bytes of WAL headers, and of zeros that extend WAL files.";
    all.count("vlsm_wal_filled_bytes_total", help, stats.wal_filled_bytes.0);
    all.count("vlsm_wal_writes_total", "Groups of records written to the WAL.", stats.wal_writes);
    all.count("vlsm_wal_syncs_total", "Syncs of the WAL.", stats.wal_syncs);
    let help = "Bytes written to the manifest.";
    all.count("vlsm_manifest_bytes_total", help, stats.manifest_bytes.0);
    all.count("vlsm_log_bytes_total", "Bytes written to the readable LOG.", stats.log_bytes.0);
}

fn files(all: &mut Families, stats: &Stats) {
    let files = &stats.files;
    all.gauge("vlsm_sst_files", "SSTs in the trees.", Value::Count(files.ssts));
    all.gauge("vlsm_sst_bytes", "Bytes of the SSTs in the trees.", Value::Count(files.sst_bytes.0));
    let help = "SSTs whose index and filter are in memory.";
    all.gauge("vlsm_sst_open_files", help, Value::Count(files.open_ssts));
    let help = "WAL files that may hold writes that are in no SST.";
    all.gauge("vlsm_wal_files", help, Value::Count(files.wals));
    let help = "Bytes of WAL files that may hold writes that are in no SST.";
    all.gauge("vlsm_wal_file_bytes", help, Value::Count(files.wal_bytes.0));
    let help = "SSTs that left the trees and are still in use or not yet removed.";
    all.gauge("vlsm_zombie_files", help, Value::Count(stats.zombie_files));
    let help = "SSTs that left the trees and that readers still use.";
    all.gauge("vlsm_pinned_files", help, Value::Count(files.pinned));
    let help = "Bytes of the SSTs that only readers still use.";
    all.gauge("vlsm_pinned_bytes", help, Value::Count(files.pinned_bytes.0));
    let help = "Unneeded files that the file system failed to remove.";
    all.gauge("vlsm_stuck_files", help, Value::Count(stats.stuck_files));
    let help = "Snapshots held, including those of open iterators and transactions.";
    all.gauge("vlsm_snapshots", help, Value::Count(stats.snapshots.count));
    let help = "Age of the oldest snapshot; absent without one.";
    let oldest = stats.snapshots.oldest.map(seconds);
    all.gauge("vlsm_snapshot_oldest_seconds", help, oldest);
}

fn health(all: &mut Families, stats: &Stats) {
    let rate = |limit: Option<vlsm_core::BytesPerSec>| limit.map(|limit| Value::Count(limit.0));
    let help = "Limit on bytes per second that the admission accepts; absent without a limit.";
    all.gauge("vlsm_write_limit_bytes_per_second", help, rate(stats.write_limit));
    let help = "Limit on bytes per second that jobs read; absent without a limit.";
    all.gauge("vlsm_job_read_limit_bytes_per_second", help, rate(stats.job_read_limit));
    let help = "Limit on bytes per second that jobs write; absent without a limit.";
    all.gauge("vlsm_job_write_limit_bytes_per_second", help, rate(stats.job_write_limit));
    let help = "1 while writes are refused because the device is full.";
    all.gauge("vlsm_out_of_space", help, flag(stats.out_of_space));
    let help = "The number of times that the device became full.";
    all.count("vlsm_shortages_total", help, stats.shortages);
    let help = "1 after a failure that made the store read-only.";
    all.gauge("vlsm_read_only", help, flag(stats.read_only.is_some()));
    let help = "Panics of merge operators, compaction filters and the listener that were caught.";
    all.count("vlsm_callback_panics_total", help, stats.callback_panics);
}
