//! The driver against stores whose behaviour is known.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vlsm_measure::arrivals::{Arrivals, Pattern};
use vlsm_measure::clock;
use vlsm_measure::driver::{Outcome, Phase, floor, run};
use vlsm_measure::metrics::{Group, Kind, Percentiles};
use vlsm_measure::report::PhaseReport;
use vlsm_measure::store::{NullStore, Store, StoreResult, StoreStats, Write};
use vlsm_measure::workload::data::{Data, Shape};
use vlsm_measure::workload::sizes::Sizes;
use vlsm_measure::workload::{Preset, Records, Workload};

/// Counts its calls. It sleeps at one of its writes, and fails from another one on.
#[derive(Default)]
struct Odd {
    puts: AtomicU64,
    gets: AtomicU64,
    sleep_at: Option<(u64, Duration)>,
    fail_at: Option<u64>,
}

impl Store for Odd {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        assert_eq!((key.len(), value.len()), (24, 176));
        let number = self.puts.fetch_add(1, Relaxed);
        if self.fail_at.is_some_and(|at| number >= at) {
            return Err("no more".into());
        }
        if let Some((at, time)) = self.sleep_at
            && at == number
        {
            clock::sleep(time);
        }
        Ok(())
    }
    fn get(&self, _key: &[u8]) -> StoreResult<Option<usize>> {
        self.gets.fetch_add(1, Relaxed);
        Ok(None)
    }
    fn delete(&self, _key: &[u8]) -> StoreResult<()> {
        Ok(())
    }
    fn scan(&self, _start: &[u8], limit: usize) -> StoreResult<usize> {
        Ok(limit)
    }
    fn settle(&self, _limit: Duration, _give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        Ok(true)
    }
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

fn phase(workload: &str, arrivals: Arrivals, threads: usize) -> Phase {
    let workload = Workload::named(workload).expect("known");
    Phase { workload, arrivals, threads, ops: None, seconds: None, seed: 1, interval: 0.1 }
}

fn drive(store: &dyn Store, phase: &Phase) -> Outcome {
    let records = Arc::new(Records::new(1000));
    let stop = AtomicBool::new(false);
    run(store, &Data::new(24, 176, 1), &records, phase, &stop, &mut |_| ())
}

#[test]
fn a_closed_loop_does_exactly_its_operations() {
    let store = Odd::default();
    let outcome = drive(&store, &Phase { ops: Some(10_001), ..phase("load", Arrivals::Closed, 3) });
    assert_eq!((store.puts.load(Relaxed), outcome.latencies.count()), (10_001, 10_001));
    assert!(outcome.error.is_none());
}

#[test]
fn one_slow_answer_delays_every_request_that_was_due_meanwhile() {
    // One client, 10,000 requests per second for a second; request 2,000 takes 100 ms. Of the
    // 1,000 requests due meanwhile each waited for the rest of it: 5 % of all over 50 ms.
    let slow = Some((2_000, Duration::from_millis(100)));
    let store = Odd { sleep_at: slow, ..Odd::default() };
    let open = phase("load", Arrivals::Open(10_000.0), 1);
    let outcome = drive(&store, &Phase { ops: Some(10_000), ..open });
    let writes = outcome.latencies.of(Kind::Insert).expect("there were inserts");
    assert_eq!(writes.len(), 10_000);
    assert!(writes.max() >= 100_000_000);
    assert!(writes.value_at_quantile(0.96) > 50_000_000, "{:?}", Percentiles::of(writes));
    // A closed loop shows it only once.
    let store = Odd { sleep_at: slow, ..Odd::default() };
    let closed = phase("load", Arrivals::Closed, 1);
    let outcome = drive(&store, &Phase { ops: Some(10_000), ..closed });
    let writes = outcome.latencies.of(Kind::Insert).expect("there were inserts");
    assert!(writes.max() >= 100_000_000 && writes.value_at_quantile(0.999) < 50_000_000);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let open = phase("a", Arrivals::Open(20_000.0), 2);
    let outcome = drive(&NullStore::default(), &Phase { seconds: Some(0.5), ..open });
    assert_eq!((outcome.latencies.count(), outcome.unserved), (10_000, 0));
    assert!((0.45..1.5).contains(&outcome.seconds), "{}", outcome.seconds);
}

#[test]
fn a_failure_ends_the_phase_and_is_told() {
    let store = Odd { fail_at: Some(100), ..Odd::default() };
    let outcome = drive(&store, &phase("load", Arrivals::Closed, 2));
    assert_eq!(outcome.error.expect("it failed").to_string(), "no more");
    assert!(outcome.latencies.count() >= 98);
}

#[test]
fn the_stop_flag_ends_a_phase_without_end() {
    let stop = AtomicBool::new(false);
    let records = Arc::new(Records::new(1000));
    let store = Odd::default();
    let mut seconds = 0;
    let endless = phase("a", Arrivals::Closed, 2);
    let outcome = run(&store, &Data::new(24, 176, 1), &records, &endless, &stop, &mut |progress| {
        seconds += 1;
        assert!(progress.ops > 0);
        stop.store(true, Relaxed);
    });
    assert!(seconds >= 1 && outcome.seconds < 5.0);
    assert_eq!(outcome.misses, store.gets.load(Relaxed), "every get of it finds nothing");
}

/// Records its calls, and finds nothing at every hundredth get.
#[derive(Default)]
struct Notes {
    gets: AtomicU64,
    scans: AtomicU64,
    scanned: AtomicU64,
    written: AtomicU64,
    batches: parking_lot::Mutex<HashSet<(usize, usize)>>,
    threads: parking_lot::Mutex<HashSet<(std::thread::ThreadId, &'static str)>>,
}

impl Notes {
    fn note(&self, what: &'static str) {
        self.threads.lock().insert((std::thread::current().id(), what));
    }
}

impl Store for Notes {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.note("put");
        self.written.fetch_add((key.len() + value.len()) as u64, Relaxed);
        Ok(())
    }
    fn get(&self, _key: &[u8]) -> StoreResult<Option<usize>> {
        self.note("get");
        Ok((!self.gets.fetch_add(1, Relaxed).is_multiple_of(100)).then_some(5))
    }
    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.written.fetch_add(key.len() as u64, Relaxed);
        Ok(())
    }
    fn scan(&self, _start: &[u8], limit: usize) -> StoreResult<usize> {
        self.scans.fetch_add(1, Relaxed);
        self.scanned.fetch_add(limit as u64, Relaxed);
        Ok(limit)
    }
    fn write(&self, writes: &[Write<'_>]) -> StoreResult<()> {
        let deleted: Vec<_> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Delete(key) => Some(*key),
                Write::Put(..) => None,
            })
            .collect();
        let last = writes.last().expect("there are writes");
        assert!(matches!(last, Write::Put(key, _) if *key == deleted[0]), "one is replaced");
        self.batches.lock().insert((writes.len(), deleted.len()));
        writes.iter().try_for_each(|write| match write {
            Write::Put(key, value) => self.put(key, value),
            Write::Delete(key) => self.delete(key),
        })
    }
    fn settle(&self, _limit: Duration, _give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        Ok(true)
    }
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

#[test]
fn a_transaction_is_all_of_its_operations_and_counts_once() {
    let store = Notes::default();
    let outcome = drive(&store, &Phase { ops: Some(1000), ..phase("dlc", Arrivals::Closed, 2) });
    let transactions = outcome.latencies.of(Kind::Transaction).expect("there were some");
    assert_eq!((transactions.len(), outcome.latencies.count()), (1000, 1000));
    assert_eq!((store.gets.load(Relaxed), store.scans.load(Relaxed)), (10_000, 4000));
    assert_eq!(store.scanned.load(Relaxed), 400_000);
    assert_eq!(*store.batches.lock(), HashSet::from([(4, 1)]), "2 updates, 1 delete, 1 insert");
    assert_eq!(outcome.misses, 100);
    assert_eq!(outcome.user_bytes, store.written.load(Relaxed));
}

#[test]
fn bytes_are_counted_as_they_were_written() {
    let store = Notes::default();
    let mixed = Workload {
        reads: 0.0,
        updates: 25.0,
        inserts: 25.0,
        deletes: 25.0,
        read_modify_writes: 25.0,
        ..Workload::named("a").expect("known")
    };
    let phase = Phase { workload: mixed, ops: Some(4000), ..phase("a", Arrivals::Closed, 2) };
    let shape = Shape { values: Sizes::Halves(250, 400, 1024), ..Shape::default() };
    let records = Arc::new(Records::new(1000));
    let stop = AtomicBool::new(false);
    let data = Data::shaped(shape, 1);
    let outcome = run(&store, &data, &records, &phase, &stop, &mut |_| ());
    assert_eq!(outcome.user_bytes, store.written.load(Relaxed));
    let expected = 4000.0 * 24.0 + 3000.0 * shape.values.mean();
    assert!((outcome.user_bytes as f64 / expected - 1.0).abs() < 0.05);
    let stats = StoreStats::default();
    let report = PhaseReport::new(&phase, &outcome, false, (&stats, &stats));
    assert_eq!(report.amplification.user_bytes, outcome.user_bytes);
    let names: Vec<_> = report.kinds.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["inserts", "updates", "deletes", "read-modify-writes"]);
    let writes = report.percentiles(Group::Write).expect("all of them are writes");
    assert_eq!((writes.count, report.reads, report.scans), (4000, None, None));
}

#[test]
fn one_client_writes_while_the_others_read() {
    let store = Notes::default();
    let apart = phase("readwhilewriting", Arrivals::Closed, 3);
    drive(&store, &Phase { ops: Some(3000), ..apart });
    let threads = store.threads.lock();
    let of = |kind| threads.iter().filter(|(_, what)| *what == kind).count();
    assert_eq!((threads.len(), of("put"), of("get")), (3, 1, 2));
}

#[test]
fn intervals_have_the_length_asked_for() {
    // An interval with fewer than a thousand reads, or writes, has no percentile. Here it has
    // 3,000.
    let open = phase("a", Arrivals::Poisson(60_000.0), 2);
    let outcome = drive(&NullStore::default(), &Phase { seconds: Some(0.5), ..open });
    let points = &outcome.series.0;
    assert!((5..20).contains(&points.len()), "{} intervals of 0.1 s", points.len());
    assert_eq!(points.iter().map(|point| point.ops).sum::<u64>(), outcome.latencies.count());
    // On a busy machine an interval may pass without any request.
    let full = points.iter().max_by_key(|point| point.ops).expect("there are some");
    assert!(full.read_p999_us >= full.read_p50_us && full.write_p50_us > 0.0);
}

#[test]
fn bursts_and_valleys_are_offered_as_they_are() {
    let pattern = Pattern::new([(2.0, 20_000.0), (1.0, 1000.0)]).scale(0.1);
    let varying = phase("silk", Arrivals::Varying(pattern), 2);
    let outcome = drive(&NullStore::default(), &Phase { seconds: Some(0.6), ..varying });
    let ops: Vec<u64> = outcome.series.0.iter().map(|point| point.ops).collect();
    assert_eq!((outcome.latencies.count(), outcome.unserved), (8200, 0), "{ops:?}");
}

#[test]
fn a_rate_that_the_driver_cannot_keep_is_refused() {
    let data = Data::new(24, 176, 1);
    let go = AtomicBool::new(false);
    let fast = phase("a", Arrivals::Open(2e9), 2);
    let refused = floor(&fast, &data, &go).expect_err("nobody can do that").to_string();
    assert!(refused.contains("2000000000 requests per second") && refused.contains("reaches"));
    // A pattern is tried at its peak.
    let peak = Arrivals::Varying(Pattern::new([(10.0, 10.0), (1.0, 2e9)]));
    assert!(floor(&phase("a", peak, 2), &data, &go).is_err());
    let slow = phase("a", Arrivals::Open(1000.0), 2);
    let slow = floor(&slow, &data, &go).expect("it can do that");
    assert!(slow.rate == Some(1000.0) && slow.p99_us > 0.0);
}

#[test]
fn every_named_workload_runs() {
    for preset in Preset::all() {
        let store = NullStore::default();
        let phase = Phase { ops: Some(500), ..phase(&preset.name, Arrivals::Closed, 2) };
        let records = Arc::new(Records::new(1000));
        let stop = AtomicBool::new(false);
        let data = Data::shaped(preset.shape, 1);
        let outcome = run(&store, &data, &records, &phase, &stop, &mut |_| ());
        assert_eq!((outcome.latencies.count(), outcome.error.is_none()), (500, true));
    }
}
