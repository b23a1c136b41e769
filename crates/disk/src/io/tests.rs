//! The pool with real threads: results come back, short calls go first, an order holds, and a limit
//! leaves one thread to bulk work.

use super::*;
use crate::env_real::RealEnv;
use std::sync::atomic::AtomicU64;

#[test]
fn results_errors_and_panics_come_back() {
    let env: Arc<dyn Env> = RealEnv::new();
    let done = env.condition(Duration::from_micros(20));
    let pool = IoPool::new(&env, 2, Priority::Normal, done).expect("started");
    let calls: Vec<_> = (0..1000_u64).map(|n| pool.submit(move || Ok(n * n))).collect();
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(pool.wait(call).expect("answered"), (n * n) as u64);
        assert!(call.try_take().is_none(), "taken once");
    }
    let panics = pool.submit::<()>(|| panic!("as a test"));
    assert!(matches!(pool.wait(&panics), Err(Error::Internal(_))));
    let last = pool.submit(|| Ok(7));
    pool.shutdown();
    assert_eq!(last.try_take().expect("ran before the end").expect("answered"), 7);
    let late = pool.submit(|| Ok(8));
    assert!(matches!(late.try_take(), Some(Err(Error::Closed))));
}

#[test]
fn short_calls_go_first_and_all_bulk_work_is_done_in_the_end() {
    let env: Arc<dyn Env> = RealEnv::new();
    let pool = IoPool::new(&env, 1, Priority::Normal, env.condition(Duration::ZERO));
    let pool = pool.expect("started");
    let (gate, order) = (env.condition(Duration::ZERO), Arc::new(Mutex::new(Vec::new())));
    let open = Arc::new(AtomicBool::new(false));
    let (held, opened) = (gate.clone(), open.clone());
    let first = pool.submit(move || {
        loop {
            let epoch = held.epoch();
            if opened.load(Ordering::SeqCst) {
                return Ok(());
            }
            held.wait(epoch, None);
        }
    });
    let note = |what: &'static str| {
        let order = order.clone();
        move || {
            order.lock().push(what);
            Ok(())
        }
    };
    let bulk = [note("bulk"), note("bulk")]
        .map(|work| pool.ranked(Rank::Later).submit_bulk(Way::Write, move |_| work()));
    let short = pool.submit(note("short"));
    open.store(true, Ordering::SeqCst);
    gate.notify();
    pool.shutdown();
    assert!(first.is_ready() && short.is_ready() && bulk.iter().all(Pending::is_ready));
    assert_eq!(*order.lock(), ["short", "bulk", "bulk"]);
}

/// Waits until `open` is set.
fn wait_for(open: &AtomicBool, gate: &dyn Condition) {
    loop {
        let epoch = gate.epoch();
        if open.load(Ordering::SeqCst) {
            return;
        }
        gate.wait(epoch, None);
    }
}

#[test]
fn with_an_order_writes_wait_for_the_first_ones_and_reads_do_not() {
    let env: Arc<dyn Env> = RealEnv::new();
    let pool = IoPool::new(&env, 2, Priority::Normal, env.condition(Duration::ZERO));
    let pool = pool.expect("started");
    let hour = Duration::from_secs(3_600);
    for patience in [Some(hour), Some(Duration::from_millis(1)), None] {
        pool.set_order(patience);
        let (gate, open) = (env.condition(Duration::ZERO), Arc::new(AtomicBool::new(false)));
        let (held, opened) = (gate.clone(), open.clone());
        let first = pool.ranked(Rank::First).submit_bulk(Way::Write, move |_| {
            wait_for(&opened, &*held);
            Ok(())
        });
        let later = pool.ranked(Rank::Later);
        let write = later.submit_bulk(Way::Write, |_| Ok(()));
        let read = later.submit_bulk(Way::Read, |_| Ok(()));
        pool.wait(&read).expect("done");
        if patience != Some(hour) {
            pool.wait(&write).expect("done beside the first one");
        }
        assert_eq!(write.is_ready(), patience != Some(hour), "{patience:?}");
        assert!(!first.is_ready());
        open.store(true, Ordering::SeqCst);
        gate.notify();
        pool.wait(&first).expect("done");
        if patience == Some(hour) {
            pool.wait(&write).expect("done after the first one");
        }
    }
}

#[test]
fn the_end_of_an_order_lets_all_writes_go() {
    let env: Arc<dyn Env> = RealEnv::new();
    let pool = IoPool::new(&env, 2, Priority::Normal, env.condition(Duration::ZERO));
    let pool = pool.expect("started");
    pool.set_order(Some(Duration::from_secs(3_600)));
    let (gate, open) = (env.condition(Duration::ZERO), Arc::new(AtomicBool::new(false)));
    let (held, opened) = (gate.clone(), open.clone());
    let first = pool.ranked(Rank::First).submit_write(move || {
        wait_for(&opened, &*held);
        Ok(())
    });
    let write = pool.ranked(Rank::Later).submit_bulk(Way::Write, |_| Ok(()));
    pool.set_order(None);
    pool.wait(&write).expect("done beside the first one");
    assert!(!first.is_ready());
    open.store(true, Ordering::SeqCst);
    gate.notify();
    pool.wait(&first).expect("done");
}

/// Calls of a slow device, while clients are active.
#[test]
fn one_thread_does_bulk_work_in_pieces_while_there_is_a_limit() {
    let env: Arc<dyn Env> = RealEnv::new();
    let pool = IoPool::new(&env, 4, Priority::Normal, env.condition(Duration::ZERO));
    let pool = Arc::new(pool.expect("started"));
    let (running, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let rounds = |clients: bool| {
        most.store(0, Ordering::SeqCst);
        let calls = (0..40).map(|number| {
            let (pool, env) = (Arc::downgrade(&pool), env.clone());
            let (running, most) = (running.clone(), most.clone());
            move |bulk: &Bulk| {
                let mut pieces = Vec::new();
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let called = bulk.call(Way::Read, 64 << 10, |part| {
                    if let Some(pool) = pool.upgrade().filter(|_| clients) {
                        pool.bulk().note_clients(number + 1, false);
                    }
                    let pause = env.condition(Duration::ZERO);
                    pause.wait(pause.epoch(), Some(env.now() + Duration::from_millis(5)));
                    pieces.push(part);
                    Ok(())
                });
                running.fetch_sub(1, Ordering::SeqCst);
                called.map(|()| pieces).map_err(|error| Error::Internal(error.to_string()))
            }
        });
        let calls: Vec<_> =
            calls.map(|work| pool.ranked(Rank::Later).submit_bulk(Way::Read, work)).collect();
        let pieces: Vec<_> = calls.iter().map(|call| pool.wait(call).expect("done")).collect();
        for pieces in &pieces {
            let mut ends = 0;
            pieces.iter().for_each(|piece| {
                assert_eq!(std::mem::replace(&mut ends, piece.end), piece.start);
            });
            assert_eq!(ends, 64 << 10, "each byte once, in order");
        }
        (pieces.last().map_or(0, Vec::len), most.load(Ordering::SeqCst))
    };
    assert_eq!(rounds(false), (1, 4), "nobody else is there");
    rounds(true);
    assert!(pool.bulk().limit(Way::Read).is_some() && pool.bulk().limit(Way::Write).is_none());
    // On a loaded machine the clients may seem to pause, and the limit is lifted meanwhile.
    let mut found = (0..20).map(|_| rounds(true));
    assert!(found.any(|(pieces, most)| pieces > 1 && most == 1), "never one thread in pieces");
    pool.bulk().set_unlimited();
    assert_eq!((rounds(true), pool.bulk().limit(Way::Read)), ((1, 4), None));
}

#[test]
fn bulk_calls_notify_the_condition_of_urgent_ones_only_if_they_are() {
    let env: Arc<dyn Env> = RealEnv::new();
    let [each, urgent] = [(); 2].map(|()| env.condition(Duration::ZERO));
    let done = Done { each: each.clone(), urgent: Some(urgent.clone()) };
    let pool = IoPool::new(&env, 2, Priority::Normal, done).expect("started");
    let later = pool.ranked(Rank::Later);
    let notified = |call: &dyn Fn() -> Pending<()>| {
        let before = (each.epoch(), urgent.epoch());
        let pending = call();
        each.wait(before.0, None);
        assert!(pending.is_ready(), "notified after the call");
        urgent.epoch() > before.1
    };
    assert!(!notified(&|| later.submit_bulk(Way::Read, |_| Ok(()))));
    assert!(notified(&|| later.urgent(true).submit_bulk(Way::Read, |_| Ok(()))));
    assert!(notified(&|| later.submit_write(|| Ok(()))));
    assert!(notified(&|| pool.submit(|| Ok(()))));
    let before = (each.epoch(), urgent.epoch());
    let own = env.condition(Duration::ZERO);
    let (told, epoch) = (own.clone(), own.epoch());
    pool.submit_quietly(move || {
        told.notify();
        Ok(())
    });
    own.wait(epoch, None);
    drop(pool); // It waits for the end of its threads.
    assert_eq!((each.epoch(), urgent.epoch()), before);
}
