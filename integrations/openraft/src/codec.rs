//! Keys and values of the two keyspaces.
//!
//! Values are serde types as postcard writes them: compact, and byte strings as they are. A value
//! that cannot be decoded is an error, never a panic.

use crate::error::StoreError;
use openraft::{LogId, SnapshotMeta, StoredMembership};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::{Bound, RangeBounds};

/// The first byte of the keys of entries, in the keyspace `log`.
pub const ENTRY: u8 = b'e';
pub const VOTE: &[u8] = b"mvote";
pub const COMMITTED: &[u8] = b"mcommitted";
pub const PURGED: &[u8] = b"mpurged";
/// The number of the keyspace that is the state.
pub const STATE: &[u8] = b"mstate";
/// The [`Record`] of the current snapshot.
pub const SNAPSHOT: &[u8] = b"msnapshot";

/// The key of [`Applied`], in a keyspace `state-N`.
pub const APPLIED: &[u8] = b"m";
/// The first byte of the application's keys there.
pub const DATA: u8 = b'd';

/// What the state machine has applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Applied<NID: openraft::NodeId, N: openraft::Node> {
    pub last: Option<LogId<NID>>,
    pub membership: StoredMembership<NID, N>,
}

impl<NID: openraft::NodeId, N: openraft::Node> Default for Applied<NID, N> {
    fn default() -> Self {
        Self { last: None, membership: StoredMembership::default() }
    }
}

/// The current snapshot: what it holds, and the name of its file in the folder `snapshots`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Record<NID: openraft::NodeId, N: openraft::Node> {
    pub meta: SnapshotMeta<NID, N>,
    pub file: String,
}

/// The key of an entry.
pub fn entry_key(index: u64) -> [u8; 9] {
    let mut key = [ENTRY; 9];
    key[1..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The keys of the entries in a range of indexes.
pub fn entry_range(range: &impl RangeBounds<u64>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let start = match range.start_bound() {
        Bound::Included(index) => Bound::Included(entry_key(*index).to_vec()),
        Bound::Excluded(index) => Bound::Excluded(entry_key(*index).to_vec()),
        Bound::Unbounded => Bound::Included(vec![ENTRY]),
    };
    let end = match range.end_bound() {
        Bound::Included(index) => Bound::Included(entry_key(*index).to_vec()),
        Bound::Excluded(index) => Bound::Excluded(entry_key(*index).to_vec()),
        Bound::Unbounded => Bound::Excluded(vec![ENTRY + 1]),
    };
    (start, end)
}

/// The key of a pair of the application.
pub fn data_key(key: &[u8]) -> Vec<u8> {
    let mut prefixed = Vec::with_capacity(key.len() + 1);
    prefixed.push(DATA);
    prefixed.extend_from_slice(key);
    prefixed
}

/// A value as bytes.
pub fn encode<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>, StoreError> {
    postcard::to_stdvec(value).map_err(|source| StoreError::Encode { what, source })
}

/// A value from bytes.
pub fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, StoreError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(StoreError::Rest { what, len: rest.len() }),
        Err(source) => Err(StoreError::Decode { what, source }),
    }
}
