//! `priority`: CruiseDB's order of compactions and of their I/O.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §VI.B and §VII ("I/O Scheduler"). The paper has three ranks of I/O. The first
//! rank, clients and the WAL, is outside of any schedule here. The second rank is *memory*: jobs
//! that free memtables, and jobs out of L0, which stands between memory and L1 in a tree with an
//! L0. The third rank is all other compactions, here called *deeper*.
//! 1. Compactions run in parallel. They start in the order of the shape, which is CruiseDB's order
//!    of tasks in `sp_lsm`. Trees take turns. Jobs that free memtables take no slot, the others one
//!    each: one a worker, unless `compaction_jobs` says otherwise.
//! 2. A job never starts before one that stands ahead of it in its tree, needs the same and only
//!    lacks a slot. Otherwise jobs that take no slot would overtake those that need one.
//! 3. File calls of memory jobs are taken out of the queue first. A write of a deeper job also
//!    waits while a write of a memory job is queued or under way, at most for `starvation`. So
//!    deeper jobs go on while memory's jobs read or merge.
//! 4. A level beyond 5 times its target is scheduled prior to memory. File calls of its jobs
//!    go first, too.
//!
//! Readings:
//! - "only when there are no higher-level I/O requests" (§VII) is the rule of the published code,
//!   in which a write of a deeper compaction waits for those of memory that are being made, and
//!   reads never wait. There a compaction makes one call at a time. Here a job reads ahead and
//!   writes behind, so on a device that is the bottleneck it always has calls under way. If these
//!   held up all others, deeper jobs would stand still and keep the tables that L1's jobs wait for;
//! - the paper names no time for the starvation. The published code lets a call wait for up to a
//!   second;
//! - §VI.B schedules a far level "prior to" memory and says nothing about its I/O. If its calls
//!   waited for those of memory, it would have no priority.
//!
//! Liveness. Every write begins after `starvation` at the latest, so every job that runs comes to
//! its end. A job that stands ahead in rule 2 lacks only a slot, and slots are held by jobs that
//! end. Each start sends its tree behind all trees that wait.
//!
//! Cost: O(trees · candidates · started). State: the queue of trees.

use super::Schedule;
use super::fifo::{is_free, takes_slot};
use crate::candidate::{Candidate, Class};
use crate::decision::{CallOrder, Grants};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Running, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::{JobId, Micros, Result, TreeId};

/// The multiple of its target beyond which a level goes before memory (CruiseDB (2021), §VI.B).
const FAR: u64 = 5;

/// CruiseDB's order of I/O.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PriorityOptions {
    /// The longest time that a write of a deeper compaction waits for those of jobs that free
    /// memory. The default is a second, as in the published code (`MAX_WAITING_TIME`).
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

/// Memory first.
#[derive(Debug)]
pub struct Priority {
    /// 0 for as many as there are workers.
    compaction_jobs: usize,
    starvation: Micros,
    /// Trees with something to start, in the order in which they first had it.
    queue: Vec<TreeId>,
}

impl Mechanism for Priority {
    const WHAT: &'static str = "CruiseDB: file calls of jobs that free memory go before the others";
    type Options = PriorityOptions;

    fn new(tree: &TreeOptions, own: &PriorityOptions) -> Result<Self> {
        let (compaction_jobs, starvation) = (tree.compaction_jobs, own.starvation);
        Ok(Self { compaction_jobs, starvation, queue: Vec::new() })
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

    /// Rules 1 and 2.
    fn start(&mut self, candidates: &[&Candidate], mut slots: usize) -> Vec<usize> {
        self.update_queue(candidates);
        let mut granted: Vec<usize> = Vec::new();
        loop {
            let trees = self.queue.iter().enumerate();
            let next = trees.filter_map(|(place, &tree)| {
                next_of(tree, candidates, &granted, slots).map(|index| (place, index))
            });
            let Some((place, index)) = next.min_by_key(|(place, _)| *place) else { return granted };
            granted.push(index);
            if takes_slot(candidates[index]) {
                slots -= 1;
                let tree = self.queue.remove(place);
                self.queue.push(tree);
            }
        }
    }
}

/// The first candidate of a tree that may start beside those granted.
fn next_of(
    tree: TreeId,
    candidates: &[&Candidate],
    granted: &[usize],
    slots: usize,
) -> Option<usize> {
    // Candidates that only lack a slot.
    let mut ahead: Vec<&Candidate> = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if candidate.tree != tree || !is_free(index, candidates, granted) {
            continue;
        }
        if slots == 0 && takes_slot(candidate) {
            ahead.push(candidate);
        } else if !ahead.iter().any(|other| other.collides(candidate)) {
            return Some(index);
        }
    }
    None
}

/// Whether the file calls of a job go first (rules 3 and 4).
fn goes_first(candidate: &Candidate, signals: &Signals) -> bool {
    let Class::Level(level) = candidate.frees else { return true };
    let pressures = signals.pressure.iter().filter(|(tree, _)| *tree == candidate.tree);
    let mut levels = pressures.flat_map(|(_, pressure)| &pressure.levels);
    levels.any(|other| {
        other.level == level
            && other.target.is_some_and(|target| other.bytes.0 > target.0.saturating_mul(FAR))
    })
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
        let busy = running.iter().filter(|job| takes_slot(&job.candidate)).count();
        let first = running.iter().filter(|job| goes_first(&job.candidate, signals));
        let first: Vec<JobId> = first.map(|job| job.job).collect();
        let order = CallOrder { first, patience: self.starvation };
        Grants {
            start: self.start(candidates, slots.max(1).saturating_sub(busy)),
            order: Some(order),
            ..Grants::default()
        }
    }
}

#[cfg(test)]
mod tests;
