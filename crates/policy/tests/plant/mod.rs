//! A whole store as its policies see it, in virtual time: clients, memtables, a device, jobs.
//!
//! Each step of [`STEP`]:
//! 1. clients offer bytes, independently of the store (an open loop). The admission's rate lets
//!    them in, full memtables hold them back, and the rest waits in a queue;
//! 2. the device moves bytes: first those that clients write to the WAL and read past the cache,
//!    then those of jobs. The most urgent jobs share it equally, as many as there are workers and
//!    one flush more, within the bandwidth that the schedule grants ([`Pace`]). If the schedule
//!    orders calls, the other jobs get the bandwidth that jobs which go first leave, but at least
//!    half: these read for half of their time, and only writes wait for writes;
//! 3. a job that has moved everything is installed a step later. In between it cannot be cancelled;
//! 4. if a tree has changed, or a policy requested this moment, the policies decide, in rounds as
//!    in the engine's tick: shapes about changed trees only, the schedule until it starts and
//!    cancels nothing more, then the admission. A decision that the engine would refuse is a fault.
//!
//! Sizes and times are those of the profiles. An entry stands for [`ENTRY`] bytes, so the papers'
//! sizes cost no more than small ones, and ratios of sizes to windows of time need no scaling.

mod base;
mod watch;

pub use base::{Base, base};
pub use watch::{Fault, Faults, HeldBack, Sample, unsettled};

use crate::files::{Random, Tree};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, JobId, Micros, TreeId, Version};
use vlsm_policy::signals::MemtableSignals;
use vlsm_policy::*;
use watch::Watch;

/// The step of virtual time.
pub const STEP: Micros = Micros(5_000);
/// Bytes of one entry. The least vSST of any profile has four entries.
pub const ENTRY: u64 = 128 << 10;
/// The throughput of the device, in bytes per second, as measured beforehand.
pub const DEVICE: f64 = 400.0 * 1024.0 * 1024.0;
/// The highest rate of all clients together.
pub const CLIENTS: f64 = DEVICE / 4.0;
/// Worker threads; flushes have one more.
pub const WORKERS: usize = 4;
/// The offered load and the device's throughput, for a while.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Bytes per second that clients write.
    pub writes: f64,
    /// Bytes per second that clients read past the cache.
    pub misses: f64,
    /// Bytes per second that the device moves.
    pub device: f64,
}

impl Load {
    pub const IDLE: Self = Self { writes: 0.0, misses: 0.0, device: DEVICE };

    pub fn writes(rate: f64) -> Self {
        Self { writes: rate, ..Self::IDLE }
    }
}

/// The clients of one tree.
#[derive(Debug, Default)]
struct Clients {
    /// Their share of the offered load.
    share: f64,
    /// Bytes offered and not yet written, oldest first, with the time at which they were offered.
    line: VecDeque<(Micros, u64)>,
    /// The sum of their bytes.
    waiting: u64,
    /// Bytes of an entry that is not complete yet.
    begun: u64,
}

impl Clients {
    fn offer(&mut self, now: Micros, bytes: u64) {
        if bytes > 0 {
            self.line.push_back((now, bytes));
            self.waiting += bytes;
        }
    }

    fn written(&mut self, mut bytes: u64) {
        self.waiting -= bytes;
        while let Some(first) = self.line.front_mut().filter(|_| bytes > 0) {
            let part = first.1.min(bytes);
            first.1 -= part;
            bytes -= part;
            if first.1 == 0 {
                self.line.pop_front();
            }
        }
    }
}

/// A running job.
#[derive(Debug)]
struct Job {
    id: JobId,
    candidate: Arc<Candidate>,
    /// The tree when it began, for its cuts.
    as_of: Version,
    facts: TreeFacts,
    /// Bytes to read, and to read and write together.
    reads: u64,
    total: u64,
    /// Bytes moved so far, of the total, and bytes moved at the last look at the classes.
    moved: u64,
    seen: u64,
    /// The time of its start, by the clock of effort.
    begun: Micros,
    paused_since: Option<Micros>,
    /// Its result is being installed.
    installing: bool,
}

impl Job {
    fn left(&self) -> u64 {
        self.total - self.moved
    }

    /// Moves up to `most` bytes. Returns the bytes read and the bytes written.
    fn go(&mut self, most: u64) -> (u64, u64) {
        let moved = most.min(self.left());
        let before = share(self.reads, self.moved, self.total);
        self.moved += moved;
        let read = share(self.reads, self.moved, self.total) - before;
        (read, moved - read)
    }

    fn running(&self) -> Running {
        let all = self.candidate.bytes_in;
        let done = Bytes(share(all.0, self.moved, self.total));
        let (job, candidate) = (self.id, self.candidate.clone());
        let (paused_since, installing) = (self.paused_since, self.installing);
        Running { job, candidate, done, left: all - done, paused_since, installing }
    }
}

/// The part of an amount that `part` is of `whole`.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    (u128::from(amount) * u128::from(part) / u128::from(whole.max(1))) as u64
}

/// The amount that a rate per second makes in this time.
fn per(time: Micros, rate: f64) -> f64 {
    rate * time.as_secs_f64()
}

fn per_step(rate: f64) -> u64 {
    per(STEP, rate) as u64
}

/// The store.
pub struct Plant {
    pub options: PolicyOptions,
    pub now: Micros,
    shape: Arc<dyn Shape>,
    /// None while a decision is made.
    deciders: Option<Deciders>,
    load: Load,
    device: Arc<DeviceMap>,
    clients: Vec<Clients>,
    trees: Vec<Tree>,
    /// Trees that changed since the last call of their shape.
    marked: Vec<bool>,
    known: Vec<Known>,
    jobs: Vec<Job>,
    job_ids: u64,
    grants: Grants,
    admit: Admit,
    again: Option<Micros>,
    pace: Pace,
    /// Time as jobs get the device: it passes at a quarter of the speed if they get a quarter of
    /// the device.
    effort: Micros,
    counters: Counters,
    random: Random,
    watch: Watch,
}

impl Plant {
    /// A store of these trees, each with its share of the load. The seed determines the keys.
    fn new(
        options: &PolicyOptions,
        policies: Policies,
        trees: Vec<(Tree, f64)>,
        seed: u64,
    ) -> Self {
        let (shape, schedule, admission) = policies;
        let clients = |(_, share): &(Tree, f64)| Clients { share: *share, ..Clients::default() };
        Self {
            options: options.clone(),
            now: Micros(1_000_000),
            shape,
            deciders: Some(Deciders { schedule, admission }),
            load: Load::IDLE,
            device: Arc::new(DeviceMap::even(vlsm_core::BytesPerSec(DEVICE as u64))),
            clients: trees.iter().map(clients).collect(),
            marked: vec![true; trees.len()],
            known: trees.iter().map(|_| Known::default()).collect(),
            watch: Watch::new(trees.len()),
            trees: trees.into_iter().map(|(tree, _)| tree).collect(),
            jobs: Vec::new(),
            job_ids: 0,
            grants: Grants::default(),
            admit: Admit::OPEN,
            again: None,
            pace: Pace::default(),
            effort: Micros::ZERO,
            counters: Counters::default(),
            random: Random::new(seed),
        }
    }

    /// Puts a load on it for some seconds.
    pub fn run(&mut self, load: Load, seconds: f64) {
        self.load = load;
        let end = self.now + Micros((seconds * 1e6) as u64);
        while self.now < end {
            self.step();
        }
    }

    /// Its first tree.
    fn into_tree(mut self) -> Tree {
        self.trees.swap_remove(0)
    }

    /// Bytes that were let in.
    pub fn written(&self) -> u64 {
        self.counters.write_bytes.0
    }

    /// Bytes in L1 of its first tree.
    pub fn l1_bytes(&self) -> u64 {
        self.trees[0].version.level(1).bytes().0
    }

    /// Drops all bytes that clients still offer.
    pub fn send_away(&mut self) {
        for clients in &mut self.clients {
            (clients.waiting, clients.line) = (0, VecDeque::new());
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let missed = self.reads_let_in();
        let foreground = self.let_in(missed) + missed;
        self.counters.cache_miss_bytes += Bytes(missed);
        // Gets read as many bytes as the cache misses, so counts of operations give the same load.
        self.counters.gets = self.counters.cache_miss_bytes.0 / self.operation();
        // Whatever the load of clients is, jobs have a part of the device's queue.
        let device = per_step(self.load.device);
        let left = device.saturating_sub(foreground).max(device / 20);
        self.effort += Micros(share(STEP.0, left, per_step(DEVICE)));
        let moved = self.move_bytes(left);
        self.install();
        let asked = self.again.is_some_and(|time| time <= self.now);
        if asked || self.marked.contains(&true) {
            self.tick();
        }
        self.observe(foreground, moved);
    }

    /// Bytes of reads that are let in. If the admission limits them, too, waiting reads and writes
    /// have equal chances, and a read that is not let in is not made.
    fn reads_let_in(&self) -> u64 {
        let missed = per_step(self.load.misses);
        let (Some(rate), Some(_)) = (self.admit.writes, self.admit.reads) else { return missed };
        let waiting: u64 = self.clients.iter().map(|clients| clients.waiting).sum();
        missed.min(share(per_step(rate.as_f64()), missed, missed + waiting))
    }

    /// Lets clients offer bytes, and write those that are let in besides these bytes of reads.
    /// Returns the bytes written.
    fn let_in(&mut self, reads: u64) -> u64 {
        let mut allowed = per_step(CLIENTS.min(self.load.device));
        if let Some(rate) = self.admit.writes {
            let reads = if self.admit.reads.is_some() { reads } else { 0 };
            allowed = allowed.min(per_step(rate.as_f64()).saturating_sub(reads));
        }
        let (count, first) = (self.trees.len(), (self.now.0 / STEP.0) as usize);
        let mut sum = 0;
        for index in (0..count).map(|turn| (first + turn) % count) {
            let clients = &mut self.clients[index];
            clients.offer(self.now, per_step(self.load.writes * clients.share));
            let want = clients.waiting.min(allowed - sum);
            let written = self.write(index, want);
            self.clients[index].written(written);
            self.observe_clients(index, written);
            sum += written;
        }
        self.counters.write_bytes += Bytes(sum);
        let operation = self.operation();
        self.counters.writes = self.counters.write_bytes.0 / operation;
        let writers = |clients: &Clients| (clients.waiting / operation).min(64);
        self.counters.waiting_writers = self.clients.iter().map(writers).sum();
        let stopped = self.clients.iter().zip(&self.trees).filter(|(_, tree)| self.is_full(tree));
        self.counters.stopped_writers = stopped.map(|(clients, _)| writers(clients)).sum();
        sum
    }

    /// Bytes of a pair, 2^18 pairs to a memtable. Pairs are so small that windows counted in
    /// operations, which sources give for small pairs, are one or two memtables long.
    fn operation(&self) -> u64 {
        (self.options.tree.memtable_bytes.0 >> 18).max(1)
    }

    /// The size at which memtables are sealed.
    fn sealed_at(&self) -> Bytes {
        let granted = self.grants.memtable_bytes.unwrap_or(self.options.tree.memtable_bytes);
        granted.min(self.options.tree.memtable_bytes)
    }

    /// Whether a tree's memtables have no room.
    fn is_full(&self, tree: &Tree) -> bool {
        let sealed = tree.sealed.len() + 1 >= self.options.tree.memtable_count;
        sealed && tree.active_bytes() >= self.sealed_at()
    }

    /// Writes into a tree's memtables, as far as they have room. Returns the bytes written.
    fn write(&mut self, index: usize, want: u64) -> u64 {
        let sealed_at = self.sealed_at();
        let (tree, clients) = (&mut self.trees[index], &mut self.clients[index]);
        let mut written = 0;
        while written < want {
            if tree.active_bytes() >= sealed_at {
                if tree.sealed.len() + 1 >= self.options.tree.memtable_count {
                    break;
                }
                tree.seal();
                self.marked[index] = true;
            }
            let part = (ENTRY - clients.begun).min(want - written);
            written += part;
            clients.begun += part;
            if clients.begun == ENTRY {
                clients.begun = 0;
                tree.insert(self.random.number());
            }
        }
        written
    }

    /// Lets jobs move up to `budget` bytes. Returns the bytes moved.
    fn move_bytes(&mut self, budget: u64) -> u64 {
        let clock = Duration::from_micros(self.now.0);
        self.pace.fill(clock);
        let runs = |job: &Job| job.paused_since.is_none() && job.left() > 0;
        let mut turns: Vec<usize> =
            (0..self.jobs.len()).filter(|index| runs(&self.jobs[*index])).collect();
        let in_turn = self.pace.is_in_turn();
        turns.sort_by_key(|index| {
            let job = &self.jobs[*index];
            let frees = job.candidate.frees;
            (if in_turn { frees.min(Class::L0) } else { frees }, job.id)
        });
        let frees = |index: &usize| self.jobs[*index].candidate.frees;
        let flushing = turns.first().is_some_and(|index| frees(index) == Class::Memtable);
        turns.truncate(WORKERS + usize::from(flushing));
        let mut rest = budget;
        if let Some(order) = self.grants.order.clone() {
            let goes_first = |index: &usize| order.first.contains(&self.jobs[*index].id);
            let (first, later): (Vec<_>, Vec<_>) = turns.into_iter().partition(goes_first);
            let kept = if later.is_empty() { 0 } else { rest / 2 };
            rest = kept + self.share_out(first, rest - kept, clock);
            turns = later;
        }
        rest = self.share_out(turns, rest, clock);
        self.watch.moved += budget - rest;
        budget - rest
    }

    /// Divides `rest` bytes equally between jobs; a job's unused part goes to the others. Returns
    /// the bytes that no job used.
    fn share_out(&mut self, mut turns: Vec<usize>, mut rest: u64, clock: Duration) -> u64 {
        while rest > 0 && !turns.is_empty() {
            let (before, part) = (turns.len(), (rest / turns.len() as u64).max(1));
            turns.retain(|&index| {
                if !self.pace.allows(self.jobs[index].candidate.frees) {
                    self.pace.wait(clock);
                    self.counters.waited_spans = self.pace.waited_spans();
                    return false;
                }
                rest -= self.go(index, part.min(rest));
                self.jobs[index].left() > 0
            });
            if turns.len() == before {
                break;
            }
        }
        rest
    }

    /// Lets a job move up to `most` bytes and charges them to the bandwidth. Returns the bytes
    /// moved.
    fn go(&mut self, index: usize, most: u64) -> u64 {
        let job = &mut self.jobs[index];
        let (read, written) = job.go(most);
        self.pace.spend(job.candidate.frees, Bytes(read), Bytes(written));
        self.counters.job_read_bytes += Bytes(read);
        self.counters.job_written_bytes += Bytes(written);
        read + written
    }

    /// Installs jobs that are installing, and marks jobs that have moved everything.
    fn install(&mut self) {
        if self.jobs.iter().any(|job| job.installing) {
            let jobs = std::mem::take(&mut self.jobs).into_iter();
            let (installing, rest): (Vec<Job>, Vec<Job>) = jobs.partition(|job| job.installing);
            self.jobs = rest;
            for job in installing {
                let index = place(job.candidate.tree);
                let as_of = (&job.as_of, &job.facts);
                self.trees[index].install(&*self.shape, as_of, &job.candidate);
                self.marked[index] = true;
                self.observe_install(&job);
            }
        }
        for job in &mut self.jobs {
            job.installing = job.left() == 0;
        }
    }

    /// Calls the policies and acts on their decisions.
    fn tick(&mut self) {
        self.watch.ticked_at = self.now;
        let (shape, deciders) = (self.shape.clone(), self.deciders.take());
        let mut deciders = deciders.expect("one tick at a time");
        let decided = round::tick(&*shape, &mut deciders, self);
        self.deciders = Some(deciders);
        if let Err(what) = decided {
            self.fault(Fault::BadGrant, what);
        }
    }

    fn signals(&self) -> Signals {
        let known = self.trees.iter().zip(&self.known).filter(|(_, known)| !known.is_calm());
        Signals {
            now: self.now,
            workers: WORKERS,
            counters: self.counters,
            memtables: self.memtables(),
            device: self.device.clone(),
            pressure: known.map(|(tree, known)| (tree.id, known.pressure.clone())).collect(),
        }
    }

    /// The memtables of the fullest tree, with the largest `unmerged` of any tree.
    fn memtables(&self) -> MemtableSignals {
        let capacity = self.options.tree.memtable_bytes * self.options.tree.memtable_count as u64;
        let of_tree = |tree: &Tree| MemtableSignals {
            active: tree.active_bytes(),
            immutable: tree.sealed.iter().map(|(facts, _)| facts.bytes).sum(),
            immutable_count: tree.sealed.len(),
            capacity,
            unmerged: Bytes::ZERO,
        };
        let unmerged = |tree: &Tree| {
            let MemtableSignals { active, immutable, .. } = of_tree(tree);
            let jobs = self.jobs.iter().filter(|job| job.candidate.tree == tree.id);
            let merged: Bytes = jobs.map(|job| job.running().merged_memory()).sum();
            (active + immutable).saturating_sub(merged)
        };
        let unmerged = self.trees.iter().map(unmerged).max().unwrap_or_default();
        let trees = self.trees.iter().map(of_tree);
        let fullest = trees.max_by_key(|memtables| memtables.active + memtables.immutable);
        MemtableSignals { unmerged, ..fullest.unwrap_or_default() }
    }

    fn start(&mut self, candidate: Arc<Candidate>) {
        let tree = &self.trees[place(candidate.tree)];
        let collides = self.jobs.iter().any(|job| job.candidate.collides(&candidate));
        if let Err(what) = tree.check_order(&candidate) {
            self.fault(Fault::BadGrant, what);
        } else if collides {
            self.fault(Fault::BadGrant, format!("needs what another job holds: {candidate:?}"));
        }
        let tree = &self.trees[place(candidate.tree)];
        let memtables = tree.sealed.iter().map(|(facts, _)| facts);
        let memtables = memtables.filter(|facts| candidate.inputs.memtables.contains(&facts.id));
        let memtables: Bytes = memtables.map(|facts| facts.bytes).sum();
        let moves = candidate.kind == JobKind::TrivialMove;
        let reads = if moves { 0 } else { candidate.inputs.table_bytes().0 };
        let total = reads * 2 + memtables.0;
        let facts = tree.facts(self.now, self.sealed_at());
        self.marked[place(candidate.tree)] = true;
        self.job_ids += 1;
        self.jobs.push(Job {
            id: JobId(self.job_ids),
            as_of: tree.version.clone(),
            facts,
            candidate,
            reads,
            total,
            moved: 0,
            seen: 0,
            begun: self.effort,
            paused_since: None,
            installing: total == 0,
        });
    }
}

/// The place of a tree in lists.
fn place(tree: TreeId) -> usize {
    tree.0 as usize
}

impl World for Plant {
    fn changed(&mut self) -> Vec<Changed> {
        let mut changed = Vec::new();
        for index in 0..self.trees.len() {
            if !std::mem::take(&mut self.marked[index]) {
                continue;
            }
            let tree = &self.trees[index];
            let held = |job: &Job| Reservation { job: job.id, candidate: job.candidate.clone() };
            let jobs = self.jobs.iter().filter(|job| job.candidate.tree == tree.id);
            changed.push(Changed {
                tree: tree.id,
                busy: Busy { reservations: jobs.map(held).collect() },
                version: Arc::new(tree.version.clone()),
                facts: tree.facts(self.now, self.sealed_at()),
                may_start: true,
            });
        }
        changed
    }

    fn know(&mut self, changed: &Changed, known: Known) {
        self.known[place(changed.tree)] = known;
    }

    fn observe(&mut self) -> Observed {
        let known = self.known.iter().flat_map(|known| known.candidates.iter().cloned());
        Observed {
            candidates: known.collect(),
            signals: self.signals(),
            running: self.jobs.iter().map(Job::running).collect(),
        }
    }

    fn act(&mut self, grants: &Grants, observed: &Observed) -> bool {
        let candidates = &observed.candidates;
        self.pace.set(Duration::from_micros(self.now.0), grants.bandwidth);
        for job in &mut self.jobs {
            let before = job.paused_since;
            let paused = grants.paused.contains(&job.id);
            job.paused_since = paused.then(|| before.unwrap_or(self.now));
            self.watch.held_back.resumed += u64::from(before.is_some() && !paused);
        }
        let mut acted = false;
        let mut refused = Vec::new();
        for id in &grants.cancel {
            match self.jobs.iter().position(|job| job.id == *id && !job.installing) {
                Some(index) => {
                    let job = self.jobs.remove(index);
                    self.watch.wasted += job.moved;
                    self.marked[place(job.candidate.tree)] = true;
                    acted = true;
                }
                None => refused.push(*id),
            }
        }
        for &index in &grants.start {
            let candidate = &candidates[index];
            if !candidate.conflicts.iter().any(|job| refused.contains(job)) {
                self.start(candidate.clone());
                acted = true;
            }
        }
        let list: Vec<&Candidate> = candidates.iter().map(|candidate| &**candidate).collect();
        self.observe_flushes(grants, &list);
        self.observe_held_back(grants, &list);
        let resized = self.grants.memtable_bytes != grants.memtable_bytes;
        self.grants = grants.clone();
        if resized {
            self.marked.fill(true);
        }
        acted || resized
    }

    fn admit(&mut self, admit: Admit, again: Option<Micros>) {
        (self.admit, self.again) = (admit, again);
        self.observe_again();
    }
}
