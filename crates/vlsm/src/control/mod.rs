//! Where the three axes meet the engine.
//!
//! [`tick`] is the only place that asks a shape, a schedule and an admission; [`observe`] makes
//! what they are told; [`workers`] runs what they grant, at the [`pace`] they grant; [`manual`]
//! adds what a person asked for; [`chain`] records what memtables had to wait for.

pub(crate) mod chain;
pub(crate) mod manual;
pub(crate) mod observe;
pub(crate) mod pace;
pub(crate) mod tick;
pub(crate) mod workers;

use crate::job::Job;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use chain::Chains;
use manual::Manuals;
use pace::Pace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Bytes, JobId, MemtableId, Micros, TreeId};
use vlsm_disk::{Condition, Env};
use vlsm_policy::{Admission, Busy, Candidate, Pressure, Reservation, Running, Schedule, Shape};

/// A job's place in the list of jobs under way.
pub(crate) struct Slot {
    pub id: JobId,
    pub candidate: Arc<Candidate>,
    /// The job, unless a worker is stepping it or its result is being installed.
    pub job: Option<Box<Job>>,
    pub done: Bytes,
    /// When it was stepped last, as the number of that step in the store.
    pub turn: u64,
    /// Since when it has been granted nothing.
    pub paused_since: Option<Micros>,
    pub cancelled: bool,
    /// Its result is being installed: it cannot be cancelled any more.
    pub settled: bool,
}

/// What the last tick knew of a tree. Trees without candidates and without pressure are not listed.
pub(crate) struct Known {
    pub candidates: Vec<Candidate>,
    pub pressure: Arc<Pressure>,
    /// A sealed memtable waits for its writers: look again soon.
    pub unready: bool,
}

/// Jobs under way and what was proposed. Held for short looks only.
#[derive(Default)]
pub(crate) struct State {
    pub jobs: Vec<Slot>,
    /// Steps so far.
    pub turns: u64,
    pub pace: Pace,
    pub known: BTreeMap<TreeId, Known>,
    pub chains: Chains,
}

/// The policies. Held during a tick only, and only ever taken with `try_lock`.
pub(crate) struct Policies {
    pub schedule: Box<dyn Schedule>,
    pub admission: Box<dyn Admission>,
}

/// The control of one store.
pub(crate) struct Control {
    pub shape: Arc<dyn Shape>,
    pub policies: Mutex<Policies>,
    pub state: Mutex<State>,
    /// What was asked to be compacted.
    pub manuals: Manuals,
    /// Trees that changed since their shape was last asked. A lock of its own: writers take it.
    marks: Mutex<BTreeSet<TreeId>>,
    /// Rotations that nobody was told of yet.
    rotations: Mutex<Vec<Event>>,
    /// Workers and file calls: something to do, or something done.
    wake: Arc<dyn Condition>,
    /// A memtable became free.
    room: Arc<dyn Condition>,
    again: AtomicBool,
    /// When a policy wants to be asked again, in microseconds; [`NEVER`] for no such time.
    again_at: AtomicU64,
    /// Size at which memtables are sealed.
    memtable_bytes: AtomicU64,
    /// Memtables of smaller numbers shall go out although their shape may gather more.
    wanted_below: AtomicU64,
    stop: AtomicBool,
}

/// No time.
const NEVER: u64 = u64::MAX;

impl Control {
    pub fn new(
        env: &dyn Env,
        wake: Arc<dyn Condition>,
        shape: Arc<dyn Shape>,
        policies: Policies,
    ) -> Self {
        Self {
            shape,
            policies: Mutex::new(policies),
            state: Mutex::default(),
            manuals: Manuals::default(),
            marks: Mutex::default(),
            rotations: Mutex::default(),
            wake,
            room: env.condition(Duration::ZERO),
            again: AtomicBool::new(false),
            again_at: AtomicU64::new(NEVER),
            memtable_bytes: AtomicU64::new(u64::MAX),
            wanted_below: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Has a worker look for work.
    pub fn wake(&self) {
        self.wake.notify();
    }

    /// The condition that workers sleep on.
    pub fn wake_condition(&self) -> Arc<dyn Condition> {
        self.wake.clone()
    }

    /// Its epoch.
    pub fn wake_epoch(&self) -> u64 {
        self.wake.epoch()
    }

    /// Sleeps until there may be work.
    pub fn wait_for_work(&self, epoch: u64, until: Option<Duration>) {
        self.wake.wait(epoch, until);
    }

    /// Sets when the policies are asked again although nothing has happened. Who sleeps until a
    /// later time, or for ever, is woken.
    pub fn ask_again_at(&self, time: Option<Micros>) {
        let time = time.map_or(NEVER, |time| time.0);
        if time < self.again_at.swap(time, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Has the policies asked again at this time, where they want to be asked never or later.
    pub fn ask_again_within(&self, time: Duration) {
        let time = time.as_micros() as u64;
        if time < self.again_at.fetch_min(time, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// When that is.
    pub fn again_at(&self) -> Option<Micros> {
        Some(Micros(self.again_at.load(Ordering::Acquire))).filter(|time| time.0 != NEVER)
    }

    /// Sets the size at which memtables are sealed; none for that of the options.
    pub fn seal_memtables_at(&self, bytes: Option<Bytes>) {
        self.memtable_bytes.store(bytes.map_or(u64::MAX, |bytes| bytes.0), Ordering::Relaxed);
    }

    /// The size at which memtables are sealed, where it is less than they have room for.
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Whether a tree changed since the last tick.
    pub fn has_marks(&self) -> bool {
        !self.marks.lock().is_empty()
    }

    /// The epoch of "a memtable became free".
    pub fn room_epoch(&self) -> u64 {
        self.room.epoch()
    }

    /// Waits until a memtable may have become free since `epoch`.
    pub fn wait_for_room(&self, epoch: u64, until: Option<Duration>) {
        self.room.wait(epoch, until);
    }

    /// Says that a memtable became free, or that there is another reason to look again.
    pub fn made_room(&self) {
        if !planted::is(Bug::WakeUpLost) {
            self.room.notify();
        }
    }

    /// Whether somebody waits for this memtable to go out.
    pub fn is_wanted(&self, memtable: MemtableId) -> bool {
        memtable.0 < self.wanted_below.load(Ordering::Relaxed)
    }

    /// Somebody waits for all memtables of smaller numbers.
    pub fn want_below(&self, end: u64) {
        self.wanted_below.fetch_max(end, Ordering::Relaxed);
    }

    /// Notes that a tree changed.
    pub fn mark(&self, tree: TreeId) {
        self.marks.lock().insert(tree);
    }

    /// Notes a rotation, to be told of later.
    pub fn note_rotation(&self, rotated: Event) {
        self.rotations.lock().push(rotated);
    }

    /// The rotations noted since this was last asked.
    pub fn take_rotations(&self) -> Vec<Event> {
        std::mem::take(&mut *self.rotations.lock())
    }

    /// Notes that trees changed.
    pub fn mark_all(&self, trees: impl IntoIterator<Item = TreeId>) {
        self.marks.lock().extend(trees);
    }

    /// The most that any of the proposed jobs needs.
    pub fn proposed(&self, needs: fn(&Candidate) -> u64) -> u64 {
        let state = self.state.lock();
        let proposed = state.known.values().flat_map(|known| &known.candidates);
        proposed.map(needs).max().unwrap_or(0)
    }

    /// Has the proposals that are known looked at again.
    pub fn mark_known(&self) {
        let known: Vec<TreeId> = self.state.lock().known.keys().copied().collect();
        self.mark_all(known);
    }

    /// The trees that changed since this was last asked.
    pub fn take_marks(&self) -> BTreeSet<TreeId> {
        std::mem::take(&mut *self.marks.lock())
    }

    /// Ends the workers after their current step.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake.notify();
        self.room.notify();
    }

    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether no job is under way and none is proposed.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        // A tick under way took the marks; what it proposes it lists under the lock held here.
        !self.policies.is_locked()
            && state.jobs.is_empty()
            && !self.has_marks()
            && state.known.values().all(|known| known.candidates.is_empty() && !known.unready)
    }
}

impl State {
    /// What the jobs of a tree hold. One that is cancelled holds nothing: its inputs are not
    /// changed and its output never shows.
    pub fn busy(&self, tree: TreeId) -> Busy {
        let jobs = self.jobs.iter();
        let jobs = jobs.filter(|slot| slot.candidate.tree == tree && !slot.cancelled);
        let held = |slot: &Slot| Reservation { job: slot.id, candidate: slot.candidate.clone() };
        Busy { reservations: jobs.map(held).collect() }
    }

    /// A job's place.
    pub fn slot(&self, id: JobId) -> Option<&Slot> {
        self.jobs.iter().find(|slot| slot.id == id)
    }

    /// Cancels a job. False when its result is being installed, or it has ended.
    pub fn cancel(&mut self, id: JobId) -> bool {
        let slot = self.jobs.iter_mut().find(|slot| slot.id == id && !slot.settled);
        slot.map(|slot| slot.cancelled = true).is_some()
    }

    /// Settles that a job's result will be installed. False when the job was cancelled.
    pub fn settle(&mut self, id: JobId) -> bool {
        let slot = self.jobs.iter_mut().find(|slot| slot.id == id && !slot.cancelled);
        slot.map(|slot| slot.settled = true).is_some()
    }

    /// All jobs, as a schedule sees them.
    pub fn running(&self) -> Vec<Running> {
        let running = |slot: &Slot| Running {
            job: slot.id,
            candidate: slot.candidate.clone(),
            done: slot.done,
            left: slot.candidate.bytes_in.saturating_sub(slot.done),
            paused_since: slot.paused_since,
            settled: slot.settled,
        };
        self.jobs.iter().filter(|slot| !slot.cancelled).map(running).collect()
    }
}
