//! Sequential reading of slices of SSTs for compactions, past the block cache.
//!
//! A scanner iterates over the tables of one sorted run as if they were one table. It never waits;
//! the caller does the I/O:
//! 1. [`Scanner::next_read`] requests the next chunk: whole blocks, at most about `chunk_len`
//!    bytes. At most `depth` chunks are requested or ready besides the open one.
//! 2. The caller runs the [`ReadRequest`] wherever it likes and returns the memory with
//!    [`Scanner::supply`], in any order. If values are in WALs (`logged`), the request reads these,
//!    too.
//! 3. [`Scanner::advance`] goes to the next entry, or reports that it needs the next chunk.
//!
//! If the scanner is given the block cache, it tells whether the block of its entry is there
//! ([`Scanner::is_warm`]). It never reads from the cache.
//!
//! Invariants: S1 the scanner does not show entries outside a table's range; S2 it verifies a
//! block's checksum before it shows the block's first entry; S3 no allocation per entry: one buffer
//! holds the key, and a value is a slice of the chunk. Memory: `depth + 1` chunks. A block longer
//! than a chunk is a chunk of its own, and so may be one with its values from WALs.
//!
//! Threads and locks: one thread; no lock.

use super::block::{Layout, assemble, entry_at};
use super::cache::BlockCache;
use super::format::{Compression, Damage, decompress, open_block};
use super::reader::{SstReader, renumbered};
use crate::aligned::{AlignedBuf, align_down, align_up};
use crate::io::{Bulk, Way};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use vlsm_core::{Error, FileUid, KeyBuf, KeyRange, Result, Seq, Trailer};

/// The result of [`Scanner::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// The scanner is on an entry.
    Entry,
    /// The next chunk has not been supplied yet.
    NeedMore,
    /// There are no more entries.
    Done,
}

/// A request to read a chunk for a scanner.
#[derive(Debug)]
pub struct ReadRequest {
    ticket: u64,
    reader: Arc<SstReader>,
    blocks: Range<usize>,
    offset: u64,
    buf: AlignedBuf,
}

/// A chunk that was read.
#[derive(Debug)]
pub struct Chunk {
    buf: AlignedBuf,
    /// The payloads of its blocks with all values in them, if some of these are in WALs.
    whole: Vec<Vec<u8>>,
    /// About the bytes that were read from WALs.
    logged_bytes: u64,
}

impl ReadRequest {
    /// The number of the chunk, for [`Scanner::supply`].
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The file that contains the chunk.
    #[must_use]
    pub fn reader(&self) -> &Arc<SstReader> {
        &self.reader
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buf.len()
    }

    /// Reads the chunk at once, and waits for the device.
    ///
    /// # Errors
    /// [`Error::Io`], also for a file that ends too early; [`Error::Corruption`] of values in WALs.
    pub fn run(mut self) -> Result<Chunk> {
        let read = self.read(0..self.buf.len());
        self.done(read)
    }

    /// Reads the chunk as bulk I/O, and waits for the device.
    ///
    /// # Errors
    /// As [`ReadRequest::run`].
    pub fn run_in(mut self, bulk: &Bulk) -> Result<Chunk> {
        let read = bulk.call(Way::Read, self.buf.len(), |part| self.read(part));
        self.done(read)
    }

    fn done(self, read: io::Result<()>) -> Result<Chunk> {
        read.map_err(|error| Error::io("cannot read", self.reader.path(), error))?;
        let whole: Vec<_> = match self.reader.has_logged() {
            true => self.blocks.clone().map(|block| self.whole(block)).collect::<Result<_>>()?,
            false => Vec::new(),
        };
        let bytes: usize = whole.iter().map(Vec::len).sum();
        let logged_bytes = bytes.saturating_sub(self.buf.len()) as u64;
        Ok(Chunk { buf: self.buf, whole, logged_bytes })
    }

    /// The payload of a block with all values in it.
    fn whole(&self, block: usize) -> Result<Vec<u8>> {
        let Self { reader, offset, buf, .. } = self;
        let extent = reader.extent(block);
        let stored = &buf[(extent.start - offset) as usize..(extent.end - offset) as usize];
        let damaged = |what| reader.damaged(block, what);
        let (payload, compression) =
            open_block(stored, reader.uid(), extent.start).map_err(damaged)?;
        match compression {
            Compression::None => reader.inlined(block, payload),
            _ => {
                let mut raw = Vec::new();
                decompress(compression, payload, &mut raw).map_err(damaged)?;
                reader.inlined(block, &raw)
            }
        }
    }

    fn read(&mut self, part: Range<usize>) -> io::Result<()> {
        let (at, len) = (self.offset + part.start as u64, part.len());
        match self.reader.file().read_at(&mut self.buf[part], at)? {
            count if count < len => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// A table of the run.
struct Part {
    reader: Arc<SstReader>,
    range: KeyRange,
    blocks: Range<usize>,
    /// From this block on, keys may lie beyond the range.
    last_from: usize,
}

/// A chunk that was requested.
struct Slot {
    ticket: u64,
    part: usize,
    blocks: Range<usize>,
    /// The offset in the file at which its memory begins.
    offset: u64,
    chunk: Option<Chunk>,
}

/// A position in a sorted run of tables.
pub struct Scanner {
    parts: Vec<Part>,
    chunk_len: u64,
    depth: usize,
    /// The part and the block from which the next chunk begins.
    next_part: usize,
    next_block: usize,
    next_ticket: u64,
    slots: VecDeque<Slot>,
    /// The open chunk, from which entries come, and the next block in it.
    open: Option<Slot>,
    chunk: AlignedBuf,
    /// The payloads of its blocks from the next one on, if some of their values are in WALs.
    whole: std::vec::IntoIter<Vec<u8>>,
    block: usize,
    /// The open block's payload if the block was compressed, or refers to WALs.
    raw: Vec<u8>,
    is_raw: bool,
    /// The remaining entries of the open block, in `raw` or in `chunk`.
    entries: Range<usize>,
    checks_range: bool,
    /// The sequence number of all entries of the open file, if they have only one.
    global_seq: Option<Seq>,
    key: KeyBuf,
    trailer: Trailer,
    value: Range<usize>,
    spare: Vec<AlignedBuf>,
    bytes_read: u64,
    /// The cache that is asked for each block, if any.
    cache: Option<Arc<BlockCache>>,
    /// Whether the open block is there.
    is_warm: bool,
    /// The blocks that were there so far.
    warm: Vec<(FileUid, u64)>,
}

impl Scanner {
    /// A scanner over these slices, which must be disjoint and in key order.
    #[must_use]
    pub fn new(tables: Vec<(Arc<SstReader>, KeyRange)>, chunk_len: usize, depth: usize) -> Self {
        let part = |(reader, range): (Arc<SstReader>, KeyRange)| {
            let blocks = reader.blocks_of(&range);
            let last_from = reader.blocks_of(&KeyRange::closed(range.hi.clone(), range.hi.clone()));
            Part { reader, range, blocks, last_from: last_from.start }
        };
        let parts: Vec<Part> = tables.into_iter().map(part).collect();
        debug_assert!(parts.windows(2).all(|pair| pair[0].range.is_before(&pair[1].range)));
        Self {
            next_block: parts.first().map_or(0, |part| part.blocks.start),
            parts,
            chunk_len: chunk_len as u64,
            depth: depth.max(1),
            next_part: 0,
            next_ticket: 0,
            slots: VecDeque::new(),
            open: None,
            chunk: AlignedBuf::default(),
            whole: Vec::new().into_iter(),
            block: 0,
            raw: Vec::new(),
            is_raw: false,
            entries: 0..0,
            checks_range: false,
            global_seq: None,
            key: KeyBuf::default(),
            trailer: Trailer::LAST,
            value: 0..0,
            spare: Vec::new(),
            bytes_read: 0,
            cache: None,
            is_warm: false,
            warm: Vec::new(),
        }
    }

    /// Sets the cache that is asked for each block.
    #[must_use]
    pub fn asking(self, cache: Option<Arc<BlockCache>>) -> Self {
        Self { cache, ..self }
    }

    /// Whether the cache has the block of the entry.
    #[must_use]
    #[inline]
    pub fn is_warm(&self) -> bool {
        self.is_warm
    }

    /// The blocks so far that the cache has, by their files' uids and their offsets.
    #[must_use]
    pub fn warm(&self) -> &[(FileUid, u64)] {
        &self.warm
    }

    /// Bounds of all keys that the scanner shows; none without tables.
    #[must_use]
    pub fn bounds(&self) -> Option<(&[u8], &[u8])> {
        let (first, last) = (self.parts.first()?, self.parts.last()?);
        Some((&first.range.lo, &last.range.hi))
    }

    /// The next chunk to read, if the scanner wants one now.
    pub fn next_read(&mut self) -> Option<ReadRequest> {
        if self.slots.len() >= self.depth {
            return None;
        }
        let part = loop {
            let part = self.parts.get(self.next_part)?;
            if self.next_block < part.blocks.end {
                break part;
            }
            self.next_part += 1;
            self.next_block = self.parts.get(self.next_part)?.blocks.start;
        };
        let first = self.next_block;
        let start = part.reader.extent(first).start;
        // With the values that its blocks have in WALs a chunk is hardly longer than others.
        let logged = part.reader.logged_per_block();
        let len =
            |end: usize| part.reader.extent(end).end - start + logged * (end + 1 - first) as u64;
        let mut end = first + 1;
        while end < part.blocks.end && len(end) <= self.chunk_len {
            end += 1;
        }
        let offset = align_down(start);
        let len = align_up(part.reader.extent(end - 1).end) - offset;
        let mut buf = self.spare.pop().unwrap_or_default();
        buf.set_len(len as usize);
        let reader = part.reader.clone();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.next_block = end;
        let blocks = first..end;
        let slot =
            Slot { ticket, part: self.next_part, blocks: blocks.clone(), offset, chunk: None };
        self.slots.push_back(slot);
        self.bytes_read += len;
        Some(ReadRequest { ticket, reader, blocks, offset, buf })
    }

    /// Supplies a chunk that was requested.
    ///
    /// # Panics
    /// If the chunk was not requested.
    pub fn supply(&mut self, ticket: u64, chunk: Chunk) {
        self.bytes_read += chunk.logged_bytes;
        let slot = self.slots.iter_mut().find(|slot| slot.ticket == ticket);
        slot.expect("the chunk was asked for").chunk = Some(chunk);
    }

    /// Bytes requested so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Whether [`Scanner::advance`] would return `NeedMore` at the end of the open chunk.
    #[must_use]
    pub fn lacks_chunk(&self) -> bool {
        self.slots.front().is_some_and(|slot| slot.chunk.is_none())
    }

    /// The user key of the entry.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The trailer of the entry.
    #[must_use]
    #[inline]
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// The value of the entry.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.payload()[self.value.clone()]
    }

    /// Key, trailer and value of the entry.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> (&[u8], Trailer, &[u8]) {
        (&self.key, self.trailer, self.value())
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        if self.is_raw { &self.raw } else { &self.chunk }
    }

    /// Goes to the next entry.
    ///
    /// # Errors
    /// [`Error::Corruption`]. The scanner must not be used after an error.
    #[inline(always)]
    pub fn advance(&mut self) -> Result<Scan> {
        loop {
            if self.entries.is_empty() {
                match self.open_next_block()? {
                    Scan::Entry => {}
                    other => return Ok(other),
                }
            }
            self.decode().map_err(|what| self.damaged(what))?;
            if !self.checks_range || self.is_in_range() {
                return Ok(Scan::Entry);
            }
        }
    }

    #[inline]
    fn decode(&mut self) -> Result<(), Damage> {
        let payload = if self.is_raw { &self.raw[..] } else { &self.chunk[..] };
        let entries = &payload[..self.entries.end];
        let entry = entry_at(entries, self.entries.start)?;
        assemble(&mut self.key, entries, &entry)?;
        self.trailer = renumbered(entry.trailer, self.global_seq);
        self.value = entry.value_at..entry.end;
        self.entries.start = entry.end;
        Ok(())
    }

    /// Whether the entry is in the range of its table. Beyond the upper end no further entry is.
    fn is_in_range(&mut self) -> bool {
        let part = self.open.as_ref().map_or(0, |slot| slot.part);
        let range = &self.parts[part].range;
        if range.ends_before(&self.key) {
            self.entries.start = self.entries.end;
            return false;
        }
        !range.starts_after(&self.key)
    }

    /// Verifies the next block, whose entries come next.
    #[inline(never)]
    fn open_next_block(&mut self) -> Result<Scan> {
        while self.open.as_ref().is_none_or(|slot| self.block >= slot.blocks.end) {
            if self.slots.is_empty() && !self.wants_more() {
                return Ok(Scan::Done);
            }
            let ready = self.slots.front_mut().and_then(|slot| slot.chunk.take());
            let Some(Chunk { buf, whole, .. }) = ready else { return Ok(Scan::NeedMore) };
            self.whole = whole.into_iter();
            let used = std::mem::replace(&mut self.chunk, buf);
            if used.capacity() > 0 && self.spare.len() <= self.depth {
                self.spare.push(used);
            }
            self.open = self.slots.pop_front();
            self.block = self.open.as_ref().map_or(0, |slot| slot.blocks.start);
        }
        self.enter_block().map_err(|what| self.damaged(what))?;
        self.block += 1;
        Ok(Scan::Entry)
    }

    fn wants_more(&self) -> bool {
        let mut parts = self.parts.iter().skip(self.next_part);
        parts.next().is_some_and(|part| self.next_block < part.blocks.end)
            || parts.any(|part| !part.blocks.is_empty())
    }

    fn enter_block(&mut self) -> Result<(), Damage> {
        let slot = self.open.as_ref().ok_or("no chunk is open")?;
        let part = &self.parts[slot.part];
        let extent = part.reader.extent(self.block);
        self.checks_range = self.block == part.blocks.start || self.block >= part.last_from;
        self.global_seq = part.reader.global_seq();
        if let Some(cache) = &self.cache {
            let block = (part.reader.uid(), extent.start);
            self.is_warm = cache.has(block.0, block.1);
            self.warm.extend(self.is_warm.then_some(block));
        }
        self.key.clear();
        if let Some(whole) = self.whole.next() {
            (self.raw, self.is_raw) = (whole, true);
            self.entries = 0..Layout::parse(&self.raw)?.entries;
            return Ok(());
        }
        let start = (extent.start - slot.offset) as usize;
        let end = (extent.end - slot.offset) as usize;
        let stored = self.chunk.get(start..end).ok_or("a chunk is too short")?;
        let (payload, compression) = open_block(stored, part.reader.uid(), extent.start)?;
        self.is_raw = compression != Compression::None;
        let (start, layout) = if self.is_raw {
            decompress(compression, payload, &mut self.raw)?;
            (0, Layout::parse(&self.raw)?)
        } else {
            (start, Layout::parse(payload)?)
        };
        self.entries = start..start + layout.entries;
        Ok(())
    }

    /// The error for an entry that is not after the one before it in tree order.
    #[must_use]
    pub fn out_of_order(&self) -> Error {
        self.damaged("entries are out of order")
    }

    /// The error for damage in the open block.
    #[cold]
    fn damaged(&self, what: Damage) -> Error {
        match &self.open {
            Some(slot) => {
                let reader = &self.parts[slot.part].reader;
                let open = if self.entries.is_empty() { self.block } else { self.block - 1 };
                reader.damaged(open.clamp(slot.blocks.start, slot.blocks.end - 1), what)
            }
            None => Error::Internal(what.into()),
        }
    }
}
