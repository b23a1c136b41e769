//! The encodings that all parts of an SST share: varints, checksums, footer and properties.
//!
//! Every byte of a file is under a checksum. Every checksum is mixed with the file's uid and with
//! the offset of the bytes that it covers, so a block that was read from another file or place does
//! not verify:
//! 1. a block's checksum covers its payload and its compression tag;
//! 2. the checksums of index, filter, range tombstones and properties are in the footer;
//! 3. the footer's checksum covers the zeros before it and its own fields. The manifest keeps it.
//!
//! Invariants: all numbers are little-endian. A length is compared with the bytes at hand before
//! memory is allocated for it. The place and the algorithm of the footer's checksum, the version
//! and the magic number are the same in all versions, so that a reader can tell a newer file from a
//! damaged one.

use std::time::Duration;
use twox_hash::XxHash3_64;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{FileUid, KeyRange, Micros, Seq, key};

/// The newest format version that this code reads, and the one it writes.
pub const VERSION: u32 = 1;
/// The last eight bytes of every SST.
pub const MAGIC: [u8; 8] = *b"vLSM-SST";
/// Bytes of a footer.
pub const FOOTER_LEN: usize = 136;
/// A file's last pages that hold the footer and all that its checksum covers: up to a page of zeros
/// precedes it.
pub(crate) const FOOTER_PAGES_LEN: u64 = 8192;
/// Bytes after a block's payload: compression tag and checksum.
pub const BLOCK_TRAILER_LEN: usize = 9;
/// A block is not compressed if its raw bytes exceed both this multiple of the stored bytes and 64
/// KiB.
const EXPANSION_MAX: usize = 255;

/// A description of damage. The caller adds the file and the offset.
pub(crate) type Damage = &'static str;

/// The compression of blocks. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Compression {
    /// No compression.
    #[default]
    None = 0,
    /// LZ4 block format.
    Lz4 = 1,
    /// Zstandard. Without the feature `zstd` the writer stores blocks uncompressed, and the reader
    /// refuses blocks of this kind.
    Zstd = 2,
}

/// The checksum of `bytes`, bound to a place in a file.
#[must_use]
#[inline]
pub fn checksum(uid: FileUid, offset: u64, bytes: &[u8]) -> u64 {
    let mut place = uid.0 ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    place = (place ^ (place >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    XxHash3_64::oneshot(bytes) ^ place ^ (place >> 32)
}

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint of at most 32 bits at `at`. Returns the value and the offset of the next byte.
#[inline]
pub(crate) fn varint_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((usize::from(first), at + 1));
    }
    let mut value = u64::from(first & 0x7f);
    for index in 1..5 {
        let byte = *bytes.get(at + index)?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            let value = u32::try_from(value).ok()?;
            return Some((value as usize, at + index + 1));
        }
    }
    None
}

/// The `u32` at `at`, if it is there.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The `u64` at `at`, if it is there.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Length of the longest common prefix.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let limit = a.len().min(b.len());
    let mut at = 0;
    while let (Some(x), Some(y)) = (u64_at(a, at), u64_at(b, at)) {
        let differ = x ^ y;
        if differ != 0 {
            return at + (differ.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < limit && a[at] == b[at] {
        at += 1;
    }
    at
}

/// The most raw bytes that a reader accepts for this number of stored bytes.
pub(super) fn expansion_max(stored: usize) -> usize {
    stored.saturating_mul(EXPANSION_MAX).max(64 << 10)
}

/// Verifies a stored block. Returns its payload and its compression.
#[inline]
pub(crate) fn open_block(
    stored: &[u8],
    uid: FileUid,
    offset: u64,
) -> Result<(&[u8], Compression), Damage> {
    let Some((covered, sum)) = stored.split_last_chunk::<8>() else {
        return Err("a block is too short");
    };
    let right = checksum(uid, offset, covered) == u64::from_le_bytes(*sum);
    if !right && !planted::is(Bug::ChecksumIgnored) {
        return Err("a block's checksum does not match");
    }
    let Some((tag, payload)) = covered.split_last() else { return Err("a block is too short") };
    let compression = match tag {
        0 => Compression::None,
        1 => Compression::Lz4,
        2 => Compression::Zstd,
        _ => return Err("a block has an unknown compression"),
    };
    Ok((payload, compression))
}

/// Decompresses a payload into `out`.
pub(crate) fn decompress(
    compression: Compression,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Damage> {
    let Some((raw_len, packed)) = payload.split_first_chunk::<4>() else {
        return Err("a compressed block is too short");
    };
    let raw_len = u32::from_le_bytes(*raw_len) as usize;
    if raw_len > expansion_max(payload.len()) {
        return Err("a compressed block says it is impossibly long");
    }
    out.resize(raw_len, 0);
    let len = match compression {
        Compression::None => return Err("a block is not compressed"),
        Compression::Lz4 => lz4_flex::block::decompress_into(packed, out).ok(),
        #[cfg(feature = "zstd")]
        Compression::Zstd => zstd::bulk::decompress_to_buffer(packed, &mut out[..]).ok(),
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => {
            return Err("a block is compressed with zstd, which this build lacks (feature zstd)");
        }
    };
    if len != Some(raw_len) { Err("a block cannot be decompressed") } else { Ok(()) }
}

/// The extent of a part of the file, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section {
    /// The offset of the first byte.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// The checksum of these bytes.
    pub checksum: u64,
}

impl Section {
    /// Describes `bytes` that begin at `offset`.
    pub(crate) fn of(uid: FileUid, offset: u64, bytes: &[u8]) -> Self {
        Self { offset, len: bytes.len() as u64, checksum: checksum(uid, offset, bytes) }
    }

    fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// The fixed fields at the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footer {
    /// The format version.
    pub version: u32,
    /// The file's uid: a random number.
    pub uid: FileUid,
    /// The index.
    pub index: Section,
    /// The filter; of length 0 if there is none.
    pub filter: Section,
    /// The range tombstones; of length 0 if there is none.
    pub ranges: Section,
    /// The properties.
    pub properties: Section,
}

impl Footer {
    /// The zeros and the footer of a file whose properties end at `position`, and the footer's
    /// checksum.
    pub(crate) fn encode(&self, position: u64) -> (Vec<u8>, u64) {
        let zeros =
            (position + FOOTER_LEN as u64).next_multiple_of(4096) - (position + FOOTER_LEN as u64);
        let mut out = vec![0; zeros as usize];
        for section in [&self.index, &self.filter, &self.ranges, &self.properties] {
            for number in [section.offset, section.len, section.checksum] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.uid.0.to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&self.version.to_le_bytes());
        let sum = checksum(self.uid, position, &out);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        (out, sum)
    }

    /// Reads the footer and its checksum at the end of `tail`, the last bytes of a file of
    /// `file_len` bytes. `tail` has at least the last [`FOOTER_PAGES_LEN`] bytes, or what follows
    /// the blocks, or the whole file.
    pub(crate) fn decode(tail: &[u8], file_len: u64) -> Result<(Self, u64), Damage> {
        let start = tail.len().checked_sub(FOOTER_LEN).ok_or("the file is too short")?;
        let fields = &tail[start..];
        if fields[FOOTER_LEN - 8..] != MAGIC {
            return Err("this is not an SST, or its end is missing");
        }
        let number = |index: usize| u64_at(fields, index * 8).expect("a footer has 17 numbers");
        let section = |index: usize| Section {
            offset: number(index),
            len: number(index + 1),
            checksum: number(index + 2),
        };
        let footer = Self {
            version: u32_at(fields, 116).expect("a footer has 136 bytes"),
            uid: FileUid(number(12)),
            index: section(0),
            filter: section(3),
            ranges: section(6),
            properties: section(9),
        };
        let end = footer.properties.end().filter(|end| *end <= file_len);
        let covered = end
            .and_then(|end| usize::try_from(file_len - end).ok())
            .filter(|len| (FOOTER_LEN..FOOTER_LEN + 4096).contains(len) && *len <= tail.len())
            .ok_or("the footer is damaged")?;
        let position = file_len - covered as u64;
        let sum = number(15);
        if checksum(footer.uid, position, &tail[tail.len() - covered..tail.len() - 16]) != sum {
            return Err("the footer's checksum does not match");
        }
        Ok((footer, sum))
    }

    /// Whether the parts follow each other without a gap.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.index.end() == Some(self.filter.offset)
            && self.filter.end() == Some(self.ranges.offset)
            && self.ranges.end() == Some(self.properties.offset)
    }
}

/// The properties that a file records about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties {
    /// Number of entries, tombstones included.
    pub entries: u64,
    /// Number of tombstones.
    pub tombstones: u64,
    /// Sum of the lengths of all keys.
    pub key_bytes: u64,
    /// Sum of the lengths of all values.
    pub value_bytes: u64,
    /// Smallest sequence number.
    pub seq_min: Seq,
    /// Largest sequence number.
    pub seq_max: Seq,
    /// The time of creation, since the Unix epoch.
    pub created: Duration,
    /// Number of fragments of range tombstones.
    pub range_tombstones: u64,
    /// Smallest user key, or lower end of a range tombstone.
    pub smallest: Vec<u8>,
    /// Largest user key, or upper end of a range tombstone.
    pub largest: Vec<u8>,
    /// Whether `largest` is the upper end of a range tombstone, which the tombstone does not cover.
    pub largest_exclusive: bool,
    /// The time when the first of its values expires, since the Unix epoch; none if no value
    /// expires.
    pub expires: Option<Micros>,
    /// The numbers of the WALs that hold values of the file, ascending.
    pub wals: Vec<u64>,
    /// Bytes of the values there.
    pub logged_bytes: u64,
}

/// The property that names these WALs. A reader that does not know it must refuse the file.
const WALS: u8 = REQUIRED;

/// A reader must know every property whose id has this bit, or refuse the file.
const REQUIRED: u8 = 0x80;

impl Properties {
    /// The range of all keys and range tombstones.
    pub(crate) fn range(&self) -> KeyRange {
        let (lo, hi) = (self.smallest.clone().into(), self.largest.clone().into());
        KeyRange { lo, hi, hi_inclusive: !self.largest_exclusive }
    }

    /// Encodes the properties as a list of (id, length, bytes).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let micros = u64::try_from(self.created.as_micros()).unwrap_or(u64::MAX);
        let numbers = [
            self.entries,
            self.tombstones,
            self.key_bytes,
            self.value_bytes,
            self.seq_min.0,
            self.seq_max.0,
            micros,
        ];
        let mut out = Vec::new();
        for (id, number) in (1..).zip(numbers) {
            out.extend_from_slice(&[id, 8]);
            out.extend_from_slice(&number.to_le_bytes());
        }
        for (id, key) in [(8, &self.smallest), (9, &self.largest)] {
            out.push(id);
            put_varint(&mut out, key.len() as u64);
            out.extend_from_slice(key);
        }
        out.extend_from_slice(&[10, 8]);
        out.extend_from_slice(&self.range_tombstones.to_le_bytes());
        out.extend_from_slice(&[11, 1, u8::from(self.largest_exclusive)]);
        if let Some(expires) = self.expires {
            out.extend_from_slice(&[12, 8]);
            out.extend_from_slice(&expires.0.to_le_bytes());
        }
        if !self.wals.is_empty() {
            out.extend_from_slice(&[13, 8]);
            out.extend_from_slice(&self.logged_bytes.to_le_bytes());
            out.push(WALS);
            put_varint(&mut out, 8 * self.wals.len() as u64);
            self.wals.iter().for_each(|wal| out.extend_from_slice(&wal.to_le_bytes()));
        }
        out
    }

    /// Reads the list. It skips unknown ids, unless they have the bit `REQUIRED`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut properties = Self::default();
        let mut at = 0;
        let mut seen = 0u32;
        while at < bytes.len() {
            let id = bytes[at];
            let (len, start) = varint_at(bytes, at + 1).ok_or("a property has no length")?;
            let value = bytes.get(start..start + len).ok_or("a property is cut off")?;
            at = start + len;
            let number = || match value.try_into() {
                Ok(number) => Ok(u64::from_le_bytes(number)),
                Err(_) => Err("a property has a wrong length"),
            };
            match id {
                1 => properties.entries = number()?,
                2 => properties.tombstones = number()?,
                3 => properties.key_bytes = number()?,
                4 => properties.value_bytes = number()?,
                5 => properties.seq_min = Seq(number()?),
                6 => properties.seq_max = Seq(number()?),
                7 => properties.created = Duration::from_micros(number()?),
                8 if len <= key::MAX_END_LEN => properties.smallest = value.to_vec(),
                9 if len <= key::MAX_END_LEN => properties.largest = value.to_vec(),
                8 | 9 => return Err("a key in the properties is too long"),
                10 => properties.range_tombstones = number()?,
                11 => properties.largest_exclusive = value == [1],
                12 => properties.expires = Some(Micros(number()?)),
                13 => properties.logged_bytes = number()?,
                WALS => properties.wals = wals_of(value)?,
                _ if id & REQUIRED != 0 => return Err("the file uses an unknown feature"),
                _ => {}
            }
            seen |= 1 << id.min(31);
        }
        if seen & 0xffe != 0xffe {
            return Err("a property is missing");
        }
        Ok(properties)
    }
}

/// The numbers of WALs in a property.
fn wals_of(value: &[u8]) -> Result<Vec<u64>, Damage> {
    let (numbers, rest) = value.as_chunks::<8>();
    let wals: Vec<u64> = numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
    match rest.is_empty() && !wals.is_empty() && wals.is_sorted_by(|a, b| a < b) {
        true => Ok(wals),
        false => Err("the list of WALs with values is malformed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 1 << 21, 1 << 28, u64::from(u32::MAX)] {
            let mut out = vec![9];
            put_varint(&mut out, value);
            assert_eq!(varint_at(&out, 1), Some((value as usize, out.len())));
            assert_eq!(varint_at(&out[..out.len() - 1], 1), None);
        }
        assert_eq!(varint_at(&[0xff; 9], 0), None);
        assert_eq!(varint_at(&[0xff, 0xff, 0xff, 0xff, 0x1f], 0), None);
    }

    #[test]
    fn common_prefixes() {
        let a = b"0123456789abcdef-and-more";
        for len in 0..a.len() {
            let mut b = a.to_vec();
            b[len] ^= 1;
            assert_eq!(common_prefix(a, &b), len);
            assert_eq!(common_prefix(a, &a[..len]), len);
        }
        assert_eq!(common_prefix(a, a), a.len());
    }

    #[test]
    fn a_checksum_binds_file_and_offset() {
        let sum = checksum(FileUid(1), 4096, b"x");
        assert_ne!(sum, checksum(FileUid(2), 4096, b"x"));
        assert_ne!(sum, checksum(FileUid(1), 8192, b"x"));
        assert_ne!(sum, checksum(FileUid(1), 4096, b"y"));
    }

    /// XXH3 as defined, however this processor computes it. The values come from another
    /// implementation, and cover each way in which the algorithm treats a length.
    #[test]
    fn the_hash_is_xxh3_on_every_processor() {
        let bytes: Vec<u8> =
            (0..70_000u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        let known = [
            (0, 0x2d06_8005_38d3_94c2),
            (1, 0xc44b_dff4_074e_ecdb),
            (3, 0xe140_90f5_54a5_ea90),
            (4, 0x2e8d_078a_566e_9749),
            (8, 0xcd1c_7f88_482f_caef),
            (9, 0xbfe4_3def_699f_a9e3),
            (16, 0x81e9_eb86_3446_0bb9),
            (17, 0x9998_430f_d0a6_55be),
            (128, 0x75ec_a5c5_d559_4884),
            (129, 0xa05d_a42e_7a4e_4667),
            (240, 0x5eb2_467c_8c9e_3969),
            (241, 0x2d43_1e98_4c44_1f15),
            (1024, 0xe99d_ef11_45f1_2936),
            (1025, 0x83cb_a9b3_71e4_e7f4),
            (4096, 0x9bf6_7f8d_eff8_76ae),
            (70_000, 0x4dc9_de55_057b_14be),
        ];
        for (len, hash) in known {
            assert_eq!(XxHash3_64::oneshot(&bytes[..len]), hash, "{len} bytes");
        }
        // Every length up to 3000, at any alignment.
        let all = (0..=3000)
            .fold(0u64, |all, len| all.rotate_left(5) ^ XxHash3_64::oneshot(&bytes[len..2 * len]));
        assert_eq!(all, 0xb711_4b3b_b8f4_1b74);
        assert_eq!(super::super::filter::hash(b"key"), 0xbbea_0d63_a051_65e3);
    }

    #[test]
    fn properties_round_trip_and_know_the_future() {
        let properties = Properties {
            entries: 3,
            seq_max: Seq(9),
            range_tombstones: 4,
            largest_exclusive: true,
            created: Duration::from_secs(5),
            largest: b"zz".to_vec(),
            ..Properties::default()
        };
        let mut bytes = properties.encode();
        bytes.extend_from_slice(&[77, 1, 5]);
        assert_eq!(Properties::decode(&bytes), Ok(properties));
        bytes.extend_from_slice(&[0x81, 0]);
        assert!(Properties::decode(&bytes).is_err());
        assert!(Properties::decode(&[]).is_err());
    }
}
