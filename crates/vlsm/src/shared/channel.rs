//! Signals between the parts of a store, so that the parts need not know each other.
//!
//! | signal | from | to |
//! |---|---|---|
//! | there may be work, or an urgent file call has ended | all parts | the flusher |
//! | the same, or any file call has ended | all parts | niced workers |
//! | there is room: a memtable became free, or another wait may end | installs | waiters |
//! | a tree changed | rotations, jobs, ingests | the tick |
//! | a memtable was rotated | the sequencing step | listeners, later |
//! | memtables up to a number must be flushed | waiting writers, flushes | the tick |
//! | memtables up to a number go into SSTs completely | flushes | flushes' jobs |
//! | a job's result was installed | installs | the tick |
//! | the size at which memtables are sealed | the tick | the sequencing step |
//! | the time of the next decision | the tick, the gate | workers |
//!
//! [`Channel::wake_all`] wakes all waiters when the store's health has changed.
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
use vlsm_disk::{Condition, Done, Env};

/// Stands for no time.
const NEVER: u64 = u64::MAX;

/// The signals between the parts of a store: changed trees, rotations, ended jobs, free memtables,
/// and the time of the next decision.
pub(crate) struct Channel {
    /// Trees that changed since their shape was last evaluated. A lock of its own, because writers
    /// take it.
    marks: Mutex<BTreeSet<TreeId>>,
    /// Rotations whose events are not emitted yet.
    rotations: Mutex<Vec<Event>>,
    /// Jobs whose results were installed, or never will be.
    ended: Mutex<Vec<JobId>>,
    /// For the flusher: there may be work, or an urgent file call has ended.
    work: Arc<dyn Condition>,
    /// For the other workers: the same, or any file call has ended.
    calls: Arc<dyn Condition>,
    /// For waiters: a memtable became free.
    room: Arc<dyn Condition>,
    /// All conditions of the store.
    conditions: Mutex<Vec<Arc<dyn Condition>>>,
    /// The time of the next decision of the policies, in microseconds; [`NEVER`] if none is set.
    again_at: AtomicU64,
    /// The size at which memtables are sealed.
    memtable_bytes: AtomicU64,
    /// Memtables with smaller numbers are flushed even if the shape would gather more first.
    wanted_below: AtomicU64,
    /// Flushes of memtables with smaller numbers leave nothing in memory, because a caller waits
    /// for the SSTs.
    settled_below: AtomicU64,
    stop: AtomicBool,
}

/// The condition on which the flusher sleeps. Whoever notifies it also wakes the other workers, and
/// a flusher that sleeps on their condition because it helps them.
pub(crate) struct Work {
    /// Notified alone by urgent file calls, which notify `calls` themselves.
    flusher: Arc<dyn Condition>,
    calls: Arc<dyn Condition>,
}

impl Work {
    /// The condition, and what file calls notify.
    pub fn new(env: &dyn Env) -> (Arc<Self>, Done) {
        let [flusher, calls] = [(); 2].map(|()| env.condition(Duration::ZERO));
        let done = Done { each: calls.clone(), urgent: Some(flusher.clone()) };
        (Arc::new(Self { flusher, calls }), done)
    }
}

impl Condition for Work {
    fn epoch(&self) -> u64 {
        self.flusher.epoch()
    }

    fn wait(&self, epoch: u64, deadline: Option<Duration>) -> bool {
        self.flusher.wait(epoch, deadline)
    }

    fn notify(&self) {
        self.flusher.notify();
        self.calls.notify();
    }

    fn on_notify(&self, epoch: u64, call: Box<dyn FnOnce() + Send>) -> bool {
        self.flusher.on_notify(epoch, call)
    }
}

impl Channel {
    /// A channel.
    pub fn new(env: &dyn Env, work: Arc<Work>) -> Self {
        let (calls, work) = (work.calls.clone(), work as Arc<dyn Condition>);
        let room = env.condition(Duration::ZERO);
        Self {
            marks: Mutex::default(),
            rotations: Mutex::default(),
            ended: Mutex::default(),
            conditions: Mutex::new(vec![work.clone(), calls.clone()]),
            work,
            calls,
            room,
            again_at: AtomicU64::new(NEVER),
            memtable_bytes: AtomicU64::new(u64::MAX),
            wanted_below: AtomicU64::new(0),
            settled_below: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Creates a condition that [`Self::wake_all`] also notifies.
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

    /// Wakes the workers to look for work.
    pub fn wake(&self) {
        self.work.notify();
    }

    /// The condition on which the flusher sleeps. Its notifications wake all workers.
    pub fn work(&self) -> &Arc<dyn Condition> {
        &self.work
    }

    /// The condition that file calls notify: only urgent ones, for which the flusher waits, or any.
    pub fn calls(&self, any: bool) -> &Arc<dyn Condition> {
        if any { &self.calls } else { &self.work }
    }

    /// Sets the time of the next decision. Wakes workers if it is earlier than before.
    pub fn ask_again_at(&self, time: Option<Micros>) {
        let time = time.map_or(NEVER, |time| time.0);
        if time < self.again_at.swap(time, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Moves the next decision forward to `time` if it is later, or if no time is set.
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

    /// Sets the size at which memtables are sealed; none for that of the options. Returns true if
    /// it changed.
    pub fn seal_memtables_at(&self, bytes: Option<Bytes>) -> bool {
        let bytes = bytes.map_or(u64::MAX, |bytes| bytes.0);
        self.memtable_bytes.swap(bytes, Ordering::Relaxed) != bytes
    }

    /// The size at which memtables are sealed, if it is less than their length.
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// The epoch of the signal that a memtable became free.
    pub fn room_epoch(&self) -> u64 {
        self.room.epoch()
    }

    /// Waits until a memtable may have become free since `epoch`.
    pub fn wait_for_room(&self, epoch: u64, until: Option<Duration>) {
        self.room.wait(epoch, until);
    }

    /// Signals that a memtable became free, or that waiters should check again for another reason.
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

    /// Whether the flush of this memtable must leave nothing in memory.
    pub fn is_settled(&self, memtable: MemtableId) -> bool {
        memtable.0 < self.settled_below.load(Ordering::Acquire)
    }

    /// Records that a caller waits until all memtables with smaller numbers are in SSTs.
    pub fn settle_below(&self, end: u64) {
        self.settled_below.fetch_max(end, Ordering::AcqRel);
    }

    /// Records that a tree changed.
    pub fn mark(&self, tree: TreeId) {
        self.marks.lock().insert(tree);
    }

    /// Records that trees changed.
    pub fn mark_all(&self, trees: impl IntoIterator<Item = TreeId>) {
        self.marks.lock().extend(trees);
    }

    /// Whether a tree changed since the last tick.
    pub fn has_marks(&self) -> bool {
        !self.marks.lock().is_empty()
    }

    /// Takes the trees that changed since the last call.
    pub fn take_marks(&self) -> BTreeSet<TreeId> {
        std::mem::take(&mut *self.marks.lock())
    }

    /// Records a rotation. A worker emits its event later.
    pub fn note_rotation(&self, rotated: Event) {
        self.rotations.lock().push(rotated);
    }

    /// Takes the rotations recorded since the last call.
    pub fn take_rotations(&self) -> Vec<Event> {
        std::mem::take(&mut *self.rotations.lock())
    }

    /// Records that a job has ended, so that its reservations become free.
    pub fn job_ended(&self, job: JobId, tree: TreeId) {
        self.ended.lock().push(job);
        self.mark(tree);
        self.wake();
    }

    /// Takes the jobs that ended since the last call.
    pub fn take_ended(&self) -> Vec<JobId> {
        std::mem::take(&mut *self.ended.lock())
    }

    /// Tells the workers to end after their current step.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
        self.room.notify();
    }

    /// Whether the workers were told to end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
