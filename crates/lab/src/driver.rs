//! Client threads between a workload, its arrivals and a store.
//!
//! 1. [`run`] starts the clients of a [`Phase`] and collects, once a second, what they counted; the
//!    caller is told (for live progress).
//! 2. A closed-loop client does its share of the operations one after another. An open-loop client
//!    takes due requests from the shared sequence (see [`crate::arrivals`]); a request's latency is
//!    its completion − its due time.
//! 3. The phase ends when its operations are done, its time is over, the caller raised the stop
//!    flag, or an operation failed (its error is in the outcome, with all that was counted before).
//!    An open loop goes on for up to `grace` to serve what is still due: giving up at once
//!    would leave out the very requests that waited longest. Those left are counted as unserved.
//!
//! Threads: clients share atomics and, each with the collector, the lock of its interval.

use crate::arrivals::{Arrivals, Sequence, Turn};
use crate::clock::{Clock, exact_wakeups};
use crate::metrics::{Interval, Kind, Latencies, Point, Series};
use crate::process::Usage;
use crate::report::Floor;
use crate::store::{NullStore, Store, StoreError, StoreResult};
use crate::workload::data::Data;
use crate::workload::{Generator, Op, Records, Workload};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

const SECOND: u64 = 1_000_000_000;

/// One part of a run.
pub struct Phase {
    /// What is asked.
    pub workload: Workload,
    /// When.
    pub arrivals: Arrivals,
    /// By how many client threads.
    pub threads: usize,
    /// How many operations at most.
    pub ops: Option<u64>,
    /// For how many seconds at most.
    pub seconds: Option<f64>,
    /// For the choice of operations.
    pub seed: u64,
}

/// What a phase brought.
pub struct Outcome {
    /// Its length in seconds.
    pub seconds: f64,
    /// All latencies.
    pub latencies: Latencies,
    /// Second by second.
    pub series: Series,
    /// Reads that found nothing.
    pub misses: u64,
    /// Requests of an open loop that were due and not served.
    pub unserved: u64,
    /// What the process used meanwhile.
    pub usage: Usage,
    /// The first failure.
    pub error: Option<StoreError>,
}

/// How a phase is going.
pub struct Progress<'a> {
    /// Seconds since its start.
    pub seconds: f64,
    /// Operations done.
    pub ops: u64,
    /// The share of the phase that is done, 0 to 1.
    pub done: f64,
    /// Latencies so far.
    pub latencies: &'a Latencies,
    /// Second by second so far.
    pub series: &'a Series,
}

/// How many nanoseconds an open loop goes on to serve what is due.
fn grace(seconds: f64) -> f64 {
    (seconds / 2.0).max(10.0)
}

/// What all clients share.
struct Run<'a> {
    store: &'a dyn Store,
    data: &'a Data,
    clock: Clock,
    /// When clients stop, in nanoseconds.
    end: u64,
    /// Operations at most.
    total: u64,
    clients: u64,
    sequence: Option<Sequence>,
    stop: &'a AtomicBool,
    /// Set by the first failure.
    failed: AtomicBool,
    error: Mutex<Option<StoreError>>,
    active: AtomicUsize,
}

/// Runs a phase. `stop` ends it early; `tell` hears of it every second.
///
/// # Panics
/// When a client thread cannot be started, or panics.
pub fn run(
    store: &dyn Store,
    data: &Data,
    records: &Arc<Records>,
    phase: &Phase,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress<'_>),
) -> Outcome {
    let before = Usage::now();
    let run = Run::new(store, data, phase, stop);
    let slots: Vec<_> = (0..phase.threads).map(|_| Mutex::new(Interval::default())).collect();
    let mut collector = Collector::new(&slots);
    let caller = std::thread::current();
    std::thread::scope(|scope| {
        for (client, slot) in slots.iter().enumerate() {
            let generator = Generator::new(&phase.workload, records, phase.seed, client as u64);
            let (run, caller) = (&run, caller.clone());
            let body = move || {
                let _leave = Leave { run, caller };
                Client { run, generator, slot, key: Vec::new() }.work(run.share(client as u64));
            };
            let name = format!("client-{client}");
            let builder = std::thread::Builder::new().name(name);
            builder.spawn_scoped(scope, body).expect("the system starts a client thread");
        }
        while collector.second(&run) {
            tell(&collector.progress(phase, run.total));
        }
    });
    Outcome {
        seconds: collector.last as f64 / 1e9,
        latencies: collector.totals.latencies,
        series: collector.series,
        misses: collector.totals.misses,
        unserved: run.sequence.as_ref().map_or(0, Sequence::untaken),
        usage: Usage::now().since(&before),
        error: run.error.into_inner(),
    }
}

impl<'a> Run<'a> {
    fn new(store: &'a dyn Store, data: &'a Data, phase: &Phase, stop: &'a AtomicBool) -> Self {
        let total = total_ops(phase);
        let (sequence, limit) = match phase.arrivals {
            Arrivals::Closed => (None, phase.seconds),
            Arrivals::Open(rate) => {
                let limit = phase.seconds.map(|seconds| seconds + grace(seconds));
                (Some(Sequence::new(rate, total)), limit)
            }
        };
        Self {
            store,
            data,
            clock: Clock::start(),
            end: (limit.unwrap_or(f64::INFINITY) * 1e9) as u64,
            total,
            clients: phase.threads as u64,
            sequence,
            stop,
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            active: AtomicUsize::new(phase.threads),
        }
    }

    /// How many operations of a closed loop one client does.
    fn share(&self, client: u64) -> u64 {
        self.total / self.clients + u64::from(client < self.total % self.clients)
    }
}

/// How many operations a phase has at most.
fn total_ops(phase: &Phase) -> u64 {
    let ops = phase.ops.unwrap_or(u64::MAX);
    match (phase.arrivals, phase.seconds) {
        (Arrivals::Open(rate), Some(seconds)) => ops.min((rate * seconds) as u64),
        _ => ops,
    }
}

/// Takes from the clients what they counted.
struct Collector<'a> {
    slots: &'a [Mutex<Interval>],
    fresh: Interval,
    totals: Interval,
    series: Series,
    /// When it last collected, in nanoseconds.
    last: u64,
}

impl<'a> Collector<'a> {
    fn new(slots: &'a [Mutex<Interval>]) -> Self {
        let (fresh, totals) = (Interval::default(), Interval::default());
        Self { slots, fresh, totals, series: Series::default(), last: 0 }
    }

    /// Waits for the end of a second, or of the phase, and collects. False when the phase is over.
    fn second(&mut self, run: &Run<'_>) -> bool {
        let next = self.last + SECOND;
        while run.clock.now() < next && run.active.load(Acquire) > 0 {
            run.clock.park_until(next);
        }
        let goes_on = run.active.load(Acquire) > 0;
        self.collect(run);
        goes_on
    }

    /// How the phase is going.
    fn progress(&self, phase: &Phase, total: u64) -> Progress<'_> {
        let seconds = self.last as f64 / 1e9;
        let ops = self.totals.latencies.count();
        let by_time = phase.seconds.map_or(0.0, |limit| seconds / limit);
        Progress {
            seconds,
            ops,
            done: by_time.max(ops as f64 / total as f64).min(1.0),
            latencies: &self.totals.latencies,
            series: &self.series,
        }
    }

    fn collect(&mut self, run: &Run<'_>) {
        let now = run.clock.now();
        let mut second = Latencies::default();
        for slot in self.slots {
            std::mem::swap(&mut *slot.lock(), &mut self.fresh);
            second.add(&self.fresh.latencies);
            self.totals.misses += self.fresh.misses;
            self.fresh.latencies.clear();
            self.fresh.misses = 0;
        }
        self.totals.latencies.add(&second);
        let backlog = run.sequence.as_ref().map_or(0, |sequence| sequence.backlog(now));
        self.series.0.push(Point::new((now - self.last) as f64 / 1e9, &second, backlog));
        self.last = now;
    }
}

/// Counts a client out, also when it panics.
struct Leave<'a> {
    run: &'a Run<'a>,
    caller: std::thread::Thread,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.run.active.fetch_sub(1, Release);
        self.caller.unpark();
    }
}

/// One client thread.
struct Client<'a> {
    run: &'a Run<'a>,
    generator: Generator,
    slot: &'a Mutex<Interval>,
    key: Vec<u8>,
}

impl Client<'_> {
    fn work(&mut self, share: u64) {
        match &self.run.sequence {
            None => self.closed(share),
            Some(sequence) => self.open(sequence),
        }
    }

    /// Whether the phase is over for this client.
    fn over(&self, now: u64) -> bool {
        let run = self.run;
        now >= run.end || run.stop.load(Relaxed) || run.failed.load(Relaxed)
    }

    fn closed(&mut self, share: u64) {
        let clock = self.run.clock;
        for _ in 0..share {
            let op = self.generator.next_op();
            let begun = clock.now();
            if self.over(begun) || !self.serve(op, begun) {
                return;
            }
        }
    }

    fn open(&mut self, sequence: &Sequence) {
        exact_wakeups();
        let clock = self.run.clock;
        loop {
            let now = clock.now();
            if self.over(now) {
                return;
            }
            match sequence.turn(now) {
                Turn::End => return,
                Turn::Sleep(until) => clock.sleep_until(until),
                Turn::Serve(due) => {
                    let op = self.generator.next_op();
                    if !self.serve(op, due) {
                        return;
                    }
                }
            }
        }
    }

    /// Does an operation and counts its latency from `since`. False after a failure.
    fn serve(&mut self, op: Op, since: u64) -> bool {
        match self.execute(op) {
            Ok((kind, missed)) => {
                let latency = self.run.clock.now().saturating_sub(since);
                let mut interval = self.slot.lock();
                interval.latencies.record(kind, latency);
                interval.misses += u64::from(missed);
                true
            }
            Err(error) => {
                self.run.error.lock().get_or_insert(error);
                self.run.failed.store(true, Relaxed);
                false
            }
        }
    }

    /// Does an operation: its kind, and whether a read found nothing.
    fn execute(&mut self, op: Op) -> StoreResult<(Kind, bool)> {
        let Run { store, data, .. } = self.run;
        let (Op::Read(record)
        | Op::Update(record)
        | Op::Insert(record)
        | Op::Scan(record, _)
        | Op::ReadModifyWrite(record)) = op;
        data.key(record, &mut self.key);
        match op {
            Op::Read(_) => Ok((Kind::Read, store.get(&self.key)?.is_none())),
            Op::Scan(_, limit) => Ok((Kind::Scan, store.scan(&self.key, limit)? == 0)),
            Op::Update(_) | Op::Insert(_) => {
                store.put(&self.key, data.value(self.generator.random()))?;
                Ok((Kind::Write, false))
            }
            Op::ReadModifyWrite(_) => {
                let missed = store.get(&self.key)?.is_none();
                store.put(&self.key, data.value(self.generator.random()))?;
                Ok((Kind::Write, missed))
            }
        }
    }
}

/// What the driver costs by itself: a short run of the same kind over a store that does nothing.
#[must_use]
pub fn floor(phase: &Phase, data: &Data) -> Floor {
    let brief = Phase {
        workload: phase.workload.clone(),
        arrivals: phase.arrivals,
        threads: phase.threads,
        ops: None,
        seconds: Some(0.5),
        seed: phase.seed,
    };
    let records = Arc::new(Records::new(1_000_000));
    let stop = AtomicBool::new(false);
    let outcome = run(&NullStore::default(), data, &records, &brief, &stop, &mut |_| ());
    Floor {
        rate: match phase.arrivals {
            Arrivals::Closed => None,
            Arrivals::Open(rate) => Some(rate),
        },
        p99_us: outcome.latencies.quantile(0.99) as f64 / 1e3,
        p999_us: outcome.latencies.quantile(0.999) as f64 / 1e3,
        cpu_us_per_op: outcome.usage.cpu_nanos as f64
            / 1e3
            / outcome.latencies.count().max(1) as f64,
    }
}
