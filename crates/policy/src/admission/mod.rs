//! *How fast* new bytes are let in.

use crate::decision::Admit;
use crate::signals::Signals;

/// *How fast*. May keep state between calls; is told the time and never asks for it.
pub trait Admission: Send + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// What is let in until the next call.
    fn decide(&mut self, signals: &Signals) -> Admit;
}
