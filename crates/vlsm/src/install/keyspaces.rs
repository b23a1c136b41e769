//! Creates, clears and drops keyspaces: a record in the manifest, then the trees in the view. A
//! record that a full device refused is cut off the manifest, so that it cannot reappear after a
//! crash.
//!
//! Clearing a keyspace drops it and creates one with the same name, options and splits and with new
//! trees, atomically. Numbers of trees are never reused, so recovery recognizes writes to old
//! trees, in the WAL or in files, and ignores them.
//!
//! 1. The caller syncs the WAL, so that a crash that keeps the change loses no earlier write.
//! 2. The record is appended and synced. From here on the change survives a crash.
//! 3. The view gets the new trees (`write/retire`). The batches between 2 and 3 are ordered before
//!    the change.
//! 4. The files of the old trees become zombies, and are removed when no reader sees them. Results
//!    of jobs of the old trees are not installed.

use super::{Installer, Leader, violated};
use crate::catalog::{
    Catalog, DEFAULT_KEYSPACE, KeyspaceInfo, KeyspaceOptions, Trees, check_name, regions_from,
};
use crate::memtable::Memtable;
use crate::read::view::TreeView;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, MemtableId, Result, Seq, TreeId, Version};
use vlsm_disk::manifest::{self, Record};

/// The trees that replace a keyspace's old trees.
pub(crate) struct Replacement {
    /// The keyspace's new number in the manifest.
    pub id: u64,
    pub trees: Trees,
    pub views: Vec<TreeView>,
}

impl Installer {
    /// Creates a keyspace. Waits for the manifest; not for latency paths.
    pub fn create_keyspace(
        self: &Arc<Self>,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceInfo>> {
        options.check()?;
        // This also excludes checkpoints: their copy of the WAL must not contain a batch for a tree
        // that is not in their state.
        let torn = planted::is(Bug::CopyTreesTorn);
        let _alone = if torn { None } else { Some(self.without_ingests()?) };
        self.alone(|leader| {
            self.shared.health.check()?;
            self.add_keyspace(leader, name, options)
        })
    }

    fn add_keyspace(
        &self,
        leader: &mut Leader,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceInfo>> {
        if let Some(known) = self.catalog.keyspace(name) {
            known.check_options(options)?;
            return Ok(known);
        }
        check_name(name)?;
        options.check_within(&self.shared.options)?;
        let numbers = leader.state.numbers;
        let (id, first) = (numbers.next_keyspace, numbers.next_tree);
        let regions = regions_from(&options.splits, first);
        let grown = manifest::Numbers {
            next_keyspace: id + 1,
            next_tree: first + regions.len() as u64,
            ..manifest::Numbers::default()
        };
        let (name, text) = (name.to_owned(), options.to_text()?);
        let keyspace = manifest::Keyspace { id, name, options: text, regions };
        let info = self.catalog.info(&keyspace)?;
        // Checked before the write, because a record that cannot be applied could not be read
        // either.
        leader.state.check_new(&keyspace).map_err(|why| Error::InvalidArgument(why.0))?;
        self.record(leader, &[Record::CreateKeyspace(keyspace), Record::Numbers(grown)])?;
        self.views.add(info.trees()?.iter().map(|tree| self.empty_tree(tree, &info)));
        self.catalog.add(info.clone());
        Ok(info)
    }

    /// Makes changes of keyspaces durable, all or none of them.
    fn record(&self, leader: &mut Leader, records: &[Record]) -> Result<()> {
        let added = self.append(leader, records).or_else(|refused| match refused {
            // Nothing of the records may survive a crash, either.
            Error::NoSpace { .. } => leader.manifest.forget_refused().and(Err(refused)),
            _ => Err(refused),
        });
        added.map_err(|error| self.shared.failed(error))?;
        records.iter().try_for_each(|record| leader.state.apply(record).map_err(violated))
    }

    fn empty_tree(&self, id: TreeId, info: &KeyspaceInfo) -> TreeView {
        TreeView {
            id,
            active: Memtable::idle(MemtableId(self.shared.numbers.next_memtable())),
            immutables: Vec::new(),
            version: Arc::new(Version::default()),
            rules: info.made().rules.clone(),
            mixed: false,
        }
    }

    /// Removes all data of a keyspace, and the keyspace unless it `stays`. `retire` is step 3.
    /// Waits for the manifest; not for latency paths.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`], or any error of writing the manifest.
    pub fn replace_trees(
        self: &Arc<Self>,
        info: &Arc<KeyspaceInfo>,
        stays: bool,
        retire: impl FnOnce(Option<Replacement>) -> Result<Seq>,
    ) -> Result<Seq> {
        self.alone(|leader| {
            self.shared.health.check()?;
            let old = info.trees()?;
            let state = &leader.state;
            let known = state.keyspaces.get(&info.id());
            let known = known.ok_or_else(|| Error::KeyspaceDropped(info.name()))?;
            let files: Vec<_> = old
                .iter()
                .filter_map(|tree| state.trees.get(&tree))
                .flat_map(|version| version.tables())
                .map(|(_, table)| table.file.clone())
                .collect();
            let mut records = vec![Record::DropKeyspace(known.id)];
            let mut new = None;
            if stays {
                let (id, first) = (state.numbers.next_keyspace, state.numbers.next_tree);
                let regions = regions_from(&info.splits, first);
                let grown = manifest::Numbers {
                    next_keyspace: id + 1,
                    next_tree: first + regions.len() as u64,
                    ..manifest::Numbers::default()
                };
                let trees = Catalog::trees_of(&regions);
                state.check_trees(&regions).map_err(|why| Error::InvalidArgument(why.0))?;
                let made = manifest::Keyspace { id, regions, ..known.clone() };
                records.extend([Record::CreateKeyspace(made), Record::Numbers(grown)]);
                let views = trees.iter().map(|tree| self.empty_tree(tree, info)).collect();
                new = Some(Replacement { id, trees, views });
            }
            let unrecorded = planted::is(Bug::ClearUnrecorded);
            if !unrecorded {
                self.record(leader, &records)?;
            }
            let seq = retire(new)?;
            if !unrecorded {
                self.dead.bury(files);
            }
            Ok(seq)
        })
    }

    /// Renames a keyspace.
    ///
    /// # Errors
    /// [`Error::NameTaken`], [`Error::KeyspaceNeeded`], [`Error::KeyspaceDropped`], or any error of
    /// writing the manifest.
    pub fn rename_keyspace(self: &Arc<Self>, info: &Arc<KeyspaceInfo>, name: &str) -> Result<()> {
        check_name(name)?;
        self.alter(info, |known| {
            if known.name == name {
                return Ok(());
            }
            if known.name == DEFAULT_KEYSPACE {
                return Err(Error::KeyspaceNeeded(known.name.clone()));
            }
            if self.catalog.keyspace(name).is_some() {
                return Err(Error::NameTaken(name.to_owned()));
            }
            name.clone_into(&mut known.name);
            Ok(())
        })
    }

    /// Changes the options of a keyspace.
    ///
    /// # Errors
    /// [`Error::OptionFixed`], [`Error::KeyspaceDropped`], or any error of writing the manifest.
    pub fn set_keyspace_options(
        self: &Arc<Self>,
        info: &Arc<KeyspaceInfo>,
        options: &KeyspaceOptions,
    ) -> Result<()> {
        options.check()?;
        self.alter(info, |known| {
            let before = info.made();
            let differences = before.options.fixed_differences(options);
            if !differences.is_empty() {
                return Err(Error::OptionFixed { keyspace: known.name.clone(), differences });
            }
            if options.memtable_bytes != before.options.memtable_bytes {
                options.check_within(&self.shared.options)?;
            }
            known.options = options.to_text()?;
            Ok(())
        })
    }

    /// Changes a keyspace's record, then its rules in the view. Running reads and jobs keep the
    /// rules with which they began.
    fn alter(
        self: &Arc<Self>,
        info: &Arc<KeyspaceInfo>,
        change: impl FnOnce(&mut manifest::Keyspace) -> Result<()>,
    ) -> Result<()> {
        self.alone(|leader| {
            self.shared.health.check()?;
            info.trees()?;
            let known = leader.state.keyspaces.get(&info.id());
            let known = known.ok_or_else(|| Error::KeyspaceDropped(info.name()))?;
            let mut changed = known.clone();
            change(&mut changed)?;
            if changed == *known {
                return Ok(());
            }
            let made = self.catalog.altered(info, &changed)?;
            let renamed = changed.name != known.name;
            if renamed && planted::is(Bug::RenameSeenEarly) {
                self.catalog.alter(info, self.catalog.altered(info, &changed)?);
            }
            let manifest::Keyspace { id, name, options, .. } = changed;
            let rules = made.rules.clone();
            if !renamed || !planted::is(Bug::RenameUnrecorded) {
                self.record(leader, &[Record::AlterKeyspace { id, name, options }])?;
            }
            self.catalog.alter(info, made);
            for tree in info.trees()?.iter() {
                let rules = rules.clone();
                self.views.update(tree, |tree| TreeView { rules, ..tree.clone() });
            }
            Ok(())
        })
    }

    /// Releases the WALs that only trees that are no longer in use needed.
    pub fn release_wals(self: &Arc<Self>) -> Result<()> {
        self.alone(|leader| {
            let min_wal = self.log.oldest_needed(&self.views, &[]);
            self.list_wals(leader, min_wal, self.log.listed(min_wal))?;
            self.log.release(min_wal);
            Ok(())
        })
    }
}
