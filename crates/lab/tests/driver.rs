//! The driver against stores whose behaviour is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vlsm_lab::arrivals::Arrivals;
use vlsm_lab::clock;
use vlsm_lab::driver::{Outcome, Phase, run};
use vlsm_lab::metrics::{Kind, Percentiles};
use vlsm_lab::store::{NullStore, Store, StoreResult, StoreStats};
use vlsm_lab::workload::data::Data;
use vlsm_lab::workload::{Records, Workload};

/// Counts; at one of its writes it sleeps, from another one on it fails.
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
    Phase { workload, arrivals, threads, ops: None, seconds: None, seed: 1 }
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
    let writes = outcome.latencies.of(Kind::Write);
    assert_eq!(writes.len(), 10_000);
    assert!(writes.max() >= 100_000_000);
    assert!(writes.value_at_quantile(0.96) > 50_000_000, "{:?}", Percentiles::of(writes));
    // A closed loop hides it all but once.
    let store = Odd { sleep_at: slow, ..Odd::default() };
    let closed = phase("load", Arrivals::Closed, 1);
    let outcome = drive(&store, &Phase { ops: Some(10_000), ..closed });
    let writes = outcome.latencies.of(Kind::Write);
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
