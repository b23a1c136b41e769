//! SILK's bursts: a production-like mix, and its stress test.
//!
//! Source: "SILK: Preventing Latency Spikes in Log-Structured Merge Key-Value Stores" (2019). §6.2:
//! 57:41:2 write:read:scan, scans of tens of keys, sizes between 250 B and 1 KB with a median of
//! 400 B; peaks of about 20 k/s, of which 90 % last 10 to 20 s and the rest over 100 s, 400 s at
//! most; valleys of hundreds of requests per second or less, of 5 to 20 s, 15 s in the mean. §6.4:
//! 50:50 and 90:10 write:read, 8 B keys, 1,024 B values, uniform; peaks of 40 k/s that last 10, 50,
//! 100 and up to 500 s over valleys of 10 s at 10 k/s.
//!
//! The trace of §6.2 is not published. So [`production`] makes one round of twenty peaks with these
//! figures; it is the same in every run. Writes are updates; keys are uniform; scans read 10 to 90
//! pairs. All times scale; rates do not.

use super::data::{KeyOrder, Shape, mix};
use super::keys::Choice;
use super::sizes::Sizes;
use super::{Preset, Workload};
use crate::arrivals::{Arrivals, Pattern};

/// The number of peaks in one round of the production-like pattern, and the number of long ones.
const PEAKS: usize = 20;
const LONG: usize = 2;

pub(super) fn all() -> Vec<Preset> {
    let workload = Workload {
        updates: 57.0,
        reads: 41.0,
        scans: 2.0,
        scan: Sizes::Uniform(10, 90),
        ..Workload::none("silk", Choice::Uniform)
    };
    let what = "SILK §6.2: 57:41:2 write:read:scan, peaks of 20 k/s, valleys of hundreds";
    let mut all = vec![Preset {
        shape: Shape { values: Sizes::Halves(250, 400, 1024), ..Shape::default() },
        arrivals: Some(Arrivals::Varying(production())),
        ..Preset::new("silk", what, workload)
    }];
    for writes in [50, 90] {
        all.extend([10, 50, 100, 500].map(|peak| stress(writes, peak)));
    }
    all
}

fn stress(writes: u8, peak: u16) -> Preset {
    let name = format!("silk-{writes}w-{peak}");
    let reads = 100 - writes;
    let what = format!(
        "SILK §6.4: {writes}:{reads} write:read, {peak} s at 40 k/s, 10 s at 10 k/s in turn"
    );
    let workload = Workload {
        updates: f64::from(writes),
        reads: f64::from(reads),
        ..Workload::none(&name, Choice::Uniform)
    };
    let pattern = Pattern::new([(f64::from(peak), 40_000.0), (10.0, 10_000.0)]);
    Preset {
        shape: Shape { key_size: 8, values: Sizes::Fixed(1024), order: KeyOrder::Hashed },
        arrivals: Some(Arrivals::Varying(pattern)),
        ..Preset::new(name, what, workload)
    }
}

/// Twenty peaks and valleys. Lengths and rates are evenly spaced over their distributions and then
/// shuffled, so a round has the figures of the source exactly, not by chance.
fn production() -> Pattern {
    let even = |count: usize| (0..count).map(move |i| (i as f64 + 0.5) / count as f64);
    let short = even(PEAKS - LONG).map(|share| 10.0 + 10.0 * share);
    let long = (1..=LONG).map(|i| 100.0 + 300.0 * i as f64 / LONG as f64);
    let peaks = shuffled(short.chain(long), 1);
    // From 5 to 20 s with a mean of 15 s: the density rises evenly.
    let valleys = shuffled(even(PEAKS).map(|share| 5.0 + 15.0 * share.sqrt()), 2);
    // From 100 to 1,000 requests per second, evenly in their logarithm.
    let rates = shuffled(even(PEAKS).map(|share| 100.0 * f64::powf(10.0, share)), 3);
    let round = peaks.into_iter().zip(valleys).zip(rates);
    Pattern::new(round.flat_map(|((peak, valley), rate)| [(peak, 20_000.0), (valley, rate)]))
}

fn shuffled(values: impl Iterator<Item = f64>, seed: u64) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    for i in (1..values.len()).rev() {
        values.swap(i, (mix(seed ^ mix(i as u64)) % (i as u64 + 1)) as usize);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_production_pattern_is_as_published() {
        let pattern = production();
        assert_eq!(pattern, production(), "the same in every run");
        let (peaks, valleys): (Vec<_>, Vec<_>) =
            pattern.segments.iter().partition(|segment| segment.rate == 20_000.0);
        let seconds = |segments: &[crate::arrivals::Segment]| -> Vec<f64> {
            segments.iter().map(|segment| segment.seconds).collect()
        };
        let (peaks, lengths) = (seconds(&peaks), seconds(&valleys));
        let short = peaks.iter().filter(|length| (10.0..=20.0).contains(*length)).count();
        assert_eq!((peaks.len(), short), (20, 18), "90 % are short");
        assert!(peaks.iter().all(|length| *length <= 20.0 || *length >= 100.0));
        assert_eq!(peaks.iter().copied().fold(0.0, f64::max), 400.0);
        assert!(lengths.iter().all(|length| (5.0..=20.0).contains(length)));
        let mean = lengths.iter().sum::<f64>() / 20.0;
        assert!((mean - 15.0).abs() < 0.1, "{mean}");
        assert!(valleys.iter().all(|valley| (100.0..=1000.0).contains(&valley.rate)));
    }
}
