//! A decision of SILK in the making: the jobs granted so far, and whether a candidate may go ahead
//! of deeper jobs (rules 5, 6 and 8 of `silk.rs`).

use super::super::fifo::{fits, takes_slot};
use crate::candidate::{Candidate, Class};
use crate::signals::Running;
use vlsm_core::JobId;

pub(super) fn is_deeper(candidate: &Candidate) -> bool {
    matches!(candidate.frees, Class::Level(_))
}

pub(super) fn is_l0_job(candidate: &Candidate) -> bool {
    candidate.frees == Class::L0 && takes_slot(candidate)
}

pub(super) fn is_deeper_job(candidate: &Candidate) -> bool {
    is_deeper(candidate) && takes_slot(candidate)
}

/// The verdict on a candidate that comes before deeper jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Start,
    /// Deeper jobs have their turn.
    Hold,
    /// Other jobs hold something that it needs.
    Wait,
}

/// A decision in the making.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub(super) candidates: &'a [&'a Candidate],
    pub(super) running: &'a [Running],
    /// The load pauses deeper jobs (rule 3).
    pub(super) by_load: bool,
    /// Rule 8; none for any number of times.
    pub(super) overtakes_max: Option<u32>,
    pub(super) start: Vec<usize>,
    pub(super) cancel: Vec<JobId>,
}

impl Round<'_> {
    /// Running jobs, and those granted in this round.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Candidate> {
        let running = self.running.iter().map(|job| &*job.candidate);
        running.chain(self.start.iter().map(move |&index| self.candidates[index]))
    }

    pub(super) fn l0_jobs(&self) -> usize {
        self.jobs().filter(|job| is_l0_job(job)).count()
    }

    /// Deeper candidates that could start if this candidate did not.
    pub(super) fn rivals(&self, index: usize) -> impl Iterator<Item = usize> {
        let candidate = self.candidates[index];
        (0..self.candidates.len()).filter(move |&other| {
            let other = self.candidates[other];
            is_deeper(other) && other.conflicts.is_empty() && other.collides(candidate)
        })
    }

    /// Whether the candidate would go ahead of deeper jobs of its tree.
    pub(super) fn overtakes(&self, index: usize) -> bool {
        let candidate = self.candidates[index];
        candidate.output_level > 0
            && (!candidate.conflicts.is_empty() || self.rivals(index).next().is_some())
    }

    /// Whether the jobs out of L1 have their turn, which the candidate waits for (rule 8).
    fn is_their_turn(&self, index: usize, overtaken: u32) -> bool {
        let Some(max) = self.overtakes_max else { return false };
        // A turn is over when the candidate waits for no job any more.
        let waits = !self.candidates[index].conflicts.is_empty();
        let turn = overtaken == max || (overtaken > max && waits);
        turn && !self.by_load && self.overtakes(index)
    }

    /// Rules 5, 6 and 8, except for the slots.
    pub(super) fn verdict(&self, index: usize, overtaken: u32) -> Verdict {
        let candidate = self.candidates[index];
        let into_l1 = |job: &Candidate| is_l0_job(job) && job.output_level > 0;
        let second =
            into_l1(candidate) && self.jobs().any(|job| job.tree == candidate.tree && into_l1(job));
        let may_cancel = |id: &JobId| {
            let mut running = self.running.iter();
            running.any(|job| job.job == *id && !job.installing && is_deeper_job(&job.candidate))
        };
        if second
            || !candidate.conflicts.iter().all(may_cancel)
            || !fits(index, self.candidates, &self.start)
        {
            return Verdict::Wait;
        }
        if self.is_their_turn(index, overtaken) { Verdict::Hold } else { Verdict::Start }
    }
}
