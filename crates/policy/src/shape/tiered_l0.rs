//! `tiered_l0`: RocksDB's leveled compaction with its tiering step.
//!
//! Source: "vLSM: Low tail latency and I/O amplification in LSM-based KV stores" (2024), §3.1 and
//! Fig. 3(b); RocksDB's `LevelCompactionPicker` and `VersionStorageInfo::{ComputeCompactionScore,
//! EstimateCompactionBytesNeeded}`. Rules:
//! 1. a flush takes all memtables that are ready, oldest first, and never waits for L0;
//! 2. the score of L0 is max(runs ÷ trigger, bytes ÷ target of L1). The score of a level is the
//!    bytes that no job moves down ÷ its target. L0 and the levels with a score of at least 1
//!    propose jobs, the highest score first;
//! 3. L0→L1 takes every idle run, from the oldest on, and every table of L1 that these overlap. One
//!    such job runs at a time;
//! 4. while rule 3 has no job or its job must wait, at least four neighbouring idle runs may be
//!    merged within L0 (option `intra_l0`), the newest first, as long as the bytes per saved run do
//!    not grow. With `intra_l0_beside` this merge is always proposed, after that of rule 3, for a
//!    schedule that holds L0→L1 back (DLC's `delay = part`; DLC (2021), §4.1);
//! 5. if L0→L1 waits for a job out of L1, no further job out of L1 starts. Otherwise L0→L1 might
//!    wait for ever;
//! 6. deeper levels give single SSTs, the least overlap per byte first, several at once;
//! 7. with `merge_flushed` set, this number of neighbouring idle flushed runs may be merged at any
//!    time: the newest stretch of them. This candidate is the last of L0's, so that a schedule that
//!    keeps the order prefers rules 3 and 4 (DLC's `resume part`; DLC (2021), §5);
//! 8. with `follow_memtables` an SST has the size at which memtables are sealed at the moment, and
//!    the target of L1 is `l0_trigger` of these, whatever the options say of both. The targets of
//!    deeper levels follow from L1's. So a schedule that sets the size of memtables sets these
//!    sizes, too (ADOC's published tuner). A running job keeps the size with which it began;
//! 9. with `aligned` an SST ends where a table of the next level begins (`cuts.rs`), as in RocksDB
//!    since 7.8. The papers' RocksDB is older.
//!
//! Debt is the bytes that compaction owes, as RocksDB estimates them. It slows and stops writes.
//!
//! *Bounded levels*, which RocksDB does not have. With `overflow` set (vLSM's baselines: 64 MB, and
//! 0 for RocksDB-IO) a level never takes in more than fits within its target and the overflow,
//! except for an empty one:
//! 10. L0→L1 takes the oldest idle runs that fit into an empty L1, at least one. It waits until L1
//!     has room for them. Meanwhile L1 gives, also below its target: "to free enough space for the
//!     SSTs of L0" (§3.1);
//! 11. deeper levels give while they lack room for one SST, and no more than the next level has
//!     room for.
//!
//! Readings: the paper's text first moves L1 down and then flushes L0 into an empty L1. RocksDB
//! itself merges the two. So does this shape, with what is left in L1. For the chain L0 has the
//! bytes that its next job would take, and at least those of its trigger: the paper draws an L0 as
//! large as L1, which is 4 runs of 64 MB.
//!
//! Cost of one call: O(levels · 50 · log tables + overlapped tables).

use super::incremental::pressure;
use super::pick::{self, Context};
use super::room::Rooms;
use super::{CutRule, Shape};
use crate::candidate::{Busy, Candidate, Candidates, Class, Inputs, WithinL0};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Chain, Pressure, TreeFacts};
use crate::smaller::Pick;
use crate::tree::TreeOptions;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, KeyRange, Result, Run, RunOrigin, Table, Version, Violation};

/// Fewest runs worth a merge within L0 (RocksDB's `kMinFilesForIntraL0Compaction`).
const INTRA_L0_MIN: usize = 4;

/// The merges within L0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TieredOptions {
    /// Merge runs within L0 while L0→L1 is busy.
    pub intra_l0: bool,
    /// Propose merges within L0 also when L0→L1 could start.
    pub intra_l0_beside: bool,
    /// The number of flushed runs in L0 at which a merge of only these runs is proposed,
    /// independent of other rules (for DLC's `resume part`); 0 for never.
    pub merge_flushed: usize,
    /// SSTs and the target of L1 follow the size at which memtables are sealed (for ADOC), instead
    /// of `sst_max` and `l1_bytes`.
    pub follow_memtables: bool,
    /// SSTs end where a table of the next level begins.
    pub aligned: bool,
}

impl MechanismOptions for TieredOptions {
    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.intra_l0 = pick.of(&[true, false]);
        self.intra_l0_beside = self.intra_l0 && pick.of(&[true, false]);
        self.merge_flushed = pick.of(&[0, 2, 3]);
        self.follow_memtables = pick.of(&[false, false, true]);
        self.aligned = pick.of(&[false, true]);
    }
}

/// RocksDB.
#[derive(Debug, Clone)]
pub struct TieredL0 {
    options: TreeOptions,
    own: TieredOptions,
}

impl Mechanism for TieredL0 {
    const WHAT: &'static str = "RocksDB: all of L0 into L1 at once";
    type Options = TieredOptions;

    fn new(tree: &TreeOptions, own: &TieredOptions) -> Result<Self> {
        Ok(Self { options: tree.clone(), own: own.clone() })
    }
}

impl TieredL0 {
    /// Rule 8: the shape with the sizes that are in force.
    fn at(&self, facts: &TreeFacts) -> Cow<'_, Self> {
        if !self.own.follow_memtables {
            return Cow::Borrowed(self);
        }
        let mut shape = self.clone();
        shape.options.sst_max = facts.memtable_bytes;
        shape.options.l1_bytes = facts.memtable_bytes * self.options.l0_trigger as u64;
        Cow::Owned(shape)
    }

    fn rooms(&self, version: &Version, busy: &Busy) -> Rooms {
        Rooms::new(version, busy, &self.options, self.options.growth)
    }

    /// Rule 2: the score of these runs of L0.
    pub(super) fn l0_score(&self, runs: &[&Run], trigger: usize) -> f64 {
        let by_bytes = bytes_of(runs).as_f64() / self.options.l1_bytes.as_f64().max(1.0);
        (runs.len() as f64 / trigger.max(1) as f64).max(by_bytes)
    }

    /// The candidates, where L0's idle runs have this score.
    pub(super) fn ranked(
        &self,
        version: &Version,
        facts: &TreeFacts,
        busy: &Busy,
        l0_score: &dyn Fn(&[&Run]) -> f64,
    ) -> Candidates {
        let context = Context { version, facts, busy, options: &self.options };
        let mut list: Candidates = pick::flush(facts, busy, usize::MAX).into_iter().collect();
        let rooms = self.rooms(version, busy);
        let idle: Vec<&Run> = version.l0.iter().filter(|run| !context.is_busy(run)).collect();
        let score = l0_score(&idle);
        let down = self.next_down(&context, &rooms);
        let due = score >= 1.0 && self.options.overflow.is_some();
        let l1_need = if due { bytes_of(&down) } else { Bytes::ZERO };
        let l0 = self.out_of_l0(&context, &rooms, score, down);
        let l0_waits = l0.first().is_some_and(|candidate| !candidate.conflicts.is_empty());
        let mut ranked = vec![(score, l0)];
        let l1_beyond = if l0_waits { f64::INFINITY } else { 0.0 };
        ranked.extend(context.full_levels(&rooms, l1_beyond, l1_need));
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        list.extend(ranked.into_iter().flat_map(|(_, candidates)| candidates));
        list
    }

    /// The pressure, where L0 is due or not.
    pub(super) fn pressure_if(&self, version: &Version, l0_due: bool) -> Pressure {
        let rooms = self.rooms(version, &Busy::default());
        let debt = self.debt(version, &rooms, l0_due);
        pressure(version, &self.options, rooms.pressures(version.depth()), debt)
    }

    /// Rules 3 and 9: the runs that L0→L1 takes next; none while such a job runs.
    fn next_down<'a>(&self, context: &Context<'a>, rooms: &Rooms) -> Vec<&'a Run> {
        let Context { version, busy, .. } = *context;
        let to_l1 = busy
            .reservations
            .iter()
            .any(|held| held.candidate.frees == Class::L0 && held.candidate.output_level == 1);
        if to_l1 {
            return Vec::new();
        }
        let limit = rooms.limit(1).unwrap_or(Bytes(u64::MAX));
        let mut bytes = Bytes::ZERO;
        let oldest = version.l0.iter().take_while(|run| !context.is_busy(run));
        let fits = |run: &&Run| {
            let first = bytes == Bytes::ZERO;
            bytes += run.tables.bytes();
            first || bytes <= limit
        };
        oldest.take(pick::RUNS_MAX).take_while(fits).collect()
    }

    /// Rules 3, 4, 7 and 9: the candidates of L0. L0→L1 takes the runs `down`.
    fn out_of_l0(
        &self,
        context: &Context<'_>,
        rooms: &Rooms,
        score: f64,
        down: Vec<&Run>,
    ) -> Vec<Candidate> {
        if score < 1.0 {
            return Vec::new();
        }
        let mut list = Vec::new();
        let bounded = self.options.overflow.is_some();
        let more = if bounded { bytes_of(&down) } else { Bytes::ZERO };
        if rooms.allows(1, more) {
            // A larger table would be more than the room that deeper levels make for one.
            let movable = |table: &Table| !bounded || table.bytes <= self.options.sst_max;
            list.extend(context.merge(pick::of_runs(down), 1, score, movable));
        }
        let waits = list.first().is_none_or(|candidate| !candidate.conflicts.is_empty());
        if self.own.intra_l0 && (waits || self.own.intra_l0_beside) {
            list.extend(self.within_l0(context, score));
        }
        list.extend(self.flushed(context, score));
        list
    }

    /// Rule 4.
    fn within_l0(&self, context: &Context<'_>, score: f64) -> Option<Candidate> {
        let l0 = &context.version.l0;
        if l0.len() < self.options.l0_trigger + 2 {
            return None;
        }
        let limit = self.options.sst_max.0.saturating_mul(self.options.trivial_move_overlap);
        let (mut count, mut bytes, mut per_run_saved) = (0, 0u64, u64::MAX);
        for run in l0.iter().rev().take_while(|run| !context.is_busy(run)) {
            let more = bytes + run.tables.bytes().0;
            let saved = if count == 0 { u64::MAX } else { more / count as u64 };
            if count > 0 && (saved > per_run_saved || more > limit) {
                break;
            }
            (count, bytes, per_run_saved) = (count + 1, more, saved);
        }
        if count < INTRA_L0_MIN {
            return None;
        }
        merge_within(context, count, score)
    }

    /// Rule 7.
    fn flushed(&self, context: &Context<'_>, score: f64) -> Option<Candidate> {
        let least = self.own.merge_flushed;
        let flushed = |run: &&Run| run.origin == RunOrigin::Flush && !context.is_busy(run);
        let count = context.version.l0.iter().rev().take_while(flushed).count();
        // A merge of one run saves nothing.
        if least == 0 || count < least.max(2) {
            return None;
        }
        merge_within(context, count, score)
    }

    /// The bytes that compaction owes: all of L0 against L1 once L0 is due, and the merges that
    /// follow from it.
    fn debt(&self, version: &Version, rooms: &Rooms, due: bool) -> Bytes {
        let l0 = version.l0_bytes();
        let (out_of_l0, carried) = if due { (l0 + rooms.bytes(1), l0) } else { Default::default() };
        rooms.owed(out_of_l0, carried)
    }
}

/// The bytes of runs together.
fn bytes_of(runs: &[&Run]) -> Bytes {
    runs.iter().map(|run| run.tables.bytes()).sum()
}

/// The merge of the `count` newest runs of L0 into one.
fn merge_within(context: &Context<'_>, count: usize, score: f64) -> Option<Candidate> {
    let l0 = &context.version.l0;
    let tables = pick::of_runs(&l0[l0.len() - count.min(pick::RUNS_MAX)..]);
    let range = KeyRange::cover(tables.iter().map(|(_, table)| &table.range))?;
    let inputs = Inputs { memtables: Vec::new(), tables };
    let bytes = inputs.table_bytes();
    Some(Candidate {
        tree: context.facts.tree,
        frees: Class::L0,
        kind: JobKind::MergeWithin,
        inputs,
        output_level: 0,
        range,
        bytes_in: bytes,
        bytes_out: bytes,
        score,
        sets_cursor: None,
        conflicts: Vec::new(),
    })
}

impl Shape for TieredL0 {
    fn name(&self) -> &'static str {
        "tiered_l0"
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        let shape = self.at(facts);
        let trigger = shape.options.l0_trigger;
        shape.ranked(version, facts, busy, &|runs| shape.l0_score(runs, trigger))
    }

    fn within_l0(&self) -> WithinL0 {
        let flushed = (self.own.merge_flushed > 0).then_some(self.own.merge_flushed);
        WithinL0 { any: self.own.intra_l0 && self.own.intra_l0_beside, flushed }
    }

    fn cuts(&self, version: &Version, facts: &TreeFacts, candidate: &Candidate) -> CutRule {
        let sst = self.at(facts).options.sst_max;
        match candidate.output_level {
            0 => CutRule::Never,
            level if self.own.aligned && usize::from(level) < version.levels.len() => {
                CutRule::Aligned { sst, next_level: level + 1 }
            }
            _ => CutRule::Size { sst },
        }
    }

    fn pressure(&self, version: &Version, facts: &TreeFacts) -> Pressure {
        let shape = self.at(facts);
        let l0 = version.l0_bytes();
        let due = version.l0.len() >= shape.options.l0_trigger || l0 > shape.options.l1_bytes;
        shape.pressure_if(version, due)
    }

    /// The tiering step, then each level that would exceed its target by more than the allowed
    /// bytes.
    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain {
        let shape = self.at(facts);
        let rooms = shape.rooms(version, &Busy::default());
        let full = facts.memtable_bytes * self.options.l0_trigger as u64;
        let l0 = version.l0_bytes().max(full);
        // Rule 10: L1 is drained until these bytes fit.
        let limit = rooms.limit(1).unwrap_or(Bytes(u64::MAX));
        let l0 = l0.min(limit);
        let mut stages = vec![(0, l0 + rooms.bytes(1).min(limit.saturating_sub(l0)))];
        let allowed = self.options.overflow.or(self.options.debt_hard);
        stages.extend(rooms.stages(l0, shape.options.sst_max, |_, target| {
            allowed.map(|allowed| Bytes(target.0.saturating_add(allowed.0)))
        }));
        Chain { stages }
    }

    fn check(&self, version: &Version) -> std::result::Result<(), Violation> {
        version.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vlsm_core::{FileMeta, FileNumber, RunId, Seq, Tables};

    /// However large L0 has grown, the inputs of a job can be written to the manifest and read
    /// back.
    #[test]
    fn no_job_takes_more_runs_than_an_edit_may_be_about() {
        let run = |n: u64| {
            let mut file =
                FileMeta { number: FileNumber(n), bytes: Bytes(1), ..Default::default() };
            (file.smallest, file.largest) = ("a".into(), "b".into());
            (file.seq_min, file.seq_max) = (Seq(n), Seq(n));
            let tables = Tables::new(vec![Arc::new(Table::whole(Arc::new(file)))]);
            let (id, origin) = (RunId(n), RunOrigin::Flush);
            Run { id, origin, tables, seq_min: Seq(n), seq_max: Seq(n) }
        };
        let l0 = (1..=pick::RUNS_MAX as u64 + 5).map(run).collect();
        let version = Version { l0, ..Version::default() };
        let tree = TreeOptions { trivial_move_overlap: 1 << 20, ..TreeOptions::default() };
        let own = TieredOptions {
            intra_l0: true,
            intra_l0_beside: true,
            merge_flushed: 2,
            ..TieredOptions::default()
        };
        let shape = TieredL0::new(&tree, &own).expect("the options work");
        let found = shape.candidates(&version, &TreeFacts::default(), &Busy::default());
        let taken: Vec<usize> = found.iter().map(|job| job.inputs.tables.len()).collect();
        assert!(taken.len() >= 2 && taken.iter().all(|n| *n == pick::RUNS_MAX), "{taken:?}");
    }
}
