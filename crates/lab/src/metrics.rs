//! What is counted: latencies by kind of operation, every second and in all.
//!
//! 1. Each client records into an [`Interval`] of its own, behind a lock that only the
//!    once-a-second collector contends for.
//! 2. The collector takes the intervals away, merges them into one point of the [`Series`] and into
//!    the totals.
//!
//! Histograms (HDR) hold nanoseconds with three significant digits up to an hour.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Kinds of operations whose latencies are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Point reads.
    Read = 0,
    /// Inserts, updates, deletes; a read-modify-write as a whole.
    Write = 1,
    /// Scans.
    Scan = 2,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Scan];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Scan => "scans",
        }
    }
}

/// The longest latency that is told apart: an hour.
const HOUR: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds, by kind.
#[derive(Debug, Clone)]
pub struct Latencies([Histogram<u64>; 3]);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = || Histogram::new_with_bounds(1, HOUR, 3).expect("the bounds are in order");
        Self([histogram(), histogram(), histogram()])
    }
}

impl Latencies {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, kind: Kind, nanos: u64) {
        self.0[kind as usize].saturating_record(nanos.max(1));
    }

    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        for (into, from) in self.0.iter_mut().zip(&other.0) {
            if !from.is_empty() {
                into.add(from).expect("both have the same bounds");
            }
        }
    }

    /// The histogram of one kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> &Histogram<u64> {
        &self.0[kind as usize]
    }

    /// How many there are of all kinds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(Histogram::len).sum()
    }

    /// The given quantile of all kinds together, in nanoseconds; zero when there is none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        let mut used = self.0.iter().filter(|histogram| !histogram.is_empty());
        let Some(first) = used.next() else { return 0 };
        let Some(second) = used.next() else { return first.value_at_quantile(quantile) };
        let mut all = first.clone();
        for histogram in std::iter::once(second).chain(used) {
            all.add(histogram).expect("both have the same bounds");
        }
        all.value_at_quantile(quantile)
    }

    /// The longest of all kinds, in nanoseconds.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.iter().map(Histogram::max).max().unwrap_or(0)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.iter_mut().filter(|histogram| !histogram.is_empty()).for_each(Histogram::reset);
    }
}

/// What one client did since it was last asked.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Latencies.
    pub latencies: Latencies,
    /// Reads that found nothing.
    pub misses: u64,
}

/// One interval of a run, a second but for the last one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Its length in seconds.
    pub seconds: f64,
    /// Operations completed.
    pub ops: u64,
    /// 99th percentile of reads, in microseconds.
    pub read_p99_us: f64,
    /// 99th percentile of writes, in microseconds.
    pub write_p99_us: f64,
    /// The longest operation, in microseconds.
    pub max_us: f64,
    /// Requests that were due and not begun at its end (open loop).
    pub backlog: u64,
}

impl Point {
    /// From the latencies of an interval.
    #[must_use]
    pub fn new(seconds: f64, latencies: &Latencies, backlog: u64) -> Self {
        let p99 = |kind| latencies.of(kind).value_at_quantile(0.99) as f64 / 1e3;
        Self {
            seconds,
            ops: latencies.count(),
            read_p99_us: p99(Kind::Read),
            write_p99_us: p99(Kind::Write),
            max_us: latencies.max() as f64 / 1e3,
            backlog,
        }
    }

    /// Operations per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.ops as f64 / self.seconds } else { 0.0 }
    }
}

/// Seconds without any completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// How many there were in all.
    pub seconds: u64,
    /// How often a row of them began.
    pub count: u64,
    /// The longest row.
    pub longest: u64,
}

/// A run second by second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Series(pub Vec<Point>);

impl Series {
    /// The whole seconds: the last interval may be shorter and says little.
    fn whole(&self) -> impl Iterator<Item = &Point> {
        self.0.iter().filter(|point| point.seconds >= 0.5)
    }

    /// Seconds at zero throughput.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        let mut stalls = Stalls::default();
        let mut row = 0;
        for point in self.whole() {
            row = if point.ops == 0 { row + 1 } else { 0 };
            stalls.seconds += u64::from(row > 0);
            stalls.count += u64::from(row == 1);
            stalls.longest = stalls.longest.max(row);
        }
        stalls
    }

    /// The throughput that 99 % of the seconds reach (cruisedb.txt, definition III.3): of the
    /// per-second throughputs sorted descending, the one at 99 %. None for a run under a second.
    #[must_use]
    pub fn tail_throughput(&self) -> Option<f64> {
        let mut all: Vec<f64> = self.whole().map(Point::throughput).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        let index = (all.len() * 99).div_ceil(100);
        all.get(index.checked_sub(1)?).copied()
    }
}

/// Latencies of one kind in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half are below.
    pub p50_us: f64,
    /// Nine of ten are below.
    pub p90_us: f64,
    /// 99 % are below.
    pub p99_us: f64,
    /// 99.9 % are below.
    pub p999_us: f64,
    /// 99.99 % are below.
    pub p9999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Percentiles {
    /// Of a histogram in nanoseconds; None when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: histogram.max() as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(ops: &[u64]) -> Series {
        Series(ops.iter().map(|&ops| Point { seconds: 1.0, ops, ..Point::default() }).collect())
    }

    #[test]
    fn stalls_are_rows_of_seconds_at_zero() {
        let mut series = series(&[5, 0, 0, 7, 0, 3]);
        series.0.push(Point { seconds: 0.01, ..Point::default() });
        assert_eq!(series.stalls(), Stalls { seconds: 3, count: 2, longest: 2 });
        assert_eq!(super::Series::default().stalls(), Stalls::default());
    }

    #[test]
    fn tail_throughput_is_reached_in_99_of_100_seconds() {
        let mut ops: Vec<u64> = (1..=200).collect();
        ops.reverse();
        assert_eq!(series(&ops).tail_throughput(), Some(3.0));
        assert_eq!(series(&[9]).tail_throughput(), Some(9.0));
        assert_eq!(series(&[]).tail_throughput(), None);
    }

    #[test]
    fn percentiles_of_known_latencies() {
        let mut latencies = Latencies::default();
        (1..=10_000).for_each(|us| latencies.record(Kind::Write, us * 1000));
        let found = Percentiles::of(latencies.of(Kind::Write)).expect("not empty");
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.002, "{a} is not {b}");
        near(found.p50_us, 5000.0);
        near(found.p99_us, 9900.0);
        near(found.p999_us, 9990.0);
        near(found.max_us, 10_000.0);
        assert_eq!(found.count, 10_000);
        assert_eq!(Percentiles::of(latencies.of(Kind::Read)), None);
        near(latencies.quantile(0.99) as f64 / 1e3, 9900.0);
        let mut more = latencies.clone();
        more.record(Kind::Read, 1);
        more.add(&latencies);
        assert_eq!((more.count(), more.max()), (20_001, latencies.max()));
        more.clear();
        assert_eq!((more.count(), more.quantile(0.5)), (0, 0));
    }
}
