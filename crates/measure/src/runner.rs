//! Does a [`RunSpec`]: it does the steps in their order on one store and reports them.
//!
//! 1. Open the store in the given folder. If its data was loaded beforehand, wait for background
//!    work.
//! 2. For each step: drive a phase, wait for background work, or open the store again with
//!    something changed.
//! 3. Before a phase, measure the cost of the driver alone at the phase's arrivals. At the ends of
//!    its intervals, sample levels, memory and device bytes. At its end, collect the jobs and
//!    chains that the store reports.
//! 4. After the last step close the store. A specification that wants it settled has a step for it.
//!
//! A failure or a stop ends the steps, and the report covers what was done. A phase whose rate is a
//! share of the maximum uses the throughput of the latest closed-loop phase.

use crate::arrivals::Arrivals;
use crate::block::Block;
use crate::clock::{self, Clock};
use crate::driver::{self, Outcome, Phase, Progress};
use crate::metrics::{Point, Series};
use crate::process::{Device, Machine, Usage, peak_memory, resident_memory};
use crate::report::{Amplification, Method, Paid, PhaseReport, Report, Sample};
use crate::spec::{Change, LoadSpec, Offered, PhaseSpec, RunSpec, Step, StoreSpec};
use crate::store::{Look, Store, StoreResult, StoreStats};
use crate::workload::data::{Data, mix};
use crate::workload::{Records, Workload};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Opens a run's store with this setup in a folder.
pub type Open<'a> = dyn Fn(&RunSpec, &StoreSpec, &Path) -> StoreResult<Box<dyn Store>> + 'a;

/// The progress of a run, for the caller.
pub enum Notice<'a> {
    /// A step begins: its name, its number from 0, and the number of steps.
    Begin(&'a str, usize, usize),
    /// The progress of a phase.
    Going(&'a Progress<'a>),
    /// The step ended.
    End,
}

/// The failure of a run that was stopped before its first request.
pub const NOTHING_MEASURED: &str = "interrupted before anything was measured";
/// The least time between two samples of the store, in seconds.
const SAMPLE: f64 = 0.1;
/// The number of trials of a search for the sustainable rate.
const TRIALS: usize = 5;
/// The number of tenths of a second that the process may take to become calm.
const CALM_LOOKS: usize = 100;

/// The state that steps share.
struct Runner<'a> {
    spec: &'a RunSpec,
    open: &'a Open<'a>,
    dir: &'a Path,
    stop: &'a AtomicBool,
    tell: &'a mut dyn FnMut(Notice<'_>),
    store: Option<Box<dyn Store>>,
    data: Data,
    records: Arc<Records>,
    phases: Vec<PhaseReport>,
    /// The counters of the earlier openings of the store.
    closed: StoreStats,
    /// The workload and the throughput of the latest closed-loop phase.
    maximum: Option<(Workload, f64)>,
    sustainable: Option<f64>,
    settled: Option<f64>,
    /// The phases since background work last ended.
    unsettled: Option<Unsettled>,
    /// The device that holds the folder; the text says why it is not known.
    block: Result<Block, String>,
}

/// Phases that follow each other without waiting for background work. They pay for it together:
/// which of them left it is not known.
struct Unsettled {
    /// The clock since the first one began.
    clock: Clock,
    /// The counters of the store and of the process when the first one began.
    begun: (StoreStats, Usage),
    ops: u64,
    user_bytes: u64,
}

/// Checks before anything is loaded that the driver can offer the rates of all phases.
///
/// # Errors
/// The driver cannot offer a rate. The text names the phase, its rate, and the rate that the driver
/// reaches over a store that does nothing. Or `stop` was set.
pub fn check_rates(spec: &RunSpec, stop: &AtomicBool) -> Result<(), String> {
    let data = Data::shaped(spec.data.shape, spec.seed);
    for step in &spec.steps {
        let Step::Phase(PhaseSpec { name, workload, offered, interval, .. }) = step else {
            continue;
        };
        let Offered::As(arrivals) = offered else { continue };
        arrivals.check().map_err(|why| format!("{name}: {why}"))?;
        if arrivals.peak().is_none() {
            continue;
        }
        let (workload, arrivals, interval) = (workload.clone(), arrivals.clone(), *interval);
        let (threads, seed) = (spec.threads, spec.seed);
        let phase = Phase { workload, arrivals, threads, ops: None, seconds: None, interval, seed };
        driver::floor(&phase, &data, stop).map_err(|error| format!("{name}: {error}"))?;
        if stop.load(Relaxed) {
            return Err(NOTHING_MEASURED.into());
        }
    }
    Ok(())
}

/// The run that loads the data of another one, as `load` says.
#[must_use]
pub fn loading(spec: &RunSpec, load: &LoadSpec) -> RunSpec {
    let phase = PhaseSpec {
        name: "load".into(),
        workload: Workload { name: "load".into(), inserts: 100.0, ..Workload::default() },
        offered: Offered::As(Arrivals::Closed),
        ops: Some(spec.data.pairs),
        seconds: None,
        interval: 1.0,
    };
    let steps = vec![Step::Phase(phase), Step::Settle(load.settle)];
    let store = StoreSpec { options: load.options.clone(), ..spec.store.clone() };
    RunSpec { store, steps, threads: spec.threads.max(4), seed: 1, load: None, ..spec.clone() }
}

/// Whether the run of [`loading`] loaded everything.
///
/// # Errors
/// The load failed or was stopped.
pub fn loaded(
    spec: &RunSpec,
    (report, failure): (Report, Option<String>),
    stop: &AtomicBool,
) -> Result<(), String> {
    match failure {
        Some(why) => Err(why),
        None if report.records < spec.data.pairs || stop.load(Relaxed) => Err("stopped".into()),
        None => Ok(()),
    }
}

/// Runs all steps in this folder. Returns the report of what was done, and the failure that ended
/// the run, if there was one. `stop` ends the run early; `tell` receives its progress.
pub fn run(
    spec: &RunSpec,
    open: &Open<'_>,
    dir: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Notice<'_>),
) -> (Report, Option<String>) {
    let data = Data::shaped(spec.data.shape, spec.seed);
    let usage = Usage::now();
    let mut runner = Runner {
        spec,
        open,
        dir,
        stop,
        tell,
        store: None,
        data,
        records: Arc::new(Records::new(spec.load.as_ref().map_or(0, |_| spec.data.pairs))),
        phases: Vec::new(),
        closed: StoreStats::default(),
        maximum: None,
        sustainable: None,
        settled: None,
        unsettled: None,
        block: Block::of(dir),
    };
    let mut failure = runner.all().err();
    let method = Method { spec: Some(spec.clone()), ..runner.method() };
    let (end, closed) =
        runner.store.take().map_or_else(|| (StoreStats::default(), Ok(())), |store| store.close());
    if let Err(error) = closed {
        failure.get_or_insert(error.to_string());
    }
    let user_bytes = runner.phases.iter().map(|phase| phase.amplification.user_bytes).sum();
    let device = Usage::now().since(&usage).device;
    let moved = end.plus(&runner.closed);
    let report = Report {
        method,
        amplification: Amplification::new(user_bytes, &moved, device),
        records: runner.records.count(),
        sustainable: runner.sustainable,
        phases: runner.phases,
        settled: runner.settled,
        store: end,
        peak_memory: peak_memory(),
        data: String::new(),
    };
    (report, failure)
}

impl Runner<'_> {
    fn method(&self) -> Method {
        let spec = self.spec;
        Method {
            version: env!("CARGO_PKG_VERSION").into(),
            store: spec.store.kind.clone(),
            profile: spec.store.config.clone(),
            options: match self.store.as_ref().map(|store| store.describe()) {
                Some(described) if !described.is_empty() => described,
                _ => crate::engine::describe(&spec.store.options),
            },
            machine: Machine::this(),
            pairs: spec.data.pairs,
            key_size: spec.data.shape.key_size,
            value_size: spec.data.shape.values.mean().round() as usize,
            compressible: spec.data.shape.compressible,
            threads: spec.threads,
            load: how_loaded(spec),
            seed: spec.seed,
            floor: self.phases.last().map(|phase| phase.floor).unwrap_or_default(),
            block: match &self.block {
                Ok(block) => format!("{}, all processes that use it", block.name()),
                Err(why) => format!("none: {why}"),
            },
            ..Method::default()
        }
    }

    fn all(&mut self) -> Result<(), String> {
        let mut store = self.spec.store.clone();
        if let Some(load) = &self.spec.load {
            // Bring data that another configuration loaded into shape first.
            store.options.error_if_exists = false;
            self.store = Some((self.open)(self.spec, &store, self.dir).map_err(text)?);
            (self.tell)(Notice::Begin("bringing the tree into shape", 0, 0));
            self.settle(load.settle)?;
        } else {
            self.store = Some((self.open)(self.spec, &store, self.dir).map_err(text)?);
        }
        let steps = self.spec.steps.len();
        for (number, step) in self.spec.steps.iter().enumerate() {
            if self.stop.load(Relaxed) {
                break;
            }
            let name = match step {
                Step::Phase(phase) => &phase.name,
                Step::Settle(_) => "waiting for background work to end",
                Step::Reopen(..) => "opening it again",
            };
            (self.tell)(Notice::Begin(name, number, steps));
            let done = match step {
                Step::Phase(phase) => self.phase(phase),
                Step::Settle(seconds) => self.settle_phase(*seconds),
                Step::Reopen(change, seconds) => self.reopen(change, *seconds),
            };
            (self.tell)(Notice::End);
            done?;
        }
        Ok(())
    }

    fn store(&self) -> &dyn Store {
        &**self.store.as_ref().expect("it is open while steps run")
    }

    /// Waits for background work to end.
    fn settle(&mut self, seconds: f64) -> Result<(), String> {
        let clock = Clock::start();
        let limit = Duration::from_secs_f64(seconds);
        let ended = self.store().settle(limit, &|| self.stop.load(Relaxed)).map_err(text)?;
        self.settled = ended.then(|| clock.now() as f64 / 1e9);
        Ok(())
    }

    /// Waits until the process is calm. A settled store may still prepare memory, which would
    /// disturb the measurement of the driver's floor.
    fn calm(&self) {
        const LOOK: Duration = Duration::from_millis(100);
        for _ in 0..CALM_LOOKS {
            let before = Usage::now();
            clock::sleep(LOOK);
            let used = Usage::now().since(&before).cpu_nanos;
            if self.stop.load(Relaxed) || u128::from(used) < LOOK.as_nanos() / 20 {
                return;
            }
        }
    }

    /// Waits for background work to end, and counts that work to the phases that left it. The
    /// latest one reports it.
    fn settle_phase(&mut self, seconds: f64) -> Result<(), String> {
        self.settle(seconds)?;
        let (Some(left), Some(_)) = (self.unsettled.take(), self.settled) else { return Ok(()) };
        let moved = self.store().stats().since(&left.begun.0);
        let used = Usage::now().since(&left.begun.1);
        if let Some(phase) = self.phases.last_mut() {
            phase.settled = Some(Amplification::new(left.user_bytes, &moved, used.device));
            let seconds = left.clock.now() as f64 / 1e9;
            phase.paid = Some(Paid { ops: left.ops, seconds, cpu_nanos: used.cpu_nanos });
        }
        Ok(())
    }

    fn reopen(&mut self, change: &Change, seconds: f64) -> Result<(), String> {
        let store = self.store.take().expect("it is open while steps run");
        self.unsettled = None;
        let (end, closed) = store.close();
        self.closed = self.closed.plus(&end);
        closed.map_err(text)?;
        let spec = change.apply(self.spec.store.clone(), self.spec.data.pairs);
        self.store = Some((self.open)(self.spec, &spec, self.dir).map_err(text)?);
        self.settle(seconds)?;
        self.calm();
        Ok(())
    }

    fn phase(&mut self, spec: &PhaseSpec) -> Result<(), String> {
        let maximum = || {
            let why =
                "a share of the maximum needs a closed-loop phase before it that asks the same";
            let same = self.maximum.as_ref().filter(|(workload, _)| same_kind(workload, spec));
            same.map(|(_, rate)| *rate).ok_or_else(|| format!("{}: {why}", spec.name))
        };
        match &spec.offered {
            Offered::As(arrivals) => {
                let throughput = self.drive(spec, &spec.name, arrivals.clone())?.throughput;
                if *arrivals == Arrivals::Closed {
                    self.maximum = Some((spec.workload.clone(), throughput));
                }
            }
            Offered::OfMaximum(share) => {
                let rate = (share * maximum()?).max(1.0);
                self.drive(spec, &spec.name, Arrivals::Open(rate))?;
            }
            Offered::PatternOfMaximum(share, pattern) => {
                let pattern = pattern.clone().with_peak((share * maximum()?).max(1.0));
                self.drive(spec, &spec.name, Arrivals::Varying(pattern))?;
            }
            Offered::Sustainable(low, high) => {
                let maximum = maximum()?;
                self.search(spec, low * maximum, high * maximum)?;
            }
        }
        Ok(())
    }

    /// Searches between two rates for the highest one whose queue does not grow, by bisection. Each
    /// trial is a phase of the report. It begins after the background work of the one before.
    fn search(&mut self, spec: &PhaseSpec, mut low: f64, mut high: f64) -> Result<(), String> {
        for trial in 0..TRIALS {
            let rate = if trial == 0 { low } else { f64::midpoint(low, high) };
            let name = format!("{} {:.0}/s", spec.name, rate);
            let phase = self.drive(spec, &name, Arrivals::Open(rate))?;
            let seconds = spec.seconds.unwrap_or(phase.seconds);
            let holds = phase.unserved == 0 && !queue_grows(&phase.series, rate, seconds);
            match (holds, trial) {
                (true, _) => (low, self.sustainable) = (rate, Some(rate)),
                (false, 0) => return Ok(()),
                (false, _) => high = rate,
            }
            if self.stop.load(Relaxed) {
                break;
            }
            self.settle_phase(600.0)?;
        }
        Ok(())
    }

    /// Drives one phase and adds its report.
    fn drive(
        &mut self,
        spec: &PhaseSpec,
        name: &str,
        arrivals: Arrivals,
    ) -> Result<&PhaseReport, String> {
        let phase = Phase {
            workload: spec.workload.clone(),
            arrivals,
            threads: self.spec.threads,
            ops: spec.ops,
            seconds: spec.seconds,
            interval: spec.interval,
            // Each phase has other operations than the phases before it.
            seed: mix(self.spec.seed).wrapping_add(self.phases.len() as u64),
        };
        let floor = driver::floor(&phase, &self.data, self.stop)?;
        let store = &**self.store.as_ref().expect("it is open while steps run");
        let begin = Begin::now(self.block.as_ref().ok());
        let (before, clock) = (store.stats(), Clock::start());
        drop(store.marks(&clock));
        let unsettled = self.unsettled.get_or_insert_with(|| Unsettled {
            clock,
            begun: (before.clone(), begin.usage),
            ops: 0,
            user_bytes: 0,
        });
        let mut samples = vec![sample(store, 0.0, &begin)];
        let tell = &mut *self.tell;
        let outcome: Outcome =
            driver::run(store, &self.data, &self.records, &phase, self.stop, &mut |progress| {
                let last = samples.last().map_or(0.0, |sample| sample.at);
                if progress.seconds - last >= SAMPLE || progress.done >= 1.0 {
                    samples.push(sample(store, progress.seconds, &begin));
                }
                tell(Notice::Going(progress));
            });
        let marks = store.marks(&clock);
        let after = store.stats();
        let stopped = self.stop.load(Relaxed) || outcome.error.is_some();
        let report = PhaseReport::new(&phase, &outcome, stopped, (&before, &after));
        unsettled.ops += report.ops;
        unsettled.user_bytes += report.amplification.user_bytes;
        let report = PhaseReport {
            name: name.to_owned(),
            floor,
            block: begin.block(),
            samples,
            jobs: marks.jobs,
            chains: marks.chains,
            ..report
        };
        self.phases.push(report);
        match outcome.error {
            Some(error) => Err(format!("{name}: {error}")),
            None => Ok(self.phases.last().expect("one was added")),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Describes how the data is loaded.
fn how_loaded(spec: &RunSpec) -> String {
    if let Some(load) = &spec.load {
        return format!("loaded beforehand with the shape {}", load.options.policy.shape);
    }
    let phase = spec.steps.iter().find_map(|step| match step {
        Step::Phase(phase) => Some(phase),
        _ => None,
    });
    match phase.map(|phase| &phase.offered) {
        Some(Offered::As(arrivals)) => format!("by the first phase, {arrivals}"),
        _ => "by the first phase".into(),
    }
}

/// Whether a phase has the same workload, or both read. YCSB's B to D are offered at a share of the
/// throughput of B.
fn same_kind(workload: &Workload, spec: &PhaseSpec) -> bool {
    let reads = |workload: &Workload| workload.reads + workload.scans > 0.0;
    *workload == spec.workload || (reads(workload) && reads(&spec.workload))
}

/// The counters when a phase began.
struct Begin<'a> {
    usage: Usage,
    /// The device, and what it had moved.
    device: Option<(&'a Block, Device)>,
}

impl<'a> Begin<'a> {
    fn now(block: Option<&'a Block>) -> Self {
        let device = block.and_then(|block| Some((block, block.moved()?)));
        Self { usage: Usage::now(), device }
    }

    /// The bytes that the device moved since.
    fn block(&self) -> Option<Device> {
        let (block, before) = self.device?;
        Some(block.moved()?.since(&before))
    }
}

/// A sample of the store and the process.
fn sample(store: &dyn Store, at: f64, begin: &Begin<'_>) -> Sample {
    let Look { levels, counters, admitted, pending } = store.look();
    let used = Usage::now().since(&begin.usage);
    Sample {
        at,
        l0_runs: levels.first().map_or(0, |level| level.tables),
        levels: levels.iter().map(|level| level.bytes).collect(),
        memory: resident_memory().unwrap_or(0),
        cpu_nanos: used.cpu_nanos,
        device: used.device,
        block: begin.block(),
        counters,
        admitted,
        pending,
    }
}

/// Whether the queue of an open loop grew, so that the store did not keep up: it was longer in the
/// last quarter of a phase than in the second, by more requests than are due in 50 ms.
fn queue_grows(series: &Series, rate: f64, seconds: f64) -> bool {
    // Count only intervals in which requests were offered: afterwards every queue shrinks.
    let mut at = 0.0;
    let offered = |point: &&Point| {
        at += point.seconds;
        at <= seconds + point.seconds / 2.0
    };
    let all: Vec<&Point> = series.0.iter().take_while(offered).collect();
    let mean = |part: std::ops::Range<usize>| {
        let part = &all[part];
        part.iter().map(|point| point.backlog as f64).sum::<f64>() / part.len().max(1) as f64
    };
    let quarter = all.len() / 4;
    quarter < 2 || mean(all.len() - quarter..all.len()) > mean(quarter..2 * quarter) + rate / 20.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_grows_when_its_end_is_longer_than_its_begin() {
        let series = |backlogs: &[u64]| {
            let point = |&backlog| Point { seconds: 1.0, backlog, ..Point::default() };
            Series(backlogs.iter().map(point).collect())
        };
        let grows = |backlogs: &[u64]| queue_grows(&series(backlogs), 1000.0, 8.0);
        assert!(grows(&[0, 0, 100, 200, 300, 400, 500, 600]));
        assert!(!grows(&[0, 600, 0, 0, 600, 0, 0, 40]), "a burst that was served");
        assert!(grows(&[5, 9]), "too short to say that it does not");
        let drained = [0, 100, 200, 300, 400, 500, 600, 700, 500, 300, 100, 0, 0];
        assert!(grows(&drained), "what is served after the last request was offered");
    }
}
