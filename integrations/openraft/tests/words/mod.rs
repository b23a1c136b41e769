//! An application for tests: a command sets a word, and the answer is the word before.
#![allow(dead_code, reason = "not every test uses all of it")]

use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId};
use std::path::Path;
use vlsm_openraft::{Apply, Changes, SnapshotFile, Storage};

openraft::declare_raft_types!(
    pub Config:
        D = (String, String),
        R = Option<String>,
        NodeId = u64,
        Node = (),
        Entry = Entry<Config>,
        SnapshotData = SnapshotFile,
);

/// The application.
pub struct Words;

impl Apply<Config> for Words {
    fn apply(
        &self,
        changes: &mut Changes<'_>,
        (key, value): (String, String),
    ) -> vlsm::Result<Option<String>> {
        let before = changes.get(&key)?;
        changes.put(&key, value)?;
        Ok(before.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn empty(&self) -> Option<String> {
        None
    }
}

/// Opens a node's storage.
pub fn open(folder: &Path) -> Storage<Config, Words> {
    Storage::open(folder, Words).expect("the storage can be opened")
}

/// The log id of an index, in term 1.
pub fn id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(1, 0), index)
}

/// An entry that sets a word.
pub fn entry(index: u64, key: &str, value: &str) -> Entry<Config> {
    let payload = EntryPayload::Normal((key.to_owned(), value.to_owned()));
    Entry { log_id: id(index), payload }
}
