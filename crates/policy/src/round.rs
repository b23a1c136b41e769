//! One tick of decisions: observe → shape → schedule → check → admission.
//!
//! 1. The shape is evaluated for every tree that changed; its answers for other trees are kept
//!    ([`Known`]). So the cost grows with the active trees, not with all trees.
//! 2. The schedule decides over all candidates. Its answer is checked before the world acts on it.
//! 3. Started and cancelled jobs change the candidates, so 1 and 2 repeat, at most [`ROUNDS_MAX`]
//!    times.
//! 4. When nothing more starts, the admission sets the rate of writers.
//!
//! A round works on a [`World`]: the engine, or a model of it in tests. So the tests run the
//! production code.

use crate::admission::Admission;
use crate::candidate::{Busy, Candidate, Candidates, Class};
use crate::decision::{Admit, Grants};
use crate::schedule::Schedule;
use crate::shape::Shape;
use crate::signals::{Pressure, Running, Signals, TreeFacts};
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{Micros, TreeId, Version};

/// The most rounds of decisions in one tick.
pub const ROUNDS_MAX: usize = 16;

/// The mechanisms of a store that keep state. A shape keeps none.
pub struct Deciders {
    /// *When*.
    pub schedule: Box<dyn Schedule>,
    /// *How fast*.
    pub admission: Box<dyn Admission>,
}

/// A tree that changed since its shape was last evaluated.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The tree that changed.
    pub tree: TreeId,
    /// The reservations of jobs, read before the version.
    pub busy: Busy,
    /// Its current version.
    pub version: Arc<Version>,
    /// The other facts for the shape.
    pub facts: TreeFacts,
    /// Whether jobs may be started at all.
    pub may_start: bool,
}

/// The last answers of the shape for a tree.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Jobs worth doing.
    pub candidates: Vec<Arc<Candidate>>,
    /// How close the tree is to its bounds.
    pub pressure: Arc<Pressure>,
    /// A sealed memtable waits for its writers: look again soon.
    pub unready: bool,
}

impl Known {
    /// Whether the tree is idle.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        let Pressure { slowdown, stop, debt, .. } = &*self.pressure;
        self.candidates.is_empty()
            && !self.unready
            && *slowdown == 0.0
            && *stop == 0.0
            && debt.0 == 0
    }
}

/// The input of a schedule and an admission.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Signals of the store.
    pub signals: Signals,
    /// All jobs that may be started.
    pub candidates: Vec<Arc<Candidate>>,
    /// All running jobs.
    pub running: Vec<Running>,
}

/// A store, or a model of one.
pub trait World {
    /// The trees that changed since the last call.
    fn changed(&mut self) -> Vec<Changed>;

    /// Adds requested jobs to the candidates of the shape.
    fn add_asked(&mut self, _: &Changed, _: &mut Candidates) {}

    /// Stores the shape's answers for a tree.
    fn know(&mut self, changed: &Changed, known: Known);

    /// The input of the next decision.
    fn observe(&mut self) -> Observed;

    /// Acts on checked grants. True if a job was started or cancelled.
    fn act(&mut self, grants: &Grants, observed: &Observed) -> bool;

    /// Applies the admission's answer, and sets the time of the next decision.
    fn admit(&mut self, admit: Admit, again: Option<Micros>);
}

/// Decides, and lets the world act, until nothing more starts.
///
/// # Errors
/// An invalid answer of a schedule, on which the world has not acted.
pub fn tick(
    shape: &dyn Shape,
    deciders: &mut Deciders,
    world: &mut impl World,
) -> Result<(), String> {
    for _ in 0..ROUNDS_MAX {
        for changed in world.changed() {
            let known = ask(shape, &changed, world);
            world.know(&changed, known);
        }
        let observed = world.observe();
        let candidates: Vec<&Candidate> = observed.candidates.iter().map(|job| &**job).collect();
        let grants = deciders.schedule.decide(&observed.signals, &candidates, &observed.running);
        check(&grants, &candidates, &observed.running)?;
        if !world.act(&grants, &observed) {
            let admit = deciders.admission.decide(&observed.signals);
            world.admit(admit, [grants.again, admit.again].into_iter().flatten().min());
            break;
        }
    }
    Ok(())
}

fn ask(shape: &dyn Shape, changed: &Changed, world: &mut impl World) -> Known {
    let Changed { busy, version, facts, may_start, .. } = changed;
    let mut candidates = Candidates::new();
    if *may_start {
        candidates = shape.candidates(version, facts, busy);
        world.add_asked(changed, &mut candidates);
    }
    Known {
        candidates: candidates.into_iter().map(Arc::new).collect(),
        pressure: Arc::new(shape.pressure(version, facts)),
        unready: facts.memtables.iter().any(|memtable| !memtable.ready),
    }
}

/// Whether a tree waits for a flush, or holds its writers back.
#[must_use]
pub fn waits(shape: &dyn Shape, changed: &Changed, known: &Known) -> bool {
    let flushing = |candidate: &Candidate| candidate.frees == Class::Memtable;
    // A merge of memtables into L1 may have to wait for other jobs.
    let can_start = |candidate: &Candidate| candidate.conflicts.is_empty();
    let may_flush = known.candidates.iter().any(|job| flushing(job) && can_start(job))
        || changed.busy.reservations.iter().any(|held| flushing(&held.candidate));
    let is_due = changed.facts.is_due(shape.gathers());
    is_due && !may_flush || known.pressure.slowdown >= 1.0
}

/// Refuses grants that could not be carried out.
fn check(grants: &Grants, candidates: &[&Candidate], running: &[Running]) -> Result<(), String> {
    for (position, &index) in grants.start.iter().enumerate() {
        let Some(candidate) = candidates.get(index) else {
            return Err(format!("names candidate {index} of {}", candidates.len()));
        };
        if let Some(job) = candidate.conflicts.iter().find(|job| !grants.cancel.contains(job)) {
            return Err(format!("starts what conflicts with {job} without cancelling it"));
        }
        let earlier = grants.start[..position].iter();
        if earlier.clone().any(|&other| other == index || candidates[other].collides(candidate)) {
            return Err("starts two jobs that need the same".into());
        }
        let trivial =
            candidate.kind == JobKind::TrivialMove && !candidate.inputs.memtables.is_empty();
        if trivial {
            return Err("moves a memtable".into());
        }
    }
    match grants.cancel.iter().find(|job| !running.iter().any(|running| running.job == **job)) {
        Some(job) => Err(format!("cancels {job}, which is not running")),
        None => Ok(()),
    }
}
