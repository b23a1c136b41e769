//! `fixed_rate`: a toy that shows what a mechanism of one's own takes.
//!
//! Source: none. Writes are let in at the rate of its one option, whatever the tree looks like.
//! 1. Every decision is this rate.
//! Threads and locks: called by the control tick only.

use super::Admission;
use crate::decision::Admit;
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::Signals;
use crate::smaller::Pick;
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::event::WaitCause;
use vlsm_core::{BytesPerSec, Result};

/// The rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FixedRateOptions {
    /// Bytes of keys and values let in per second.
    pub let_in: BytesPerSec,
}

impl Default for FixedRateOptions {
    fn default() -> Self {
        Self { let_in: BytesPerSec(32 << 20) }
    }
}

impl MechanismOptions for FixedRateOptions {
    fn check(&self) -> Result<()> {
        let slow = self.let_in >= BytesPerSec(1 << 10);
        all_hold([(slow, "fixed_rate.let_in", "must be at least 1 KB/s, or writes never end")])
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.let_in = pick.of(&[BytesPerSec(1 << 20), BytesPerSec(64 << 20)]);
    }
}

/// The admission `fixed_rate`.
#[derive(Debug)]
pub struct FixedRate {
    rate: BytesPerSec,
}

impl Mechanism for FixedRate {
    const WHAT: &'static str = "a toy: the rate of its option";
    type Options = FixedRateOptions;

    fn new(_: &TreeOptions, own: &FixedRateOptions) -> Result<Self> {
        Ok(Self { rate: own.let_in })
    }
}

impl Admission for FixedRate {
    fn name(&self) -> &'static str {
        "fixed_rate"
    }

    fn decide(&mut self, _: &Signals) -> Admit {
        Admit { writes: Some(self.rate), cause: Some(WaitCause::Admission), ..Admit::OPEN }
    }
}
