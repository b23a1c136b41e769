//! The state of a manifest after its records.
//!
//! Invariants: every tree belongs to one region of one keyspace; a keyspace's first region begins
//! with the empty key, and the lower ends of its regions ascend; numbers only grow.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use vlsm_core::{Micros, Seq, TreeId, Version, VersionEdit, Violation};

/// The most keyspaces of a store.
pub const KEYSPACES_MAX: usize = 16_384;
/// The bound of tree numbers over a store's life.
const TREES_MAX: u64 = 1 << 40;
/// The most trees at one time: the regions of all keyspaces.
const REGIONS_MAX: usize = 1 << 20;

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
    /// Its options as text, which only the engine interprets.
    pub options: String,
    /// Its regions in key order.
    pub regions: Vec<Region>,
}

/// The counters of a store. Each only grows.
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
    /// The smallest WAL whose batches are not all in tables: zero, or a WAL whose start was
    /// durable.
    pub min_wal: u64,
    /// The last sequence number that is known to be used. The WAL may hold larger ones.
    pub last_seq: Seq,
}

impl Numbers {
    /// The larger value of each counter.
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
    /// Adds a keyspace with empty trees.
    CreateKeyspace(Keyspace),
    /// Removes a keyspace with its trees.
    DropKeyspace(u64),
    /// Changes the name and the options of a keyspace.
    AlterKeyspace {
        /// Its number.
        id: u64,
        /// Its name from here on.
        name: String,
        /// Its options from here on.
        options: String,
    },
    /// Changes a tree.
    Edit(TreeId, VersionEdit),
    /// Raises counters. A field of zero changes nothing.
    Numbers(Numbers),
    /// Replaces the list of WALs.
    Wals(Vec<u64>),
    /// Raises the clock by which values expire. It never falls.
    Clock(Micros),
}

/// The whole content of a manifest.
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
    /// needed any more. The others exist, durably: a missing one is a loss of data.
    pub wals: Vec<u64>,
    /// The largest time at which values were found to be expired, since the Unix epoch; zero if
    /// nothing expires.
    pub clock: Micros,
}

impl State {
    /// Applies a change.
    ///
    /// # Errors
    /// If the change contradicts the state, which is then unchanged.
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
            Record::AlterKeyspace { id, name, options } => self.alter(*id, name, options),
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

    fn alter(&mut self, id: u64, name: &str, options: &str) -> Result<(), Violation> {
        let taken = |other: &Keyspace| other.id != id && other.name == name;
        if name.is_empty() || self.keyspaces.values().any(taken) {
            return Err(Violation(format!("keyspace {id}: its name is empty or taken")));
        }
        let known = self.keyspaces.get_mut(&id);
        let known = known.ok_or_else(|| Violation(format!("there is no keyspace {id}")))?;
        (known.name, known.options) = (name.to_owned(), options.to_owned());
        Ok(())
    }

    fn create(&mut self, keyspace: &Keyspace) -> Result<(), Violation> {
        self.check_new(keyspace)?;
        let trees = keyspace.regions.iter().map(|region| (region.tree, Version::default()));
        self.trees.extend(trees);
        self.keyspaces.insert(keyspace.id, keyspace.clone());
        Ok(())
    }

    /// Whether trees can have such numbers.
    ///
    /// # Errors
    /// The numbers have been used up.
    pub fn check_trees(&self, regions: &[Region]) -> Result<(), Violation> {
        match regions.iter().any(|region| region.tree.0 >= TREES_MAX) {
            true => Err(Violation("no further tree can be made".into())),
            false => Ok(()),
        }
    }

    /// Whether a keyspace can be added, without adding it.
    ///
    /// # Errors
    /// The contradiction.
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
        if self.trees.len() + keyspace.regions.len() > REGIONS_MAX {
            return fail("the store would have more than 1048576 regions");
        }
        self.check_trees(&keyspace.regions)?;
        let trees: BTreeSet<TreeId> = keyspace.regions.iter().map(|region| region.tree).collect();
        let taken = trees.iter().any(|tree| self.trees.contains_key(tree));
        if taken || trees.len() != keyspace.regions.len() {
            return fail("one of its trees is another's");
        }
        Ok(())
    }
}
