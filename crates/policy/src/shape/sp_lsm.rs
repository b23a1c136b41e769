//! `sp_lsm`: CruiseDB's tree without L0. Memtables are merged straight into L1.
//!
//! Source: "CruiseDB: An LSM-Tree Key-Value Store with Both Better Tail Throughput and Tail
//! Latency" (2021), §VI. There is no flush: a job that frees memory is a compaction into L1. Rules:
//! 1. memory→L1 takes all memtables that are ready, from the oldest on, and every table of L1 that
//!    they overlap. It is proposed once as many memtables are ready as other shapes have runs in L0
//!    (`l0_trigger`, at most half of the memtables), or once one memtable is wanted. One such job
//!    runs at a time, so that memtables are installed in the order of their age;
//! 2. the score of a level is the bytes that no job moves down ÷ its target. A level with a score
//!    of at least 1 gives single SSTs, the least overlap per byte first, several at once. The level
//!    with the highest score comes first;
//! 3. a level beyond `FAR` times its target comes before memory in the list. An L1 that large takes
//!    no merge in until its own jobs have reduced it;
//! 4. runs of L0 that another shape or an ingest has left go into L1 before anything else, all at
//!    once, from the oldest on. Memtables that overlap such a run wait for it;
//! 5. if a merge into L1 waits for a job out of L1, no further job out of L1 starts. Otherwise the
//!    merge might wait for ever.
//!
//! Readings:
//! - the paper does not say how many memtables go at once. It says that a level is reduced by the
//!   amount beyond its expected size, that memory is expected to be half full, and that memory
//!   "temporally stores more user requests". Its published code puts memtables in the place of L0's
//!   files, with L0's trigger. Here all memtables that are ready go at once, because each
//!   additional one saves a rewrite of L1. The longer a merge takes, the more memtables wait for
//!   the next one;
//! - the paper runs compactions in parallel. Two jobs out of one memory would both write most of
//!   L1, so these jobs run one after the other, beside jobs of deeper levels;
//! - in the paper the picker keeps the order across levels. Here a schedule that knows only the
//!   order of urgency (`fifo`) would start memory→L1 again and again, and L1, which conflicts with
//!   all of these jobs, would never have its turn. The second half of rule 3 prevents this under
//!   every schedule: it keeps L1 within `FAR` targets and what one merge brings in. The schedule
//!   `priority` keeps the order across levels.
//!
//! Debt is that of `tiered_l0`; there are no limits on L0. The chain is the memtables against L1,
//! then each level that would exceed target + overflow (for L1 also: rule 3's bound). Before the
//! merge itself can begin, only room in L1 and old runs of L0 must be waited for.
//!
//! Liveness. The job out of memory waits for three things. The jobs that it conflicts with end, and
//! rule 5 lets no others take their place. The runs of L0 go into L1, and only an ingest adds
//! another, because there is no flush. Room in L1 comes as well: an L1 that refuses a merge is
//! beyond its target, so it proposes jobs if L2 has room, and so on down to the last level, which
//! always has room. While L1 refuses, no merge into L1 is proposed, so rule 5 delays no job.
//!
//! Cost of one call: O(levels · 50 · log tables + overlapped tables).

use super::incremental::pressure;
use super::pick::{self, Context};
use super::room::{Rooms, towards};
use super::{CutRule, Shape, conflicts};
use crate::candidate::{Busy, Candidate, Candidates, Class, Inputs};
use crate::mechanism::{Mechanism, NoOptions};
use crate::signals::{Chain, Pressure, TreeFacts};
use crate::tree::TreeOptions;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, KeyRange, Place, Result, Run, Version, Violation};

/// The multiple of its target beyond which a level goes before memory (CruiseDB (2021), §VI.B).
const FAR: u64 = 5;

/// CruiseDB's tree.
#[derive(Debug)]
pub struct SpLsm {
    options: TreeOptions,
}

impl Mechanism for SpLsm {
    const WHAT: &'static str = "CruiseDB: no L0, memtables are merged straight into L1";
    type Options = NoOptions;

    fn new(tree: &TreeOptions, _: &NoOptions) -> Result<Self> {
        Ok(Self { options: tree.clone() })
    }
}

impl SpLsm {
    fn rooms(&self, version: &Version, busy: &Busy) -> Rooms {
        Rooms::new(version, busy, &self.options, self.options.growth)
    }

    /// Rule 1.
    fn out_of_memory(&self, context: &Context<'_>, rooms: &Rooms) -> Option<Candidate> {
        let Context { version, facts, busy, .. } = *context;
        if !facts.is_due(self.gathers()) || !takes_in(rooms) {
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
        if to_l1 || !takes_in(rooms) {
            return None;
        }
        let oldest = version.l0.iter().take_while(|run| !context.is_busy(run));
        let oldest = oldest.take(pick::RUNS_MAX);
        context.merge(pick::of_runs(oldest), 1, version.l0.len() as f64, |_| true)
    }

    /// The stages behind a merge that brings `arriving` bytes into L1.
    fn stages(&self, rooms: &Rooms, arriving: Bytes) -> Vec<(u8, Bytes)> {
        let allowed = self.options.overflow.or(self.options.debt_hard);
        rooms.stages(arriving, self.options.sst_max, |level, target| {
            let bound = allowed.map(|allowed| Bytes(target.0.saturating_add(allowed.0)));
            let size = (level == 1).then(|| far(target));
            [bound, size].into_iter().flatten().min()
        })
    }
}

/// Rule 3's bound.
fn far(target: Bytes) -> Bytes {
    Bytes(target.0.saturating_mul(FAR))
}

/// Whether a merge into L1 may start. L1 must not exceed its target by more than the overflow, and
/// it must not be so large that it goes before memory (rule 3).
fn takes_in(rooms: &Rooms) -> bool {
    rooms.allows(1, Bytes::ZERO)
        && rooms.target(1).is_none_or(|target| rooms.staying(1) <= far(target))
}

impl Shape for SpLsm {
    fn name(&self) -> &'static str {
        "sp_lsm"
    }

    fn gathers(&self) -> usize {
        let half = self.options.memtable_count / 2;
        self.options.l0_trigger.min(half).max(1)
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        let context = Context { version, facts, busy, options: &self.options };
        let rooms = self.rooms(version, busy);
        let l0 = self.out_of_l0(&context, &rooms);
        let memory = self.out_of_memory(&context, &rooms);
        let held = |candidate: &Candidate| !candidate.conflicts.is_empty();
        let waits = l0.as_ref().is_some_and(held) || memory.as_ref().is_some_and(held);
        let mut ranked = context.full_levels(&rooms, waits);
        let rest = ranked.split_off(ranked.partition_point(|(score, _)| *score > FAR as f64));
        let jobs = |ranked: pick::Ranked| ranked.into_iter().flat_map(|(_, jobs)| jobs);
        jobs(ranked).chain(l0).chain(memory).chain(jobs(rest)).collect()
    }

    fn cuts(&self, _: &Version, candidate: &Candidate) -> CutRule {
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
