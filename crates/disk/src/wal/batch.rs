//! The payload of a batch: its entries, one after the other.
//!
//! ```text
//! entry := tree id (varint) | kind (u8) | key length (varint) | key
//!          [| value length (varint) | value]
//! ```
//!
//! A delete has no value. A range delete has the upper end of its range for a value. Entry number i
//! of a batch has the batch's first sequence number plus i.

use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::wal::format::checksum;
use vlsm_core::{Kind, TreeId};

/// A batch while it is put together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    payload: Vec<u8>,
    entries: u64,
}

impl Batch {
    /// Appends an entry. The value of a kind that has none is left out.
    #[inline]
    pub fn add(&mut self, tree: TreeId, kind: Kind, key: &[u8], value: &[u8]) {
        self.payload.reserve(key.len() + value.len() + 16);
        put_varint(&mut self.payload, tree.0);
        self.payload.push(kind as u8);
        put_bytes(&mut self.payload, key);
        if kind.has_value() {
            put_bytes(&mut self.payload, value);
        }
        self.entries += 1;
    }

    /// Appends a put.
    #[inline]
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) {
        self.add(tree, Kind::Put, key, value);
    }

    /// Appends a tombstone.
    #[inline]
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) {
        self.add(tree, Kind::Delete, key, &[]);
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The encoded entries.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The payload's checksum, as a record needs it.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        checksum(&self.payload)
    }

    /// Forgets the entries, keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.entries = 0;
    }

    /// Walks over the entries.
    #[must_use]
    pub fn iter(&self) -> Entries<'_> {
        Entries::new(&self.payload)
    }
}

/// One entry of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The tree.
    pub tree: TreeId,
    /// What it says about the key.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// The value; empty for a delete.
    pub value: &'a [u8],
}

/// Walks over the entries of a payload. After the first malformed one it ends.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    reader: Reader<'a>,
}

impl<'a> Entries<'a> {
    /// Begins at the first entry.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader::new(payload) }
    }

    #[inline]
    fn read(&mut self) -> Result<Entry<'a>, Malformed> {
        let tree = TreeId(self.reader.varint()?);
        let kind = Kind::from_u8(self.reader.u8()?).ok_or(Malformed("an unknown kind of entry"))?;
        let key = self.reader.bytes()?;
        let value = if kind.has_value() { self.reader.bytes()? } else { &[] };
        Ok(Entry { tree, kind, key, value })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let mut batch = Batch::default();
        batch.put(TreeId(1), b"key", b"value");
        batch.delete(TreeId(300), b"");
        batch.put(TreeId(1), b"", b"");
        let expected = [
            Entry { tree: TreeId(1), kind: Kind::Put, key: b"key", value: b"value" },
            Entry { tree: TreeId(300), kind: Kind::Delete, key: b"", value: b"" },
            Entry { tree: TreeId(1), kind: Kind::Put, key: b"", value: b"" },
        ];
        assert_eq!(batch.iter().collect::<Result<Vec<_>, _>>(), Ok(expected.to_vec()));
        assert_eq!(batch.payload()[..6], [1, 1, 3, b'k', b'e', b'y']);
        for len in 1..batch.payload().len() {
            let count = Entries::new(&batch.payload()[..len]).filter(Result::is_ok).count();
            assert!(count < 3, "a cut payload has fewer entries");
        }
        assert!(Entries::new(&[1, 9, 0]).next().is_some_and(|entry| entry.is_err()));
    }
}
