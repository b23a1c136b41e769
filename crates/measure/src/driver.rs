//! Client threads between a workload, its arrivals and a store.
//!
//! 1. [`run`] starts the clients of a [`Phase`]. At the end of each interval it collects their
//!    counts and reports the progress to the caller.
//! 2. A closed-loop client does its share of the operations one after another. An open-loop client
//!    takes due requests from the shared sequence (see [`crate::arrivals`]); a request's latency is
//!    its completion − its due time.
//! 3. Operations are those of the workload, or of a recorded trace ([`crate::trace`]).
//! 4. The phase ends when its operations are done, its time is over, the caller raised the stop
//!    flag, or an operation failed (the outcome has its error and all earlier counts). An open loop
//!    goes on for up to `grace` to serve requests that are still due: giving up at once would leave
//!    out the requests that waited longest. It counts the remaining ones as unserved.
//!
//! Threads: clients share atomics. Each shares the lock of its interval with the collector.

mod client;
mod floor;

pub use floor::{Floor, floor};

use crate::arrivals::{Arrivals, Sequence};
use crate::clock::Clock;
use crate::metrics::stretch::Stretches;
use crate::metrics::{Interval, Latencies, Series};
use crate::process::Usage;
use crate::store::{Store, StoreError};
use crate::trace::Trace;
use crate::workload::data::Data;
use crate::workload::{Generator, Records, Workload};
use client::Client;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// One part of a run.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The operations.
    pub workload: Workload,
    /// The times at which requests are made.
    pub arrivals: Arrivals,
    /// The number of client threads.
    pub threads: usize,
    /// The largest number of operations.
    pub ops: Option<u64>,
    /// The longest time in seconds.
    pub seconds: Option<f64>,
    /// The seed of the choice of operations.
    pub seed: u64,
    /// Length of the intervals that are counted one by one, in seconds.
    pub interval: f64,
}

/// The result of a phase.
#[derive(Default)]
pub struct Outcome {
    /// Its length in seconds.
    pub seconds: f64,
    /// The latencies of all operations.
    pub latencies: Latencies,
    /// The points of all intervals.
    pub series: Series,
    /// Reads that found nothing.
    pub misses: u64,
    /// Bytes of the keys and values that clients wrote, and of the keys that they deleted.
    pub user_bytes: u64,
    /// Requests of an open loop that were due and not served.
    pub unserved: u64,
    /// The resources that the process used during the phase.
    pub usage: Usage,
    /// The first failure.
    pub error: Option<StoreError>,
}

/// The progress of a phase.
pub struct Progress<'a> {
    /// Seconds since its start.
    pub seconds: f64,
    /// Operations done.
    pub ops: u64,
    /// The share of the phase that is done, 0 to 1.
    pub done: f64,
    /// Latencies so far.
    pub latencies: &'a Latencies,
    /// The points of the intervals so far.
    pub series: &'a Series,
}

/// The seconds that an open loop goes on to serve requests that are due.
fn grace(seconds: f64) -> f64 {
    (seconds / 2.0).max(10.0)
}

/// The state that all clients share.
struct Run<'a> {
    store: &'a dyn Store,
    data: &'a Data,
    /// The trace whose operations replace those of the workload, after its values.
    trace: Option<(Data, Trace)>,
    clock: Clock,
    /// The time at which clients stop, in nanoseconds.
    end: u64,
    /// The largest number of operations.
    total: u64,
    clients: u64,
    sequence: Option<Sequence>,
    stop: &'a AtomicBool,
    /// Set by the first failure.
    failed: AtomicBool,
    error: Mutex<Option<StoreError>>,
    active: AtomicUsize,
}

/// Runs a phase. `stop` ends it early; `tell` receives its progress after every interval.
///
/// # Panics
/// A client thread cannot be started or panics, or the interval is no positive number.
pub fn run(
    store: &dyn Store,
    data: &Data,
    records: &Arc<Records>,
    phase: &Phase,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress<'_>),
) -> Outcome {
    assert!(phase.interval > 0.0, "intervals have a length");
    let trace = match &phase.arrivals {
        Arrivals::Replay(replay) => match Trace::open(&replay.path) {
            Ok(trace) => Some((trace.data(phase.seed), trace)),
            Err(error) => return Outcome { error: Some(error), ..Outcome::default() },
        },
        _ => None,
    };
    let before = Usage::now();
    let run = Run::new(store, data, phase, stop, trace);
    let slots: Vec<_> = (0..phase.threads).map(|_| Mutex::new(Interval::default())).collect();
    let mut collector = Collector { slots: &slots, ..Collector::default() };
    let caller = std::thread::current();
    std::thread::scope(|scope| {
        for (client, slot) in slots.iter().enumerate() {
            let number = (client as u64, phase.threads as u64);
            let generator = Generator::new(&phase.workload, data, records, phase.seed, number);
            let (run, caller) = (&run, caller.clone());
            let body = move || {
                let _leave = Leave { run, caller };
                Client::new(run, generator, slot).work(run.share(client as u64));
            };
            let name = format!("client-{client}");
            let builder = std::thread::Builder::new().name(name);
            builder.spawn_scoped(scope, body).expect("the system starts a client thread");
        }
        while collector.interval(&run, phase.interval) {
            tell(&collector.progress(phase, run.total));
        }
    });
    Outcome {
        seconds: collector.last as f64 / 1e9,
        latencies: collector.totals.latencies,
        series: collector.series,
        misses: collector.totals.misses,
        user_bytes: collector.totals.user_bytes,
        unserved: run.sequence.as_ref().map_or(0, |all| all.backlog(collector.last)),
        usage: Usage::now().since(&before),
        error: run.error.into_inner(),
    }
}

impl<'a> Run<'a> {
    fn new(
        store: &'a dyn Store,
        data: &'a Data,
        phase: &Phase,
        stop: &'a AtomicBool,
        trace: Option<(Data, Trace)>,
    ) -> Self {
        let ops = phase.ops.unwrap_or(u64::MAX);
        let times = trace.as_ref().map(|(_, trace)| trace.times());
        let sequence = Sequence::new(&phase.arrivals, ops, phase.seconds, times, phase.seed);
        let grace = |seconds| if sequence.is_some() { grace(seconds) } else { 0.0 };
        let limit = phase.seconds.map_or(f64::INFINITY, |seconds| seconds + grace(seconds));
        Self {
            store,
            data,
            clock: Clock::start(),
            end: (limit * 1e9) as u64,
            total: sequence.as_ref().map_or(ops, Sequence::total),
            clients: phase.threads as u64,
            sequence,
            trace,
            stop,
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            active: AtomicUsize::new(phase.threads),
        }
    }

    /// The number of operations that this client does in a closed loop.
    fn share(&self, client: u64) -> u64 {
        self.total / self.clients + u64::from(client < self.total % self.clients)
    }
}

/// Collects the counts of the clients.
#[derive(Default)]
struct Collector<'a> {
    slots: &'a [Mutex<Interval>],
    fresh: Interval,
    /// The latencies of the last collected interval.
    latencies: Latencies,
    totals: Interval,
    series: Series,
    stretches: Stretches,
    /// The time of the last collection, in nanoseconds.
    last: u64,
}

impl Collector<'_> {
    /// Waits for the end of an interval or of the phase, and collects. Returns false if the phase
    /// is over.
    fn interval(&mut self, run: &Run<'_>, seconds: f64) -> bool {
        let next = self.last + ((seconds * 1e9) as u64).max(1);
        while run.clock.now() < next && run.active.load(Acquire) > 0 {
            run.clock.park_until(next);
        }
        let goes_on = run.active.load(Acquire) > 0;
        self.collect(run);
        goes_on
    }

    /// The progress of the phase.
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
        self.latencies.clear();
        for slot in self.slots {
            std::mem::swap(&mut *slot.lock(), &mut self.fresh);
            self.latencies.add(&self.fresh.latencies);
            self.totals.take(&mut self.fresh);
        }
        self.totals.latencies.add(&self.latencies);
        let backlog = run.sequence.as_ref().map_or(0, |sequence| sequence.backlog(now));
        let seconds = (now - self.last) as f64 / 1e9;
        self.series.0.push(self.stretches.point(seconds, &self.latencies, backlog));
        self.last = now;
    }
}

/// Counts a client as ended when it is dropped, even if the client panics.
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
