//! The writes of a batch or a transaction by key, so that they can be read before they are written.
//!
//! For each key it has the effect of the writes on the value below (unchanged, removed, or
//! replaced), and the operands that were merged since. Deleted ranges are not indexed, as in
//! RocksDB.

use super::rep::{Op, WriteBatch};
use crate::call::Outcome;
use crate::status::{Failure, Kind};
use crate::store::{Family, Store};
use std::collections::BTreeMap;

/// The change that writes make to the value below.
#[derive(Debug, Clone)]
enum Base {
    Below,
    Deleted,
    Value(Vec<u8>),
}

/// The writes to one key.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    base: Base,
    operands: Vec<Vec<u8>>,
}

impl Entry {
    /// The value, if the writes alone decide it.
    pub(crate) fn alone(&self) -> Outcome<Option<Vec<u8>>> {
        match (&self.base, self.operands.is_empty()) {
            (Base::Value(value), true) => Ok(Some(value.clone())),
            (Base::Deleted | Base::Below, true) => Ok(None),
            (_, false) => Err(Failure::missing(
                "the batch alone does not decide the value of a merged key: read it with \
                 rocksdb_writebatch_wi_get_from_batch_and_db",
            )),
        }
    }

    /// The value of the key. `below` is called if the writes alone do not determine it.
    pub(crate) fn value(
        &self,
        family: &Family,
        key: &[u8],
        below: impl FnOnce() -> Outcome<Option<Vec<u8>>>,
    ) -> Outcome<Option<Vec<u8>>> {
        let base = match &self.base {
            Base::Below => below()?,
            Base::Deleted => None,
            Base::Value(value) => Some(value.clone()),
        };
        if self.operands.is_empty() {
            return Ok(base);
        }
        let operator = family.slot.as_ref().and_then(|slot| slot.operator()).ok_or_else(|| {
            Failure::argument(format!(
                "column family {:?} has no merge operator: set one by \
                 rocksdb_options_set_merge_operator before the database is opened",
                family.name
            ))
        })?;
        let operands: Vec<&[u8]> = self.operands.iter().map(Vec::as_slice).collect();
        let merged = operator.full(key, base.as_deref(), &operands);
        let failed = || Failure::new(Kind::Corruption, "Merge operator failed");
        merged.ok_or_else(failed).map(Some)
    }
}

/// Writes by column family and key.
#[derive(Default, Clone)]
pub(crate) struct Index(BTreeMap<(u32, Vec<u8>), Entry>);

impl Index {
    /// The index of a batch.
    pub(crate) fn of(batch: &WriteBatch) -> Self {
        let mut index = Self::default();
        batch.ops().flatten().for_each(|op| index.add(op));
        index
    }

    pub(crate) fn add(&mut self, op: Op<'_>) {
        let replaced = |base| Entry { base, operands: Vec::new() };
        match op {
            Op::Put(id, key, value) => {
                self.0.insert((id, key.to_vec()), replaced(Base::Value(value.to_vec())));
            }
            Op::Delete(id, key) | Op::SingleDelete(id, key) => {
                self.0.insert((id, key.to_vec()), replaced(Base::Deleted));
            }
            Op::Merge(id, key, operand) => {
                let entry = self.0.entry((id, key.to_vec()));
                let entry = entry.or_insert_with(|| replaced(Base::Below));
                entry.operands.push(operand.to_vec());
            }
            Op::DeleteRange(..) | Op::LogData(_) => {}
        }
    }

    pub(crate) fn get(&self, id: u32, key: &[u8]) -> Option<&Entry> {
        self.0.get(&(id, key.to_vec()))
    }

    /// The next key of a family behind a key, in a direction, and its writes.
    pub(crate) fn next(&self, id: u32, at: &At, forward: bool) -> Option<(&[u8], &Entry)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let key = |bytes: &[u8]| (id, bytes.to_vec());
        let found = if forward {
            let from = match at {
                At::End => Included(key(&[])),
                At::Key(bytes, true) => Included(key(bytes)),
                At::Key(bytes, false) => Excluded(key(bytes)),
            };
            self.0.range((from, Unbounded)).next()
        } else {
            let to = match (at, id.checked_add(1)) {
                (At::Key(bytes, true), _) => Included(key(bytes)),
                (At::Key(bytes, false), _) => Excluded(key(bytes)),
                (At::End, Some(next)) => Excluded((next, Vec::new())),
                (At::End, None) => Unbounded,
            };
            self.0.range((Unbounded, to)).next_back()
        };
        let ((of, key), entry) = found?;
        (*of == id).then_some((key.as_slice(), entry))
    }
}

/// A place in the order of keys.
#[derive(Debug, Clone)]
pub(crate) enum At {
    /// The first key, or the last one, by direction.
    End,
    /// At a key, or, for false, behind it.
    Key(Vec<u8>, bool),
}

/// The value of a key below the writes.
pub(crate) fn read_through(
    index: &Index,
    store: &Store,
    id: u32,
    key: &[u8],
    below: impl FnOnce(&Family) -> Outcome<Option<Vec<u8>>>,
) -> Outcome<Option<Vec<u8>>> {
    let family = store.family(id)?;
    match index.get(id, key) {
        None => below(&family),
        Some(entry) => entry.value(&family, key, || below(&family)),
    }
}
