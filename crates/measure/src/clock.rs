//! The clock of measurements, and sleeping to a point in time. No other module reads the time.
//!
//! The kernel delays the wake-ups of a thread by up to its timer slack, 50 µs by default. A client
//! thread sets it to 1 ns, so that late requests are due to the store and not to the driver.
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

    /// Waits until the given nanosecond or until another thread unparks this one. It may also wake
    /// up spuriously.
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

/// Asks for exact wake-ups of this thread, if the system can.
pub fn exact_wakeups() {
    #[cfg(target_os = "linux")]
    {
        // If the kernel refuses, its own slack stays, and the measured floor shows it.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}
