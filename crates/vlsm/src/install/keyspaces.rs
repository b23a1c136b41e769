//! Creates a keyspace: a record in the manifest, then empty trees in the view. A record that a full
//! device refused is cut off the manifest, so no crash brings it back.

use super::{Installer, Leader, violated};
use crate::catalog::{KeyspaceInfo, KeyspaceOptions, check_name};
use crate::memtable::Memtable;
use crate::read::view::TreeView;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, MemtableId, Result, TreeId, Version};
use vlsm_disk::manifest::{self, Record};

impl Installer {
    /// Makes a keyspace. Waits for the manifest; not for latency paths.
    pub fn create_keyspace(
        self: &Arc<Self>,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceInfo>> {
        options.check()?;
        // Nor are copies of the log made: a batch in it may be of trees that are in the state.
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
        let numbers = leader.state.numbers;
        let (id, first) = (numbers.next_keyspace, numbers.next_tree);
        let regions = options.regions(first);
        let grown = manifest::Numbers {
            next_keyspace: id + 1,
            next_tree: first + regions.len() as u64,
            ..manifest::Numbers::default()
        };
        let (name, text) = (name.to_owned(), options.to_text()?);
        let keyspace = manifest::Keyspace { id, name, options: text, regions };
        let info = self.catalog.info(&keyspace)?;
        // Tried before the write: a record that cannot be applied could not be read, either.
        leader.state.check_new(&keyspace).map_err(|why| Error::InvalidArgument(why.0))?;
        let records = [Record::CreateKeyspace(keyspace), Record::Numbers(grown)];
        let added = self.append(leader, &records).or_else(|refused| match refused {
            // Nothing of it may be there after a crash, either.
            Error::NoSpace { .. } => leader.manifest.forget_refused().and(Err(refused)),
            _ => Err(refused),
        });
        added.map_err(|error| self.shared.failed(error))?;
        for record in &records {
            leader.state.apply(record).map_err(violated)?;
        }
        let tree = |id: &TreeId| TreeView {
            id: *id,
            active: Memtable::idle(MemtableId(self.shared.numbers.next_memtable())),
            immutables: Vec::new(),
            version: Arc::new(Version::default()),
            rules: info.rules.clone(),
            mixed: false,
        };
        self.views.add(info.trees.iter().map(tree));
        self.catalog.add(info.clone());
        Ok(info)
    }
}
