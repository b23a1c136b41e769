//! `vlsm`: overlap-aware SSTs in L1, so that L1→L2 may grow by Φ without a wide compaction.
//!
//! Source: "vLSM: Low tail latency and I/O amplification in LSM-based KV stores" (2024), §4. L0,
//! flushes, chains and the room rule are those of `incremental.rs`. This shape adds:
//! 1. L0→L1 cuts its output by looking ahead at L2 (`cuts.rs`): a good vSST overlaps at most f of
//!    L2;
//! 2. L1→L2 takes good vSSTs until their sizes sum to S_M. It looks at up to 50 vSSTs from the
//!    compaction pointer on, and takes those with the best size ÷ overlapped bytes first.
//!    Neighbours become one candidate. A vSST without a chosen neighbour becomes a candidate of its
//!    own;
//! 3. if the good vSSTs do not suffice, the best poor ones fill up;
//! 4. L2 and below: SSTs of S_M, one at a time, least overlap first among up to 50;
//! 5. targets: L1, then Φ · L1, then f times the target above.
//!
//! Readings and deviations:
//! - the paper begins to compact when L0 is at its maximum. We compact whenever there are
//!   `l0_trigger` (1) runs, because waiting saves nothing when runs go one by one;
//! - rule 3 is ours. The paper says that poor vSSTs "will not be used during the next compaction",
//!   but progress must not depend on the keys;
//! - "free space for the next SST": L1 gives while it lacks room for one more run within its
//!   target;
//! - "overflow (debt) 64 MB" is per level: merges into a level wait when it would exceed its target
//!   by more;
//! - a run moves into L1 unchanged if L1 has nothing in its range and if the run is an SST such as
//!   rule 1 would cut: good, and of at least S_m bytes. RocksDB's limit on the overlap with the
//!   level after next applies to all trivial moves.
//!
//! Cost of one call: O(levels · 50 · log tables + overlapped tables of the window).

use super::cuts::{Grade, grade};
use super::incremental::Incremental;
use super::pick::Context;
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

/// The sizes of vSSTs (vLSM (2024), §4.2 and §6.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VlsmOptions {
    /// S_m: least size of a vSST.
    pub sst_min: Bytes,
    /// Φ: growth factor from L1 to L2.
    pub phi: u64,
    /// How the overlap of a vSST is counted. A good vSST overlaps at most f, the growth of the
    /// tree.
    pub overlap: Overlap,
}

impl Default for VlsmOptions {
    fn default() -> Self {
        Self { sst_min: Bytes::mib(1), phi: 32, overlap: Overlap::Count }
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
        let tree = Incremental { options: tree.clone(), l1_to_l2: own.phi };
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
        let mut taken = Bytes::ZERO;
        let chosen: Vec<_> = vssts
            .into_iter()
            .take_while(|vsst| {
                let more = taken < self.tree.options.sst_max;
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

    fn cuts(&self, _: &Version, candidate: &Candidate) -> CutRule {
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
