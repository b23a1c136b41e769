//! The worker threads. Each repeatedly takes a granted job that does not wait for the device, and
//! steps it by one quantum.
//!
//! Workers are niced, so they use the processor time that clients leave. But a flush that gets no
//! processor time stalls the clients. So there is one additional worker with the priority of
//! clients, the flusher. It takes only flushes (or the jobs that free memtables instead) and, while
//! a writer waits for a memtable, any job. A niced worker takes a flush only while the flusher
//! steps another job, because its step may take a tenth of a second beside busy clients.
//!
//! The flusher sleeps on a condition of its own, which the file calls of other jobs do not notify:
//! it woke 2,700 times a second for them, before the clients (docs/performance.md, "Clients that
//! wait for a processor"). While it takes any job, it sleeps on that of the niced workers.
//!
//! There is always a flusher; while it waits for nothing but the next signal, it has no thread
//! (`vlsm_disk::waker`). There are as many niced workers as jobs, up to the number of the options:
//! a tick that grants jobs starts those that are missing, and a worker that found no step for three
//! seconds ends if there are more workers than jobs. If the system starts no thread, the workers
//! that run do the work; if there is no niced one, the flusher takes any job.
//!
//! Between steps a job is in its slot, so any worker may continue it; a paused job stays there.
//! Order: jobs that free memory, then L0, then the levels from the top; within a class first come,
//! first served. A panic in a step latches the store and ends the job, not the worker. A panic
//! between steps also ends the worker.

use crate::control::Control;
use crate::control::{Slot, State};
use crate::job::{Job, Request, Step};
use crate::shared::counters::LevelCounter;
use crate::shared::{Shared, no_thread};
use std::io::{self, ErrorKind::NotFound};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vlsm_core::event::{Event, JobKind};
use vlsm_core::{Bytes, Change, Error, JobId, Micros, Place, Table, TreeId, VersionEdit};
use vlsm_disk::crew::{Next, STAYS};
use vlsm_disk::env::Priority;
use vlsm_disk::waker::Thread;
use vlsm_disk::{Condition, Rank};
use vlsm_policy::shape::cuts::{Grade, grade};
use vlsm_policy::{Candidate, Class, Overlap};

/// The time after which an unready memtable is checked again.
const UNREADY_RETRY: Duration = Duration::from_millis(1);
/// The least sleep of the worker that waits for the time of the next decision. If that time has
/// passed, another worker is running the policies, and it sets the next time when it is done.
const AGAIN_RETRY: Duration = Duration::from_millis(1);

/// Jobs no longer yield to clients from this fraction of the pressure that slows down writes.
const PRESSED: f64 = 0.5;

impl Control {
    /// Starts the flusher. It starts the other workers when there are jobs.
    ///
    /// # Errors
    /// [`Error::Io`] if the system cannot start the thread.
    pub fn start_workers(self: &Arc<Self>) -> vlsm_core::Result<()> {
        let started = self.start_worker("vlsm-flush", Priority::Normal);
        started.map_err(|error| no_thread(&self.shared.dir, error))
    }

    fn start_worker(self: &Arc<Self>, name: &str, priority: Priority) -> io::Result<()> {
        let control = self.clone();
        self.crew.start(name, priority, move |thread| control.work(priority, thread))
    }

    /// Starts the niced workers that are missing for the running jobs.
    fn staff(self: &Arc<Self>) {
        let Shared { channel, options, .. } = &*self.shared;
        while !channel.stopping() && self.state.lock().hire(options.worker_count()) {
            let started = self.start_worker("vlsm-work", Priority::Background);
            if started.is_err() {
                self.state.lock().staff -= 1;
                // The flusher may be the only worker now.
                channel.wake();
                return;
            }
        }
    }

    /// The main loop of a worker. A panic outside a job latches the store and ends the worker;
    /// nothing is granted any more, and the workers that are left end the jobs.
    fn work(self: &Arc<Self>, priority: Priority, thread: Thread) -> Next {
        let mut stepped = self.shared.env.now();
        while !self.shared.channel.stopping() {
            let round = || self.work_once(priority, thread, &mut stepped);
            match catch_unwind(AssertUnwindSafe(round)) {
                Ok(None) => {}
                Ok(Some(next)) => return next,
                Err(_) => {
                    if priority == Priority::Background {
                        self.state.lock().staff -= 1;
                    }
                    self.shared.latch(Error::Internal("a worker panicked between jobs".into()));
                    let events = self.shared.events.clone();
                    self.shared.in_background(move || events.write_log());
                    return Next::End;
                }
            }
        }
        Next::End
    }

    /// Decides, steps one job, or sleeps. `stepped` is the time of the worker's last step. Returns
    /// how the worker goes on if not at once: it may end, or do without a thread.
    fn work_once(
        self: &Arc<Self>,
        priority: Priority,
        thread: Thread,
        stepped: &mut Duration,
    ) -> Option<Next> {
        let channel = &self.shared.channel;
        let epochs = [false, true].map(|any| channel.calls(any).epoch());
        let look = self.look_in_time();
        let publish = self.publish_in_time();
        let again = channel.again_at().map(|time| Duration::from_micros(time.0));
        if channel.has_marks() || again.is_some_and(|time| time <= self.shared.env.now()) {
            self.tick();
            self.staff();
        }
        self.tell_rotations();
        self.balance_memory();
        match self.take_job(priority) {
            Ok((id, job)) => {
                let flushes = job.candidate.frees == Class::Memtable;
                let ran = self.step(id, job);
                if priority == Priority::Normal {
                    self.state.lock().flusher_steps = false;
                } else if flushes && ran {
                    // The flusher left this flush to this worker, and may be asleep. If the flush
                    // is blocked, the end of a file call wakes all workers.
                    self.shared.channel.wake();
                }
                *stepped = self.shared.env.now();
                if thread == Thread::Lent {
                    return Some(Next::GoOn);
                }
            }
            Err(paced) => {
                let (is_niced, now) = (priority == Priority::Background, self.shared.env.now());
                let stayed = now >= *stepped + STAYS;
                if is_niced && stayed && self.state.lock().dismiss() {
                    // Another worker takes over what this one was woken for.
                    self.shared.channel.wake();
                    return Some(Next::End);
                }
                let unready = self.mark_unready();
                let unready = unready.then(|| self.shared.env.now() + UNREADY_RETRY);
                // One worker waits for the time of the next decision; workers that are awake also
                // check it.
                let again = self.shared.channel.again_at().filter(|_| priority == Priority::Normal);
                // If another worker is running the policies now, the next time is not set yet.
                let soon = self.shared.env.now() + AGAIN_RETRY;
                let again = again.map(|time| Duration::from_micros(time.0).max(soon));
                let publish = publish.filter(|_| priority == Priority::Normal);
                // A worker that is needed now may not be so later.
                let ends = is_niced.then(|| if stayed { now } else { *stepped } + STAYS);
                let until = [unready, look, publish, self.reader.take_back(), again, paced, ends];
                let until = until.into_iter().flatten().min();
                self.chores();
                if self.shared.channel.stopping() {
                    return None;
                }
                let (wake, epoch) = self.sleeps_on(is_niced, epochs);
                match (thread, until) {
                    (Thread::Lent, Some(_)) => return Some(Next::Retry),
                    (Thread::Own, None) if !stayed => wake.wait(epoch, Some(*stepped + STAYS)),
                    (_, None) => return Some(Next::Await(wake.clone(), epoch)),
                    (Thread::Own, Some(_)) => wake.wait(epoch, until),
                };
            }
        }
        None
    }

    /// Emits the events of rotations, outside the sequencing step in which they happened.
    pub fn tell_rotations(&self) {
        for event in self.shared.channel.take_rotations() {
            self.shared.emit(event);
        }
    }

    /// Starts a look for a request for the statistics if it is due. Returns the time of the next
    /// look.
    fn publish_in_time(&self) -> Option<Duration> {
        let shared = &self.shared;
        if !shared.options.stats_on_request || shared.channel.stopping() {
            return None;
        }
        shared.published.watch(&*shared.env, &shared.dir, shared.channel.work());
        let (due, next) = shared.published.due(shared.env.now());
        if due {
            let on = shared.clone();
            shared.in_background(move || on.published.look(&*on.env, &on.dir));
        }
        next
    }

    /// Fills the pool of spare arenas in the background.
    fn fill_arenas(self: &Arc<Self>) {
        let shared = self.shared.clone();
        self.shared.in_background(move || shared.fill_arenas());
    }

    /// Keeps spare arenas, cache and readers within their shares of the memory.
    fn balance_memory(self: &Arc<Self>) {
        let trim =
            || std::iter::repeat_with(|| self.shared.arenas.trim()).take_while(|&any| any).count();
        trim();
        let short = self.shared.memory.balance() && (trim() == 0 || self.shared.memory.balance());
        if short && !self.shared.memory.evicting.swap(true, Ordering::AcqRel) {
            let (shared, installer) = (self.shared.clone(), self.installer.clone());
            self.shared.in_background(move || {
                installer.evict_readers();
                shared.memory.evicting.store(false, Ordering::Release);
            });
        }
    }

    /// Takes the most urgent job that can continue, among those for a worker of this priority. If
    /// there is none, returns the time at which a job that lacks bandwidth may continue. While
    /// memory is scarce, flushes run one after the other, because many small trees may each have
    /// one.
    fn take_job(&self, priority: Priority) -> Result<(JobId, Box<Job>), Option<Duration>> {
        let is_flusher = priority == Priority::Normal;
        let mut state = self.state.lock();
        let any = !is_flusher || self.helps(&state);
        let State { jobs, pace, turns, flusher_steps, .. } = &mut *state;
        let takes_flushes = is_flusher || *flusher_steps;
        pace.fill(self.shared.env.now());
        let flushes = jobs.iter().filter(|slot| slot.candidate.frees == Class::Memtable);
        let begun = |slot: &Slot| slot.job.as_ref().is_some_and(|job| job.has_begun());
        let one_by_one = !self.shared.memory.jobs_fit() && flushes.clone().any(begun);
        let ends =
            |slot: &Slot| slot.cancelled || slot.job.as_ref().is_some_and(|job| job.has_failed());
        let ready = |slot: &&mut Slot| {
            let is_flush = slot.candidate.frees == Class::Memtable;
            (if is_flush { takes_flushes } else { any })
                && (slot.paused_since.is_none() || ends(slot))
                && !(one_by_one && is_flush && !begun(slot))
                && slot.job.as_ref().is_some_and(|job| slot.cancelled || job.is_ready())
        };
        // A move of tables makes no I/O on the device.
        let paced = |slot: &Slot| {
            let moves = slot.candidate.kind == JobKind::TrivialMove;
            !moves && !ends(slot) && !pace.allows(slot.candidate.frees)
        };
        let (waiting, able): (Vec<_>, Vec<_>) =
            jobs.iter_mut().filter(ready).partition(|slot| paced(slot));
        let in_turn = pace.is_in_turn();
        let next = able.into_iter().min_by_key(|slot| {
            let frees = slot.candidate.frees;
            // All jobs except flushes are treated alike: the job whose last turn was longest ago is
            // first.
            let (class, turn) =
                if in_turn { (frees.min(Class::L0), slot.turn) } else { (frees, 0) };
            (class, turn, slot.id)
        });
        let taken = next.and_then(|slot| {
            *turns += 1;
            *flusher_steps |= is_flusher;
            slot.turn = *turns;
            let mut job = slot.job.take()?;
            job.rank = if slot.first { Rank::First } else { Rank::Later };
            Some((slot.id, job))
        });
        taken.ok_or_else(|| {
            let until = waiting.iter().filter_map(|slot| pace.next(slot.candidate.frees)).min();
            if let Some(until) = until {
                pace.wait(until);
            }
            until
        })
    }

    /// The condition on which a worker sleeps, and its epoch of these. The flusher does not wake
    /// for each file call of the jobs of others.
    fn sleeps_on(&self, is_niced: bool, epochs: [u64; 2]) -> (&Arc<dyn Condition>, u64) {
        let any = is_niced || self.helps(&self.state.lock());
        (self.shared.channel.calls(any), epochs[usize::from(any)])
    }

    /// Whether the flusher takes any job: because a writer waits for one, or there is no other
    /// worker.
    fn helps(&self, state: &State) -> bool {
        state.staff == 0 || self.shared.counters.stopped_writers.get() > 0
    }

    /// Whether the pressure of a tree is so high that jobs no longer yield to clients.
    fn is_pressed(&self) -> bool {
        self.state.lock().known.values().any(|known| known.pressure.slowdown >= PRESSED)
    }

    /// Runs one step of a job that was taken from its slot. Returns true if the step did work.
    fn step(self: &Arc<Self>, id: JobId, mut job: Box<Job>) -> bool {
        if self.is_cancelled(id) {
            self.abandon(id, job);
            return false;
        }
        let stopped = self.shared.counters.stopped_writers.get() > 0;
        // No client waits for a sync in the background.
        let misses = self.jobs.tables.cache().counters().misses;
        let calls = misses + self.shared.counters.awaited_syncs.get();
        let yields = self.shared.options.policy.tree.jobs_yield;
        let urgent = stopped || (yields && self.is_pressed());
        self.shared.io.bulk().note_clients(calls, urgent);
        let stepped =
            catch_unwind(AssertUnwindSafe(|| job.step(&self.jobs, self.shared.options.quantum)));
        let panicked = || Err(Error::Internal(format!("{id} panicked")));
        // Counted after each step, so that the counters are also right during a long job.
        let (read, written) = job.progress();
        let counter = self.shared.counters.level(job.candidate.kind, job.candidate.frees.level());
        counter.read.add(read);
        counter.written.add(written);
        let frees = job.candidate.frees;
        self.state.lock().pace.spend(frees, Bytes(read), Bytes(written));
        let stepped = stepped.unwrap_or_else(|_| panicked());
        let ran = matches!(stepped, Ok(Step::Ran(_)));
        match stepped {
            Ok(Step::Ran(bytes)) => self.put_back(id, job, bytes),
            Ok(Step::Blocked) => self.put_back(id, job, Bytes::ZERO),
            Ok(Step::Done(request)) => self.finish(id, job, request),
            Err(error) => {
                // The WAL of a dropped tree may go while a flush gives it another name.
                let gone = self.reader.views().load().find(job.candidate.tree).is_none();
                let missing =
                    matches!(&error, Error::Io { source, .. } if source.kind() == NotFound);
                if !gone || !missing {
                    self.shared.failed(error);
                }
                self.abandon(id, job);
            }
        }
        ran
    }

    fn put_back(&self, id: JobId, job: Box<Job>, merged: Bytes) {
        let mut state = self.state.lock();
        let Some(slot) = state.jobs.iter_mut().find(|slot| slot.id == id) else { return };
        assert!(slot.job.is_none() && !slot.installing, "{id} was stepped by two workers");
        slot.done += merged;
        let candidate = slot.candidate.clone();
        slot.job = Some(job);
        if merged > Bytes::ZERO {
            state.chains.merged(candidate.tree, candidate.frees.level(), merged, false);
        }
    }

    /// Submits the result of a finished job; its slot stays until the result is installed. A job
    /// that was cancelled in its last step has no result.
    fn finish(self: &Arc<Self>, id: JobId, job: Box<Job>, request: Request) {
        let begun = self.state.lock().begin_install(id);
        if !begun {
            return self.abandon(id, job);
        }
        let candidate = &job.candidate;
        let from = candidate.frees.level();
        self.state.lock().chains.merged(candidate.tree, from, Bytes::ZERO, true);
        let (counted, (written, files)) = (job.counters(), job.written());
        let read = Bytes(counted.bytes_read);
        let counter = self.shared.counters.level(candidate.kind, from);
        counter.jobs.add(1);
        counter.moves.add(u64::from(candidate.kind == JobKind::TrivialMove));
        counter.entries_in.add(counted.entries_in);
        counter.entries_dropped.add(counted.entries_in - counted.entries_out);
        if candidate.kind != JobKind::TrivialMove {
            counter.widest.fetch_max(candidate.bytes_in.0, Ordering::Relaxed);
        }
        self.count_vssts(counter, candidate, &request.edit);
        self.shared.emit(Event::JobFinished {
            job: id,
            tree: candidate.tree,
            keyspace: String::new(),
            kind: candidate.kind,
            from,
            to: candidate.output_level,
            read,
            written,
            files,
            took: Micros(self.shared.env.now().saturating_sub(job.started()).as_micros() as u64),
        });
        self.installer.submit([request]);
    }

    /// Counts the SSTs that a job takes out of a level, and the vSSTs that it adds to L1. Each is
    /// graded against the next level as it is before the install of the result.
    fn count_vssts(&self, counter: &LevelCounter, candidate: &Candidate, edit: &VersionEdit) {
        let (view, policy) = (self.views.load_full(), &self.shared.options.policy);
        let Some(tree) = view.find(candidate.tree) else { return };
        let version = &tree.version;
        let is = |table: &Table, next: u8, overlap, wanted| {
            let (next, max) = (version.level(next), policy.tree.growth as f64);
            u64::from(grade(&table.range, table.bytes, next, overlap, max) == wanted)
        };
        if let Class::Level(from) = candidate.frees {
            let overlap = policy.shapes.vlsm.overlap;
            let tables = candidate.inputs.tables.iter();
            for (_, table) in tables.filter(|(place, _)| place.level() == from) {
                counter.ssts_in.add(1);
                counter.poor_in.add(is(table, from + 1, overlap, Grade::Poor));
            }
        }
        for change in &edit.changes {
            if let Change::Add { place: Place::Level(1), table, .. } = change {
                counter.ssts_out.add(1);
                counter.good_out_by_count.add(is(table, 2, Overlap::Count, Grade::Good));
                counter.good_out_by_ratio.add(is(table, 2, Overlap::Ratio, Grade::Good));
            }
        }
    }

    /// Ends a job without a result; its output is removed in the background.
    fn abandon(self: &Arc<Self>, id: JobId, job: Box<Job>) {
        let candidate = job.candidate.clone();
        let tree = candidate.tree;
        let wasted = job.discard(&self.shared);
        let counter = self.shared.counters.level(candidate.kind, candidate.frees.level());
        counter.wasted.add(wasted.0);
        counter.cancelled.add(1);
        self.shared.emit(Event::JobCancelled { job: id, wasted });
        self.shared.channel.job_ended(id, tree);
    }

    /// Ends the workers. Returns false if one of them panicked.
    pub fn end_workers(&self) -> bool {
        self.shared.channel.stop();
        self.crew.join()
    }

    /// Discards all jobs and proposals, because the store is being closed and no worker continues
    /// them. They would keep the files of their inputs.
    pub fn discard_jobs(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.known.values_mut().for_each(|known| known.candidates.clear());
        let slots = std::mem::take(&mut state.jobs);
        drop(state);
        for job in slots.into_iter().filter_map(|slot| slot.job) {
            job.discard(&self.shared);
        }
    }

    fn is_cancelled(&self, id: JobId) -> bool {
        let state = self.state.lock();
        !self.shared.health.is_running() || state.slot(id).is_none_or(|slot| slot.cancelled)
    }

    /// Marks the trees whose sealed memtables were not ready. Returns true if there are any.
    fn mark_unready(&self) -> bool {
        if !self.shared.health.is_running() {
            return false;
        }
        let state = self.state.lock();
        let known = state.known.iter().filter(|(_, known)| known.unready);
        let unready: Vec<TreeId> = known.map(|(tree, _)| *tree).collect();
        drop(state);
        let any = !unready.is_empty();
        self.shared.channel.mark_all(unready);
        any
    }

    /// Hands work for which no caller waits to a background thread: writing the LOG, allocating
    /// spare arenas, removing dead files.
    fn chores(self: &Arc<Self>) {
        if self.shared.channel.stopping() {
            return;
        }
        if self.shared.events.log_is_behind() {
            let events = self.shared.events.clone();
            self.shared.in_background(move || events.write_log());
        }
        if self.shared.arenas.wants_more() {
            self.fill_arenas();
        }
        // A latched or closing store removes nothing. The work would be submitted, do nothing, and
        // wake the worker, which would submit it again.
        if self.shared.health.is_running() && self.installer.dead().any_dead() {
            let installer = self.installer.clone();
            self.shared.in_background(move || installer.remove_dead());
        }
    }
}
