//! The steps of a run on our engine: which phases pay for the background work that was waited for.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::atomic::AtomicBool;
use vlsm::Options;
use vlsm_core::Bytes;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::engine::Engine;
use vlsm_measure::report::PhaseReport;
use vlsm_measure::runner::run;
use vlsm_measure::spec::{Change, DataSpec, Limits, Offered, PhaseSpec, RunSpec, Step, StoreSpec};
use vlsm_measure::workload::Workload;
use vlsm_measure::workload::data::Shape;

fn load(name: &str, ops: u64) -> Step {
    Step::Phase(PhaseSpec {
        name: name.into(),
        workload: Workload::named("load").unwrap(),
        offered: Offered::As(Arrivals::Closed),
        ops: Some(ops),
        seconds: None,
        interval: 0.1,
    })
}

/// The phases of a run with these steps.
fn phases(steps: Vec<Step>) -> Vec<PhaseReport> {
    let mut options = Options::default();
    options.policy.tree.memtable_bytes = Bytes::mib(1);
    let store = StoreSpec {
        kind: "vlsm".into(),
        config: String::new(),
        options,
        cache: 1 << 20,
        regions: 1,
    };
    let spec = RunSpec {
        store,
        data: DataSpec { pairs: 60_000, shape: Shape::default() },
        load: None,
        steps,
        threads: 2,
        limits: Limits::default(),
        seed: 1,
        dir: None,
    };
    let folder = tempfile::tempdir().unwrap();
    let open = |_: &RunSpec, store: &StoreSpec, path: &std::path::Path| {
        let engine = Engine::open(path, store.options.clone(), Vec::new())?;
        Ok(Box::new(engine) as _)
    };
    let stop = AtomicBool::new(false);
    let (report, failure) = run(&spec, &open, folder.path(), &stop, &mut |_| ());
    assert_eq!(failure, None);
    report.phases
}

#[test]
fn phases_that_nobody_waited_between_pay_for_their_work_together() {
    let settle = || Step::Settle(60.0);
    let found = phases(vec![
        load("fill", 10_000),
        load("max", 20_000),
        settle(),
        load("alone", 5000),
        settle(),
        load("before the reopening", 5000),
        Step::Reopen(Change::memtable(Bytes::mib(2)), 60.0),
        load("after it", 1000),
        settle(),
    ]);
    let [fill, max, alone, before, after] = &found[..] else { panic!("five phases") };
    assert!(fill.paid.is_none() && fill.settled.is_none(), "nobody waited for it");
    let paid = max.paid.unwrap();
    assert_eq!(paid.ops, 30_000);
    assert!(paid.seconds >= fill.seconds + max.seconds && paid.cpu_nanos > 0);
    let user = |phase: &PhaseReport| phase.amplification.user_bytes;
    let moved = max.settled.unwrap();
    assert_eq!(moved.user_bytes, user(fill) + user(max));
    let wal = [fill, max].map(|phase| phase.store.wal_bytes).iter().sum::<u64>();
    assert!(moved.store_written >= wal && wal >= moved.user_bytes);
    assert_eq!(alone.paid.unwrap().ops, 5000);
    assert_eq!(alone.settled.unwrap().user_bytes, user(alone));
    assert!(before.paid.is_none(), "the store was opened again");
    assert_eq!(after.paid.unwrap().ops, 1000, "and began to count anew");
}
