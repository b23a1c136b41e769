//! Values that an SST does not have, because they are in a WAL already.
//!
//! Source: "TRIAD: Creating Synergies Between Memory, Disk and Log in Log Structured Key-Value
//! Stores" (2017), TRIAD-LOG: a flush writes an index of the log instead of its values again.
//!
//! 1. An entry of the kind [`Kind::Logged`] has a [`Place`] for its value: the WAL, the offset and
//!    the length there, and the checksum of the value.
//! 2. The properties name all WALs with such places. Each has a second name beside the SST
//!    ([`values_path`](super::values_path)), a hard link, so the WAL can go before the SST does.
//!    Whoever opens the SST opens these files, too ([`SstReader::with_values`]).
//! 3. A point lookup reads one value. Cursors and scanners read the values of a block at once, in
//!    the order of its entries; the cache keeps blocks with places. A block refers to at most 64
//!    KB, or to one value.
//!
//! Invariant: a place refers to bytes that were written before, and that nobody changes: a WAL with
//! a second name is not used again. Threads and locks: immutable and shared.
//!
//! [`SstReader::with_values`]: super::SstReader::with_values

use super::block::{Layout, assemble, entry_at};
use super::block_builder::BlockBuilder;
use super::format::Damage;
use crate::codec::{Malformed, Reader, put_varint};
use crate::fs::File;
use crate::record::checksum;
use crate::wal::LARGE_BATCH;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use vlsm_core::{Error, KeyBuf, Kind, Result, Trailer};

/// The bytes of values to which one block refers.
pub(super) const BLOCK_VALUES_MAX: u64 = 64 << 10;

/// The longest value that is in a WAL in one piece.
const LEN_MAX: u32 = LARGE_BATCH as u32;

/// Entries between restart points of a block with its values.
const RESTART_INTERVAL: usize = 16;

/// The place of a value in a WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the WAL.
    pub wal: u64,
    /// The offset of the value in it.
    pub offset: u64,
    /// The length of the value.
    pub len: u32,
    /// The checksum of the value (CRC-32C).
    pub checksum: u32,
}

impl Place {
    /// The shortest value that a place is written for. Shorter ones take no more bytes themselves.
    pub const VALUE_MIN: usize = 24;

    /// `number · offset · length`, as varints, and the checksum.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::VALUE_MIN);
        put_varint(&mut out, self.wal);
        put_varint(&mut out, self.offset);
        put_varint(&mut out, u64::from(self.len));
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, Damage> {
        let mut reader = Reader::new(bytes);
        let mut read = || {
            let (wal, offset) = (reader.varint()?, reader.varint()?);
            let len = u32::try_from(reader.varint()?).map_err(|_| Malformed("too long"))?;
            Ok::<_, Malformed>(Self { wal, offset, len, checksum: reader.u32()? })
        };
        let place = read().ok().filter(|_| reader.is_empty());
        place.ok_or("the place of a value is malformed")
    }
}

/// The trailer of an entry whose value was read from its place.
#[inline]
pub(super) fn as_put(trailer: Trailer) -> Trailer {
    Trailer::new(trailer.seq(), Kind::Put)
}

/// Whether an entry has a place instead of its value.
#[inline]
pub(super) fn is_logged(trailer: Trailer) -> bool {
    trailer.kind_number() == Kind::Logged as u8
}

/// The open WALs that hold values of an SST.
#[derive(Default)]
pub(super) struct Values {
    /// The number, the path and the file of each.
    files: Vec<(u64, PathBuf, Arc<dyn File>)>,
}

impl Values {
    pub(super) fn add(&mut self, wal: u64, path: PathBuf, file: Arc<dyn File>) {
        self.files.push((wal, path, file));
    }

    /// The value at an encoded place.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Corruption`] if the value is not there. `damaged` makes the error
    /// for a place that cannot be one.
    pub(super) fn read(&self, place: &[u8], damaged: impl Fn(Damage) -> Error) -> Result<Vec<u8>> {
        let Place { wal, offset, len, checksum: expected } =
            Place::decode(place).map_err(&damaged)?;
        let file = self.files.iter().find(|(number, _, _)| *number == wal);
        let Some((_, path, file)) = file else {
            return Err(damaged("a value is in a WAL that is not open"));
        };
        let failed = |error| Error::io("cannot read a value in", path, error);
        if len > LEN_MAX || offset.checked_add(u64::from(len)).is_none() {
            return Err(damaged("the place of a value is impossible"));
        }
        let mut value = vec![0; len as usize];
        let count = file.read_at(&mut value, offset).map_err(failed)?;
        if count < value.len() {
            return Err(Error::corruption(path, offset, "a value lies beyond the end"));
        }
        if checksum(&value) != expected {
            return Err(Error::corruption(path, offset, "a value does not match its checksum"));
        }
        Ok(value)
    }
}

/// The payload of a block with the values in place of their places.
///
/// # Errors
/// As [`Values::read`].
pub(super) fn inlined(
    payload: &[u8],
    values: &Values,
    damaged: impl Fn(Damage) -> Error,
) -> Result<Vec<u8>> {
    let layout = Layout::parse(payload).map_err(&damaged)?;
    let entries = &payload[..layout.entries];
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    let (mut key, mut at) = (KeyBuf::default(), 0);
    while at < entries.len() {
        let entry = entry_at(entries, at).map_err(&damaged)?;
        assemble(&mut key, entries, &entry).map_err(&damaged)?;
        let stored = &entries[entry.value_at..entry.end];
        let (trailer, value) = match is_logged(entry.trailer) {
            true => (as_put(entry.trailer), Cow::Owned(values.read(stored, &damaged)?)),
            false => (entry.trailer, Cow::Borrowed(stored)),
        };
        let place = builder.place(entry.shared, key.len(), value.len());
        builder.add(place, &key, trailer, &value);
        at = entry.end;
    }
    Ok(builder.into_payload())
}
