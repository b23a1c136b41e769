//! `priority`: CruiseDB's order of I/O. Jobs that free memory come first.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §VI.B and §VII ("I/O Scheduler"). The paper has three ranks of I/O. The first
//! rank, clients and the WAL, is outside of any schedule here. The second rank is *memory*: jobs
//! that free memtables, and jobs out of L0, which stands between memory and L1 in a tree with an
//! L0. The third rank is all other compactions, here called *deeper*.
//! 1. Jobs that free memtables start at once and take no slot. Other jobs take the slots: one a
//!    worker, unless `compaction_jobs` says otherwise. Trees take turns, and a tree starts the
//!    first of its candidates that may start, in the order of its shape.
//! 2. While memory has work, running or waiting, no deeper job starts, and running deeper jobs are
//!    paused and hold no slot. A deeper job that memory waits for is not paused.
//! 3. A level beyond `FAR` times its target goes before memory. Its jobs take the first slots.
//!    While one runs or starts, the memory jobs of the same tree wait, or are paused.
//! 4. Deeper work of a tree and level that has waited for `starvation` has its turn. One of its
//!    jobs goes on, or starts before memory's jobs, and runs to its end. Then the wait begins anew.
//! 5. Trivial moves do no I/O. They start as soon as what they need is free.
//!
//! While memory has no work, every candidate that can start starts, so no worker idles for the sake
//! of work that does not exist. The engine's workers take the more urgent job first as well. But
//! whenever that job waits for the device, they would go on with a deeper one. A pause keeps deeper
//! jobs off the device.
//!
//! Deviation. In the paper a request of I/O waits while more urgent requests are queued, and
//! compactions go on beside each other. Here whole jobs are paused as long as memory has work, even
//! while that work waits for a processor. So deeper levels get less. Under overload L1 may stay
//! near `FAR` times its target, where rule 3 takes effect.
//!
//! Readings:
//! - the paper names no time for the starvation. The published code lets a write wait for up to a
//!   second, and then each request that has waited for a second goes on. Here a whole job goes on:
//!   a merge that moves by one quantum a second would hold its tables for hours;
//! - deeper work whose turn has come also starts before memory. Otherwise work that conflicts with
//!   memory's jobs would never begin while these follow each other;
//! - rule 3 counts by tree, because a tree in trouble should not hold up the memory of another
//!   tree.
//!
//! Liveness. While memory has work, one of its jobs runs, can start, or waits. It waits for jobs
//! that are not paused (rule 2), or for jobs of a level beyond `FAR`, which wait for no others. So
//! one job always makes progress, and a paused job resumes at the latest when memory's work ends. A
//! shape does not propose a job whose tables a paused job holds; rule 4 ends that. As in `fifo`,
//! each start sends its tree behind all trees that wait.
//!
//! Cost: O(trees · candidates · started). State: the queue of trees and the waits.

use super::Schedule;
use super::fifo::{is_free, takes_slot};
use crate::candidate::{Candidate, Class};
use crate::decision::Grants;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Running, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vlsm_core::event::JobKind;
use vlsm_core::{JobId, Micros, Result, TreeId};

/// How many times its target a level must hold to go before memory (CruiseDB (2021), §VI.B).
const FAR: u64 = 5;

/// CruiseDB's order of I/O.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PriorityOptions {
    /// The longest time that compactions of deeper levels wait for jobs that free memory. The
    /// default is a second, as in the published code (`MAX_WAITING_TIME`).
    pub starvation: Micros,
}

impl Default for PriorityOptions {
    fn default() -> Self {
        Self { starvation: Micros(1_000_000) }
    }
}

impl MechanismOptions for PriorityOptions {
    fn check(&self) -> Result<()> {
        let why =
            "must be from 1 ms (1000), below which deeper compactions hardly wait, to an hour";
        all_hold([(
            (1_000..=3_600_000_000).contains(&self.starvation.0),
            "priority.starvation",
            why,
        )])
    }

    fn scale(&mut self, by: Scale) {
        self.starvation = by.time(self.starvation);
    }

    fn shrink(&mut self, _: &TreeOptions, _: &mut Pick<'_>) {
        self.starvation = Micros(5_000);
    }
}

/// The classes of work in this schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// A job out of a level far beyond its target.
    Far,
    /// A job that frees memory, or one out of L0.
    Memory,
    /// All other compactions.
    Deeper,
    /// A trivial move: no I/O.
    Move,
}

/// The wait of deeper work of one tree and level, while memory has work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Since(Micros),
    /// A candidate was granted, and no other job of this tree and level runs.
    Granted,
    /// This job runs to its end.
    Through(JobId),
}

/// Memory first.
#[derive(Debug)]
pub struct Priority {
    /// 0 for as many as there are workers.
    compaction_jobs: usize,
    starvation: Micros,
    /// Trees with something to start, in the order in which they first had it.
    queue: Vec<TreeId>,
    waits: BTreeMap<(TreeId, Class), Wait>,
}

/// One decision in the making.
struct Plan<'a> {
    candidates: &'a [&'a Candidate],
    running: &'a [Running],
    /// Levels far beyond their targets.
    far: Vec<(TreeId, u8)>,
    slots: usize,
    start: Vec<usize>,
    paused: Vec<JobId>,
}

impl Mechanism for Priority {
    const WHAT: &'static str = "CruiseDB: jobs that free memory come first and pause the others";
    type Options = PriorityOptions;

    fn new(tree: &TreeOptions, own: &PriorityOptions) -> Result<Self> {
        let (compaction_jobs, starvation) = (tree.compaction_jobs, own.starvation);
        Ok(Self { compaction_jobs, starvation, queue: Vec::new(), waits: BTreeMap::new() })
    }
}

impl Priority {
    /// Trees with candidates keep their places, others leave, new ones come last.
    fn update_queue(&mut self, candidates: &[&Candidate]) {
        let mut trees: Vec<_> = candidates.iter().map(|candidate| candidate.tree).collect();
        trees.dedup();
        self.queue.retain(|tree| trees.contains(tree));
        for tree in trees {
            if !self.queue.contains(&tree) {
                self.queue.push(tree);
            }
        }
    }

    /// Rule 4: records the waits, and returns those that are over.
    fn update_waits(&mut self, now: Micros, plan: &Plan<'_>) -> Ended {
        let (needed, mut ended) = (plan.needed(), Ended::default());
        let deeper = |candidate: &Candidate| plan.rank(candidate) == Rank::Deeper;
        let key_of = |candidate: &Candidate| (candidate.tree, candidate.frees);
        for candidate in plan.candidates.iter().filter(|candidate| deeper(candidate)) {
            self.waits.entry(key_of(candidate)).or_insert(Wait::Since(now));
        }
        for job in plan.running.iter().filter(|job| deeper(&job.candidate)) {
            let wait = self.waits.entry(key_of(&job.candidate)).or_insert(Wait::Since(now));
            // A job that memory waits for goes on, so its wait begins anew.
            if needed.contains(&job.job) && matches!(wait, Wait::Since(_)) {
                *wait = Wait::Since(now);
            }
        }
        for (key, wait) in &mut self.waits {
            let jobs = plan.running.iter();
            let jobs = jobs.filter(|job| deeper(&job.candidate) && key_of(&job.candidate) == *key);
            let jobs: Vec<JobId> = jobs.map(|job| job.job).collect();
            let oldest = jobs.iter().copied().min();
            let is_over = |since: Micros| now.saturating_sub(since) >= self.starvation;
            *wait = match *wait {
                Wait::Through(job) if jobs.contains(&job) => Wait::Through(job),
                Wait::Through(_) => Wait::Since(now),
                Wait::Granted => oldest.map_or(Wait::Since(now), Wait::Through),
                Wait::Since(since) if is_over(since) => {
                    oldest.map_or(Wait::Since(since), Wait::Through)
                }
                Wait::Since(since) => Wait::Since(since),
            };
            match *wait {
                Wait::Through(job) => ended.through.push(job),
                Wait::Since(since) if is_over(since) => ended.to_start.push(*key),
                Wait::Since(since) if oldest.is_some() || plan.lists(*key) => {
                    let over = since + self.starvation;
                    ended.next = Some(ended.next.map_or(over, |next| next.min(over)));
                }
                Wait::Since(_) | Wait::Granted => {}
            }
        }
        ended
    }

    /// Starts the wanted candidates that can start, while there are slots. Trees take turns.
    fn start(&mut self, plan: &mut Plan<'_>, wanted: impl Fn(&Plan<'_>, &Candidate) -> bool) {
        while let Some((place, index)) = self.next(plan, &wanted) {
            plan.grant(index);
            if takes_slot(plan.candidates[index]) {
                let tree = self.queue.remove(place);
                self.queue.push(tree);
            }
        }
    }

    /// The place in the queue of the next tree, and the index of its candidate.
    fn next(
        &self,
        plan: &Plan<'_>,
        wanted: impl Fn(&Plan<'_>, &Candidate) -> bool,
    ) -> Option<(usize, usize)> {
        self.queue.iter().enumerate().find_map(|(place, &tree)| {
            let is_next = |candidate: &Candidate| candidate.tree == tree && wanted(plan, candidate);
            plan.first(is_next).map(|index| (place, index))
        })
    }
}

/// The deeper work whose wait is over.
#[derive(Debug, Default)]
struct Ended {
    /// These jobs go on.
    through: Vec<JobId>,
    /// Each of these may start one job.
    to_start: Vec<(TreeId, Class)>,
    /// When the next wait is over.
    next: Option<Micros>,
}

impl Plan<'_> {
    fn rank(&self, candidate: &Candidate) -> Rank {
        match candidate.frees {
            _ if candidate.kind == JobKind::TrivialMove => Rank::Move,
            Class::Memtable | Class::L0 => Rank::Memory,
            Class::Level(level) if self.far.contains(&(candidate.tree, level)) => Rank::Far,
            Class::Level(_) => Rank::Deeper,
        }
    }

    /// Whether memory has work.
    fn memory_works(&self) -> bool {
        let running = self.running.iter().map(|job| &*job.candidate);
        let mut all = running.chain(self.candidates.iter().copied());
        all.any(|candidate| self.rank(candidate) == Rank::Memory)
    }

    /// The running jobs that memory waits for, or a level far beyond its target.
    fn needed(&self) -> Vec<JobId> {
        let is_urgent = |rank: Rank| matches!(rank, Rank::Memory | Rank::Far);
        let urgent = self.candidates.iter().filter(|candidate| is_urgent(self.rank(candidate)));
        urgent.flat_map(|candidate| candidate.conflicts.iter().copied()).collect()
    }

    /// Whether there are candidates of this tree and class.
    fn lists(&self, (tree, class): (TreeId, Class)) -> bool {
        self.candidates.iter().any(|candidate| candidate.tree == tree && candidate.frees == class)
    }

    /// Whether a level of the tree far beyond its target is being compacted.
    fn far_works(&self, tree: TreeId) -> bool {
        let running = self.running.iter().map(|job| &*job.candidate);
        let starting = self.start.iter().map(|&index| self.candidates[index]);
        let mut all = running.chain(starting);
        all.any(|candidate| candidate.tree == tree && self.rank(candidate) == Rank::Far)
    }

    /// Decides which jobs are paused, and counts the slots that the others leave.
    fn pause(&mut self, memory_works: bool, through: &[JobId], slots: usize) {
        let needed = self.needed();
        let pauses = |job: &&Running| match self.rank(&job.candidate) {
            Rank::Far | Rank::Move => false,
            Rank::Memory => self.far_works(job.candidate.tree) && !needed.contains(&job.job),
            Rank::Deeper => {
                memory_works && !needed.contains(&job.job) && !through.contains(&job.job)
            }
        };
        let paused: Vec<JobId> = self.running.iter().filter(pauses).map(|job| job.job).collect();
        let works = |job: &&Running| takes_slot(&job.candidate) && !paused.contains(&job.job);
        self.slots = slots.saturating_sub(self.running.iter().filter(works).count());
        self.paused = paused;
    }

    /// The first wanted candidate that can start.
    fn first(&self, wanted: impl Fn(&Candidate) -> bool) -> Option<usize> {
        (0..self.candidates.len()).find(|&index| {
            let candidate = self.candidates[index];
            wanted(candidate)
                && (self.slots > 0 || !takes_slot(candidate))
                && is_free(index, self.candidates, &self.start)
        })
    }

    fn grant(&mut self, index: usize) {
        self.slots -= usize::from(takes_slot(self.candidates[index]));
        self.start.push(index);
    }
}

impl Schedule for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        let slots = if self.compaction_jobs > 0 { self.compaction_jobs } else { signals.workers };
        let far = far_levels(signals);
        let (start, paused) = (Vec::new(), Vec::new());
        let mut plan = Plan { candidates, running, far, slots: 0, start, paused };
        let memory_works = plan.memory_works();
        let ended = match memory_works {
            true => self.update_waits(signals.now, &plan),
            false => {
                self.waits.clear();
                Ended::default()
            }
        };
        self.update_queue(candidates);
        plan.pause(memory_works, &ended.through, slots.max(1));
        self.start(&mut plan, |plan, candidate| plan.rank(candidate) == Rank::Far);
        for key in ended.to_start {
            let first = plan.first(|candidate| {
                (candidate.tree, candidate.frees) == key && plan.rank(candidate) == Rank::Deeper
            });
            if let Some(index) = first {
                plan.grant(index);
                self.waits.insert(key, Wait::Granted);
            }
        }
        self.start(&mut plan, |plan, candidate| {
            plan.rank(candidate) == Rank::Memory && !plan.far_works(candidate.tree)
        });
        self.start(&mut plan, |plan, candidate| plan.rank(candidate) == Rank::Move);
        if !memory_works {
            self.start(&mut plan, |plan, candidate| plan.rank(candidate) == Rank::Deeper);
        }
        Grants { start: plan.start, paused: plan.paused, again: ended.next, ..Grants::default() }
    }
}

/// The levels far beyond their targets, with their trees.
fn far_levels(signals: &Signals) -> Vec<(TreeId, u8)> {
    let mut far = Vec::new();
    for (tree, pressure) in &signals.pressure {
        for level in &pressure.levels {
            if level.target.is_some_and(|target| level.bytes.0 > target.0.saturating_mul(FAR)) {
                far.push((*tree, level.level));
            }
        }
    }
    far
}

#[cfg(test)]
mod tests;
