//! What the versions of one user key add up to: the one place that knows it, for gets, iterators
//! and compactions.
//!
//! A version says one of three things to a reader ([`says`]): the key has this value, the key is
//! absent, or the value changes by this operand. It is absent for a tombstone, for a value that has
//! expired, and for whatever a visible range tombstone of a larger sequence number lies over. From
//! the newest visible version on, operands are collected until a version says value or absent;
//! older versions do not matter. Where the versions end, the key was absent before.
//!
//! The operands, oldest first, are then applied to that base by the keyspace's merge operator.

use crate::rules::Rules;
use bytes::Bytes;
use std::collections::VecDeque;
use std::path::Path;
use vlsm_core::key::EXPIRY_LEN;
use vlsm_core::{Error, Kind, Micros, Result, Seq, Trailer};

/// What a version says to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// The key is absent.
    Absent,
    /// The key has the value that begins after so many bytes.
    Value(usize),
    /// The value changes by this operand.
    Operand,
}

/// What a version says where `cover` is the newest visible range tombstone over its key.
#[inline]
pub(crate) fn says(
    trailer: Trailer,
    value: &[u8],
    cover: Seq,
    now: impl FnOnce() -> Micros,
) -> Result<Says> {
    if trailer.seq() < cover {
        return Ok(Says::Absent);
    }
    match trailer.kind() {
        Some(Kind::Put) => Ok(Says::Value(0)),
        Some(Kind::Delete) => Ok(Says::Absent),
        Some(Kind::Merge) => Ok(Says::Operand),
        Some(Kind::PutExpiring) if expiry(value)? <= now() => Ok(Says::Absent),
        Some(Kind::PutExpiring) => Ok(Says::Value(EXPIRY_LEN)),
        Some(Kind::RangeDelete) | None => Err(unknown_kind(trailer)),
    }
}

/// The moment at which the value of a [`Kind::PutExpiring`] expires.
pub(crate) fn expiry(value: &[u8]) -> Result<Micros> {
    let head = value.first_chunk::<EXPIRY_LEN>();
    let head = head.ok_or_else(|| {
        Error::corruption(Path::new("memory"), 0, "a value that expires is too short")
    })?;
    Ok(Micros(u64::from_le_bytes(*head)))
}

/// Blocks check the kinds when they are read, so this is a bug.
#[cold]
fn unknown_kind(trailer: Trailer) -> Error {
    let what = format!("an entry of unknown kind {}", trailer.kind_number());
    Error::corruption(Path::new("memory"), 0, what)
}

/// Adds up the visible versions of one user key, from the newest on or from the oldest on.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    base: Option<Bytes>,
    /// Oldest first.
    operands: VecDeque<Bytes>,
}

impl Resolver {
    /// The next older version. True when still older ones do not matter.
    pub fn add_older(&mut self, says: Says, value: Bytes) -> bool {
        match says {
            Says::Absent => true,
            Says::Value(skip) => {
                self.base = Some(value.slice(skip..));
                true
            }
            Says::Operand => {
                self.operands.push_front(value);
                false
            }
        }
    }

    /// The next newer version.
    pub fn add_newer(&mut self, says: Says, value: Bytes) {
        match says {
            Says::Operand => self.operands.push_back(value),
            Says::Absent | Says::Value(_) => {
                self.operands.clear();
                self.base = None;
                self.add_older(says, value);
            }
        }
    }

    /// The key's value; none where it is absent.
    ///
    /// # Errors
    /// [`Error::MergeFailed`].
    pub fn finish(self, rules: &Rules, key: &[u8]) -> Result<Option<Bytes>> {
        if self.operands.is_empty() {
            return Ok(self.base);
        }
        let operands: Vec<&[u8]> = self.operands.iter().map(|operand| &operand[..]).collect();
        let merged = rules.merge(key, self.base.as_deref(), &operands);
        merged.map(|value| Some(Bytes::from(value))).ok_or_else(|| rules.merge_failed())
    }
}
