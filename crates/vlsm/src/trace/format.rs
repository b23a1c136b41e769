//! The bytes of a trace, as in docs/format.md: encoding and checked decoding. Lengths are checked
//! before any read or allocation.

use super::{TraceKind, TraceOp};
use bytes::Bytes;
use vlsm_core::Micros;
use vlsm_disk::codec::{Malformed, Reader, put_bytes, put_varint};

pub(super) const MAGIC: &[u8; 8] = b"vLSM-trc";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_LEN: usize = 24;
pub(super) const CHUNK_HEADER_LEN: usize = 12;
/// A chunk is written when its payload has at least this many bytes.
pub(super) const CHUNK_LEN: usize = 64 << 10;
/// The largest payload: a full chunk and one operation with two keys.
pub(super) const CHUNK_MAX: usize = 256 << 10;

const GET: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;
const MERGE: u8 = 3;
const SCAN: u8 = 4;
const DELETE_RANGE: u8 = 5;

/// The header of a trace that begins at this wall-clock time.
pub(super) fn header(wall: Micros) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_LEN);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&wall.0.to_le_bytes());
    let sum = crc32c::crc32c(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// The checksum of a chunk at this offset, over its length, count and payload.
pub(super) fn checksum(offset: u64, head: &[u8], payload: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, head), payload)
}

/// The chunk of a payload at this offset.
pub(super) fn chunk(offset: u64, count: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(CHUNK_HEADER_LEN + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    let sum = checksum(offset, &out, payload);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(payload);
    out
}

/// Appends an operation at the time `at` in microseconds; `last` is the time of the previous
/// operation of the chunk, or zero.
pub(super) fn encode(
    out: &mut Vec<u8>,
    (at, last): (u64, u64),
    tree: u64,
    kind: Asked<'_>,
    key: &[u8],
) {
    let number = match kind {
        Asked::Get => GET,
        Asked::Put(_) => PUT,
        Asked::Delete => DELETE,
        Asked::Merge(_) => MERGE,
        Asked::Scan(_) => SCAN,
        Asked::DeleteRange(_) => DELETE_RANGE,
    };
    out.push(number);
    // Zigzag encoding: small differences of either sign give small numbers.
    let delta = at.wrapping_sub(last) as i64;
    put_varint(out, (delta << 1 ^ delta >> 63) as u64);
    put_varint(out, tree);
    put_bytes(out, key);
    match kind {
        Asked::Get | Asked::Delete => {}
        Asked::Put(len) | Asked::Merge(len) | Asked::Scan(len) => put_varint(out, len),
        Asked::DeleteRange(end) => put_bytes(out, end),
    }
}

/// An operation to record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked<'a> {
    Get,
    Put(u64),
    Delete,
    Merge(u64),
    Scan(u64),
    DeleteRange(&'a [u8]),
}

/// Reads the next operation of a chunk.
pub(super) fn decode(reader: &mut Reader<'_>, last: u64) -> Result<TraceOp, Malformed> {
    let number = reader.u8()?;
    let zigzag = reader.varint()?;
    let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    let at = last.checked_add_signed(delta).ok_or(Malformed("a time is impossible"))?;
    let tree = reader.varint()?;
    let key = Bytes::copy_from_slice(reader.bytes()?);
    let kind = match number {
        GET => TraceKind::Get,
        PUT => TraceKind::Put(reader.varint()?),
        DELETE => TraceKind::Delete,
        MERGE => TraceKind::Merge(reader.varint()?),
        SCAN => TraceKind::Scan(reader.varint()?),
        DELETE_RANGE => TraceKind::DeleteRange(Bytes::copy_from_slice(reader.bytes()?)),
        _ => return Err(Malformed("an operation is of an unknown kind")),
    };
    Ok(TraceOp { at: Micros(at), tree, kind, key })
}
