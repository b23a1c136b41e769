//! What is known of an SST without opening it.
//!
//! Everywhere in the tree a [`Table`] is a *(file, visible slice of its key range)*. A file is
//! shared by all tables that still show a part of it and dies with the last of them.

use crate::ids::{FileNumber, FileUid};
use crate::key::Seq;
use crate::range::KeyRange;
use crate::units;
use bytes::Bytes;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// One SST file, as the manifest records it. Immutable.
#[derive(Default)]
pub struct FileMeta {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The random number its block checksums bind.
    pub uid: FileUid,
    /// Length of the file in bytes.
    pub bytes: units::Bytes,
    /// Checksum over the file's index, filter, properties and footer; they in turn bind the blocks.
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
    /// Smallest sequence number.
    pub seq_min: Seq,
    /// Largest sequence number.
    pub seq_max: Seq,
    /// The sequence number that all its entries have in this store, whatever the file says: that of
    /// the ingest which brought the file.
    pub global_seq: Option<Seq>,
    /// A place for the layer that opens files to keep its reader. Never looked at here.
    pub reader: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl FileMeta {
    /// The range of all its keys and range tombstones.
    #[must_use]
    pub fn range(&self) -> KeyRange {
        let hi_inclusive = !self.largest_exclusive;
        KeyRange { lo: self.smallest.clone(), hi: self.largest.clone(), hi_inclusive }
    }

    /// The same file where all its entries and range tombstones have this sequence number. No two
    /// of its entries may be of one user key.
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
            && self.global_seq == other.global_seq
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
    /// The bytes of the file that lie in the slice: exact for a whole file, else estimated.
    pub bytes: units::Bytes,
}

impl Table {
    /// The table that shows all of a file.
    #[must_use]
    pub fn whole(file: Arc<FileMeta>) -> Self {
        Self { range: file.range(), bytes: file.bytes, file }
    }

    /// Whether it shows all of its file.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.range.covers(&self.file.range())
    }
}
