//! Percentiles over time.
//!
//! 1. A percentile of fewer than [`LEAST`] requests says little: the P99 of 100 requests is their
//!    longest one. So an interval with fewer requests has no percentile.
//! 2. Its requests are counted together with those of the following intervals until there are
//!    enough. The interval that completes them has the percentiles of this stretch of intervals.
//! 3. Reads, writes, scans, transactions, and all operations together have stretches of their own.
//! 4. If too few requests are left at the end of a phase, no interval has their percentiles. They
//!    are in the percentiles of the phase.
//!
//! The longest latency of an interval is not a percentile, and every interval has it.

use super::{Group, Latencies, Point, histogram};
use hdrhistogram::Histogram;
use std::borrow::Cow;

/// The least number of requests that a percentile of an interval is taken from.
pub const LEAST: u64 = 1_000;

/// The requests of one kind whose percentiles are not given yet.
#[derive(Debug, Default)]
struct Stretch(Option<Histogram<u32>>);

/// The percentiles of a stretch in microseconds; all zero where there are none.
#[derive(Debug, Clone, Copy, Default)]
struct Given {
    /// The number of requests.
    count: u64,
    p50: f64,
    p99: f64,
    p999: f64,
}

impl Given {
    fn of(requests: &Histogram<u32>) -> Self {
        let at = |quantile| requests.value_at_quantile(quantile) as f64 / 1e3;
        Self { count: requests.len(), p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

impl Stretch {
    /// Adds the requests of an interval. Returns the percentiles if there are enough of them.
    fn add(&mut self, found: Option<Cow<'_, Histogram<u32>>>) -> Given {
        let Some(found) = found else { return Given::default() };
        let waiting = self.0.as_ref().is_some_and(|waiting| !waiting.is_empty());
        if !waiting && found.len() >= LEAST {
            return Given::of(&found);
        }
        let all = self.0.get_or_insert_with(histogram);
        all.add(&*found).expect("both have the same bounds");
        if all.len() < LEAST {
            return Given::default();
        }
        let given = Given::of(all);
        all.reset();
        given
    }
}

/// Makes the points of a phase, interval by interval.
#[derive(Debug, Default)]
pub struct Stretches {
    groups: [Stretch; Group::ALL.len()],
    all: Stretch,
}

impl Stretches {
    /// The point of the next interval: its length in seconds, the latencies of its operations, and
    /// the requests that were due and not begun at its end.
    pub fn point(&mut self, seconds: f64, latencies: &Latencies, backlog: u64) -> Point {
        let mut of = |group: Group| self.groups[group as usize].add(latencies.group(group));
        let [reads, writes, scans, transactions] = Group::ALL.map(&mut of);
        let all = self.all.add(latencies.all());
        Point {
            seconds,
            ops: latencies.count(),
            read_p99_us: reads.p99,
            write_p99_us: writes.p99,
            max_us: latencies.max() as f64 / 1e3,
            backlog,
            read_p50_us: reads.p50,
            read_p999_us: reads.p999,
            write_p50_us: writes.p50,
            write_p999_us: writes.p999,
            other_p99_us: scans.p99.max(transactions.p99),
            all_p99_us: (all.count > 0).then_some(all.p99),
            counted: all.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn latencies(count: u64, kind: Kind, nanos: u64) -> Latencies {
        let mut latencies = Latencies::default();
        (0..count).for_each(|_| latencies.record(kind, nanos));
        latencies
    }

    #[test]
    fn few_requests_wait_for_those_of_the_next_intervals() {
        let mut stretches = Stretches::default();
        let mut point =
            |count, nanos| stretches.point(1.0, &latencies(count, Kind::Read, nanos), 0);
        let first = point(600, 10_000);
        assert_eq!((first.ops, first.p99_us(), first.read_p99_us), (600, None, 0.0));
        assert!(first.max_us >= 10.0, "every interval has its longest request");
        assert_eq!(point(0, 0).p99_us(), None);
        let both = point(400, 90_000);
        assert_eq!((both.ops, both.counted), (400, 1_000));
        let p99 = both.p99_us().expect("a thousand are enough");
        assert!((90.0..91.0).contains(&p99) && both.read_p50_us < 11.0, "{both:?}");
        // Nothing of them is left for the next interval, which has enough of its own.
        let next = point(1_000, 20_000);
        assert!(next.p99_us().is_some_and(|p99| p99 < 21.0), "{next:?}");
        assert_eq!(point(999, 20_000).p99_us(), None);
    }

    #[test]
    fn each_kind_of_operation_has_its_own_stretch() {
        let mut stretches = Stretches::default();
        let mut both = latencies(900, Kind::Read, 10_000);
        both.add(&latencies(300, Kind::Update, 70_000));
        let first = stretches.point(1.0, &both, 0);
        assert_eq!((first.counted, first.read_p99_us, first.write_p99_us), (1_200, 0.0, 0.0));
        let second = stretches.point(1.0, &both, 0);
        assert!(second.read_p99_us >= 10.0 && second.write_p99_us == 0.0, "{second:?}");
        let more = [stretches.point(1.0, &both, 0), stretches.point(1.0, &both, 0)];
        assert!(more[0].write_p99_us == 0.0 && more[1].write_p99_us >= 70.0, "{more:?}");
    }
}
