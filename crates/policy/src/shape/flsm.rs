//! `flsm`: a fragmented LSM-tree, PebblesDB's. A compaction appends to the next level and does not
//! rewrite it.
//!
//! Source: "PebblesDB: Building Key-Value Stores using Fragmented Log-Structured Merge Trees"
//! (2017), §3 and §4; its published code. A level is divided by guards (`guards.rs`). Between two
//! guards it may hold several runs that overlap.
//!
//! The levels of our trees are single runs. So a *guarded level* is a group of `guard_runs`
//! neighbouring levels, its *layers*: the first guarded level is L1 to L`guard_runs`, and so on. A
//! newer run lies in a higher layer, so the order of levels is the order of age, as everywhere. The
//! *last level* follows the guarded levels and is a single run (`layers.rs`). *The tables of a
//! guard* are tables of one guarded level that overlap each other, directly or through others.
//! Guards divide the level at known keys, so these tables lie between two guards, and often between
//! closer keys. Rules:
//! 1. a flush needs an L0 slot: fewer than `l0_max` runs. One memtable becomes one run;
//! 2. L0 gives when it has `l0_trigger` idle runs: all of them from the oldest on are merged and
//!    appended to the first guarded level. If it has no room for all, the oldest run goes alone.
//!    One such job runs at a time;
//! 3. a guard gives when it has `guard_trigger` runs: a table of it lies that many layers above the
//!    bottom layer. All tables of the guard are merged and appended to the next level. Levels
//!    propose up to four such jobs each, from the compaction pointer of the layer on;
//! 4. to append means: the output is cut at the guards of the next level, and at `sst_max` between
//!    them. It goes into the lowest layer such that this layer and those above it are vacant in the
//!    range of the job. Without a vacant top layer there is no room, and the job is not proposed;
//! 5. into the last level tables are merged with what they overlap;
//! 6. if that would read more than `rewrite_ratio` times the bytes of the guard, the tables are
//!    merged into the bottom layer of their own level instead;
//! 7. a table of a guard that would give sinks first, if a layer below it is vacant in its range: a
//!    trivial move into the lowest one that can be reached through vacant layers. Tables below it
//!    sink before it;
//! 8. a guard of more bytes than one job may merge (`trivial_move_overlap` · `sst_max`), or one
//!    whose tables are not all found within a few searches, gives a single table: one of its
//!    oldest, below which no other lies.
//!
//! Source of the rules: 2 to 4 are §3.4 ("Compaction"): the tables of a guard are merged, and the
//! result is partitioned by the guards of the next level and attached to them. 5 and 6 are the two
//! exceptions to "no rewrite" there: the last level, and the level above it when the merge into the
//! last level costs 25 times as much. `guard_runs` and `guard_trigger` are §3.5's
//! `max_sstables_per_guard`; the published code keeps 2 and compacts at the third, which is the
//! default here. The bits of guards are §4.4's.
//!
//! Readings and deviations:
//! - the bound of runs is a bound of our layers and therefore hard: where PebblesDB goes on
//!   appending to a guard that is being compacted, a job waits here. A `guard_trigger` below
//!   `guard_runs` gives it slack;
//! - a tree has 15 levels. The paper's five levels above the last one fit with two runs a guard,
//!   three runs leave four levels. Options beyond that are refused;
//! - L0 has no guards. The published code divides it as well;
//! - the paper's runs of a guard are one SST each, whatever its size. Here an SST ends at
//!   `sst_max`;
//! - rule 7 is ours: PebblesDB keeps the tables of a guard in a list, which has no gaps. So is rule
//!   8, which bounds the work of a job and frees the layers of a tree that another shape has made;
//! - a table moves to the next level unchanged if it is alone and no known guard divides it.
//!   PebblesDB rewrites it. Tables of L0 are always rewritten;
//! - PebblesDB also compacts guards that many seeks read (§4.2), and seeks in parallel. These are
//!   not part of the shape. Its published code also bounds the bytes of a guard, here rule 8 does.
//!
//! Concurrency. A job jumps from its layers to the next level (rule 4 of `mod.rs`). Let X be such a
//! job, T a table that it takes out of layer j, and t its output level.
//! - *Nothing older stays above t.* With T go all tables of the guard, or T has nothing below it in
//!   its level, and t and the layers above t are vacant in the range of the job;
//! - *Nothing older arrives above t meanwhile.* Only a running job Y could bring it, with an output
//!   level between j and t. Such jobs exclude each other (`Candidate::collides`). Y was there
//!   before T, because it would have seen T and gone above;
//! - *Appending beside a compaction is allowed.* A job into the guarded level of X's inputs sees
//!   them until X is installed, so it goes above them. Later jobs, and sinking, fill the places
//!   that X leaves vacant;
//! - *Tombstones.* X drops them if nothing lies below t in its range. Tables older than T are in X
//!   or below t, also while a job takes them further down: its inputs stay in the tree until it is
//!   installed.
//!
//! Liveness. A job lacks room only if a table T of the next level is in its top layer. T gives or
//! sinks, or something below it does. The last level always has room, so by induction a level that
//! has no room can make some. Each job moves bytes down or makes one run of several, so this ends,
//! and nothing is appended meanwhile to a level that has no room.
//!
//! Cost of one call: O(levels · 50 · tables of a guard). Chain: the job out of L0, then the top
//! layers of the guarded levels that stand in its way.

use super::layers::{Guarded, Layout};
use super::pick::{self, Context};
use super::{CutRule, Shape, conflicts};
use super::{guards, incremental};
use crate::candidate::{Busy, Candidate, Candidates, Class, Inputs};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Chain, LevelPressure, Pressure, TreeFacts};
use crate::smaller::{Pick, Scale};
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::version::LEVELS_MAX;
use vlsm_core::{Bytes, KeyRange, Place, Result, Run, Table, Version, Violation};

/// Tables of a guard that one job takes at most.
const TABLES_MAX: usize = 1024;
/// The most searches for the tables of a guard, each in the range that the one before found.
const LOOKS_MAX: usize = 16;
/// Jobs out of one guarded level that are proposed at once.
const JOBS_MAX: usize = 4;
/// Trivial moves of one guarded level that are proposed at once.
const SINKS_MAX: usize = 6;

/// Guards and the runs between them (PebblesDB (2017), §3.5 and §4.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FlsmOptions {
    /// Levels with guards. The last level comes after them.
    pub guarded_levels: u8,
    /// The most runs between two guards, each of which takes a level of the tree.
    pub guard_runs: u8,
    /// Runs between two guards at which they are compacted.
    pub guard_trigger: u8,
    /// Last bits of a key's hash that are zero if it is a guard of the first level.
    pub top_level_bits: u8,
    /// Bits fewer from level to level.
    pub bit_decrement: u8,
    /// A guard is merged within its own level if the last level has more than `rewrite_ratio` times
    /// its bytes in the guard's range; 0 for never.
    pub rewrite_ratio: u64,
}

impl Default for FlsmOptions {
    fn default() -> Self {
        Self {
            guarded_levels: 4,
            guard_runs: 3,
            guard_trigger: 3,
            top_level_bits: 23,
            bit_decrement: 2,
            rewrite_ratio: 25,
        }
    }
}

impl FlsmOptions {
    /// The last level.
    fn last(&self) -> usize {
        usize::from(self.guarded_levels) * usize::from(self.guard_runs) + 1
    }

    /// Zero bits at the end of a guard's hash, for the level with `above` guarded levels above it.
    fn bits(&self, above: u8) -> u32 {
        u32::from(self.top_level_bits)
            .saturating_sub(u32::from(self.bit_decrement) * u32::from(above))
    }
}

impl MechanismOptions for FlsmOptions {
    fn check(&self) -> Result<()> {
        all_hold([
            (self.guarded_levels >= 1, "guarded_levels", "must be at least 1"),
            (self.guard_runs >= 1, "guard_runs", "must be at least 1"),
            (
                self.last() <= LEVELS_MAX,
                "guard_runs",
                "times guarded_levels must be at most 14: each run of a guard takes one of the 15 \
                 levels of a tree, and the last level another",
            ),
            (
                (1..=self.guard_runs).contains(&self.guard_trigger),
                "guard_trigger",
                "must be from 1 to guard_runs: a guard that is full must be compacted",
            ),
            (self.top_level_bits <= 60, "top_level_bits", "must be at most 60"),
            (
                self.bits(self.guarded_levels) >= 1,
                "top_level_bits",
                "must be more than bit_decrement times guarded_levels, or every key would be a \
                 guard of the last level",
            ),
        ])
    }

    /// Takes bits off the guards of the first level, so that fewer keys give as many guards.
    fn scale(&mut self, by: Scale) {
        let least = self.bit_decrement.saturating_mul(self.guarded_levels).saturating_add(1);
        let fewer = by.0.max(1).ilog2() as u8;
        self.top_level_bits = self.top_level_bits.saturating_sub(fewer).max(least);
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        self.guarded_levels = pick.of(&[1, 2, 3]);
        self.guard_runs = pick.of(&[1, 2, 3, 4]);
        self.guard_trigger = self.guard_runs.saturating_sub(pick.of(&[0, 0, 1])).max(1);
        self.bit_decrement = pick.of(&[0, 1, 2]);
        self.top_level_bits = self.bit_decrement * self.guarded_levels + pick.of(&[3, 5, 8, 12]);
        self.rewrite_ratio = pick.of(&[0, 1, 25]);
    }
}

/// PebblesDB's tree.
#[derive(Debug)]
pub struct Flsm {
    options: TreeOptions,
    own: FlsmOptions,
}

impl Mechanism for Flsm {
    const WHAT: &'static str =
        "PebblesDB: guards, several runs between them, levels are appended to";
    type Options = FlsmOptions;

    fn new(tree: &TreeOptions, own: &FlsmOptions) -> Result<Self> {
        Ok(Self { options: tree.clone(), own: own.clone() })
    }
}

/// A table that sinks.
struct Sink {
    from: u8,
    to: u8,
    table: Arc<Table>,
}

impl Flsm {
    fn layout(&self, version: &Version) -> Layout {
        let FlsmOptions { guarded_levels, guard_runs, guard_trigger, .. } = self.own;
        let guarded = |index: u8| Guarded {
            top: index * guard_runs + 1,
            bottom: (index + 1) * guard_runs,
            trigger: guard_trigger,
            bits: self.own.bits(index),
        };
        let guarded = (0..guarded_levels).map(guarded).collect();
        Layout::of(guarded, self.own.last() as u8, self.own.bits(guarded_levels), version)
    }

    /// Bytes that a job out of a guard may merge.
    fn job_max(&self) -> Bytes {
        Bytes(self.options.sst_max.0.saturating_mul(self.options.trivial_move_overlap))
    }

    fn l0_score(&self, runs: usize) -> f64 {
        runs as f64 / self.options.l0_trigger as f64
    }

    /// Rule 2.
    fn out_of_l0(&self, context: &Context<'_>, layout: &Layout) -> Option<Candidate> {
        let Context { version, busy, .. } = *context;
        let below = |job: &Candidate| job.frees == Class::L0 && job.output_level > 0;
        if busy.reservations.iter().any(|held| below(&held.candidate)) {
            return None;
        }
        let idle = version.l0.iter().take_while(|run| !context.is_busy(run));
        let idle: Vec<&Run> = idle.take(pick::RUNS_MAX).collect();
        if idle.len() < self.options.l0_trigger {
            return None;
        }
        let score = self.l0_score(idle.len());
        [&idle[..], &idle[..1]].into_iter().find_map(|runs| {
            let from = pick::of_runs(runs.iter().copied());
            let range = KeyRange::cover(from.iter().map(|(_, table)| &table.range))?;
            let to = layout.target(version, 0, &range)?;
            context.merge(from, to.level, score, |_| false)
        })
    }

    /// Rules 3 and 7: the best score of a guarded level, the tables that sink, and the jobs.
    fn out_of(
        &self,
        context: &Context<'_>,
        layout: &Layout,
        index: usize,
    ) -> (f64, Vec<Candidate>) {
        let level = &layout.guarded[index];
        let (mut sinks, mut jobs): (Vec<Sink>, Vec<Candidate>) = Default::default();
        let mut best: f64 = 0.0;
        for layer in level.due() {
            let score = f64::from(level.runs(layer)) / f64::from(level.trigger);
            for seed in context.window(layer) {
                let taken = jobs.iter().any(|job| job.reads(seed));
                let found = self.sinks(context, level, layer, seed);
                if found.is_empty() && !taken && jobs.len() < JOBS_MAX {
                    let job = self.compact(context, layout, index, (layer, seed), score);
                    let free = |job: &Candidate| {
                        job.conflicts.is_empty() && !jobs.iter().any(|other| other.collides(job))
                    };
                    if let Some(job) = job.filter(free) {
                        jobs.push(job);
                    }
                }
                sinks.extend(found);
                best = best.max(score);
            }
        }
        let mut list = sunk(context, sinks);
        list.extend(jobs);
        (best, list)
    }

    /// Rule 7: the tables that sink before a guard gives, by one table of it.
    fn sinks(
        &self,
        context: &Context<'_>,
        level: &Guarded,
        layer: u8,
        seed: &Arc<Table>,
    ) -> Vec<Sink> {
        if !self.options.trivial_move {
            return Vec::new();
        }
        let version = context.version;
        let sink = |from: u8, table: &Arc<Table>| {
            let to = level.reach(version, from, table);
            let idle = || context.busy.reads(table).is_none();
            (to > from && idle()).then(|| Sink { from, to, table: table.clone() })
        };
        let below = (layer + 1..level.bottom).rev().find_map(|from| {
            let tables = version.level(from).overlapping(&seed.range).take(pick::WINDOW);
            let found: Vec<Sink> = tables.filter_map(|table| sink(from, table)).collect();
            (!found.is_empty()).then_some(found)
        });
        below.unwrap_or_else(|| sink(layer, seed).into_iter().collect())
    }

    /// Rules 3 to 6 and 8: the job out of the guard of this table.
    fn compact(
        &self,
        context: &Context<'_>,
        layout: &Layout,
        index: usize,
        (layer, seed): (u8, &Arc<Table>),
        score: f64,
    ) -> Option<Candidate> {
        let (version, level) = (context.version, &layout.guarded[index]);
        let whole = self.tables_of_guard(version, level, seed);
        let is_whole = whole.is_some();
        let mut from = whole.unwrap_or_else(|| vec![level.oldest(version, layer, seed)]);
        if from.iter().any(|(_, table)| context.busy.reads(table).is_some()) {
            return None;
        }
        let range = KeyRange::cover(from.iter().map(|(_, table)| &table.range))?;
        let to = layout.target(version, index + 1, &range)?;
        if to.level == layout.last && is_whole && self.rewrites(version, layout.last, &from) {
            let bottom = Place::Level(level.bottom);
            from.retain(|(place, _)| *place != bottom);
            return context.merge(from, level.bottom, score, |_| false);
        }
        let divided = |table: &Table| guards::divide(version, to.guards_from, to.bits, table);
        context.merge(from, to.level, score, |table| !divided(table))
    }

    /// Rule 6: whether the merge of these tables into the last level costs too much. One run is not
    /// rewritten again.
    fn rewrites(&self, version: &Version, last: u8, from: &[(Place, Arc<Table>)]) -> bool {
        let Some(range) = KeyRange::cover(from.iter().map(|(_, table)| &table.range)) else {
            return false;
        };
        let bytes: Bytes = from.iter().map(|(_, table)| table.bytes).sum();
        let below = version.level(last).overlapping_bytes(&range);
        let runs = from.windows(2).any(|pair| pair[0].0 != pair[1].0);
        let ratio = self.own.rewrite_ratio;
        ratio > 0 && runs && below.0 / ratio > bytes.0
    }

    /// The tables of the guard of this table, highest layer first; none if they are too many for a
    /// job.
    fn tables_of_guard(
        &self,
        version: &Version,
        level: &Guarded,
        seed: &Table,
    ) -> Option<Vec<(Place, Arc<Table>)>> {
        let mut range = seed.range.clone();
        for _ in 0..LOOKS_MAX {
            let (mut tables, mut bytes) = (Vec::new(), Bytes::ZERO);
            for layer in level.layers() {
                for table in version.level(layer).overlapping(&range) {
                    bytes += table.bytes;
                    if bytes > self.job_max() || tables.len() == TABLES_MAX {
                        return None;
                    }
                    tables.push((Place::Level(layer), table.clone()));
                }
            }
            let all = KeyRange::cover(tables.iter().map(|(_, table)| &table.range))?;
            if all == range {
                return Some(tables);
            }
            range = all;
        }
        None
    }

    /// The bytes of a guarded level that must be merged before it is within its bounds: the tables
    /// in the layers that give, with what they overlap below in their level, and in the last level
    /// where that is the next.
    fn owed(&self, version: &Version, layout: &Layout, index: usize, layers: &[u8]) -> Bytes {
        let level = &layout.guarded[index];
        let next = (index + 1 == layout.guarded.len()).then_some(layout.last);
        let below = |layer: u8| (layer + 1..=level.bottom).chain(next);
        let most: Bytes =
            level.layers().chain(next).map(|layer| version.level(layer).bytes()).sum();
        let mut owed = Bytes::ZERO;
        for &layer in layers {
            for table in version.level(layer).iter() {
                let overlap = |at: u8| version.level(at).overlapping_bytes(&table.range);
                owed += table.bytes + below(layer).map(overlap).sum();
                if owed >= most {
                    return most;
                }
            }
        }
        owed
    }
}

/// The trivial moves of tables that sink: one for all that sink from one layer into another, or, if
/// that must wait for a job, one for each.
fn sunk(context: &Context<'_>, mut sinks: Vec<Sink>) -> Vec<Candidate> {
    sinks.sort_by(|a, b| {
        let layers = |sink: &Sink| (sink.from, sink.to);
        layers(b).cmp(&layers(a)).then_with(|| a.table.range.lo.cmp(&b.table.range.lo))
    });
    sinks.dedup_by(|a, b| a.from == b.from && Arc::ptr_eq(&a.table, &b.table));
    let mut list = Vec::new();
    for group in sinks.chunk_by(|a, b| (a.from, a.to) == (b.from, b.to)) {
        let free = |sinks: &[Sink]| {
            let candidate = moved(context, sinks)?;
            candidate.conflicts.is_empty().then_some(candidate)
        };
        match free(group) {
            Some(all) => list.push(all),
            None => list.extend(group.chunks(1).filter_map(free)),
        }
    }
    list.truncate(SINKS_MAX);
    list
}

/// The trivial move of these tables, which are in one layer and sink into another one.
fn moved(context: &Context<'_>, sinks: &[Sink]) -> Option<Candidate> {
    let Sink { from, to, .. } = *sinks.first()?;
    let range = KeyRange::cover(sinks.iter().map(|sink| &sink.table.range))?;
    let tables = sinks.iter().map(|sink| (Place::Level(from), sink.table.clone())).collect();
    let mut candidate = Candidate {
        tree: context.facts.tree,
        frees: Class::Level(from),
        kind: JobKind::TrivialMove,
        inputs: Inputs { memtables: Vec::new(), tables },
        output_level: to,
        range,
        bytes_in: Bytes::ZERO,
        bytes_out: Bytes::ZERO,
        score: f64::from(to - from),
        sets_cursor: None,
        conflicts: Vec::new(),
    };
    candidate.conflicts = conflicts(context.busy, &candidate);
    Some(candidate)
}

impl Shape for Flsm {
    fn name(&self) -> &'static str {
        "flsm"
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        let context = Context { version, facts, busy, options: &self.options };
        let layout = self.layout(version);
        let mut list = Vec::new();
        if version.l0.len() < self.options.l0_max {
            list.extend(pick::flush(facts, busy, 1));
        }
        let l0 = self.out_of_l0(&context, &layout);
        let mut ranked = vec![(self.l0_score(version.l0.len()), l0.into_iter().collect())];
        let levels = 0..layout.guarded.len();
        ranked.extend(levels.map(|index| self.out_of(&context, &layout, index)));
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        list.extend(ranked.into_iter().flat_map(|(_, candidates)| candidates));
        list
    }

    fn cuts(&self, version: &Version, _: &TreeFacts, candidate: &Candidate) -> CutRule {
        let (layout, level) = (self.layout(version), candidate.output_level);
        if level == 0 {
            return CutRule::Never;
        }
        let own = layout.guarded.iter().find(|guarded| guarded.layers().contains(&level));
        let (from, bits) = own.map_or((layout.last, layout.last_bits), |own| (own.top, own.bits));
        CutRule::Guards { sst: self.options.sst_max, bits, from }
    }

    fn pressure(&self, version: &Version, _: &TreeFacts) -> Pressure {
        let layout = self.layout(version);
        let mut levels: Vec<LevelPressure> = (1..=version.depth())
            .map(|level| {
                let bytes = version.level(level).bytes();
                LevelPressure { level, bytes, ..LevelPressure::default() }
            })
            .collect();
        let due = version.l0.len() >= self.options.l0_trigger;
        let mut debt = if due { version.l0_bytes() } else { Bytes::ZERO };
        for (index, guarded) in layout.guarded.iter().enumerate() {
            let due: Vec<u8> = guarded.due().collect();
            debt += self.owed(version, &layout, index, &due);
            for level in levels.iter_mut().filter(|level| due.contains(&level.level)) {
                level.debt = level.bytes;
            }
        }
        incremental::pressure(version, &self.options, levels, debt)
    }

    /// The job out of L0, then the guards that leave it no room, then those that leave these none.
    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain {
        let layout = self.layout(version);
        let full = facts.memtable_bytes * self.options.l0_trigger as u64;
        let mut stages = vec![(0, version.l0_bytes().max(full))];
        for (index, guarded) in layout.guarded.iter().enumerate() {
            if version.level(guarded.top).is_empty() {
                break;
            }
            stages.push((guarded.top, self.owed(version, &layout, index, &[guarded.top])));
        }
        Chain { stages }
    }

    fn check(&self, version: &Version) -> std::result::Result<(), Violation> {
        version.check()
    }
}
