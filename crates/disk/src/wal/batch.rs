//! The payload of a batch: its entries in order.
//!
//! ```text
//! entry := tree id (varint) | kind (u8) | key length (varint) | key
//!          [| value length (varint) | value]
//! ```
//!
//! A delete has no value. The value of a range delete is the upper end of its range, which is above
//! its key. The value of a put that expires begins with the expiry time, in [`EXPIRY_LEN`] bytes.
//! The value of a kept put begins with its original sequence number, in [`KEPT_LEN`] bytes.
//! Entry number i of a batch has the batch's first sequence number plus i.

use crate::codec::{Malformed, Reader, put_bytes, put_varint};
use crate::record::checksum;
use vlsm_core::key::{EXPIRY_LEN, KEPT_LEN, MAX_END_LEN, MAX_KEY_LEN};
use vlsm_core::{Kind, Seq, TreeId};

/// A batch under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    payload: Vec<u8>,
    entries: u64,
}

impl Batch {
    /// Appends an entry, which a reader must accept. A kind without a value ignores `value`.
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

    /// Appends a put that has this sequence number already.
    pub fn keep(&mut self, tree: TreeId, key: &[u8], seq: Seq, value: &[u8]) {
        self.payload.reserve(key.len() + value.len() + KEPT_LEN + 16);
        put_varint(&mut self.payload, tree.0);
        self.payload.push(Kind::Kept as u8);
        put_bytes(&mut self.payload, key);
        put_varint(&mut self.payload, (KEPT_LEN + value.len()) as u64);
        self.payload.extend_from_slice(&seq.0.to_le_bytes());
        self.payload.extend_from_slice(value);
        self.entries += 1;
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

    /// The payload's checksum, for the header of its record.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        checksum(&self.payload)
    }

    /// Removes all entries behind the first `entries`, which end at `bytes` of the payload.
    pub fn truncate(&mut self, entries: u64, bytes: usize) {
        debug_assert!(entries <= self.entries && bytes <= self.payload.len());
        self.payload.truncate(bytes);
        self.entries = entries;
    }

    /// Removes the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.entries = 0;
    }

    /// Iterates over the entries.
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
    /// The kind: what the entry says about the key.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// The value; empty for a delete.
    pub value: &'a [u8],
}

/// Iterates over the entries of a payload. It ends at the first malformed entry.
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

    /// The bytes behind the last entry.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    #[inline]
    fn read(&mut self) -> Result<Entry<'a>, Malformed> {
        let tree = TreeId(self.reader.varint()?);
        let kind = Kind::from_u8(self.reader.u8()?).ok_or(Malformed("an unknown kind of entry"))?;
        let key = self.reader.bytes()?;
        let value = if kind.has_value() { self.reader.bytes()? } else { &[] };
        if key.len() > MAX_KEY_LEN {
            return Err(Malformed("a key is too long"));
        }
        match kind {
            Kind::RangeDelete if key >= value => Err(Malformed("a range delete is empty"))?,
            Kind::RangeDelete if value.len() > MAX_END_LEN => {
                Err(Malformed("the end of a range delete is too long"))?;
            }
            Kind::PutExpiring if value.len() < EXPIRY_LEN => {
                Err(Malformed("an entry that expires does not say when"))?;
            }
            Kind::Kept if value.len() < KEPT_LEN => {
                Err(Malformed("a kept entry does not say which number it had"))?;
            }
            Kind::Logged => Err(Malformed("an entry is of a kind that only SSTs have"))?,
            _ => {}
        }
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

    fn every_kind() -> (Batch, Vec<Entry<'static>>) {
        let entries = vec![
            (1, Kind::Put, &b"key"[..], &b"value"[..]),
            (300, Kind::Delete, b"", b""),
            (1, Kind::Put, b"", b""),
            (1, Kind::Merge, b"sum", b"+1"),
            (2, Kind::RangeDelete, b"", b"\0"),
            (2, Kind::PutExpiring, b"soon", b"\x40\x42\x0f\0\0\0\0\0gone"),
            (1, Kind::Kept, b"hot", b"\x07\x01\0\0\0\0\0\0now"),
        ];
        let mut batch = Batch::default();
        let entries = entries.into_iter().map(|(tree, kind, key, value)| {
            batch.add(TreeId(tree), kind, key, value);
            Entry { tree: TreeId(tree), kind, key, value }
        });
        let entries = entries.collect();
        (batch, entries)
    }

    #[test]
    fn entries_come_back() {
        let (batch, expected) = every_kind();
        assert_eq!(batch.iter().collect::<Result<Vec<_>, _>>(), Ok(expected));
        assert_eq!(batch.entries(), 7);
        let hex: Vec<_> = batch.payload().iter().map(|byte| format!("{byte:02x}")).collect();
        let lines: Vec<_> = hex.chunks(14).map(|line| line.join(" ")).collect();
        expect_test::expect![[r#"
            01 01 03 6b 65 79 05 76 61 6c 75 65 ac 02
            00 00 01 01 00 00 01 02 03 73 75 6d 02 2b
            31 02 03 00 01 00 02 04 04 73 6f 6f 6e 0c
            40 42 0f 00 00 00 00 00 67 6f 6e 65 01 05
            03 68 6f 74 0b 07 01 00 00 00 00 00 00 6e
            6f 77"#]]
        .assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_cut_payload_has_fewer_entries() {
        let (batch, expected) = every_kind();
        let mut ends = vec![0];
        for len in 1..batch.payload().len() {
            let read: Vec<_> = Entries::new(&batch.payload()[..len]).collect();
            let whole = read.iter().filter(|entry| entry.is_ok()).count();
            assert!(read.iter().take(whole).flatten().eq(&expected[..whole]), "cut at {len}");
            assert!(whole < expected.len() && read.len() <= whole + 1, "cut at {len}");
            if read.len() == whole {
                ends.push(whole);
            }
        }
        assert_eq!(ends, [0, 1, 2, 3, 4, 5, 6], "only between entries is a cut not seen");
    }

    #[test]
    fn what_no_writer_writes_is_malformed() {
        let long = vec![b'k'; MAX_END_LEN + 1];
        for (kind, key, value, sound) in [
            (Kind::Put, &long[..MAX_KEY_LEN], &b""[..], true),
            (Kind::Put, &long[..MAX_KEY_LEN + 1], b"", false),
            (Kind::Delete, &long[..MAX_KEY_LEN + 1], b"", false),
            (Kind::RangeDelete, b"a", b"b", true),
            (Kind::RangeDelete, b"a", b"a", false),
            (Kind::RangeDelete, b"b", b"a", false),
            (Kind::RangeDelete, b"", b"", false),
            (Kind::RangeDelete, &long[..MAX_KEY_LEN], &long[..MAX_END_LEN], true),
            (Kind::RangeDelete, &long[..MAX_KEY_LEN + 1], b"z", false),
            (Kind::RangeDelete, b"a", &long, false),
            (Kind::PutExpiring, b"a", b"12345678", true),
            (Kind::PutExpiring, b"a", b"1234567", false),
            (Kind::Kept, b"a", b"12345678", true),
            (Kind::Kept, b"a", b"1234567", false),
            (Kind::Logged, b"a", b"1234567", false),
        ] {
            let mut batch = Batch::default();
            batch.add(TreeId(1), kind, key, value);
            batch.put(TreeId(1), b"next", b"");
            let read: Vec<_> = batch.iter().map(|entry| entry.is_ok()).collect();
            let expected = if sound { vec![true, true] } else { vec![false] };
            assert_eq!(read, expected, "{kind:?} {} {}", key.len(), value.len());
        }
        let mut batch = Batch::default();
        batch.keep(TreeId(1), b"hot", Seq(0x107), b"now");
        let mut by_kind = Batch::default();
        by_kind.add(TreeId(1), Kind::Kept, b"hot", b"\x07\x01\0\0\0\0\0\0now");
        assert_eq!(batch, by_kind);
        assert!(Entries::new(&[1, 9, 0]).next().is_some_and(|entry| entry.is_err()));
    }
}
