//! Keys as the tree orders them.
//!
//! A *user key* is any byte string of at most [`MAX_KEY_LEN`] bytes. Inside the tree each entry
//! also has a *trailer*: its sequence number and its kind, packed into 64 bits. The order of
//! entries is: user key ascending by bytes, then trailer descending, so that of one user key the
//! newest comes first.

mod buf;

pub use self::buf::{KeyBuf, copy_short};

use crate::error::{Error, Result};
use crate::units::Micros;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The longest user key in bytes.
pub const MAX_KEY_LEN: usize = 64 * 1024;
/// The longest end of a range of keys: an inclusive end of the longest key, and a zero byte.
pub const MAX_END_LEN: usize = MAX_KEY_LEN + 1;
/// Bytes of the expiry time at the beginning of a value that expires.
pub const EXPIRY_LEN: usize = 8;

/// Bytes of the original sequence number at the beginning of the value of a [`Kind::Kept`].
pub const KEPT_LEN: usize = 8;

/// The original sequence number and the value of an entry of [`Kind::Kept`]; none if the value is
/// too short.
#[must_use]
pub fn kept(value: &[u8]) -> Option<(Seq, &[u8])> {
    let (seq, value) = value.split_first_chunk::<KEPT_LEN>()?;
    Some((Seq(u64::from_le_bytes(*seq)), value))
}

/// The expiry time of a value of the kind that expires; none if the value is too short.
#[must_use]
pub fn expiry(value: &[u8]) -> Option<Micros> {
    value.first_chunk().map(|moment: &[u8; EXPIRY_LEN]| Micros(u64::from_le_bytes(*moment)))
}

/// The smallest key that is larger than every key with this prefix, if there is one.
#[must_use]
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

/// The longest value in bytes.
pub const MAX_VALUE_LEN: usize = 1 << 30;

/// A sequence number: the position of a write in the one order of all writes of a store.
///
/// 56 bits are used; zero is before every write.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number before every write.
    pub const ZERO: Self = Self(0);
    /// The largest sequence number; a reader at it sees every write.
    pub const MAX: Self = Self((1 << 56) - 1);
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The kind of an entry. The numbers are part of the file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A tombstone: the key is absent from this entry on.
    Delete = 0,
    /// The key has the entry's value.
    Put = 1,
    /// The value is an operand for the keyspace's merge operator.
    Merge = 2,
    /// A range tombstone: all keys from the entry's key up to its value, exclusive, are absent from
    /// this entry on. It occurs only in batches: memtables and SSTs keep range tombstones apart
    /// from the entries.
    RangeDelete = 3,
    /// A `Put` that expires: the value begins with the expiry time, eight bytes little-endian, in
    /// microseconds of wall-clock time since the Unix epoch. From that time on it is a tombstone.
    PutExpiring = 4,
    /// A `Put` that was written before and is written to the WAL again, because its flush left it
    /// in memory: the value begins with the original sequence number, eight bytes little-endian.
    /// The entry means the `Put` under that number. It occurs only in the WAL.
    Kept = 5,
    /// A `Put` whose value is in a WAL: the entry has its place there instead. It occurs only in
    /// SSTs, and their readers return a `Put` with the value.
    Logged = 6,
}

impl Kind {
    /// Whether an entry of this kind has a value.
    #[must_use]
    #[inline]
    pub fn has_value(self) -> bool {
        self != Self::Delete
    }

    /// The kind with this number, if this version knows it.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Delete),
            1 => Some(Self::Put),
            2 => Some(Self::Merge),
            3 => Some(Self::RangeDelete),
            4 => Some(Self::PutExpiring),
            5 => Some(Self::Kept),
            6 => Some(Self::Logged),
            _ => None,
        }
    }
}

/// Sequence number and kind in 64 bits: `seq << 8 | kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trailer(pub u64);

impl Trailer {
    /// Sorts before every entry of its user key.
    pub const FIRST: Self = Self(u64::MAX);
    /// Sorts after every entry of its user key, or is the entry of sequence number zero.
    pub const LAST: Self = Self(0);

    /// Packs sequence number and kind.
    #[must_use]
    #[inline]
    pub fn new(seq: Seq, kind: Kind) -> Self {
        Self(seq.0 << 8 | kind as u64)
    }

    /// The trailer to seek with: the first entry of a key that a reader at `seq` may see.
    #[must_use]
    #[inline]
    pub fn seek(seq: Seq) -> Self {
        Self(seq.0 << 8 | 0xff)
    }

    /// The sequence number.
    #[must_use]
    #[inline]
    pub fn seq(self) -> Seq {
        Seq(self.0 >> 8)
    }

    /// The number of the kind, known or not.
    #[must_use]
    #[inline]
    pub fn kind_number(self) -> u8 {
        self.0 as u8
    }

    /// The kind, if this version knows it.
    #[must_use]
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Kind::from_u8(self.0 as u8)
    }
}

/// Compares two entries in tree order: user key ascending, then trailer descending.
#[must_use]
#[inline]
pub fn compare(a_key: &[u8], a: Trailer, b_key: &[u8], b: Trailer) -> Ordering {
    a_key.cmp(b_key).then_with(|| b.0.cmp(&a.0))
}

/// Whether two keys are the same. Those of neighbours usually differ in their last bytes, so these
/// are compared first.
#[must_use]
#[inline]
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a_end), Some(b_end)) if a_end != b_end => false,
        _ => a == b,
    }
}

/// The first eight bytes of a key as a big-endian number, short keys padded with zeros.
///
/// `prefix(a) < prefix(b)` implies `a < b`; equal prefixes decide nothing.
#[must_use]
#[inline]
pub fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

/// As [`prefix`], of sixteen bytes.
#[must_use]
#[inline]
pub fn long_prefix(key: &[u8]) -> u128 {
    match key.first_chunk::<16>() {
        Some(head) => u128::from_be_bytes(*head),
        None => short_prefix(key),
    }
}

/// The same for keys of less than sixteen bytes.
fn short_prefix(key: &[u8]) -> u128 {
    let mut head = [0; 16];
    head[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(head)
}

/// Refuses keys and values that the formats cannot hold.
///
/// # Errors
/// [`Error::InvalidArgument`] when the key is longer than [`MAX_KEY_LEN`] or the value than
/// [`MAX_VALUE_LEN`].
pub fn check_lengths(key_len: usize, value_len: usize) -> Result<()> {
    if key_len > MAX_KEY_LEN {
        return Err(Error::InvalidArgument(format!(
            "a key of {key_len} bytes is longer than the limit of {MAX_KEY_LEN} (MAX_KEY_LEN)"
        )));
    }
    if value_len > MAX_VALUE_LEN {
        return Err(Error::InvalidArgument(format!(
            "a value of {value_len} bytes is longer than the limit of {MAX_VALUE_LEN} \
             (MAX_VALUE_LEN)"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_of_a_key_comes_first() {
        let old = Trailer::new(Seq(7), Kind::Put);
        let new = Trailer::new(Seq(9), Kind::Delete);
        assert_eq!(compare(b"a", new, b"a", old), Ordering::Less);
        assert_eq!(compare(b"a", old, b"b", new), Ordering::Less);
        assert_eq!(compare(b"a", Trailer::seek(Seq(8)), b"a", old), Ordering::Less);
        assert_eq!(compare(b"a", Trailer::seek(Seq(8)), b"a", new), Ordering::Greater);
    }

    #[test]
    fn prefixes_never_contradict_the_order_of_keys() {
        let keys: [&[u8]; 10] = [
            b"",
            b"\0",
            b"a",
            b"a\0",
            b"abcdefgh",
            b"abcdefghi",
            b"abcdefghijklmno",
            b"abcdefghijklmnop",
            b"abcdefghijklmnopq",
            b"b",
        ];
        for pair in keys.windows(2) {
            assert!(prefix(pair[0]) <= prefix(pair[1]));
            assert!(long_prefix(pair[0]) <= long_prefix(pair[1]));
        }
        assert!(long_prefix(keys[5]) < long_prefix(keys[6]), "what eight bytes do not decide");
    }

    #[test]
    fn keys_are_the_same_if_all_their_bytes_are() {
        let keys: [&[u8]; 6] = [b"", b"a", b"b", b"a-longer-key", b"b-longer-key", b"a-longer-kez"];
        for (a, a_key) in keys.iter().enumerate() {
            for (b, b_key) in keys.iter().enumerate() {
                assert_eq!(is_same(a_key, b_key), a == b, "{a_key:?} {b_key:?}");
            }
        }
    }

    #[test]
    fn trailer_keeps_both_parts() {
        let trailer = Trailer::new(Seq::MAX, Kind::Put);
        assert_eq!((trailer.seq(), trailer.kind()), (Seq::MAX, Some(Kind::Put)));
        assert_eq!(Trailer(Seq(1).0 << 8 | 7).kind(), None);
    }
}
