//! The statistics of the trees: by level, by keyspace and in total.
//!
//! 1. Each tree is counted once ([`Tree::of`]), because grading its tables takes a search in the
//!    next level for each table.
//! 2. The numbers of a keyspace are the sums over its regions; those of the store are the sums over
//!    all trees.
//!
//! All numbers are taken from one view, so they are consistent.

use super::{KeyspaceStats, KeyspaceWait, LevelStats};
use crate::engine::Engine;
use crate::read::view::{StoreView, TreeView};
use std::collections::BTreeMap;
use std::sync::Arc;
use vlsm_core::event::WaitCause;
use vlsm_core::{ByteCount, Micros, Table, TreeId, Version};
use vlsm_policy::shape::Overlap;
use vlsm_policy::shape::cuts::{Grade, grade};
use vlsm_policy::{Pressure, Shape, TreeFacts};

/// The statistics of all trees of a view.
pub(super) struct Trees(BTreeMap<TreeId, Tree>);

/// The statistics of one tree.
struct Tree {
    levels: Vec<LevelStats>,
    memtable_bytes: ByteCount,
    sealed_memtables: u64,
    entries: u64,
    tombstones: u64,
    debt: ByteCount,
}

impl Trees {
    pub fn of(engine: &Engine, view: &StoreView) -> Self {
        let control = &engine.control;
        let overlap_max = engine.shared.options.policy.tree.growth as f64;
        // Targets may depend on the size of memtables.
        let facts = TreeFacts { memtable_bytes: control.memtable_bytes(), ..TreeFacts::default() };
        let of = |tree: &Arc<TreeView>| {
            (tree.id, Tree::of(&**control.shape(), &facts, overlap_max, tree))
        };
        Self(view.trees().map(of).collect())
    }

    /// The levels of all trees.
    pub fn levels(&self) -> Vec<LevelStats> {
        summed(self.0.values())
    }

    /// The keyspaces of the store, without keyspaces that were created after the view.
    pub fn keyspaces(&self, engine: &Engine) -> Vec<KeyspaceStats> {
        let infos = engine.catalog.keyspaces();
        let known = infos.iter().filter_map(|info| {
            // A keyspace that was just dropped or cleared has no trees in the view.
            let ids: Vec<TreeId> = info.trees().ok()?.iter().collect();
            let trees = ids.iter().map(|id| self.0.get(id)).collect::<Option<Vec<&Tree>>>()?;
            Some(KeyspaceStats {
                name: info.name(),
                regions: trees.len() as u64,
                levels: summed(trees.iter().copied()),
                memtable_bytes: trees.iter().map(|tree| tree.memtable_bytes).sum(),
                sealed_memtables: trees.iter().map(|tree| tree.sealed_memtables).sum(),
                entries: trees.iter().map(|tree| tree.entries).sum(),
                tombstones: trees.iter().map(|tree| tree.tombstones).sum(),
                debt: trees.iter().map(|tree| tree.debt).sum(),
                waits: waits(engine, &ids),
                chains: engine.control.state().chains.waited_by(&ids),
            })
        });
        known.collect()
    }
}

/// The waits of writes into these trees.
fn waits(engine: &Engine, trees: &[TreeId]) -> Vec<KeyspaceWait> {
    let wait = |cause| {
        let waited = engine.shared.counters.attribution.of(trees, cause);
        let total = Micros(waited.total.as_micros() as u64);
        KeyspaceWait { cause, count: waited.count, total }
    };
    WaitCause::ALL.map(wait).into_iter().filter(|wait| wait.count > 0).collect()
}

impl Tree {
    fn of(shape: &dyn Shape, facts: &TreeFacts, overlap_max: f64, tree: &TreeView) -> Self {
        let version = &*tree.version;
        let pressure = shape.pressure(version, facts);
        let memtables = tree.immutables.iter().chain([&tree.active]);
        let bytes: u64 = memtables.map(|memtable| memtable.bytes() as u64).sum();
        Self {
            levels: levels(version, &pressure, overlap_max),
            memtable_bytes: ByteCount(bytes),
            sealed_memtables: tree.immutables.len() as u64,
            entries: version.tables().map(|(_, table)| table.file.entries).sum(),
            tombstones: version.tables().map(|(_, table)| table.file.tombstones).sum(),
            debt: pressure.debt,
        }
    }
}

/// The levels of a tree, L0 first.
fn levels(version: &Version, pressure: &Pressure, overlap_max: f64) -> Vec<LevelStats> {
    let mut levels = vec![LevelStats {
        runs: version.l0.len() as u64,
        tables: version.l0.iter().map(|run| run.tables.len() as u64).sum(),
        bytes: version.l0_bytes(),
        ..LevelStats::default()
    }];
    for level in 1..=version.depth() {
        let (tables, next) = (version.level(level), version.level(level + 1));
        let target = pressure.levels.iter().find(|known| known.level == level);
        let good = |overlap| {
            let is_good = |table: &&Arc<Table>| {
                grade(&table.range, table.bytes, next, overlap, overlap_max) == Grade::Good
            };
            tables.iter().filter(is_good).count() as u64
        };
        levels.push(LevelStats {
            level,
            runs: u64::from(!tables.is_empty()),
            tables: tables.len() as u64,
            bytes: tables.bytes(),
            target: target.and_then(|known| known.target),
            good_by_count: good(Overlap::Count),
            good_by_ratio: good(Overlap::Ratio),
        });
    }
    levels
}

/// The sums of the levels of several trees; L0 is always present.
fn summed<'a>(trees: impl Iterator<Item = &'a Tree>) -> Vec<LevelStats> {
    let mut levels: Vec<LevelStats> = vec![LevelStats::default()];
    for one in trees.flat_map(|tree| &tree.levels) {
        while levels.len() <= usize::from(one.level) {
            let level = levels.len() as u8;
            levels.push(LevelStats { level, ..LevelStats::default() });
        }
        let sum = &mut levels[usize::from(one.level)];
        sum.runs += one.runs;
        sum.tables += one.tables;
        sum.bytes += one.bytes;
        sum.good_by_count += one.good_by_count;
        sum.good_by_ratio += one.good_by_ratio;
        if let Some(target) = one.target {
            sum.target = Some(sum.target.unwrap_or_default() + target);
        }
    }
    levels
}
