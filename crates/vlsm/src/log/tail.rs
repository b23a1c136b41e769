//! The end of the WAL as the sequencing step sees it: records that are framed and not written yet.
//! A writing thread takes all of them at once ([`Tail::take`]).

use vlsm_core::{FileNumber, Seq};
use vlsm_disk::record::record_len;
use vlsm_disk::wal::{Framer, PreparedWal, WalFile};

/// The end of the WAL, as the sequencing step sees it.
pub(crate) struct Tail {
    framer: Framer,
    number: FileNumber,
    /// The offset up to which the file has its blocks.
    capacity: u64,
    buffer: Vec<u8>,
    /// The position after the last record.
    appended: u64,
    /// Files that the framer left since the buffer was last taken, oldest first.
    switches: Vec<Switch>,
}

/// A change of files that is framed and not written yet.
pub(super) struct Switch {
    /// The last records of the old file, and the position after them.
    pub rest: Vec<u8>,
    pub end: u64,
    pub next: PreparedWal,
    pub next_seq: Seq,
}

impl Tail {
    pub fn new(file: &WalFile) -> Self {
        Self {
            framer: file.framer(),
            number: FileNumber(file.number()),
            capacity: file.capacity(),
            buffer: Vec::new(),
            appended: 0,
            switches: Vec::new(),
        }
    }

    /// Whether a record of so many bytes lies within the file's capacity.
    pub(super) fn fits(&self, len: u64) -> bool {
        self.framer.offset() + with_mark(len) <= self.capacity
    }

    /// Goes over to the next file.
    pub(super) fn switch(&mut self, next: PreparedWal, next_seq: Seq) {
        self.framer = next.framer();
        self.number = FileNumber(next.number());
        self.capacity = next.capacity();
        let rest = std::mem::take(&mut self.buffer);
        self.switches.push(Switch { rest, end: self.appended, next, next_seq });
    }

    /// Takes what is framed, for writing: the changes of files, the last records, and the position
    /// after them. Records go into `buffer` from here on.
    pub(super) fn take(&mut self, buffer: Vec<u8>) -> (Vec<Switch>, Vec<u8>, u64) {
        let records = std::mem::replace(&mut self.buffer, buffer);
        (std::mem::take(&mut self.switches), records, self.appended)
    }

    /// The offset of the next record in its file.
    pub(super) fn offset(&self) -> u64 {
        self.framer.offset()
    }

    /// The offset up to which the current file has its blocks, where it is this one.
    pub(super) fn capacity_of(&self, file: u64) -> Option<u64> {
        (self.number.0 == file).then_some(self.capacity)
    }

    /// The file was lengthened. False when it is not the current one any more.
    pub(super) fn lengthened(&mut self, file: u64, to: u64) -> bool {
        let current = self.number.0 == file;
        if current {
            self.capacity = to;
        }
        current
    }

    /// The file that the next record goes into.
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The position after the last record.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// Frames a record; returns the position after it.
    #[inline]
    pub fn append(&mut self, frame: impl FnOnce(&mut Framer, &mut Vec<u8>)) -> u64 {
        let before = self.framer.offset();
        frame(&mut self.framer, &mut self.buffer);
        let after = self.framer.offset();
        assert!(after > before, "a record from {before} to {after} in {}", self.number);
        self.appended += after - before;
        self.appended
    }
}

/// A record's bytes with the mark that ends the log when the store is closed.
pub(super) fn with_mark(len: u64) -> u64 {
    len.saturating_add(record_len(0))
}
