//! Control: obtains the policies' decisions and runs jobs accordingly.
//!
//! [`tick`] makes a round of decisions over the facts of [`observe`]; [`workers`] runs granted jobs
//! at the granted pace; [`manual`] adds requested compactions; [`chain`] records the chains for
//! which memtables waited; [`space`] looks for free space while the device is full.

pub(crate) mod chain;
pub(crate) mod manual;
pub(crate) mod observe;
pub(crate) mod space;
pub(crate) mod tick;
pub(crate) mod workers;

use crate::install::Installer;
use crate::job::{Context, Job};
use crate::log::Log;
use crate::read::Reader;
use crate::read::view::Views;
use crate::shared::Shared;
use crate::shared::channel::Channel;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Mutex, MutexGuard};
use crate::write::Writer;
use chain::Chains;
use manual::Manuals;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{Bytes, JobId, Micros, Result, TreeId};
use vlsm_disk::Crew;
use vlsm_policy::{Busy, Candidate, Deciders, DeviceMap, Known, Pace, Reservation, Running, Shape};

/// A job's slot in the list of running jobs.
pub(crate) struct Slot {
    pub id: JobId,
    pub candidate: Arc<Candidate>,
    /// The job, unless a worker is stepping it or its result is being installed.
    pub job: Option<Box<Job>>,
    pub done: Bytes,
    /// The number of its last step among the steps of all jobs.
    pub turn: u64,
    /// Whether its file calls go before those of other jobs.
    pub first: bool,
    /// The time at which it was paused; none if it is not paused.
    pub paused_since: Option<Micros>,
    pub cancelled: bool,
    /// Its result is being installed: it cannot be cancelled any more.
    pub installing: bool,
}

impl Slot {
    fn of(id: JobId, candidate: Arc<Candidate>, job: Option<Box<Job>>) -> Self {
        let installing = job.is_none();
        let (turn, done, paused_since) = (0, Bytes::ZERO, None);
        let (first, cancelled) = (false, false);
        Self { id, candidate, job, turn, done, first, paused_since, cancelled, installing }
    }

    /// A slot for an ingest: it reserves inputs and output as a job does, but has no steps.
    pub fn reserved(id: JobId, candidate: Candidate) -> Self {
        Self::of(id, Arc::new(candidate), None)
    }
}

/// The running jobs and the proposals. Its lock is held for a short time only.
#[derive(Default)]
pub(crate) struct State {
    pub jobs: Vec<Slot>,
    /// The number of steps so far.
    pub turns: u64,
    /// Whether the worker with the priority of clients steps a job.
    pub flusher_steps: bool,
    /// The number of niced workers that run or are being started.
    pub staff: usize,
    pub pace: Pace,
    /// The last result of the shape for each tree that is not idle.
    pub known: BTreeMap<TreeId, Known>,
    pub chains: Chains,
}

/// Decides which jobs run, and runs them.
pub(crate) struct Control {
    shared: Arc<Shared>,
    views: Arc<Views>,
    reader: Arc<Reader>,
    log: Arc<Log>,
    installer: Arc<Installer>,
    writer: Arc<Writer>,
    /// The parts of the store that jobs use.
    jobs: Context,
    /// The throughput of the device; empty if no mechanism needs it.
    device: Arc<DeviceMap>,
    shape: Arc<dyn Shape>,
    /// Held during a tick only, and only taken with `try_lock`.
    deciders: Mutex<Deciders>,
    state: Mutex<State>,
    /// The requested compactions of key ranges.
    manuals: Manuals,
    again: AtomicBool,
    /// The workers.
    crew: Crew,
}

/// The parts of the store that a [`Control`] uses.
pub(crate) struct Parts {
    pub reader: Arc<Reader>,
    pub log: Arc<Log>,
    pub installer: Arc<Installer>,
    pub writer: Arc<Writer>,
    pub jobs: Context,
    pub device: Arc<DeviceMap>,
    pub shape: Arc<dyn Shape>,
    pub deciders: Deciders,
}

impl Control {
    pub fn new(parts: Parts) -> Self {
        let Parts { reader, log, installer, writer, jobs, device, shape, deciders } = parts;
        let crew = Crew::new(&jobs.shared.env);
        Self {
            shared: jobs.shared.clone(),
            views: jobs.views.clone(),
            reader,
            log,
            installer,
            writer,
            jobs,
            device,
            shape,
            deciders: Mutex::new(deciders),
            state: Mutex::default(),
            manuals: Manuals::default(),
            again: AtomicBool::new(false),
            crew,
        }
    }

    /// The store's shape, which proposes the merges.
    pub fn shape(&self) -> &Arc<dyn Shape> {
        &self.shape
    }

    /// Locks the running jobs and the proposals, for a short time.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds the reservations of an ingest, unless a tick is running, because the slots of `reserve`
    /// must not collide with a job that a tick has found possible. Returns none while a tick is
    /// running.
    pub fn reserve<R>(&self, reserve: impl FnOnce(&mut State) -> R) -> Option<R> {
        let deciders = self.deciders.try_lock()?;
        let reserved = reserve(&mut self.state.lock());
        drop(deciders);
        // A tick may have found the deciders taken.
        self.shared.channel.wake();
        Some(reserved)
    }

    /// The largest need of any proposed job.
    fn proposed(&self, needs: fn(&Candidate) -> u64) -> u64 {
        let state = self.state.lock();
        let proposed = state.known.values().flat_map(|known| &known.candidates);
        proposed.map(|job| needs(job)).max().unwrap_or(0)
    }

    /// Marks the trees with known proposals, so that their shape is evaluated again.
    fn mark_known(&self) {
        let known: Vec<TreeId> = self.state.lock().known.keys().copied().collect();
        self.shared.channel.mark_all(known);
    }

    /// Waits until no job is running and none is proposed.
    pub fn wait_idle(&self) -> Result<()> {
        loop {
            let epoch = self.shared.channel.room_epoch();
            self.shared.health.check()?;
            if self.is_idle() {
                return Ok(());
            }
            self.shared.channel.wake();
            self.shared
                .channel
                .wait_for_room(epoch, Some(self.shared.env.now() + Duration::from_millis(10)));
        }
    }

    /// Whether no job is running and none is proposed.
    fn is_idle(&self) -> bool {
        let channel = &self.shared.channel;
        let mut state = self.state.lock();
        state.drop_ended(channel);
        // A running tick has taken the marks; it adds its proposals under the lock that is held
        // here.
        !self.deciders.is_locked()
            && state.jobs.is_empty()
            && !channel.has_marks()
            && state.known.values().all(|known| known.candidates.is_empty() && !known.unready)
    }
}

impl State {
    /// Returns the reservations of a tree's jobs. A cancelled job has none, because its inputs are
    /// not changed and its output never becomes visible.
    pub fn busy(&self, tree: TreeId) -> Busy {
        let jobs = self.jobs.iter();
        let jobs = jobs.filter(|slot| slot.candidate.tree == tree && !slot.cancelled);
        let held = |slot: &Slot| Reservation { job: slot.id, candidate: slot.candidate.clone() };
        Busy { reservations: jobs.map(held).collect() }
    }

    /// Forgets the proposals for a tree that is no longer in use, and cancels its jobs, because
    /// their results would not be installed.
    pub fn forget_tree(&mut self, tree: TreeId) {
        self.known.remove(&tree);
        self.chains.forget(tree);
        let jobs = self.jobs.iter_mut().filter(|slot| slot.candidate.tree == tree);
        jobs.filter(|slot| !slot.installing).for_each(|slot| slot.cancelled = true);
    }

    /// The number of jobs that have steps.
    fn steps(&self) -> usize {
        self.jobs.iter().filter(|slot| !slot.installing).count()
    }

    /// Counts one more niced worker if there are fewer than jobs and than `most`. Returns true if
    /// there are.
    pub fn hire(&mut self, most: usize) -> bool {
        let lacks = self.staff < self.steps().min(most);
        self.staff += usize::from(lacks);
        lacks
    }

    /// Counts one niced worker less if there are more than jobs. Returns true if there are.
    pub fn dismiss(&mut self) -> bool {
        let spare = self.staff > self.steps();
        self.staff -= usize::from(spare);
        spare
    }

    /// Removes the slots of ended jobs.
    pub fn drop_ended(&mut self, channel: &Channel) {
        let ended = channel.take_ended();
        let held = self.jobs.iter().find(|slot| slot.job.is_some() && ended.contains(&slot.id));
        assert!(held.is_none(), "{} ended in its slot", held.expect("there").id);
        self.jobs.retain(|slot| !ended.contains(&slot.id));
    }

    /// The slot of a job.
    pub fn slot(&self, id: JobId) -> Option<&Slot> {
        self.jobs.iter().find(|slot| slot.id == id)
    }

    /// Cancels a job. Returns false if its result is being installed, or it has ended.
    pub fn cancel(&mut self, id: JobId) -> bool {
        let slot = self.jobs.iter_mut().find(|slot| slot.id == id && !slot.installing);
        slot.map(|slot| slot.cancelled = true).is_some()
    }

    /// Begins the install of a job's result. Returns false if the job was cancelled.
    pub fn begin_install(&mut self, id: JobId) -> bool {
        let slot = self.jobs.iter_mut().find(|slot| slot.id == id && !slot.cancelled);
        let Some(slot) = slot else { return false };
        assert!(slot.job.is_none() && !slot.installing, "{id} is not with its worker");
        slot.installing = true;
        true
    }

    /// All jobs, as a schedule sees them.
    pub fn running(&self) -> Vec<Running> {
        let running = |slot: &Slot| Running {
            job: slot.id,
            candidate: slot.candidate.clone(),
            done: slot.done,
            left: slot.candidate.bytes_in.saturating_sub(slot.done),
            paused_since: slot.paused_since,
            installing: slot.installing,
        };
        self.jobs.iter().filter(|slot| !slot.cancelled).map(running).collect()
    }
}
