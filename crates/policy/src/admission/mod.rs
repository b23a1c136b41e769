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
