//! When requests are made.
//!
//! Closed loop: each client asks again as soon as it was answered. A slow store slows its own load,
//! so the latencies of a closed loop say little; its throughput is the store's maximum.
//!
//! Open loop: request i is due at start + i/rate, whatever the store does, and its latency counts
//! from then (no coordinated omission). Clients take due requests from one sequence:
//! 1. A client takes the next request if it is due, serves it and comes back, without sleeping, as
//!    long as requests are due.
//! 2. When none is due it sleeps until the next one is, but at least [`MIN_SLEEP`], so that a
//!    wake-up, which costs processor time that the store needs, is shared by the requests that
//!    became due meanwhile.
//!
//! Threads: the sequence is an atomic counter, the plan of wake-ups another.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The least time between two wake-ups of clients, in nanoseconds.
pub const MIN_SLEEP: u64 = 50_000;

/// When requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Each client asks again once it was answered.
    Closed,
    /// Requests per second, due evenly.
    Open(f64),
}

/// The requests of an open loop, shared by its clients.
#[derive(Debug)]
pub struct Sequence {
    rate: f64,
    total: u64,
    next: AtomicU64,
    /// The last wake-up that was planned.
    planned: AtomicU64,
}

/// What a client shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Serve a request that was due at this nanosecond.
    Serve(u64),
    /// Sleep until this nanosecond.
    Sleep(u64),
    /// Stop: all requests were taken.
    End,
}

impl Sequence {
    /// `total` requests, `rate` each second.
    #[must_use]
    pub fn new(rate: f64, total: u64) -> Self {
        Self { rate, total, next: AtomicU64::new(0), planned: AtomicU64::new(0) }
    }

    /// When request `index` is due.
    #[must_use]
    #[inline]
    pub fn due(&self, index: u64) -> u64 {
        (index as f64 * 1e9 / self.rate) as u64
    }

    /// What a client does at this time.
    #[must_use]
    #[inline]
    pub fn turn(&self, now: u64) -> Turn {
        let mut index = self.next.load(Relaxed);
        loop {
            if index >= self.total {
                return Turn::End;
            }
            let due = self.due(index);
            if due > now {
                return Turn::Sleep(self.plan(due));
            }
            match self.next.compare_exchange_weak(index, index + 1, Relaxed, Relaxed) {
                Ok(_) => return Turn::Serve(due),
                Err(other) => index = other,
            }
        }
    }

    /// Plans a wake-up: not before `due`, and not too soon after the one planned last.
    fn plan(&self, due: u64) -> u64 {
        let next = |planned: u64| Some(due.max(planned + MIN_SLEEP));
        // It never returns None, so either way this is the value before the update.
        let (Ok(planned) | Err(planned)) = self.planned.fetch_update(Relaxed, Relaxed, next);
        due.max(planned + MIN_SLEEP)
    }

    /// How many requests are due and not taken yet.
    #[must_use]
    pub fn backlog(&self, now: u64) -> u64 {
        let due = ((now as f64 * self.rate / 1e9) as u64 + 1).min(self.total);
        due.saturating_sub(self.next.load(Relaxed))
    }

    /// How many requests were never taken.
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
        let sequence = Sequence::new(1000.0, 5);
        assert_eq!(sequence.turn(0), Turn::Serve(0));
        assert_eq!(sequence.turn(10_000), Turn::Sleep(1_000_000));
        assert_eq!(sequence.turn(990_000), Turn::Sleep(1_050_000), "another client's wake-up");
        assert_eq!(sequence.backlog(3_500_000), 3);
        assert_eq!(sequence.turn(3_500_000), Turn::Serve(1_000_000));
        assert_eq!(sequence.turn(3_500_000), Turn::Serve(2_000_000));
        assert_eq!(sequence.turn(3_500_000), Turn::Serve(3_000_000));
        assert_eq!(sequence.turn(3_500_000), Turn::Sleep(4_000_000));
        assert_eq!((sequence.untaken(), sequence.backlog(60_000_000)), (1, 1));
        assert_eq!(sequence.turn(60_000_000), Turn::Serve(4_000_000));
        assert_eq!(sequence.turn(60_000_000), Turn::End);
    }
}
