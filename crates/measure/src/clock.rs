//! The clock of measurements, and sleeping to a point in time. Nothing else here reads the time.
//!
//! The kernel rounds the wake-ups of a thread up by its timer slack, 50 µs by default; a client
//! thread sets it to 1 ns, so that a request is late because of the store and not of the driver.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// The zero point of one run.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    #[must_use]
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    /// Sleeps until the given nanosecond after the start.
    pub fn sleep_until(&self, at: u64) {
        let now = self.now();
        if at > now {
            std::thread::sleep(Duration::from_nanos(at - now));
        }
    }

    /// Waits until then, or until another thread unparks this one, or for no reason.
    pub fn park_until(&self, at: u64) {
        let now = self.now();
        if at > now {
            std::thread::park_timeout(Duration::from_nanos(at - now));
        }
    }
}

/// Sleeps.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Asks for exact wake-ups of this thread, where the system can.
pub fn exact_wakeups() {
    #[cfg(target_os = "linux")]
    {
        // A kernel that refuses leaves its own slack, which the measured floor then shows.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}
