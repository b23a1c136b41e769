//! `open`: nothing is held back until memory is full. Writers wait only for memory, so that the
//! effects of the other axes can be measured alone.

use super::Admission;
use crate::decision::Admit;
use crate::options::PolicyOptions;
use crate::signals::Signals;

/// Lets everything in.
#[derive(Debug, Default)]
pub struct Open;

impl Open {
    /// There is nothing to set.
    #[must_use]
    pub fn new(_: &PolicyOptions) -> Self {
        Self
    }
}

impl Admission for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn decide(&mut self, _: &Signals) -> Admit {
        Admit::OPEN
    }
}
