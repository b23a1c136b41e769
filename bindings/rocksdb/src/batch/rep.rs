//! A write batch in RocksDB's own encoding, so that programs can keep its bytes and read them
//! again.
//!
//! 1. A header of 12 bytes: a sequence number, which stays 0 here, and the number of writes.
//! 2. For each write a tag, the number of its column family unless that is 0, and its key and
//!    value, each preceded by its length. Numbers are varints of seven bits a byte.
//!
//! Bytes from outside are checked as they are read. The error of a write that cannot be added is
//! kept until the batch is written, because c.h has no parameter for it before.

use crate::call::Outcome;
use crate::status::{Failure, Kind};
use crate::store::Store;
use engine::{Batch, Durability, WriteOptions};
use std::ops::Range;
use std::sync::Arc;

const HEADER: usize = 12;

/// One write of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    Put(u32, &'a [u8], &'a [u8]),
    Merge(u32, &'a [u8], &'a [u8]),
    Delete(u32, &'a [u8]),
    SingleDelete(u32, &'a [u8]),
    DeleteRange(u32, &'a [u8], &'a [u8]),
    /// Bytes for iterations over the batch; not a write.
    LogData(&'a [u8]),
}

impl Op<'_> {
    /// The tags without and with the number of a column family.
    fn tags(&self) -> (u8, u8) {
        match self {
            Self::Put(..) => (0x1, 0x5),
            Self::Merge(..) => (0x2, 0x6),
            Self::Delete(..) => (0x0, 0x4),
            Self::SingleDelete(..) => (0x7, 0x8),
            Self::DeleteRange(..) => (0xf, 0xe),
            Self::LogData(_) => (0x3, 0x3),
        }
    }

    fn family(&self) -> u32 {
        match self {
            Self::Put(id, ..)
            | Self::Merge(id, ..)
            | Self::Delete(id, _)
            | Self::SingleDelete(id, _)
            | Self::DeleteRange(id, ..) => *id,
            Self::LogData(_) => 0,
        }
    }
}

/// A batch of writes.
#[derive(Clone)]
pub(crate) struct WriteBatch {
    rep: Vec<u8>,
    /// The lengths and counts at each savepoint.
    savepoints: Vec<(usize, u32)>,
    failure: Option<Failure>,
}

/// A range to delete. It is an error if the range ends before it begins, as in RocksDB.
pub(crate) fn forward<'a>(from: &'a [u8], to: &'a [u8]) -> Outcome<Range<&'a [u8]>> {
    match from <= to {
        true => Ok(from..to),
        false => Err(Failure::argument("a range to delete ends before it begins")),
    }
}

impl WriteBatch {
    pub(crate) fn new() -> Self {
        Self { rep: vec![0; HEADER], savepoints: Vec::new(), failure: None }
    }

    /// A batch from bytes that came from outside.
    pub(crate) fn of(rep: &[u8]) -> Self {
        let mut batch = Self { rep: rep.to_vec(), ..Self::new() };
        if rep.len() < HEADER {
            batch.rep = vec![0; HEADER];
            batch.failure = Some(damaged("malformed WriteBatch (too small)"));
        }
        batch
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.rep
    }

    pub(crate) fn count(&self) -> u32 {
        u32::from_le_bytes([self.rep[8], self.rep[9], self.rep[10], self.rep[11]])
    }

    fn set_count(&mut self, count: u32) {
        self.rep[8..HEADER].copy_from_slice(&count.to_le_bytes());
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Adds a write.
    pub(crate) fn add(&mut self, op: Op<'_>) {
        let (plain, tagged) = op.tags();
        match op.family() {
            0 => self.rep.push(plain),
            id => {
                self.rep.push(tagged);
                self.number(u64::from(id));
            }
        }
        match op {
            Op::Put(_, key, value) | Op::Merge(_, key, value) | Op::DeleteRange(_, key, value) => {
                self.piece(key);
                self.piece(value);
            }
            Op::Delete(_, key) | Op::SingleDelete(_, key) => self.piece(key),
            Op::LogData(data) => return self.piece(data),
        }
        self.set_count(self.count() + 1);
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.rep.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.rep.push(number as u8);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.rep.extend_from_slice(bytes);
    }

    pub(crate) fn set_savepoint(&mut self) {
        self.savepoints.push((self.rep.len(), self.count()));
    }

    /// Undoes the writes since the last savepoint, and removes it.
    pub(crate) fn rollback(&mut self) -> Outcome {
        let (len, count) = self.pop_savepoint()?;
        self.rep.truncate(len);
        self.set_count(count);
        Ok(())
    }

    pub(crate) fn pop_savepoint(&mut self) -> Outcome<(usize, u32)> {
        self.savepoints.pop().ok_or_else(|| Failure::new(Kind::NotFound, "no savepoint is set"))
    }

    /// The writes in their order. It ends after an error.
    pub(crate) fn ops(&self) -> Ops<'_> {
        Ops { rest: &self.rep[HEADER..] }
    }

    /// The batch as the engine writes it.
    pub(crate) fn for_engine(&self, store: &Store) -> Outcome<Batch> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut batch = Batch::new();
        for op in self.ops() {
            let op = op?;
            if matches!(op, Op::LogData(_)) {
                continue;
            }
            let family = store.family(op.family())?;
            match op {
                Op::Put(_, key, value) => batch.put(&family.keyspace, key, value),
                Op::Merge(_, key, value) => batch.merge(&family.keyspace, key, value),
                Op::Delete(_, key) | Op::SingleDelete(_, key) => {
                    batch.delete(&family.keyspace, key);
                }
                Op::DeleteRange(_, from, to) => {
                    batch.delete_range(&family.keyspace, forward(from, to)?);
                }
                Op::LogData(_) => {}
            }
        }
        Ok(batch)
    }

    /// Writes the batch. Without the WAL the engine takes one keyspace only; a batch of several
    /// goes through the WAL's buffer instead, which promises more than was requested.
    pub(crate) fn write(&self, store: &Arc<Store>, mut options: WriteOptions) -> Outcome {
        let batch = self.for_engine(store)?;
        if options.durability == Some(Durability::NoWal) {
            let mut families = self.ops().flatten().map(|op| op.family());
            let first = families.next();
            if families.any(|family| Some(family) != first) {
                options.durability = Some(Durability::Lazy);
            }
        }
        Ok(store.db.write(&batch, options)?)
    }
}

fn damaged(what: &str) -> Failure {
    Failure::new(Kind::Corruption, what)
}

/// The writes of a batch.
pub(crate) struct Ops<'a> {
    rest: &'a [u8],
}

impl<'a> Ops<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn piece(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (piece, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(piece)
    }

    fn op(&mut self) -> Option<Op<'a>> {
        let (tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        let id = match tag {
            0x4 | 0x5 | 0x6 | 0x8 | 0xe => u32::try_from(self.number()?).ok()?,
            _ => 0,
        };
        Some(match tag {
            0x1 | 0x5 => Op::Put(id, self.piece()?, self.piece()?),
            0x2 | 0x6 => Op::Merge(id, self.piece()?, self.piece()?),
            0x0 | 0x4 => Op::Delete(id, self.piece()?),
            0x7 | 0x8 => Op::SingleDelete(id, self.piece()?),
            0xf | 0xe => Op::DeleteRange(id, self.piece()?, self.piece()?),
            0x3 => Op::LogData(self.piece()?),
            _ => return None,
        })
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Outcome<Op<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let op = self.op();
        if op.is_none() {
            self.rest = &[];
        }
        Some(op.ok_or_else(|| damaged("bad WriteBatch: a record is cut off or of unknown kind")))
    }
}
