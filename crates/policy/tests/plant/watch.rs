//! The invariants of a run under any policies and load, each with its bound and its reason.
//!
//! Times marked "of effort" are by a clock that stops while clients use the whole device, and runs
//! at a quarter of its speed while jobs have a quarter of the device: a slow device is no fault of
//! a policy.
//!
//! - `FlushHeldBack`: a flush starts at once, is never paused, and has at least a hundredth of the
//!   device, because writers wait for flushes alone;
//! - `Idle`: no byte moves for [`IDLE_MAX`] while jobs could run and no limit is used up. This time
//!   is lost;
//! - `Starved`: a class of a tree has work and moves no byte for its [`patience`], of effort. The
//!   levels above it fill up;
//! - `PausedForEver`: a job is paused for [`PAUSED_MAX`]. A pause is for a high load;
//! - `Stalled`: writers wait and nothing is let in for [`STALL_SLACK`] times the time that it takes
//!   to move the bytes owed when the stall began, of effort;
//! - `Wasted`: a third of the moved bytes is cancelled. A cancellation must cost less than it
//!   saves, and a job that is cancelled and started without end wastes everything;
//! - `NotDrained`: after the load a job, a candidate, or a level with more than an SST beyond its
//!   target is left. Shapes move whole SSTs; debt that is never paid is a fault, not a delay;
//! - `Woken`: policies are called although the store has been idle for [`QUIET`];
//! - `Unsettled`: [`unsettled`].
//!
//! A schedule may hold back compactions while clients have more than [`HIGH`] of the device, and
//! for [`GRACE`] after that: SILK and DLC are made for it. `Idle`, `Starved` (except of flushes)
//! and `PausedForEver` are not checked then. Clients that only write never use that share.

use super::{DEVICE, Job, Load, Plant, STEP, WORKERS, per_step, place};
use std::collections::BTreeMap;
use vlsm_core::event::JobKind;
use vlsm_core::{BytesPerSec, Micros, TreeId};
use vlsm_policy::{Candidate, Class, Grants, Known};

/// The share of the device from which on the load of clients is high.
const HIGH: f64 = 0.3;
/// The time after the end of a high load in which a schedule may still treat it as high: DLC's
/// three intervals of a second, and the current one.
const GRACE: Micros = Micros(5_000_000);
/// The longest idleness.
const IDLE_MAX: Micros = Micros(200_000);
/// The longest pause of a job while load is not high.
const PAUSED_MAX: Micros = Micros(30_000_000);
/// The longest time of a flush, as a multiple of the time that it would take alone.
const FLUSH_SLACK: u64 = 100;
/// The longest time of a stall, as a multiple of the time that moving the owed bytes takes. All
/// workers may be busy with other jobs, and the bytes that they move may add to it.
const STALL_SLACK: f64 = 8.0;
/// The longest time until the next decision that a policy may request.
const AGAIN_MAX: Micros = Micros(60_000_000);
/// The idle time after which policies must not be called any more.
const QUIET: Micros = Micros(5_000_000);

/// The longest time of effort in which a class has work and moves no byte. Deeper classes wait for
/// upper ones: CruiseDB and SILK let them wait as long as there is other work, with a limit. Where
/// there is one slot (ADOC's least), the highest score has it: a deep level waits until it has
/// outgrown those above, and L0 until there are as many runs as give ADOC more jobs. Where SSTs and
/// levels are `larger` than the options say, this time is longer by that factor.
fn patience(class: Class, larger: u64) -> Micros {
    match class {
        Class::Memtable => Micros(20_000_000),
        Class::L0 => Micros(120_000_000 * larger),
        Class::Level(_) => Micros(240_000_000 * larger),
    }
}

/// A violated invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A version that is not sound, exceeds its shape's bounds, or hides an entry.
    Unsound,
    /// An answer that the engine refuses.
    BadGrant,
    /// A policy requests a decision at a time that has passed or is too far ahead.
    BadTime,
    /// More runs in L0 than flushes may leave there.
    TooManyRuns,
    FlushHeldBack,
    Idle,
    Starved,
    PausedForEver,
    Stalled,
    /// A write waited longer than the scenario allows.
    Waited,
    /// No compaction was held back under a high load.
    LetGo,
    /// Compaction owed more than the scenario allows.
    DebtGrew,
    /// Less was let in than the scenario allows.
    TooSlow,
    Wasted,
    NotDrained,
    Woken,
    Unsettled,
}

/// The violated invariants, each with its first time and its details.
pub type Faults = BTreeMap<Fault, String>;

/// One second.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Mean share of the memtables in use.
    pub fill: f64,
    /// The admission's rate at the end of it; none for no limit.
    pub rate: Option<BytesPerSec>,
}

/// Counts of what a schedule held back although a slot was free, and of resumed jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeldBack {
    /// Decisions that paused a job.
    pub paused: u64,
    /// Decisions that left a job out of L0, or a deeper job, waiting although a slot was free.
    pub l0: u64,
    pub deeper: u64,
    /// The number of times that a paused job was resumed.
    pub resumed: u64,
}

impl HeldBack {
    /// The counts since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            paused: self.paused - before.paused,
            l0: self.l0 - before.l0,
            deeper: self.deeper - before.deeper,
            resumed: self.resumed - before.resumed,
        }
    }
}

/// The observations of a run.
#[derive(Debug, Default)]
pub struct Watch {
    pub faults: Faults,
    pub samples: Vec<Sample>,
    /// Bytes that jobs moved, and those of them that were wasted.
    pub moved: u64,
    pub wasted: u64,
    /// The time of the last decision.
    pub ticked_at: Micros,
    /// The longest wait of a write in the queue.
    wait_max: Micros,
    /// The time until which the load counts as high.
    high_until: Micros,
    idle_since: Option<Micros>,
    /// By tree, the moment of effort at which its clients will have waited too long with nothing
    /// let in.
    stalls: Vec<Option<Micros>>,
    /// Classes that have work and move no byte, with the moment of effort at which this began.
    unserved: BTreeMap<(TreeId, Class), Micros>,
    /// Counts of what the schedule held back; see [`HeldBack`].
    pub held_back: HeldBack,
    /// The most that compaction owed.
    debt_max: u64,
    /// Sum of the memtables' fill over the steps of this second, and number of steps.
    fill: (f64, f64),
}

impl Watch {
    pub fn new(trees: usize) -> Self {
        Self { stalls: vec![None; trees], ..Self::default() }
    }
}

/// The time in which the device moves this many bytes.
fn effort(bytes: f64) -> Micros {
    Micros((bytes / DEVICE * 1e6) as u64)
}

impl Plant {
    pub fn fault(&mut self, fault: Fault, what: String) {
        let now = self.now;
        self.watch.faults.entry(fault).or_insert_with(|| format!("at {now}: {what}"));
    }

    pub fn samples(&self) -> &[Sample] {
        &self.watch.samples
    }

    fn is_high(&self) -> bool {
        self.now < self.watch.high_until
    }

    /// Checks the invariants after a step in which clients moved `foreground` bytes and jobs
    /// `moved` bytes.
    pub(super) fn observe(&mut self, foreground: u64, moved: u64) {
        if foreground as f64 > HIGH * per_step(DEVICE) as f64 {
            self.watch.high_until = self.now + GRACE;
        }
        self.watch.fill.0 += self.memtables().fill();
        self.watch.fill.1 += 1.0;
        let debt = self.known.iter().map(|known| known.pressure.debt.0).sum();
        self.watch.debt_max = self.watch.debt_max.max(debt);
        self.observe_idleness(moved);
        if self.now.0.is_multiple_of(STEP.0 * 20) {
            self.observe_classes();
        }
        if self.now.0.is_multiple_of(1_000_000) {
            self.sample();
        }
    }

    fn observe_idleness(&mut self, moved: u64) {
        let free = self.known.iter().any(|known| free(known).next().is_some());
        let could = free || !self.jobs.is_empty();
        let unpaused = || self.jobs.iter().filter(|job| job.paused_since.is_none());
        let limited = unpaused().any(|job| !self.pace.allows(job.candidate.frees));
        let installing = self.jobs.iter().any(|job| job.installing);
        if moved > 0 || !could || limited || installing || self.is_high() {
            self.watch.idle_since = None;
            return;
        }
        let since = *self.watch.idle_since.get_or_insert(self.now);
        if self.now.saturating_sub(since) > IDLE_MAX {
            let (jobs, list) = (self.jobs.len(), self.proposed());
            let what = format!("nothing has moved since {since}; {jobs} jobs, proposed: {list}");
            self.fault(Fault::Idle, what);
        }
    }

    fn observe_classes(&mut self) {
        let high = self.is_high();
        let mut served: BTreeMap<(TreeId, Class), bool> = BTreeMap::new();
        let mut paused = None;
        for job in &mut self.jobs {
            let got = job.moved > job.seen || job.installing;
            job.seen = job.moved;
            *served.entry((job.candidate.tree, job.candidate.frees)).or_default() |= got;
            let since = job.paused_since.map(|since| since.max(self.watch.high_until));
            let long = |since: &Micros| self.now.saturating_sub(*since) > PAUSED_MAX;
            paused = since.filter(|since| !high && long(since)).map(|_| job.id).or(paused);
        }
        if let Some(job) = paused {
            self.fault(Fault::PausedForEver, format!("{job} is paused and load is not high"));
        }
        for candidate in self.known.iter().flat_map(free) {
            served.entry((candidate.tree, candidate.frees)).or_default();
        }
        let follow = self.options.shapes.tiered_l0.follow_memtables;
        let larger = if follow { self.sealed_at().0 / self.options.tree.sst_max.0 } else { 1 };
        let unserved = &mut self.watch.unserved;
        unserved.retain(|place, _| served.get(place) == Some(&false));
        let mut starved = None;
        for (place, _) in served.into_iter().filter(|(_, got)| !got) {
            let since = unserved.entry(place).or_insert(self.effort);
            if high && place.1 != Class::Memtable {
                *since = self.effort;
            }
            if self.effort.saturating_sub(*since) > patience(place.1, larger) {
                starved = Some(place);
            }
        }
        if let Some((tree, class)) = starved {
            let (jobs, list) = (self.jobs.len(), self.proposed());
            let what = format!("{class:?} of {tree}; {jobs} jobs, proposed: {list}");
            self.fault(Fault::Starved, what);
        }
    }

    /// Lists the kind, class and score of each candidate, for messages.
    fn proposed(&self) -> String {
        let list = self.known.iter().flat_map(|known| &known.candidates);
        let names = list.map(|candidate| {
            format!("{:?} {:?} {:.2}", candidate.kind, candidate.frees, candidate.score)
        });
        names.collect::<Vec<_>>().join(", ")
    }

    fn sample(&mut self) {
        for index in 0..self.trees.len() {
            if let Err(why) = self.trees[index].check(&*self.shape, &self.options) {
                self.fault(Fault::Unsound, why);
            }
        }
        let (sum, steps) = std::mem::take(&mut self.watch.fill);
        self.watch.samples.push(Sample { fill: sum / steps, rate: self.admit.writes });
    }

    /// Checks the waits of a tree's clients after a step in which they wrote `written` bytes.
    pub(super) fn observe_clients(&mut self, index: usize, written: u64) {
        let Some((since, _)) = self.clients[index].line.front().copied() else {
            self.watch.stalls[index] = None;
            return;
        };
        self.watch.wait_max = self.watch.wait_max.max(self.now.saturating_sub(since));
        if written > 0 {
            self.watch.stalls[index] = None;
            return;
        }
        let until = match self.watch.stalls[index] {
            Some(until) => until,
            None => self.effort + Micros(5_000_000) + effort(STALL_SLACK * self.owed(index)),
        };
        self.watch.stalls[index] = Some(until);
        if self.effort > until {
            let (admit, list) = (self.admit, self.proposed());
            self.fault(Fault::Stalled, format!("tree {index}: {admit:?}, proposed: {list}"));
        }
    }

    /// Bytes to be moved before a tree's clients need not wait any more: the chain behind its L0,
    /// the debt of compaction, and the rest of running jobs.
    fn owed(&self, index: usize) -> f64 {
        let tree = &self.trees[index];
        let facts = tree.facts(self.now, self.sealed_at());
        let chain = self.shape.chain(&tree.version, &facts);
        let merged: u64 = chain.stages.iter().map(|stage| stage.1.0).sum();
        let debt: u64 = self.known.iter().map(|known| known.pressure.debt.0).sum();
        let left: u64 = self.jobs.iter().map(Job::left).sum();
        // Merged bytes are read and written.
        2.0 * (merged as f64 + debt as f64) + left as f64
    }

    pub(super) fn observe_install(&mut self, job: &Job) {
        let runs = self.trees[place(job.candidate.tree)].version.l0.len();
        let most = self.options.tree.l0_stop.max(self.options.tree.l0_max)
            + self.options.tree.memtable_count;
        if runs > most {
            self.fault(Fault::TooManyRuns, format!("{runs} runs in L0, at most {most}"));
        }
        let took = self.effort.saturating_sub(job.begun);
        let most = Micros(500_000) + effort((job.total * FLUSH_SLACK) as f64);
        if job.candidate.kind == JobKind::Flush && took > most {
            self.fault(Fault::FlushHeldBack, format!("{} took {took} of effort", job.id));
        }
    }

    pub(super) fn observe_flushes(&mut self, grants: &Grants, candidates: &[&Candidate]) {
        let flush = |candidate: &Candidate| candidate.kind == JobKind::Flush;
        let held_back = candidates.iter().enumerate().any(|(index, candidate)| {
            flush(candidate) && candidate.conflicts.is_empty() && !grants.start.contains(&index)
        });
        let paused = |job: &Job| flush(&job.candidate) && job.paused_since.is_some();
        if held_back {
            self.fault(Fault::FlushHeldBack, "it was not started".into());
        }
        if self.jobs.iter().any(paused) {
            self.fault(Fault::FlushHeldBack, "it is paused".into());
        }
    }

    /// Counts decisions that pause a job, or leave a candidate waiting although a slot is free.
    pub(super) fn observe_held_back(&mut self, grants: &Grants, candidates: &[&Candidate]) {
        let takes_slot = |candidate: &Candidate| {
            candidate.frees != Class::Memtable && candidate.kind != JobKind::TrivialMove
        };
        let runs = self.jobs.iter().filter(|job| takes_slot(&job.candidate));
        let busy = runs.filter(|job| !grants.paused.contains(&job.id)).count();
        let starts = grants.start.iter().filter(|index| takes_slot(candidates[**index])).count();
        let slots = if self.options.tree.compaction_jobs > 0 {
            self.options.tree.compaction_jobs
        } else {
            WORKERS
        };
        let waiting = |class: fn(Class) -> bool| {
            let mut list = candidates.iter().enumerate();
            busy + starts < slots
                && list.any(|(index, candidate)| {
                    let free = candidate.conflicts.is_empty() && !grants.start.contains(&index);
                    let collides = |other: &usize| candidates[*other].collides(candidate);
                    let apart = !grants.start.iter().any(collides);
                    free && apart && takes_slot(candidate) && class(candidate.frees)
                })
        };
        let (l0, deeper) =
            (waiting(|class| class == Class::L0), waiting(|class| class > Class::L0));
        let seen = &mut self.watch.held_back;
        seen.paused += u64::from(!grants.paused.is_empty());
        seen.l0 += u64::from(l0);
        seen.deeper += u64::from(deeper);
    }

    /// The counts of what the schedule has held back.
    pub fn held_back(&self) -> HeldBack {
        self.watch.held_back
    }

    /// The most that compaction owed since the last call, in bytes.
    pub fn take_debt(&mut self) -> u64 {
        std::mem::take(&mut self.watch.debt_max)
    }

    /// Checks that compaction never owed more than `most` bytes since the last call. bLSM's debt
    /// contains a merge with all of the last level, so its bound is larger by the bytes written.
    pub fn check_debt(&mut self, most: f64) {
        let owed = self.take_debt() as f64;
        let grown = if self.options.shape == "blsm" { self.written() as f64 } else { 0.0 };
        let most = most + grown;
        if owed > most {
            self.fault(Fault::DebtGrew, format!("to {owed:.0} bytes, at most {most:.0}"));
        }
    }

    pub(super) fn observe_again(&mut self) {
        for time in [self.grants.again, self.admit.again].into_iter().flatten() {
            if time <= self.now || time > self.now + AGAIN_MAX {
                self.fault(Fault::BadTime, format!("asks to be asked again at {time}"));
            }
        }
    }

    /// Checks that no write has waited longer than this so far.
    pub fn check_waits(&mut self, seconds: f64) {
        let waited = self.watch.wait_max.as_secs_f64();
        if waited > seconds {
            self.fault(Fault::Waited, format!("{waited:.1} s, at most {seconds:.1} s"));
        }
    }

    /// Ends the load and runs until all work is done. Returns false if that takes more than
    /// `seconds`.
    pub fn drain(&mut self, seconds: f64) -> bool {
        let end = self.now + Micros((seconds * 1e6) as u64);
        self.load = Load::IDLE;
        while self.now < end {
            self.step();
            let proposed = self.known.iter().any(|known| !known.candidates.is_empty());
            let waiting = self.clients.iter().any(|clients| clients.waiting > 0);
            if self.jobs.is_empty() && !proposed && !waiting {
                return true;
            }
        }
        let waiting: u64 = self.clients.iter().map(|clients| clients.waiting).sum();
        let (jobs, list) = (self.jobs.len(), self.proposed());
        let what = format!("{jobs} jobs, proposed: {list}; {waiting} bytes wait to be written");
        self.fault(Fault::NotDrained, what);
        false
    }

    /// Ends the load, and runs until all work is done, at most for `seconds`. If it is done, the
    /// store is then left idle for a while. Returns all faults of the run.
    pub fn finish(&mut self, seconds: f64) -> Faults {
        if self.drain(seconds) {
            self.check_drained();
            self.run(Load::IDLE, 2.0 * QUIET.as_secs_f64());
            let since = self.now.saturating_sub(QUIET);
            if self.watch.ticked_at > since || self.again.is_some() {
                let (last, again) = (self.watch.ticked_at, self.again);
                self.fault(Fault::Woken, format!("idle, but asked at {last}, again: {again:?}"));
            }
        }
        let (moved, wasted) = (self.watch.moved, self.watch.wasted);
        if wasted > moved / 3 {
            self.fault(Fault::Wasted, format!("{wasted} of {moved} bytes moved for nothing"));
        }
        std::mem::take(&mut self.watch.faults)
    }

    fn check_drained(&mut self) {
        let mut faults = Vec::new();
        for (tree, known) in self.trees.iter().zip(&self.known) {
            let sound = tree.check(&*self.shape, &self.options);
            let shown = tree.check_newest(16);
            faults.extend(sound.and(shown).err().map(|why| (Fault::Unsound, why)));
            let pressure = &known.pressure;
            let levels = pressure.levels.iter();
            let behind = levels.filter(|level| level.debt > self.options.tree.sst_max);
            let behind = behind.map(|level| (Fault::NotDrained, format!("{level:?}")));
            faults.extend(behind);
            if pressure.l0_runs > self.options.tree.l0_trigger {
                let what = format!("{} runs are left in L0", pressure.l0_runs);
                faults.push((Fault::NotDrained, what));
            }
        }
        for (fault, what) in faults {
            self.fault(fault, what);
        }
    }
}

/// Checks that an admission that aims at a rate settles under a load that is constant and too high:
/// in the last third of the time. Returns the violation.
///
/// Rates must lie within a factor of four: a correction by half the error, as CruiseDB's, never
/// needs more once it has settled. The memtables' fill must be from 30 to 70 % in the mean,
/// CruiseDB's aim being 50 %, and they may be full in a tenth of the seconds at most. A merge takes
/// all memtables that are ready, so the fill rises and falls in between. With fewer than six
/// memtables, each is too large a part of the whole for this check.
pub fn unsettled(samples: &[Sample], memtable_count: usize) -> Option<String> {
    let last = &samples[samples.len() * 2 / 3..];
    let rates = last.iter().map(|sample| sample.rate.map_or(f64::INFINITY, |rate| rate.as_f64()));
    let least = rates.clone().fold(f64::INFINITY, f64::min);
    let most = rates.fold(0.0, f64::max);
    if most.is_infinite() || most > 4.0 * least {
        return Some(format!("rates from {least:.0} to {most:.0} bytes per second"));
    }
    let count = last.len().max(1);
    let mean = last.iter().map(|sample| sample.fill).sum::<f64>() / count as f64;
    let full = last.iter().filter(|sample| sample.fill >= 0.99).count();
    if memtable_count >= 6 && (!(0.3..=0.7).contains(&mean) || full * 10 > count) {
        return Some(format!("a mean fill of {mean:.2}, full in {full} of {count} seconds"));
    }
    None
}

/// The candidates that conflict with no running job.
fn free(known: &Known) -> impl Iterator<Item = &Candidate> {
    known.candidates.iter().map(|job| &**job).filter(|candidate| candidate.conflicts.is_empty())
}
