//! What happened in stories, counted: a fault or an ending that never came proves nothing.
//! The tests assert that each class of them came.

use std::collections::BTreeMap;
use std::time::Duration;

/// How often things happened, over any number of stories.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Stories, by the mechanisms of their store.
    pub mechanisms: BTreeMap<String, u64>,
    /// Lives, by how they ended.
    pub power_cuts: u64,
    /// Deaths of the process.
    pub kills: u64,
    /// Orderly closes.
    pub closes: u64,
    /// Lives that the store itself could not end in order, because file calls went wrong.
    pub failures: u64,
    /// Lives whose store had not finished opening when they ended.
    pub cut_while_opening: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// Batches outside the WAL among them.
    pub unlogged: u64,
    /// Batches that came in files.
    pub ingests: u64,
    /// Batches refused at their deadline.
    pub busy: u64,
    /// The longest that a batch took, in virtual time.
    pub longest_wait: Duration,
    /// Lives in which the disk was full for a while.
    pub full: u64,
    /// Looks until the store took writes again.
    pub waits_for_space: u64,
    /// Batches that a crash took, though acknowledged without a promise.
    pub lost: u64,
    /// Batches that survived though nobody was told.
    pub indeterminate: u64,
    /// Operations that the store refused because a file call went wrong.
    pub refused: u64,
    /// Reads and snapshots checked.
    pub checks: u64,
    /// File operations that went wrong, by how.
    pub faults: BTreeMap<String, u64>,
    /// What administrators did, and what came of it.
    pub admin: BTreeMap<String, u64>,
    /// What the store did in the background, by its events.
    pub work: BTreeMap<String, u64>,
    /// File operations.
    pub calls: u64,
    /// Mutating ones.
    pub mutating: u64,
    /// Switches between tasks.
    pub steps: u64,
    /// Hash over the hashes of all lives.
    pub hash: u64,
}

impl Tally {
    /// Adds another one.
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
    /// Notes something that an administrator did, or what came of it.
    pub fn note(&mut self, what: &str) {
        *self.admin.entry(what.to_owned()).or_default() += 1;
    }
}
