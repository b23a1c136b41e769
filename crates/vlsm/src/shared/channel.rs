//! Signals between the parts of a store, which do not know each other.
//!
//! | signal | from | to |
//! |---|---|---|
//! | there may be work | all parts | workers |
//! | there is room: a memtable became free, or something else ended | installs | waiters |
//! | a tree changed | rotations, jobs, ingests | the tick |
//! | a memtable was rotated | the sequencing step | listeners, later |
//! | memtables up to a number must be flushed | waiting writers, flushes | the tick |
//! | memtables up to a number go into tables whole | flushes | flushes' jobs |
//! | a job's result was installed | installs | the tick |
//! | the size at which memtables are sealed | the tick | the sequencing step |
//! | the time of the next decision | the tick, the gate | workers |
//!
//! [`Channel::wake_all`] wakes all waiters, because the store's health has changed.
//!
//! Threads and locks: atomics, and locks that are held for one push or one swap.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Bytes, JobId, MemtableId, Micros, TreeId};
use vlsm_disk::{Condition, Env};

/// No time.
const NEVER: u64 = u64::MAX;

/// The signals between the parts of a store: changed trees, rotations, ended jobs, free memtables,
/// and the time of the next decision.
pub(crate) struct Channel {
    /// Trees that changed since their shape was last asked. A lock of its own: writers take it.
    marks: Mutex<BTreeSet<TreeId>>,
    /// Rotations whose events are not emitted yet.
    rotations: Mutex<Vec<Event>>,
    /// Jobs whose results were installed, or were not and never will be.
    ended: Mutex<Vec<JobId>>,
    /// Workers and file calls: something to do, or something done.
    work: Arc<dyn Condition>,
    /// A memtable became free.
    room: Arc<dyn Condition>,
    /// All conditions of the store.
    conditions: Mutex<Vec<Arc<dyn Condition>>>,
    /// The time at which policies are asked again, in microseconds; [`NEVER`] for no such time.
    again_at: AtomicU64,
    /// Size at which memtables are sealed.
    memtable_bytes: AtomicU64,
    /// Memtables with smaller numbers are flushed even if their shape would gather more first.
    wanted_below: AtomicU64,
    /// Of memtables of smaller numbers nothing stays in memory: somebody waits for their tables.
    settled_below: AtomicU64,
    stop: AtomicBool,
}

impl Channel {
    /// A channel. File calls that ended notify `work`.
    pub fn new(env: &dyn Env, work: Arc<dyn Condition>) -> Self {
        let room = env.condition(Duration::ZERO);
        Self {
            marks: Mutex::default(),
            rotations: Mutex::default(),
            ended: Mutex::default(),
            conditions: Mutex::new(vec![work.clone()]),
            work,
            room,
            again_at: AtomicU64::new(NEVER),
            memtable_bytes: AtomicU64::new(u64::MAX),
            wanted_below: AtomicU64::new(0),
            settled_below: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// A condition that [`Self::wake_all`] notifies, too.
    pub fn condition(&self, env: &dyn Env, spin: Duration) -> Arc<dyn Condition> {
        let condition = env.condition(spin);
        self.conditions.lock().push(condition.clone());
        condition
    }

    /// Wakes all waiters, so that they check the store's health.
    pub fn wake_all(&self) {
        let conditions = self.conditions.lock().clone();
        conditions.iter().for_each(|condition| condition.notify());
        self.made_room();
    }

    /// Wakes a worker to look for work.
    pub fn wake(&self) {
        self.work.notify();
    }

    /// The condition that workers sleep on.
    pub fn work(&self) -> &Arc<dyn Condition> {
        &self.work
    }

    /// Sets the time of the next decision. Workers that sleep longer are woken.
    pub fn ask_again_at(&self, time: Option<Micros>) {
        let time = time.map_or(NEVER, |time| time.0);
        if time < self.again_at.swap(time, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Brings the next decision forward to `time`, if it is later or no time is set for it.
    pub fn ask_again_within(&self, time: Duration) {
        let time = time.as_micros() as u64;
        if time < self.again_at.fetch_min(time, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// The time of the next decision; none if no time is set.
    pub fn again_at(&self) -> Option<Micros> {
        Some(Micros(self.again_at.load(Ordering::Acquire))).filter(|time| time.0 != NEVER)
    }

    /// Sets the size at which memtables are sealed; none for that of the options. True if it was
    /// another.
    pub fn seal_memtables_at(&self, bytes: Option<Bytes>) -> bool {
        let bytes = bytes.map_or(u64::MAX, |bytes| bytes.0);
        self.memtable_bytes.swap(bytes, Ordering::Relaxed) != bytes
    }

    /// The size at which memtables are sealed, where it is less than they have room for.
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
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

    /// Whether a caller waits for the flush of this memtable.
    pub fn is_wanted(&self, memtable: MemtableId) -> bool {
        memtable.0 < self.wanted_below.load(Ordering::Relaxed)
    }

    /// Marks all memtables with numbers below `end` as wanted.
    pub fn want_below(&self, end: u64) {
        self.wanted_below.fetch_max(end, Ordering::Relaxed);
    }

    /// Whether nothing of this memtable may stay in memory when it is flushed.
    pub fn is_settled(&self, memtable: MemtableId) -> bool {
        memtable.0 < self.settled_below.load(Ordering::Acquire)
    }

    /// Somebody waits for all of the memtables of smaller numbers to be in tables.
    pub fn settle_below(&self, end: u64) {
        self.settled_below.fetch_max(end, Ordering::AcqRel);
    }

    /// Notes that a tree changed.
    pub fn mark(&self, tree: TreeId) {
        self.marks.lock().insert(tree);
    }

    /// Notes that trees changed.
    pub fn mark_all(&self, trees: impl IntoIterator<Item = TreeId>) {
        self.marks.lock().extend(trees);
    }

    /// Whether a tree changed since the last tick.
    pub fn has_marks(&self) -> bool {
        !self.marks.lock().is_empty()
    }

    /// The trees that changed since this was last asked.
    pub fn take_marks(&self) -> BTreeSet<TreeId> {
        std::mem::take(&mut *self.marks.lock())
    }

    /// Records a rotation, whose event a worker emits later.
    pub fn note_rotation(&self, rotated: Event) {
        self.rotations.lock().push(rotated);
    }

    /// The rotations noted since this was last asked.
    pub fn take_rotations(&self) -> Vec<Event> {
        std::mem::take(&mut *self.rotations.lock())
    }

    /// This job has ended: its reservations are free.
    pub fn job_ended(&self, job: JobId, tree: TreeId) {
        self.ended.lock().push(job);
        self.mark(tree);
        self.wake();
    }

    /// The jobs that ended since this was last asked.
    pub fn take_ended(&self) -> Vec<JobId> {
        std::mem::take(&mut *self.ended.lock())
    }

    /// Ends the workers after their current step.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.work.notify();
        self.room.notify();
    }

    /// Whether the workers end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
