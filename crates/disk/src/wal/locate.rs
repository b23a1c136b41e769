//! Finds the places of values in WALs that are in use, for SSTs that refer to them (TRIAD-LOG).
//!
//! The WALs of memtables are read once, from their beginnings to their ends or the first record
//! that does not verify, and each put of the tree that can be referred to is noted by its sequence
//! number. Recent writes are in the page cache.
//!
//! Left out, so that the SST has the values itself: values shorter than a place, entries of large
//! batches, which are in fragments, and WALs of 4 GB and more.
//!
//! Memory: a megabyte of a file, or one record if that is longer, and 24 bytes for each value.

use crate::fs::{File, Fs, OpenOptions};
use crate::record::{HEADER_LEN, RECORD_HEADER_LEN, RecordKind, checksum, head_of, record_len};
use crate::sst::Place;
use crate::wal::reader::read_header;
use crate::wal::{Entries, LARGE_BATCH, wal_path};
use std::ops::RangeInclusive;
use std::path::Path;
use vlsm_core::{Error, Kind, Result, Seq, TreeId, key};

/// The bytes that are read at a time.
const STEP: usize = 1 << 20;

/// The values to look for: puts of one tree, with these sequence numbers.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The tree.
    pub tree: TreeId,
    /// The sequence numbers under which they were logged.
    pub seqs: RangeInclusive<Seq>,
}

/// A value in a WAL.
#[derive(Debug, Clone, Copy)]
struct Found {
    seq: Seq,
    offset: u32,
    len: u32,
    checksum: u32,
    /// The index of the WAL.
    wal: u32,
}

/// The places of values, by sequence number.
#[derive(Debug, Default)]
pub struct Located {
    wals: Vec<u64>,
    found: Vec<Found>,
}

impl Located {
    /// The place of this value, which was put under this sequence number. None if it is not in a
    /// WAL, or if another value was.
    #[must_use]
    pub fn place(&self, seq: Seq, value: &[u8]) -> Option<Place> {
        if value.len() < Place::VALUE_MIN {
            return None;
        }
        let at = self.found.binary_search_by_key(&seq, |found| found.seq).ok()?;
        let Found { offset, len, checksum: logged, wal, .. } = self.found[at];
        let is_it = len as usize == value.len() && logged == checksum(value);
        let wal = self.wals[wal as usize];
        is_it.then_some(Place { wal, offset: offset.into(), len, checksum: logged })
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (self.found.capacity() * size_of::<Found>()) as u64
    }
}

/// Finds the places of values in these WALs, which are in use. Each is a number and the length that
/// counts.
///
/// # Errors
/// [`Error::Io`], or [`Error::Corruption`] if a header does not verify or a batch is malformed.
pub fn locate(fs: &dyn Fs, dir: &Path, wals: &[(u64, u64)], wanted: &Wanted) -> Result<Located> {
    let numbers = wals.iter().map(|(number, _)| *number).collect();
    let mut located = Located { wals: numbers, found: Vec::new() };
    for (index, (number, len)) in wals.iter().enumerate() {
        let path = wal_path(dir, *number);
        let (header, _) = read_header(fs, &path, *number)?;
        let file = fs.open(&path, OpenOptions::READ);
        let file = file.map_err(|error| Error::io("cannot read WAL", &path, error))?;
        let (uid, wal) = (header.uid, index as u32);
        let (bytes, from, at) = (Vec::new(), 0, HEADER_LEN);
        let mut walk = Walk { path: &path, file: &*file, uid, at, end: *len, bytes, from };
        while walk.record(wal, wanted, &mut located.found)? {}
    }
    // A hot key was logged again under a later number than its own.
    if !located.found.is_sorted_by_key(|found| found.seq) {
        located.found.sort_by_key(|found| found.seq);
    }
    located.found.shrink_to_fit();
    Ok(located)
}

/// A walk over the records of a WAL.
struct Walk<'a> {
    path: &'a Path,
    file: &'a dyn File,
    uid: u64,
    /// The offset of the next record, which `bytes` has from `from` on.
    at: u64,
    /// Where the records that count end.
    end: u64,
    bytes: Vec<u8>,
    from: usize,
}

impl Walk<'_> {
    /// Looks through the next record. False if there is none that matters.
    fn record(&mut self, wal: u32, wanted: &Wanted, found: &mut Vec<Found>) -> Result<bool> {
        self.fill(RECORD_HEADER_LEN)?;
        let head = head_of(&self.bytes[self.from..], self.uid, self.at);
        let Some((head, len)) = head else { return Ok(false) };
        let whole = record_len(len) as usize;
        // Sequence numbers ascend along the log.
        let beyond = head.seq > *wanted.seqs.end() || self.at + whole as u64 > self.end;
        if beyond || !self.fill(whole)? {
            return Ok(false);
        }
        // An entry takes a byte at least.
        let last = head.seq.0.saturating_add(len as u64);
        if head.kind == RecordKind::Batch && last >= wanted.seqs.start().0 {
            let start = self.from + RECORD_HEADER_LEN;
            let payload = &self.bytes[start..start + len];
            if checksum(payload) != head.payload_checksum {
                return Ok(false);
            }
            self.batch(wal, head.seq, payload, wanted, found)?;
        }
        self.from += whole;
        self.at += whole as u64;
        Ok(true)
    }

    /// Reads until there are `len` bytes from the next record on. False if the file ends before.
    fn fill(&mut self, len: usize) -> Result<bool> {
        while self.bytes.len() - self.from < len {
            self.bytes.drain(..self.from);
            self.from = 0;
            let (have, more) = (self.bytes.len(), STEP.max(len - self.bytes.len()));
            self.bytes.resize(have + more, 0);
            let read = self.file.read_at(&mut self.bytes[have..], self.at + have as u64);
            let read = read.map_err(|error| Error::io("cannot read WAL", self.path, error))?;
            self.bytes.truncate(have + read);
            if read == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn batch(
        &self,
        wal: u32,
        first: Seq,
        payload: &[u8],
        wanted: &Wanted,
        found: &mut Vec<Found>,
    ) -> Result<()> {
        let mut entries = Entries::new(payload);
        let mut seq = first;
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|why| Error::corruption(self.path, self.at, why.0))?;
            let put = match entry.kind {
                Kind::Put => Some((seq, entry.value)),
                Kind::Kept => key::kept(entry.value),
                _ => None,
            };
            let counts = entry.tree == wanted.tree && wanted.seqs.contains(&seq);
            if let Some((original, value)) = put.filter(|_| counts)
                && (Place::VALUE_MIN..LARGE_BATCH).contains(&value.len())
            {
                // The value is the last part of its entry.
                let end = payload.len() - entries.remaining();
                let offset = self.at + (RECORD_HEADER_LEN + end - value.len()) as u64;
                if let (Ok(offset), Ok(len)) = (u32::try_from(offset), u32::try_from(value.len())) {
                    let checksum = checksum(value);
                    found.push(Found { seq: original, offset, len, checksum, wal });
                }
            }
            seq.0 += 1;
        }
        Ok(())
    }
}
