//! The simulated machine itself: determinism, deadlocks and livelocks found, crashes, virtual time.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use vlsm::{Db, KeyspaceOptions, MergeOperator};
use vlsm_disk::IoPool;
use vlsm_disk::crew::{Crew, Next};
use vlsm_disk::env::{Condition, Env, Priority};
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::waker::Thread;
use vlsm_sim::device::{Fault, Kind};
use vlsm_sim::disk::Disk;
use vlsm_sim::{End, SimConfig, SimEnv};

fn disk() -> Disk {
    Disk::new()
}

/// A counter behind a condition.
struct Turnstile {
    count: AtomicU64,
    passed: Arc<dyn Condition>,
}

impl Turnstile {
    fn new(env: &SimEnv) -> Arc<Self> {
        Arc::new(Self { count: AtomicU64::new(0), passed: env.condition(Duration::ZERO) })
    }

    fn pass(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.passed.notify();
    }

    fn wait_for(&self, count: u64) {
        loop {
            let epoch = self.passed.epoch();
            if self.count.load(Ordering::Relaxed) >= count {
                return;
            }
            self.passed.wait(epoch, None);
        }
    }
}

/// Four tasks that write, wait for one another and note the order of their steps.
fn busy(env: &Arc<SimEnv>) -> Vec<(u64, u64)> {
    let dir = Path::new("/d");
    env.fs().create_dir_all(dir).expect("the disk works");
    let order = Arc::new(Mutex::new(Vec::new()));
    let stile = Turnstile::new(env);
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let (env, order, stile) = (env.clone(), order.clone(), stile.clone());
            env.clone().task(&format!("task {n}"), move || {
                let path = dir.join(format!("{n}"));
                let file = env.fs().open(&path, OpenOptions::CREATE).expect("the disk works");
                for step in 0..20 {
                    file.write_at(&env.random().to_le_bytes(), step * 8).expect("the disk works");
                    order.lock().push((n, step));
                    stile.pass();
                    stile.wait_for(step * 4);
                }
                file.sync().expect("the disk works");
            })
        })
        .collect();
    for task in tasks {
        task.join().expect("ends well");
    }
    order.lock().clone()
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let outcome = SimEnv::run(&SimConfig::new(seed), &disk(), |env| busy(&env));
        let (hash, steps, time) = (outcome.hash, outcome.steps, outcome.time);
        (outcome.expect("runs"), hash, steps, time)
    };
    let mut hashes = std::collections::HashSet::new();
    for seed in 0..20 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first, second, "seed {seed}");
        assert_eq!(first.0.len(), 80);
        hashes.insert(first.1);
    }
    assert_eq!(hashes.len(), 20, "seeds differ");
}

#[test]
fn a_deadlock_is_found_and_explained() {
    let outcome = SimEnv::run(&SimConfig::new(1), &disk(), |env| {
        let stile = Turnstile::new(&env);
        let inner = stile.clone();
        let stuck = env.task("the waiter", move || inner.wait_for(1));
        stuck.join();
    });
    let End::Failed(why) = outcome.end else { panic!("not found: {:?}", outcome.end) };
    assert!(why.contains("deadlock") && why.contains("the waiter"), "{why}");
    assert!(why.contains("wait_for") && why.contains("machine.rs"), "{why}");
    assert_eq!(outcome.abandoned, 0);
}

#[test]
fn a_livelock_is_found() {
    let config = SimConfig { steps_max: 10_000, ..SimConfig::new(1) };
    let outcome = SimEnv::run(&config, &disk(), |env| {
        loop {
            env.interleave();
        }
    });
    let End::Failed(why) = outcome.end else { panic!("not found: {:?}", outcome.end) };
    assert!(why.contains("livelock"), "{why}");
}

#[test]
fn a_panic_in_a_task_is_reported() {
    let outcome = SimEnv::run(&SimConfig::new(3), &disk(), |env| {
        let well = env.spawn("bad", Priority::Normal, Box::new(|| panic!("as planned")));
        let well = well.expect("started").join();
        assert!(!well);
    });
    let End::Failed(why) = outcome.end else { panic!("not reported: {:?}", outcome.end) };
    assert!(why.contains("as planned") && why.contains("bad"), "{why}");
}

#[test]
fn time_jumps_to_the_next_deadline() {
    let outcome = SimEnv::run(&SimConfig::new(2), &disk(), |env| {
        let condition = env.condition(Duration::ZERO);
        let deadline = env.now() + Duration::from_secs(3600);
        while condition.wait(condition.epoch(), Some(deadline)) {}
        (deadline, env.now())
    });
    let (deadline, now) = outcome.expect("runs");
    assert!(now >= deadline && now < deadline + Duration::from_millis(10), "{deadline:?} {now:?}");
}

#[test]
fn no_wake_up_is_lost() {
    for seed in 0..200 {
        let outcome = SimEnv::run(&SimConfig::new(seed), &disk(), |env| {
            let stile = Turnstile::new(&env);
            let (ping, other, inner) = (Turnstile::new(&env), stile.clone(), env.clone());
            let pong = ping.clone();
            let task = env.task("pong", move || {
                for n in 1..=50 {
                    pong.wait_for(n);
                    inner.interleave();
                    other.pass();
                }
            });
            for n in 1..=50 {
                ping.pass();
                env.interleave();
                stile.wait_for(n);
            }
            task.join().expect("ends");
        });
        outcome.expect("runs");
    }
}

/// Counts its drops. In one of them it waits, as engines do when they close.
struct Closing {
    drops: Arc<AtomicUsize>,
    env: Arc<SimEnv>,
    worker: Option<Box<dyn vlsm_disk::env::Join>>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
        let _ = self.env.fs().remove(Path::new("/d/a"));
        if let Some(worker) = self.worker.take() {
            worker.join();
        }
    }
}

#[test]
fn every_crash_point_unwinds_everything() {
    let mutating = {
        let outcome = SimEnv::run(&SimConfig::new(5), &disk(), |env| busy(&env).len());
        assert_eq!((outcome.running, outcome.abandoned), (0, 0));
        outcome.device.mutating
    };
    for point in 0..mutating * 2 {
        let mut config = SimConfig::new(5);
        config.device.crash_point = Some(point);
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = drops.clone();
        let outcome = SimEnv::run(&config, &disk(), move |env| {
            let stile = Turnstile::new(&env);
            let worker =
                env.spawn("idle", Priority::Background, Box::new(move || stile.wait_for(9)));
            let worker = worker.expect("started");
            let closing = Closing { drops: counted, env: env.clone(), worker: Some(worker) };
            busy(&env);
            drop(closing);
        });
        assert!(matches!(outcome.end, End::Crashed), "point {point}: {:?}", outcome.end);
        assert_eq!((drops.load(Ordering::Relaxed), outcome.abandoned), (1, 0), "point {point}");
        assert!(!outcome.leaked, "point {point}");
    }
}

/// An operator that waits, although operators should not, until the machine is off.
struct Waits {
    env: Arc<SimEnv>,
    asked: Arc<AtomicUsize>,
}

impl MergeOperator for Waits {
    fn name(&self) -> &str {
        "test.waits"
    }
    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.env.sleep(Duration::from_secs(3600));
        None
    }
}

/// The engine catches panics of user code, but the end of the machine is not a panic.
#[test]
fn the_end_of_the_machine_passes_through_a_users_code() {
    let (asked, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (asks, answers) = (asked.clone(), answered.clone());
    let outcome = SimEnv::run(&SimConfig::new(11), &disk(), move |env| {
        let operator = Arc::new(Waits { env: env.clone(), asked: asks.clone() });
        let merges = KeyspaceOptions::new().merge_operator("test.waits");
        let builder = Db::builder("/s").env(env.clone()).merge_operator(operator);
        let db = builder.default_keyspace(merges).open().expect("opens");
        db.merge("a", "1").expect("written");
        let reader = env.task("reader", move || {
            let failed = db.get("a");
            answers.fetch_add(1, Ordering::Relaxed);
            assert!(failed.is_err());
        });
        while asks.load(Ordering::Relaxed) == 0 {
            env.interleave();
        }
        // Not joined: the root task ends while the operator waits.
        drop(reader);
    });
    assert!(matches!(outcome.end, End::Done(())), "{:?}", outcome.end);
    assert_eq!((asked.load(Ordering::Relaxed), answered.load(Ordering::Relaxed)), (1, 0));
}

/// The engine's pool for file calls has as many threads as calls that are made at once. After a
/// while without any it has none, and one thread waits for all pools.
#[test]
fn threads_for_file_calls_come_and_go() {
    for seed in 0..100 {
        let outcome = SimEnv::run(&SimConfig::new(seed), &disk(), |env| {
            let engines: Arc<dyn Env> = env.clone();
            let pools = [(); 2].map(|()| {
                let done = env.condition(Duration::ZERO);
                IoPool::new(&engines, 4, Priority::Normal, done).expect("started")
            });
            for pool in pools.iter().cycle().take(6) {
                let stile = Turnstile::new(&env);
                let call = || {
                    let stile = stile.clone();
                    pool.submit(move || {
                        stile.pass();
                        stile.wait_for(4);
                        Ok(())
                    })
                };
                let calls = [call(), call(), call(), call()];
                calls.iter().for_each(|call| pool.wait(call).expect("all at once"));
                env.sleep(Duration::from_secs(10));
            }
            // Its threads are counted when the root task has returned.
            std::mem::forget(pools);
        });
        assert_eq!(outcome.running, 1, "seed {seed}");
        outcome.expect("each call finds a thread");
    }
}

/// After the last pool no thread waits for notifications.
#[test]
fn the_waker_ends_after_the_last_pool() {
    for seed in 0..50 {
        let outcome = SimEnv::run(&SimConfig::new(seed), &disk(), |env| {
            let engines: Arc<dyn Env> = env.clone();
            for _ in 0..2 {
                let done = env.condition(Duration::ZERO);
                let pool = IoPool::new(&engines, 4, Priority::Normal, done).expect("started");
                env.sleep(Duration::from_secs(10));
                pool.wait(&pool.submit(|| Ok(()))).expect("made");
                drop(pool);
                env.sleep(Duration::from_secs(10));
            }
        });
        assert_eq!((outcome.running, outcome.leaked), (0, false), "seed {seed}");
        outcome.expect("ends");
    }
}

/// A machine that loses power while a pool has no thread keeps nothing of it, not even a call that
/// was submitted just before and holds the pool.
#[test]
fn a_crash_drops_work_without_a_thread() {
    for seed in 0..100 {
        let mut config = SimConfig::new(seed);
        config.device.crash_point = Some(0);
        let outcome = SimEnv::run(&config, &disk(), move |env| {
            let engines: Arc<dyn Env> = env.clone();
            let done = env.condition(Duration::ZERO);
            let pool = IoPool::new(&engines, 4, Priority::Normal, done).expect("started");
            let pool = Arc::new(pool);
            env.sleep(Duration::from_secs(10));
            if seed % 2 == 0 {
                let held = pool.clone();
                pool.submit(move || {
                    drop(held);
                    Ok(())
                });
            }
            let _ = env.fs().remove(Path::new("/d/a"));
        });
        assert!(matches!(outcome.end, End::Crashed), "{:?}", outcome.end);
        assert_eq!((outcome.abandoned, outcome.leaked), (0, false), "seed {seed}");
    }
}

/// Bodies that wait for a time on the lent thread leave the processor: otherwise it would ask for
/// threads again and again, and no time would pass.
#[test]
fn a_lent_thread_pauses_when_all_its_work_waits() {
    for seed in 0..20 {
        let mut config = SimConfig::new(seed);
        config.steps_max = 20_000;
        // Two threads, and the one that waits for both.
        let fault = Fault { kind: Kind::NoThread, name: None, suffix: "", nth: 3, times: u64::MAX };
        config.device.faults = vec![fault];
        let outcome = SimEnv::run(&config, &disk(), |env| {
            let engines: Arc<dyn Env> = env.clone();
            let (crew, wake) = (Crew::new(&engines), env.condition(Duration::ZERO));
            let until = env.now() + Duration::from_secs(2);
            for _ in 0..2 {
                let (clock, awaited) = (env.clone(), wake.clone());
                let body = move |thread| match thread {
                    Thread::Own => Next::Await(awaited.clone(), 0),
                    Thread::Lent if clock.now() < until => Next::Retry,
                    Thread::Lent => Next::End,
                };
                crew.start("waits", Priority::Normal, body).expect("started");
            }
            env.sleep(Duration::from_secs(1));
            wake.notify();
            crew.join()
        });
        assert!(outcome.expect("ends"), "seed {seed}");
    }
}

/// Without more threads the one that there is makes all calls: its own, or, after a while without
/// calls, the one that waits for all pools.
#[test]
fn a_pool_that_gets_no_more_threads_goes_on() {
    for seed in 0..40 {
        let idle = seed % 2;
        let mut config = SimConfig::new(seed);
        let nth = 1 + idle;
        let fault = Fault { kind: Kind::NoThread, name: None, suffix: "", nth, times: u64::MAX };
        config.device.faults = vec![fault];
        let outcome = SimEnv::run(&config, &disk(), move |env| {
            let engines: Arc<dyn Env> = env.clone();
            let done = env.condition(Duration::ZERO);
            let pool = IoPool::new(&engines, 4, Priority::Normal, done).expect("the first one");
            env.sleep(Duration::from_secs(10 * idle));
            let calls: Vec<_> = (0..20_u64).map(|number| pool.submit(move || Ok(number))).collect();
            calls.iter().map(|call| pool.wait(call).expect("made")).sum::<u64>()
        });
        assert!(outcome.device.fired() > 0, "seed {seed}: no start failed");
        assert_eq!(outcome.expect("goes on"), 190);
    }
}
