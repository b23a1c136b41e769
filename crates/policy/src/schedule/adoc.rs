//! `adoc`: the number of background jobs and the size of memtables follow what overflows.
//!
//! Source: Yu, Noh, Choi, Xue: "ADOC: Automatically Harmonizing Dataflow Between Components in
//! Log-Structured Key-Value Stores for Improved Performance" (FAST 2023); its constants and the
//! order of its rules from its published code (`FEAT_Tuner` in the repository supermt/FEAT_7.11,
//! and the same code as others took it over), which it runs with both parts, for threads and for
//! batches. Data overflows where more comes in than goes out: in memory (MMO; memtables wait
//! because flushes are slow), in L0 (L0O), and as redundant data, bytes that compaction owes (RDO).
//! 1. Once an interval (1 s) in which a flush ended the signs are read: the mean speed of those
//!    flushes, the number of sealed memtables, runs in L0, bytes owed. Without a flush nothing is
//!    changed, and the first such interval only says what speed is usual. A flush is slow below
//!    half of the best mean of any interval.
//! 2. *Jobs*: at L0's slowdown trigger (L0O) or at the soft limit of debt (RDO) 2 more; else where
//!    flushes are slow (MMO: they share the device with too many) half as many; else while a
//!    memtable is sealed 2 more. Between 2 and the most.
//! 3. *Batch*, the size at which memtables are sealed: at the soft limit of debt (RDO) half; else
//!    where flushes are slow or more than one memtable is sealed (MMO) one initial batch more.
//!    Between the initial batch (64 MB) and `memtable_bytes`.
//! 4. Of the jobs a quarter, at least one, is for flushes, the rest are slots for compactions, as
//!    RocksDB divides `max_background_jobs`. It begins with 2. In its slots all goes as in `fifo`.
//!
//! Readings and deviations. The published code counts the files of its *base level*, which is L1,
//! where the paper speaks of L0: ours counts the runs of L0. It comes in versions in which a batch
//! grows although no memtable is sealed, with a message that says the opposite: left out. With the
//! batch it sets the size of an SST and of L1; here both stay, as a shape has only its options. It
//! bounds the jobs by the cores; our workers do not block on the device as RocksDB's threads do, so
//! a worker carries two (`compaction_jobs` bounds the slots, too). The speed of a flush is its
//! bytes ÷ the time from its start to its install. Of several trees the worst counts; sealed
//! memtables are those of the busiest.
//!
//! Liveness: there is always a slot, and memtables are sealed at a size above zero. Cost: O(running
//! · flushes + trees) on top of `fifo`'s. State: jobs, batch, flushes under way, the best speed.

use super::Schedule;
use super::fifo::{Fifo, takes_slot};
use crate::candidate::{Candidate, Class};
use crate::decision::Grants;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Running, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::{Bytes, JobId, Micros, Result};

/// A flush is slow below this share of the best speed.
const SLOW: f64 = 0.5;
/// Fewest jobs, and how many more they become at a time.
const JOBS_STEP: usize = 2;
/// Jobs at most for each worker.
const JOBS_PER_WORKER: usize = 2;

/// ADOC's constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdocOptions {
    /// How often it tunes.
    pub interval: Micros,
    /// The first and least size at which memtables are sealed, and by how much it grows at a time.
    /// `memtable_bytes` is the largest; where that is no more, batches stay as they are.
    pub batch: Bytes,
}

impl Default for AdocOptions {
    fn default() -> Self {
        Self { interval: Micros(1_000_000), batch: Bytes::mib(64) }
    }
}

impl MechanismOptions for AdocOptions {
    fn check(&self) -> Result<()> {
        let rules = [
            (
                (1_000..=3_600_000_000).contains(&self.interval.0),
                "adoc.interval",
                "must be from 1 ms (1000) to an hour (3600000000)",
            ),
            (self.batch >= Bytes::kib(4), "adoc.batch", "must be at least 4 KB"),
        ];
        all_hold(rules)
    }

    fn scale(&mut self, by: Scale) {
        self.interval = by.time(self.interval);
        self.batch = by.bytes(self.batch);
    }

    fn shrink(&mut self, _: &TreeOptions, _: &mut Pick<'_>) {
        self.interval = Micros(5_000);
        self.batch = Bytes::kib(4);
    }
}

/// A flush under way.
#[derive(Debug)]
struct Flush {
    job: JobId,
    since: Micros,
    bytes: Bytes,
}

/// ADOC.
#[derive(Debug)]
pub struct Adoc {
    interval: Micros,
    /// The least size of a batch, and the largest.
    batches: (Bytes, Bytes),
    l0_slowdown: usize,
    debt_soft: Option<Bytes>,
    /// The most compactions at a time; 0 for no such limit.
    compaction_jobs: usize,
    queue: Fifo,
    jobs: usize,
    batch: Bytes,
    /// When the interval began.
    begun: Option<Micros>,
    flushes: Vec<Flush>,
    /// Bytes per second of the flushes that ended in the interval, added up, and their number.
    ended: (f64, u32),
    /// The best mean of an interval.
    best: f64,
}

/// What overflows.
#[derive(Debug, Clone, Copy)]
struct Signs {
    /// Flushes are slow.
    slow: bool,
    /// Sealed memtables.
    sealed: usize,
    l0: bool,
    debt: bool,
}

impl Mechanism for Adoc {
    const WHAT: &'static str = "ADOC: number of jobs and size of memtables follow what overflows";
    type Options = AdocOptions;

    fn new(tree: &TreeOptions, own: &AdocOptions) -> Result<Self> {
        let most = tree.memtable_bytes;
        let least = own.batch.min(most);
        Ok(Self {
            interval: own.interval,
            batches: (least, most),
            l0_slowdown: tree.l0_slowdown,
            debt_soft: tree.debt_soft,
            compaction_jobs: tree.compaction_jobs,
            queue: Fifo::of(tree),
            jobs: JOBS_STEP,
            batch: least,
            begun: None,
            flushes: Vec::new(),
            ended: (0.0, 0),
            best: 0.0,
        })
    }
}

impl Adoc {
    /// Times the flushes.
    fn watch(&mut self, now: Micros, running: &[Running]) {
        let ended = &mut self.ended;
        self.flushes.retain(|flush| {
            let goes_on = running.iter().any(|job| job.job == flush.job);
            if !goes_on {
                // What took no time that can be told took a microsecond.
                let took = now.saturating_sub(flush.since).max(Micros(1));
                ended.0 += flush.bytes.as_f64() / took.as_secs_f64();
                ended.1 += 1;
            }
            goes_on
        });
        let flush = |job: &&Running| {
            job.candidate.frees == Class::Memtable && job.candidate.bytes_out > Bytes::ZERO
        };
        for job in running.iter().filter(flush) {
            if !self.flushes.iter().any(|flush| flush.job == job.job) {
                let bytes = job.candidate.bytes_out;
                self.flushes.push(Flush { job: job.job, since: now, bytes });
            }
        }
    }

    /// Rule 1: the signs, once an interval in which a flush ended.
    fn signs(&mut self, signals: &Signals) -> Option<Signs> {
        let begun = *self.begun.get_or_insert(signals.now);
        if signals.now.saturating_sub(begun) < self.interval {
            return None;
        }
        self.begun = Some(signals.now);
        let (sum, count) = std::mem::take(&mut self.ended);
        if count == 0 {
            return None;
        }
        let speed = sum / f64::from(count);
        let first = self.best == 0.0;
        let slow = speed < self.best * SLOW;
        self.best = self.best.max(speed);
        if first {
            return None;
        }
        let trees = || signals.pressure.iter().map(|(_, pressure)| &**pressure);
        Some(Signs {
            slow,
            sealed: signals.memtables.immutable_count,
            l0: trees().any(|tree| tree.l0_runs >= self.l0_slowdown),
            debt: trees().any(|tree| self.debt_soft.is_some_and(|soft| tree.debt >= soft)),
        })
    }

    /// Rules 2 and 3.
    fn tune(&mut self, signs: Signs, workers: usize) {
        let more_jobs = self.jobs + JOBS_STEP;
        let jobs = match signs {
            Signs { l0: true, .. } | Signs { debt: true, .. } => more_jobs,
            Signs { slow: true, .. } => self.jobs / 2,
            Signs { sealed: 1.., .. } => more_jobs,
            _ => self.jobs,
        };
        let most = (workers * JOBS_PER_WORKER).max(JOBS_STEP);
        self.jobs = jobs.clamp(JOBS_STEP, most);
        let (least, largest) = self.batches;
        let batch = match signs {
            Signs { debt: true, .. } => self.batch / 2,
            Signs { slow: true, .. } | Signs { sealed: 2.., .. } => self.batch + least,
            _ => self.batch,
        };
        self.batch = batch.clamp(least, largest);
    }

    /// Rule 4.
    fn slots(&self) -> usize {
        let slots = self.jobs - (self.jobs / 4).max(1);
        let most = if self.compaction_jobs > 0 { self.compaction_jobs } else { usize::MAX };
        slots.clamp(1, most)
    }
}

impl Schedule for Adoc {
    fn name(&self) -> &'static str {
        "adoc"
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        self.watch(signals.now, running);
        if let Some(signs) = self.signs(signals) {
            self.tune(signs, signals.workers);
        }
        let busy = running.iter().filter(|job| takes_slot(&job.candidate)).count();
        let slots = self.slots().saturating_sub(busy);
        let start = self.queue.start(slots, candidates, |_, _| true);
        let works = !candidates.is_empty() || !running.is_empty();
        Grants {
            start,
            // With nothing to choose from, the options' size is in force.
            memtable_bytes: Some(self.batch).filter(|_| self.batches.0 < self.batches.1),
            again: self.begun.map(|begun| begun + self.interval).filter(|_| works),
            ..Grants::default()
        }
    }
}

#[cfg(test)]
mod tests;
