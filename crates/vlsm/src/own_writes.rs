//! The uncommitted writes of a transaction, as its own reads see them.
//!
//! They are derived from the transaction's batch, entry by entry. The entry i has the sequence
//! number i + 1, so a read resolves versions, operands and range tombstones by the rules of the
//! store (`rules/resolve`). The snapshot determines keys that these writes do not touch, and the
//! values that their operands change.
//!
//! Threads and locks: owned by one transaction; its open iterators share the state at their begin.

use crate::rules::Rules;
use crate::rules::resolve::{Meaning, Resolver, meaning};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use vlsm_core::{Kind, Micros, RangeTombstones, Result, Seq, Trailer, TreeId};

/// The writes to one tree.
#[derive(Debug, Clone, Default)]
struct Own {
    /// The versions of each key, oldest first.
    keys: BTreeMap<Bytes, Vec<(Trailer, Bytes)>>,
    deleted: RangeTombstones,
}

/// The writes of one transaction, by tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnWrites {
    trees: BTreeMap<TreeId, Own>,
    count: usize,
}

/// The value of a key, as far as the transaction's own writes determine it.
#[derive(Debug)]
pub(crate) enum Say {
    /// Nothing: the value is that of the snapshot.
    Nothing,
    /// The whole value, whatever the snapshot has.
    All(Resolver),
    /// Operands, which change the snapshot's value.
    Operands(Resolver),
}

impl Say {
    /// The key's value. `below` returns the snapshot's value; it is called only if that value
    /// matters.
    pub fn value(
        self,
        rules: &Rules,
        key: &[u8],
        below: impl FnOnce() -> Result<Option<Bytes>>,
    ) -> Result<Option<Bytes>> {
        match self {
            Self::Nothing => below(),
            Self::All(resolver) => resolver.finish(rules, key),
            Self::Operands(mut resolver) => {
                match below()? {
                    Some(value) => resolver.add_older(Meaning::Value(0), value),
                    None => resolver.add_older(Meaning::Absent, Bytes::new()),
                };
                resolver.finish(rules, key)
            }
        }
    }
}

impl OwnWrites {
    /// Adds the last entries of the transaction's batch, so that all its `len` entries are there.
    pub fn catch_up<'a>(
        this: &mut Arc<Self>,
        len: usize,
        entry: impl Fn(usize) -> (TreeId, Kind, &'a [u8], &'a [u8]),
    ) {
        if this.count < len {
            let this = Arc::make_mut(this);
            for (tree, kind, key, value) in (this.count..len).map(entry) {
                this.add(tree, kind, key, value);
            }
        }
    }

    /// Adds the next entry of the batch.
    fn add(&mut self, tree: TreeId, kind: Kind, key: &[u8], value: &[u8]) {
        self.count += 1;
        let seq = Seq(self.count as u64);
        let own = self.trees.entry(tree).or_default();
        let [key, value] = [key, value].map(Bytes::copy_from_slice);
        match kind {
            Kind::RangeDelete => own.deleted.insert(&key, &value, seq),
            _ => own.keys.entry(key).or_default().push((Trailer::new(seq, kind), value)),
        }
    }

    /// The effect of these writes on a key at this time.
    ///
    /// # Errors
    /// None for entries that a batch accepted.
    pub fn say(&self, tree: TreeId, key: &[u8], now: Micros) -> Result<Say> {
        let Some(own) = self.trees.get(&tree) else { return Ok(Say::Nothing) };
        let cover = own.deleted.cover(key, Seq::MAX);
        let versions = own.keys.get(key).map_or(&[][..], Vec::as_slice);
        let mut resolver = Resolver::default();
        for (trailer, value) in versions.iter().rev() {
            if resolver.add_older(meaning(*trailer, value, cover, || now)?, value.clone()) {
                return Ok(Say::All(resolver));
            }
        }
        Ok(match (cover > Seq::ZERO, versions.is_empty()) {
            (true, _) => Say::All(resolver),
            (false, true) => Say::Nothing,
            (false, false) => Say::Operands(resolver),
        })
    }

    /// Whether these writes delete a range that contains a key.
    pub fn deletes(&self, tree: TreeId, key: &[u8]) -> bool {
        let own = self.trees.get(&tree);
        own.is_some_and(|own| own.deleted.cover(key, Seq::MAX) > Seq::ZERO)
    }

    /// The first written key within a range, in these trees, which are in key order.
    pub fn first_in(
        &self,
        trees: &[TreeId],
        lo: &Bound<Bytes>,
        hi: &Bound<Bytes>,
    ) -> Option<&Bytes> {
        trees.iter().find_map(|tree| self.range(*tree, lo, hi)?.next())
    }

    /// The last such key.
    pub fn last_in(
        &self,
        trees: &[TreeId],
        lo: &Bound<Bytes>,
        hi: &Bound<Bytes>,
    ) -> Option<&Bytes> {
        trees.iter().rev().find_map(|tree| self.range(*tree, lo, hi)?.next_back())
    }

    /// The written keys of a tree within a range; none if no key is in the range.
    fn range(
        &self,
        tree: TreeId,
        lo: &Bound<Bytes>,
        hi: &Bound<Bytes>,
    ) -> Option<impl DoubleEndedIterator<Item = &Bytes>> {
        let own = self.trees.get(&tree)?;
        // The map would panic for such a range.
        let none = match (lo, hi) {
            (Bound::Excluded(lo), Bound::Excluded(hi)) => lo >= hi,
            (
                Bound::Included(lo) | Bound::Excluded(lo),
                Bound::Included(hi) | Bound::Excluded(hi),
            ) => lo > hi,
            _ => false,
        };
        (!none).then(|| own.keys.range((lo.clone(), hi.clone())).map(|(key, _)| key))
    }
}
