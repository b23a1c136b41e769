//! The vLSM engine as a store under measurement. It forwards the calls, and translates the engine's
//! counters into those of reports.
//!
//! Threads: any thread may call, as with the engine.

use crate::clock::{self, Clock};
use crate::process::folder_bytes;
use crate::store::{
    Admitted, ChainMark, JobMark, LevelStats, Look, Marks, Store, StoreMemory, StoreResult,
    StoreStats, VsstStats, WaitStats, Write,
};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm::{Batch, Db, KeyspaceOptions, Options, Stats, WriteOptions};
use vlsm_core::event::Event;
use vlsm_policy::Counters;

/// The largest number of marks that are kept until they are taken.
const MARKS_MAX: usize = 1 << 20;

/// The longest piece of the page cache that holds a part of a WAL: the length of the writes that
/// fill a WAL ahead. The system counts the whole piece when a record is the first write into it
/// after a sync.
const WAL_PIECE: u64 = 256 << 10;
/// The same for the manifest. Each install writes a little of it and syncs it.
const PAGE: u64 = 4096;

/// An open engine.
pub struct Engine {
    db: Db,
    clock: Clock,
    marks: Arc<Mutex<Marks>>,
}

impl Engine {
    /// Opens a store in a folder, its keys split into regions at `splits`.
    ///
    /// # Errors
    /// The engine cannot open the store.
    pub fn open(path: &Path, options: Options, splits: Vec<Vec<u8>>) -> vlsm_core::Result<Self> {
        let clock = Clock::start();
        let marks = Arc::<Mutex<Marks>>::default();
        let told = marks.clone();
        let db = Db::builder(path)
            .options(options)
            .default_keyspace(KeyspaceOptions::splits(splits))
            .listener(move |event| note(event, &clock, &told))
            .open()?;
        Ok(Self { db, clock, marks })
    }

    /// The engine itself.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }
}

/// Keeps marks of jobs that ended and of chains.
fn note(event: &Event, clock: &Clock, marks: &Mutex<Marks>) {
    let now = clock.now() as f64 / 1e9;
    let (mut job, mut chain) = (None, None);
    match event {
        Event::JobFinished { kind, from, to, read, written, took, .. } => {
            job = Some(JobMark {
                start: now - took.0 as f64 / 1e6,
                end: now,
                kind: kind.name().to_owned(),
                from: *from,
                to: *to,
                read: read.0,
                written: written.0,
            });
        }
        Event::ChainStood { chain: stood, .. } => chain = Some((stood, None)),
        Event::ChainEnded { chain: ended, .. } => {
            chain = Some((ended, Some(ended.waited.0 as f64 / 1e6)));
        }
        _ => return,
    }
    let chain = chain.map(|(chain, waited)| ChainMark {
        at: now,
        stages: chain.stages.iter().map(|stage| (stage.level, stage.width.0)).collect(),
        waited,
    });
    let mut marks = marks.lock();
    if marks.jobs.len() + marks.chains.len() < MARKS_MAX {
        marks.jobs.extend(job);
        marks.chains.extend(chain);
    }
}

/// The options that matter for figures, by name.
#[must_use]
pub fn describe(options: &Options) -> Vec<(String, String)> {
    let policy = &options.policy;
    let io = |direct| if direct { "direct" } else { "buffered" };
    let lowercase = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let compression: Vec<_> = options.compression.iter().map(|c| lowercase(c)).collect();
    let workers = match options.workers {
        0 => "one a core".to_owned(),
        count => count.to_string(),
    };
    let memory = match options.memory_limit {
        vlsm_core::ByteCount::ZERO => "a share of the machine's".to_owned(),
        limit => limit.to_string(),
    };
    let cache = options.cache_limit.map_or("what is left".to_owned(), |most| most.to_string());
    [
        ("shape", policy.shape.clone()),
        ("schedule", policy.schedule.clone()),
        ("admission", policy.admission.clone()),
        ("memtables", format!("{} × {}", policy.tree.memtable_count, policy.tree.memtable_bytes)),
        ("SST", policy.tree.sst_max.to_string()),
        ("L1", policy.tree.l1_bytes.to_string()),
        ("growth", policy.tree.growth.to_string()),
        ("WAL", lowercase(&options.durability)),
        ("compression", compression.join("/")),
        ("memory", memory),
        ("of it cache", cache),
        ("jobs' I/O", io(options.direct_io).to_owned()),
        ("reads", io(options.direct_reads).to_owned()),
        ("filter", format!("{} bits/key", options.bits_per_key)),
        ("workers", workers),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn levels(stats: &Stats) -> Vec<LevelStats> {
    let level = |level: &vlsm::LevelStats| LevelStats {
        tables: level.tables,
        bytes: level.bytes.0,
        target: level.target.map(|target| target.0),
        good_by_count: level.good_by_count,
        good_by_ratio: level.good_by_ratio,
    };
    stats.levels.iter().map(level).collect()
}

fn vssts(stats: &Stats) -> VsstStats {
    let of = |index: usize| stats.compactions.get(index).cloned().unwrap_or_default();
    let (into, out) = (of(0), of(1));
    VsstStats {
        into: into.ssts_out,
        good_by_count: into.good_out_by_count,
        good_by_ratio: into.good_out_by_ratio,
        out: out.ssts_in,
        poor: out.poor_in,
    }
}

/// Bytes that the device may never see: reads through the page cache, and zeros of the WAL that are
/// overwritten before a sync.
fn cached(options: &Options, stats: &Stats) -> u64 {
    let jobs: u64 = stats.compactions.iter().map(|work| work.read.0).sum();
    let reads = (stats.cache_miss_bytes + stats.open_bytes).0 + jobs;
    stats.wal_lengthened_bytes.0 + if options.direct_reads { 0 } else { reads }
}

/// What the system counted when memory for the WAL was made ready, and nothing was written there
/// yet.
fn made_ready(stats: &Stats) -> u64 {
    stats.wal_ready_bytes.0.saturating_sub(stats.wal_mapped_bytes.0)
}

fn other_written(stats: &Stats) -> u64 {
    (stats.manifest_bytes + stats.wal_filled_bytes + stats.log_bytes + stats.reserve_bytes).0
}

impl Store for Engine {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        Ok(self.db.put(key, value)?)
    }

    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>> {
        Ok(self.db.get(key)?.map(|value| value.len()))
    }

    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        Ok(self.db.delete(key)?)
    }

    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize> {
        let (mut count, mut pairs) = (0, self.db.range(start..));
        while count < limit
            && let Some(pair) = pairs.next_ref()
        {
            let pair = pair?;
            std::hint::black_box((pair.key(), pair.value()));
            count += 1;
        }
        Ok(count)
    }

    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let keyspace = self.db.default_keyspace();
        let mut batch = Batch::new();
        for write in writes {
            match write {
                Write::Put(key, value) => batch.put(&keyspace, key, value),
                Write::Delete(key) => batch.delete(&keyspace, key),
            }
        }
        Ok(self.db.write(&batch, WriteOptions::default())?)
    }

    fn settle(&self, limit: Duration, give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        // The engine waits without a limit, so it does so on a thread of its own. After giving up,
        // closing the store ends that wait.
        let db = self.db.clone();
        let body = move || db.flush().and_then(|()| db.wait_idle());
        let waiting = std::thread::Builder::new().name("settle".into()).spawn(body)?;
        let clock = Clock::start();
        while !waiting.is_finished() {
            if give_up() || Duration::from_nanos(clock.now()) > limit {
                return Ok(false);
            }
            clock::sleep(Duration::from_millis(5));
        }
        waiting.join().map_err(|_| "waiting for background work panicked")??;
        Ok(true)
    }

    fn look(&self) -> Look {
        let stats = self.db.stats();
        let limit = stats.write_limit.map(|rate| rate.as_f64());
        let jobs = || std::iter::once(&stats.flush).chain(&stats.compactions);
        let counters = Counters {
            writes: stats.writes,
            write_bytes: stats.write_bytes,
            gets: stats.gets,
            scans: stats.scans,
            cache_miss_bytes: stats.cache_miss_bytes,
            job_read_bytes: jobs().map(|work| work.read).sum(),
            job_written_bytes: jobs().map(|work| work.written).sum(),
            waited_spans: 0,
            waiting_writers: 0,
            stopped_writers: 0,
        };
        Look {
            levels: levels(&stats),
            counters: Some(counters),
            admitted: Some(Admitted { fill: stats.memtable_fill, limit }),
            pending: None,
        }
    }

    fn marks(&self, clock: &Clock) -> Marks {
        let ahead = clock.now() as f64 / 1e9 - self.clock.now() as f64 / 1e9;
        std::mem::take(&mut *self.marks.lock()).shifted(ahead)
    }

    fn close(self: Box<Self>) -> (StoreStats, StoreResult<()>) {
        let before = self.stats();
        let closed = self.db.clone().close();
        (before.with_bytes_of(&self.stats()), closed.map_err(Into::into))
    }

    fn stats(&self) -> StoreStats {
        let stats = self.db.stats();
        let waits = stats.waits.iter().map(|wait| WaitStats {
            cause: wait.cause.name().to_owned(),
            count: wait.count,
            total_us: wait.total.0,
            longest_us: wait.longest.0,
        });
        let widest = stats.compactions.iter().map(|work| work.widest.0).max();
        let peaks = stats.memory_peaks.kinds();
        let memory = StoreMemory {
            limit: stats.memory_limit.0,
            peak: stats.memory_peak.0,
            peaks: peaks.map(|(kind, bytes)| (kind.to_owned(), bytes.0)).into(),
        };
        StoreStats {
            wal_bytes: stats.wal_bytes.0,
            wal_syncs: stats.wal_syncs,
            flush_bytes: stats.flush.written.0,
            compaction_read: stats.compactions.iter().map(|work| work.read.0).sum(),
            compaction_written: stats.compactions.iter().map(|work| work.written.0).sum(),
            read_bytes: (stats.cache_miss_bytes + stats.open_bytes).0,
            open_bytes: stats.open_bytes.0,
            other_written: other_written(&stats),
            rounding: stats.wal_syncs * WAL_PIECE + stats.installs * PAGE + made_ready(&stats),
            cached: cached(self.db.options(), &stats),
            l0_compactions: stats.compactions.first().map_or(0, |work| work.jobs),
            chains: stats.chains.count,
            chain_length: stats.chains.length_max,
            chain_width: stats.chains.width_max.0,
            chain_bytes: stats.chains.width_total.0,
            chain_waited_us: stats.chains.waited_max.0,
            standing_length: stats.standing_chains.length_max,
            standing_width: stats.standing_chains.width_max.0,
            standing_bytes: stats.standing_chains.width_total.0,
            standing_count: stats.standing_chains.count,
            widest_job: widest.unwrap_or(0),
            vssts: vssts(&stats),
            waits: waits.collect(),
            levels: levels(&stats),
            disk_bytes: folder_bytes(self.db.path()),
            memory,
        }
    }
}
