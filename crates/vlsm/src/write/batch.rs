//! An atomic set of writes.
//!
//! A batch holds its writes in the encoding of its WAL record, so a commit copies its bytes once.
//! The tree (region) of a key is determined here, when the write is added.

use crate::catalog::KeyspaceInfo;
use crate::trace::Asked;
use bytes::Bytes;
use std::ops::Bound;
use std::time::Duration;
use vlsm_core::key::{MAX_END_LEN, MAX_KEY_LEN, check_lengths, successor};
use vlsm_core::range_tombstones::after;
use vlsm_core::{Error, Kind, Result, TreeId};
use vlsm_disk::wal;

/// The largest encoded length of a batch.
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
/// The last of several writes to one key wins; operands of a merge operator accumulate.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    encoded: wal::Batch,
    entries: Vec<Entry>,
    /// The store of its keyspaces.
    store: Option<u64>,
    error: Option<Error>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add_put(&mut self, keyspace: &KeyspaceInfo, key: &[u8], value: &[u8]) {
        match keyspace.ttl() {
            None => self.add(keyspace, Kind::Put, key, value),
            Some(ttl) => self.add_expiring(keyspace, key, value, ttl),
        }
    }

    pub(crate) fn add_expiring(
        &mut self,
        keyspace: &KeyspaceInfo,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) {
        let made = keyspace.made();
        if made.rules.operator.is_some() {
            let what = format!(
                "keyspace {:?} has a merge operator, so its values cannot expire: put without a \
                 time to live, or use another keyspace",
                made.name
            );
            self.refuse(Error::InvalidArgument(what));
            return;
        }
        let moment = keyspace.clock.moment_after(ttl).0;
        let mut stamped = Vec::with_capacity(value.len() + size_of::<u64>());
        stamped.extend_from_slice(&moment.to_le_bytes());
        stamped.extend_from_slice(value);
        self.add(keyspace, Kind::PutExpiring, key, &stamped);
    }

    pub(crate) fn add_merge(&mut self, keyspace: &KeyspaceInfo, key: &[u8], operand: &[u8]) {
        let checked = keyspace.made().rules.check_operand(key, operand);
        match checked {
            Ok(()) => self.add(keyspace, Kind::Merge, key, operand),
            Err(error) => self.refuse(error),
        }
    }

    pub(crate) fn add_range(
        &mut self,
        keyspace: &KeyspaceInfo,
        (lo, hi): (Bound<Bytes>, Bound<Bytes>),
    ) {
        for bound in [&lo, &hi] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound
                && let Err(error) = check_lengths(key.len(), 0)
            {
                self.refuse(error);
                return;
            }
        }
        let lo = match lo {
            Bound::Included(key) => key,
            Bound::Excluded(key) if key.len() < MAX_KEY_LEN => after(&key),
            // No key is longer, so the next one is the next of this length.
            Bound::Excluded(key) => match successor(&key) {
                Some(next) => next.into(),
                None => return,
            },
            Bound::Unbounded => Bytes::new(),
        };
        let hi = match hi {
            Bound::Included(key) => after(&key),
            Bound::Excluded(key) => key,
            // Longer than any key, and so larger.
            Bound::Unbounded => vec![0xff; MAX_END_LEN].into(),
        };
        if lo >= hi {
            return;
        }
        for region in keyspace.region_of(&lo)..keyspace.region_count() {
            let splits = &keyspace.splits;
            let from = match region.checked_sub(1) {
                Some(before) => (&lo[..]).max(&splits[before][..]),
                None => &lo[..],
            };
            let to = splits.get(region).map_or(&hi[..], |split| (&hi[..]).min(split));
            if from >= to {
                return;
            }
            self.add(keyspace, Kind::RangeDelete, from, to);
        }
    }

    fn refuse(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn add(&mut self, keyspace: &KeyspaceInfo, kind: Kind, key: &[u8], value: &[u8]) {
        if let Err(error) = check_lengths(key.len(), value.len()) {
            self.refuse(error);
            return;
        }
        if self.encoded_len() + key.len() + value.len() > MAX_BATCH_LEN {
            self.refuse(Error::InvalidArgument(format!(
                "the batch is larger than the limit of {MAX_BATCH_LEN} bytes (MAX_BATCH_LEN): \
                 split it"
            )));
            return;
        }
        if *self.store.get_or_insert(keyspace.store) != keyspace.store {
            self.refuse(other_store());
            return;
        }
        match keyspace.tree_of(key) {
            Ok(tree) => self.add_to(tree, kind, key, value),
            Err(dropped) => self.refuse(dropped),
        }
    }

    fn add_to(&mut self, tree: TreeId, kind: Kind, key: &[u8], value: &[u8]) {
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

    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Length of its encoding in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        self.encoded.payload().len()
    }

    /// Removes all writes and keeps the memory for reuse.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.entries.clear();
        self.store = None;
        self.error = None;
    }

    /// The same writes, each to the tree that `moved` puts in the place of its own.
    pub(crate) fn moved(&self, moved: impl Fn(TreeId) -> Result<TreeId>) -> Result<Self> {
        let mut batch = Self { store: self.store, ..Self::default() };
        for entry in &self.entries {
            batch.add_to(moved(entry.tree)?, entry.kind, self.key(entry), self.value(entry));
        }
        Ok(batch)
    }

    /// Removes all writes behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        let end = match len.checked_sub(1) {
            Some(last) => self.entries[last].value.1 as usize,
            None => 0,
        };
        self.encoded.truncate(len as u64, end);
        self.entries.truncate(len);
        if len == 0 {
            self.store = None;
        }
    }

    /// The error of a write that was refused, which is forgotten: the batch is as it was before it.
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Checks that this store may write the batch.
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

    /// Its writes, for a trace.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (TreeId, Asked<'_>, &[u8])> {
        self.entries.iter().map(|entry| {
            let value = self.value(entry);
            let asked = match entry.kind {
                // No batch of users has a kept entry, or one without its value.
                Kind::Put | Kind::Kept | Kind::Logged => Asked::Put(value.len() as u64),
                // The moment at which it expires is before the value.
                Kind::PutExpiring => Asked::Put((value.len() - size_of::<u64>()) as u64),
                Kind::Delete => Asked::Delete,
                Kind::Merge => Asked::Merge(value.len() as u64),
                Kind::RangeDelete => Asked::DeleteRange(value),
            };
            (entry.tree, asked, self.key(entry))
        })
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
