//! *How fast* new bytes are let in.

pub mod cruise;
pub mod fixed;
pub mod gradual;
pub mod open;
pub mod slowdown_stop;
pub mod spring;

use crate::decision::Admit;
use crate::mechanism::registry;
use crate::signals::Signals;
use vlsm_core::Micros;

registry! {
    /// The options of every admission.
    AdmissionOptions of Admission:
    open = open::Open,
    slowdown_stop = slowdown_stop::SlowdownStop,
    cruise = cruise::Cruise,
    fixed = fixed::Fixed,
    spring = spring::Spring,
    gradual = gradual::Gradual,
}

/// Tells from the counters whether there are writers. Without writers no limit is needed, and no
/// worker is woken for one.
#[derive(Debug, Default)]
struct Writing {
    /// The number of writes at the last look.
    writes: u64,
    /// The time of the last look at which it had grown, or a writer waited.
    at: Option<Micros>,
}

impl Writing {
    /// Looks at the counters. Returns whether there was a write, or a writer that waited, within
    /// `time`.
    fn look(&mut self, signals: &Signals, time: Micros) -> bool {
        let (counters, now) = (&signals.counters, signals.now);
        if counters.writes > self.writes || counters.waiting_writers > 0 {
            self.at = Some(now);
        }
        self.writes = counters.writes;
        self.at.is_some_and(|at| now.saturating_sub(at) < time)
    }
}

/// *How fast*. It may keep state between calls; the time is an argument.
pub trait Admission: Send + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Whether it plans with the device's throughput, which then must be known.
    fn needs_device(&self) -> bool {
        false
    }

    /// Sets the rate of writes until the next call.
    fn decide(&mut self, signals: &Signals) -> Admit;
}
