//! `cruise`: CruiseDB's adaptive admission. The limit on requests follows the watermark of memory.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §V and §VIII.D and F. y is the share of the memory for memtables that is in
//! use, and e = y − 50 %. The limit is in bytes of requests per second. A write counts its keys and
//! values. With `limits = requests`, as in the paper, a read counts as many bytes as the mean pair
//! that was written, and waits like a write. With `writes`, reads are free.
//! 1. *Open.* At first there is no limit. The first limit is the average throughput of a window: of
//!    the first window of 0.4 M operations (`first = window`), or of the first window at whose end
//!    the watermark is at its target or above (`watermark`). At 80 % the first limit does not wait
//!    for the end of a window if T_c is known. While there is no limit, a pause of the writers ends
//!    a window, because the window measures how fast they write and not how long they pause. With
//!    `watermark` two seconds end a window, too.
//! 2. *Feedback* (Eq. 2). At the end of each window of 0.4 M operations with y < 80 % the limit is
//!    multiplied by 1 − K1·e − K2·(e − e of the window before). With `rise = used` it does not rise
//!    while less than nine tenths of it are used, with `always` it does, as Eq. 2 says.
//! 3. *Conservative.* At the end of a window with y ≥ 80 % the limit is T_c (Eq. 2), the rate that
//!    the device can sustain by its own figures (Eq. 3), whether that is less or more than before
//!    (`high = capacity`). With `high = lower`, T_c only lowers the limit, at once when y reaches
//!    80 %, and feedback goes on at the ends of windows.
//!
//! The profile `cruise` has the paper's choices; the defaults are the others. They are for stores
//! with calm times: a store with a light load should not be held to that load (`watermark`), a long
//! calm should not lift the limit out of sight (`used`), and where processors are scarcer than the
//! device, T_c should not raise the limit (`lower`).
//!
//! T_c: in the window requests have B bytes, W of them written, and reads took R bytes from the
//! device. Since the first write to the store M bytes have left memory: the bytes written less the
//! bytes that memory holds. For these M bytes jobs wrote J bytes and, by Eq. 3, read as many. So a
//! byte of requests costs r = R ÷ B and twice w = W ÷ B · J ÷ M bytes. The mix of reads and writes
//! is r + w to w. The map of the device gives T, the bytes per second that it moves with this mix.
//! T_c = T ÷ (r + 2w). Where only writes are limited, B is W. With `device_bandwidth` of the tree
//! set, T is that of a device which moves this much each way, at the same time, whatever the mix.
//!
//! Readings:
//! - *unit*: Eq. 3 counts requests and multiplies them by bytes a request. The gate paces bytes, so
//!   our T_c is that of Eq. 3 times the bytes of a request. The published code, too, lets each
//!   request take its bytes out of the bucket;
//! - *R_WA*, "the total write amplification rate", is that of all time, as in the published code.
//!   Merges out of memory are so coarse that a window may contain all of one merge or none. And
//!   while memory fills, no job has paid yet for the bytes that come in;
//! - *T_R and T_W*: both are T, the bytes moved per second of device time with this mix, because
//!   Eq. 3 adds shares of time. The published code, too, has one rate for the device. The rates at
//!   which reads and writes go on side by side are parts of T, and would count the device twice;
//! - *operations* are writes, gets and scans, because all requests pass the paper's limiter.
//!
//! Deviations:
//! - the paper has one limiter for each column family. Here one rate holds for the store, and y is
//!   that of its fullest tree;
//! - without a map of the device, or while nothing has left memory, feedback alone remains;
//! - the limit is at least 1 % of the first limit and at least `RATE_MIN`, because a product with
//!   zero stays zero, and at most `RATE_MAX`;
//! - a window also ends after twice the time that a window takes at the last seen rate of
//!   operations. This time at most doubles from window to window. At a low limit 0.4 M operations
//!   would take for ever.
//!
//! K1 and K2 should be below 0.6. With larger weights the paper sees the limit swing (§VIII.F, Fig.
//! 15).
//!
//! Cost: O(1). State: the beginning of the window, the limit, T_c.

use super::Admission;
use crate::decision::Admit;
use crate::device::DeviceMap;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Counters, Signals};
use crate::smaller::{Pick, Scale};
use crate::tree::TreeOptions;
use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{Bytes, BytesPerSec, Error, Micros, Result};

/// The target watermark.
const TARGET: f64 = 0.5;
/// y_h: from here on the limit is conservative.
const HIGH: f64 = 0.8;
/// The least limit, in bytes per second.
const RATE_MIN: f64 = 64.0 * 1024.0;
/// The largest limit, in bytes per second.
const RATE_MAX: f64 = (1_u64 << 50) as f64;
/// Bytes of a request before the first pair is written.
const PAIR: f64 = 1024.0;
/// The lowest limit as a share of the first one.
const FLOOR: f64 = 0.01;
/// The limit rises only where this share of it is used.
const USED: f64 = 0.9;
/// The longest window, as a multiple of its duration at the last seen rate of operations.
const SLOW: f64 = 2.0;
/// While there is no limit: the longest window, the pause that ends a window, and the interval of
/// checks.
const OPEN_LONGEST: Micros = Micros(2_000_000);
const OPEN_PAUSE: Micros = Micros(100_000);
const OPEN_LOOK: Micros = Micros(50_000);
/// The longest window of all, in seconds.
const SLOWEST: f64 = 600.0;
/// Checks per window while clients write.
const LOOKS: u64 = 32;
/// The least time between checks.
const LOOK_MIN: Micros = Micros(10_000);

/// The condition for the first limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum First {
    /// The end of a whole window of operations (CruiseDB (2021), §V.A).
    Window,
    /// The watermark is at its target.
    #[default]
    Watermark,
}

/// The use of T_c at a high watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum High {
    /// It is the limit (CruiseDB (2021), Eq. 2).
    Capacity,
    /// It lowers the limit, if it is less.
    #[default]
    Lower,
}

/// The condition for a higher limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rise {
    /// No condition (CruiseDB (2021), Eq. 2).
    Always,
    /// Most of the limit is used.
    #[default]
    Used,
}

/// The requests that are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limits {
    /// Reads and writes (CruiseDB (2021), §V.C).
    Requests,
    /// Writes. Only they fill memory.
    #[default]
    Writes,
}

/// CruiseDB's weights (CruiseDB (2021), §VIII.D and F).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CruiseOptions {
    /// K1: the weight of the watermark's distance from 50 %.
    pub k1: f64,
    /// K2: the weight of its change since the last window.
    pub k2: f64,
    /// Operations of clients in a window.
    pub window: u64,
    /// The condition for the first limit.
    pub first: First,
    /// The use of T_c at a high watermark.
    pub high: High,
    /// The condition for a higher limit.
    pub rise: Rise,
    /// The requests that are limited.
    pub limits: Limits,
}

impl Default for CruiseOptions {
    fn default() -> Self {
        Self {
            k1: 0.5,
            k2: 0.4,
            window: 400_000,
            first: First::default(),
            high: High::default(),
            rise: Rise::default(),
            limits: Limits::default(),
        }
    }
}

impl MechanismOptions for CruiseOptions {
    fn check(&self) -> Result<()> {
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

    fn scale(&mut self, by: Scale) {
        self.window = by.count(self.window);
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.window = 300;
        self.first = pick.of(&[First::Watermark, First::Window]);
        self.high = pick.of(&[High::Lower, High::Capacity]);
        self.rise = pick.of(&[Rise::Used, Rise::Always]);
        self.limits = pick.of(&[Limits::Writes, Limits::Requests]);
    }
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Micros,
    counters: Counters,
    /// Bytes in memtables.
    memory: Bytes,
}

impl Sample {
    fn reads(&self) -> u64 {
        self.counters.gets + self.counters.scans
    }

    fn operations(&self) -> u64 {
        self.counters.writes + self.reads()
    }

    /// Bytes of the mean pair written so far.
    fn pair(&self) -> f64 {
        match self.counters.writes {
            0 => PAIR,
            writes => self.counters.write_bytes.as_f64() / writes as f64,
        }
    }
}

/// The work between two moments.
#[derive(Debug, Clone, Copy)]
struct Window {
    seconds: f64,
    operations: u64,
    /// Bytes: W, B and R of the window; J and M of all time.
    written: f64,
    requests: f64,
    missed: f64,
    jobs: f64,
    left: f64,
}

impl Window {
    /// The window from one moment to another. `origin` is the moment of the first write to the
    /// store.
    fn between(origin: &Sample, from: &Sample, to: &Sample, limits: Limits) -> Self {
        let (before, now) = (&from.counters, &to.counters);
        let first = &origin.counters;
        let came = now.write_bytes.saturating_sub(first.write_bytes).as_f64();
        let written = now.write_bytes.saturating_sub(before.write_bytes).as_f64();
        let reads = match limits {
            Limits::Requests => to.reads().saturating_sub(from.reads()) as f64 * to.pair(),
            Limits::Writes => 0.0,
        };
        Self {
            seconds: to.at.saturating_sub(from.at).as_secs_f64(),
            operations: to.operations().saturating_sub(from.operations()),
            written,
            requests: written + reads,
            left: came + origin.memory.as_f64() - to.memory.as_f64(),
            missed: now.cache_miss_bytes.saturating_sub(before.cache_miss_bytes).as_f64(),
            jobs: now.job_written_bytes.saturating_sub(first.job_written_bytes).as_f64(),
        }
    }

    /// Bytes of requests per second; none if there were none or no time has passed.
    fn throughput(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.requests > 0.0).then(|| self.requests / self.seconds)
    }

    /// T_c. None if the device is unknown, or if no work was seen.
    fn capacity(&self, device: &Device<'_>) -> Option<f64> {
        if self.requests <= 0.0 || self.jobs <= 0.0 || self.left <= 0.0 {
            return None;
        }
        let written = self.written / self.requests * self.jobs / self.left;
        let read = self.missed / self.requests + written;
        if read + written <= 0.0 {
            return None;
        }
        let throughput = device.throughput(read / (read + written))?;
        Some(throughput / (read + written))
    }

    /// The longest time that a window of `size` operations may take, by the rate of this window.
    fn longest(&self, size: u64) -> Micros {
        let seconds = self.seconds * size as f64 / self.operations.max(1) as f64;
        Micros(((seconds * SLOW).min(SLOWEST) * 1e6) as u64).max(LOOK_MIN)
    }
}

/// The figures of the device.
#[derive(Debug, Clone, Copy)]
struct Device<'a> {
    /// Bytes per second each way; zero for those of the map.
    each_way: BytesPerSec,
    map: &'a DeviceMap,
}

impl Device<'_> {
    /// T: bytes per second with this share of reads.
    fn throughput(&self, read_share: f64) -> Option<f64> {
        if self.each_way > BytesPerSec::ZERO {
            return Some(self.each_way.as_f64() / read_share.max(1.0 - read_share));
        }
        self.map.throughput(read_share).map(BytesPerSec::as_f64)
    }
}

/// The limit in force.
#[derive(Debug, Clone, Copy)]
struct Limit {
    rate: f64,
    floor: f64,
    /// e of the last window.
    error: f64,
    /// The longest time that a window may take.
    longest: Micros,
    /// T_c by the last window.
    capacity: Option<f64>,
}

impl Limit {
    /// The first limit: the rate that was admitted without one.
    fn first(window: &Window, throughput: f64, fill: f64, size: u64) -> Self {
        let floor = (throughput * FLOOR).max(RATE_MIN);
        Self {
            rate: throughput.max(floor),
            floor,
            error: fill - TARGET,
            longest: window.longest(size),
            capacity: None,
        }
    }

    /// Eq. 2, at a window's end.
    fn follow(&mut self, window: &Window, fill: f64, options: &CruiseOptions) {
        let error = fill - TARGET;
        let factor = 1.0 - options.k1 * error - options.k2 * (error - self.error);
        let is_used = window.throughput().unwrap_or(0.0) >= self.rate * USED;
        let rate = match self.capacity {
            Some(capacity) if options.high == High::Capacity && fill >= HIGH => capacity,
            _ if factor > 1.0 && options.rise == Rise::Used && !is_used => self.rate,
            _ => self.rate * factor,
        };
        self.rate = rate.clamp(self.floor, RATE_MAX);
        self.error = error;
        self.longest = window.longest(options.window).min(self.longest * 2);
    }

    /// The device's bound with `high = lower` (rule 3).
    fn lower(&mut self, fill: f64, options: &CruiseOptions) {
        if fill >= HIGH
            && options.high == High::Lower
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
    each_way: BytesPerSec,
    /// The moment of the first request that is limited, and the beginning of the window. Both are
    /// none before that request. The window is also none in a pause while there is no limit.
    origin: Option<Sample>,
    began: Option<Sample>,
    limit: Option<Limit>,
    /// The number of such requests at the last call, and the time when it last grew or a writer
    /// waited.
    asked: u64,
    asked_at: Micros,
}

impl Mechanism for Cruise {
    const WHAT: &'static str = "CruiseDB: the limit follows the watermark of memory";
    type Options = CruiseOptions;

    fn new(tree: &TreeOptions, own: &CruiseOptions) -> Result<Self> {
        let (asked, asked_at) = (0, Micros::ZERO);
        let (options, each_way) = (own.clone(), tree.device_bandwidth);
        Ok(Self { options, each_way, origin: None, began: None, limit: None, asked, asked_at })
    }
}

impl Cruise {
    /// Rule 1: sets the first limit, if it is time.
    fn open(&mut self, window: &Window, now: Sample, fill: f64, device: &Device<'_>) {
        let is_whole = window.operations >= self.options.window;
        let (is_over, is_enough) = match self.options.first {
            First::Window => (is_whole, true),
            First::Watermark => {
                (is_whole || window.seconds >= OPEN_LONGEST.as_secs_f64(), fill >= TARGET)
            }
        };
        let capacity = window.capacity(device);
        let is_time = is_over && is_enough || capacity.is_some() && fill >= HIGH;
        if let Some(throughput) = window.throughput().filter(|_| is_time) {
            let mut limit = Limit::first(window, throughput, fill, self.options.window);
            limit.capacity = capacity;
            if fill >= HIGH {
                limit.rate = limit.rate.min(capacity.unwrap_or(limit.rate)).max(limit.floor);
            }
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
        let memory = signals.memtables.active + signals.memtables.immutable;
        let now = Sample { at: signals.now, counters: signals.counters, memory };
        let limits = self.options.limits;
        let asked = match limits {
            Limits::Requests => now.operations(),
            Limits::Writes => now.counters.writes,
        };
        let asking = asked > self.asked || now.counters.waiting_writers > 0;
        self.asked = asked;
        if asking {
            self.asked_at = now.at;
        }
        if self.limit.is_none() && now.at.saturating_sub(self.asked_at) >= OPEN_PAUSE {
            self.began = None;
        }
        let Some(began) = self.began else {
            // The time before the first request belongs to no window.
            self.began = asking.then_some(now);
            self.origin = self.origin.or(self.began);
            let again = asking.then(|| now.at + OPEN_LOOK);
            return Admit { again, ..Admit::OPEN };
        };
        let fill = signals.memtables.fill();
        let device = &Device { each_way: self.each_way, map: &signals.device };
        let origin = self.origin.as_ref().unwrap_or(&began);
        let window = Window::between(origin, &began, &now, limits);
        match &mut self.limit {
            None => self.open(&window, now, fill, device),
            Some(limit) => {
                let took = now.at.saturating_sub(began.at);
                if window.operations >= self.options.window || took >= limit.longest {
                    limit.capacity = window.capacity(device);
                    limit.follow(&window, fill, &self.options);
                    self.began = Some(now);
                }
                limit.lower(fill, &self.options);
            }
        }
        let Some(limit) = &self.limit else {
            let paused = now.at.saturating_sub(self.asked_at) >= OPEN_PAUSE;
            let again = (!paused).then(|| now.at + OPEN_LOOK);
            return Admit { again, ..Admit::OPEN };
        };
        let look = (limit.longest / LOOKS).max(LOOK_MIN);
        Admit {
            writes: Some(BytesPerSec(limit.rate as u64)),
            reads: (limits == Limits::Requests).then(|| Bytes(now.pair().ceil() as u64)),
            cause: Some(WaitCause::Admission),
            again: asking.then(|| now.at + look),
        }
    }
}

#[cfg(test)]
mod tests;
