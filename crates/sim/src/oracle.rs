//! The answers that the store must give: a sorted map for each keyspace. Also the terms in which
//! tests describe writes, ranges and differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::time::Duration;

/// A key and a value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The effect of a write on its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// Sets the value.
    Put(Vec<u8>),
    /// Sets the value until [`TTL`] has passed.
    Expiring(Vec<u8>),
    /// Appends to the value, for keyspaces whose merge operator is `append`.
    Merge(Vec<u8>),
    /// Removes the key.
    Delete,
    /// Removes all keys from this write's key up to this key, exclusive.
    DeleteRange(Vec<u8>),
}

/// The lifetime of values that expire. No life of a store takes this much virtual time unless it
/// sleeps on purpose; at least this much passes between two lives.
pub const TTL: Duration = Duration::from_secs(3600);

/// One write of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write {
    /// Index of the keyspace.
    pub space: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The effect on the key.
    pub op: Op,
}

impl Write {
    /// A write that sets a key.
    #[must_use]
    pub fn put(space: usize, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), op: Op::Put(value.into()) }
    }

    /// A write that deletes a key.
    #[must_use]
    pub fn delete(space: usize, key: impl Into<Vec<u8>>) -> Self {
        Self { space, key: key.into(), op: Op::Delete }
    }

    /// Whether the write may change this key.
    #[must_use]
    pub fn touches(&self, space: usize, key: &[u8]) -> bool {
        let within = match &self.op {
            Op::DeleteRange(end) => *self.key <= *key && *key < **end,
            _ => self.key == key,
        };
        self.space == space && within
    }
}

/// A range of keys.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// All keys.
pub const ALL: KeyBounds = (Bound::Unbounded, Bound::Unbounded);

/// The pairs of all keyspaces at one moment.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    spaces: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// The keys whose values expire. The store does not show this.
    expiring: BTreeSet<(usize, Vec<u8>)>,
}

impl PartialEq for Contents {
    fn eq(&self, other: &Self) -> bool {
        self.spaces == other.spaces
    }
}

impl Contents {
    /// The contents of empty keyspaces.
    #[must_use]
    pub fn new(spaces: usize) -> Self {
        Self { spaces: vec![BTreeMap::new(); spaces], expiring: BTreeSet::new() }
    }

    /// Applies one write.
    pub fn apply(&mut self, write: &Write) {
        let (space, key) = (&mut self.spaces[write.space], &write.key);
        if !self.expiring.is_empty() {
            self.expiring.retain(|(space, key)| !write.touches(*space, key));
        }
        match &write.op {
            Op::Put(value) => drop(space.insert(key.clone(), value.clone())),
            Op::Expiring(value) => {
                space.insert(key.clone(), value.clone());
                self.expiring.insert((write.space, key.clone()));
            }
            Op::Merge(operand) => space.entry(key.clone()).or_default().extend(operand),
            Op::Delete => drop(space.remove(key)),
            Op::DeleteRange(end) => space.retain(|other, _| other < key || other >= end),
        }
    }

    /// Removes the values that expire, because [`TTL`] has passed.
    pub fn expire(&mut self) {
        for (space, key) in std::mem::take(&mut self.expiring) {
            self.spaces[space].remove(&key);
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, space: usize, key: &[u8]) -> Option<&[u8]> {
        self.spaces[space].get(key).map(Vec::as_slice)
    }

    /// The pairs within a range, ascending; none if the bounds are the wrong way round.
    #[must_use]
    pub fn range(&self, space: usize, (lo, hi): &KeyBounds) -> Vec<Pair> {
        let lo_key = bound_key(lo);
        let hi_key = bound_key(hi);
        let both_open = matches!((lo, hi), (Bound::Excluded(_), Bound::Excluded(_)));
        if let (Some(lo), Some(hi)) = (lo_key, hi_key)
            && (lo > hi || (lo == hi && both_open))
        {
            return Vec::new();
        }
        let bounds = (lo.as_ref().map(Vec::as_slice), hi.as_ref().map(Vec::as_slice));
        let pairs = self.spaces[space].range::<[u8], _>(bounds);
        pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// All pairs of a keyspace, ascending; none if it does not exist.
    pub fn pairs(&self, space: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
        let pairs = self.spaces.get(space).into_iter().flatten();
        pairs.map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// Number of keyspaces.
    #[must_use]
    pub fn spaces(&self) -> usize {
        self.spaces.len()
    }

    /// The first difference to `found`, in words, if there is one.
    #[must_use]
    pub fn difference(&self, found: &Self) -> Option<String> {
        for space in 0..self.spaces.len().max(found.spaces.len()) {
            let empty = BTreeMap::new();
            let expected = self.spaces.get(space).unwrap_or(&empty);
            let found = found.spaces.get(space).unwrap_or(&empty);
            let keys = expected.keys().chain(found.keys());
            let differs = |key: &&Vec<u8>| expected.get(*key) != found.get(*key);
            if let Some(key) = keys.filter(differs).min() {
                return Some(format!(
                    "keyspace {space}, key {}: expected {}, found {} ({} keys expected, {} found)",
                    Show(key),
                    ShowValue(expected.get(key)),
                    ShowValue(found.get(key)),
                    expected.len(),
                    found.len(),
                ));
            }
        }
        None
    }
}

impl FromIterator<(usize, Vec<Pair>)> for Contents {
    fn from_iter<I: IntoIterator<Item = (usize, Vec<Pair>)>>(spaces: I) -> Self {
        let mut contents = Self::default();
        for (space, pairs) in spaces {
            if contents.spaces.len() <= space {
                contents.spaces.resize(space + 1, BTreeMap::new());
            }
            contents.spaces[space] = pairs.into_iter().collect();
        }
        contents
    }
}

fn bound_key(bound: &Bound<Vec<u8>>) -> Option<&Vec<u8>> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// Bytes as readable text: other bytes are escaped, and long strings are cut.
pub struct Show<'a>(pub &'a [u8]);

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.len().min(40);
        write!(f, "\"{}\"", self.0[..end].escape_ascii())?;
        if end < self.0.len() {
            write!(f, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

struct ShowValue<'a>(Option<&'a Vec<u8>>);

impl fmt::Display for ShowValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => Show(value).fmt(f),
            None => f.write_str("nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let mut expected = Contents::new(2);
        expected.apply(&Write::put(1, "b", "1"));
        let mut found = expected.clone();
        assert_eq!(expected.difference(&found), None);
        found.apply(&Write::put(1, "a", "2"));
        let text = expected.difference(&found).expect("differs");
        assert!(text.contains("keyspace 1, key \"a\": expected nothing, found \"2\""), "{text}");
    }

    #[test]
    fn operands_add_up_and_values_expire() {
        let mut contents = Contents::new(1);
        let mut apply = |key: &str, op| {
            contents.apply(&Write { space: 0, key: key.into(), op });
            contents.clone()
        };
        apply("a", Op::Merge(b"1".into()));
        assert_eq!(apply("a", Op::Merge(b"2".into())).get(0, b"a"), Some(&b"12"[..]));
        apply("b", Op::Expiring(b"1".into()));
        apply("c", Op::Expiring(b"1".into()));
        assert!(apply("c", Op::Put(b"2".into())).get(0, b"b").is_some());
        contents.expire();
        assert_eq!(contents.pairs(0).count(), 2, "b has expired");
        contents.apply(&Write { space: 0, key: b"a".into(), op: Op::DeleteRange(b"c".into()) });
        assert_eq!(contents.pairs(0).collect::<Vec<_>>(), [(&b"c"[..], &b"2"[..])]);
    }

    #[test]
    fn ranges_of_every_sort() {
        let mut contents = Contents::new(1);
        for key in ["a", "b", "c"] {
            contents.apply(&Write::put(0, key, key));
        }
        let key = |text: &str| text.as_bytes().to_vec();
        let count = |lo, hi| contents.range(0, &(lo, hi)).len();
        assert_eq!(count(Bound::Included(key("a")), Bound::Excluded(key("c"))), 2);
        assert_eq!(count(Bound::Excluded(key("a")), Bound::Unbounded), 2);
        assert_eq!(count(Bound::Included(key("c")), Bound::Included(key("a"))), 0);
        assert_eq!(count(Bound::Excluded(key("b")), Bound::Excluded(key("b"))), 0);
    }
}
