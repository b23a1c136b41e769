//! `open`: nothing is held back until memory is full. Writers wait only for memory, so that the
//! effects of the other axes can be measured alone.

use super::Admission;
use crate::decision::Admit;
use crate::mechanism::{Mechanism, NoOptions};
use crate::signals::Signals;
use crate::tree::TreeOptions;
use vlsm_core::Result;

/// Lets everything in.
#[derive(Debug, Default)]
pub struct Open;

impl Mechanism for Open {
    const WHAT: &'static str = "nothing is held back until memory is full";
    type Options = NoOptions;

    fn new(_: &TreeOptions, _: &NoOptions) -> Result<Self> {
        Ok(Self)
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
