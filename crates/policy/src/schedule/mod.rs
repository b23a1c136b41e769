//! *When* each job runs, and with how much bandwidth.

pub mod fifo;
pub mod priority;

use crate::candidate::Candidate;
use crate::decision::Grants;
use crate::registry::Entry;
use crate::signals::{Running, Signals};

/// All schedules.
pub static REGISTRY: &[Entry<dyn Schedule>] = &[
    Entry {
        name: "fifo",
        what: "flushes at once, compactions first come first served",
        make: |options| Box::new(fifo::Fifo::new(options)),
    },
    Entry {
        name: "priority",
        what: "CruiseDB: what frees memory first, the rest paused meanwhile",
        make: |options| Box::new(priority::Priority::new(options)),
    },
];

/// *When*. May keep state between calls; is told the time and never asks for it.
pub trait Schedule: Send + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Which candidates start now, and what each running job may do until the next call.
    fn decide(
        &mut self,
        signals: &Signals,
        candidates: &[&Candidate],
        running: &[Running],
    ) -> Grants;
}
