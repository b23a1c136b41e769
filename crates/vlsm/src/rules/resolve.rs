//! Resolves the versions of one user key to the key's value, for gets, iterators and compactions.
//!
//! A version has one of three meanings for a reader ([`meaning`]): the key has this value, the key
//! is absent, or this operand changes the value. The key is absent if the version is a tombstone,
//! an expired value, or covered by a visible range tombstone of a larger sequence number. From the
//! newest visible version on, operands are collected until a version is a value or absent; older
//! versions do not matter. If the versions end first, the key was absent before.
//!
//! The operands, oldest first, are then applied to that base by the keyspace's merge operator.

use crate::rules::Rules;
use bytes::Bytes;
use std::collections::VecDeque;
use std::path::Path;
use vlsm_core::key::{self, EXPIRY_LEN};
use vlsm_core::{Error, Kind, Micros, Result, Seq, Trailer};

/// The meaning of a version to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The key is absent.
    Absent,
    /// The key has the value that begins at this offset.
    Value(usize),
    /// This operand changes the value.
    Operand,
}

/// The meaning of a version if `cover` is the newest visible range tombstone over its key.
#[inline]
pub(crate) fn meaning(
    trailer: Trailer,
    value: &[u8],
    cover: Seq,
    now: impl FnOnce() -> Micros,
) -> Result<Meaning> {
    if trailer.seq() < cover {
        return Ok(Meaning::Absent);
    }
    match trailer.kind() {
        Some(Kind::Put) => Ok(Meaning::Value(0)),
        Some(Kind::Delete) => Ok(Meaning::Absent),
        Some(Kind::Merge) => Ok(Meaning::Operand),
        Some(Kind::PutExpiring) if expiry(value)? <= now() => Ok(Meaning::Absent),
        Some(Kind::PutExpiring) => Ok(Meaning::Value(EXPIRY_LEN)),
        Some(Kind::RangeDelete | Kind::Kept | Kind::Logged) | None => Err(unknown_kind(trailer)),
    }
}

/// The moment at which the value of a [`Kind::PutExpiring`] expires.
pub(crate) fn expiry(value: &[u8]) -> Result<Micros> {
    let too_short = "a value that expires is too short";
    key::expiry(value).ok_or_else(|| Error::corruption(Path::new("memory"), 0, too_short))
}

/// The kinds are checked when a block is read, so this is a bug.
#[cold]
fn unknown_kind(trailer: Trailer) -> Error {
    let what = format!("an entry of unknown kind {}", trailer.kind_number());
    Error::corruption(Path::new("memory"), 0, what)
}

/// Combines the visible versions of one user key, added from the newest or from the oldest on.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    base: Option<Bytes>,
    /// Oldest first.
    operands: VecDeque<Bytes>,
}

impl Resolver {
    /// Adds the next older version. Returns true if even older versions do not matter.
    pub fn add_older(&mut self, meaning: Meaning, value: Bytes) -> bool {
        match meaning {
            Meaning::Absent => true,
            Meaning::Value(skip) => {
                self.base = Some(value.slice(skip..));
                true
            }
            Meaning::Operand => {
                self.operands.push_front(value);
                false
            }
        }
    }

    /// Adds the next newer version.
    pub fn add_newer(&mut self, meaning: Meaning, value: Bytes) {
        match meaning {
            Meaning::Operand => self.operands.push_back(value),
            Meaning::Absent | Meaning::Value(_) => {
                self.operands.clear();
                self.base = None;
                self.add_older(meaning, value);
            }
        }
    }

    /// The key's value; none if it is absent.
    ///
    /// # Errors
    /// As [`Rules::merge`], for this key alone.
    pub fn finish(self, rules: &Rules, key: &[u8]) -> Result<Option<Bytes>> {
        if self.operands.is_empty() {
            return Ok(self.base);
        }
        let operands: Vec<&[u8]> = self.operands.iter().map(|operand| &operand[..]).collect();
        let merged = rules.merge(key, self.base.as_deref(), &operands);
        merged.map(|value| Some(Bytes::from(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::KeyspaceOptions;
    use crate::rules::Extensions;
    use crate::rules::Own;

    /// One version, as in `7+b` (an operand), `5=a` (a value), `3-` (a tombstone), `4@9a` (a value
    /// that expires at 9).
    fn version(text: &str) -> (Trailer, Bytes) {
        let (seq, rest) = text.split_at(1);
        let value = Bytes::copy_from_slice(&rest.as_bytes()[1..]);
        let (kind, value) = match rest.as_bytes()[0] {
            b'+' => (Kind::Merge, value),
            b'=' => (Kind::Put, value),
            b'-' => (Kind::Delete, value),
            _ => {
                let moment = u64::from(value[0] - b'0').to_le_bytes();
                (Kind::PutExpiring, [&moment[..], &value[1..]].concat().into())
            }
        };
        (Trailer::new(Seq(seq.parse().expect("a digit")), kind), value)
    }

    #[test]
    fn versions_add_up_the_same_from_both_ends() {
        let options = KeyspaceOptions::new().merge_operator("append");
        let rules = Extensions::default()
            .rules(("words", "words"), options.merge_operator.as_deref(), None, Own::default())
            .expect("known");
        // The versions, the newest range tombstone over them, the time; the key's value.
        let cases = [
            ("", 0, 0, None),
            ("5=a", 0, 0, Some("a")),
            ("5=a", 4, 0, Some("a")),
            ("5=a", 6, 0, None),
            ("6- 5=a", 0, 0, None),
            ("6=b 5=a", 0, 0, Some("b")),
            ("7+b", 0, 0, Some("b")),
            ("8+c 7+b 5=a", 0, 0, Some("abc")),
            ("8+c 6- 5=a", 0, 0, Some("c")),
            ("8+c 5=a 4+x", 0, 0, Some("ac")),
            ("8+c 7+b 5=a", 6, 0, Some("bc")),
            ("8+c 6+b 5=a", 7, 0, Some("c")),
            ("8+c 5=a", 9, 0, None),
            ("5@9a", 0, 8, Some("a")),
            ("5@9a", 0, 9, None),
            ("5@9a", 6, 8, None),
            ("6@3b 5=a", 0, 4, None),
        ];
        for (versions, cover, now, expected) in cases {
            let meaning_at = |(trailer, value): (Trailer, Bytes)| {
                (meaning(trailer, &value, Seq(cover), || Micros(now)).expect("sound"), value)
            };
            let versions: Vec<_> =
                versions.split_whitespace().map(|text| meaning_at(version(text))).collect();
            let (mut older, mut newer) = (Resolver::default(), Resolver::default());
            let _ =
                versions.iter().any(|(meaning, value)| older.add_older(*meaning, value.clone()));
            versions
                .iter()
                .rev()
                .for_each(|(meaning, value)| newer.add_newer(*meaning, value.clone()));
            for resolver in [older, newer] {
                let found = resolver.finish(&rules, b"key").expect("append never refuses");
                assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{versions:?} {cover}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let meaning =
            |kind, value| meaning(Trailer::new(Seq(1), kind), value, Seq::ZERO, Micros::default);
        assert!(meaning(Kind::PutExpiring, b"short").is_err());
        assert!(meaning(Kind::RangeDelete, b"z").is_err());
        let mut resolver = Resolver::default();
        resolver.add_older(Meaning::Operand, Bytes::from_static(b"a"));
        let failed = resolver.finish(&Rules::default(), b"key");
        assert!(matches!(failed, Err(Error::MergeFailed { .. })));
    }
}
