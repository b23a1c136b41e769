//! *What* must be merged: the shape of the tree.
//!
//! All shapes obey these rules, so that jobs can run in parallel ([`conflicts`]):
//! 1. a job out of level n over a range reads *all* tables of the output level in that range, so a
//!    job that writes there also reads there;
//! 2. two jobs never read the same part of a table, nor write into the same keys of one level.
//!    Hence a job that moves T out of level n and one that writes into level n at T's keys exclude
//!    each other: the second one would have to read T;
//! 3. of L0, a job into L1 takes an oldest-first prefix of the runs within its range; a merge
//!    within L0 takes runs that are neighbours by age. Of memtables a job takes the oldest ones,
//!    one job at a time; into L1 it takes them only where no run of L0 shares a key with them;
//! 4. a job may *jump*: its output level may lie more than one level below an input. No level
//!    between the two has a table that shares a key with that input, except for other inputs
//!    ([`Candidate::jumps_over`]), and no running job writes there into these keys
//!    ([`Candidate::collides`]). So the order of levels stays the order of age.

pub mod blsm;
pub mod cuts;
pub mod flsm;
mod guards;
mod incremental;
mod layers;
pub mod lsmi;
pub mod manual;
mod pick;
mod room;
pub mod sp_lsm;
pub mod tiered_l0;
pub mod triad;
pub mod vlsm;

use crate::candidate::{Busy, Candidate, Candidates, WithinL0};
use crate::mechanism::registry;
use crate::signals::{Chain, Pressure, TreeFacts};
use vlsm_core::{Bytes, JobId, Version, Violation};

registry! {
    /// The options of every shape.
    ShapeOptions of Shape:
    vlsm = vlsm::Vlsm,
    tiered_l0 = tiered_l0::TieredL0,
    lsmi = lsmi::Lsmi,
    sp_lsm = sp_lsm::SpLsm,
    triad = triad::Triad,
    flsm = flsm::Flsm,
    blsm = blsm::Blsm,
}

/// The running jobs that hold something the candidate needs (rule 2), in ascending order.
///
/// Cost: O(jobs · their inputs · the candidate's inputs).
#[must_use]
pub fn conflicts(busy: &Busy, candidate: &Candidate) -> Vec<JobId> {
    let held = busy.reservations.iter().filter(|held| held.candidate.collides(candidate));
    let mut jobs: Vec<JobId> = held.map(|held| held.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    jobs
}

/// The rule by which a job cuts its output into SSTs. No rule ever cuts inside one user key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CutRule {
    /// No cuts: one SST.
    Never,
    /// Cuts at this size.
    Size {
        /// SST size.
        sst: Bytes,
    },
    /// Cuts where a table of the next level begins, once three quarters of this size are written,
    /// and at the size itself (RocksDB since 7.8). So an SST shares no table of the next level with
    /// its neighbours, and is merged with one table less.
    Aligned {
        /// SST size.
        sst: Bytes,
        /// The level looked at: the output level + 1.
        next_level: u8,
    },
    /// Looks ahead at the next level (vLSM (2024), §4.2): closes an SST at `sst_max`, or once at
    /// least `sst_min` is written and one more key would take the overlap beyond `overlap_max`.
    LookAhead {
        /// S_m.
        sst_min: Bytes,
        /// S_M.
        sst_max: Bytes,
        /// f: the overlap that a good vSST may have at most.
        overlap_max: f64,
        /// The way in which overlap is counted.
        overlap: Overlap,
        /// The level looked at: the output level + 1.
        next_level: u8,
    },
    /// Cuts at guards (PebblesDB (2017), §3.4), and at this size between them.
    Guards {
        /// SST size.
        sst: Bytes,
        /// Bits of a key's hash that are zero if it is a guard.
        bits: u32,
        /// The first of the levels whose tables show known guards.
        from: u8,
    },
}

impl CutRule {
    /// The level it looks at, if it does.
    #[must_use]
    pub fn next_level(&self) -> Option<u8> {
        match self {
            Self::LookAhead { next_level, .. } | Self::Aligned { next_level, .. } => {
                Some(*next_level)
            }
            Self::Never | Self::Size { .. } | Self::Guards { .. } => None,
        }
    }
}

/// The two readings of a vSST's overlap with the next level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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

    /// Jobs worth doing now, flushes among them; ranked best first within each class, bounded in
    /// number.
    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates;

    /// The merges within L0 that it proposes while L0→L1 could start, too.
    fn within_l0(&self) -> WithinL0 {
        WithinL0::default()
    }

    /// The number of memtables of a tree that are gathered before they go out together. Fewer go
    /// when one is wanted.
    fn gathers(&self) -> usize {
        1
    }

    /// Whether SSTs that are written into L0 get a sketch of their keys
    /// ([`vlsm_core::FileMeta::sketch`]). Files of another origin, such as ingested ones, have
    /// none.
    fn sketches(&self) -> bool {
        false
    }

    /// The share of a memtable's keys that a flush may leave in memory because they are updated
    /// often; 0 for none.
    fn hot_keys(&self) -> f64 {
        0.0
    }

    /// Whether a flush leaves values in the WAL and writes only their places into L0, where that
    /// saves bytes.
    fn logs_values(&self) -> bool {
        false
    }

    /// The rule by which this candidate's output is cut into SSTs.
    fn cuts(&self, version: &Version, facts: &TreeFacts, candidate: &Candidate) -> CutRule;

    /// How close the tree is to its bounds.
    fn pressure(&self, version: &Version, facts: &TreeFacts) -> Pressure;

    /// Returns the compaction chain that a flush would wait for if L0 were full at this moment: the
    /// stages from L0 downwards, given the fill of the levels. Shapes are compared by the length
    /// and width of their chains (vLSM (2024), §2.3, Fig. 9).
    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain;

    /// Whether the tree is one that this shape may have made or may work on.
    ///
    /// # Errors
    /// The violated rule.
    fn check(&self, version: &Version) -> Result<(), Violation>;
}
