//! *What* must be merged: the shape of the tree.

use crate::candidate::{Busy, Candidate, Candidates};
use crate::signals::{Chain, Pressure, TreeFacts};
use vlsm_core::{Bytes, Version, Violation};

/// Where a job cuts its output into SSTs. No rule ever cuts inside one user key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CutRule {
    /// At this size.
    Size {
        /// SST size.
        sst: Bytes,
    },
    /// By looking ahead at the next level (vlsm.txt §4.2): close at `sst_max`, or once at least `sst_min` is
    /// written and one more key would take the overlap beyond `overlap_max`.
    LookAhead {
        /// S_m.
        sst_min: Bytes,
        /// S_M.
        sst_max: Bytes,
        /// f: the overlap that a good vSST may have at most.
        overlap_max: f64,
        /// How overlap is counted.
        overlap: Overlap,
        /// The level looked at: the output level + 1.
        next_level: u8,
    },
}

/// The two readings of a vSST's overlap with the next level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Bytes of the overlapped SSTs ÷ bytes of the vSST, as the paper's text defines it.
    Ratio,
    /// Number of overlapped SSTs.
    #[default]
    Count,
}

/// *What* to merge. Stateless over its arguments: the same inputs give the same answer.
pub trait Shape: Send + Sync + std::fmt::Debug {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// Jobs worth doing now, flushes among them; ranked best first within each class, bounded in number.
    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates;

    /// Where this candidate's output is cut.
    fn cuts(&self, version: &Version, candidate: &Candidate) -> CutRule;

    /// How close the tree is to its bounds.
    fn pressure(&self, version: &Version, facts: &TreeFacts) -> Pressure;

    /// What a flush would have to wait for at this moment.
    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain;

    /// Whether the tree is one that this shape may have made or may work on.
    ///
    /// # Errors
    /// The violated rule.
    fn check(&self, version: &Version) -> Result<(), Violation>;
}
