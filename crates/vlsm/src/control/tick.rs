//! The engine as the [`World`] of a round of decisions (`policy/round`).
//!
//! 1. [`Control::tick`] runs a round of the three axes: the shape proposes jobs for the marked
//!    trees, the schedule grants jobs, and the admission sets the rate of writes.
//! 2. Granted jobs are created here; workers step them.
//!
//! If a run of L0 was ingested above sealed memtables, the shape sees the tree without that run and
//! all newer parts. So the memtables are flushed first; after that the tree is like any other.
//!
//! Threads and locks: a worker ticks after a step or a change, with `try_lock` on the deciders. If
//! they are taken, it leaves a mark, and their holder repeats its round. `state` is locked for a
//! short time, and never while a mechanism decides.

use crate::control::{Control, Slot, State};
use crate::job::Job;
use crate::read::view::StoreView;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vlsm_core::{Error, JobId, Micros, Result, TreeId};
use vlsm_policy::{
    Admit, Busy, CallOrder, Candidate, Candidates, Chain, Changed, Class, Grants, Known, Observed,
    World, round,
};

/// The store in one tick.
struct Ticking<'a> {
    control: &'a Arc<Control>,
    /// The view of all trees for which the shape was last evaluated.
    view: Arc<StoreView>,
}

impl Control {
    /// Decides which jobs run and at which rate writers are admitted.
    pub fn tick(self: &Arc<Self>) {
        loop {
            self.again.store(true, Ordering::SeqCst);
            let Some(mut deciders) = self.deciders.try_lock() else { return };
            self.again.store(false, Ordering::SeqCst);
            let mut ticking = Ticking { control: self, view: self.views.load_full() };
            if let Err(what) = round::tick(&*self.shape, &mut deciders, &mut ticking) {
                self.shared.latch(Error::Internal(format!("the schedule's grant {what}")));
            }
            drop(deciders);
            if !self.again.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    fn start(self: &Arc<Self>, view: &StoreView, candidate: Arc<Candidate>) -> Result<()> {
        let id = JobId(self.shared.numbers.next_job());
        let tree = view.tree(candidate.tree);
        let facts = self.facts(tree);
        let cuts = self.shape.cuts(&tree.version, &facts, &candidate);
        let job = Job::new(&self.jobs, id, candidate.clone(), tree, cuts)?;
        let mut state = self.state.lock();
        assert!(state.slot(id).is_none(), "{id} is under way already");
        debug_assert!(
            state.jobs.iter().all(|slot| slot.cancelled || !slot.candidate.collides(&candidate)),
            "{candidate:?} needs what another job holds"
        );
        self.shared.channel.mark(candidate.tree);
        if candidate.frees == Class::Memtable {
            let chain = self.shape.chain(&tree.version, &facts);
            for event in state.chains.flush_begins(candidate.tree, facts.now, &chain) {
                self.shared.emit(event);
            }
        }
        state.jobs.push(Slot::of(id, candidate, Some(Box::new(job))));
        Ok(())
    }

    /// Forgets a tree that is no longer in use, because its keyspace was cleared or dropped.
    fn forget_tree(&self, tree: TreeId) {
        self.state.lock().forget_tree(tree);
        self.manuals.forget(tree);
        self.shared.counters.attribution.forget(tree);
        self.shared.channel.made_room();
        // A worker ends the cancelled jobs.
        self.shared.channel.wake();
    }

    /// Pauses these jobs and resumes all others. Returns true if a paused job was resumed.
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

    /// Sets the jobs whose file calls go first.
    fn order(&self, state: &mut State, order: Option<&CallOrder>) {
        let first: &[JobId] = order.map_or(&[], |order| &order.first);
        state.jobs.iter_mut().for_each(|slot| slot.first = first.contains(&slot.id));
        let patience = order.map(|order| Duration::from_micros(order.patience.0));
        self.shared.io.set_order(patience);
    }

    /// Marks every tree, as after an open.
    pub fn mark_all(&self) {
        let trees: Vec<TreeId> = self.views.load().trees().map(|tree| tree.id).collect();
        self.shared.channel.mark_all(trees);
    }
}

impl World for Ticking<'_> {
    /// Reservations are read before the view. A job releases its reservation only after its result
    /// is visible, so the view shows the result of every job without a reservation.
    fn changed(&mut self) -> Vec<Changed> {
        let Control { shared, views, state, .. } = &**self.control;
        let marks = shared.channel.take_marks();
        let held: Vec<(TreeId, Busy)> = {
            let mut state = state.lock();
            state.drop_ended(&shared.channel);
            marks.into_iter().map(|id| (id, state.busy(id))).collect()
        };
        shared.env.interleave();
        self.view = views.load_full();
        shared.counters.shape_asks.add(held.len() as u64);
        let changed = |(id, busy)| {
            let Some(tree) = self.view.find(id) else {
                self.control.forget_tree(id);
                return None;
            };
            let older = tree.older_part();
            let tree = older.as_ref().unwrap_or(tree);
            let (version, facts) = (tree.version.clone(), self.control.facts(tree));
            Some(Changed { tree: id, busy, version, facts, may_start: shared.health.is_running() })
        };
        held.into_iter().filter_map(changed).collect()
    }

    fn add_asked(&mut self, changed: &Changed, candidates: &mut Candidates) {
        self.control.add_manual(changed, candidates);
    }

    fn know(&mut self, changed: &Changed, known: Known) {
        let Control { shared, shape, state, .. } = &**self.control;
        let waits = round::waits(&**shape, changed, &known);
        let chain = match waits {
            true => shape.chain(&changed.version, &changed.facts),
            false => Chain::default(),
        };
        let mut state = state.lock();
        let ended = state.chains.observe(changed.tree, changed.facts.now, waits, &chain);
        if let Some(event) = ended {
            shared.emit(event);
        }
        match known.is_calm() {
            true => state.known.remove(&changed.tree),
            false => state.known.insert(changed.tree, known),
        };
    }

    fn observe(&mut self) -> Observed {
        let (signals, candidates, running) = {
            let state = self.control.state.lock();
            // Candidates of a tree that is no longer in use are forgotten in the next tick.
            let in_use = |candidate: &Arc<Candidate>| self.view.find(candidate.tree).is_some();
            let known = state.known.values().flat_map(|known| known.candidates.iter().cloned());
            let known = known.filter(in_use);
            (self.control.signals(&self.view, &state), known.collect(), state.running())
        };
        let candidates = self.control.shared.affordable(candidates);
        Observed { signals, candidates, running }
    }

    fn act(&mut self, grants: &Grants, observed: &Observed) -> bool {
        let Control { shared, state, .. } = &**self.control;
        let Observed { candidates, running, .. } = observed;
        let may_go_on;
        let not_cancelled: Vec<JobId> = {
            let mut state = state.lock();
            let faster = state.pace.set(shared.env.now(), grants.bandwidth);
            may_go_on = self.control.pause(&mut state, &grants.paused) || faster;
            self.control.order(&mut state, grants.order.as_ref());
            grants.cancel.iter().copied().filter(|job| !state.cancel(*job)).collect()
        };
        let ending = running.iter().filter(|running| grants.cancel.contains(&running.job));
        shared.channel.mark_all(ending.map(|running| running.candidate.tree));
        let resized = shared.channel.seal_memtables_at(grants.memtable_bytes);
        if resized {
            // Shapes may depend on the size.
            self.control.mark_all();
        }
        let mut started = false;
        for &index in &grants.start {
            let candidate = &candidates[index];
            let held = candidate.conflicts.iter().any(|job| not_cancelled.contains(job));
            if held || !shared.afford(candidate) {
                continue;
            }
            started = true;
            if let Err(error) = self.control.start(&self.view, candidate.clone()) {
                shared.latch(error);
                return false;
            }
        }
        let cancelled = not_cancelled.len() < grants.cancel.len();
        if started || cancelled || may_go_on {
            shared.channel.wake();
        }
        started || cancelled || resized
    }

    fn admit(&mut self, admit: Admit, again: Option<Micros>) {
        let Control { shared, .. } = &**self.control;
        shared.gate.set(admit, shared.env.now());
        shared.channel.ask_again_at(again);
    }
}
