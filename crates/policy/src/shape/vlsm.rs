//! `vlsm`: overlap-aware SSTs in L1, so that L1→L2 may grow by Φ without a wide compaction.
//!
//! Source: "vLSM: Low tail latency and I/O amplification in LSM-based KV stores" (2024), §4. L0,
//! flushes, chains and the room rule are those of `incremental.rs`. This shape adds:
//! 1. L0→L1 cuts its output by looking ahead at L2 (`cuts.rs`): a good vSST overlaps at most f of
//!    L2;
//! 2. L1→L2 takes good vSSTs until they make the room that is missing, or their sizes sum to S_M.
//!    It looks at up to 50 vSSTs from the compaction pointer on, and takes those with the best
//!    size ÷ overlapped bytes first. Neighbours become one candidate. A vSST without a chosen
//!    neighbour becomes a candidate of its own;
//! 3. if the good vSSTs among them do not suffice, the best poor ones fill up;
//! 4. L2 and below: SSTs of S_M, one at a time, least overlap first among up to 50;
//! 5. targets: L1, then Φ · L1, then f times the target above.
//!
//! Readings:
//! - L0 is compacted from `l0_trigger` (1) runs on. vLSM "does not have to wait for L0 to become
//!   entirely full" (§4.1); §4 can be read as if it began at L0's maximum. The maximum itself is
//!   not given;
//! - "until it frees space for an SST in L1 for the next SST" (§4.1): a run is merged into L1 only
//!   if L1 then stays within its target, and until then L1 gives. `incremental.rs` has the rule,
//!   the overflow and the alternative (`l1_limit`);
//! - "as many good vSSTs as necessary to free adequate space" (§4.2.1) and "a set of SSTs whose
//!   cumulative size equals" S_M (§4.2.2) are the same in a steady state, in which each run brings
//!   S_M. They differ when a part of the set is under way: only what is still missing is added, so
//!   a set that starts job by job becomes no larger and takes no more poor vSSTs;
//! - S_m is lost in the text, and so is how overlap is counted (`cuts.rs`);
//! - good vSSTs go by size ÷ overlapped bytes. The formula of §4.2.2 is lost too, but not what it
//!   is for: "the largest vSST(s) in size with less overlap".
//!
//! Deviations:
//! - rule 3 is ours. The paper says that poor vSSTs "will not be used during the next compaction",
//!   and that up to Φ = 32 there were always enough good ones (§4.2.1). With other keys there may
//!   be none, and L1 must be drained nevertheless;
//! - the 50 vSSTs of rule 2 are not random. They follow the compaction pointer, so that the same
//!   tree gives the same answer and each vSST has its turn;
//! - a run moves into L1 unchanged if L1 has nothing in its range and if the run is an SST such as
//!   rule 1 would cut: good, and of at least S_m bytes. RocksDB's limit on the overlap with the
//!   level after next applies to all trivial moves.
//!
//! Cost of one call: O(levels · 50 · log tables + overlapped tables of the window).

use super::cuts::{Grade, grade};
use super::incremental::Incremental;
use super::pick::Context;
pub use super::room::L1Limit;
use super::{CutRule, Overlap, Shape};
use crate::candidate::{Busy, Candidate, Candidates};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Chain, Pressure, TreeFacts};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, Place, Result, Table, Version, Violation};

/// The sizes of vSSTs (vLSM (2024), §4.2 and §6.3), and the limit of L1 (§4.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct VlsmOptions {
    /// S_m: least size of a vSST.
    pub sst_min: Bytes,
    /// Φ: growth factor from L1 to L2.
    pub phi: u64,
    /// The way in which the overlap of a vSST is counted. A good vSST overlaps at most f, the
    /// growth of the tree.
    pub overlap: Overlap,
    /// The bytes up to which L1 takes runs of L0 in: its `target`, as in the paper, or target and
    /// `overflow`. With the overflow runs wait less, and L1 stands at several targets.
    pub l1_limit: L1Limit,
}

impl Default for VlsmOptions {
    fn default() -> Self {
        let (overlap, l1_limit) = (Overlap::Count, L1Limit::Target);
        Self { sst_min: Bytes::mib(1), phi: 32, overlap, l1_limit }
    }
}

impl MechanismOptions for VlsmOptions {
    fn check(&self) -> Result<()> {
        all_hold([
            (self.sst_min.0 >= 1, "sst_min", "must be from 1 byte up to sst_max"),
            ((2..=1 << 20).contains(&self.phi), "phi", "must be from 2 to 1048576"),
        ])
    }

    fn scale(&mut self, by: Scale) {
        self.sst_min = by.bytes(self.sst_min);
    }

    fn shrink(&mut self, tree: &TreeOptions, pick: &mut Pick<'_>) {
        self.sst_min = tree.sst_max / pick.of(&[1, 4, 8]);
        self.phi = pick.of(&[2, 8, 32]);
        self.l1_limit = pick.of(&[L1Limit::Target, L1Limit::Overflow]);
    }
}

/// vLSM.
#[derive(Debug)]
pub struct Vlsm {
    tree: Incremental,
    own: VlsmOptions,
}

/// A vSST of L1 that may go to L2.
struct Vsst<'a> {
    grade: Grade,
    /// Overlapped bytes of L2 per byte of the vSST.
    cost: f64,
    table: &'a Arc<Table>,
}

impl Mechanism for Vlsm {
    const WHAT: &'static str = "vLSM: FIFO L0, overlap-aware SSTs in L1, large step from L1 to L2";
    type Options = VlsmOptions;

    fn new(tree: &TreeOptions, own: &VlsmOptions) -> Result<Self> {
        all_hold([(own.sst_min <= tree.sst_max, "sst_min", "must be from 1 byte up to sst_max")])?;
        let (options, l1_limit) = (tree.clone(), own.l1_limit);
        let tree = Incremental { options, l1_to_l2: own.phi, l1_limit };
        Ok(Self { tree, own: own.clone() })
    }
}

impl Vlsm {
    /// The grade of an SST of L1 against L2, by the chosen reading of overlap.
    fn grade(&self, version: &Version, table: &Table) -> Grade {
        let options = &self.tree.options;
        let max = options.growth as f64;
        grade(&table.range, table.bytes, version.level(2), self.own.overlap, max)
    }

    fn step(&self, context: &Context<'_>, level: u8, score: f64) -> Vec<Candidate> {
        match level {
            1 => self.out_of_l1(context),
            _ => context.singles(level, score, Bytes::ZERO, 1),
        }
    }

    /// Rules 2 and 3.
    fn out_of_l1(&self, context: &Context<'_>) -> Vec<Candidate> {
        let mut vssts: Vec<Vsst<'_>> = context
            .window(1)
            .map(|table| {
                let overlap = context.overlap(table, 2).as_f64();
                let cost = overlap / table.bytes.as_f64().max(1.0);
                Vsst { grade: self.grade(context.version, table), cost, table }
            })
            .collect();
        let poor = |vsst: &Vsst<'_>| vsst.grade == Grade::Poor;
        vssts.sort_by(|a, b| poor(a).cmp(&poor(b)).then(a.cost.total_cmp(&b.cost)));
        let quota = self.tree.missing(context, 1).min(self.tree.options.sst_max);
        let mut taken = Bytes::ZERO;
        let chosen: Vec<_> = vssts
            .into_iter()
            .take_while(|vsst| {
                let more = taken < quota;
                taken += vsst.table.bytes;
                more
            })
            .collect();
        let mut candidates: Vec<_> = groups(context.version, &chosen)
            .into_iter()
            .filter_map(|group| {
                let from = group.iter().map(|&table| (Place::Level(1), table.clone())).collect();
                let mut candidate = context.merge(from, 2, 0.0, |_| true)?;
                candidate.score = score(&candidate);
                candidate.conflicts.is_empty().then_some(candidate)
            })
            .collect();
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
        candidates
    }
}

/// Size ÷ overlapped bytes.
fn score(candidate: &Candidate) -> f64 {
    let bytes = |level| {
        let tables = candidate.inputs.tables.iter();
        let tables = tables.filter(move |(place, _)| place.level() == level);
        tables.map(|(_, table)| table.bytes).sum::<Bytes>().as_f64()
    };
    bytes(1) / bytes(2).max(1.0)
}

/// The chosen tables in groups of neighbours in L1.
fn groups<'a>(version: &Version, chosen: &[Vsst<'a>]) -> Vec<Vec<&'a Arc<Table>>> {
    let mut tables: Vec<_> = chosen.iter().map(|vsst| vsst.table).collect();
    tables.sort_by(|a, b| a.range.lo.cmp(&b.range.lo));
    let mut groups: Vec<Vec<&Arc<Table>>> = Vec::new();
    for table in tables {
        let follows = |last: &&Arc<Table>| {
            let mut from = version.level(1).starting_at(&last.range.lo);
            from.nth(1).is_some_and(|next| Arc::ptr_eq(next, table))
        };
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(follows) => group.push(table),
            _ => groups.push(vec![table]),
        }
    }
    groups
}

impl Shape for Vlsm {
    fn name(&self) -> &'static str {
        "vlsm"
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        let context = self.tree.context(version, facts, busy);
        let step = |context: &Context<'_>, level: u8, score: f64| self.step(context, level, score);
        self.tree.candidates(&context, &step, |table| {
            table.bytes >= self.own.sst_min && self.grade(version, table) == Grade::Good
        })
    }

    fn cuts(&self, _: &Version, _: &TreeFacts, candidate: &Candidate) -> CutRule {
        let options = &self.tree.options;
        match (candidate.kind, candidate.output_level) {
            (JobKind::Flush, _) => CutRule::Never,
            (_, 1) => CutRule::LookAhead {
                sst_min: self.own.sst_min,
                sst_max: options.sst_max,
                overlap_max: options.growth as f64,
                overlap: self.own.overlap,
                next_level: 2,
            },
            _ => CutRule::Size { sst: options.sst_max },
        }
    }

    fn pressure(&self, version: &Version, _: &TreeFacts) -> Pressure {
        self.tree.pressure(version)
    }

    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain {
        let busy = Busy::default();
        let context = self.tree.context(version, facts, &busy);
        let step = |context: &Context<'_>, level: u8, score: f64| self.step(context, level, score);
        self.tree.chain_behind_l0(&context, &step)
    }

    fn check(&self, version: &Version) -> std::result::Result<(), Violation> {
        version.check()
    }
}
