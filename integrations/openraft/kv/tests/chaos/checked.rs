//! The checker on histories whose verdict is known, and against all orders by brute force.

use crate::checker::{Call, Operation, Return, Value, Verdict, check};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn op(at: u64, end: u64, call: Call, before: Value) -> Operation {
    Operation { at, call, end: Some(Return { at: end, before, done: true }) }
}

fn unknown(at: u64, call: Call) -> Operation {
    Operation { at, call, end: None }
}

fn holds(history: &[Operation]) -> bool {
    match check(history) {
        Verdict::Linearizable => true,
        Verdict::Violated { .. } => false,
        Verdict::Undecided { steps } => panic!("undecided after {steps} steps"),
    }
}

const CAS: Call = Call::Cas { expected: Some(1), value: 2 };

#[test]
fn good_histories_pass() {
    assert!(holds(&[]));
    assert!(holds(&[op(0, 1, Call::Put(1), None), op(2, 3, Call::Read, Some(1))]));
    // A read beside a write may see either value.
    assert!(holds(&[op(0, 9, Call::Put(1), None), op(2, 3, Call::Read, None)]));
    assert!(holds(&[op(0, 9, Call::Put(1), None), op(2, 3, Call::Read, Some(1))]));
    // A write of unknown outcome takes effect late, or never.
    assert!(holds(&[
        unknown(0, Call::Put(1)),
        op(1, 2, Call::Read, None),
        op(3, 4, Call::Read, Some(1)),
    ]));
    assert!(holds(&[unknown(0, Call::Put(1)), op(1, 2, Call::Read, None)]));
    // Three writes at once, of which two answers tell the order.
    assert!(holds(&[
        op(0, 9, Call::Put(1), Some(3)),
        op(0, 9, Call::Put(2), Some(1)),
        op(0, 9, Call::Put(3), None),
        op(10, 11, Call::Read, Some(2)),
    ]));
    // A compare-and-set that is refused, and one that is done.
    let refused = Return { at: 3, before: None, done: false };
    assert!(holds(&[
        Operation { at: 2, call: CAS, end: Some(refused) },
        op(4, 5, Call::Put(1), None),
        op(6, 7, CAS, Some(1)),
        op(8, 9, Call::Delete, Some(2)),
        op(10, 11, Call::Read, None),
    ]));
}

#[test]
fn bad_histories_are_found() {
    // A lost write.
    assert!(!holds(&[op(0, 1, Call::Put(1), None), op(2, 3, Call::Read, None)]));
    // A stale read: the new value was seen before.
    assert!(!holds(&[
        op(0, 20, Call::Put(1), None),
        op(1, 2, Call::Read, Some(1)),
        op(3, 4, Call::Read, None),
    ]));
    // A value from nowhere, and one from the future.
    assert!(!holds(&[op(0, 1, Call::Read, Some(7))]));
    assert!(!holds(&[op(0, 1, Call::Read, Some(7)), op(2, 3, Call::Put(7), None)]));
    // Two compare-and-sets both win.
    let other = Call::Cas { expected: Some(1), value: 3 };
    assert!(!holds(&[
        op(0, 1, Call::Put(1), None),
        op(2, 9, CAS, Some(1)),
        op(2, 9, other, Some(1)),
    ]));
    // One is refused although the value was the expected one.
    let refused = Return { at: 3, before: Some(1), done: false };
    assert!(!holds(&[
        op(0, 1, Call::Put(1), None),
        Operation { at: 2, call: CAS, end: Some(refused) },
    ]));
    // A write of unknown outcome takes effect twice.
    assert!(!holds(&[
        unknown(0, Call::Put(1)),
        op(1, 2, Call::Read, Some(1)),
        op(3, 4, Call::Put(2), Some(1)),
        op(5, 6, Call::Read, Some(1)),
    ]));
    // It takes effect before its call.
    assert!(!holds(&[op(0, 1, Call::Read, Some(1)), unknown(2, Call::Put(1))]));
}

#[test]
fn the_violated_operation_is_named() {
    let history = [
        op(0, 1, Call::Put(1), None),
        op(2, 3, Call::Put(2), Some(1)),
        op(4, 5, Call::Read, Some(1)),
        op(6, 7, Call::Read, Some(2)),
    ];
    assert_eq!(check(&history), Verdict::Violated { before: 2 });
}

/// Whether some order explains the history: all orders are tried.
fn brute_force(history: &[Operation], taken: &mut Vec<bool>, value: Value) -> bool {
    let left = || (0..history.len()).filter(|i| !taken[*i]);
    if left().all(|i| history[i].end.is_none()) {
        return true;
    }
    let first_end = left().filter_map(|i| history[i].end).map(|end| end.at).min();
    let may = |i: &usize| first_end.is_none_or(|end| history[*i].at <= end);
    let next: Vec<_> = left().filter(may).collect();
    next.into_iter().any(|i| {
        history[i].step(value).is_some_and(|value| {
            taken[i] = true;
            let found = brute_force(history, taken, value);
            taken[i] = false;
            found
        })
    })
}

/// Small random histories: half of them of a correct register, with one answer changed in some.
#[test]
fn it_agrees_with_brute_force() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut verdicts = [0, 0];
    for _ in 0..4000 {
        let mut value = None;
        let mut history = Vec::new();
        for number in 0..rng.random_range(1..8_u64) {
            let middle = number * 10;
            let call = match rng.random_range(0..4) {
                0 => Call::Read,
                1 => Call::Delete,
                2 => Call::Put(number),
                _ => Call::Cas { expected: value.filter(|_| rng.random()), value: number },
            };
            let at = middle - rng.random_range(0..=25).min(middle);
            let mut operation = unknown(at, call);
            let after = operation.step(value).expect("an unknown outcome agrees");
            let done = !matches!(call, Call::Cas { expected, .. } if expected != value);
            if rng.random_range(0..5) > 0 {
                let at = middle + rng.random_range(1..25);
                operation.end = Some(Return { at, before: value, done });
            }
            if operation.end.is_some() || rng.random() {
                value = after;
            }
            history.push(operation);
        }
        if rng.random() {
            let changed = rng.random_range(0..history.len());
            if let Some(end) = &mut history[changed].end {
                end.before = rng.random::<bool>().then(|| rng.random_range(0..8));
            }
        }
        let expected = brute_force(&history, &mut vec![false; history.len()], None);
        assert_eq!(holds(&history), expected, "{}", crate::checker::print(&history, None));
        verdicts[usize::from(expected)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 500), "both verdicts are frequent: {verdicts:?}");
}
