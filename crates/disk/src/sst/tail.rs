//! The tail of an SST: all that follows its blocks, decoded. A reader keeps it in memory.
//!
//! 1. The footer, with the version and the place of each section (`format`).
//! 2. Each section is verified and then decoded: index, filter, properties, range tombstones.
//!
//! The bytes come from the file (`reader`), or from the writer that has just made them, so that
//! nothing is read. Invariant: no byte is used before its checksum is verified. No I/O, no lock.

use super::filter::Filter;
use super::format::{Damage, Footer, Properties, Section, VERSION, checksum};
use super::index::Index;
use super::ranges;
use super::writer::SstSummary;
use crate::aligned::ALIGNMENT;
use std::path::Path;
use vlsm_core::{Error, FileUid, RangeTombstones, Result, Seq, units};

/// The verified and decoded tail of a file.
pub struct Tail {
    pub(super) index: Index,
    pub(super) filter: Option<Filter>,
    pub(super) ranges: RangeTombstones,
    pub(super) summary: SstSummary,
}

impl Tail {
    /// Decodes the last bytes of a file of `len` bytes. They begin with the index or before it.
    /// `path` is for errors; `global_seq` is that of [`FileMeta`](vlsm_core::FileMeta).
    ///
    /// # Errors
    /// [`Error::Corruption`] if they are not the tail of an SST, [`Error::FormatVersion`] if it is
    /// newer than this code.
    pub fn decode(bytes: &[u8], len: u64, path: &Path, global_seq: Option<Seq>) -> Result<Self> {
        let damaged =
            |what: Damage| Error::corruption(path, len.saturating_sub(ALIGNMENT as u64), what);
        let (footer, checksum) = Footer::decode(bytes, len).map_err(damaged)?;
        if footer.version != VERSION {
            let (found, supported) = (footer.version, VERSION);
            return Err(Error::FormatVersion { path: path.to_owned(), found, supported });
        }
        if !footer.is_contiguous() {
            return Err(damaged("the parts of the file overlap"));
        }
        let start = len.checked_sub(bytes.len() as u64);
        let start = start.ok_or_else(|| damaged("the file is shorter than its tail"))?;
        let section = |section: &Section| section_of(bytes, start, footer.uid, section, path);
        let index = Index::decode(section(&footer.index)?, footer.index.offset)
            .map_err(|what| Error::corruption(path, footer.index.offset, what))?;
        let filter = match footer.filter.len {
            0 => None,
            _ => Some(
                Filter::decode(section(&footer.filter)?)
                    .map_err(|what| Error::corruption(path, footer.filter.offset, what))?,
            ),
        };
        let properties = Properties::decode(section(&footer.properties)?)
            .map_err(|what| Error::corruption(path, footer.properties.offset, what))?;
        let ranges = section(&footer.ranges)?;
        let ranges = ranges::decode(ranges, &properties.range(), global_seq)
            .map_err(|what| Error::corruption(path, footer.ranges.offset, what))?;
        if ranges.len() as u64 != properties.range_tombstones {
            let what = "the number of range tombstones is not as the properties say";
            return Err(Error::corruption(path, footer.ranges.offset, what));
        }
        let bytes = units::Bytes(len);
        let tail = bytes - units::Bytes(footer.index.offset);
        let (uid, sketch) = (footer.uid, None);
        let summary = SstSummary { uid, bytes, tail, checksum, properties, sketch };
        Ok(Self { index, filter, ranges, summary })
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::memory_bytes);
        let parts = self.index.memory_bytes() + filter + self.ranges.memory();
        parts + std::mem::size_of::<Self>()
    }
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tail({})", self.summary.tail)
    }
}

/// The verified bytes of a section. `tail` is the file from `start` on.
fn section_of<'a>(
    tail: &'a [u8],
    start: u64,
    uid: FileUid,
    section: &Section,
    path: &Path,
) -> Result<&'a [u8]> {
    let damaged = |what: &str| Error::corruption(path, section.offset, what);
    let bounds = section.offset.checked_sub(start).and_then(|from| {
        let to = from.checked_add(section.len)?;
        Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    });
    let bytes = bounds
        .and_then(|bounds| tail.get(bounds))
        .ok_or_else(|| damaged("a part lies outside the file"))?;
    if checksum(uid, section.offset, bytes) != section.checksum {
        return Err(damaged(
            "the checksum of index, filter, range tombstones or properties does not match",
        ));
    }
    Ok(bytes)
}
