//! A store is recorded under a workload, and the trace replayed on another store.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that damages a file")]

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vlsm::Options;
use vlsm_measure::arrivals::{Arrivals, Replay};
use vlsm_measure::clock;
use vlsm_measure::driver::{Outcome, Phase, run};
use vlsm_measure::engine::Engine;
use vlsm_measure::metrics::Kind;
use vlsm_measure::store::{Store, StoreResult, StoreStats};
use vlsm_measure::trace::{Act, Trace};
use vlsm_measure::workload::data::{Data, Shape};
use vlsm_measure::workload::sizes::Sizes;
use vlsm_measure::workload::{Records, Workload};

/// Records its calls.
#[derive(Default)]
struct Notes(Mutex<Vec<(Act, Vec<u8>)>>);

impl Notes {
    fn note(&self, act: Act, key: &[u8]) {
        self.0.lock().push((act, key.to_vec()));
    }
}

impl Store for Notes {
    fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
        self.note(Act::Put(value.len()), key);
        Ok(())
    }
    fn get(&self, key: &[u8]) -> StoreResult<Option<usize>> {
        self.note(Act::Get, key);
        Ok(Some(1))
    }
    fn delete(&self, key: &[u8]) -> StoreResult<()> {
        self.note(Act::Delete, key);
        Ok(())
    }
    fn scan(&self, start: &[u8], limit: usize) -> StoreResult<usize> {
        self.note(Act::Scan(limit), start);
        Ok(limit)
    }
    fn settle(&self, _limit: Duration, _give_up: &dyn Fn() -> bool) -> StoreResult<bool> {
        Ok(true)
    }
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

fn drive(store: &dyn Store, phase: &Phase, data: &Data) -> Outcome {
    let records = Arc::new(Records::new(1000));
    run(store, data, &records, phase, &AtomicBool::new(false), &mut |_| ())
}

fn phase(workload: Workload, arrivals: Arrivals) -> Phase {
    Phase { workload, arrivals, threads: 1, ops: None, seconds: None, seed: 1, interval: 0.1 }
}

/// A trace of a mixed load of half a second on a real store.
fn record(path: &Path) -> (Outcome, Data) {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(&folder.path().join("store"), Options::default(), Vec::new());
    let engine = engine.unwrap();
    let shape = Shape { values: Sizes::Uniform(10, 500), ..Shape::default() };
    let data = Data::shaped(shape, 1);
    engine.db().start_trace(path).unwrap();
    let mixed = Workload {
        reads: 40.0,
        updates: 30.0,
        deletes: 20.0,
        scans: 10.0,
        ..Workload::named("a").unwrap()
    };
    let load = phase(mixed, Arrivals::Open(4000.0));
    let outcome = drive(&engine, &Phase { seconds: Some(0.5), ..load }, &data);
    assert!(outcome.error.is_none());
    Box::new(engine).close().1.unwrap();
    (outcome, data)
}

#[test]
fn a_replay_asks_for_the_same_at_the_same_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let (recorded, data) = record(&path);
    let trace = Trace::open(&path).unwrap();
    assert_eq!((trace.len() as u64, trace.len()), (recorded.latencies.count(), 2000));
    for speed in [1.0, 4.0] {
        let store = Notes::default();
        let replay = Arrivals::Replay(Replay { path: path.clone(), speed });
        let outcome = drive(&store, &phase(Workload::trace(), replay), &data);
        assert!(outcome.error.is_none() && outcome.unserved == 0);
        let asked = store.0.into_inner();
        assert_eq!(asked.len(), trace.len());
        for (index, (act, key)) in asked.iter().enumerate() {
            let (expected, of) = trace.op(index);
            let expected = match expected {
                Act::Scan(pairs) => Act::Scan(pairs.max(1)),
                other => other,
            };
            assert_eq!((*act, &key[..]), (expected, of), "operation {index}");
        }
        for kind in [Kind::Read, Kind::Update, Kind::Delete, Kind::Scan] {
            let count = |outcome: &Outcome| outcome.latencies.of(kind).map(|all| all.len());
            assert_eq!(count(&outcome), count(&recorded), "{}", kind.name());
        }
        assert_eq!(outcome.user_bytes, recorded.user_bytes);
        let seconds = *trace.times().last().unwrap() as f64 / 1e6 / speed;
        assert!((seconds..seconds + 0.3).contains(&outcome.seconds), "{}", outcome.seconds);
    }
}

#[test]
fn operations_are_in_the_order_of_their_beginnings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let engine = Engine::open(&folder.path().join("store"), Options::default(), Vec::new());
    let engine = engine.unwrap();
    engine.db().start_trace(&path).unwrap();
    let scan = engine.db().range("a"..);
    clock::sleep(Duration::from_millis(2));
    engine.db().put("key", "value").unwrap();
    assert_eq!(scan.count(), 0, "it began before");
    Box::new(engine).close().1.unwrap();
    let trace = Trace::open(&path).unwrap();
    let ops = [trace.op(0), trace.op(1)];
    assert_eq!(ops, [(Act::Scan(0), &b"a"[..]), (Act::Put(5), &b"key"[..])]);
    assert!(trace.times()[1] >= trace.times()[0] + 2000);
}

#[test]
fn a_replay_may_end_early() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let (_, data) = record(&path);
    let store = Notes::default();
    let replay = phase(Workload::trace(), Arrivals::Replay(Replay { path, speed: 1.0 }));
    let outcome = drive(&store, &Phase { ops: Some(100), ..replay }, &data);
    assert_eq!((outcome.latencies.count(), store.0.into_inner().len()), (100, 100));
}

#[test]
fn a_damaged_trace_is_refused_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let (_, data) = record(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let refused = |bytes: Option<&[u8]>, expected: &str| {
        match bytes {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let store = Notes::default();
        let replay = Replay { path: path.clone(), speed: 1.0 };
        let outcome = drive(&store, &phase(Workload::trace(), Arrivals::Replay(replay)), &data);
        let error = outcome.error.expect("it is refused").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(store.0.into_inner().is_empty(), "nothing of it is done");
    };
    refused(Some(&bytes), "checksum");
    refused(Some(&bytes[..20]), "ends too early");
    refused(None, "cannot open");
}
