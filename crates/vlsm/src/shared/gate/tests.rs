//! The gate alone: tickets in simulated time, and the gate itself with threads, whose delays fail
//! no test.

use super::*;
use crate::shared::events::Events;
use std::thread::ScopedJoinHandle;
use vlsm_disk::env_real::RealEnv;

#[test]
fn a_stop_holds_writers_until_their_deadline_and_an_open_gate_nobody() {
    let env: Arc<dyn Env> = RealEnv::new();
    let health = Health::new(Arc::new(Events::new(env.clone(), None, None)), false);
    let gate = Gate::new(env.condition(Duration::ZERO));
    let admit = |give_up| gate.admit(&*env, &health, 100, give_up);
    admit(None).expect("open");
    gate.set(Admit::stop(WaitCause::L0Bound), env.now());
    let start = env.now();
    let refused = admit(Some(start + Duration::from_millis(5)));
    assert!(matches!(refused, Err(Error::Busy { cause: "L0 bound", .. })), "{refused:?}");
    assert!(env.now() >= start + Duration::from_millis(5), "not before its deadline");
    // At one byte a second, 100 bytes are due over the next 100 seconds, except for a burst at
    // first.
    let writes = Some(BytesPerSec(1));
    let slow = Admit { writes, cause: Some(WaitCause::Admission), ..Admit::OPEN };
    gate.set(slow, env.now());
    let soon = || Some(env.now() + Duration::from_millis(1));
    let results: Vec<bool> = (0..3).map(|_| admit(soon()).is_ok()).collect();
    assert_eq!(results, [true, false, false], "the bucket lets one in and holds the next");
    gate.set(Admit::OPEN, env.now());
    admit(None).expect("open again");
}

const ZERO: Duration = Duration::ZERO;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Tickets at a rate of 100 bytes a second from the beginning.
fn slow_tickets() -> Tickets {
    let mut tickets = Tickets::NONE;
    tickets.change(100, ZERO);
    tickets
}

/// The times at which these tickets are due, in seconds.
fn dues<const N: usize>(tickets: &Tickets, places: [u64; N]) -> [f64; N] {
    places.map(|place| tickets.due(place).expect("no stop").as_secs_f64())
}

#[test]
fn turns_stay_in_order_whatever_the_rate_does() {
    let mut tickets = slow_tickets();
    let [a, b, c] = [100, 100, 100].map(|bytes| tickets.take(bytes, ZERO));
    assert_eq!(dues(&tickets, [a, b, c]), [0.0, 1.0, 2.0]);
    // The bytes of half a second have passed; the rest passes twice as fast, and the next ticket is
    // last.
    tickets.change(200, seconds(0.5));
    let d = tickets.take(100, seconds(0.5));
    assert_eq!(dues(&tickets, [b, c, d]), [0.75, 1.25, 1.75]);
    tickets.change(0, seconds(1.0));
    assert_eq!(tickets.due(c), None, "a stop");
    tickets.change(100, seconds(5.0));
    assert_eq!(dues(&tickets, [c, d]), [5.5, 6.5]);
}

#[test]
fn what_was_let_in_ahead_stays_owed_and_what_nobody_used_is_lost() {
    let mut tickets = slow_tickets();
    tickets.take(100, ZERO);
    tickets.change(50, ZERO);
    let next = tickets.take(10, ZERO);
    assert_eq!(tickets.due(next), Some(seconds(2.0)), "a new rate forgives nothing");
    // After a pause only a burst is admitted: a millisecond at 50,000 bytes a second.
    tickets.change(50_000, seconds(10.0));
    let [first, second] = [50, 50].map(|bytes| tickets.take(bytes, seconds(20.0)));
    let third = tickets.take(50, seconds(20.0));
    assert!([first, second].iter().all(|place| tickets.due(*place) <= Some(seconds(20.0))));
    assert_eq!(tickets.due(third), Some(seconds(20.001)));
}

#[test]
fn who_gives_up_delays_nobody_and_helps_nobody_ahead() {
    let mut tickets = slow_tickets();
    let [first, ahead, gone, last] = [100; 4].map(|bytes| tickets.take(bytes, ZERO));
    assert!(tickets.give_back(gone, 100), "one is behind");
    assert_eq!(dues(&tickets, [first, ahead, last]), [0.0, 1.0, 2.0]);
    // When its position has come the gap has passed, whatever the rate is.
    tickets.change(50, seconds(1.0));
    assert_eq!(dues(&tickets, [last]), [3.0]);
    tickets.change(100, seconds(3.0));
    assert!(tickets.gaps.is_empty());
    let next = tickets.take(100, seconds(3.0));
    assert_eq!(dues(&tickets, [last, next]), [3.0, 4.0]);
}

#[test]
fn the_last_one_that_gives_up_was_never_there() {
    let mut tickets = slow_tickets();
    let first = tickets.take(1_000, ZERO);
    for _ in 0..10 {
        let place = tickets.take(500, seconds(1.0));
        assert_eq!(dues(&tickets, [place]), [10.0]);
        assert!(!tickets.give_back(place, 500), "nobody is behind");
    }
    assert!(tickets.gaps.is_empty() && tickets.due(first) <= Some(seconds(1.0)));
}

#[test]
fn gaps_side_by_side_are_one_and_go_with_the_last_writer() {
    let mut tickets = slow_tickets();
    let [_, a, b, c, last] = [1_000, 100, 100, 100, 100].map(|bytes| tickets.take(bytes, ZERO));
    tickets.change(0, ZERO);
    for place in [a, c, b] {
        assert!(!tickets.give_back(place, 100), "a stop wakes nobody");
    }
    assert_eq!(tickets.gaps, BTreeMap::from([(a, 300)]));
    tickets.change(100, ZERO);
    assert_eq!(dues(&tickets, [last]), [10.0]);
    assert!(!tickets.give_back(last, 100), "nobody is behind");
    assert!(tickets.gaps.is_empty() && tickets.given == a);
}

#[test]
fn a_turn_that_is_settled_is_nobodys_any_more() {
    // Bytes that were unused before a pause are lost, even if they are given back.
    let mut tickets = slow_tickets();
    let late = tickets.take(400, ZERO);
    let [a, b] = [100, 100].map(|bytes| tickets.take(bytes, seconds(10.0)));
    assert!(!tickets.give_back(late, 400));
    assert_eq!(dues(&tickets, [a, b]), [10.0, 11.0]);
    // So are bytes that were admitted before the gate was open.
    let late = tickets.take(400, seconds(11.0));
    tickets.change(OPEN, seconds(12.0));
    tickets.change(100, seconds(20.0));
    let [a, b] = [100, 100].map(|bytes| tickets.take(bytes, seconds(20.0)));
    assert!(!tickets.give_back(late, 400));
    assert_eq!(dues(&tickets, [a, b]), [20.0, 21.0]);
}

#[test]
fn waiters_are_told_of_gaps_that_are_worth_it() {
    let mut tickets = slow_tickets();
    tickets.change(100_000, ZERO);
    let places = [60; 5].map(|bytes| tickets.take(bytes, ZERO));
    let told = [0, 1, 2, 3].map(|index| tickets.give_back(places[index], 60));
    assert_eq!(told, [false, true, false, true], "a burst is 100 bytes");
}

#[test]
fn open_lets_all_in_and_nothing_of_it_is_owed() {
    let mut tickets = slow_tickets();
    let last = [100; 4].map(|bytes| tickets.take(bytes, ZERO))[3];
    tickets.change(OPEN, seconds(0.5));
    assert_eq!(dues(&tickets, [last]), [0.5]);
    tickets.change(100, seconds(0.6));
    let next = tickets.take(100, seconds(0.6));
    assert_eq!(dues(&tickets, [next]), [0.6]);
}

/// Waits until tickets for `given` bytes were taken, or the thread that should take them has ended.
fn wait_for<T>(gate: &Gate, given: u64, who: &ScopedJoinHandle<T>) {
    while gate.tickets.lock().given < given && !who.is_finished() {
        std::thread::yield_now();
    }
}

#[test]
fn a_failure_gives_its_turn_back_and_those_behind_come_sooner() {
    let env: Arc<dyn Env> = RealEnv::new();
    let health = Health::new(Arc::new(Events::new(env.clone(), None, None)), false);
    let gate = Gate::new(env.condition(Duration::ZERO));
    let admit = |bytes, give_up| gate.admit(&*env, &health, bytes, give_up);
    // The bytes of three seconds are admitted, those of a minute wait behind them, and one byte
    // behind those.
    let slow = |rate| Admit { writes: Some(BytesPerSec(rate)), ..Admit::OPEN };
    gate.set(slow(1 << 20), env.now());
    admit(3 << 20, None).expect("the burst");
    std::thread::scope(|scope| {
        let soon = env.now() + Duration::from_millis(500);
        let ahead = scope.spawn(move || admit(60 << 20, Some(soon)));
        wait_for(&gate, 63 << 20, &ahead);
        let late = soon + Duration::from_secs(30);
        admit(1, Some(late)).expect("nothing is ahead of it any more");
        assert!(env.now() < late, "it was told of the gap");
        assert!(matches!(ahead.join().expect("no panic"), Err(Error::Busy { .. })));
    });
    // A full disk refuses the waiting writers, and their bytes are not owed.
    gate.set(slow(1), env.now());
    admit(1 << 20, None).expect("the burst");
    let given = gate.tickets.lock().given;
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| admit(1 << 20, None));
        wait_for(&gate, given + (1 << 20), &waits);
        assert!(health.run_out("disk".into()));
        gate.wake();
        assert!(waits.join().expect("no panic").is_err());
    });
    assert_eq!(gate.tickets.lock().given, given);
}
