//! The inputs of a job in the tree that it is created for: its memtables, whether it keeps the
//! order by age, and whether older versions lie below it.

use crate::memtable::Memtable;
use crate::read::view::TreeView;
use std::sync::Arc;
use vlsm_core::{Error, KeyRange, MemtableId, Place, Result, Run, Table, Version};
use vlsm_policy::{Candidate, Class};

/// The memtables that the job flushes.
pub(super) fn memtables_of(candidate: &Candidate, tree: &TreeView) -> Result<Vec<Arc<Memtable>>> {
    candidate.inputs.memtables.iter().map(|id| memtable(tree, *id)).collect()
}

fn memtable(tree: &TreeView, id: MemtableId) -> Result<Arc<Memtable>> {
    let mut sealed = tree.immutables.iter();
    let found = sealed.find(|memtable| memtable.id() == id).cloned();
    found.ok_or_else(|| Error::Internal(format!("memtable {id} of a candidate is not there")))
}

/// Refuses a candidate that would bring newer entries below older ones. Consider the runs of L0
/// that overlap its inputs from memory and L0. The candidate must take neighbours by age among
/// them, and the oldest first if it writes into a level. It must take memtables from the oldest on,
/// and into a level only if none of these runs is left. It must take all overlapping tables of the
/// levels over which it jumps.
pub(super) fn check_order(candidate: &Candidate, tree: &TreeView) -> Result<()> {
    let wrong = |what: &str| Err(Error::Internal(format!("{what}: {candidate:?}")));
    let older = tree.older_part();
    let tree = older.as_ref().unwrap_or(tree);
    let inputs = &candidate.inputs;
    if (candidate.frees == Class::Memtable) == inputs.memtables.is_empty() {
        return wrong("a class that does not fit the inputs");
    }
    if candidate.jumps_over(&tree.version).is_some() {
        return wrong("newer keys brought below older ones");
    }
    let sealed = tree.immutables.iter().take(inputs.memtables.len());
    if !sealed.clone().map(|memtable| memtable.id()).eq(inputs.memtables.iter().copied()) {
        return wrong("a memtable before an older one");
    }
    let tables = inputs.tables.iter().filter(|(place, _)| matches!(place, Place::L0(_)));
    let ranges = tables.map(|(_, table)| table.range.clone());
    let ranges: Vec<KeyRange> = ranges.chain(sealed.filter_map(|sealed| sealed.range())).collect();
    let Some(range) = KeyRange::cover(ranges.iter()) else { return Ok(()) };
    let overlaps = |run: &&Run| run.tables.overlapping(&range).next().is_some();
    let is_input = |run: &Run| inputs.tables.iter().any(|(place, _)| *place == Place::L0(run.id));
    let runs: Vec<bool> = tree.version.l0.iter().filter(overlaps).map(is_input).collect();
    let first = runs.iter().position(|taken| *taken).unwrap_or(runs.len());
    let taken = runs.iter().filter(|taken| **taken).count();
    if !runs[first..].iter().take(taken).all(|taken| *taken) {
        return wrong("runs of L0 that are no neighbours by age");
    }
    if candidate.output_level > 0 && taken > 0 && first > 0 {
        return wrong("a run of L0 before an older one");
    }
    if !inputs.memtables.is_empty() && candidate.output_level > 0 && taken < runs.len() {
        return wrong("memtables before an older run of L0");
    }
    Ok(())
}

/// Whether no table outside the inputs can hold an older version of a key in the job's range.
pub(super) fn nothing_below(version: &Version, candidate: &Candidate) -> bool {
    let is_input = |place: Place, table: &Table| {
        candidate.inputs.tables.iter().any(|(from, input)| {
            *from == place && input.file.number == table.file.number && input.range == table.range
        })
    };
    if version.overlaps_below(candidate.output_level, &candidate.range) {
        return false;
    }
    // Older runs of L0, and the output level itself, except for the inputs of this job.
    let newest_input = candidate.inputs.tables.iter().filter_map(|(place, _)| match place {
        Place::L0(run) => version.l0.iter().position(|other| other.id == *run),
        Place::Level(_) => None,
    });
    let older_runs = match (newest_input.max(), candidate.inputs.memtables.is_empty()) {
        (_, false) => version.l0.len(),
        (Some(newest), true) => newest,
        (None, true) => 0,
    };
    let l0 = version.l0[..older_runs].iter().flat_map(|run| {
        let place = Place::L0(run.id);
        run.tables.overlapping(&candidate.range).map(move |table| (place, table))
    });
    let own_level = match candidate.output_level {
        0 => None,
        level => Some(version.level(level)),
    };
    let level = own_level.into_iter().flat_map(|tables| {
        let place = Place::Level(candidate.output_level);
        tables.overlapping(&candidate.range).map(move |table| (place, table))
    });
    l0.chain(level).all(|(place, table)| is_input(place, table))
}
