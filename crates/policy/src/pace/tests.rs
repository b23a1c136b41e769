//! The buckets in made-up time.

use super::*;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn urgent_jobs_have_their_floor_and_deeper_ones_what_is_left() {
    let mut pace = Pace::default();
    assert!(pace.allows(Class::Level(2)), "no limit");
    let bandwidth = Bandwidth {
        limit: BytesPerSec(1_000_000),
        floor: BytesPerSec(500_000),
        counted: Counted::ReadAndWritten,
        ..Bandwidth::default()
    };
    pace.set(at(100), Some(bandwidth));
    assert!(!pace.allows(Class::L0), "the buckets begin empty");
    pace.fill(at(102));
    assert!(pace.allows(Class::L0) && pace.allows(Class::Level(1)));
    // 2,000 bytes were filled in and 10,000 are moved, so the limit has to wait for 8 ms.
    pace.spend(Class::Level(1), Bytes(6_000), Bytes(4_000));
    assert!(!pace.allows(Class::Level(1)));
    assert!(pace.allows(Class::Memtable), "the floor was not touched");
    assert!(pace.next(Class::Level(1)).is_some_and(|time| time > at(109) && time < at(111)));
    pace.spend(Class::L0, Bytes(0), Bytes(3_000));
    assert!(!pace.allows(Class::L0));
    assert!(pace.next(Class::L0).is_some_and(|time| time > at(105) && time < at(107)));
    // After a long pause the bucket holds no more than a burst.
    pace.fill(at(10_000));
    pace.spend(Class::Level(1), Bytes(10_001), Bytes(0));
    assert!(!pace.allows(Class::Level(1)));
    // A peak under the floor leaves no debt behind.
    pace.spend(Class::L0, Bytes(1 << 30), Bytes(0));
    assert!(pace.next(Class::Level(1)).is_some_and(|time| time < at(10_030)));
    pace.set(at(10_000), None);
    assert!(pace.allows(Class::Level(1)) && pace.next(Class::Level(1)).is_none());
}

#[test]
fn the_floor_is_there_when_the_limit_is_used_up_and_is_no_way_around_it() {
    let mut pace = Pace::default();
    let bandwidth = Bandwidth {
        limit: BytesPerSec(10_000_000),
        floor: BytesPerSec(500_000),
        counted: Counted::Written,
        ..Bandwidth::default()
    };
    pace.set(at(0), Some(bandwidth));
    // For a second an urgent job has the limit, twenty times the floor.
    for millis in 1..1_000 {
        pace.fill(at(millis));
        pace.spend(Class::L0, Bytes(0), Bytes(9_000));
    }
    pace.fill(at(1_000));
    pace.spend(Class::Level(1), Bytes(0), Bytes(10_000_000));
    assert!(!pace.allows(Class::Level(1)), "a second's worth was moved");
    assert!(pace.allows(Class::L0), "the floor was not used");
    // Without a floor all bytes of an urgent job become debt.
    let mut pace = Pace::default();
    pace.set(at(0), Some(Bandwidth { floor: BytesPerSec::ZERO, ..bandwidth }));
    pace.fill(at(1));
    pace.spend(Class::L0, Bytes(0), Bytes(5_000_000));
    pace.spend(Class::Memtable, Bytes(0), Bytes(5_000_000));
    assert!(pace.next(Class::L0).is_some_and(|time| time > at(990)), "{pace:?}");
}

/// Jobs out of L0 step whenever they may, by 30,000 bytes.
#[test]
fn a_flush_gets_all_of_the_limit_whatever_others_take() {
    let mut pace = Pace::default();
    let bandwidth = Bandwidth {
        limit: BytesPerSec(1_000_000),
        floor: BytesPerSec(400_000),
        counted: Counted::Written,
        ..Bandwidth::default()
    };
    pace.set(at(0), Some(bandwidth));
    let mut moved = [0, 0];
    for millis in 1..10_000 {
        pace.fill(at(millis));
        for (class, moved) in [Class::L0, Class::Memtable].into_iter().zip(&mut moved) {
            if pace.allows(class) {
                pace.spend(class, Bytes(0), Bytes(30_000));
                *moved += 30_000;
            }
        }
    }
    let [l0, flushes] = moved;
    assert!(flushes >= 9_900_000, "{flushes} bytes of ten seconds");
    assert!(l0 <= 4_100_000, "{l0} bytes of the floor's four seconds");
    // A limit alone, as of the auto-tuned limiter: other jobs get the bandwidth that flushes leave.
    let mut pace = Pace::default();
    pace.set(at(0), Some(Bandwidth { floor: BytesPerSec::ZERO, ..bandwidth }));
    let (mut deep, mut flushes) = (0, 0);
    for millis in 1..10_000 {
        pace.fill(at(millis));
        if pace.allows(Class::Level(1)) {
            pace.spend(Class::Level(1), Bytes(0), Bytes(30_000));
            deep += 30_000;
        }
        if millis % 50 == 0 {
            assert!(pace.allows(Class::Memtable), "at {millis} ms");
            pace.spend(Class::Memtable, Bytes(0), Bytes(30_000));
            flushes += 30_000;
        }
    }
    assert!((9_900_000..=10_100_000).contains(&(deep + flushes)), "{deep} and {flushes}");
}

#[test]
fn a_span_in_which_a_job_waits_counts_once() {
    let mut pace = Pace::default();
    pace.fill(at(5));
    pace.wait(at(7));
    let limit = BytesPerSec(1_000);
    pace.set(at(5), Some(Bandwidth { limit, ..Bandwidth::default() }));
    pace.wait(at(7));
    assert_eq!(pace.waited_spans(), 0, "nobody asked for it");
    let span = vlsm_core::Micros(10_000);
    pace.set(at(5), Some(Bandwidth { limit, span, ..Bandwidth::default() }));
    pace.wait(at(7));
    pace.wait(at(9));
    assert_eq!(pace.waited_spans(), 1);
    // From the second to the fourth one, then the fourth again.
    pace.fill(at(15));
    pace.wait(at(31));
    pace.fill(at(35));
    pace.wait(at(36));
    assert_eq!(pace.waited_spans(), 4);
    pace.fill(at(95));
    pace.wait(at(95));
    assert_eq!(pace.waited_spans(), 5);
}

#[test]
fn what_is_not_counted_is_free_and_a_limit_of_zero_lets_nothing_through() {
    let mut pace = Pace::default();
    let bandwidth = Bandwidth {
        limit: BytesPerSec(1_000),
        floor: BytesPerSec::ZERO,
        counted: Counted::Written,
        ..Bandwidth::default()
    };
    pace.set(at(0), Some(bandwidth));
    pace.fill(at(1));
    pace.spend(Class::L0, Bytes(1 << 30), Bytes(0));
    assert!(pace.allows(Class::L0), "reads are not counted");
    pace.set(at(1), Some(Bandwidth { limit: BytesPerSec::ZERO, ..bandwidth }));
    pace.spend(Class::L0, Bytes(0), Bytes(1));
    pace.fill(at(100_000));
    assert!(!pace.allows(Class::L0) && pace.next(Class::L0).is_none());
}
