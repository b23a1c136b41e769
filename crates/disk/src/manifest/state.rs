//! What the records of a manifest add up to.
//!
//! Invariants: every tree belongs to one region of one keyspace; a keyspace's regions begin with
//! the empty key and their lower ends grow; numbers only grow.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use vlsm_core::{Micros, Seq, TreeId, Version, VersionEdit, Violation};

/// The most keyspaces of a store.
pub const KEYSPACES_MAX: usize = 16_384;
/// Numbers of trees are below this, over a store's life: they are places in a vector.
const TREES_MAX: u64 = 1 << 20;

/// One part of a keyspace's key range, with a tree of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The smallest key that belongs to it. Empty for the first region.
    pub lo: Bytes,
    /// Its tree.
    pub tree: TreeId,
}

/// A keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyspace {
    /// Its number, never reused.
    pub id: u64,
    /// Its name, unique among those that exist.
    pub name: String,
    /// Its options as text; what they mean is the engine's business.
    pub options: String,
    /// Its regions in key order.
    pub regions: Vec<Region>,
}

/// The numbers that go on from run to run. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The next file to be made gets at least this number.
    pub next_file: u64,
    /// The next keyspace.
    pub next_keyspace: u64,
    /// The next tree.
    pub next_tree: u64,
    /// The next run of L0.
    pub next_run: u64,
    /// The smallest WAL whose batches are not all in tables. Zero, or a WAL whose start was
    /// durable.
    pub min_wal: u64,
    /// Sequence numbers up to here were used, whatever the WAL says.
    pub last_seq: Seq,
}

impl Numbers {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            next_file: self.next_file.max(other.next_file),
            next_keyspace: self.next_keyspace.max(other.next_keyspace),
            next_tree: self.next_tree.max(other.next_tree),
            next_run: self.next_run.max(other.next_run),
            min_wal: self.min_wal.max(other.min_wal),
            last_seq: self.last_seq.max(other.last_seq),
        }
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A keyspace comes, with empty trees.
    CreateKeyspace(Keyspace),
    /// A keyspace goes, with its trees.
    DropKeyspace(u64),
    /// A tree changes.
    Edit(TreeId, VersionEdit),
    /// Numbers grow. Fields that did not may be zero.
    Numbers(Numbers),
    /// These are the WALs from now on, whatever was listed before.
    Wals(Vec<u64>),
    /// The clock by which values expire has come here. It never falls.
    Clock(Micros),
}

/// Everything a manifest says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// The random number of the store.
    pub store_uid: u64,
    /// The keyspaces by number.
    pub keyspaces: BTreeMap<u64, Keyspace>,
    /// The trees of all keyspaces.
    pub trees: BTreeMap<TreeId, Version>,
    /// The numbers.
    pub numbers: Numbers,
    /// The WALs that may hold batches, in ascending order. Those before the smallest WAL are not
    /// needed any more; the others are there, durably: one that is missing is a loss.
    pub wals: Vec<u64>,
    /// The largest time by which values were taken for expired, since the Unix epoch; zero where
    /// nothing expires.
    pub clock: Micros,
}

impl State {
    /// Makes a change true.
    ///
    /// # Errors
    /// When it contradicts what is there; the state is as it was then.
    pub fn apply(&mut self, record: &Record) -> Result<(), Violation> {
        match record {
            Record::CreateKeyspace(keyspace) => self.create(keyspace),
            Record::DropKeyspace(id) => {
                let gone = self.keyspaces.remove(id);
                let gone = gone.ok_or_else(|| Violation(format!("there is no keyspace {id}")))?;
                for region in &gone.regions {
                    self.trees.remove(&region.tree);
                }
                Ok(())
            }
            Record::Edit(tree, edit) => {
                let version = self.trees.get_mut(tree);
                let version =
                    version.ok_or_else(|| Violation(format!("there is no tree {tree}")))?;
                *version = edit.apply(version)?;
                Ok(())
            }
            Record::Numbers(numbers) => {
                self.numbers = self.numbers.max(*numbers);
                Ok(())
            }
            Record::Wals(wals) => {
                self.wals.clone_from(wals);
                Ok(())
            }
            Record::Clock(now) => {
                self.clock = self.clock.max(*now);
                Ok(())
            }
        }
    }

    fn create(&mut self, keyspace: &Keyspace) -> Result<(), Violation> {
        self.check_new(keyspace)?;
        let trees = keyspace.regions.iter().map(|region| (region.tree, Version::default()));
        self.trees.extend(trees);
        self.keyspaces.insert(keyspace.id, keyspace.clone());
        Ok(())
    }

    /// Whether a keyspace can be added, without adding it.
    ///
    /// # Errors
    /// What it contradicts.
    pub fn check_new(&self, keyspace: &Keyspace) -> Result<(), Violation> {
        let id = keyspace.id;
        let fail = |why: &str| Err(Violation(format!("keyspace {id}: {why}")));
        let mut all = self.keyspaces.values();
        if self.keyspaces.contains_key(&id) || all.any(|other| other.name == keyspace.name) {
            return fail("its number or name is taken");
        }
        if keyspace.regions.first().is_none_or(|region| !region.lo.is_empty()) {
            return fail("its first region does not begin with the empty key");
        }
        if keyspace.regions.windows(2).any(|pair| pair[0].lo >= pair[1].lo) {
            return fail("its regions are out of order");
        }
        if self.keyspaces.len() >= KEYSPACES_MAX {
            return fail("there are too many");
        }
        if keyspace.regions.iter().any(|region| region.tree.0 >= TREES_MAX) {
            return fail("no further tree can be made");
        }
        let trees: BTreeSet<TreeId> = keyspace.regions.iter().map(|region| region.tree).collect();
        let taken = trees.iter().any(|tree| self.trees.contains_key(tree));
        if taken || trees.len() != keyspace.regions.len() {
            return fail("one of its trees is another's");
        }
        Ok(())
    }
}
