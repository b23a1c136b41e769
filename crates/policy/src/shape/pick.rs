//! The selection of inputs, common to all shapes.
//!
//! Costs: a pick looks at no more than [`WINDOW`] idle tables of a level, and at no more than
//! [`OVERLAP_MAX`] tables below each; only the inputs of the job picked are collected.

use super::conflicts;
use super::room::Rooms;
use crate::candidate::{Busy, Candidate, Class, Inputs};
use crate::signals::TreeFacts;
use crate::tree::TreeOptions;
use std::sync::Arc;
use vlsm_core::event::JobKind;
use vlsm_core::{Bytes, KeyRange, Place, Run, Table, Version};

/// Tables of a level that one pick looks at (RocksDB's number; vLSM (2024), §4.2.2).
pub const WINDOW: usize = 50;
/// Tables of the next level that count when overlaps are compared.
const OVERLAP_MAX: usize = 4096;

/// The most jobs proposed at once out of one level that has reached its target.
const JOBS_MAX: usize = 4;

/// Levels with their scores and jobs.
pub type Ranked = Vec<(f64, Vec<Candidate>)>;

/// The input of a pick: the version, the tree's other facts, the reservations of running jobs, and
/// the options of trees.
pub struct Context<'a> {
    pub version: &'a Version,
    pub facts: &'a TreeFacts,
    pub busy: &'a Busy,
    pub options: &'a TreeOptions,
}

/// The flush of up to `count` memtables: the oldest ones, as long as they are ready. One flush at a
/// time, so that runs are installed in the order of their age.
pub fn flush(facts: &TreeFacts, busy: &Busy, count: usize) -> Option<Candidate> {
    if busy.has_class(Class::Memtable) {
        return None;
    }
    let ready: Vec<_> = facts.memtables.iter().take_while(|m| m.ready).take(count).collect();
    if ready.is_empty() {
        return None;
    }
    let bytes = ready.iter().map(|memtable| memtable.bytes).sum();
    // Empty memtables have no range; their flush writes nothing.
    let range = KeyRange::cover(ready.iter().filter_map(|memtable| memtable.range.as_ref()))
        .unwrap_or_else(|| KeyRange::closed("", ""));
    Some(Candidate {
        tree: facts.tree,
        frees: Class::Memtable,
        kind: JobKind::Flush,
        inputs: Inputs { memtables: ready.iter().map(|m| m.id).collect(), tables: Vec::new() },
        output_level: 0,
        range,
        bytes_in: bytes,
        bytes_out: bytes,
        score: facts.memtables.len() as f64,
        sets_cursor: None,
        conflicts: Vec::new(),
    })
}

impl<'a> Context<'a> {
    /// The merge of these tables of one level (or of runs of L0, oldest first) into `to`, with what
    /// they overlap there; a trivial move where that is legal and wise. None for no tables.
    pub fn merge(
        &self,
        from: Vec<(Place, Arc<Table>)>,
        to: u8,
        score: f64,
        movable: impl Fn(&Table) -> bool,
    ) -> Option<Candidate> {
        let level = from.first()?.0.level();
        let own = KeyRange::cover(from.iter().map(|(_, table)| &table.range))?;
        let below: Vec<_> = self.version.level(to).overlapping(&own).cloned().collect();
        let range = KeyRange::cover(
            std::iter::once(&own)
                .chain(below.first().map(|table| &table.range))
                .chain(below.last().map(|table| &table.range)),
        )?;
        let moves = self.options.trivial_move
            && below.is_empty()
            && disjoint(&from)
            && from.iter().all(|(_, table)| {
                // A rewrite has its values from the WALs, so that these can go.
                table.file.wals.is_empty()
                    && movable(table)
                    && self.narrow_below(table, to + 1)
                    && !self.can_drop(table, to)
            });
        let sets_cursor = (level > 0).then(|| (level, self.after(level, &own)));
        let mut tables = from;
        tables.extend(below.into_iter().map(|table| (Place::Level(to), table)));
        let inputs = Inputs { memtables: Vec::new(), tables };
        let bytes = if moves { Bytes::ZERO } else { inputs.table_bytes() };
        let mut candidate = Candidate {
            tree: self.facts.tree,
            frees: if level == 0 { Class::L0 } else { Class::Level(level) },
            kind: if moves { JobKind::TrivialMove } else { JobKind::Compact },
            inputs,
            output_level: to,
            range,
            bytes_in: bytes,
            bytes_out: bytes,
            score,
            sets_cursor,
            conflicts: Vec::new(),
        };
        candidate.conflicts = conflicts(self.busy, &candidate);
        Some(candidate)
    }

    /// The compaction pointer behind a range: its upper end, or the start after the last table.
    fn after(&self, level: u8, range: &KeyRange) -> Option<bytes::Bytes> {
        let tables = self.version.level(level);
        let last = tables.range().is_none_or(|all| range.cmp_hi(&all).is_ge());
        (!last).then(|| range.hi.clone())
    }

    /// Whether a table moved above `level` would not overlap too much of it.
    fn narrow_below(&self, table: &Table, level: u8) -> bool {
        if usize::from(level) > self.version.levels.len() {
            return true;
        }
        let limit = self.options.sst_max.0.saturating_mul(self.options.trivial_move_overlap);
        self.overlap(table, level).0 <= limit
    }

    /// Whether a table has tombstones that a merge into `level` would drop: nothing lies below.
    /// Were it moved, they would stay until a table is merged with them, and perhaps none ever is.
    fn can_drop(&self, table: &Table, level: u8) -> bool {
        (table.file.tombstones > 0 || table.file.range_tombstones > 0)
            && !self.version.overlaps_below(level, &table.range)
    }

    /// Bytes of `level` that share a key with the table's range.
    pub fn overlap(&self, table: &Table, level: u8) -> Bytes {
        let tables = self.version.level(level).overlapping(&table.range);
        tables.take(OVERLAP_MAX).map(|table| table.bytes).sum()
    }

    /// Up to [`WINDOW`] idle tables of a level, from its compaction pointer on, and then from the
    /// start. Jobs that read tables are few, so few are skipped.
    pub fn window(&self, level: u8) -> impl Iterator<Item = &'a Arc<Table>> {
        let tables = self.version.level(level);
        let start: &[u8] = self.version.cursor(level).map_or(&[], |key| key);
        let busy = self.busy;
        tables
            .starting_at(start)
            .chain(tables.iter())
            .take(tables.len())
            .filter(move |table| busy.reads(table).is_none())
            .take(WINDOW)
    }

    /// Merges of single tables into the next level, least overlap per byte first: as many that
    /// could start now as it takes to move `quota` bytes, at least one and at most `count`. Of
    /// equals, the one nearest to the compaction pointer.
    pub fn singles(&self, level: u8, score: f64, quota: Bytes, count: usize) -> Vec<Candidate> {
        let ratio =
            |table: &Table| self.overlap(table, level + 1).as_f64() / table.bytes.as_f64().max(1.0);
        let mut ranked: Vec<_> = self.window(level).map(|table| (ratio(table), table)).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        let place = Place::Level(level);
        let mut moved = Bytes::ZERO;
        ranked
            .into_iter()
            .filter_map(|(_, table)| {
                self.merge(vec![(place, table.clone())], level + 1, score, |_| true)
            })
            .filter(|candidate| candidate.conflicts.is_empty())
            .take_while(|candidate| {
                let more = moved == Bytes::ZERO || moved < quota;
                moved += candidate.inputs.tables[0].1.bytes;
                more
            })
            .take(count)
            .collect()
    }

    /// The merges out of each level that has reached its target, with the level's score: its bytes
    /// as a share of the target. Highest score first. L1 gives only with a score beyond
    /// `l1_beyond`: a merge into L1 that waits can begin then.
    ///
    /// With bounded levels a level also gives while it lacks room for what comes next: `l1_need`
    /// bytes into L1, one SST into deeper ones. And it gives only what the next level has room for.
    pub fn full_levels(&self, rooms: &Rooms, l1_beyond: f64, l1_need: Bytes) -> Ranked {
        let bounded = self.options.overflow.is_some();
        let sst = if bounded { self.options.sst_max } else { Bytes::ZERO };
        let mut ranked: Ranked = Vec::new();
        for level in 1..=self.version.depth() {
            let Some(target) = rooms.target(level) else { break };
            let need = if level == 1 { l1_need } else { sst };
            let score = (rooms.staying(level) + need).as_f64() / target.as_f64().max(1.0);
            let full = score >= 1.0 && rooms.staying(level) > Bytes::ZERO;
            let waits = level == 1 && score <= l1_beyond;
            if full && rooms.allows(level + 1, sst) && !waits {
                let excess = rooms.excess(level, need);
                let fit = rooms.free(level + 1).map_or(JOBS_MAX as u64, |free| free.0 / sst.0);
                let count = (fit as usize).clamp(1, JOBS_MAX);
                ranked.push((score, self.singles(level, score, excess, count)));
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        ranked
    }

    /// Whether a running job reads a table of this run.
    pub fn is_busy(&self, run: &Run) -> bool {
        run.tables.iter().any(|table| self.busy.reads(table).is_some())
    }
}

/// The most runs that one job takes. An edit of more than twice as many could not be read back from
/// the manifest (`disk/manifest`).
pub const RUNS_MAX: usize = 1 << 15;

/// The tables of runs with their places, in the order given.
pub fn of_runs<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<(Place, Arc<Table>)> {
    let tables = |run: &'a Run| run.tables.iter().map(|table| (Place::L0(run.id), table.clone()));
    runs.into_iter().flat_map(tables).collect()
}

/// Whether no two of the tables share a key.
fn disjoint(tables: &[(Place, Arc<Table>)]) -> bool {
    let mut ranges: Vec<_> = tables.iter().map(|(_, table)| &table.range).collect();
    ranges.sort_by(|a, b| a.lo.cmp(&b.lo));
    ranges.windows(2).all(|pair| pair[0].is_before(pair[1]))
}
