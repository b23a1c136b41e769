//! `fifo`: RocksDB's two pools, first come first served.
//!
//! Source: 2-mechanisms ("fifo"). Flushes have a pool of their own and never wait for a slot; so
//! have trivial moves, which do no I/O. Compactions take the `workers` slots in the order in which
//! their shapes list them, which is by urgency. Nothing is ever paused, cancelled or limited.
//!
//! A candidate with conflicts is never started: it waits until what it needs is free. Candidates of
//! one decision may need the same tables; only the first of them starts.
//!
//! Cost: O(candidates · started).

use super::Schedule;
use crate::candidate::{Candidate, Class};
use crate::decision::Grants;
use crate::options::PolicyOptions;
use crate::signals::{Running, Signals};
use vlsm_core::event::JobKind;

/// First come, first served.
#[derive(Debug, Default)]
pub struct Fifo;

impl Fifo {
    /// There is nothing to set.
    #[must_use]
    pub fn new(_: &PolicyOptions) -> Self {
        Self
    }
}

/// Whether the job takes one of the compaction slots.
fn takes_slot(candidate: &Candidate) -> bool {
    candidate.frees != Class::Memtable && candidate.kind != JobKind::TrivialMove
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
        let mut slots = signals.workers.max(1).saturating_sub(busy);
        let mut start: Vec<usize> = Vec::new();
        let flushes = |index: &usize| candidates[*index].frees == Class::Memtable;
        let first = (0..candidates.len()).filter(flushes);
        let rest = (0..candidates.len()).filter(|index| !flushes(index));
        for index in first.chain(rest) {
            let candidate = candidates[index];
            let free = candidate.conflicts.is_empty()
                && start.iter().all(|&granted| !candidates[granted].collides(candidate));
            let slot = usize::from(takes_slot(candidate));
            if free && slots >= slot {
                slots -= slot;
                start.push(index);
            }
        }
        Grants { start, ..Grants::default() }
    }
}
