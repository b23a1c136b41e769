//! `silk`: SILK's I/O scheduler. Jobs get the bandwidth that clients leave, and L0 comes first.
//!
//! Source: "SILK: Preventing Latency Spikes in Log-Structured Merge Key-Value Stores" (2019), §5. A
//! *deeper* job is a job out of L1 or a level below it.
//!
//! *Bandwidth* (§5.2.1), once every `window`:
//! 1. C is the load of the clients in the last window (`load.rs`; SILK's own model is Eq. 1 of DLC
//!    (2021)). T is the device's bandwidth, and I = T − C − ε. A new I comes into force when it
//!    differs from the I in force by `step` or more;
//! 2. I limits the bytes that jobs write. Flushes may use all of it, whatever other jobs have
//!    taken. Flushes and jobs out of L0 have `floor` together, also when I is smaller;
//! 3. while the I in force is at most the floor, deeper jobs are paused and none starts. With
//!    `pause = high_load` they are paused while the load is high by DLC's analysis ([`LoadState`]).
//!    DLC (2021), §6.1, replaces SILK's model by its own, which has both functions.
//!
//! *Slots* (§5.2.2):
//!
//! 4. flushes start at once and take no slot. Trivial moves take no slot either, because they do no
//!    I/O;
//! 5. L0→L1 and L0→L0 come next. A tree has at most one L0→L1 at a time. If no slot is free because
//!    deeper jobs hold them, one of these jobs, picked at random, is preempted: it is paused until
//!    a slot is free again;
//! 6. if a job out of L0 conflicts with deeper jobs only, these are cancelled, their partial work
//!    is discarded, and the job starts. If it conflicts with any other job, it waits;
//! 7. deeper jobs get the slots that L0 leaves. Preempted jobs resume first, in the order in which
//!    they were preempted. Then candidates start. Trees take turns, as in `fifo`.
//!
//! *Options* that the paper does not have. All are off by default and in the paper's profiles:
//!
//! 8. `overtakes_max`, *turns*: this many times in a row L0→L1 may go ahead of a tree's jobs out of
//!    L1, or cancel them. Then these jobs have their turn: they take slots by preemption, as in
//!    rule 5, and L0→L1 waits for them. They have no turn while rule 3 pauses them. It wastes less
//!    work and slows the growth of L1 under a load without valleys. It costs what the paper rules
//!    out: L0→L1 waits behind higher-level compactions, while runs pile up in L0;
//! 9. `deeper_slot`: L0 never has the last slot, and there are at least two slots. So deeper levels
//!    are served although as many trees as there are slots have work in L0. It costs L0 a slot. It
//!    changes nothing for one tree with three slots;
//! 10. `resume_for_writers`: rule 3 does not apply while a writer waits for a memtable, or waits
//!     where the tree has reached the bound at which writes stop. It costs the readers bandwidth
//!     while their load is high. A tree whose `overflow` bounds its levels demands it, because
//!     there a flush may need a job out of L1 (`vlsm+silk` sets it).
//!
//! Readings, where the paper is silent:
//! - compaction as a whole is paused while I is at most the floor. "Flushing and L0 to L1
//!   compactions proceed at 50 MB/s if SILK paused the other internal operations" (§6.1), so an I
//!   of the floor leaves nothing for deeper jobs. The published code pauses when the clients take
//!   more than 150 of 200 MB/s, which is the same except for ε;
//! - ε is as large as the step, because it covers the fluctuations that the step ignores;
//! - the floor is at most half of T; ε and the step are at most a tenth of T each. So without load
//!   I exceeds the floor on any device, and no device pauses jobs for ever. While T is unknown,
//!   nothing is limited and nothing is paused;
//! - the limit counts bytes written, as RocksDB's rate limiter does. So T is the rate at which jobs
//!   may write;
//! - scans count as reads. DLC (2021), §3.2.1, says that SILK's model lacks them;
//! - a job out of L0 that "moves to the high-priority pool" is a job that is never paused. Its
//!   thread stays niced, because the paper's pools are about slots. It takes a slot, and while rule
//!   3 pauses the deeper jobs all slots are free;
//! - "L0 to L1 compactions do not wait behind higher-level compactions" holds for each of these,
//!   not only for the one that is picked at random: rule 6 cancels every deeper job that stands in
//!   the way;
//! - "at most one L0 to L1 compaction" is one a tree, because the reason, overlapping runs, ends at
//!   the tree;
//! - every job that comes before deeper jobs may preempt and cancel. So may a merge of memtables
//!   straight into L1 (`sp_lsm`);
//! - the number of slots is `compaction_jobs` (3 in the profiles: four threads, with the one that
//!   flushes);
//! - Fig. 8C runs each part alone. `bandwidth` alone is one limit for all jobs, I but at least the
//!   floor, and the slots of `fifo`. It pauses and preempts nothing. (A worker with two jobs still
//!   steps the more urgent one.) `scheduling` alone knows neither the load nor a limit, so rule 3
//!   does not apply.
//!
//! Deviations:
//! - jobs out of L0 take all of the bandwidth that they can use before deeper jobs, which share the
//!   rest by level. In the paper "each thread gets a similar share of the resources" (§5.2.2);
//! - with `bandwidth` alone flushes still come before other jobs, as in RocksDB's own limiter. In
//!   the paper's Fig. 8C "the urgent internal operations are slowed down" (§6.5);
//! - chunks that a preempted job has handed over for writing are still written: at most 4 MB a job;
//! - the published code never preempted a running job, and it could leave compaction paused after a
//!   peak. Ours preempts a job at its next quantum, and every pause ends.
//!
//! The cost of the rules as written. L0→L1 may be due again as soon as it is merged. From then on
//! no job out of L1 ends, L1 grows, and each L0→L1 takes longer. In the closed loop of our tests
//! this begins at 70 % of the rate that the store sustains in the end, if the load has no valley:
//! L1 grows as long as the load lasts, and it is compacted in the next valley. That is the paper's
//! own limit: "the system cannot allocate enough resources to the internal work" in long peaks
//! (§6.4). With a quarter of the time in valleys L1 stays at a few targets. Rule 8 slows the growth
//! by a fifth (4 overtakes) to a half (1), and does not end it. Where no L0→L1 is due nothing of
//! this happens, and where levels are bounded the shape proposes none while L1 is full.
//!
//! Liveness. Each decision names the paused jobs anew, by the I in force. While a job exists, even
//! a paused one, the next decision is at most a window away. Without load I exceeds the floor by
//! more than a step, so the first window without load ends the pause. Flushes never wait for a
//! slot, and L0→L1 waits only for jobs of its own class, which have the floor, so they end. So a
//! writer waits for ever only where a flush or an L0→L1 waits for a deeper job: behind the bound
//! of a level, while readers keep the load high. That is rule 10. Without it writes that
//! `debt_hard` stops stay stopped as long as the load is high. Deeper jobs get slots once no L0→L1
//! is due. Preempted jobs resume in order, and trees take turns.
//!
//! Cost: O(candidates² + candidates · running). State: the load and I, the queue, the preempted
//! jobs, one number a tree, and the random numbers, which repeat from run to run.

mod round;

use super::fifo::{Fifo, TreeQueue, fits, is_free, takes_slot};
use super::load::{LoadLimits, LoadMeter, LoadModel, LoadState};
use super::{Schedule, device_bandwidth};
use crate::candidate::{Candidate, Class};
use crate::decision::{Bandwidth, Counted, Grants};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Counters, Running, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use round::{Round, Verdict, is_deeper, is_deeper_job};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vlsm_core::{Bytes, BytesPerSec, JobId, Micros, Result, TreeId};

/// The least slots with `deeper_slot`: one for jobs out of L0, one for deeper jobs.
const SLOTS_MIN: usize = 2;
/// The seed of the random numbers.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The load that pauses deeper jobs (rule 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pause {
    /// A load that leaves jobs no more than the floor.
    Floor,
    /// A load that is high by DLC's analysis and the limits of its Table 2 (DLC (2021), §3.2.2).
    HighLoad,
}

/// SILK's constants (SILK (2019), §5.2 and §6.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SilkOptions {
    /// Limit what jobs write by the load of the clients (Fig. 8C).
    pub bandwidth: bool,
    /// Priorities and preemption. Without them slots are assigned as in `fifo` (Fig. 8C).
    pub scheduling: bool,
    /// The model of the clients' load.
    pub load: LoadModel,
    /// The bytes that one get counts in the model `weighted`: ω′ of Eq. 5 of DLC (2021).
    pub weight: Bytes,
    /// The window of the load. Smaller experiments keep it: their rates are the same, so a shorter
    /// window would count too few operations, and the load would be noise.
    pub window: Micros,
    /// ε: the bandwidth that stays unused.
    pub margin: BytesPerSec,
    /// The least change of the limit.
    pub step: BytesPerSec,
    /// The rate of flushes and jobs out of L0 together, whatever the load.
    pub floor: BytesPerSec,
    /// The load that pauses deeper jobs.
    pub pause: Pause,
    /// Rule 8: the most times in a row that L0→L1 may go ahead of a tree's jobs out of L1 before
    /// these have their turn; 0 for any number of times.
    pub overtakes_max: u32,
    /// Rule 9: keep one slot for deeper jobs, whatever L0 has to do.
    pub deeper_slot: bool,
    /// Rule 10: deeper jobs go on under a high load while a writer waits.
    pub resume_for_writers: bool,
}

impl Default for SilkOptions {
    fn default() -> Self {
        Self {
            bandwidth: true,
            scheduling: true,
            load: LoadModel::Operations,
            weight: Bytes(16_000),
            window: Micros(10_000),
            margin: BytesPerSec(10 << 20),
            step: BytesPerSec(10 << 20),
            floor: BytesPerSec(50 << 20),
            pause: Pause::Floor,
            overtakes_max: 0,
            deeper_slot: false,
            resume_for_writers: false,
        }
    }
}

impl MechanismOptions for SilkOptions {
    fn check(&self) -> Result<()> {
        let rules = [
            (
                self.bandwidth || self.scheduling,
                "silk.scheduling",
                "must be on where silk.bandwidth is off: with neither it is the schedule fifo",
            ),
            (
                (1_000..=60_000_000).contains(&self.window.0),
                "silk.window",
                "must be from 1 ms (1000) to 60 s (60000000)",
            ),
            (
                self.load != LoadModel::Weighted || self.weight.0 >= 1,
                "silk.weight",
                "must be at least 1 byte where silk.load is weighted: there would be no load",
            ),
            (
                self.floor.0 >= 1 << 20,
                "silk.floor",
                "must be at least 1 MB/s, or flushes would stop while clients are busy",
            ),
            (
                self.overtakes_max <= 1 << 20,
                "silk.overtakes_max",
                "must be at most 1048576, or 0 for any number of times",
            ),
        ];
        all_hold(rules)
    }

    /// SILK's window of 10 ms stays what it is. DLC's interval is one of its load.
    fn scale(&mut self, by: Scale) {
        if self.pause == Pause::HighLoad {
            self.window = by.time(self.window);
        }
    }

    fn shrink(&mut self, tree: &TreeOptions, pick: &mut Pick<'_>) {
        let models = [LoadModel::Operations, LoadModel::CacheMisses, LoadModel::Weighted];
        self.load = pick.of(&models);
        self.window = Micros(1_000);
        self.pause = pick.of(&[Pause::Floor, Pause::Floor, Pause::HighLoad]);
        (self.bandwidth, self.scheduling) =
            pick.of(&[(true, true), (true, true), (true, false), (false, true)]);
        self.overtakes_max = pick.of(&[0, 0, 1, 4]);
        self.deeper_slot = pick.of(&[false, true]);
        self.resume_for_writers = pick.of(&[false, true]) || tree.overflow.is_some();
    }
}

/// SILK.
#[derive(Debug)]
pub struct Silk {
    options: SilkOptions,
    /// T; zero for the least measured throughput.
    device: BytesPerSec,
    /// 0 for as many as there are workers.
    compaction_jobs: usize,
    meter: LoadMeter,
    state: LoadState,
    /// C.
    load: BytesPerSec,
    /// I in force.
    rate: Option<BytesPerSec>,
    /// Assigns the slots when `scheduling` is off.
    fifo: Fifo,
    trees: TreeQueue,
    /// Deeper jobs without a slot, in the order in which they lost it.
    preempted: Vec<JobId>,
    /// With `overtakes_max`, the number of times in a row that L0→L1 of a tree went ahead. One more
    /// than the maximum while the jobs out of L1 have their turn.
    overtaken: BTreeMap<TreeId, u32>,
    random: u64,
}

/// The bandwidth of the jobs.
#[derive(Debug, Clone, Copy)]
struct Internal {
    rate: BytesPerSec,
    floor: BytesPerSec,
    /// The load pauses deeper jobs.
    pauses: bool,
}

/// Whether a writer waits for jobs: for a memtable, or because a tree has reached the bound at
/// which writes stop.
fn writers_wait(signals: &Signals) -> bool {
    let stopped = || signals.pressure.iter().any(|(_, pressure)| pressure.stop >= 1.0);
    let Counters { stopped_writers, waiting_writers, .. } = signals.counters;
    stopped_writers > 0 || (waiting_writers > 0 && stopped())
}

fn count_of(overtaken: &BTreeMap<TreeId, u32>, tree: TreeId) -> u32 {
    overtaken.get(&tree).copied().unwrap_or(0)
}

impl Mechanism for Silk {
    const WHAT: &'static str =
        "SILK: jobs get the bandwidth that clients leave; L0 preempts deeper jobs";
    type Options = SilkOptions;

    fn new(tree: &TreeOptions, own: &SilkOptions) -> Result<Self> {
        let pauses = own.bandwidth && own.scheduling;
        all_hold([(
            own.resume_for_writers || tree.overflow.is_none() || !pauses,
            "silk.resume_for_writers",
            "must be on where overflow bounds the levels: a flush may need a job out of L1, which \
             a load of reads would pause for ever",
        )])?;
        Ok(Self {
            device: tree.device_bandwidth,
            compaction_jobs: tree.compaction_jobs,
            meter: LoadMeter::new(own.load, own.weight, own.window),
            state: LoadState::new(LoadLimits::default(), own.window),
            load: BytesPerSec::ZERO,
            rate: None,
            fifo: Fifo::of(tree),
            trees: TreeQueue::default(),
            preempted: Vec::new(),
            overtaken: BTreeMap::new(),
            random: SEED,
            options: own.clone(),
        })
    }
}

impl Silk {
    /// Rules 1 and 3.
    fn internal(&mut self, signals: &Signals) -> Option<Internal> {
        let sample = self.meter.sample(signals);
        self.load = sample.unwrap_or(self.load);
        let total = device_bandwidth(self.device, signals)?;
        let high = self.state.note(signals.now, sample, total);
        let margin = self.options.margin.min(total / 10);
        let step = self.options.step.min(total / 10);
        let now = total.saturating_sub(margin).saturating_sub(self.load);
        let rate = match self.rate {
            Some(rate) if rate.0.abs_diff(now.0) < step.0 => rate,
            _ => now,
        };
        self.rate = Some(rate);
        let floor = self.options.floor.min(total / 2);
        let pauses = match self.options.pause {
            Pause::Floor => rate <= floor,
            Pause::HighLoad => high,
        };
        Some(Internal { rate, floor, pauses })
    }

    /// A random number below `count`, which is not zero.
    fn random(&mut self, count: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize % count
    }

    /// Rules 4 to 9.
    fn assign(
        &mut self,
        slots: usize,
        candidates: &[&Candidate],
        running: &[Running],
        by_load: bool,
    ) -> Grants {
        let (start, cancel) = (Vec::new(), Vec::new());
        let overtakes_max = Some(self.options.overtakes_max).filter(|max| *max > 0);
        let mut round = Round { candidates, running, by_load, overtakes_max, start, cancel };
        self.trees.update(candidates);
        // A held candidate stays held whatever starts beside it: a merge within L0 does not end a
        // turn.
        let is_held = |&index: &usize| {
            let candidate = candidates[index];
            let overtaken = count_of(&self.overtaken, candidate.tree);
            !is_deeper(candidate) && round.verdict(index, overtaken) == Verdict::Hold
        };
        let held: Vec<usize> = (0..candidates.len()).filter(is_held).collect();
        self.start_urgent(&mut round, slots);
        let room = slots.saturating_sub(round.l0_jobs());
        let room = room - self.give_turns(&mut round, &held, room);
        let (free, paused) = self.share(&round, room);
        self.start_deeper(&mut round, &held, free);
        Grants { start: round.start, cancel: round.cancel, paused, ..Grants::default() }
    }

    /// Rules 4 to 6 and 9: flushes, then jobs out of L0.
    fn start_urgent(&mut self, round: &mut Round<'_>, slots: usize) {
        let candidates = round.candidates;
        for (index, candidate) in candidates.iter().enumerate() {
            let overtaken = count_of(&self.overtaken, candidate.tree);
            if candidate.frees == Class::Memtable
                && round.verdict(index, overtaken) == Verdict::Start
            {
                self.start(round, index);
            }
        }
        let slots = slots - usize::from(self.options.deeper_slot);
        loop {
            let free = round.l0_jobs() < slots;
            let overtaken = &self.overtaken;
            let next = self.trees.next(candidates, |index| {
                let candidate = candidates[index];
                let overtaken = count_of(overtaken, candidate.tree);
                candidate.frees == Class::L0
                    && (free || !takes_slot(candidate))
                    && round.verdict(index, overtaken) == Verdict::Start
            });
            let Some(index) = next else { break };
            self.start(round, index);
        }
    }

    /// Starts a candidate that comes before deeper jobs, cancels the jobs that it conflicts with,
    /// and counts how often it went ahead (rule 8).
    fn start(&mut self, round: &mut Round<'_>, index: usize) {
        let candidate = round.candidates[index];
        if let Some(max) = round.overtakes_max
            && round.overtakes(index)
        {
            let count = self.overtaken.entry(candidate.tree).or_default();
            let turn_over = *count > max && candidate.conflicts.is_empty();
            *count = if turn_over { 1 } else { (*count + 1).min(max) };
        } else if candidate.output_level > 0 {
            self.overtaken.remove(&candidate.tree);
        }
        for job in &candidate.conflicts {
            if !round.cancel.contains(job) {
                round.cancel.push(*job);
            }
        }
        round.start.push(index);
    }

    /// Rule 8: a held candidate waits for the deeper jobs that it conflicts with. If none of these
    /// runs, its rivals start. Returns the number of slots that the rivals take.
    fn give_turns(&mut self, round: &mut Round<'_>, held: &[usize], room: usize) -> usize {
        let mut taken = 0;
        for &index in held {
            let candidate = round.candidates[index];
            let mut begun = !candidate.conflicts.is_empty();
            let rivals: Vec<usize> = if begun { Vec::new() } else { round.rivals(index).collect() };
            for rival in rivals {
                let slot = usize::from(takes_slot(round.candidates[rival]));
                if taken + slot <= room && fits(rival, round.candidates, &round.start) {
                    round.start.push(rival);
                    taken += slot;
                    begun = true;
                }
            }
            if begun {
                self.overtaken.insert(candidate.tree, self.options.overtakes_max + 1);
            }
        }
        taken
    }

    /// Rules 3, 5 and 7 for the running deeper jobs. Returns the number of slots that they leave
    /// free, and the jobs that are paused.
    fn share(&mut self, round: &Round<'_>, room: usize) -> (usize, Vec<JobId>) {
        let deeper = round.running.iter().filter(|job| is_deeper_job(&job.candidate));
        let deeper: Vec<JobId> =
            deeper.map(|job| job.job).filter(|job| !round.cancel.contains(job)).collect();
        self.preempted.retain(|job| deeper.contains(job));
        if round.by_load {
            return (0, deeper);
        }
        let mut active = deeper;
        active.retain(|job| !self.preempted.contains(job));
        while active.len() > room {
            let victim = self.random(active.len());
            self.preempted.push(active.swap_remove(victim));
        }
        let resumed = self.preempted.len().min(room - active.len());
        self.preempted.drain(..resumed);
        (room - active.len() - resumed, self.preempted.clone())
    }

    /// Rule 7: starts deeper candidates, except those that would delay a held candidate further.
    fn start_deeper(&mut self, round: &mut Round<'_>, held: &[usize], mut free: usize) {
        let candidates = round.candidates;
        loop {
            let next = self.trees.next(candidates, |index| {
                let candidate = candidates[index];
                is_deeper(candidate)
                    && (free > 0 || !takes_slot(candidate))
                    && is_free(index, candidates, &round.start)
                    && !held.iter().any(|&held| candidates[held].collides(candidate))
            });
            let Some(index) = next else { break };
            free -= usize::from(takes_slot(candidates[index]));
            round.start.push(index);
        }
    }
}

impl Schedule for Silk {
    fn name(&self) -> &'static str {
        "silk"
    }

    fn needs_device(&self) -> bool {
        self.options.bandwidth && self.device == BytesPerSec::ZERO
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        let internal = if self.options.bandwidth { self.internal(signals) } else { None };
        let scheduling = self.options.scheduling;
        let mut grants = if scheduling {
            let jobs = self.compaction_jobs;
            let slots = if jobs > 0 { jobs } else { signals.workers };
            let least = if self.options.deeper_slot { SLOTS_MIN } else { 1 };
            let by_load = internal.is_some_and(|internal| internal.pauses)
                && !(self.options.resume_for_writers && writers_wait(signals));
            self.assign(slots.max(least), candidates, running, by_load)
        } else {
            self.fifo.decide(signals, candidates, running)
        };
        // The jobs with the floor exceed any limit below it, so a lower limit would only put them
        // in debt.
        grants.bandwidth = internal.map(|internal| Bandwidth {
            limit: internal.rate.max(internal.floor),
            floor: if scheduling { internal.floor } else { BytesPerSec::ZERO },
            counted: Counted::Written,
            in_turn: !scheduling,
            ..Bandwidth::default()
        });
        let idle = candidates.is_empty() && running.is_empty();
        grants.again = self.meter.due().filter(|_| internal.is_some() && !idle);
        grants
    }
}

#[cfg(test)]
mod tests;
