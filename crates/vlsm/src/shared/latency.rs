//! The latencies of operations and waits, as histograms.
//!
//! 1. An operation asks [`Latencies::begin`] whether it is measured. This costs two plain loads and
//!    stores on a cache line that few threads share; the clock is read only for a measured
//!    operation.
//! 2. When the operation succeeds, [`Started::end`] adds its duration to a [`Histogram`].
//! 3. [`Latencies::stats`] sums up the shards.
//!
//! A measurement costs more than 100 ns, most of it for the clock, and a get takes 300 ns. So only
//! a sample is measured: one of [`Timed::every`] operations on average. The gaps between measured
//! operations are random, so a periodic workload does not bias the sample. All waits are measured,
//! because the measurement is cheap compared to the wait.
//!
//! A histogram is log-linear: eight buckets for each power of two of nanoseconds. So a bucket is at
//! most an eighth wider than its lower bound, whatever the duration. A bucket contains its upper
//! bound and not its lower one, as in Prometheus.
//!
//! Invariants: a store's gaps depend only on its own operations, so a simulated run repeats
//! exactly. No count is lost. If two threads of one shard draw a gap at the same time, the choice
//! of the sample may be disturbed.
//!
//! Threads and locks: relaxed atomics, one shard for each group of threads ([`Striped`]); a shard's
//! histogram is allocated when it is first needed.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use vlsm_core::Striped;
use vlsm_disk::Env;

/// Buckets for each power of two, as a power of two.
const SUB_BITS: u32 = 3;
const SUB: u64 = 1 << SUB_BITS;
/// The largest power of two that has buckets of its own: 2^40 ns, 18 minutes.
const EXPONENT_MAX: u32 = 40;
const BUCKETS: usize = ((EXPONENT_MAX - SUB_BITS + 2) * SUB as u32) as usize;

/// The bucket of a duration.
fn index_of(nanos: u64) -> usize {
    // One less, so that a bucket contains its upper bound.
    let below = nanos.saturating_sub(1);
    if below < SUB {
        return below as usize;
    }
    let shift = below.ilog2() - SUB_BITS;
    let index = (u64::from(shift) + 1) * SUB + ((below >> shift) & (SUB - 1));
    (index as usize).min(BUCKETS - 1)
}

/// The largest duration of a bucket, in nanoseconds.
fn upper_of(index: usize) -> u64 {
    let index = index as u64;
    match index / SUB {
        0 => index + 1,
        octave => (SUB + index % SUB + 1) << (octave - 1),
    }
}

/// Durations by bucket.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: Box<[AtomicU64]>,
    nanos: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, nanos: AtomicU64::new(0), max: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds a duration.
    pub fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[index_of(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.max.fetch_max(nanos, Ordering::Relaxed);
    }

    /// The present counts.
    pub fn stats(&self) -> LatencyStats {
        sum_of([self].into_iter())
    }
}

/// The sum of several histograms.
fn sum_of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> LatencyStats {
    let (mut counts, mut sum, mut max) = ([0; BUCKETS], 0, 0);
    for histogram in histograms {
        for (count, bucket) in counts.iter_mut().zip(&histogram.buckets) {
            *count += bucket.load(Ordering::Relaxed);
        }
        sum += histogram.nanos.load(Ordering::Relaxed);
        max = max.max(histogram.max.load(Ordering::Relaxed));
    }
    let filled = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    let buckets = filled
        .map(|(index, count)| LatencyBucket { up_to: Duration::from_nanos(upper_of(index)), count })
        .collect();
    LatencyStats::of(buckets, Duration::from_nanos(sum), Duration::from_nanos(max))
}

/// One bucket of a histogram: the durations up to `up_to` that are above the bucket before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LatencyBucket {
    /// The largest duration of the bucket.
    pub up_to: Duration,
    /// The number of durations in the bucket.
    pub count: u64,
}

/// The distribution of durations: a summary, and the histogram on which it is based.
///
/// Percentiles are upper bounds of buckets, so they are at most 12.5 % too high.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = vlsm::Db::open(folder.path().join("store"))?;
/// for number in 0..1000_u32 {
///     db.put(number.to_be_bytes(), "value")?;
/// }
/// let writes = db.stats().latencies.write;
/// assert!(writes.count > 0 && writes.p50 <= writes.p99 && writes.p99 <= writes.max);
/// println!("half of the writes took at most {:?}", writes.p50);
/// # db.close()
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LatencyStats {
    /// The number of measured durations.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The median: half of the durations are at most this long.
    pub p50: Duration,
    /// 99 % of the durations are at most this long.
    pub p99: Duration,
    /// 99.9 % of the durations are at most this long.
    pub p99_9: Duration,
    /// The longest duration.
    pub max: Duration,
    /// The buckets that are not empty, in order.
    pub buckets: Vec<LatencyBucket>,
}

impl LatencyStats {
    fn of(buckets: Vec<LatencyBucket>, sum: Duration, max: Duration) -> Self {
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        let mut stats = Self { count, sum, max, buckets, ..Self::default() };
        stats.p50 = stats.quantile(0.5);
        stats.p99 = stats.quantile(0.99);
        stats.p99_9 = stats.quantile(0.999);
        stats
    }

    /// The average; zero without durations.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let nanos = self.sum.as_nanos() / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The quantile: this share of the durations is at most this long; 0.5 gives the median. Zero
    /// without durations. A share outside 0 to 1 counts as the nearer of the two.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.count as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for bucket in &self.buckets {
            seen += bucket.count;
            if seen >= rank {
                return bucket.up_to.min(self.max);
            }
        }
        self.max
    }

    /// The number of durations up to a bound. Exact if the bound is a power of two of nanoseconds;
    /// otherwise the bucket of the bound is not counted.
    #[must_use]
    pub fn count_up_to(&self, bound: Duration) -> u64 {
        let below = self.buckets.iter().take_while(|bucket| bucket.up_to <= bound);
        below.map(|bucket| bucket.count).sum()
    }

    /// The durations since `earlier`, which is an earlier value of the same statistics. The longest
    /// of them is only known up to the upper bound of its bucket.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |up_to| {
            let found = earlier.buckets.binary_search_by_key(&up_to, |bucket| bucket.up_to);
            found.map_or(0, |index| earlier.buckets[index].count)
        };
        let mut buckets = self.buckets.clone();
        for bucket in &mut buckets {
            bucket.count = bucket.count.saturating_sub(before(bucket.up_to));
        }
        buckets.retain(|bucket| bucket.count > 0);
        let last = buckets.last().map_or(Duration::ZERO, |bucket| bucket.up_to);
        Self::of(buckets, self.sum.saturating_sub(earlier.sum), last.min(self.max))
    }
}

/// An operation whose latency is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Timed {
    Get,
    MultiGet,
    Write,
    Seek,
    Transaction,
}

impl Timed {
    const COUNT: usize = 5;

    /// One of this many operations is measured on average.
    fn every(self) -> u32 {
        match self {
            Self::Get | Self::Write | Self::Seek => 64,
            Self::MultiGet | Self::Transaction => 16,
        }
    }
}

/// The operations of one kind that the threads of one shard execute.
#[derive(Debug)]
struct Shard {
    /// The number of operations before the next measured one.
    left: AtomicU32,
    /// The state of the random gaps.
    random: AtomicU32,
    measured: OnceLock<Histogram>,
}

impl Default for Shard {
    fn default() -> Self {
        // The same for all shards, because the shard of a thread depends on other stores.
        let random = AtomicU32::new(0x9e37_79b9);
        Self { left: AtomicU32::new(0), random, measured: OnceLock::new() }
    }
}

impl Shard {
    /// Whether this operation is measured: one of `every` on average.
    #[inline]
    fn is_due(&self, every: u32) -> bool {
        // Not one atomic operation, which would cost too much.
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
            return false;
        }
        self.draw(every);
        true
    }

    #[cold]
    fn begin(&self, env: &dyn Env) -> Started<'_> {
        Started { shard: self, since: env.now() }
    }

    /// Draws the gap before the next measured operation.
    #[cold]
    fn draw(&self, every: u32) {
        // Marsaglia, "Xorshift RNGs" (2003).
        let mut random = self.random.load(Ordering::Relaxed);
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.store(random, Ordering::Relaxed);
        self.left.store(random % (2 * every - 1), Ordering::Relaxed);
    }
}

/// The latencies of a store's operations since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    shards: [Striped<Shard>; Timed::COUNT],
}

/// An operation that is measured.
pub(crate) struct Started<'a> {
    shard: &'a Shard,
    since: Duration,
}

impl Latencies {
    /// Begins to measure an operation; none if it is not in the sample.
    #[inline]
    pub fn begin(&self, kind: Timed, env: &dyn Env) -> Option<Started<'_>> {
        let shard = self.shards[kind as usize].mine();
        match shard.is_due(kind.every()) {
            true => Some(shard.begin(env)),
            false => None,
        }
    }

    /// The measured operations of a kind.
    pub fn stats(&self, kind: Timed) -> LatencyStats {
        sum_of(self.shards[kind as usize].iter().filter_map(|shard| shard.measured.get()))
    }
}

impl Started<'_> {
    /// Records that the operation has succeeded.
    #[cold]
    pub fn end(self, env: &dyn Env) {
        let took = env.now().saturating_sub(self.since);
        self.shard.measured.get_or_init(Histogram::default).add(took);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// A bucket contains its upper bound and nothing above; it is narrow.
    #[test]
    fn buckets_cover_all_durations_without_gaps() {
        assert_eq!(index_of(0), 0);
        for index in 0..BUCKETS - 1 {
            let upper = upper_of(index);
            assert_eq!(index_of(upper), index, "the upper bound {upper}");
            assert_eq!(index_of(upper + 1), index + 1, "above {upper}");
            let width = upper_of(index + 1) - upper;
            assert!(width == 1 || width * 8 <= upper, "{width} above {upper}");
        }
        assert_eq!(index_of(u64::MAX), BUCKETS - 1);
        assert!((9..41).all(|power| upper_of(index_of(1 << power)) == 1 << power));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_durations() {
        let histogram = Histogram::default();
        let mut sorted: Vec<u64> = (0..5000_u64).map(|n| 500 + n * n % 7919 * 311).collect();
        sorted.iter().for_each(|nanos| histogram.add(Duration::from_nanos(*nanos)));
        sorted.sort_unstable();
        let stats = histogram.stats();
        for (share, found) in [(0.5, stats.p50), (0.99, stats.p99), (0.999, stats.p99_9)] {
            let exact = sorted[(5000.0 * share) as usize - 1] as f64;
            let ratio = found.as_nanos() as f64 / exact;
            assert!((1.0..=1.125).contains(&ratio), "{share}: {found:?} for {exact} ns");
        }
        assert_eq!(stats.count, 5000);
        assert_eq!(stats.sum.as_nanos(), sorted.iter().map(|n| u128::from(*n)).sum());
        assert_eq!(stats.max.as_nanos(), u128::from(sorted[4999]));
        assert_eq!(stats.mean().as_nanos(), stats.sum.as_nanos() / 5000);
        assert_eq!(stats.quantile(7.0), stats.max);
        assert_eq!(stats.quantile(0.0), stats.quantile(0.0001));
        let bound = Duration::from_nanos(1 << 20);
        let exact = sorted.iter().filter(|nanos| **nanos <= 1 << 20).count();
        assert_eq!(stats.count_up_to(bound), exact as u64);
    }

    #[test]
    fn without_durations_everything_is_zero() {
        assert_eq!(Histogram::default().stats(), LatencyStats::default());
        assert_eq!(LatencyStats::default().mean(), Duration::ZERO);
        assert_eq!(LatencyStats::default().quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn a_difference_has_only_what_came_later() {
        let histogram = Histogram::default();
        let add = |micros| histogram.add(Duration::from_micros(micros));
        (0..10).for_each(|_| add(900));
        add(5000);
        let before = histogram.stats();
        (0..4).for_each(|_| add(20));
        let after = histogram.stats().since(&before);
        assert_eq!((after.count, after.sum), (4, Duration::from_micros(80)));
        assert!(after.max >= Duration::from_micros(20) && after.max < Duration::from_micros(23));
        assert_eq!(before.since(&before), LatencyStats::default());
    }

    /// One of `every` operations is measured, and so is the first one. The gaps have no rhythm.
    #[test]
    fn the_sample_has_its_size_and_no_rhythm() {
        let shard = Shard::default();
        let due: Vec<usize> = (0..64_000).filter(|_| shard.is_due(64)).collect();
        assert_eq!(due[0], 0);
        assert!((950..1050).contains(&due.len()), "{} of 64000", due.len());
        for rhythm in [2, 3, 8, 64] {
            let hits = due.iter().filter(|number| *number % rhythm == 0).count();
            let expected = due.len() as f64 / rhythm as f64;
            let off = (hits as f64 - expected).abs();
            assert!(off < 4.0 * expected.sqrt(), "{hits} of {expected} in the rhythm {rhythm}");
        }
        let all = Shard::default();
        assert!((0..100).all(|_| all.is_due(1)));
    }
}
