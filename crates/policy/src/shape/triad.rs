//! `triad`: TRIAD. L0 is compacted once its runs have many keys in common, or once there are many
//! runs. A flush leaves the keys that are updated most often in memory, and values in the WAL.
//!
//! Source: "TRIAD: Creating Synergies Between Memory, Disk and Log in Log Structured Key-Value
//! Stores" (2017), TRIAD-DISK, TRIAD-MEM and TRIAD-LOG, and its published code, a change of RocksDB
//! 5 (`LevelCompactionPicker::PickCompaction`, `FileMetaData`), for TRIAD-DISK. A merge of runs
//! that share few keys drops few entries, but still rewrites L1. So it is deferred. Rules:
//! 1. each SST that is written into L0 has a HyperLogLog sketch of its keys
//!    ([`vlsm_core::sketch`]), in the manifest, as long as it is in L0;
//! 2. the overlap of L0 is 1 − distinct keys of the union of its idle runs ÷ sum of each run's
//!    keys. The union is estimated by the sketches, the sum is exact;
//! 3. from `overlap_runs` idle runs on, L0 is due once its overlap is at least `overlap_min`. From
//!    `l0_trigger` runs on it is due whatever the overlap;
//! 4. while L0 is not due, it proposes no job. Levels below work on;
//! 5. when it is due, all idle runs are merged into L1 at once, as in `tiered_l0`, whose rules 1,
//!    3, 5 and 6 hold here, too. Its score is `tiered_l0`'s with `overlap_runs` for the trigger,
//!    and at least 1.
//!
//! A key that is updated all the time goes into every run, and each of its versions but the last is
//! written in vain. So it stays in memory. Rules:
//! 6. when memtables are flushed, the newest versions of the keys with the most versions there are
//!    hot, at most `hot_keys` of all keys (the engine's `job/hot`);
//! 7. they go into the active memtable with their original sequence numbers, and into the WAL
//!    again, under new ones. The flush leaves them out (`write/keep`);
//! 8. that copy in the WAL is durable before the flush is installed and the older WAL is released.
//!
//! A flush writes every value again that is in the WAL already. So the log takes the place of the
//! values of L0. Rules:
//! 9. with `log_values`, a flush writes keys, sequence numbers and for each put the place of its
//!    value in the WAL (the engine's `job/logged`, `disk/sst/logged`);
//! 10. a WAL with such values stays until L0→L1 has written them into L1. A run with values in WALs
//!     is never moved to L1 as it is.
//!
//! Readings:
//! - the paper's memtable has the place of each value. Here the flush finds the places by reading
//!   the memtables' WALs once more, from the page cache;
//! - values shorter than a place, values with an expiry, operands, entries of large batches and of
//!   outside the WAL, and what a filter sees are in the run itself. So are all values of memtables
//!   that were filled slowly, whose WALs are mostly other trees';
//! - how often a key is updated is the number of its versions in the memtables of one flush. A
//!   version that stayed in memory once counts as one. There is no counter that outlives a flush;
//! - the paper keeps a fixed number of keys; here it is a share of the memtables' keys. The default
//!   is ours. Besides, hot keys have two versions or more, and at most half of the memtables'
//!   bytes. So memory does not fill with keys that stay for ever;
//! - only puts without an expiry are hot. Deletes, operands, and entries of large batches or
//!   outside the WAL are flushed as usual;
//! - a flush for which a caller waits (`flush`, a compaction of a range, a checkpoint of a store
//!   with writes outside the WAL) leaves nothing in memory;
//! - what does not fit into the active memtable at that moment, or has something newer over it, is
//!   flushed as usual. So a memtable that is sealed because memory or the WAL is short keeps
//!   little;
//! - the published code defers as long as L0 has at most 6 files; here 6 runs are due;
//! - the published code asks for the overlap only after RocksDB has found L0 due, by default at 4
//!   files. `overlap_runs` is this number; 2 asks as soon as there can be an overlap. RocksDB's
//!   other reason, an L0 larger than L1's target, cannot apply: four memtables of its default size
//!   are as large as that target, so nothing would ever be deferred;
//! - in the published code a deferred L0 ends the search for a compaction, also in other levels. We
//!   take that for an accident (rule 4);
//! - a run without a sketch (ingested, of another shape, of an older store) makes the overlap
//!   unknown. Then L0 is due by the number of runs alone;
//! - a slice of a file counts as the whole file, and two slices as one.
//!
//! Deviations: `FLUSH_TH` is not built: TRIAD does not flush a memtable that is small when its log
//! is full. Here a memtable is full by its versions, and a flush whose keys are all hot (`hot_keys`
//! of 1) writes no run; that is near to it, within half of the bytes. There are no merges within
//! L0, which that RocksDB did not have either. L0's bytes are those of its files, without the WALs.
//!
//! Liveness: a deferred L0 has fewer than `l0_trigger` runs, and writes stop only above that
//! (`l0_stop`). A due L0 goes down as in `tiered_l0`.
//!
//! A flush makes progress whatever is hot: its memtables go, and what stays is in the newest WAL.
//!
//! Cost of one call: that of `tiered_l0`, and 4 KB of sketch for each run below the trigger
//! (`SKETCHES_MAX` of them at most).

use super::tiered_l0::{TieredL0, TieredOptions};
use super::{CutRule, Shape};
use crate::candidate::{Busy, Candidate, Candidates};
use crate::mechanism::{Mechanism, MechanismOptions};
use crate::signals::{Chain, Pressure, TreeFacts};
use crate::smaller::Pick;
use crate::tree::{TreeOptions, all_hold};
use serde::{Deserialize, Serialize};
use vlsm_core::{Result, Run, Version, Violation, sketch};

/// The most SSTs of which sketches are compared; with more, L0 is due.
const SKETCHES_MAX: usize = 64;

/// When L0 is compacted, and what stays in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TriadOptions {
    /// The overlap of L0's runs from which on they are compacted: the share of their keys that a
    /// merge drops.
    pub overlap_min: f64,
    /// Fewer runs than this are not compacted, whatever their overlap.
    pub overlap_runs: usize,
    /// The share of a memtable's keys that a flush may leave in memory because they are updated
    /// most often; 0 for none.
    pub hot_keys: f64,
    /// Whether a flush leaves values in the WAL, and L0 refers to them.
    pub log_values: bool,
}

impl Default for TriadOptions {
    fn default() -> Self {
        Self { overlap_min: 0.4, overlap_runs: 4, hot_keys: 0.01, log_values: true }
    }
}

impl MechanismOptions for TriadOptions {
    fn check(&self) -> Result<()> {
        all_hold([
            (
                self.overlap_min > 0.0 && self.overlap_min <= 1.0,
                "triad.overlap_min",
                "must be above 0 (any runs have that overlap) and at most 1 (none ever have)",
            ),
            (
                (2..=SKETCHES_MAX).contains(&self.overlap_runs),
                "triad.overlap_runs",
                "must be from 2 (one run overlaps nothing) to 64",
            ),
            (
                (0.0..=1.0).contains(&self.hot_keys),
                "triad.hot_keys",
                "must be from 0 (no keys stay in memory) to 1 (all may that are updated)",
            ),
        ])
    }

    fn shrink(&mut self, _: &TreeOptions, pick: &mut Pick<'_>) {
        (self.overlap_min, self.hot_keys) =
            pick.of(&[(0.01, 1.0), (0.2, 0.2), (0.4, 0.5), (1.0, 0.0)]);
        self.overlap_runs = pick.of(&[2, 2, 3, 4]);
        self.log_values = pick.of(&[true, true, false]);
    }
}

/// TRIAD-DISK, TRIAD-MEM and TRIAD-LOG.
#[derive(Debug)]
pub struct Triad {
    own: TriadOptions,
    trigger: usize,
    tiered: TieredL0,
}

impl Mechanism for Triad {
    const WHAT: &'static str =
        "TRIAD: L0 into L1 once its runs share many keys; hot keys in memory, values in the WAL";
    type Options = TriadOptions;

    fn new(tree: &TreeOptions, own: &TriadOptions) -> Result<Self> {
        let tiered = TieredL0::new(tree, &TieredOptions::default())?;
        Ok(Self { own: own.clone(), trigger: tree.l0_trigger, tiered })
    }
}

impl Triad {
    /// Rule 3.
    fn is_due(&self, runs: &[&Run]) -> bool {
        runs.len() >= self.trigger
            || runs.len() >= self.own.overlap_runs
                && overlap(runs).is_some_and(|overlap| overlap >= self.own.overlap_min)
    }
}

/// Rule 2. None if a run has no sketch. Beyond [`SKETCHES_MAX`] SSTs it counts as complete.
fn overlap(runs: &[&Run]) -> Option<f64> {
    let mut files: Vec<_> =
        runs.iter().flat_map(|run| run.tables.iter()).map(|table| &*table.file).collect();
    files.sort_by_key(|file| file.number);
    files.dedup_by_key(|file| file.number);
    if files.len() > SKETCHES_MAX {
        return Some(1.0);
    }
    let sketches = files.into_iter().map(|file| file.sketch.as_deref());
    Some(sketch::overlap(&sketches.collect::<Option<Vec<_>>>()?))
}

impl Shape for Triad {
    fn name(&self) -> &'static str {
        "triad"
    }

    fn sketches(&self) -> bool {
        true
    }

    fn hot_keys(&self) -> f64 {
        self.own.hot_keys
    }

    fn logs_values(&self) -> bool {
        self.own.log_values
    }

    fn candidates(&self, version: &Version, facts: &TreeFacts, busy: &Busy) -> Candidates {
        self.tiered.ranked(version, facts, busy, &|runs| match self.is_due(runs) {
            true => self.tiered.l0_score(runs, self.own.overlap_runs).max(1.0),
            false => 0.0,
        })
    }

    fn cuts(&self, version: &Version, facts: &TreeFacts, candidate: &Candidate) -> CutRule {
        self.tiered.cuts(version, facts, candidate)
    }

    /// L0 owes nothing as long as it is deferred.
    fn pressure(&self, version: &Version, _: &TreeFacts) -> Pressure {
        let runs: Vec<&Run> = version.l0.iter().collect();
        self.tiered.pressure_if(version, self.is_due(&runs))
    }

    /// The tiering step of an L0 at its trigger.
    fn chain(&self, version: &Version, facts: &TreeFacts) -> Chain {
        self.tiered.chain(version, facts)
    }

    fn check(&self, version: &Version) -> std::result::Result<(), Violation> {
        self.tiered.check(version)
    }
}
