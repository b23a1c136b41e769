//! The encoding of files made of records: the WAL and the manifest.
//!
//! A file is a header page of 4 KiB, then records at multiples of eight bytes. The header proper
//! lies in the first 512 bytes, which a device writes as one. After a crash it is the old or the
//! new one, so a header that does not verify is damage, never a torn write.
//!
//! Record: 24 bytes of header, then the payload, then zeros up to a multiple of eight.
//!
//! ```text
//!  0  u32  checksum of bytes 4..24, seeded with the file's uid and the record's offset
//!  4  u32  checksum of the payload
//!  8  u32  length of the payload
//! 12  u32  offset / 8 up to which the file was known to be synced
//! 16  u64  sequence number (56 bits), kind (the top 8 bits)
//! ```
//!
//! The payload's checksum does not depend on its offset, so a writer computes it before it enters
//! the section that orders the batches. The header's checksum covers that checksum and the offset.
//! All checksums are CRC-32C, all numbers little endian.

use crate::codec::Reader;
use bytes::Bytes;
use std::path::Path;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result, Seq};

/// The format version that this library writes, and the newest that it reads. Version 2 added the
/// manifest's list of WALs, closed WALs, and WALs that took over from older ones.
pub const FORMAT_VERSION: u32 = 2;
/// Length of a file's header page; the first record begins here.
pub const HEADER_LEN: u64 = 4096;
/// Length of a record's header.
pub const RECORD_HEADER_LEN: usize = 24;
/// The first bytes of a WAL.
pub const WAL_MAGIC: &[u8; 8] = b"vLSM-wal";
/// The first bytes of a manifest.
pub const MANIFEST_MAGIC: &[u8; 8] = b"vLSM-man";

const ALIGN: u64 = 8;
/// The flags of a header.
const STARTED: u32 = 1;
const CLOSED: u32 = 2;
/// The header proper, checksum included: one sector.
const SECTOR: usize = 512;

/// The checksum of a payload.
#[must_use]
pub fn checksum(payload: &[u8]) -> u32 {
    crc32c::crc32c(payload)
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A whole batch; in a manifest, a group of changes.
    Batch = 1,
    /// A part of a large batch.
    Fragment = 2,
    /// The end of a large batch. It determines the batch's place in the order.
    Commit = 3,
    /// Only the offset up to which the file was synced.
    Mark = 4,
}

impl RecordKind {
    fn from_u8(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Batch),
            2 => Some(Self::Fragment),
            3 => Some(Self::Commit),
            4 => Some(Self::Mark),
            _ => None,
        }
    }
}

/// The reason why a file ends at its seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SealKind {
    /// The writer switched to the next file.
    Clean = 1,
    /// An append failed; the bytes after the end are undefined.
    FailedAppend = 2,
    /// The store was reopened.
    Recovered = 3,
}

/// The end of a file, as its successor's header records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// The file.
    pub number: u64,
    /// Its random number.
    pub uid: u64,
    /// Its valid length. The bytes after it are ignored.
    pub len: u64,
    /// The length known to be synced when the successor's header was written. It equals `len`
    /// unless the successor was begun before its predecessor was synced.
    pub synced: u64,
    /// The reason why the file ends there.
    pub kind: SealKind,
}

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number in the file's name.
    pub number: u64,
    /// The random number that all checksums of this file cover.
    pub uid: u64,
    /// Whether records follow. A prepared file is not started yet and holds nothing.
    pub started: bool,
    /// Whether the store was closed with this file as the last one. Its records then end at
    /// `filled`.
    pub closed: bool,
    /// The durable length of the file, at least.
    pub filled: u64,
    /// No record here has a smaller sequence number.
    pub next_seq: Seq,
    /// The file before this one.
    pub predecessor: Option<Seal>,
}

impl Header {
    /// The header page.
    ///
    /// # Panics
    /// If a reader would reject it or read another header.
    #[must_use]
    pub fn encode(&self, magic: &[u8; 8]) -> Vec<u8> {
        let mut page = Vec::with_capacity(HEADER_LEN as usize);
        page.extend_from_slice(magic);
        page.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let state = flag(self.started, STARTED) | flag(self.closed, CLOSED);
        page.extend_from_slice(&state.to_le_bytes());
        for number in [self.number, self.uid, self.filled, self.next_seq.0] {
            page.extend_from_slice(&number.to_le_bytes());
        }
        if let Some(seal) = self.predecessor {
            page.extend_from_slice(&u64::from(seal.kind as u32).to_le_bytes());
            for number in [seal.number, seal.uid, seal.len, seal.synced] {
                page.extend_from_slice(&number.to_le_bytes());
            }
        }
        page.resize(SECTOR - 4, 0);
        page.extend_from_slice(&checksum(&page).to_le_bytes());
        page.resize(HEADER_LEN as usize, 0);
        let read = Self::decode(&page, magic, Path::new(""));
        assert!(read.is_ok_and(|read| read == *self), "a header reads back as it was written");
        page
    }

    /// Reads a header page.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the page does not verify, [`Error::FormatVersion`] if it is newer.
    pub fn decode(page: &[u8], magic: &[u8; 8], path: &Path) -> Result<Self> {
        let damaged = |what: &str| Error::corruption(path, 0, what);
        if page.len() < HEADER_LEN as usize {
            return Err(damaged("the file is shorter than its header"));
        }
        let (body, stored) = page[..SECTOR].split_at(SECTOR - 4);
        if stored != checksum(body).to_le_bytes() {
            return Err(damaged("the header does not match its checksum"));
        }
        let mut reader = Reader::new(body);
        if reader.take(8) != Ok(&magic[..]) {
            return Err(damaged("the header is of another kind of file"));
        }
        let version = reader.u32().map_err(|why| damaged(why.0))?;
        if version > FORMAT_VERSION {
            return Err(Error::FormatVersion {
                path: path.to_owned(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        Self::decode_body(&mut reader).map_err(|why| damaged(why.0))
    }

    fn decode_body(reader: &mut Reader<'_>) -> Result<Self, crate::codec::Malformed> {
        let state = reader.u32()?;
        if state & !(STARTED | CLOSED) != 0 {
            return Err(crate::codec::Malformed("the header has an unknown flag"));
        }
        let (started, closed) = (state & STARTED != 0, state & CLOSED != 0);
        let (number, uid, filled) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let next_seq = Seq(reader.u64()?);
        let kind = match reader.u64()? {
            1 => Some(SealKind::Clean),
            2 => Some(SealKind::FailedAppend),
            3 => Some(SealKind::Recovered),
            _ => None,
        };
        let (pred, pred_uid, len, synced) =
            (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let predecessor = kind.map(|kind| Seal { number: pred, uid: pred_uid, len, synced, kind });
        Ok(Self { number, uid, started, closed, filled, next_seq, predecessor })
    }
}

/// The seed of the checksum of the record at `offset`.
#[inline]
fn seed(uid: u64, offset: u64) -> u32 {
    let uid = if planted::is(Bug::RecycledWalUnbound) { 0 } else { uid };
    let mixed = (uid ^ offset.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 ^ offset as u32
}

/// The length of a record in the file, given the length of its payload.
#[must_use]
#[inline]
pub fn record_len(payload: usize) -> u64 {
    ((RECORD_HEADER_LEN + payload) as u64).next_multiple_of(ALIGN)
}

/// The fields of a record except its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// Its kind.
    pub kind: RecordKind,
    /// The sequence number of the batch's first entry; zero if the record is no batch or commit.
    pub seq: Seq,
    /// The offset up to which the file was known to be synced.
    pub synced: u64,
    /// The payload's [`checksum`].
    pub payload_checksum: u32,
}

/// Appends the record that will lie at `offset` to `out`.
#[inline]
pub fn encode_record(out: &mut Vec<u8>, uid: u64, offset: u64, head: &RecordHead, payload: &[u8]) {
    let synced = u32::try_from(head.synced / ALIGN).unwrap_or(u32::MAX);
    let mut header = [0; RECORD_HEADER_LEN];
    header[4..8].copy_from_slice(&head.payload_checksum.to_le_bytes());
    header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[12..16].copy_from_slice(&synced.to_le_bytes());
    header[16..].copy_from_slice(&(head.seq.0 | (head.kind as u64) << 56).to_le_bytes());
    let checksum = crc32c::crc32c_append(seed(uid, offset), &header[4..]);
    header[..4].copy_from_slice(&checksum.to_le_bytes());
    out.reserve(header.len() + payload.len() + ALIGN as usize);
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
    let padding = payload.len().wrapping_neg() % ALIGN as usize;
    out.extend_from_slice(&[0; ALIGN as usize][..padding]);
}

/// Whether these bytes, from `offset` of a file on, begin with the header of a record of this file.
/// The payload is not read.
#[must_use]
pub fn begins_record(bytes: &[u8], uid: u64, offset: u64) -> bool {
    head_of(bytes, uid, offset).is_some()
}

/// The head of the record with which these bytes begin, from `offset` of a file on, and the length
/// of its payload, which is not read. None if no record of this file begins there.
#[must_use]
pub fn head_of(bytes: &[u8], uid: u64, offset: u64) -> Option<(RecordHead, usize)> {
    let header = bytes.get(..RECORD_HEADER_LEN)?;
    let kind = RecordKind::from_u8(header[23])?;
    let mut reader = Reader::new(header);
    let stored = reader.u32().ok()?;
    let payload_checksum = reader.u32().ok()?;
    let len = reader.u32().ok()? as usize;
    let synced = u64::from(reader.u32().ok()?) * ALIGN;
    let seq = Seq(reader.u64().ok()? & Seq::MAX.0);
    let expected = crc32c::crc32c_append(seed(uid, offset), &header[4..]);
    (stored == expected).then_some((RecordHead { kind, seq, synced, payload_checksum }, len))
}

/// A record that verified.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its offset.
    pub offset: u64,
    /// Its head.
    pub head: RecordHead,
    /// Its payload, which shares the file's content.
    pub payload: Bytes,
}

/// The state of the file behind the last of the consecutive valid records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// No record that verifies, or only records that prove no sync beyond the valid end: a crash
    /// leaves such a tail.
    Torn,
    /// A valid record at this offset proves that the bytes at the valid end had been synced.
    Damaged(u64),
}

/// Iterates over the records of a file's content.
pub struct Records {
    content: Bytes,
    uid: u64,
    offset: u64,
}

impl Records {
    /// Begins after the header page. `content` is the file up to its valid length, header included.
    #[must_use]
    pub fn new(content: Bytes, uid: u64) -> Self {
        Self { content, uid, offset: HEADER_LEN }
    }

    /// The offset of the next record; after the end, the valid length.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn at(&self, offset: u64) -> Option<(RecordHead, usize)> {
        let rest = self.content.get(usize::try_from(offset).ok()?..)?;
        head_of(rest, self.uid, offset).filter(|(_, len)| record_len(*len) <= rest.len() as u64)
    }

    fn payload_at(&self, offset: u64, len: usize) -> Bytes {
        let start = offset as usize + RECORD_HEADER_LEN;
        self.content.slice(start..start + len)
    }

    /// Classifies the bytes from [`Records::offset`] on, once the iteration has ended: a torn end,
    /// or damage before records that were synced.
    #[must_use]
    pub fn tail(&self) -> Tail {
        let proof = self.later(|head| head.synced > self.offset);
        proof.map_or(Tail::Torn, Tail::Damaged)
    }

    /// Once the iteration has ended: continues at the next record that verifies. False if there is
    /// none.
    pub fn skip_damage(&mut self) -> bool {
        let next = self.later(|_| true);
        self.offset = next.unwrap_or(self.offset);
        next.is_some()
    }

    /// The offset of the next record that counts, after the one that does not verify.
    fn later(&self, counts: impl Fn(&RecordHead) -> bool) -> Option<u64> {
        // In a crafted file, every eighth byte could begin a record that reaches to the end of the
        // file. Reading every such payload would take too long, so beyond the budget a record
        // counts without it.
        let mut budget = self.content.len().saturating_mul(4);
        let mut offset = self.offset + ALIGN;
        while offset < self.content.len() as u64 {
            if let Some((head, len)) = self.at(offset).filter(|(head, _)| counts(head)) {
                match budget.checked_sub(len) {
                    Some(left) => budget = left,
                    None => return Some(offset),
                }
                if checksum(&self.payload_at(offset, len)) == head.payload_checksum {
                    return Some(offset);
                }
            }
            offset += ALIGN;
        }
        None
    }
}

impl Iterator for Records {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let offset = self.offset;
        let (head, len) = self.at(offset)?;
        let payload = self.payload_at(offset, len);
        if checksum(&payload) != head.payload_checksum {
            return None;
        }
        self.offset = offset + record_len(len);
        Some(Record { offset, head, payload })
    }
}

#[cfg(test)]
mod tests {
    /// CRC-32C as defined, bit by bit, however this processor computes it.
    #[test]
    fn the_checksum_is_crc32c_on_every_processor() {
        fn by_bits(bytes: &[u8]) -> u32 {
            !bytes.iter().fold(!0, |sum, byte| {
                (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                    (sum >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(sum & 1))
                })
            })
        }
        assert_eq!(super::checksum(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> =
            (0..40_000_u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for len in (0..700).chain([4_095, 4_096, 4_097, 8_192, 24_576, 39_000]) {
            // At any alignment.
            let part = &bytes[len % 9..len % 9 + len];
            assert_eq!(super::checksum(part), by_bits(part), "{len} bytes");
        }
        let (first, rest) = bytes.split_at(777);
        let joined = crc32c::crc32c_append(super::checksum(first), rest);
        assert_eq!(joined, by_bits(&bytes));
    }
}
