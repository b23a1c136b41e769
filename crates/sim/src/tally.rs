//! Counts of what happened in stories. A fault or an ending that never occurred proves nothing, so
//! the tests assert that each class occurred.

use std::collections::BTreeMap;
use std::time::Duration;

/// Counts over any number of stories.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Stories, by the mechanisms of their store.
    pub mechanisms: BTreeMap<String, u64>,
    /// Lives that ended with a power failure.
    pub power_cuts: u64,
    /// Lives that ended with the death of the process.
    pub kills: u64,
    /// Lives that ended with an orderly close.
    pub closes: u64,
    /// Lives whose store could not be opened or closed because file calls failed.
    pub failures: u64,
    /// Lives that ended before the store was open.
    pub cut_while_opening: u64,
    /// Acknowledged batches.
    pub batches: u64,
    /// Acknowledged batches outside the WAL.
    pub unlogged: u64,
    /// Batches that were ingested as files.
    pub ingests: u64,
    /// Batches that were refused at their deadline.
    pub busy: u64,
    /// The longest time that a batch took, in virtual time.
    pub longest_wait: Duration,
    /// Lives in which the disk was full for a while.
    pub full: u64,
    /// Attempts until the store accepted writes again.
    pub waits_for_space: u64,
    /// Batches that a crash lost although they were acknowledged, without a promise.
    pub lost: u64,
    /// Batches that survived although they were not acknowledged.
    pub indeterminate: u64,
    /// Operations that the store refused because a file call failed.
    pub refused: u64,
    /// Reads and snapshots checked.
    pub checks: u64,
    /// File operations that failed, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Operations of administrators, and their results.
    pub admin: BTreeMap<String, u64>,
    /// The store's background work, by its events.
    pub work: BTreeMap<String, u64>,
    /// File operations.
    pub calls: u64,
    /// Mutating file operations.
    pub mutating: u64,
    /// Switches between tasks.
    pub steps: u64,
    /// Hash over the hashes of all lives.
    pub hash: u64,
}

impl Tally {
    /// Adds the counts of other stories.
    pub fn add(&mut self, other: &Self) {
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.closes += other.closes;
        self.failures += other.failures;
        self.cut_while_opening += other.cut_while_opening;
        self.batches += other.batches;
        self.unlogged += other.unlogged;
        self.ingests += other.ingests;
        self.busy += other.busy;
        self.refused += other.refused;
        for (sum, counts) in [
            (&mut self.faults, &other.faults),
            (&mut self.work, &other.work),
            (&mut self.admin, &other.admin),
            (&mut self.mechanisms, &other.mechanisms),
        ] {
            for (name, count) in counts {
                *sum.entry(name.clone()).or_default() += count;
            }
        }
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.full += other.full;
        self.waits_for_space += other.waits_for_space;
        self.lost += other.lost;
        self.indeterminate += other.indeterminate;
        self.checks += other.checks;
        self.calls += other.calls;
        self.mutating += other.mutating;
        self.steps += other.steps;
        self.hash = self.hash.rotate_left(1) ^ other.hash;
    }
    /// Counts an operation of an administrator, or a result of one.
    pub fn note(&mut self, what: &str) {
        *self.admin.entry(what.to_owned()).or_default() += 1;
    }
}
