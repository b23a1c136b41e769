//! `dlc`: compaction of L0 is delayed while the clients' load is high.
//!
//! Source: "DLC: A New Compaction Scheme for LSM-tree with High Stability and Low Latency" (2021),
//! §3 to §5. T is the device's bandwidth: `device_bandwidth`, else the least measured throughput.
//! While T is unknown, this schedule is `fifo`. The slots are those of `fifo`. A *deeper* job is a
//! job out of L1 or a level below it.
//! 1. *Load.* Once an interval (1 s) a model computes the clients' load (`load.rs`; Eq. 6).
//! 2. *High or low.* At first the load is low. Above `io_high_limit` it is high. After `softness`
//!    intervals in succession below `io_low_limit` it is low again.
//! 3. *Delay.* While the load is high, no job out of L0 starts (`delay = full`), or L0→L1 does not
//!    start but merges within L0 do (`part`). At most one deeper job goes on.
//! 4. *Burst.* L0 bursts while the load is high and L0 has `burst_runs` runs or `burst_bytes`
//!    bytes. `full` starts L0→L1 again and again until the shape has nothing left to move down.
//!    `part` counts and merges only runs straight from a flush. The merged run is not merged again,
//!    and after four such merges comes a full burst. A tree has one job of a burst at a time.
//! 5. *Low.* While the load is low, the slots are assigned as in `fifo`.
//! 6. *Bandwidth* (Eq. 2). The limit of all jobs together is T − load; it counts reads and writes
//!    (§4.2). Flushes are never delayed.
//!
//! Readings, where the paper is silent:
//! - "DLC is an improved version of SILK (also an optimization of RocksDB)" (§4). §4.1 replaces
//!   SILK's delay of deeper jobs by its own, so the slots of a low load are RocksDB's: no priority
//!   for L0, no preemption;
//! - a part merges flushed runs within L0, as in Fig. 5; §4.2 names "compaction from Immutable
//!   Memtable to L0", and §6.3 "selected SSTables in L0 to L1";
//! - between the two limits the state stays. It also stays when the intervals below the lower limit
//!   are interrupted;
//! - the limits are shares of T. By default these are Table 2's 300 and 180 of 350 MB/s;
//! - §3.2.2 computes the load by Eq. 5. The default is Eq. 6, which §3.2.1 proposes in its place;
//! - a job out of L0 that runs when the load turns high goes on to its end, because the paper
//!   delays scheduling. A paused job would hold L0 and L1 for the whole peak;
//! - deeper jobs are paused, except one. That one is a job that a burst waits for, else a job that
//!   is not paused yet, else the oldest;
//! - trivial moves cost the device nothing and are not delayed;
//! - a deeper job does not start before a job of a burst that it collides with;
//! - the load is one value for the store; bursts are by tree;
//! - for `resume full` §5 counts all runs of L0 and §6.3 counts the flushed ones, which is the same
//!   without parts. Ours counts all;
//! - a part counts when it is granted;
//! - an L0 with `burst_bytes` bytes always bursts fully, because parts do not shrink it.
//!
//! Deviations:
//! - the paper names no floor ("there must be some bandwidths allocated to flush", §4.1). Here
//!   flushes and jobs out of L0 share SILK's floor, 50 MB/s but at most a quarter of T, and the
//!   limit is never below it. A flush that starves would stop the writers, and a deeper job that
//!   starves would stop a burst;
//! - ε of Eq. 2 is zero, because the limit changes only once an interval;
//! - L0 bursts fully when it is at the bound of its shape, or when its writes are slowed down,
//!   whatever its number of runs. So no choice of sizes makes a tree wait until the load drops;
//! - the shape has to propose the merge of flushed runs (`merge_flushed` of `tiered_l0`). While too
//!   few flushed runs are idle, a full burst takes the place of a part;
//! - a manual compaction is delayed like any other job.
//!
//! Liveness. While the load is high, one deeper job goes on with the bandwidth that flushes leave.
//! Flushes leave some at the latest when the shape or the admission stops them. A burst starts as
//! soon as the jobs that it conflicts with have ended, and no new job takes their place. `burst =
//! none`, which exists for the paper's Fig. 4, waits until the load is low.
//!
//! Cost: O(trees · candidates) on top of `fifo`'s. State: the load, whether it is high, the parts
//! of each tree, the trees in a full burst, the queue.

use super::fifo::{Fifo, takes_slot};
use super::load::{LoadLimits, LoadMeter, LoadModel, LoadState};
use super::{Schedule, device_bandwidth};
use crate::candidate::{Candidate, Class, WithinL0};
use crate::decision::{Bandwidth, Counted, Grants};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Pressure, Running, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, BytesPerSec, JobId, Micros, Result, TreeId};

/// The rate of flushes and jobs out of L0 together, whatever the load (SILK (2019), §5).
const FLOOR: BytesPerSec = BytesPerSec(50 << 20);
/// The device's bandwidth ÷ this is the largest floor: SILK's floor was 50 of 200 MB/s.
const FLOOR_PART: u64 = 4;
/// Merges of flushed runs before a full compaction (DLC (2021), §6.3).
const PARTS: u32 = 4;

/// The jobs out of L0 that wait while the load is high (DLC (2021), §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delay {
    /// All jobs out of L0.
    Full,
    /// The jobs into L1. Merges within L0 continue.
    Part,
}

/// The reaction to an L0 that grows too large while the load is high (DLC (2021), §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Burst {
    /// Nothing.
    None,
    /// All of L0 goes into L1.
    Full,
    /// Flushed runs are merged into one, four times. Then all of L0 goes into L1.
    Part,
}

/// DLC's constants (DLC (2021), Table 2 and §6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DlcOptions {
    /// The model of the clients' load.
    pub load: LoadModel,
    /// The bytes that one get counts in the model `weighted`: ω′ of Eq. 5.
    pub weight: Bytes,
    /// The interval of the load: `time_interval`.
    pub interval: Micros,
    /// Intervals in succession below the lower limit that make the load low.
    pub softness: u64,
    /// The load is high above this share of the device's bandwidth.
    pub io_high_limit: f64,
    /// The load may be low below this share of the device's bandwidth.
    pub io_low_limit: f64,
    /// The jobs out of L0 that wait while the load is high.
    pub delay: Delay,
    /// The work of a burst.
    pub burst: Burst,
    /// Runs in L0 that start a burst.
    pub burst_runs: usize,
    /// Bytes in L0 that start a burst; 0 for no such limit.
    pub burst_bytes: Bytes,
}

impl Default for DlcOptions {
    fn default() -> Self {
        let limits = LoadLimits::default();
        Self {
            load: LoadModel::CacheMisses,
            weight: Bytes(16_000),
            interval: Micros(1_000_000),
            softness: limits.softness,
            io_high_limit: limits.high,
            io_low_limit: limits.low,
            delay: Delay::Full,
            burst: Burst::Full,
            burst_runs: 20,
            burst_bytes: Bytes::ZERO,
        }
    }
}

impl MechanismOptions for DlcOptions {
    fn check(&self) -> Result<()> {
        let rules = [
            (
                (1_000..=3_600_000_000).contains(&self.interval.0),
                "dlc.interval",
                "must be from 1 ms (1000) to an hour (3600000000)",
            ),
            (
                self.load != LoadModel::Weighted || self.weight.0 >= 1,
                "dlc.weight",
                "must be at least 1 byte where dlc.load is weighted: there would be no load",
            ),
            (self.softness >= 1, "dlc.softness", "must be at least 1 interval"),
            (
                self.io_high_limit > 0.0 && self.io_high_limit <= 1.0,
                "dlc.io_high_limit",
                "must be above 0 and at most 1: it is a share of the device's bandwidth",
            ),
            (
                self.io_low_limit > 0.0 && self.io_low_limit <= self.io_high_limit,
                "dlc.io_low_limit",
                "must be above 0 and at most io_high_limit",
            ),
            (self.burst_runs >= 1, "dlc.burst_runs", "must be at least 1"),
        ];
        all_hold(rules)
    }

    fn scale(&mut self, by: Scale) {
        self.interval = by.time(self.interval);
        if self.burst_bytes > Bytes::ZERO {
            self.burst_bytes = by.bytes(self.burst_bytes);
        }
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        let models = [LoadModel::Operations, LoadModel::CacheMisses, LoadModel::Weighted];
        self.load = pick.of(&models);
        self.interval = Micros(2_000);
        self.io_high_limit = pick.of(&[0.01, 0.1, 0.9]);
        self.io_low_limit = self.io_high_limit / 2.0;
        self.delay = pick.of(&[Delay::Full, Delay::Part]);
        self.burst = pick.of(&[Burst::Full, Burst::Part, Burst::None]);
        self.burst_runs = pick.of(&[3, 20]);
    }
}

/// DLC.
#[derive(Debug)]
pub struct Dlc {
    options: DlcOptions,
    /// T; zero for the least measured throughput.
    device: BytesPerSec,
    /// Runs in L0 at which flushes wait or writes are slowed down.
    l0_bound: usize,
    queue: Fifo,
    meter: LoadMeter,
    load: Option<BytesPerSec>,
    state: LoadState,
    /// Merges of flushed runs since the last L0→L1.
    parts: BTreeMap<TreeId, u32>,
    /// Trees in a full burst.
    bursting: BTreeSet<TreeId>,
}

/// Whether the job is a deeper one. At most one of these goes on while the load is high.
fn is_deeper(candidate: &Candidate) -> bool {
    matches!(candidate.frees, Class::Level(_)) && candidate.kind != JobKind::TrivialMove
}

impl Mechanism for Dlc {
    const WHAT: &'static str =
        "DLC: no compaction of L0 while clients load the device, except in bursts";
    type Options = DlcOptions;

    fn new(tree: &TreeOptions, own: &DlcOptions) -> Result<Self> {
        let limits =
            LoadLimits { high: own.io_high_limit, low: own.io_low_limit, softness: own.softness };
        Ok(Self {
            device: tree.device_bandwidth,
            l0_bound: tree.l0_max.min(tree.l0_slowdown),
            queue: Fifo::of(tree),
            meter: LoadMeter::new(own.load, own.weight, own.interval),
            load: None,
            state: LoadState::new(limits, own.interval),
            parts: BTreeMap::new(),
            bursting: BTreeSet::new(),
            options: own.clone(),
        })
    }
}

impl Dlc {
    /// Rules 1 and 2.
    fn classify(&mut self, signals: &Signals, device: BytesPerSec) {
        let load = self.meter.sample(signals);
        self.load = load.or(self.load);
        self.state.note(signals.now, load, device);
    }

    /// Rule 4: one candidate for each tree whose L0 must burst.
    fn bursts(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Vec<usize> {
        let into_l1 = |job: &Candidate| job.frees == Class::L0 && job.output_level > 0;
        let mut bursts = Vec::new();
        for (tree, pressure) in &signals.pressure {
            let of_tree = |job: &&Candidate| job.tree == *tree;
            let jobs = running.iter().map(|job| &*job.candidate).filter(of_tree);
            let merging = jobs.clone().any(|job| job.frees == Class::L0);
            let left = candidates.iter().copied().filter(of_tree).any(into_l1);
            if !left && !jobs.clone().any(into_l1) {
                self.bursting.remove(tree);
            }
            if !merging {
                bursts.extend(self.burst(*tree, pressure, candidates));
            }
        }
        bursts
    }

    fn burst(
        &mut self,
        tree: TreeId,
        pressure: &Pressure,
        candidates: &[&Candidate],
    ) -> Option<usize> {
        let options = &self.options;
        let by_bytes =
            options.burst_bytes > Bytes::ZERO && pressure.l0_bytes >= options.burst_bytes;
        let must = by_bytes || pressure.l0_runs >= self.l0_bound || self.bursting.contains(&tree);
        let due = match options.burst {
            Burst::None => false,
            Burst::Full => must || pressure.l0_runs >= options.burst_runs,
            Burst::Part => must || pressure.l0_flushed >= options.burst_runs,
        };
        if !due {
            return None;
        }
        let of = |within: bool| {
            let wanted = move |candidate: &Candidate| {
                let merges = candidate.kind == JobKind::MergeWithin;
                candidate.tree == tree && candidate.frees == Class::L0 && merges == within
            };
            (0..candidates.len()).filter(move |&index| wanted(candidates[index]))
        };
        let parts = self.parts.get(&tree).copied().unwrap_or(0);
        let part = options.burst == Burst::Part && !must && parts < PARTS;
        // The shape lists the merge of flushed runs last.
        let merge = if part { of(true).next_back() } else { None };
        merge.or_else(|| {
            let full = of(false).next();
            if full.is_some() {
                self.bursting.insert(tree);
            }
            full
        })
    }

    /// The deeper jobs that are paused: all except the one that goes on.
    fn beyond_one(candidates: &[&Candidate], burst: &[usize], running: &[Running]) -> Vec<JobId> {
        let awaited = |job: JobId| burst.iter().any(|&b| candidates[b].conflicts.contains(&job));
        let deeper = || running.iter().filter(|job| is_deeper(&job.candidate));
        let kept = deeper()
            .min_by_key(|job| (!awaited(job.job), job.paused_since.is_some(), job.job))
            .map(|job| job.job);
        deeper().map(|job| job.job).filter(|job| Some(*job) != kept).collect()
    }

    /// Counts the parts among the jobs that start.
    fn count_parts(&mut self, candidates: &[&Candidate], start: &[usize], burst: &[usize]) {
        for &index in start {
            let candidate = candidates[index];
            let merges = candidate.kind == JobKind::MergeWithin;
            let moves = candidate.kind == JobKind::TrivialMove;
            if candidate.frees == Class::L0 && !merges && !moves {
                self.parts.remove(&candidate.tree);
            } else if merges && burst.contains(&index) {
                *self.parts.entry(candidate.tree).or_default() += 1;
            }
        }
    }

    /// Rule 6.
    fn bandwidth(&self, device: BytesPerSec) -> Option<Bandwidth> {
        let floor = FLOOR.min(device / FLOOR_PART);
        let limit = device.saturating_sub(self.load?).max(floor);
        let counted = Counted::ReadAndWritten;
        Some(Bandwidth { limit, floor, counted, ..Bandwidth::default() })
    }
}

impl Schedule for Dlc {
    fn name(&self) -> &'static str {
        "dlc"
    }

    fn needs_device(&self) -> bool {
        self.device == BytesPerSec::ZERO
    }

    fn check(&self, offered: WithinL0) -> Result<()> {
        let runs =
            offered.flushed.is_some_and(|from| (2..=self.options.burst_runs).contains(&from));
        all_hold([
            (
                self.options.burst != Burst::Part || runs,
                "dlc.burst",
                "part needs a shape that proposes to merge from 2 to dlc.burst_runs flushed runs: \
                 tiered_l0 with merge_flushed",
            ),
            (
                self.options.delay != Delay::Part || offered.any,
                "dlc.delay",
                "part needs a shape that proposes merges within L0 while L0→L1 waits: tiered_l0 \
                 with intra_l0 and intra_l0_beside",
            ),
        ])
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        let device = device_bandwidth(self.device, signals);
        if let Some(device) = device {
            self.classify(signals, device);
        }
        let high = self.state.high;
        if !high {
            self.bursting.clear();
        }
        let delay = self.options.delay;
        let (mut burst, mut paused) = (Vec::new(), Vec::new());
        if high {
            burst = self.bursts(signals, candidates, running);
            paused = Self::beyond_one(candidates, &burst, running);
        }
        let goes_on = |job: &&Running| takes_slot(&job.candidate) && !paused.contains(&job.job);
        let busy = running.iter().filter(goes_on).count();
        let slots = self.queue.slots(signals).saturating_sub(busy);
        let deeper_runs = running.iter().any(|job| is_deeper(&job.candidate));
        let start = self.queue.start(slots, candidates, |index, granted| {
            let candidate = candidates[index];
            if !high || candidate.kind == JobKind::TrivialMove {
                return true;
            }
            match candidate.frees {
                Class::Memtable => true,
                Class::L0 => {
                    let merges = candidate.kind == JobKind::MergeWithin;
                    burst.contains(&index) || delay == Delay::Part && merges
                }
                Class::Level(_) => {
                    !deeper_runs
                        && !granted.iter().any(|&other| is_deeper(candidates[other]))
                        && !burst.iter().any(|&first| candidates[first].collides(candidate))
                }
            }
        });
        self.count_parts(candidates, &start, &burst);
        let known = |tree: &TreeId| signals.pressure.iter().any(|(known, _)| known == tree);
        self.parts.retain(|tree, _| known(tree));
        self.bursting.retain(known);
        // The next decision is at the end of the interval while there are jobs, candidates or load.
        // If calls were rare, a mean would hide a peak.
        let ends = self.meter.due();
        let loaded = self.load.is_some_and(|load| load > BytesPerSec::ZERO);
        let works = !candidates.is_empty() || !running.is_empty() || loaded;
        Grants {
            start,
            paused,
            bandwidth: device.and_then(|device| self.bandwidth(device)),
            again: ends.filter(|_| works),
            ..Grants::default()
        }
    }
}

#[cfg(test)]
mod tests;
