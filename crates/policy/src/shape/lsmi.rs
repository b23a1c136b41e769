//! `lsmi`: incremental compaction without tiering, the strawman of the vLSM paper.
//!
//! Source: "vLSM: Low tail latency and I/O amplification in LSM-based KV stores" (2024), §2.2,
//! §2.3, §3.2 and Fig. 3(a). L0, flushes, chains and the room rule are those of `incremental.rs`:
//! the oldest run is merged with every table of L1 that it overlaps. This shape adds:
//! 1. every SST has the fixed size S_M;
//! 2. every level gives single SSTs, least overlap first among up to 50;
//! 3. targets: L1 (256 MB), then f times the target above. The step L0→L1 has a factor of 4 with
//!    SSTs of 64 MB and of 32 with SSTs of 8 MB, and its amplification grows with the factor.
//!
//! Readings:
//! - the limit of L1 is its target, as in `vlsm`. §2.3 frees space in a full level before anything
//!   is merged into it, and §2.2 does so by single SSTs. Debt is another strategy (§3.3), which
//!   Fig. 3(c) adds to the tiered design. The 64 MB that §5 gives all systems hold from L2 on;
//! - the paper does not say when L0 is compacted. Here it is as soon as there is one run, as in
//!   `vlsm`.

use super::incremental::Incremental;
use super::pick::Context;
use super::room::L1Limit;
use super::{CutRule, Shape};
use crate::candidate::{Busy, Candidate, Candidates};
use crate::mechanism::{Mechanism, NoOptions};
use crate::signals::{Chain, Pressure, TreeFacts};
use crate::tree::TreeOptions;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, Result, Version, Violation};

/// Incremental compaction, no tiering.
#[derive(Debug)]
pub struct Lsmi {
    tree: Incremental,
}

impl Mechanism for Lsmi {
    const WHAT: &'static str = "incremental, no tiering: one run of L0 against all of L1";
    type Options = NoOptions;

    fn new(tree: &TreeOptions, _: &NoOptions) -> Result<Self> {
        let (options, l1_limit) = (tree.clone(), L1Limit::Target);
        Ok(Self { tree: Incremental { options, l1_to_l2: tree.growth, l1_limit } })
    }
}

/// Rule 2.
fn step(context: &Context<'_>, level: u8, score: f64) -> Vec<Candidate> {
    context.singles(level, score, Bytes::ZERO, 1)
}

impl Shape for Lsmi {
    fn name(&self) -> &'static str {
        "lsmi"
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        self.tree.candidates(&self.tree.context(version, facts, busy), &step, |_| true)
    }

    fn cuts(&self, _: &Version, _: &TreeFacts, candidate: &Candidate) -> CutRule {
        match candidate.kind {
            JobKind::Flush => CutRule::Never,
            _ => CutRule::Size { sst: self.tree.options.sst_max },
        }
    }

    fn pressure(&self, version: &Version, _: &TreeFacts) -> Pressure {
        self.tree.pressure(version)
    }

    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain {
        let busy = Busy::default();
        self.tree.chain_behind_l0(&self.tree.context(version, facts, &busy), &step)
    }

    fn check(&self, version: &Version) -> std::result::Result<(), Violation> {
        version.check()
    }
}
