//! A rate limit for jobs' file calls on a slow device, so that clients get their share. The rate is
//! derived from the duration of these calls.
//!
//! On a slow device, a client's read waits for everything that jobs have queued there. A device
//! limited by a control group serves a burst at full speed and then makes all callers wait for tens
//! of milliseconds (docs/performance.md). Both show as late calls of the jobs. The rate is
//! therefore controlled like congestion in networks:
//! 1. There is no limit, and calls are as long as jobs make them, until calls are late while
//!    clients wait for the device: together `LATE_MOST` in one window, each `LATE` or more.
//! 2. A cut sets the rate to `LEFT` times the throughput of jobs since they were busy, or times the
//!    current rate if that is lower.
//! 3. From then on calls are pieces of at most `PIECE_TIME` at that rate, one after the other. Each
//!    begins when the pieces before it are paid for.
//! 4. After each `RAISE_EVERY` without a cut the rate grows by the factor `RAISE`, so it adapts to
//!    a device that is fast again. Slow growth exceeds a device's limit only by little, so clients
//!    wait only a little.
//! 5. While no client waits for the device, or a writer waits for a job, there is no limit; the
//!    rate is kept.
//!
//! Invariants: the rate is at least `RATE_MIN`; a call waits at most for the pieces that are paid
//! for ahead, one for each thread. Each value is for one direction, reads or writes. The caller
//! passes the time. Threads and locks: none.

use std::time::Duration;

/// The least duration of a late call, which waited for others: 256 KiB at 85 MB/s.
const LATE: Duration = Duration::from_millis(3);
/// The time of late calls in a window that leads to a cut. A single pause of the device is less.
const LATE_MOST: Duration = Duration::from_millis(20);
/// The time within which late calls add up.
const WINDOW: Duration = Duration::from_secs(1);
/// The least time between cuts: calls made before a cut say nothing about it.
const CUT_EVERY: Duration = Duration::from_millis(250);
/// The factor of a cut.
const LEFT: f64 = 0.8;
/// The factor and the interval of growth.
const RAISE: f64 = 1.05;
const RAISE_EVERY: Duration = Duration::from_secs(1);
/// The least rate, in bytes per second.
const RATE_MIN: f64 = 16e6;
/// The rate from which on there is no limit.
const RATE_MAX: f64 = 4e9;
/// The time of a piece at the rate.
const PIECE_TIME: Duration = Duration::from_micros(500);
const PIECE_MIN: usize = 16 << 10;
const PIECE_MAX: usize = 256 << 10;
/// A pause of this length ends a busy period. Throughput is measured over at least this time.
const PAUSE: Duration = Duration::from_millis(100);

/// The rate of jobs' calls in one direction.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Bytes per second; none for no limit.
    rate: Option<f64>,
    /// The time at which the pieces begun so far are paid for.
    paid: Duration,
    /// The start of the busy period, or the last cut if that is later; the bytes moved since; the
    /// time of the last call.
    busy_since: Duration,
    moved: f64,
    last: Duration,
    /// The start of the window, and the late calls since.
    window: Duration,
    late: Duration,
    /// The times of the last cut and the last raise.
    cut: Duration,
    raised: Duration,
}

impl Throttle {
    /// The limit, in bytes per second.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.rate.map(|rate| rate as u64)
    }

    /// The next piece of a call with `left` bytes, and its start. `waiting`: clients wait for the
    /// device and no writer waits for a job.
    pub fn begin(&mut self, now: Duration, left: usize, waiting: bool) -> (usize, Duration) {
        if now.saturating_sub(self.last) > PAUSE {
            (self.busy_since, self.moved) = (now, 0.0);
        }
        self.last = now;
        let Some(rate) = self.rate.filter(|_| waiting) else {
            self.paid = now;
            return (left, now);
        };
        let piece = (rate * PIECE_TIME.as_secs_f64()) as usize;
        let piece = piece.clamp(PIECE_MIN, PIECE_MAX) / PIECE_MIN * PIECE_MIN;
        let piece = piece.min(left);
        let start = self.paid.max(now);
        self.paid = start + Duration::from_secs_f64(piece as f64 / rate);
        (piece, start)
    }

    /// Records the end of a piece, and its duration since its start.
    pub fn end(&mut self, now: Duration, bytes: usize, took: Duration, waiting: bool) {
        self.moved += bytes as f64;
        self.last = self.last.max(now);
        if now.saturating_sub(self.window) > WINDOW {
            (self.window, self.late) = (now, Duration::ZERO);
        }
        if waiting && took >= LATE {
            self.late += took;
        }
        let may_cut = self.rate.is_none() || now.saturating_sub(self.cut) >= CUT_EVERY;
        if self.late >= LATE_MOST && may_cut {
            self.cut(now);
        } else if now.saturating_sub(self.cut.max(self.raised)) >= RAISE_EVERY {
            self.raised = now;
            self.rate = self.rate.map(|rate| rate * RAISE).filter(|rate| *rate < RATE_MAX);
        }
    }

    fn cut(&mut self, now: Duration) {
        let busy = now.saturating_sub(self.busy_since).max(PAUSE);
        let measured = self.moved / busy.as_secs_f64();
        let rate = self.rate.unwrap_or(RATE_MAX).min(measured) * LEFT;
        self.rate = Some(rate.max(RATE_MIN));
        (self.cut, self.window, self.late) = (now, now, Duration::ZERO);
        (self.busy_since, self.moved) = (now, 0.0);
    }
}

#[cfg(test)]
mod tests;
