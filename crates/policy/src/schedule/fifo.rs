//! `fifo`: RocksDB's two pools, first come, first served.
//!
//! Source: RocksDB's `DBImpl::MaybeScheduleFlushOrCompaction` and its queue of column families.
//! Flushes have a pool of their own and never wait for a slot. Trivial moves do no I/O and never
//! wait for one either. A merge of memtables into L1 (`sp_lsm`) counts as a flush: writers wait for
//! it as they wait for a flush, and a tree has at most one. Compactions take the slots: one a
//! worker, unless `compaction_jobs` says otherwise.
//! 1. Trees stand in a queue, in the order in which they first had something to compact.
//! 2. The next job comes from the first tree in the queue that has a candidate which can start. It
//!    is the first such candidate in the order of the tree's shape, which is the order of urgency.
//!    Then the tree goes to the end of the queue.
//! 3. Rule 2 repeats while there are slots.
//!
//! This schedule pauses, cancels and limits nothing. It does not start a candidate with conflicts:
//! the candidate waits until what it needs is free. When candidates of one decision need the same
//! tables, only the first of them starts.
//!
//! No tree starves, because each start sends its tree behind all trees that wait. Other schedules
//! use the queue (`start`) with candidates that they refuse, or with another number of slots.
//!
//! Cost: O(started · candidates · started). State: the queue.

use super::Schedule;
use crate::candidate::{Candidate, Class};
use crate::decision::Grants;
use crate::mechanism::{Mechanism, NoOptions};
use crate::signals::{Running, Signals};
use crate::tree::TreeOptions;
use vlsm_core::event::JobKind;
use vlsm_core::{Result, TreeId};

/// First come, first served.
#[derive(Debug, Default)]
pub struct Fifo {
    /// 0 for as many as there are workers.
    compaction_jobs: usize,
    trees: TreeQueue,
}

impl Mechanism for Fifo {
    const WHAT: &'static str = "flushes at once, compactions first come, first served";
    type Options = NoOptions;

    fn new(tree: &TreeOptions, _: &NoOptions) -> Result<Self> {
        Ok(Self::of(tree))
    }
}

impl Fifo {
    /// A schedule with the number of slots of the options.
    pub(super) fn of(tree: &TreeOptions) -> Self {
        Self { compaction_jobs: tree.compaction_jobs, trees: TreeQueue::default() }
    }

    /// Compactions that may run at the same time.
    pub(super) fn slots(&self, signals: &Signals) -> usize {
        let slots = if self.compaction_jobs > 0 { self.compaction_jobs } else { signals.workers };
        slots.max(1)
    }

    /// Selects the candidates that start, given the number of free slots (rules 1 to 3). `may` says
    /// whether a candidate may start beside those already granted.
    pub(super) fn start(
        &mut self,
        mut slots: usize,
        candidates: &[&Candidate],
        may: impl Fn(usize, &[usize]) -> bool,
    ) -> Vec<usize> {
        let mut start: Vec<usize> = Vec::new();
        for (index, candidate) in candidates.iter().enumerate() {
            let free = candidate.frees == Class::Memtable && is_free(index, candidates, &start);
            if free && may(index, &start) {
                start.push(index);
            }
        }
        self.trees.update(candidates);
        while let Some(index) = self.trees.next(candidates, |index| {
            (slots > 0 || !takes_slot(candidates[index]))
                && is_free(index, candidates, &start)
                && may(index, &start)
        }) {
            start.push(index);
            slots -= usize::from(takes_slot(candidates[index]));
        }
        start
    }
}

/// The queue of trees with something to compact, in the order in which they first had it.
#[derive(Debug, Default)]
pub(super) struct TreeQueue {
    queue: Vec<TreeId>,
}

impl TreeQueue {
    /// Trees with something to compact keep their places. Other trees leave, and new ones come
    /// last.
    pub(super) fn update(&mut self, candidates: &[&Candidate]) {
        let compacts = |candidate: &&&Candidate| candidate.frees != Class::Memtable;
        let mut trees: Vec<_> = candidates.iter().filter(compacts).map(|c| c.tree).collect();
        trees.dedup();
        self.queue.retain(|tree| trees.contains(tree));
        for tree in trees {
            if !self.queue.contains(&tree) {
                self.queue.push(tree);
            }
        }
    }

    /// The first compaction that may start, of the first tree that has one. That tree goes to the
    /// end of the queue.
    pub(super) fn next(
        &mut self,
        candidates: &[&Candidate],
        may_start: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let first = |tree: TreeId| {
            (0..candidates.len()).find(|&index| {
                let candidate = candidates[index];
                candidate.tree == tree && candidate.frees != Class::Memtable && may_start(index)
            })
        };
        let mut queue = self.queue.iter().enumerate();
        let (place, index) =
            queue.find_map(|(place, &tree)| first(tree).map(|index| (place, index)))?;
        let tree = self.queue.remove(place);
        self.queue.push(tree);
        Some(index)
    }
}

/// Whether the job takes one of the compaction slots.
pub(super) fn takes_slot(candidate: &Candidate) -> bool {
    candidate.frees != Class::Memtable && candidate.kind != JobKind::TrivialMove
}

/// Whether the candidate has no conflicts and can start beside those already granted.
pub(super) fn is_free(index: usize, candidates: &[&Candidate], granted: &[usize]) -> bool {
    candidates[index].conflicts.is_empty() && fits(index, candidates, granted)
}

/// Whether the candidate needs nothing that those already granted need.
pub(super) fn fits(index: usize, candidates: &[&Candidate], granted: &[usize]) -> bool {
    let candidate = candidates[index];
    !granted.contains(&index) && granted.iter().all(|&other| !candidates[other].collides(candidate))
}

impl Schedule for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        let busy = running.iter().filter(|job| takes_slot(&job.candidate)).count();
        let slots = self.slots(signals).saturating_sub(busy);
        Grants { start: self.start(slots, candidates, |_, _| true), ..Grants::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::Inputs;
    use vlsm_core::{Bytes, KeyRange};

    fn candidate(tree: u64, frees: Class) -> Candidate {
        Candidate {
            tree: TreeId(tree),
            frees,
            kind: if frees == Class::Memtable { JobKind::Flush } else { JobKind::Compact },
            inputs: Inputs::default(),
            output_level: if frees == Class::Memtable { 0 } else { 1 },
            range: KeyRange::closed("a", "z"),
            bytes_in: Bytes(1),
            bytes_out: Bytes(1),
            score: 1.0,
            sets_cursor: None,
            conflicts: Vec::new(),
        }
    }

    #[test]
    fn trees_take_turns_and_flushes_never_wait() {
        let list: Vec<_> = (0..3).map(|tree| candidate(tree, Class::L0)).collect();
        let flush = candidate(2, Class::Memtable);
        let all: Vec<_> = list.iter().chain([&flush]).collect();
        let mut fifo = Fifo::default();
        let signals = Signals { workers: 1, ..Signals::default() };
        let mut turns = Vec::new();
        for _ in 0..6 {
            let grants = fifo.decide(&signals, &all, &[]);
            assert_eq!(grants.start[0], 3);
            turns.extend(grants.start[1..].to_vec());
        }
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        // A tree that comes late stands last, one that leaves loses its place.
        fifo.decide(&signals, &all[1..2], &[]);
        assert_eq!(fifo.decide(&signals, &all[..2], &[]).start, [1]);
        assert_eq!(fifo.decide(&signals, &all[..2], &[]).start, [0]);
    }
}
