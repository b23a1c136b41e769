//! `blsm`: bLSM's components. C1 fills up, becomes C1′, and C1′ is merged into C2.
//!
//! Source: "bLSM: A General Purpose Log Structured Merge Tree" (2012), §4.1 and §4.2, and
//! its published code (`merger.cpp`, `blsm.cpp`, `mergeManager.cpp`). Memory is C0. L1 is C1, L2 is
//! C1′, L3 is C2, the last component. There is no flush and no L0. Rules:
//! 1. C0→C1 takes all memtables that are ready, from the oldest on, at most half of all, and every
//!    table of C1 that they overlap. It is proposed once `l0_trigger` memtables are ready (at most
//!    half of all), or one is wanted. One such job runs at a time. The half that it reads is C0′ of
//!    the paper, the other half is C0, which takes the writes;
//! 2. C1 that has reached its target becomes C1′ as soon as C1′ is empty: all of L1 is moved to L2,
//!    without any I/O. Until then nothing is merged into C1;
//! 3. C1′→C2 merges one SST of C1′ at a time with what it overlaps in C2, in the order of keys,
//!    until C1′ is empty. One such job runs at a time;
//! 4. the target of C1 is R · |C0|, where |C0| is half of all memtables and R = √(|C2| ÷ |C0|),
//!    which makes the bytes that both merges write the least. It is at least `l1_bytes`, because
//!    the published code demands an R of at least 3;
//! 5. runs of L0 that another shape or an ingest has left go into C1 before anything else, all at
//!    once. Memtables that overlap such a run wait for it.
//!
//! With more `levels` there are more components: each odd level has the C′ of its component below
//! it, and the last level is the last component. R is the root that makes all ratios equal, and the
//! target of each component is at least `growth` times the one above. If the last level is even,
//! the level above has no place for its C′. It gives single SSTs beyond its target in the order of
//! keys, and takes merges in up to two targets.
//!
//! Readings:
//! - a merge of the paper rewrites a component from its first key to its last one, and the other
//!   components appear in its place at the end. Here C1′→C2 is a sequence of jobs, each of which
//!   ends with an install. It is the same sweep over the keys in the same order, but the space of
//!   the inputs is freed on the way, and tables of C2 that nothing overlaps are not rewritten;
//! - R is computed by the paper's code when C1′→C2 ends, here from the sizes at any moment.
//!
//! Deviations:
//! - no snowshoveling (§4.2). In the paper C0→C1 takes entries out of C0 in the order of keys while
//!   writes add others behind and before it, so that a run is up to twice as long as C0, and C0
//!   empties smoothly. A memtable here is read as it was sealed, and it is freed as a whole. So C0
//!   needs twice the memory, as in the paper's scheduler without snowshoveling (§4.1, C0 and C0′).
//!   The admission `spring` sees the bytes that a running merge has already taken out;
//! - C0→C1 is one job over all keys of its memtables. It cannot be a sequence over ranges of keys,
//!   because a memtable is freed only as a whole;
//! - C2's Bloom filter and the other read paths of the paper (§3) are those of the store.
//!
//! `overflow` is not used: rule 2 bounds C1 by its target and one merge. Debt is all of C1′ with
//! what it overlaps in C2. The chain is memory against C1, then, if C1 is full, all of C1′.
//!
//! Liveness. C0→C1 waits for old runs of L0, which only an ingest adds, and for a C1 below its
//! target. A full C1 becomes C1′ once C1′ is empty, and C1′ always gives, because the last
//! component takes any merge in. Deeper components wait for each other in the same way. If a merge
//! into a level waits for a job out of it, no further job out of this level starts.
//!
//! Cost of one call: O(levels · log tables + overlapped tables + the tables that become C1′).

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

/// Larger targets would overflow when bytes are added.
const TARGET_MAX: u64 = u64::MAX / 4;

/// bLSM's tree.
#[derive(Debug)]
pub struct Blsm {
    options: TreeOptions,
}

impl Mechanism for Blsm {
    const WHAT: &'static str = "bLSM: C1 fills up and becomes C1', which is merged into C2 by keys";
    type Options = NoOptions;

    fn new(tree: &TreeOptions, _: &NoOptions) -> Result<Self> {
        Ok(Self { options: tree.clone() })
    }
}

/// The part of a level in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A component that becomes its C′ in the level below.
    Component,
    /// The C′ of the level above.
    Mergeable,
    /// A component without a place for its C′.
    Direct,
    /// The last component.
    Last,
}

impl Part {
    fn of(level: u8, last: u8) -> Self {
        match (level == last, level % 2, level + 1 == last) {
            (true, ..) => Self::Last,
            (false, 0, _) => Self::Mergeable,
            (false, _, true) => Self::Direct,
            (false, _, false) => Self::Component,
        }
    }
}

impl Blsm {
    /// Half of all memtables.
    fn half(&self) -> usize {
        (self.options.memtable_count / 2).max(1)
    }

    /// Rule 4. None for the last level.
    fn target(&self, version: &Version, level: u8) -> Option<Bytes> {
        let last = self.options.levels.max(version.depth());
        match Part::of(level, last) {
            Part::Last => return None,
            Part::Mergeable => return Some(Bytes::ZERO),
            Part::Component | Part::Direct => {}
        }
        let below = i32::from(last / 2 + 1);
        let place = i32::from(level / 2);
        let c0 = (self.options.memtable_bytes * self.half() as u64).as_f64();
        let ratio = (version.level(last).bytes().as_f64() / c0).powf(1.0 / f64::from(below));
        let least = self.options.l1_bytes.as_f64() * (self.options.growth as f64).powi(place);
        let target = (c0 * ratio.powi(place + 1)).max(least);
        Some(Bytes(target.min(TARGET_MAX as f64) as u64))
    }

    fn rooms(&self, version: &Version, busy: &Busy) -> Rooms {
        Rooms::with(version, busy, &self.options, |level| self.target(version, level))
    }

    /// Rule 1.
    fn out_of_memory(&self, context: &Context<'_>, rooms: &Rooms) -> Option<Candidate> {
        let Context { version, facts, busy, .. } = *context;
        if !facts.is_due(self.gathers()) || !takes_in(rooms, 1) {
            return None;
        }
        let memory = pick::flush(facts, busy, self.half())?;
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

    /// Rule 5.
    fn out_of_l0(&self, context: &Context<'_>, rooms: &Rooms) -> Option<Candidate> {
        let Context { version, busy, .. } = *context;
        let to_c1 = |held: &Candidate| held.frees == Class::L0 && held.output_level == 1;
        if busy.reservations.iter().any(|held| to_c1(&held.candidate)) || !takes_in(rooms, 1) {
            return None;
        }
        let oldest = version.l0.iter().take_while(|run| !context.is_busy(run));
        let oldest = oldest.take(pick::RUNS_MAX);
        context.merge(pick::of_runs(oldest), 1, version.l0.len() as f64, |_| true)
    }

    /// Rule 2: the move of a whole component to the place of its C′.
    fn hand_over(&self, context: &Context<'_>, rooms: &Rooms, level: u8) -> Option<Candidate> {
        let Context { version, facts, busy, .. } = *context;
        let score = self.score(rooms, level);
        if score < 1.0 || rooms.bytes(level + 1) > Bytes::ZERO {
            return None;
        }
        let tables = version.level(level).iter().take(pick::RUNS_MAX);
        let tables: Vec<_> = tables.map(|table| (Place::Level(level), table.clone())).collect();
        let mut candidate = Candidate {
            tree: facts.tree,
            frees: Class::Level(level),
            kind: JobKind::TrivialMove,
            range: KeyRange::cover(tables.iter().map(|(_, table)| &table.range))?,
            inputs: Inputs { memtables: Vec::new(), tables },
            output_level: level + 1,
            bytes_in: Bytes::ZERO,
            bytes_out: Bytes::ZERO,
            score,
            // The sweep begins with the first key.
            sets_cursor: Some((level + 1, None)),
            conflicts: Vec::new(),
        };
        candidate.conflicts = conflicts(busy, &candidate);
        Some(candidate)
    }

    /// Rule 3: the merge of the next SST.
    fn sweep(&self, context: &Context<'_>, rooms: &Rooms, level: u8) -> Option<Candidate> {
        let score = self.score(rooms, level);
        let owes = match Part::of(level, rooms.last()) {
            Part::Mergeable => rooms.staying(level) > Bytes::ZERO,
            _ => score >= 1.0,
        };
        let runs = context.busy.has_class(Class::Level(level));
        if !owes || runs || !takes_in(rooms, level + 1) {
            return None;
        }
        let next = context.window(level).next()?;
        context.merge(vec![(Place::Level(level), next.clone())], level + 1, score, |_| true)
    }

    /// Bytes of a component, or of its C′, as a share of the target.
    fn score(&self, rooms: &Rooms, level: u8) -> f64 {
        let own = rooms.target(level).filter(|target| *target > Bytes::ZERO);
        let target = own.or_else(|| rooms.target(level - 1));
        rooms.staying(level).as_f64() / target.unwrap_or_default().as_f64().max(1.0)
    }
}

/// Whether a merge into a component may start.
fn takes_in(rooms: &Rooms, level: u8) -> bool {
    let room = |target: Bytes| match Part::of(level, rooms.last()) {
        Part::Direct => rooms.bytes(level).0 < target.0.saturating_mul(2),
        _ => rooms.bytes(level) < target,
    };
    rooms.target(level).is_none_or(room)
}

impl Shape for Blsm {
    fn name(&self) -> &'static str {
        "blsm"
    }

    fn gathers(&self) -> usize {
        self.options.l0_trigger.min(self.half())
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        let context = Context { version, facts, busy, options: &self.options };
        let rooms = self.rooms(version, busy);
        let l0 = self.out_of_l0(&context, &rooms);
        let memory = self.out_of_memory(&context, &rooms);
        let held = |candidate: &Candidate| !candidate.conflicts.is_empty();
        let mut waits = l0.as_ref().is_some_and(held) || memory.as_ref().is_some_and(held);
        let (mut moves, mut sweeps) = (Vec::new(), Vec::new());
        for level in 1..=version.depth() {
            match Part::of(level, rooms.last()) {
                Part::Last => break,
                Part::Component => {
                    moves.extend(self.hand_over(&context, &rooms, level));
                    waits = false;
                }
                Part::Mergeable | Part::Direct if waits => waits = false,
                Part::Mergeable | Part::Direct => {
                    let sweep = self.sweep(&context, &rooms, level);
                    waits = sweep.as_ref().is_some_and(held);
                    sweeps.extend(sweep);
                }
            }
        }
        moves.into_iter().chain(l0).chain(memory).chain(sweeps).collect()
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

    /// Memory takes the place of L0: the sealed memtables, or a full one, against C1.
    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain {
        let rooms = self.rooms(version, &Busy::default());
        let sealed: Bytes = facts.memtables.iter().map(|memtable| memtable.bytes).sum();
        let arriving = version.l0_bytes() + sealed.max(facts.memtable_bytes);
        let mut stages = vec![(0, arriving + rooms.bytes(1))];
        let mut level = 1;
        while level < rooms.last() && !takes_in(&rooms, level) {
            let gives = match Part::of(level, rooms.last()) {
                Part::Direct => level,
                _ => level + 1,
            };
            if rooms.bytes(gives) > Bytes::ZERO {
                stages.push((gives, rooms.bytes(gives) + rooms.bytes(gives + 1)));
            }
            level = gives + 1;
        }
        Chain { stages }
    }

    fn check(&self, version: &Version) -> std::result::Result<(), Violation> {
        version.check()
    }
}
