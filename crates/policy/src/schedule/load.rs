//! The clients' load on the device, by three models, for SILK and DLC.
//!
//! Source: "DLC: A New Compaction Scheme for LSM-tree with High Stability and Low Latency" (2021),
//! §3. Each model computes the load over the window that has just ended:
//! 1. `operations`, SILK's model (Eq. 1): (reads + writes) · bytes of a pair ÷ time. A read is a
//!    get or a scan. The bytes of a pair are the mean of all pairs written since the store was
//!    opened, and 1 KB before the first one. Reads do not change the mean, because they do not
//!    report the size of what they find;
//! 2. `weighted` (Eq. 3 to 5): gets · ω′ ÷ time. Eq. 3 has a weight for gets and one for scans, in
//!    pairs. Eq. 4 assumes that scans come in proportion to gets. ω′ of Eq. 5 replaces both weights
//!    and the pair by one number (16,000 bytes), which is fitted to that workload only;
//! 3. `cache_misses`, DLC's model (Eq. 6): the bytes that the block cache had to read ÷ time. The
//!    paper multiplies the number of blocks by the length of a block and by γ, the ratio of
//!    compression. Ours counts the bytes as they are on the device, which includes γ.
//!
//! DLC's model has a second function, to analyse the load (§3.2.2, [`LoadState`]): at first the
//! load is low. Above the high limit it is high. After `softness` windows in succession below the
//! low limit it is low again. Between the limits the state stays.
//!
//! A window ends at a call. When more than one window has passed, the result is the mean over the
//! whole time, and the next window begins at the call. Cost: O(1).

use crate::signals::{Counters, Signals};
use serde::{Deserialize, Serialize};
use vlsm_core::{Bytes, BytesPerSec, Micros};

/// Bytes of a pair before the first pair is written.
const PAIR: f64 = 1024.0;

/// A model of the clients' load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LoadModel {
    /// Reads and writes, each a pair (SILK's, Eq. 1 of DLC (2021)).
    Operations,
    /// Gets, each with the same weight (Eq. 5).
    Weighted,
    /// Bytes read into the block cache (DLC's, Eq. 6).
    CacheMisses,
}

/// Computes the load of the clients from the counters, window by window.
#[derive(Debug)]
pub struct LoadMeter {
    model: LoadModel,
    weight: Bytes,
    window: Micros,
    /// The beginning of the window, and the counters at that time.
    begun: Option<(Micros, Counters)>,
}

impl LoadMeter {
    /// A meter with this model and windows of this length. The weight is ω′ of Eq. 5, the bytes
    /// that one get counts.
    #[must_use]
    pub fn new(model: LoadModel, weight: Bytes, window: Micros) -> Self {
        Self { model, weight, window, begun: None }
    }

    /// The bytes per second that clients took of the device in the window that has just ended. None
    /// at the first call, and while no window has ended since the last answer.
    pub fn sample(&mut self, signals: &Signals) -> Option<BytesPerSec> {
        let Some((since, before)) = self.begun else {
            self.begun = Some((signals.now, signals.counters));
            return None;
        };
        let passed = signals.now.saturating_sub(since);
        if passed < self.window || passed == Micros::ZERO {
            return None;
        }
        self.begun = Some((signals.now, signals.counters));
        let bytes = self.bytes(&before, &signals.counters);
        Some(BytesPerSec((bytes / passed.as_secs_f64()).round() as u64))
    }

    /// The end of the current window.
    #[must_use]
    pub fn due(&self) -> Option<Micros> {
        self.begun.map(|(since, _)| since + self.window)
    }

    fn bytes(&self, before: &Counters, now: &Counters) -> f64 {
        let gets = now.gets.saturating_sub(before.gets) as f64;
        match self.model {
            LoadModel::Operations => {
                let scans = now.scans.saturating_sub(before.scans) as f64;
                let writes = now.writes.saturating_sub(before.writes) as f64;
                let pair = match now.writes {
                    0 => PAIR,
                    written => now.write_bytes.as_f64() / written as f64,
                };
                (gets + scans + writes) * pair
            }
            LoadModel::Weighted => gets * self.weight.as_f64(),
            LoadModel::CacheMisses => {
                now.cache_miss_bytes.saturating_sub(before.cache_miss_bytes).as_f64()
            }
        }
    }
}

/// Shares of the device's bandwidth at which the load becomes high, and low again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadLimits {
    /// Above this share the load is high.
    pub high: f64,
    /// The load may be low below this share.
    pub low: f64,
    /// Windows in succession below it that make the load low.
    pub softness: u64,
}

/// Table 2 of DLC (2021): 300 and 180 of 350 MB/s.
impl Default for LoadLimits {
    fn default() -> Self {
        Self { high: 300.0 / 350.0, low: 180.0 / 350.0, softness: 3 }
    }
}

/// Whether the load is high.
#[derive(Debug)]
pub struct LoadState {
    limits: LoadLimits,
    window: Micros,
    /// The end of the last window, or the first call.
    noted_at: Option<Micros>,
    /// Whether the load was high when it was last noted.
    pub(super) high: bool,
    /// Windows in succession below the low limit.
    below: u64,
}

impl LoadState {
    /// A low load, with these limits and windows of this length.
    #[must_use]
    pub fn new(limits: LoadLimits, window: Micros) -> Self {
        Self { limits, window, noted_at: None, high: false, below: 0 }
    }

    /// Notes the load of the window that ends now; none while no window has ended. Returns whether
    /// the load is high.
    pub fn note(&mut self, now: Micros, load: Option<BytesPerSec>, device: BytesPerSec) -> bool {
        let Some(load) = load else {
            self.noted_at.get_or_insert(now);
            return self.high;
        };
        let since = self.noted_at.replace(now).unwrap_or(now);
        // After a long time without a call, one sample covers several windows.
        let windows = now.saturating_sub(since).0 / self.window.0.max(1);
        if load.as_f64() > device.as_f64() * self.limits.high {
            self.high = true;
            self.below = 0;
        } else if load.as_f64() < device.as_f64() * self.limits.low {
            self.below = self.below.saturating_add(windows.max(1));
            self.high &= self.below < self.limits.softness;
        } else {
            self.below = 0;
        }
        self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64, counters: Counters) -> Signals {
        Signals { now: Micros(millis * 1_000), counters, ..Signals::default() }
    }

    fn meter(model: LoadModel) -> LoadMeter {
        LoadMeter::new(model, Bytes(16_000), Micros(10_000))
    }

    #[test]
    fn each_model_counts_its_own() {
        let before = Counters { gets: 5, scans: 5, ..Counters::default() };
        let after = Counters {
            writes: 100,
            write_bytes: Bytes(20_000),
            gets: 105,
            scans: 55,
            cache_miss_bytes: Bytes(30_000),
            ..Counters::default()
        };
        let load = |model| {
            let mut meter = meter(model);
            assert_eq!(meter.sample(&at(1_000, before)), None, "no window has passed");
            meter.sample(&at(1_100, after))
        };
        // 100 writes, 100 gets and 50 scans of 200 bytes in a tenth of a second.
        assert_eq!(load(LoadModel::Operations), Some(BytesPerSec(500_000)));
        assert_eq!(load(LoadModel::Weighted), Some(BytesPerSec(16_000_000)));
        assert_eq!(load(LoadModel::CacheMisses), Some(BytesPerSec(300_000)));
    }

    #[test]
    fn pairs_are_of_a_kilobyte_until_one_is_written() {
        let mut meter = meter(LoadModel::Operations);
        assert_eq!(meter.sample(&at(0, Counters::default())), None);
        let counters = Counters { gets: 10, ..Counters::default() };
        assert_eq!(meter.sample(&at(1_000, counters)), Some(BytesPerSec(10 << 10)));
    }

    #[test]
    fn a_window_is_at_least_as_long_as_asked_for_and_its_mean_is_told() {
        let mut meter = meter(LoadModel::CacheMisses);
        let missed = |bytes| Counters { cache_miss_bytes: Bytes(bytes), ..Counters::default() };
        assert_eq!(meter.sample(&at(0, missed(1_000))), None);
        assert_eq!(meter.sample(&at(9, missed(5_000))), None, "not over yet");
        assert_eq!(meter.sample(&at(10, missed(6_000))), Some(BytesPerSec(500_000)));
        assert_eq!(meter.sample(&at(10, missed(6_000))), None, "the next one has begun");
        // Nothing was sampled for ten windows: the sample is the mean over all of them.
        assert_eq!(meter.sample(&at(110, missed(16_000))), Some(BytesPerSec(100_000)));
        // Nothing happened, which is a load too.
        assert_eq!(meter.sample(&at(120, missed(16_000))), Some(BytesPerSec::ZERO));
    }

    #[test]
    fn without_a_window_no_time_is_no_answer() {
        let mut meter = LoadMeter::new(LoadModel::Weighted, Bytes(1), Micros::ZERO);
        assert_eq!(meter.sample(&at(5, Counters::default())), None);
        assert_eq!(meter.sample(&at(5, Counters::default())), None);
        assert_eq!(meter.sample(&at(6, Counters::default())), Some(BytesPerSec::ZERO));
    }
}
