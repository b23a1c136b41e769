//! `sp_lsm`: CruiseDB's tree without L0. Memtables are merged straight into L1.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §VI. There is no flush: a job that frees memory is a compaction into L1. Rules:
//! 1. memory→L1 takes all memtables that are ready, from the oldest on, and every table of L1 that
//!    they overlap. It is proposed once `gather` memtables are ready, or once one is wanted. One
//!    such job runs at a time, so that memtables are installed in the order of their age;
//! 2. the score of a level is the bytes that no job moves down ÷ its target. A level with a score
//!    of at least 1 gives single SSTs, the least overlap per byte first, several at once. The score
//!    of memory is its sealed bytes ÷ half of its buffer, which is the admission's aim;
//! 3. the list is in the order of scores, the highest first: "the level whose practical size is the
//!    farthest away from the expected one is chosen first". Memory's score is at most 2, so a level
//!    beyond 5 times its target goes before memory, as §VI.B says. With `order = five_times`,
//!    memory goes before every level up to that size;
//! 4. runs of L0 that another shape or an ingest has left go into L1 before anything else, all at
//!    once, from the oldest on. Memtables that overlap such a run wait for it;
//! 5. while a merge into L1 that goes before L1 waits for a job out of L1, no further job out of L1
//!    is proposed. Otherwise the merge might wait for ever.
//!
//! Readings:
//! - §VI.B gives the order of tasks in two sentences, of the farthest level and of 5 times. The
//!   published code orders by RocksDB's scores, with memtables in the place of L0's files. So rule
//!   3 is by scores, and both sentences hold;
//! - where the published code estimates the rate, level 0 scores by files ÷ 4, so twelve memtables
//!   in their place would score 3. Our score is 1 at the watermark that the admission aims at;
//! - the paper does not say how many memtables go at once. All that are ready go, because each
//!   additional one saves a rewrite of L1. The longer a merge takes, the more memtables wait for
//!   the next one. The published code starts at 4 (RocksDB's trigger): `gather = 4`;
//! - the paper runs compactions in parallel. Two jobs out of one memory would both write most of
//!   L1, so these jobs run one after the other, beside jobs of deeper levels.
//!
//! The list is only a proposed order. A schedule that starts jobs out of memory whenever it can
//! (`fifo`) holds L1 back while memtables are ready, and L1 grows. `priority` keeps the order.
//!
//! Debt is that of `tiered_l0`; there are no limits on L0. The chain is the memtables against L1,
//! then each level that would exceed target + overflow. L1 is a stage, too, if it would go before a
//! full memory.
//!
//! Liveness. The job out of memory is always proposed while L1 has room within its overflow. It
//! waits for jobs that it conflicts with, which end, for the runs of L0, to which only an ingest
//! adds, and for an L1 that goes before it. Each job of that L1 lowers its score, and nothing is
//! merged into it meanwhile. If L2 has no room for these jobs, they are not proposed, and memory
//! need not wait.
//!
//! Cost of one call: O(levels · 50 · log tables + overlapped tables).

use super::incremental::pressure;
use super::pick::{self, Context};
use super::room::{Rooms, towards};
use super::{CutRule, Shape, conflicts};
use crate::candidate::{Busy, Candidate, Candidates, Class, Inputs};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Chain, Pressure, TreeFacts};
use crate::smaller::Pick;
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, KeyRange, Place, Result, Run, Version, Violation};

/// The multiple of its target beyond which a level goes before memory (CruiseDB (2021), §VI.B).
const FAR: u64 = 5;
/// The score of a full memory.
const FULL: f64 = 2.0;

/// The place of memory among the levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Order {
    /// Memory is ranked by its score.
    #[default]
    Score,
    /// Memory comes before every level of up to five times its target.
    FiveTimes,
}

/// The choice of the next task in CruiseDB's tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SpLsmOptions {
    /// The number of memtables that are gathered before they are merged into L1.
    pub gather: usize,
    /// The place of memory among the levels.
    pub order: Order,
}

impl Default for SpLsmOptions {
    fn default() -> Self {
        Self { gather: 1, order: Order::default() }
    }
}

impl MechanismOptions for SpLsmOptions {
    fn check(&self) -> Result<()> {
        let why = "must be from 1 to 63: fewer memtables are sealed at a time";
        all_hold([((1..=63).contains(&self.gather), "sp_lsm.gather", why)])
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.gather = pick.of(&[1, 1, 4]);
        self.order = pick.of(&[Order::Score, Order::FiveTimes]);
    }
}

/// CruiseDB's tree.
#[derive(Debug)]
pub struct SpLsm {
    options: TreeOptions,
    own: SpLsmOptions,
}

impl Mechanism for SpLsm {
    const WHAT: &'static str = "CruiseDB: no L0, memtables are merged straight into L1";
    type Options = SpLsmOptions;

    fn new(tree: &TreeOptions, own: &SpLsmOptions) -> Result<Self> {
        Ok(Self { options: tree.clone(), own: own.clone() })
    }
}

impl SpLsm {
    fn rooms(&self, version: &Version, busy: &Busy) -> Rooms {
        Rooms::new(version, busy, &self.options, self.options.growth)
    }

    /// Rule 1.
    fn out_of_memory(&self, context: &Context<'_>, rooms: &Rooms) -> Option<Candidate> {
        let Context { version, facts, busy, .. } = *context;
        if !facts.is_due(self.gathers()) || !rooms.allows(1, Bytes::ZERO) {
            return None;
        }
        let memory = pick::flush(facts, busy, usize::MAX)?;
        let overlaps = |run: &Run| run.tables.overlapping(&memory.range).next().is_some();
        if version.l0.iter().any(overlaps) {
            return None;
        }
        let below: Vec<_> = version.level(1).overlapping(&memory.range).cloned().collect();
        let ranges = below.iter().map(|table| &table.range);
        let range = KeyRange::cover(std::iter::once(&memory.range).chain(ranges))?;
        let tables = below.into_iter().map(|table| (Place::Level(1), table)).collect();
        let inputs = Inputs { memtables: memory.inputs.memtables, tables };
        let bytes = memory.bytes_in + inputs.table_bytes();
        let mut candidate = Candidate {
            kind: JobKind::Compact,
            inputs,
            output_level: 1,
            range,
            bytes_in: bytes,
            bytes_out: bytes,
            score: self.score(facts),
            ..memory
        };
        candidate.conflicts = conflicts(busy, &candidate);
        Some(candidate)
    }

    /// Rule 4.
    fn out_of_l0(&self, context: &Context<'_>, rooms: &Rooms) -> Option<Candidate> {
        let Context { version, busy, .. } = *context;
        let to_l1 = busy
            .reservations
            .iter()
            .any(|held| held.candidate.frees == Class::L0 && held.candidate.output_level == 1);
        if to_l1 || !rooms.allows(1, Bytes::ZERO) {
            return None;
        }
        let oldest = version.l0.iter().take_while(|run| !context.is_busy(run));
        let oldest = oldest.take(pick::RUNS_MAX);
        context.merge(pick::of_runs(oldest), 1, version.l0.len() as f64, |_| true)
    }

    /// The score of memory (rules 2 and 3).
    fn score(&self, facts: &TreeFacts) -> f64 {
        let sealed: Bytes = facts.memtables.iter().map(|memtable| memtable.bytes).sum();
        let buffer = facts.memtable_bytes.as_f64() * self.options.memtable_count as f64;
        match self.own.order {
            Order::Score => (sealed.as_f64() / (buffer / 2.0).max(1.0)).min(FULL),
            Order::FiveTimes => FAR as f64,
        }
    }

    /// The stages behind a merge that brings `arriving` bytes into L1.
    fn stages(&self, rooms: &Rooms, arriving: Bytes) -> Vec<(u8, Bytes)> {
        let allowed = self.options.overflow.or(self.options.debt_hard);
        let before_memory = match self.own.order {
            Order::Score => FULL,
            Order::FiveTimes => FAR as f64,
        };
        rooms.stages(arriving, self.options.sst_max, |level, target| {
            let bound = allowed.map(|allowed| Bytes(target.0.saturating_add(allowed.0)));
            let size = (level == 1).then(|| Bytes((target.as_f64() * before_memory) as u64));
            [bound, size].into_iter().flatten().min()
        })
    }
}

impl Shape for SpLsm {
    fn name(&self) -> &'static str {
        "sp_lsm"
    }

    fn gathers(&self) -> usize {
        // One takes writes while the others are gathered.
        self.own.gather.min(self.options.memtable_count - 1)
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        let context = Context { version, facts, busy, options: &self.options };
        let rooms = self.rooms(version, busy);
        let l0 = self.out_of_l0(&context, &rooms);
        let memory = self.out_of_memory(&context, &rooms);
        let into_l1 = l0.iter().map(|job| (job, f64::INFINITY));
        let into_l1 = into_l1.chain(memory.iter().map(|job| (job, job.score)));
        let waiting = into_l1.filter(|(job, _)| !job.conflicts.is_empty());
        let first = waiting.map(|(_, score)| score).fold(0.0, f64::max);
        let mut ranked = context.full_levels(&rooms, first, Bytes::ZERO);
        let after = memory.as_ref().map_or(0.0, |memory| memory.score);
        let rest = ranked.split_off(ranked.partition_point(|(score, _)| *score > after));
        let jobs = |ranked: pick::Ranked| ranked.into_iter().flat_map(|(_, jobs)| jobs);
        l0.into_iter().chain(jobs(ranked)).chain(memory).chain(jobs(rest)).collect()
    }

    fn cuts(&self, _: &Version, _: &TreeFacts, candidate: &Candidate) -> CutRule {
        match candidate.output_level {
            0 => CutRule::Never,
            _ => CutRule::Size { sst: self.options.sst_max },
        }
    }

    fn pressure(&self, version: &Version, _: &TreeFacts) -> Pressure {
        let rooms = self.rooms(version, &Busy::default());
        let l0 = version.l0_bytes();
        let out_of_l0 = if l0 > Bytes::ZERO { l0 + rooms.bytes(1) } else { Bytes::ZERO };
        let debt = rooms.owed(out_of_l0, l0);
        Pressure {
            slowdown: towards(debt, self.options.debt_soft),
            stop: towards(debt, self.options.debt_hard),
            by_l0: false,
            ..pressure(version, &self.options, rooms.pressures(version.depth()), debt)
        }
    }

    /// Memory takes the place of L0: the sealed memtables, or a full one, against L1.
    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain {
        let rooms = self.rooms(version, &Busy::default());
        let sealed: Bytes = facts.memtables.iter().map(|memtable| memtable.bytes).sum();
        let arriving = version.l0_bytes() + sealed.max(facts.memtable_bytes);
        let mut stages = vec![(0, arriving + rooms.bytes(1))];
        stages.extend(self.stages(&rooms, arriving));
        Chain { stages }
    }

    fn check(&self, version: &Version) -> std::result::Result<(), Violation> {
        version.check()
    }
}
