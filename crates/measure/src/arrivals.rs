//! Arrivals: the times at which requests are made.
//!
//! Closed loop: each client makes the next request as soon as the last one is answered. A slow
//! store slows its own load, so the latencies of a closed loop say little; its throughput is the
//! store's maximum.
//!
//! Open loop: request i is due at a time of its own, whatever the store does. Its latency counts
//! from then (no coordinated omission). *Even* requests are due at start + i/rate; *Poisson* ones
//! have the same rate with exponential gaps; *varying* ones have rates that change by a repeated
//! pattern, for bursts and valleys; *replayed* ones have the times of a recorded trace. Clients
//! take due requests from one sequence:
//! 1. A client takes the next request if it is due, serves it and comes back, without sleeping, as
//!    long as requests are due.
//! 2. If none is due, it sleeps until the next one is due, but at least until [`MIN_SLEEP`] after
//!    the last planned wake-up. A wake-up costs processor time that the store needs, so it serves
//!    all requests that became due meanwhile.
//!
//! Due times are functions of the request's number (`times`), so taking one is one atomic step.
//!
//! Threads: the sequence is an atomic counter; the last planned wake-up is another.

mod times;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use times::Times;

/// The least time between two wake-ups of clients, in nanoseconds. A wake-up costs from 8 to 40 µs
/// of a processor, so this bounds the cost of wake-ups. It is also most of an open loop's floor.
pub const MIN_SLEEP: u64 = 125_000;

/// The times at which requests are made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Each client makes a request once its last one is answered.
    #[default]
    Closed,
    /// Requests per second, due evenly.
    Open(f64),
    /// Requests per second, due as a Poisson process.
    Poisson(f64),
    /// Rates that change.
    Varying(Pattern),
    /// The requests of a trace, at its times.
    Replay(Replay),
}

/// Rates that follow each other; after the last one the first one follows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pattern {
    /// The rates.
    pub segments: Vec<Segment>,
    /// Whether requests are due as a Poisson process of these rates, instead of evenly.
    #[serde(default)]
    pub poisson: bool,
}

/// A rate for a while.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// The length in seconds.
    pub seconds: f64,
    /// Requests per second.
    pub rate: f64,
}

/// A recorded trace as arrivals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Its file.
    pub path: PathBuf,
    /// The factor by which it is faster than the recording.
    pub speed: f64,
}

impl Pattern {
    /// A pattern with evenly due requests.
    #[must_use]
    pub fn new(segments: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let segments = segments.into_iter().map(|(seconds, rate)| Segment { seconds, rate });
        Self { segments: segments.collect(), poisson: false }
    }

    /// Multiplies all times by this factor, at the same rates.
    #[must_use]
    pub fn scale(mut self, time_factor: f64) -> Self {
        self.segments.iter_mut().for_each(|segment| segment.seconds *= time_factor);
        self
    }

    /// Multiplies all rates by one factor, so that the highest is `rate`: for a machine that is not
    /// the source's.
    #[must_use]
    pub fn with_peak(mut self, rate: f64) -> Self {
        let factor = rate / self.peak();
        self.segments.iter_mut().for_each(|segment| segment.rate *= factor);
        self
    }

    /// The seconds of one round.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.segments.iter().map(|segment| segment.seconds).sum()
    }

    /// The highest rate.
    #[must_use]
    pub fn peak(&self) -> f64 {
        self.segments.iter().map(|segment| segment.rate).fold(0.0, f64::max)
    }

    /// The mean rate of a whole round.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let requests: f64 = self.segments.iter().map(|each| each.seconds * each.rate).sum();
        requests / self.seconds()
    }
}

impl Arrivals {
    /// Multiplies all times by this factor, at the same rates.
    #[must_use]
    pub fn scale(self, time_factor: f64) -> Self {
        match self {
            Self::Varying(pattern) => Self::Varying(pattern.scale(time_factor)),
            other => other,
        }
    }

    /// The highest rate, if it is known beforehand.
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        match self {
            Self::Closed | Self::Replay(_) => None,
            Self::Open(rate) | Self::Poisson(rate) => Some(*rate),
            Self::Varying(pattern) => Some(pattern.peak()),
        }
    }

    /// The same arrivals at their highest rate all the time; a closed loop for a replay.
    pub(crate) fn at_peak(&self) -> Self {
        match self {
            Self::Varying(pattern) if pattern.poisson => Self::Poisson(pattern.peak()),
            Self::Varying(pattern) => Self::Open(pattern.peak()),
            Self::Replay(_) => Self::Closed,
            other => other.clone(),
        }
    }

    /// Checks that its numbers make sense.
    ///
    /// # Errors
    /// A number is wrong; the text tells the user which.
    pub fn check(&self) -> Result<(), String> {
        let positive = |what: &str, number: f64| match number.is_finite() && number > 0.0 {
            true => Ok(()),
            false => Err(format!("arrivals: {what} is {number}, and has to be above zero")),
        };
        match self {
            Self::Closed => Ok(()),
            Self::Open(rate) | Self::Poisson(rate) => positive("the rate", *rate),
            Self::Replay(replay) => positive("the speed of a replay", replay.speed),
            Self::Varying(pattern) => {
                for segment in &pattern.segments {
                    positive("the length of a segment", segment.seconds)?;
                    if !(segment.rate.is_finite() && segment.rate >= 0.0) {
                        return Err(format!("arrivals: a rate of {} is impossible", segment.rate));
                    }
                }
                positive("the highest rate of the pattern", pattern.peak())
            }
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed loop"),
            Self::Open(rate) => write!(f, "open, {rate:.0}/s"),
            Self::Poisson(rate) => write!(f, "Poisson, {rate:.0}/s"),
            Self::Varying(pattern) => {
                write!(f, "varying, {:.0} to {:.0}/s", pattern.mean(), pattern.peak())
            }
            Self::Replay(replay) => write!(f, "trace at {} ×", replay.speed),
        }
    }
}

/// The requests of an open loop, shared by its clients.
#[derive(Debug)]
pub struct Sequence {
    times: Times,
    total: u64,
    next: AtomicU64,
    /// The last wake-up that was planned.
    planned: AtomicU64,
}

/// The next step of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Serve the request of this number, which was due at this nanosecond.
    Serve(u64, u64),
    /// Sleep until this nanosecond.
    Sleep(u64),
    /// Stop: all requests were taken.
    End,
}

impl Sequence {
    /// The requests that are due within `seconds`, but at most `total`. `None` for a closed loop. A
    /// replay has the given times, in microseconds.
    #[must_use]
    pub fn new(
        arrivals: &Arrivals,
        total: u64,
        seconds: Option<f64>,
        recorded: Option<Arc<[u64]>>,
        seed: u64,
    ) -> Option<Self> {
        let times = match arrivals {
            Arrivals::Closed => return None,
            Arrivals::Open(rate) => Times::even(*rate),
            Arrivals::Poisson(rate) => Times::even(*rate).poisson(seed),
            Arrivals::Varying(pattern) if pattern.poisson => Times::varying(pattern).poisson(seed),
            Arrivals::Varying(pattern) => Times::varying(pattern),
            Arrivals::Replay(replay) => Times::recorded(recorded.unwrap_or_default(), replay.speed),
        };
        let within = seconds.map_or(u64::MAX, |seconds| times.before(seconds * 1e9));
        let total = total.min(within).min(times.limit());
        let (next, planned) = (AtomicU64::new(0), AtomicU64::new(0));
        Some(Self { times, total, next, planned })
    }

    /// The due time of request `index`, in nanoseconds.
    #[must_use]
    #[inline]
    pub fn due(&self, index: u64) -> u64 {
        self.times.due(index)
    }

    /// Returns the next step of a client at the time `now`: serve the next request if it is due,
    /// else sleep, or stop.
    #[must_use]
    #[inline]
    pub fn next(&self, now: u64) -> Next {
        let mut index = self.next.load(Relaxed);
        loop {
            if index >= self.total {
                return Next::End;
            }
            let due = self.due(index);
            if due > now {
                return Next::Sleep(self.plan(due));
            }
            match self.next.compare_exchange_weak(index, index + 1, Relaxed, Relaxed) {
                Ok(_) => return Next::Serve(index, due),
                Err(other) => index = other,
            }
        }
    }

    /// Plans a wake-up: not before `due`, and not too soon after the last planned one.
    fn plan(&self, due: u64) -> u64 {
        let next = |planned: u64| Some(due.max(planned + MIN_SLEEP));
        // It never returns None, so either way this is the value before the update.
        let (Ok(planned) | Err(planned)) = self.planned.fetch_update(Relaxed, Relaxed, next);
        due.max(planned + MIN_SLEEP)
    }

    /// The number of requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The number of requests that are due and not taken yet.
    #[must_use]
    pub fn backlog(&self, now: u64) -> u64 {
        let due = self.times.until(now as f64).min(self.total);
        due.saturating_sub(self.next.load(Relaxed))
    }

    /// The number of requests that were never taken.
    #[must_use]
    pub fn untaken(&self) -> u64 {
        self.total.saturating_sub(self.next.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_taken_once_and_not_before_it_is_due() {
        let sequence = Sequence::new(&Arrivals::Open(1000.0), 5, None, None, 1).expect("open");
        let at = |millis: f64| (millis * 1e6) as u64;
        assert_eq!(sequence.next(0), Next::Serve(0, 0));
        assert_eq!(sequence.next(10_000), Next::Sleep(at(1.0)));
        let other = at(1.0) + MIN_SLEEP;
        assert_eq!(sequence.next(990_000), Next::Sleep(other), "another client's wake-up");
        assert_eq!(sequence.backlog(at(3.5)), 3);
        assert_eq!(sequence.next(at(3.5)), Next::Serve(1, at(1.0)));
        assert_eq!(sequence.next(at(3.5)), Next::Serve(2, at(2.0)));
        assert_eq!(sequence.next(at(3.5)), Next::Serve(3, at(3.0)));
        assert_eq!(sequence.next(at(3.5)), Next::Sleep(at(4.0)));
        assert_eq!((sequence.untaken(), sequence.backlog(at(60.0))), (1, 1));
        assert_eq!(sequence.next(at(60.0)), Next::Serve(4, at(4.0)));
        assert_eq!(sequence.next(at(60.0)), Next::End);
    }

    #[test]
    fn impossible_numbers_are_named() {
        let refused = |arrivals: Arrivals, expected: &str| {
            let why = arrivals.check().expect_err("it is refused");
            assert!(why.contains(expected), "{why}");
        };
        refused(Arrivals::Open(0.0), "the rate is 0");
        refused(Arrivals::Poisson(f64::NAN), "the rate is NaN");
        refused(Arrivals::Varying(Pattern::default()), "highest rate");
        refused(Arrivals::Varying(Pattern::new([(0.0, 5.0)])), "length of a segment");
        refused(Arrivals::Varying(Pattern::new([(1.0, -5.0)])), "-5");
        assert_eq!(Arrivals::Varying(Pattern::new([(1.0, 0.0), (1.0, 5.0)])).check(), Ok(()));
    }

    #[test]
    fn times_scale_and_rates_do_not() {
        let pattern = Pattern::new([(10.0, 20_000.0), (5.0, 500.0)]).scale(0.1);
        assert_eq!((pattern.seconds(), pattern.peak()), (1.5, 20_000.0));
        assert!((pattern.mean() - 13_500.0).abs() < 1e-6);
        assert_eq!(pattern.with_peak(40_000.0).segments[1].rate, 1000.0);
    }

    #[test]
    fn arrivals_survive_json_and_older_ones_can_be_read() {
        for (arrivals, json) in [
            (Arrivals::Closed, r#""closed""#),
            (Arrivals::Open(100_000.0), r#"{"open":100000.0}"#),
            (
                Arrivals::Varying(Pattern::new([(1.0, 2.0)])),
                r#"{"varying":{"segments":[{"seconds":1.0,"rate":2.0}],"poisson":false}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&arrivals).expect("it has an encoding"), json);
            let read: Arrivals = serde_json::from_str(json).expect("it can be read");
            assert_eq!(read, arrivals);
        }
    }
}
