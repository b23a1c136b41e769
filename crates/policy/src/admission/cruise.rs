//! `cruise`: CruiseDB's adaptive admission. The limit on writes follows the watermark of memory.
//!
//! Source: cruisedb.txt §V and §VIII.D, F; 2-mechanisms ("cruise"). y is the share of the memory
//! for memtables that is in use, e = y − 50 %. The limit is in bytes of keys and values per second.
//! 1. *Open.* At first nothing is held back. When a window ends and the watermark is at its target
//!    or above, the average throughput of this window is the first limit. At 80 % this need not
//!    wait for the window's end where T_c can be told.
//! 2. *Feedback* (Eq. 2). At the end of each window of 0.4 M operations the limit is multiplied by
//!    1 − K1·e − K2·(e − e of the window before).
//! 3. *Conservative.* While y is 80 % or more the limit is at most T_c, what the device can do by
//!    its own figures (Eq. 3). That holds at once, by the amplifications of the last whole window,
//!    and again at each window's end, by those of this one.
//!
//! T_c: in the window clients wrote W bytes and had R bytes read from the device, and jobs wrote J
//! bytes, for which they read as many (so Eq. 3). The mix of reads and writes is R + J to J, and
//! the map of the device says how many bytes T it moves of that mix. T_c = W · T ÷ (R + J + J).
//!
//! Readings. *Unit*: Eq. 3 counts requests and multiplies them by bytes a request. The gate paces
//! bytes written, so ours is Eq. 3's T_c · P_w in bytes; then P_w · R_WA is J ÷ W, and P_r · R_RA,
//! R ÷ W. The amplifications are those of the window, as the text says (the published code takes
//! those since the start). *T_R and T_W*: both are T, the bytes moved per second of device time at
//! this mix, as Eq. 3 adds shares of time (the published code, too, has one rate for the device).
//! The rates at which reads and writes go on side by side are parts of T, and would count the
//! device twice. *Operations* are writes, gets and scans: all requests pass the paper's limiter.
//! *At 80 %*: the text sets the limit of the next round; its two modes do not say that a round must
//! end first, and memory that is nearly full should not wait for one.
//!
//! Deviations. The paper limits all requests; only writes are held back here, because reads fill no
//! memory, and they keep their share of the device in R. It has one limiter for each column family;
//! here one rate holds for the store, and y is that of its fullest tree. While the watermark has
//! never come to its target there is no limit: a store that is asked for little must not be held to
//! the little it was asked for. T_c only ever lowers the limit, and at 80 % feedback goes on: T_c
//! counts the device alone, and would raise the limit where processors are what is scarce. Where
//! there is no map, or no job has written in the window, feedback alone remains. The limit is kept
//! between 1 % of the first one (at least `RATE_MIN`), as a product with zero stays zero, and
//! four times the largest throughput of a window, so that it does not run away while less is asked
//! for than it allows. A window also ends after twice the time that one takes at the throughput of
//! the first limit: at a low limit 0.4 M operations would take for ever.
//!
//! K1 and K2 should be below 0.6: beyond, the paper sees the limit swing (§VIII.F, Fig. 15).
//!
//! Cost: O(1). State: the beginning of the window, the limit, T_c.

use super::Admission;
use crate::decision::Admit;
use crate::device::DeviceMap;
use crate::options::PolicyOptions;
use crate::signals::{Counters, Signals};
use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{BytesPerSec, Error, Micros, Result};

/// The watermark that is aimed at.
const TARGET: f64 = 0.5;
/// y_h: from here on the limit is conservative.
const HIGH: f64 = 0.8;
/// No limit is lower, in bytes per second.
const RATE_MIN: f64 = 64.0 * 1024.0;
/// The lowest limit as a share of the first one.
const FLOOR: f64 = 0.01;
/// The highest limit by the largest throughput of a window.
const CEILING: f64 = 4.0;
/// A window takes at most so many times as long as at the throughput of the first limit.
const SLOW: f64 = 2.0;
/// No window takes longer, in seconds.
const SLOWEST: f64 = 600.0;
/// How often a window is looked at while something is written.
const LOOKS: u64 = 32;
/// Looks are not closer.
const LOOK_MIN: Micros = Micros(10_000);

/// CruiseDB's weights (cruisedb.txt §VIII.D, F).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CruiseOptions {
    /// K1: the weight of the watermark's distance from 50 %.
    pub k1: f64,
    /// K2: the weight of its change since the last window.
    pub k2: f64,
    /// Operations of clients in a window.
    pub window: u64,
}

impl Default for CruiseOptions {
    fn default() -> Self {
        Self { k1: 0.5, k2: 0.4, window: 400_000 }
    }
}

impl CruiseOptions {
    pub(crate) fn check(&self) -> Result<()> {
        let advice = "the paper advises less than 0.6";
        let refused = if !(self.k1 > 0.0 && self.k1 <= 1.0) {
            Some(("cruise.k1", format!("must be above 0 and at most 1; {advice}")))
        } else if !(0.0..=1.0).contains(&self.k2) {
            Some(("cruise.k2", format!("must be from 0 to 1; {advice}")))
        } else if self.window == 0 {
            Some(("cruise.window", "must be at least 1 operation".to_owned()))
        } else {
            None
        };
        match refused {
            Some((option, why)) => Err(Error::InvalidOption { option, why }),
            None => Ok(()),
        }
    }
}

/// What was counted at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Micros,
    counters: Counters,
}

impl Sample {
    fn operations(&self) -> u64 {
        self.counters.writes + self.counters.gets + self.counters.scans
    }
}

/// What happened between two moments.
#[derive(Debug, Clone, Copy)]
struct Window {
    seconds: f64,
    operations: u64,
    /// Bytes: W, R and J.
    written: f64,
    missed: f64,
    jobs: f64,
}

impl Window {
    fn between(from: &Sample, to: &Sample) -> Self {
        let (before, now) = (&from.counters, &to.counters);
        Self {
            seconds: to.at.saturating_sub(from.at).as_secs_f64(),
            operations: to.operations().saturating_sub(from.operations()),
            written: now.write_bytes.saturating_sub(before.write_bytes).as_f64(),
            missed: now.cache_miss_bytes.saturating_sub(before.cache_miss_bytes).as_f64(),
            jobs: now.job_written_bytes.saturating_sub(before.job_written_bytes).as_f64(),
        }
    }

    /// Bytes written per second; none where there is nothing to divide.
    fn throughput(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.written > 0.0).then(|| self.written / self.seconds)
    }

    /// T_c. None where the device is not known, or no work was seen.
    fn capacity(&self, device: &DeviceMap) -> Option<f64> {
        if self.written <= 0.0 || self.jobs <= 0.0 {
            return None;
        }
        let (read, written) = (self.missed + self.jobs, self.jobs);
        let throughput = device.throughput(read / (read + written))?;
        Some(self.written * throughput.as_f64() / (read + written))
    }
}

/// The limit in force.
#[derive(Debug, Clone, Copy)]
struct Limit {
    rate: f64,
    floor: f64,
    ceiling: f64,
    /// e of the last window.
    error: f64,
    /// The longest a window takes.
    longest: Micros,
    /// T_c by the last window.
    capacity: Option<f64>,
}

impl Limit {
    /// The first one: what was let in while there was none.
    fn first(window: &Window, throughput: f64, fill: f64, size: u64) -> Self {
        let seconds = window.seconds * size as f64 / window.operations.max(1) as f64;
        let seconds = (seconds * SLOW).min(SLOWEST);
        let floor = (throughput * FLOOR).max(RATE_MIN);
        Self {
            rate: throughput.max(floor),
            floor,
            ceiling: throughput.max(floor) * CEILING,
            error: fill - TARGET,
            longest: Micros((seconds * 1e6) as u64).max(LOOK_MIN),
            capacity: None,
        }
    }

    /// The first case of Eq. 2, at a window's end.
    fn follow(&mut self, window: &Window, fill: f64, options: &CruiseOptions) {
        let throughput = window.throughput().unwrap_or(0.0);
        self.ceiling = self.ceiling.max(throughput * CEILING);
        let error = fill - TARGET;
        let factor = 1.0 - options.k1 * error - options.k2 * (error - self.error);
        self.rate = (self.rate * factor).clamp(self.floor, self.ceiling);
        self.error = error;
    }

    /// The second one.
    fn hold(&mut self, fill: f64) {
        if fill >= HIGH
            && let Some(capacity) = self.capacity
        {
            self.rate = self.rate.min(capacity).max(self.floor);
        }
    }
}

/// CruiseDB's adaptive admission.
#[derive(Debug)]
pub struct Cruise {
    options: CruiseOptions,
    /// Where the window began; none before the first write.
    began: Option<Sample>,
    limit: Option<Limit>,
    /// Writes as of the last call.
    writes: u64,
}

impl Cruise {
    /// With the weights of the options.
    #[must_use]
    pub fn new(options: &PolicyOptions) -> Self {
        Self { options: options.cruise.clone(), began: None, limit: None, writes: 0 }
    }

    /// Rule 1: the first limit, or none yet.
    fn open(&mut self, window: &Window, now: Sample, fill: f64, device: &DeviceMap) {
        let is_over = window.operations >= self.options.window;
        let capacity = window.capacity(device);
        let is_time = is_over && fill >= TARGET || capacity.is_some() && fill >= HIGH;
        if let Some(throughput) = window.throughput().filter(|_| is_time) {
            let mut limit = Limit::first(window, throughput, fill, self.options.window);
            limit.capacity = capacity;
            limit.hold(fill);
            self.limit = Some(limit);
        }
        if is_over || self.limit.is_some() {
            self.began = Some(now);
        }
    }
}

impl Admission for Cruise {
    fn name(&self) -> &'static str {
        "cruise"
    }

    fn needs_device(&self) -> bool {
        true
    }

    fn decide(&mut self, signals: &Signals) -> Admit {
        let now = Sample { at: signals.now, counters: signals.counters };
        let writing = now.counters.writes > self.writes || now.counters.waiting_writers > 0;
        self.writes = now.counters.writes;
        let Some(began) = self.began else {
            // The time before the first write belongs to no window.
            self.began = writing.then_some(now);
            return Admit::OPEN;
        };
        let (fill, device) = (signals.memtables.fill(), &*signals.device);
        let window = Window::between(&began, &now);
        match &mut self.limit {
            None => self.open(&window, now, fill, device),
            Some(limit) => {
                let took = now.at.saturating_sub(began.at);
                if window.operations >= self.options.window || took >= limit.longest {
                    limit.capacity = window.capacity(device);
                    limit.follow(&window, fill, &self.options);
                    self.began = Some(now);
                }
                limit.hold(fill);
            }
        }
        let Some(limit) = &self.limit else { return Admit::OPEN };
        let look = (limit.longest / LOOKS).max(LOOK_MIN);
        Admit {
            writes: Some(BytesPerSec(limit.rate as u64)),
            cause: Some(WaitCause::Admission),
            again: writing.then(|| now.at + look),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DevicePoint;
    use crate::signals::MemtableSignals;
    use std::sync::Arc;
    use vlsm_core::Bytes;

    /// A store, of which the tests say what it does in a second.
    struct Store {
        cruise: Cruise,
        signals: Signals,
    }

    impl Store {
        fn new(change: impl Fn(&mut CruiseOptions)) -> Self {
            let mut options = PolicyOptions::default();
            options.cruise.window = 1_000;
            change(&mut options.cruise);
            let (cruise, signals) = (Cruise::new(&options), Signals::default());
            let mut store = Self { cruise, signals };
            store.signals.counters.writes = 1;
            assert_eq!(store.at(0.0), Admit::OPEN);
            store
        }

        /// The answer at this watermark.
        fn at(&mut self, fill: f64) -> Admit {
            let (active, capacity) = (Bytes((fill * 1e6).round() as u64), Bytes(1_000_000));
            self.signals.memtables = MemtableSignals { active, capacity, ..Default::default() };
            self.cruise.decide(&self.signals)
        }

        /// A second with so many writes of 1 KB, for each of which jobs wrote 3 KB, then this
        /// watermark. The limit in KB/s.
        fn second(&mut self, writes: u64, fill: f64) -> Option<u64> {
            self.signals.now += Micros(1_000_000);
            self.signals.counters.writes += writes;
            self.signals.counters.write_bytes += Bytes(writes << 10);
            self.signals.counters.job_written_bytes += Bytes((3 * writes) << 10);
            self.at(fill).writes.map(|rate| (rate.0 + 512) >> 10)
        }
    }

    /// 3 KB of jobs' writes for each KB mix half and half: so 256 KB/s can be written.
    fn device() -> Arc<DeviceMap> {
        let point = |read_share, kib: u64| {
            let throughput = BytesPerSec(kib << 10);
            DevicePoint { read_share, throughput }
        };
        Arc::new(DeviceMap { points: vec![point(0.0, 512), point(0.5, 1_536), point(1.0, 4_096)] })
    }

    #[test]
    fn nothing_is_limited_before_memory_is_half_full() {
        let mut store = Store::new(|_| {});
        assert_eq!(store.second(1_000, 0.1), None);
        assert_eq!(store.second(8_000, 0.49), None);
        assert_eq!(store.second(500, 0.6), None, "half a window");
        assert_eq!(store.second(1_500, 0.6), Some(1_000), "2,000 in two seconds");
        // From 80 % on at once, where it is known what the device can do.
        let mut store = Store::new(|_| {});
        assert_eq!(store.second(500, 0.8), None);
        store.signals.device = device();
        assert_eq!(store.second(0, 0.79), None);
        assert_eq!(
            store.second(0, 0.8),
            Some(167),
            "500 in three seconds; the device could do 256"
        );
        assert_eq!(Store::new(|_| {}).second(0, 0.9), None, "nothing was written");
    }

    #[test]
    fn the_limit_follows_the_watermark_and_its_change() {
        let mut store = Store::new(|_| {});
        assert_eq!(store.second(1_000, 0.5), Some(1_000));
        assert_eq!(store.second(999, 0.7), Some(1_000), "not before the window's end");
        assert_eq!(store.second(1, 0.6), Some(910), "1 − 0.5·0.1 − 0.4·0.1");
        assert_eq!(store.second(1_000, 0.7), Some(783), "1 − 0.5·0.2 − 0.4·0.1");
        assert_eq!(store.second(1_000, 0.5), Some(845), "1 + 0.4·0.2");
        let mut bold = Store::new(|options| (options.k1, options.k2) = (1.0, 1.0));
        assert_eq!(bold.second(1_000, 0.5), Some(1_000));
        assert_eq!(bold.second(1_000, 0.6), Some(800));
    }

    #[test]
    fn from_80_percent_on_the_device_bounds_it_at_once() {
        let mut store = Store::new(|_| {});
        store.signals.device = device();
        assert_eq!(store.second(500, 0.5), None);
        assert_eq!(store.second(500, 0.5), Some(500));
        assert_eq!(store.second(200, 0.79), Some(500));
        assert_eq!(store.second(0, 0.8), Some(256), "1,536 ÷ 6");
        assert_eq!(store.second(0, 0.7), Some(256), "until the window's end");
        assert_eq!(store.second(800, 0.7), Some(210), "1 − 0.5·0.2 − 0.4·0.2");
        // Feedback goes on: the device never raises the limit.
        assert_eq!(store.second(1_000, 0.9), Some(151), "1 − 0.5·0.4 − 0.4·0.2");
        // With reads of clients the mix is another, 6 + 3 to 3, and there is more of it.
        let mut reads = Store::new(|_| {});
        reads.signals.device = device();
        reads.signals.counters.cache_miss_bytes = Bytes(6_000 << 10);
        assert_eq!(reads.second(1_000, 0.85), Some(235), "2,816 ÷ 12");
    }

    #[test]
    fn it_recovers_from_the_floor_and_does_not_run_away() {
        let mut store = Store::new(|options| (options.k1, options.k2) = (1.0, 1.0));
        assert_eq!(store.second(10_000, 0.5), Some(10_000));
        assert_eq!(store.second(1_000, 1.0), Some(100), "the factor is 0");
        store.signals.counters.writes += 1;
        assert_eq!(store.at(1.0).again, Some(store.signals.now + LOOK_MIN));
        // Hardly an operation a second: windows end by time.
        let mut seconds = 0;
        while store.second(1, 0.2).is_some_and(|rate| rate < 5_000) {
            seconds += 1;
            assert!(seconds < 100, "{:?}", store.cruise);
        }
        for _ in 0..100 {
            store.second(1_000, 0.0);
        }
        assert_eq!(store.second(1_000, 0.0), Some(40_000), "four times the most there was");
        // Where nothing is written nobody is asked again.
        assert_eq!(store.at(0.0).again, None);
        store.signals.counters.waiting_writers = 1;
        assert!(store.at(0.0).again.is_some());
    }

    #[test]
    fn wrong_weights_are_refused() {
        let changes: [fn(&mut CruiseOptions); 4] = [
            |options| options.k1 = 0.0,
            |options| options.k1 = f64::NAN,
            |options| options.k2 = 1.1,
            |options| options.window = 0,
        ];
        for change in changes {
            let mut options = CruiseOptions::default();
            change(&mut options);
            assert!(options.check().expect_err("refused").to_string().contains("cruise."));
        }
        let most = CruiseOptions { k1: 1.0, k2: 1.0, ..CruiseOptions::default() };
        most.check().expect("Fig. 15");
    }
}
