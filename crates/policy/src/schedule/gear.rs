//! `gear`: bLSM's gears. A merge into a component stays behind the merge out of it.
//!
//! Source: "bLSM: A General Purpose Log Structured Merge Tree" (2012), §4.1 and §4.3, and its
//! published code (`mergeManager.cpp`: `update_progress`, `tick`). If C1 is full before C1′ has
//! been merged into C2, then C0→C1, and the writers behind it, must wait for what is left of a
//! merge of everything. So the two merges turn like gears: C0→C1 fills C1 no faster than C1′→C2
//! empties C1′.
//! 1. `outprogress` of the merges into a component: (its bytes + what running jobs have brought in
//!    from above) ÷ its target. It goes from 0 to 1 while the component fills up. If a running job
//!    makes the component larger than its target, 1 is the size that it will then have.
//! 2. `inprogress` of the merges out of its C′: 1 − what is left of C′ ÷ its size when it was
//!    handed over, and at least the component's target. Bytes that running jobs have already merged
//!    do not count as left.
//! 3. While outprogress > inprogress − `margin`, jobs into the component are paused, and none is
//!    started, as long as a job out of C′ runs or can start.
//! 4. Flushes, and jobs that no pause of rule 3 concerns, start as in `fifo`. A paused job holds no
//!    slot.
//!
//! A component is a level. Its C′ is the level below if that level has a target of zero (shape
//! `blsm`). Other shapes have C and C′ in one level: what is in it up to its target is C, and what
//! is beyond it is C′. Their merges are many small jobs instead of one a component, and the bytes
//! that have left a level count against the bytes that have come. So outprogress is (the bytes of
//! the level + those brought in − those taken out) ÷ target, and inprogress is 1: a level that
//! gives takes nothing in beyond its target.
//!
//! Readings:
//! - *bytes*: the code counts whole passes of C0→C1, (passes + inprogress of this pass) ÷ ⌈R⌉. When
//!   nothing is overwritten it is the same number. Here bytes count, because passes are not of
//!   equal size;
//! - *margin*: the code keeps outprogress − inprogress below −0.01, so that the lower merge is a
//!   little ahead, and the end of one merge and the beginning of the next do not show. Its C0→C1
//!   then sleeps for a time that grows with the distance. Here it is paused, and the distance is
//!   looked at again after `LOOK`;
//! - "only if the next thread is not waiting on us": no merge is held for a C′ that is empty, or
//!   that nothing can merge at the moment;
//! - the paper pauses merges when memory is below its low watermark (§4.3). In the published code
//!   this is C0→C1 alone, which waits for more input. Here the shape gathers memtables
//!   (`l0_trigger`), and C1′→C2 goes on: its input no longer changes, so there is nothing to gain
//!   by a delay, and the gear is never behind when the next burst comes.
//!
//! Deviation: the high watermark and the writers are the admission's part (`spring`).
//!
//! Liveness. A job is paused or held back only for a job one component deeper that runs or can
//! start. The deepest of these is neither paused nor held back, because the last level has no
//! target. It goes on until its component has room or it ends. Held candidates free their slots for
//! it, so it starts. Then the one above goes on, and so on up to memory. Trivial moves are never
//! held back.
//!
//! Cost: O(jobs + trees · levels + candidates · jobs). State: the sizes of the C′s, and `fifo`'s
//! queue.

use super::Schedule;
use super::fifo::{Fifo, takes_slot};
use crate::candidate::{Candidate, Class};
use crate::decision::Grants;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{LevelPressure, Running, Signals};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, JobId, Micros, Result, TreeId};

/// The time between looks at the progress of jobs.
const LOOK: Micros = Micros(5_000);

/// bLSM's gears.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GearOptions {
    /// The least lead of a merge out of a component over the merges into it, as a share of the
    /// whole merge.
    pub margin: f64,
}

impl Default for GearOptions {
    fn default() -> Self {
        Self { margin: 0.01 }
    }
}

impl MechanismOptions for GearOptions {
    fn check(&self) -> Result<()> {
        let why = "must be from 0 to 0.5: with more, merges wait for each other most of the time";
        all_hold([((0.0..=0.5).contains(&self.margin), "gear.margin", why)])
    }
}

/// A component: the level that it is in.
type Component = (TreeId, u8);

/// bLSM's gears.
#[derive(Debug)]
pub struct Gear {
    margin: f64,
    fifo: Fifo,
    /// The size of each C′ when it was handed over.
    whole: BTreeMap<Component, Bytes>,
}

impl Mechanism for Gear {
    const WHAT: &'static str =
        "bLSM: a merge keeps behind the merge that makes room for its output";
    type Options = GearOptions;

    fn new(tree: &TreeOptions, own: &GearOptions) -> Result<Self> {
        Ok(Self { margin: own.margin, fifo: Fifo::of(tree), whole: BTreeMap::new() })
    }
}

/// The state of one component.
#[derive(Debug, Clone, Copy, Default)]
struct Wheel {
    target: Bytes,
    /// Bytes of its level, less those that jobs have taken out of it.
    bytes: f64,
    /// Bytes that running jobs have brought into it, and those that they will bring in all.
    brought: f64,
    coming: f64,
    /// Bytes left of C′, and its size when it was handed over; none if C′ is empty or is no level
    /// of its own.
    rest: Option<(f64, f64)>,
    /// Whether a job out of it, or out of its C′, runs or can start.
    gives: bool,
}

impl Wheel {
    /// Whether a merge into it that brings `more` bytes is too far ahead (rule 3).
    fn is_ahead(&self, more: Bytes, margin: f64) -> bool {
        let target = self.target.as_f64();
        let (full, inprogress) = match self.rest {
            Some((rest, whole)) => {
                (target.max(self.bytes + self.coming + more.as_f64()), 1.0 - rest / whole)
            }
            None => (target, 1.0),
        };
        self.gives && (self.bytes + self.brought) / full > inprogress - margin
    }
}

/// The share of a job's input that it has merged.
fn done(job: &Running) -> f64 {
    let all = job.done + job.left;
    if all == Bytes::ZERO { 0.0 } else { job.done.as_f64() / all.as_f64() }
}

/// Bytes that a job takes out of the place in which it makes room.
fn taken(candidate: &Candidate) -> Bytes {
    if candidate.frees == Class::Memtable {
        return candidate.bytes_in.saturating_sub(candidate.inputs.table_bytes());
    }
    let from = candidate.frees.level();
    let tables = candidate.inputs.tables.iter();
    tables.filter(|(place, _)| place.level() == from).map(|(_, table)| table.bytes).sum()
}

/// The component that a merge brings bytes into from above.
fn fills(candidate: &Candidate) -> Option<Component> {
    let into = candidate.output_level;
    let merges = candidate.kind == JobKind::Compact && into > candidate.frees.level();
    merges.then_some((candidate.tree, into))
}

/// The place of a merge out of a level.
fn drains(candidate: &Candidate) -> Option<Component> {
    match candidate.frees {
        Class::Level(level) if fills(candidate).is_some() => Some((candidate.tree, level)),
        _ => None,
    }
}

impl Gear {
    /// Rules 1 and 2, for all components.
    fn wheels(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> BTreeMap<Component, Wheel> {
        let drained = running.iter().filter_map(|job| {
            drains(&job.candidate).map(|place| (place, taken(&job.candidate).as_f64() * done(job)))
        });
        let free = candidates.iter().filter(|candidate| candidate.conflicts.is_empty());
        let free = free.filter_map(|candidate| drains(candidate).map(|place| (place, 0.0)));
        let mut out: BTreeMap<Component, f64> = BTreeMap::new();
        for (place, bytes) in drained.chain(free) {
            *out.entry(place).or_default() += bytes;
        }
        let mut wheels = BTreeMap::new();
        let mut whole = BTreeMap::new();
        for (tree, pressure) in &signals.pressure {
            for (index, level) in pressure.levels.iter().enumerate() {
                let Some(target) = level.target.filter(|target| *target > Bytes::ZERO) else {
                    continue;
                };
                let own = (*tree, level.level);
                let left = |level: &LevelPressure| {
                    let out = out.get(&(*tree, level.level)).copied().unwrap_or_default();
                    (level.bytes.as_f64() - out).max(0.0)
                };
                let next = pressure.levels.get(index + 1);
                let mergeable = next.filter(|next| next.target == Some(Bytes::ZERO));
                let rest = mergeable.filter(|next| next.bytes > Bytes::ZERO).map(|next| {
                    let seen = self.whole.get(&own).copied().unwrap_or_default();
                    whole.insert(own, seen.max(next.bytes).max(target));
                    (left(next), whole[&own].as_f64())
                });
                let gives = match mergeable {
                    Some(next) => out.contains_key(&(*tree, next.level)),
                    None => out.contains_key(&own),
                };
                let wheel = Wheel { target, bytes: left(level), rest, gives, ..Wheel::default() };
                wheels.insert(own, wheel);
            }
        }
        self.whole = whole;
        for job in running {
            let place = fills(&job.candidate);
            if let Some(wheel) = place.and_then(|place| wheels.get_mut(&place)) {
                let bytes = taken(&job.candidate).as_f64();
                wheel.coming += bytes;
                wheel.brought += bytes * done(job);
            }
        }
        wheels
    }
}

impl Schedule for Gear {
    fn name(&self) -> &'static str {
        "gear"
    }

    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants {
        let wheels = self.wheels(signals, candidates, running);
        let wheel = |candidate: &Candidate| fills(candidate).and_then(|place| wheels.get(&place));
        let is_ahead = |candidate: &Candidate, more: Bytes| {
            wheel(candidate).is_some_and(|wheel| wheel.is_ahead(more, self.margin))
        };
        let pauses = |job: &&Running| !job.installing && is_ahead(&job.candidate, Bytes::ZERO);
        let paused: Vec<JobId> = running.iter().filter(pauses).map(|job| job.job).collect();
        let works = |job: &&Running| takes_slot(&job.candidate) && !paused.contains(&job.job);
        let busy = running.iter().filter(works).count();
        let slots = self.fifo.slots(signals).saturating_sub(busy);
        let start = self.fifo.start(slots, candidates, |index, _| {
            !is_ahead(candidates[index], taken(candidates[index]))
        });
        let meshed = |job: &Running| wheel(&job.candidate).is_some_and(|wheel| wheel.gives);
        let held = |candidate: &&Candidate| {
            candidate.conflicts.is_empty() && is_ahead(candidate, taken(candidate))
        };
        let looks = running.iter().any(meshed) || candidates.iter().copied().any(|c| held(&c));
        let again = looks.then(|| signals.now + LOOK);
        Grants { start, paused, again, ..Grants::default() }
    }
}
