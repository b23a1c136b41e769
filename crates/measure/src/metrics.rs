//! Metrics of clients: latencies by kind of operation, in each interval (a second, unless a phase
//! says otherwise) and in total.
//!
//! 1. Each client records into an [`Interval`] of its own. Only the collector contends for the
//!    interval's lock, once per interval.
//! 2. The collector takes the intervals and merges them into one point of the [`Series`] and into
//!    the totals.
//! 3. A percentile of an interval is one of at least a thousand requests ([`stretch`]).
//!
//! Histograms (HDR) hold nanoseconds with three significant digits up to an hour. Each kind of
//! operation has one, which is made when the first operation of the kind occurs.

pub mod stretch;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Kinds of operations whose latencies are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Point reads.
    Read = 0,
    /// New records.
    Insert = 1,
    /// New values for records that are there.
    Update = 2,
    /// Deletes.
    Delete = 3,
    /// Scans.
    Scan = 4,
    /// A point read and an update of the same record, as a whole.
    ReadModifyWrite = 5,
    /// Reads, scans and writes together, as a whole.
    Transaction = 6,
}

impl Kind {
    /// All kinds in the order of their numbers, with names and groups.
    const TABLE: [(Self, &'static str, Group); 7] = [
        (Self::Read, "reads", Group::Read),
        (Self::Insert, "inserts", Group::Write),
        (Self::Update, "updates", Group::Write),
        (Self::Delete, "deletes", Group::Write),
        (Self::Scan, "scans", Group::Scan),
        (Self::ReadModifyWrite, "read-modify-writes", Group::Write),
        (Self::Transaction, "transactions", Group::Transaction),
    ];

    /// All kinds, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.into_iter().map(|(kind, ..)| kind)
    }

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// The group it is counted in.
    #[must_use]
    pub fn group(self) -> Group {
        Self::TABLE[self as usize].2
    }
}

/// Kinds that are quoted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Point reads.
    Read,
    /// Inserts, updates, deletes, and read-modify-writes as a whole.
    Write,
    /// Scans.
    Scan,
    /// Transactions.
    Transaction,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Scan, Self::Transaction];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["reads", "writes", "scans", "transactions"][self as usize]
    }
}

/// The longest latency that a histogram holds: an hour.
const HOUR: u64 = 3_600_000_000_000;

/// A histogram for latencies in nanoseconds. A count ends at four billion.
#[must_use]
pub fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, HOUR, 3).expect("the bounds are in order")
}

/// Latencies in nanoseconds, by kind. A kind that never occurred takes no memory.
#[derive(Debug, Clone, Default)]
pub struct Latencies([Option<Histogram<u32>>; Kind::TABLE.len()]);

impl Latencies {
    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, kind: Kind, nanos: u64) {
        self.0[kind as usize].get_or_insert_with(histogram).saturating_record(nanos.max(1));
    }

    /// Adds all latencies of another.
    pub fn add(&mut self, other: &Self) {
        for (into, from) in self.0.iter_mut().zip(&other.0) {
            if let Some(from) = from.as_ref().filter(|from| !from.is_empty()) {
                let into = into.get_or_insert_with(histogram);
                into.add(from).expect("both have the same bounds");
            }
        }
    }

    /// The histogram of one kind, if it occurred.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Option<&Histogram<u32>> {
        self.0[kind as usize].as_ref().filter(|histogram| !histogram.is_empty())
    }

    /// The histogram of a group of kinds, if one of them occurred.
    #[must_use]
    pub fn group(&self, group: Group) -> Option<Cow<'_, Histogram<u32>>> {
        self.together(|kind| kind.group() == group)
    }

    /// The histogram of all kinds together, if one of them occurred.
    #[must_use]
    pub fn all(&self) -> Option<Cow<'_, Histogram<u32>>> {
        self.together(|_| true)
    }

    /// The histogram of the wanted kinds together, if one of them occurred.
    fn together(&self, wanted: impl Fn(Kind) -> bool) -> Option<Cow<'_, Histogram<u32>>> {
        let mut used = Kind::all().filter(|&kind| wanted(kind)).filter_map(|kind| self.of(kind));
        let mut all = Cow::Borrowed(used.next()?);
        for histogram in used {
            all.to_mut().add(histogram).expect("both have the same bounds");
        }
        Some(all)
    }

    /// The number of latencies of all kinds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().flatten().map(Histogram::len).sum()
    }

    /// The given quantile of all kinds together, in nanoseconds; zero when there is none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.all().map_or(0, |all| all.value_at_quantile(quantile))
    }

    /// The longest latency of all kinds, in nanoseconds.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.iter().flatten().map(Histogram::max).max().unwrap_or(0)
    }

    /// Forgets all latencies.
    pub fn clear(&mut self) {
        let used = self.0.iter_mut().flatten();
        used.filter(|histogram| !histogram.is_empty()).for_each(Histogram::reset);
    }
}

/// The counts of one client since the collector took the last ones.
#[derive(Debug, Clone, Default)]
pub struct Interval {
    /// Latencies.
    pub latencies: Latencies,
    /// Reads that found nothing.
    pub misses: u64,
    /// Bytes of the keys and values that it wrote, and of the keys that it deleted.
    pub user_bytes: u64,
}

impl Interval {
    /// Adds all counts of another interval except latencies, and empties it.
    pub(crate) fn take(&mut self, other: &mut Self) {
        self.misses += std::mem::take(&mut other.misses);
        self.user_bytes += std::mem::take(&mut other.user_bytes);
        other.latencies.clear();
    }
}

/// One interval of a run; the last one may be shorter than the others.
///
/// Its percentiles are those of at least [`stretch::LEAST`] requests: of this interval, and of the
/// intervals before it back to the last one that has the same percentile. Zero means that there are
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
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
    /// Median of reads, in microseconds.
    pub read_p50_us: f64,
    /// 99.9th percentile of reads, in microseconds.
    pub read_p999_us: f64,
    /// Median of writes, in microseconds.
    pub write_p50_us: f64,
    /// 99.9th percentile of writes, in microseconds.
    pub write_p999_us: f64,
    /// 99th percentile of scans or of transactions, whichever is larger, in microseconds.
    pub other_p99_us: f64,
    /// 99th percentile of all operations together, in microseconds; older reports lack it.
    pub all_p99_us: Option<f64>,
    /// The number of requests that `all_p99_us` is taken from; older reports lack it.
    pub counted: u64,
}

impl Point {
    /// The 99th percentile of all operations together, in microseconds; `None` if there are fewer
    /// than [`stretch::LEAST`]. For older reports, which lack it, this is the largest one of reads,
    /// writes, scans and transactions.
    #[must_use]
    pub fn p99_us(&self) -> Option<f64> {
        if self.counted.max(self.ops) < stretch::LEAST {
            return None;
        }
        let largest = self.read_p99_us.max(self.write_p99_us).max(self.other_p99_us);
        Some(self.all_p99_us.unwrap_or(largest))
    }

    /// Operations per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.ops as f64 / self.seconds } else { 0.0 }
    }
}

/// Stalls: the intervals without any completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// The seconds of all such intervals.
    pub seconds: f64,
    /// The number of stalls; a stall is a row of such intervals.
    pub count: u64,
    /// The longest stall in seconds.
    pub longest: f64,
}

/// The points of a phase, one per interval.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Series(pub Vec<Point>);

impl Series {
    /// The length of its intervals: their median, to a millisecond.
    #[must_use]
    pub fn interval(&self) -> f64 {
        let mut lengths: Vec<f64> = self.0.iter().map(|point| point.seconds).collect();
        lengths.sort_by(f64::total_cmp);
        let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0.0);
        (median * 1e3).round() / 1e3
    }

    /// The points, each with the second of the phase at which its interval begins.
    pub fn placed(&self) -> impl Iterator<Item = (f64, &Point)> {
        self.0.iter().scan(0.0, |end, point| {
            let begin = *end;
            *end += point.seconds;
            Some((begin, point))
        })
    }

    /// The intervals of at least half the length. A shorter last one says little.
    fn whole(&self) -> impl Iterator<Item = (f64, &Point)> {
        let least = self.interval() / 2.0;
        self.placed().filter(move |(_, point)| point.seconds >= least)
    }

    /// The stretches of intervals at zero throughput: begin and end of each, in seconds of the
    /// phase.
    #[must_use]
    pub fn at_zero(&self) -> Vec<(f64, f64)> {
        let whole: Vec<(f64, &Point)> = self.whole().collect();
        let stretches = whole.chunk_by(|(_, a), (_, b)| (a.ops == 0) == (b.ops == 0));
        let at_zero = stretches.filter(|stretch| stretch[0].1.ops == 0);
        let ends = |stretch: &[(f64, &Point)]| {
            let (last, point) = stretch[stretch.len() - 1];
            (stretch[0].0, last + point.seconds)
        };
        at_zero.map(ends).collect()
    }

    /// Intervals at zero throughput.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        let lengths: Vec<f64> = self.at_zero().iter().map(|(begin, end)| end - begin).collect();
        let rounded = |seconds: f64| (seconds * 1e3).round() / 1e3;
        Stalls {
            seconds: rounded(lengths.iter().fold(0.0, |sum, length| sum + length)),
            count: lengths.len() as u64,
            longest: rounded(lengths.iter().copied().fold(0.0, f64::max)),
        }
    }

    /// The throughput that 99 % of the intervals reach: the one at 99 % of the throughputs in
    /// descending order. CruiseDB (2021) defines it in III.3, with seconds as intervals.
    #[must_use]
    pub fn tail_throughput(&self) -> Option<f64> {
        let mut all: Vec<f64> = self.whole().map(|(_, point)| point.throughput()).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        let index = (all.len() * 99).div_ceil(100);
        all.get(index.checked_sub(1)?).copied()
    }
}

/// Latencies of one kind in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Percentiles {
    /// The number of latencies.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The 99.99th percentile.
    pub p9999_us: f64,
    /// The longest latency.
    pub max_us: f64,
}

impl Percentiles {
    /// The percentiles of a histogram in nanoseconds; `None` if it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram<u32>) -> Option<Self> {
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
        assert_eq!(series.stalls(), Stalls { seconds: 3.0, count: 2, longest: 2.0 });
        assert_eq!(super::Series::default().stalls(), Stalls::default());
    }

    #[test]
    fn stalls_of_short_intervals_are_in_seconds() {
        let point = |ops| Point { seconds: 0.1001, ops, ..Point::default() };
        let series = Series([3, 0, 0, 0, 4].map(point).into());
        assert_eq!(series.stalls(), Stalls { seconds: 0.3, count: 1, longest: 0.3 });
        assert_eq!(series.tail_throughput(), Some(0.0));
    }

    #[test]
    fn a_point_of_an_older_report_can_be_read() {
        let old = r#"{"seconds":1.0,"ops":5,"read_p99_us":1.0,"write_p99_us":2.0,"max_us":3.0,
            "backlog":0}"#;
        let point: Point = serde_json::from_str(old).expect("new figures have defaults");
        assert_eq!((point.ops, point.write_p999_us, point.p99_us()), (5, 0.0, None));
        let more = Point { ops: 1_000, ..point };
        assert_eq!(more.p99_us(), Some(2.0), "the larger one of reads and writes");
        let stalls: Stalls = serde_json::from_str(r#"{"seconds":2,"count":1,"longest":2}"#)
            .expect("whole seconds are numbers, too");
        assert_eq!(stalls.seconds, 2.0);
    }

    #[test]
    fn kinds_are_kept_apart_and_quoted_together() {
        let mut latencies = Latencies::default();
        latencies.record(Kind::Insert, 10_000);
        latencies.record(Kind::Delete, 30_000);
        latencies.record(Kind::Scan, 50_000);
        let writes = latencies.group(Group::Write).expect("two of them are writes");
        assert_eq!((writes.len(), writes.max() / 1000), (2, 30));
        assert_eq!(latencies.of(Kind::Insert).map(Histogram::len), Some(1));
        assert!(latencies.of(Kind::Update).is_none() && latencies.group(Group::Read).is_none());
        assert_eq!(latencies.count(), 3);
    }

    #[test]
    fn a_few_slow_scans_are_not_the_p99_of_an_interval() {
        let mut latencies = Latencies::default();
        (0..1000).for_each(|_| latencies.record(Kind::Update, 10_000));
        (0..5).for_each(|_| latencies.record(Kind::Scan, 900_000));
        let point = stretch::Stretches::default().point(0.05, &latencies, 0);
        assert!(point.p99_us().is_some_and(|p99| p99 < 10.1), "{point:?}");
        assert!(point.max_us >= 900.0 && point.other_p99_us == 0.0, "5 scans have no percentile");
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
        (1..=10_000).for_each(|us| latencies.record(Kind::Update, us * 1000));
        let updates = latencies.of(Kind::Update).expect("there are some");
        let found = Percentiles::of(updates).expect("not empty");
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.002, "{a} is not {b}");
        near(found.p50_us, 5000.0);
        near(found.p99_us, 9900.0);
        near(found.p999_us, 9990.0);
        near(found.max_us, 10_000.0);
        assert_eq!(found.count, 10_000);
        near(latencies.quantile(0.99) as f64 / 1e3, 9900.0);
        let mut more = latencies.clone();
        more.record(Kind::Read, 1);
        more.add(&latencies);
        assert_eq!((more.count(), more.max()), (20_001, latencies.max()));
        more.clear();
        assert_eq!((more.count(), more.quantile(0.5)), (0, 0));
    }
}
