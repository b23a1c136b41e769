//! A rate for jobs' file calls on a slow device, which leaves clients their share. It is derived
//! from the duration of these calls.
//!
//! A device that is slow by itself makes a client's read wait for all that jobs have in its queue.
//! One that is limited by a control group was seen to serve a burst at full speed and then to let
//! everybody wait for tens of milliseconds (docs/performance.md). Either shows in the jobs' own
//! calls, which take long. So, as congestion is found in networks:
//! 1. Nothing is held back, in calls as long as jobs make them, until calls take long while clients
//!    wait for the device, too: `LATE_MOST` in all of a window, each of `LATE` or more.
//! 2. Then the rate is `LEFT` of what jobs moved since they were busy, or of the rate in force.
//! 3. From then on calls are pieces of at most `PIECE_TIME` at that rate, one after the other,
//!    each begun when the ones before are paid for.
//! 4. Each `RAISE_EVERY` without a cut the rate grows by `RAISE`, so that a device that is fast
//!    again is found so. Growing slowly it meets a limit by little, and clients wait a little.
//! 5. While no client waits for the device, or a writer waits for a job, nothing is held back; the
//!    rate is kept.
//!
//! Invariants: never less than `RATE_MIN`; a call waits at most for what pieces cost that are
//! paid for ahead, one for each thread. A value of one direction; reads and writes have one each.
//! Time is given. Threads and locks: none.

use std::time::Duration;

/// A call that takes as long waits for others rather than for itself: 256 KiB at 85 MB/s.
const LATE: Duration = Duration::from_millis(3);
/// What late calls of a window may take together: a pause of the device now and then is no limit.
const LATE_MOST: Duration = Duration::from_millis(20);
/// Within which they count together.
const WINDOW: Duration = Duration::from_secs(1);
/// Cuts are at least as far apart: calls made before one say nothing about it.
const CUT_EVERY: Duration = Duration::from_millis(250);
/// What is left after a cut.
const LEFT: f64 = 0.8;
/// How fast a rate grows.
const RAISE: f64 = 1.05;
const RAISE_EVERY: Duration = Duration::from_secs(1);
/// The least rate, in bytes per second.
const RATE_MIN: f64 = 16e6;
/// From here on there is no limit.
const RATE_MAX: f64 = 4e9;
/// A piece's time at the rate.
const PIECE_TIME: Duration = Duration::from_micros(500);
const PIECE_MIN: usize = 16 << 10;
const PIECE_MAX: usize = 256 << 10;
/// After a pause of this length jobs are busy anew; less than it is not measured.
const PAUSE: Duration = Duration::from_millis(100);

/// The rate of jobs' calls in one direction.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Bytes per second; none where nothing is held back.
    rate: Option<f64>,
    /// When the calls that were begun are paid for.
    paid: Duration,
    /// Since when jobs are busy, at most since the last cut; what they moved; when they last did.
    busy_since: Duration,
    moved: f64,
    last: Duration,
    /// Late calls since the beginning of a window.
    window: Duration,
    late: Duration,
    /// When the rate last changed.
    cut: Duration,
    raised: Duration,
}

impl Throttle {
    /// The limit, in bytes per second.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.rate.map(|rate| rate as u64)
    }

    /// A piece of a call that is left by so many bytes, and when it is begun. `waiting`: clients
    /// wait for the device, and no writer for a job.
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

    /// A piece ended, which took so long since it was begun.
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
