//! `adoc`: the number of background jobs and the size of a batch follow what overflows.
//!
//! Source: Yu, Noh, Choi, Xue: "ADOC: Automatically Harmonizing Dataflow Between Components in
//! Log-Structured Key-Value Stores for Improved Performance" (FAST 2023). The constants and the
//! order of the rules are those of its published code: `FEAT_Tuner` in the repository
//! supermt/FEAT_7.11, and the same code in the repositories of others. The published code runs with
//! both parts, for threads and for batches. Data overflows where more comes in than goes out. It
//! overflows in memory (MMO: memtables wait because flushes are slow), in L0 (L0O), and as
//! redundant data, the bytes that compaction owes (RDO).
//! 1. Once an interval (1 s) in which a flush ended, the signs are read: the mean speed of these
//!    flushes, the number of sealed memtables, the runs in L0, and the bytes owed. In an interval
//!    without a flush nothing changes, and the first one with a flush does not count. A flush is
//!    slow below half of the best mean of any interval that counts.
//! 2. *Jobs*. At L0's slowdown trigger (L0O) or at the soft limit of debt (RDO): 2 more. Else, if
//!    flushes are slow (MMO: too many jobs share the device with them): half as many. Else, while a
//!    memtable is sealed: 2 more. The number is between 2 and two a worker.
//! 3. *Batch*, the size at which memtables are sealed. At the soft limit of debt (RDO): half. Else,
//!    if flushes are slow or more than one memtable is sealed (MMO): one initial batch more. The
//!    size is between the initial batch (64 MB) and `memtable_bytes`. An SST is as large as a
//!    batch, and the target of L1 is as many batches as start an L0→L1. The shape sees to that:
//!    rule 8 of `tiered_l0` (`follow_memtables`, which the profile sets).
//! 4. A quarter of the jobs, at least one, is for flushes. The rest are slots for compactions, as
//!    RocksDB divides `max_background_jobs`. The number of jobs is 2 at first. The slots are
//!    assigned as in `fifo`.
//!
//! Readings and deviations:
//! - the paper speaks of L0, where the published code counts the files of its *base level*, which
//!   is L1. Ours counts the runs of L0;
//! - in some versions of the published code a batch grows although no memtable is sealed, with a
//!   message that says the opposite. Ours leaves that out;
//! - the published code sets three options at once: the sizes of a memtable, of an SST and of L1.
//!   Here the schedule sets the first, and the shape derives the others. Over another shape, or
//!   without its option, SSTs and L1 keep their sizes;
//! - a smaller batch lowers the targets of all levels, which raises the debt that made it smaller.
//!   So it is in the published code. It ends at the initial batch;
//! - the published code bounds the jobs by the number of cores. Here a worker carries two jobs,
//!   because our workers do not block on the device as RocksDB's threads do. `compaction_jobs`
//!   bounds the slots as well;
//! - the speed of a flush is its bytes ÷ the time from its start to its install;
//! - of several trees the worst counts, and the sealed memtables are those of the busiest tree.
//!
//! Liveness: there is always a slot, and memtables are sealed at a size above zero.
//!
//! Cost: O(running · flushes + trees) on top of `fifo`'s. State: the jobs, the batch, the running
//! flushes, the best speed.

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
/// The fewest jobs, and the step by which their number grows.
const JOBS_STEP: usize = 2;
/// The most jobs for each worker.
const JOBS_PER_WORKER: usize = 2;

/// ADOC's constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AdocOptions {
    /// The interval of tuning.
    pub interval: Micros,
    /// The initial and least size at which memtables are sealed, and the step by which it grows.
    /// `memtable_bytes` is the largest size. If it is no larger than this one, the size is
    /// constant.
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

/// A running flush.
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
    /// The most compactions that run at the same time; 0 for no such limit.
    compaction_jobs: usize,
    queue: Fifo,
    jobs: usize,
    batch: Bytes,
    /// The beginning of the interval.
    begun: Option<Micros>,
    flushes: Vec<Flush>,
    /// The sum of the bytes per second of the flushes that ended in the interval, and their number.
    ended: (f64, u32),
    /// The best mean of an interval; none before the first interval with a flush has ended.
    best: Option<f64>,
}

/// The signs of overflow, read once an interval (rule 1).
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
    const WHAT: &'static str = "ADOC: number of jobs and size of batches follow what overflows";
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
            best: None,
        })
    }
}

impl Adoc {
    /// Measures the time of each flush.
    fn watch(&mut self, now: Micros, running: &[Running]) {
        let ended = &mut self.ended;
        self.flushes.retain(|flush| {
            let goes_on = running.iter().any(|job| job.job == flush.job);
            if !goes_on {
                // A flush that is too short to measure counts as a microsecond.
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

    /// Rule 1: the signs, once for each interval in which a flush ended.
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
        let Some(best) = self.best else {
            self.best = Some(0.0);
            return None;
        };
        let slow = speed < best * SLOW;
        self.best = Some(best.max(speed));
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
            // If there is only one size, that of the options is in force.
            memtable_bytes: Some(self.batch).filter(|_| self.batches.0 < self.batches.1),
            again: self.begun.map(|begun| begun + self.interval).filter(|_| works),
            ..Grants::default()
        }
    }
}

#[cfg(test)]
mod tests;
