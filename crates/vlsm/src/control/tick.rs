//! Where the axes meet: observe → shape → schedule → admission → act.
//!
//! 1. Trees that changed since the last tick are asked again for candidates and pressure; what the
//!    others said is kept. So the cost grows with the trees that do something, not with all trees.
//! 2. The schedule decides over all candidates; its answer is checked before it is acted on.
//! 3. Granted jobs are started; what they hold changes what their trees propose, so 1 to 3 repeat,
//!    at most [`ROUNDS_MAX`] times.
//! 4. The admission decides how fast writers are let in.
//!
//! Where a run of L0 was ingested above sealed memtables, the shape is asked about the tree without
//! it and what is newer: the memtables are flushed first, and the tree is as any other again.
//!
//! Threads and locks: whoever ends a step or finds something changed ticks, with `try_lock` on the
//! policies; who finds them taken leaves a mark, and the holder goes round once more. `state` is
//! taken for short looks and never while a policy runs.

use crate::control::Control;
use crate::control::{Known, Slot, State};
use crate::job::Job;
use crate::read::view::StoreView;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vlsm_core::event::JobKind;
use vlsm_core::{Error, JobId, Result, TreeId};
use vlsm_policy::{Busy, Candidate, Chain, Class, Grants, Running};

/// Rounds of asking and starting in one tick.
const ROUNDS_MAX: usize = 16;

impl Control {
    /// Decides what runs and how fast writers are let in.
    pub fn tick(self: &Arc<Self>) {
        loop {
            self.again.store(true, Ordering::SeqCst);
            let Some(mut policies) = self.policies.try_lock() else { return };
            self.again.store(false, Ordering::SeqCst);
            for _ in 0..ROUNDS_MAX {
                let view = self.ask_shapes();
                let (signals, known, running) = {
                    let state = self.state.lock();
                    let known: Vec<Candidate> =
                        state.known.values().flat_map(|k| k.candidates.iter().cloned()).collect();
                    (self.signals(&view, &state), known, state.running())
                };
                let known = self.shared.affordable(known);
                let candidates: Vec<&Candidate> = known.iter().collect();
                let grants = policies.schedule.decide(&signals, &candidates, &running);
                let started = self.act(&view, &grants, &known, &running);
                if !started {
                    let admit = policies.admission.decide(&signals);
                    self.writer.gate().set(admit, self.shared.env.now());
                    let again = [grants.again, admit.again].into_iter().flatten().min();
                    self.shared.channel.ask_again_at(again);
                    break;
                }
            }
            drop(policies);
            if !self.again.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Asks the shape about every tree that changed; the view that it was asked about.
    ///
    /// What jobs hold is looked at before the view is: a job lets go only after its result is
    /// visible, so the view shows the result of every job that no longer holds anything.
    fn ask_shapes(self: &Arc<Self>) -> Arc<StoreView> {
        let marks = self.shared.channel.take_marks();
        let held: Vec<(TreeId, Busy)> = {
            let mut state = self.state.lock();
            state.drop_ended(&self.shared.channel);
            marks.into_iter().map(|id| (id, state.busy(id))).collect()
        };
        self.shared.env.interleave();
        let view = self.views.load_full();
        for (id, busy) in held {
            let older = view.tree(id).older_part();
            let tree = older.as_ref().unwrap_or(view.tree(id));
            self.shared.counters.shape_asks.add(1);
            let facts = self.facts(tree);
            let shape = &self.shape;
            let mut candidates = Vec::new();
            if self.shared.health.is_running() {
                candidates = shape.candidates(&tree.version, &facts, &busy);
                self.add_manual(tree, &facts, &busy, &mut candidates);
            }
            let pressure = shape.pressure(&tree.version, &facts);
            let unready = facts.memtables.iter().any(|memtable| !memtable.ready);
            let mut state = self.state.lock();
            let flushing = |candidate: &Candidate| candidate.frees == Class::Memtable;
            // Where memtables are merged into L1, that may have to wait for other jobs.
            let can_start = |candidate: &Candidate| candidate.conflicts.is_empty();
            let may_flush = candidates.iter().any(|job| flushing(job) && can_start(job))
                || busy.reservations.iter().any(|held| flushing(&held.candidate));
            let is_due = facts.is_due(shape.gathers());
            let waits = is_due && !may_flush || pressure.slowdown >= 1.0;
            let chain = match waits {
                true => shape.chain(&tree.version, &facts),
                false => Chain::default(),
            };
            let ended = state.chains.observe(id, facts.now, waits, &chain);
            if let Some(event) = ended {
                self.shared.events.emit(event);
            }
            let calm = pressure.slowdown == 0.0 && pressure.stop == 0.0 && pressure.debt.0 == 0;
            if candidates.is_empty() && calm && !unready {
                state.known.remove(&id);
            } else {
                let pressure = Arc::new(pressure);
                state.known.insert(id, Known { candidates, pressure, unready });
            }
        }
        view
    }

    /// Acts on the schedule's answer. True when a job was started or cancelled.
    fn act(
        self: &Arc<Self>,
        view: &StoreView,
        grants: &Grants,
        candidates: &[Candidate],
        running: &[Running],
    ) -> bool {
        if let Err(error) = check_grants(grants, candidates, running) {
            self.shared.latch(error);
            return false;
        }
        let may_go_on;
        let not_cancelled: Vec<JobId> = {
            let mut state = self.state.lock();
            let faster = state.pace.set(self.shared.env.now(), grants.bandwidth);
            may_go_on = self.pause(&mut state, &grants.paused) || faster;
            grants.cancel.iter().copied().filter(|job| !state.cancel(*job)).collect()
        };
        let ending = running.iter().filter(|running| grants.cancel.contains(&running.job));
        self.shared.channel.mark_all(ending.map(|running| running.candidate.tree));
        self.shared.channel.seal_memtables_at(grants.memtable_bytes);
        let mut started = false;
        for &index in &grants.start {
            let held = candidates[index].conflicts.iter().any(|job| not_cancelled.contains(job));
            if held || !self.shared.afford(&candidates[index]) {
                continue;
            }
            started = true;
            if let Err(error) = self.start(view, Arc::new(candidates[index].clone())) {
                self.shared.latch(error);
                return false;
            }
        }
        let cancelled = not_cancelled.len() < grants.cancel.len();
        if started || cancelled || may_go_on {
            self.shared.channel.wake();
        }
        started || cancelled
    }

    fn start(self: &Arc<Self>, view: &StoreView, candidate: Arc<Candidate>) -> Result<()> {
        let id = JobId(self.shared.numbers.next_job());
        let tree = view.tree(candidate.tree);
        let cuts = self.shape.cuts(&tree.version, &candidate);
        let job = Job::new(&self.jobs, id, candidate.clone(), tree, cuts)?;
        let mut state = self.state.lock();
        self.shared.channel.mark(candidate.tree);
        if candidate.frees == Class::Memtable {
            let facts = self.facts(tree);
            let chain = self.shape.chain(&tree.version, &facts);
            for event in state.chains.flush_begins(candidate.tree, facts.now, &chain) {
                self.shared.events.emit(event);
            }
        }
        state.jobs.push(Slot::of(id, candidate, Some(Box::new(job))));
        Ok(())
    }

    /// Pauses these jobs and lets all others go on. True when one goes on that was paused.
    fn pause(&self, state: &mut State, paused: &[JobId]) -> bool {
        let mut resumed = false;
        for slot in &mut state.jobs {
            if !paused.contains(&slot.id) {
                resumed |= slot.paused_since.take().is_some();
            } else if slot.paused_since.is_none() {
                slot.paused_since = Some(self.shared.now_micros());
                let Candidate { kind, frees, .. } = &*slot.candidate;
                self.shared.counters.level(*kind, frees.level()).paused.add(1);
            }
        }
        resumed
    }
}

/// Refuses grants that could not be carried out.
fn check_grants(grants: &Grants, candidates: &[Candidate], running: &[Running]) -> Result<()> {
    let wrong = |what: String| Err(Error::Internal(format!("the schedule's grant {what}")));
    for (position, &index) in grants.start.iter().enumerate() {
        let Some(candidate) = candidates.get(index) else {
            return wrong(format!("names candidate {index} of {}", candidates.len()));
        };
        if let Some(job) = candidate.conflicts.iter().find(|job| !grants.cancel.contains(job)) {
            return wrong(format!("starts what conflicts with {job} without cancelling it"));
        }
        let earlier = grants.start[..position].iter();
        if earlier.clone().any(|&other| other == index || candidates[other].collides(candidate)) {
            return wrong("starts two jobs that need the same".into());
        }
        let trivial =
            candidate.kind == JobKind::TrivialMove && !candidate.inputs.memtables.is_empty();
        if trivial {
            return wrong("moves a memtable".into());
        }
    }
    match grants.cancel.iter().find(|job| !running.iter().any(|running| running.job == **job)) {
        Some(job) => wrong(format!("cancels {job}, which is not running")),
        None => Ok(()),
    }
}

impl Control {
    /// Marks every tree, as after opening.
    pub fn mark_all(&self) {
        let trees: Vec<TreeId> = self.views.load().trees().map(|tree| tree.id).collect();
        self.shared.channel.mark_all(trees);
    }
}
