//! *When* each job runs, and with how much bandwidth.

pub mod fifo;

use crate::candidate::Candidate;
use crate::decision::Grants;
use crate::registry::Entry;
use crate::signals::{Running, Signals};

/// All schedules.
pub static REGISTRY: &[Entry<dyn Schedule>] = &[Entry {
    name: "fifo",
    what: "flushes at once, compactions first come first served",
    make: |options| Box::new(fifo::Fifo::new(options)),
}];

/// *When*. May keep state between calls; is told the time and never asks for it.
pub trait Schedule: Send + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Whether it plans with what the device can do, which then has to be known.
    fn needs_device(&self) -> bool {
        false
    }

    /// Which candidates start now, and what each running job may do until the next call.
    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants;
}
