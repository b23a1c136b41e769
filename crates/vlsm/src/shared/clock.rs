//! The time by which values expire: the system's clock, except that it never runs backwards, even
//! if the system's clock is set back.
//!
//! So an expired value stays absent. While the store is open the largest time seen counts. Every
//! install and an orderly close record it in the manifest, and the next open begins there. If the
//! clock was ahead, time stands still until the system's clock reaches it: values expire that much
//! later, and no expired value reappears.
//!
//! Only a store with expiring values records the time.
//!
//! Threads and locks: atomics.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::Micros;
use vlsm_core::planted::{self, Bug};
use vlsm_disk::Env;

/// The clock of a store.
pub(crate) struct Clock {
    env: Arc<dyn Env>,
    /// The largest time seen, in microseconds since the Unix epoch.
    latest: AtomicU64,
    /// Whether there may be values that expire.
    in_use: AtomicBool,
}

impl Clock {
    /// A clock that is never before `latest`, the time in the manifest.
    pub fn new(env: &Arc<dyn Env>, latest: Micros) -> Self {
        let in_use = AtomicBool::new(latest > Micros::ZERO);
        Self { env: env.clone(), latest: AtomicU64::new(latest.0), in_use }
    }

    /// The time since the Unix epoch; never less than before.
    pub fn now(&self) -> Micros {
        let wall = u64::try_from(self.env.wall_clock().as_micros()).unwrap_or(u64::MAX);
        if planted::is(Bug::ClockFalls) {
            return Micros(wall);
        }
        Micros(self.latest.fetch_max(wall, Ordering::AcqRel).max(wall))
    }

    /// From here on the clock is never before `latest`, a time that another process has seen.
    pub fn raise(&self, latest: Micros) {
        self.latest.fetch_max(latest.0, Ordering::AcqRel);
    }

    /// The moment at which a value that is put now expires.
    pub fn moment_after(&self, ttl: Duration) -> Micros {
        self.note_use();
        let ttl = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        Micros(self.now().0.saturating_add(ttl))
    }

    /// Records that the store has values that expire.
    pub fn note_use(&self) {
        self.in_use.store(true, Ordering::Release);
    }

    /// The time to record in the manifest; none in a store without values that expire.
    pub fn to_record(&self) -> Option<Micros> {
        self.in_use.load(Ordering::Acquire).then(|| self.now())
    }
}
