//! The store that an import writes: records go into the keyspaces that their lines name.
//!
//! A keyspace is looked up when the lines change to it. A keyspace that does not exist is created
//! only if the user allows it, because its name may be a typo. Records are counted for each
//! keyspace.

use super::Sink;
use crate::failure::{Failure, Result, say};
use crate::progress::grouped;
use crate::store::Store;
use serde_json::Value;
use std::collections::BTreeMap;
use vlsm::Keyspace;

/// A store, and the keyspace of the next record.
pub struct Target {
    store: Store,
    /// The name of the command's keyspace, for lines that name no keyspace.
    own: String,
    /// Whether keyspaces that do not exist are created.
    create: bool,
    /// Whether all records go into the command's keyspace, whatever their lines name.
    one: bool,
    /// The keyspace of the next record.
    current: String,
    /// The command's keyspace, while another one is in use.
    parked: Option<Keyspace>,
    /// The keyspaces used so far, with the records put into each.
    records: BTreeMap<String, u64>,
}

impl Target {
    /// Writes into a store, which is opened with its keyspace `own`.
    pub fn new(store: Store, own: &str, create: bool) -> Self {
        let own = own.to_owned();
        let (current, parked, records) = (own.clone(), None, BTreeMap::new());
        Self { store, own, create, one: false, current, parked, records }
    }

    /// Puts all records into the command's keyspace.
    pub fn into_one(self) -> Self {
        Self { one: true, ..self }
    }

    /// Writes the batch and makes everything survive power loss.
    pub fn sync(&mut self) -> Result {
        self.store.sync()
    }

    /// Closes the store, which must be synced. Returns the records put into each keyspace.
    pub fn close(self) -> Result<BTreeMap<String, u64>> {
        let Self { store, parked, records, .. } = self;
        drop(parked);
        store.close()?;
        Ok(records)
    }

    /// The records put into each keyspace so far, as a text.
    pub fn told(&self) -> String {
        let each = |(name, count): (&String, &u64)| format!("{name} {}", grouped(*count));
        self.records.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    fn change(&mut self, name: &str) -> Result<Option<String>> {
        let keyspace = match &self.parked {
            Some(_) if name == self.own => self.parked.take(),
            _ => None,
        };
        let keyspace = match keyspace {
            Some(keyspace) => Ok(keyspace),
            None => self.store.other_keyspace(name, self.create),
        };
        let keyspace = match keyspace {
            Ok(keyspace) => keyspace,
            Err(Failure::Failed(why)) if !self.create => {
                return Ok(Some(format!("{why}; --create makes it")));
            }
            Err(Failure::Usage(why)) => return Ok(Some(why)),
            Err(failure) => return Err(failure),
        };
        let before = self.store.use_keyspace(keyspace);
        if self.current == self.own {
            self.parked = Some(before);
        }
        name.clone_into(&mut self.current);
        Ok(None)
    }
}

impl Sink for Target {
    fn choose(&mut self, keyspace: Option<&str>) -> Result<Option<String>> {
        let name = match keyspace {
            Some(name) if !self.one => name,
            _ => self.own.as_str(),
        };
        if name != self.current {
            let name = name.to_owned();
            if let Some(problem) = self.change(&name)? {
                return Ok(Some(problem));
            }
        }
        if !self.records.contains_key(&self.current) {
            self.records.insert(self.current.clone(), 0);
        }
        Ok(None)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<String>> {
        self.store.batch_put(key, value);
        if let Some(records) = self.records.get_mut(&self.current) {
            *records += 1;
        }
        Ok(None)
    }

    fn commit(&mut self) -> Result {
        self.store.batch_write()
    }

    fn pending(&self) -> (usize, usize) {
        self.store.batch_len()
    }
}

/// Prints the records of each keyspace, if there are several.
pub fn list(records: &BTreeMap<String, u64>) {
    if records.len() > 1 {
        for (name, count) in records {
            say(format_args!("  {name}: {}", grouped(*count)));
        }
    }
}

/// The records of each keyspace, as JSON.
pub fn json(records: &BTreeMap<String, u64>) -> Value {
    records.iter().map(|(name, count)| (name.clone(), Value::from(*count))).collect()
}
