//! The metadata of an SST that is known without opening it.
//!
//! Everywhere in the tree a [`Table`] is a *(file, visible slice of its key range)*. All tables
//! that show a part of a file share it; the file is removed after the last of them.

use crate::attachment::Attachment;
use crate::ids::{FileNumber, FileUid};
use crate::key::Seq;
use crate::range::KeyRange;
use crate::sketch::Sketch;
use crate::units::{self, Micros};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// One SST file, as the manifest records it. Immutable.
#[derive(Default)]
pub struct FileMeta {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The random number that its block checksums cover.
    pub uid: FileUid,
    /// Length of the file in bytes.
    pub bytes: units::Bytes,
    /// Checksum over the file's index, filter, properties and footer; these in turn cover the
    /// blocks.
    pub checksum: u64,
    /// Number of entries, tombstones included.
    pub entries: u64,
    /// Number of tombstones.
    pub tombstones: u64,
    /// Number of fragments of range tombstones.
    pub range_tombstones: u64,
    /// Smallest user key, or lower end of a range tombstone.
    pub smallest: Bytes,
    /// Largest user key, or upper end of a range tombstone.
    pub largest: Bytes,
    /// Whether `largest` is the upper end of a range tombstone and itself not covered.
    pub largest_exclusive: bool,
    /// Smallest sequence number of the entries. In a run of L0, hot keys that were kept in memory
    /// for a while count with the numbers under which they were logged again. The two numbers give
    /// the place of a run in the order of age.
    pub seq_min: Seq,
    /// Largest sequence number, in the same sense. No entry has a larger one.
    pub seq_max: Seq,
    /// For an ingested file: the sequence number of the ingest, which all its entries have in this
    /// store.
    pub global_seq: Option<Seq>,
    /// The time at which the first of its values expires; none if no value expires, or if the file
    /// is older than this field.
    pub expires: Option<Micros>,
    /// Bytes from the beginning of its index to its end: all except its blocks. Opening the file
    /// reads exactly these. None if the file is older than this field.
    pub tail: Option<units::Bytes>,
    /// A sketch of its keys, from which shapes estimate how many of them other runs of L0 have,
    /// too. Only files that were written into L0 have it, for shapes that ask for it. It does not
    /// affect equality: the manifest has it only while the file is in L0.
    pub sketch: Option<Arc<Sketch>>,
    /// The numbers of the WALs whose records hold values of the file, ascending. Each has a second
    /// name beside the file, which lives as long as the file.
    pub wals: Vec<u64>,
    /// Bytes of the values there.
    pub logged_bytes: units::Bytes,
}

impl FileMeta {
    /// The range of all its keys and range tombstones.
    #[must_use]
    pub fn range(&self) -> KeyRange {
        let hi_inclusive = !self.largest_exclusive;
        KeyRange { lo: self.smallest.clone(), hi: self.largest.clone(), hi_inclusive }
    }

    /// The same file with this sequence number for all entries and range tombstones. It must not
    /// hold two entries of one user key.
    #[must_use]
    pub fn with_global_seq(self, seq: Seq) -> Self {
        Self { seq_min: seq, seq_max: seq, global_seq: Some(seq), ..self }
    }
}

impl PartialEq for FileMeta {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
            && self.uid == other.uid
            && self.bytes == other.bytes
            && self.checksum == other.checksum
            && (self.entries, self.tombstones) == (other.entries, other.tombstones)
            && (&self.smallest, &self.largest) == (&other.smallest, &other.largest)
            && (self.seq_min, self.seq_max) == (other.seq_min, other.seq_max)
            && (self.range_tombstones, self.largest_exclusive)
                == (other.range_tombstones, other.largest_exclusive)
            && (self.global_seq, self.expires, self.tail)
                == (other.global_seq, other.expires, other.tail)
            && (&self.wals, self.logged_bytes) == (&other.wals, other.logged_bytes)
    }
}

impl fmt::Debug for FileMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {} {} {}", self.number, self.range(), self.bytes)
    }
}

/// A visible slice of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The file.
    pub file: Arc<FileMeta>,
    /// The keys of the file that this table shows.
    pub range: KeyRange,
    /// The bytes of the slice: exact for a whole file, else estimated.
    pub bytes: units::Bytes,
    /// The value that an upper layer keeps with the table: the reader of the open file.
    pub attachment: Attachment,
}

impl Table {
    /// The table that shows all of a file.
    #[must_use]
    pub fn whole(file: Arc<FileMeta>) -> Self {
        Self::slice(file.clone(), file.range(), file.bytes)
    }

    /// The table that shows `range` of a file, about `bytes` of it.
    #[must_use]
    pub fn slice(file: Arc<FileMeta>, range: KeyRange, bytes: units::Bytes) -> Self {
        Self { file, range, bytes, attachment: Attachment::default() }
    }

    /// The same table without its attachment.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self::slice(self.file.clone(), self.range.clone(), self.bytes)
    }

    /// Whether it shows all of its file.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.range.covers(&self.file.range())
    }
}
