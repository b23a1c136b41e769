//! A set of writes that happens as a whole or not at all.
//!
//! A batch is kept in the encoding of its WAL record from the first `put` on, so committing it
//! copies its bytes once. Which tree (region) a key belongs to is decided here, when the write is
//! added.

use crate::keyspace::{Keyspace, KeyspaceInfo};
use vlsm_core::key::check_lengths;
use vlsm_core::{Error, Kind, Result, TreeId};
use vlsm_disk::wal;

/// The most bytes one batch may hold, in its encoding.
pub const MAX_BATCH_LEN: usize = 1 << 30;

/// Where one write lies in a batch's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub tree: TreeId,
    pub kind: Kind,
    key: (u32, u32),
    value: (u32, u32),
}

/// Writes to any keyspaces of one store, applied atomically by [`Db::write`](crate::Db::write).
///
/// Of several writes to one key, the last one wins.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    encoded: wal::Batch,
    entries: Vec<Entry>,
    /// The store whose keyspaces it names.
    store: Option<u64>,
    error: Option<Error>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key of a keyspace to a value.
    ///
    /// A key or value over the limits makes [`Db::write`](crate::Db::write) refuse the whole batch.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.add(&keyspace.info, Kind::Put, key.as_ref(), value.as_ref());
    }

    /// Removes a key of a keyspace, if it is there.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.add(&keyspace.info, Kind::Delete, key.as_ref(), &[]);
    }

    pub(crate) fn add(&mut self, keyspace: &KeyspaceInfo, kind: Kind, key: &[u8], value: &[u8]) {
        if let Err(error) = check_lengths(key.len(), value.len()) {
            self.error.get_or_insert(error);
            return;
        }
        if self.encoded_len() + key.len() + value.len() > MAX_BATCH_LEN {
            self.error.get_or_insert(Error::InvalidArgument(format!(
                "the batch is larger than the limit of {MAX_BATCH_LEN} bytes: split it"
            )));
            return;
        }
        if *self.store.get_or_insert(keyspace.store) != keyspace.store {
            self.error.get_or_insert(other_store());
            return;
        }
        let tree = keyspace.tree_of(key);
        self.encoded.add(tree, kind, key, value);
        let end = self.encoded_len() as u32;
        let value_len = if kind.has_value() { value.len() + varint_len(value.len()) } else { 0 };
        let key_end = end - value_len as u32;
        let key = (key_end - key.len() as u32, key_end);
        let value = (end - value.len() as u32, end);
        self.entries.push(Entry { tree, kind, key, value });
    }

    /// Number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Length of its encoding in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.encoded.payload().len()
    }

    /// Removes all writes and keeps the memory.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.entries.clear();
        self.store = None;
        self.error = None;
    }

    /// Whether a store may take it.
    pub(crate) fn check(&self, store: u64) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        match self.store {
            Some(named) if named != store => Err(other_store()),
            _ => Ok(()),
        }
    }

    /// Its payload in the WAL.
    pub(crate) fn payload(&self) -> &[u8] {
        self.encoded.payload()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn key(&self, entry: &Entry) -> &[u8] {
        &self.payload()[entry.key.0 as usize..entry.key.1 as usize]
    }

    pub(crate) fn value(&self, entry: &Entry) -> &[u8] {
        &self.payload()[entry.value.0 as usize..entry.value.1 as usize]
    }
}

/// A handle of one store was used with another.
pub(crate) fn other_store() -> Error {
    Error::InvalidArgument("the keyspace belongs to another store".into())
}

/// Length of a number as a varint of seven bits a byte.
fn varint_len(n: usize) -> usize {
    (usize::BITS - (n | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::varint_len;

    #[test]
    fn varints_grow_by_a_byte_every_seven_bits() {
        let lens = [0, 1, 127, 128, 16_383, 16_384, 1 << 30].map(varint_len);
        assert_eq!(lens, [1, 1, 1, 2, 2, 3, 5]);
    }
}
