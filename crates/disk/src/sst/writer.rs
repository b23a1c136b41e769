//! Turns ascending entries into the bytes of an SST. Does no I/O.
//!
//! 1. Entries go into the block builder. A full block gets its checksum and is copied into the open
//!    chunk.
//! 2. [`SstWriter::take_full`] hands out a full chunk (256 KiB, aligned). The caller writes it
//!    whenever it likes, in any order, and may return the memory with [`SstWriter::recycle`].
//! 3. Range tombstones come as fragments ([`SstWriter::add_range`]), before, between or after the
//!    entries. They stay in memory until the end.
//! 4. [`SstWriter::finish`] appends index, filter, range tombstones, properties and footer. It also
//!    returns these bytes, the file's tail, so that a reader need not read them.
//!
//! Ends of blocks: an uncompressed block ends at a 4096-byte line, so that reading it touches as
//! few lines as possible. If that would waste more than a sixteenth of a line, because entries are
//! large, the block takes in the entry that does not fit, and the next block follows without a gap.
//! Compressed blocks are not aligned.
//!
//! Data that cannot be compressed costs little: after four blocks in a row that did not
//! shrink, one block in 32 is tried, until one shrinks. The others are written as
//! without compression.
//!
//! If the writer is given the block cache, it keeps a copy there of each block whose entries are
//! mostly warm ([`SstWriter::weigh`]).
//!
//! A put whose value is in a WAL already has its place there instead of a value
//! ([`SstWriter::add_logged`], `logged`).
//!
//! Invariants: W1 entries strictly ascend in tree order, and fragments are disjoint and ascend; W2
//! a chunk that was handed out never changes. Cost: no allocation per entry; two copies of each
//! byte, one of them within the first-level cache.

use super::block_builder::BlockBuilder;
use super::cache::BlockCache;
use super::compress::Compressor;
use super::filter::{self, Filter, Hashes};
use super::format::{
    BLOCK_TRAILER_LEN, Compression, Footer, Properties, Section, VERSION, checksum, common_prefix,
};
use super::index::IndexBuilder;
use super::logged::{BLOCK_VALUES_MAX, Place};
use super::ranges::RangesBuilder;
use crate::aligned::{ALIGNMENT, AlignedBuf};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{FileMeta, FileNumber, FileUid, KeyBuf, Kind, Seq, Sketch, Trailer, key, units};

/// Bytes of the chunks that a writer hands out.
pub const CHUNK_LEN: usize = 256 << 10;
/// The most chunks that a writer keeps for reuse.
const SPARE_MAX: usize = 16;
/// The most bytes left unused at the end of a line.
const WASTE_MAX: usize = ALIGNMENT / 16;

/// The blocks in a row that did not shrink, after which only some are tried.
const FAILURES: u32 = 4;
/// Then one block in this number is tried.
const TRIAL_EVERY: u32 = 32;

/// Options of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SstOptions {
    /// About the bytes of a block before compression.
    pub block_bytes: usize,
    /// Entries from one restart point to the next.
    pub restart_interval: usize,
    /// Bits of the Bloom filter for each user key; 0 for no filter.
    pub bits_per_key: u32,
    /// The compression of blocks.
    pub compression: Compression,
    /// Whether the file's summary has a sketch of its keys, for a run of L0.
    pub sketch: bool,
    /// Wall-clock time since the Unix epoch, for the properties.
    pub created: Duration,
}

impl Default for SstOptions {
    fn default() -> Self {
        Self {
            block_bytes: ALIGNMENT,
            restart_interval: 16,
            bits_per_key: 10,
            compression: Compression::None,
            sketch: false,
            created: Duration::ZERO,
        }
    }
}

/// The facts about a finished SST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SstSummary {
    /// The file's uid: the random number in all its checksums.
    pub uid: FileUid,
    /// Length of the file.
    pub bytes: units::Bytes,
    /// Length of all that follows the blocks.
    pub tail: units::Bytes,
    /// The footer's checksum.
    pub checksum: u64,
    /// The properties that the file records about itself.
    pub properties: Properties,
    /// The sketch of its keys, if it was requested. The file does not have it.
    pub sketch: Option<Arc<Sketch>>,
}

impl SstSummary {
    /// The facts as the manifest records them, for the file with this number.
    #[must_use]
    pub fn into_meta(self, number: FileNumber) -> FileMeta {
        FileMeta {
            number,
            uid: self.uid,
            bytes: self.bytes,
            checksum: self.checksum,
            entries: self.properties.entries,
            tombstones: self.properties.tombstones,
            range_tombstones: self.properties.range_tombstones,
            smallest: Bytes::from(self.properties.smallest),
            largest: Bytes::from(self.properties.largest),
            largest_exclusive: self.properties.largest_exclusive,
            seq_min: self.properties.seq_min,
            seq_max: self.properties.seq_max,
            expires: self.properties.expires,
            tail: Some(self.tail),
            sketch: self.sketch,
            wals: self.properties.wals,
            logged_bytes: units::Bytes(self.properties.logged_bytes),
            ..FileMeta::default()
        }
    }
}

/// The end of a file that was written.
#[derive(Debug)]
pub struct Finished {
    /// The chunks that are still to be written, each with its offset.
    pub chunks: Vec<(u64, AlignedBuf)>,
    /// The facts about the file.
    pub summary: SstSummary,
    /// All that follows the blocks, for [`Tail::decode`](super::Tail::decode).
    pub tail: Vec<u8>,
}

/// Writes one SST.
pub struct SstWriter {
    options: SstOptions,
    uid: FileUid,
    block: BlockBuilder,
    /// The length that the open block should not exceed.
    room: usize,
    index: IndexBuilder,
    hashes: Hashes,
    ranges: RangesBuilder,
    properties: Properties,
    last_key: KeyBuf,
    last_trailer: Trailer,
    /// Blocks in a row that did not shrink when they were last tried, and blocks since that were
    /// not tried.
    failures: u32,
    untried: u32,
    /// Bytes of values in WALs to which the open block refers.
    block_values: u64,
    chunks: Chunks,
    compressor: Compressor,
    cache: Option<Arc<BlockCache>>,
    /// The warm entries of the open block, and all entries when it began.
    warm: u64,
    entries_before: u64,
}

/// The file so far, as the caller writes it.
#[derive(Default)]
struct Chunks {
    /// The open chunk.
    open: AlignedBuf,
    /// Bytes before the open chunk.
    handed_out: u64,
    full: VecDeque<(u64, AlignedBuf)>,
    spare: Vec<AlignedBuf>,
}

impl Chunks {
    #[inline]
    fn position(&self) -> u64 {
        self.handed_out + self.open.len() as u64
    }

    /// Copies bytes into the open chunk, and queues the chunk when it is full.
    fn emit(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.open.capacity() == 0 {
                let spare = self.spare.pop();
                self.open = spare.unwrap_or_else(|| AlignedBuf::with_capacity(CHUNK_LEN));
            }
            let taken = self.open.fill_from(bytes);
            bytes = &bytes[taken..];
            if self.open.len() == self.open.capacity() {
                let chunk = std::mem::take(&mut self.open);
                let offset = self.handed_out;
                self.handed_out += chunk.len() as u64;
                self.full.push_back((offset, chunk));
            }
        }
    }
}

impl SstWriter {
    /// A writer of a new file with this random number.
    #[must_use]
    pub fn new(options: SstOptions, uid: FileUid) -> Self {
        let mut writer = Self {
            options,
            uid,
            block: BlockBuilder::new(options.restart_interval),
            room: 0,
            index: IndexBuilder::default(),
            hashes: Hashes::default(),
            ranges: RangesBuilder::default(),
            properties: Properties {
                seq_min: Seq::MAX,
                created: options.created,
                ..Properties::default()
            },
            last_key: KeyBuf::default(),
            last_trailer: Trailer::FIRST,
            failures: 0,
            untried: 0,
            block_values: 0,
            chunks: Chunks::default(),
            compressor: Compressor::default(),
            cache: None,
            warm: 0,
            entries_before: 0,
        };
        writer.room = writer.room_for_block();
        writer
    }

    /// Sets the cache that keeps warm blocks.
    #[must_use]
    pub fn warming(self, cache: Option<Arc<BlockCache>>) -> Self {
        Self { cache, ..self }
    }

    /// Records that the last entry is warm: it, or an older version of it, comes from a cached
    /// block.
    #[inline]
    pub fn weigh(&mut self) {
        self.warm += 1;
    }

    /// Whether there is neither an entry nor a range tombstone yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.properties.entries == 0 && self.ranges.count() == 0
    }

    /// About the bytes of the file if it were finished now.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u64 {
        let filter = Filter::len_for(self.hashes.count(), self.options.bits_per_key);
        self.position() + (self.block.len() + self.index.len() + filter + self.ranges.len()) as u64
    }

    fn position(&self) -> u64 {
        self.chunks.position()
    }

    /// Appends an entry, which must come after the last one in tree order.
    pub fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) {
        let shared = common_prefix(&self.last_key, key);
        let first = self.properties.entries == 0;
        debug_assert!(trailer.kind() != Some(Kind::RangeDelete), "add_range is for these");
        debug_assert!(trailer.kind() != Some(Kind::Kept), "only WALs have these");
        debug_assert!(
            first || key::compare(&self.last_key, self.last_trailer, key, trailer).is_lt(),
            "W1: entries do not ascend"
        );
        let mut place = self.block.place(shared, key.len(), value.len());
        if place.block_len > self.room && self.begin_block(key) {
            place = self.block.place(shared, key.len(), value.len());
        }
        self.block.add(place, key, trailer, value);
        if first || shared < key.len() || shared < self.last_key.len() {
            self.last_key.replace(shared, &key[shared..]);
            if self.options.bits_per_key > 0 || self.options.sketch {
                self.hashes.push(filter::hash(key));
            }
        }
        self.last_trailer = trailer;
        let properties = &mut self.properties;
        if first {
            properties.smallest = key.to_vec();
        }
        properties.entries += 1;
        properties.tombstones += u64::from(trailer.kind_number() == Kind::Delete as u8);
        if trailer.kind_number() == Kind::PutExpiring as u8 {
            properties.expires = properties.expires.into_iter().chain(key::expiry(value)).min();
        }
        properties.key_bytes += key.len() as u64;
        properties.value_bytes += value.len() as u64;
        properties.seq_min = properties.seq_min.min(trailer.seq());
        properties.seq_max = properties.seq_max.max(trailer.seq());
    }

    /// Appends a put whose value is at this place in a WAL. The order is that of [`Self::add`].
    pub fn add_logged(&mut self, key: &[u8], seq: Seq, place: &Place) {
        let len = u64::from(place.len);
        if self.block_values + len > BLOCK_VALUES_MAX && !self.block.is_empty() {
            self.finish_block(0);
            self.index.separate(&self.last_key, key);
        }
        self.add(key, Trailer::new(seq, Kind::Logged), &place.encode());
        self.block_values += len;
        self.properties.logged_bytes += len;
        let wals = &mut self.properties.wals;
        if let Err(at) = wals.binary_search(&place.wal) {
            wals.insert(at, place.wal);
        }
    }

    /// Adds a fragment: range tombstones with the sequence numbers `seqs`, newest first, cover
    /// `[lo, hi)`. It must be after the previous fragment. The position among the entries does not
    /// matter.
    pub fn add_range(&mut self, lo: &[u8], hi: &[u8], seqs: &[Seq]) {
        self.ranges.add(lo, hi, seqs);
        let properties = &mut self.properties;
        for seq in seqs.first().into_iter().chain(seqs.last()) {
            properties.seq_min = properties.seq_min.min(*seq);
            properties.seq_max = properties.seq_max.max(*seq);
        }
    }

    /// Ends the open block, which has no room for the entry with this key, if the entry belongs in
    /// the next one. False if the open block takes the entry.
    #[inline(never)]
    fn begin_block(&mut self, key: &[u8]) -> bool {
        let len = self.block.len();
        if self.block.is_empty() {
            return false;
        } else if self.compression() != Compression::None {
            self.finish_block(0);
        } else if len > self.room || self.room - len <= WASTE_MAX {
            self.finish_block(self.room);
        } else {
            return false;
        }
        self.index.separate(&self.last_key, key);
        true
    }

    /// The compression that the open block is tried with.
    #[inline]
    fn compression(&self) -> Compression {
        let tried = self.failures < FAILURES || self.untried + 1 >= TRIAL_EVERY;
        if tried { self.options.compression } else { Compression::None }
    }

    /// Records whether the open block was tried, and whether it shrank.
    fn record_trial(&mut self, tried: bool, shrank: bool) {
        match (tried, shrank) {
            (false, _) => self.untried = self.untried.saturating_add(1),
            (true, true) => (self.failures, self.untried) = (0, 0),
            (true, false) => (self.failures, self.untried) = (self.failures.saturating_add(1), 0),
        }
    }

    /// The largest length of a block that begins here.
    fn room_for_block(&self) -> usize {
        let block_bytes = self.options.block_bytes;
        if self.compression() != Compression::None {
            return block_bytes;
        }
        let within = (self.position() % ALIGNMENT as u64) as usize;
        let least = block_bytes.max(ALIGNMENT) - ALIGNMENT / 2;
        (within + least).next_multiple_of(ALIGNMENT) - within
    }

    fn finish_block(&mut self, len: usize) {
        let offset = self.position();
        let compression = self.compression();
        let plain = self.block.finish(len);
        let raw = &plain[..plain.len() - BLOCK_TRAILER_LEN];
        let entries = self.properties.entries - self.entries_before;
        if let Some(cache) = self.cache.as_ref().filter(|_| 2 * self.warm > entries) {
            cache.rewrote(self.uid, offset, raw);
        }
        (self.warm, self.entries_before) = (0, self.properties.entries);
        let (stored, shrank) = match self.compressor.compress(compression, raw) {
            Some(packed) => (packed, true),
            None => (plain, false),
        };
        let tag = if shrank { compression } else { Compression::None } as u8;
        let (covered, sum) = stored.split_at_mut(stored.len() - 8);
        debug_assert!(covered.len() > 1, "a block holds at least one entry");
        covered[covered.len() - 1] = tag;
        sum.copy_from_slice(&checksum(self.uid, offset, covered).to_le_bytes());
        self.index.block(stored.len());
        self.chunks.emit(stored);
        self.block.clear();
        self.block_values = 0;
        self.record_trial(compression != Compression::None, shrank);
        self.room = self.room_for_block();
    }

    /// The next full chunk and its offset in the file, if any.
    #[inline]
    pub fn take_full(&mut self) -> Option<(u64, AlignedBuf)> {
        self.chunks.full.pop_front()
    }

    /// Takes back the memory of a written chunk, or any memory of the same capacity.
    pub fn recycle(&mut self, mut chunk: AlignedBuf) {
        if chunk.capacity() == CHUNK_LEN && self.chunks.spare.len() < SPARE_MAX {
            chunk.clear();
            self.chunks.spare.push(chunk);
        }
    }

    /// Hands over the memory that it keeps for reuse.
    pub fn take_spare(&mut self) -> Vec<AlignedBuf> {
        std::mem::take(&mut self.chunks.spare)
    }

    /// Ends the file.
    ///
    /// # Panics
    /// If there is neither an entry nor a range tombstone.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        assert!(!self.is_empty(), "an SST holds at least one entry or range tombstone");
        if !self.block.is_empty() {
            self.finish_block(0);
        }
        let mut footer = Footer { version: VERSION, uid: self.uid, ..Footer::default() };
        let start = self.position();
        let mut tail = Vec::new();
        let mut append = |section: &[u8]| {
            let offset = start + tail.len() as u64;
            tail.extend_from_slice(section);
            Section::of(self.uid, offset, section)
        };
        footer.index = append(&self.index.finish(&self.last_key));
        let filter = match self.options.bits_per_key {
            0 => Vec::new(),
            bits => Filter::build(&self.hashes, bits).encode(),
        };
        footer.filter = append(&filter);
        let mut properties = std::mem::take(&mut self.properties);
        properties.largest = self.last_key.to_vec();
        properties.range_tombstones = self.ranges.count();
        let (ranges, bounds) = std::mem::take(&mut self.ranges).finish();
        if let Some((lo, hi)) = bounds {
            let alone = properties.entries == 0;
            if alone || lo < properties.smallest {
                properties.smallest = lo;
            }
            // A range tombstone does not cover its upper end. So a key there is the file's largest
            // key.
            properties.largest_exclusive = alone || hi > properties.largest;
            if properties.largest_exclusive {
                properties.largest = hi;
            }
        }
        footer.ranges = append(&ranges);
        footer.properties = append(&properties.encode());
        let (end, checksum) = footer.encode(start + tail.len() as u64);
        tail.extend_from_slice(&end);
        self.chunks.emit(&tail);
        let bytes = units::Bytes(self.position());
        let mut chunks: Vec<_> = self.chunks.full.drain(..).collect();
        if !self.chunks.open.is_empty() {
            chunks.push((self.chunks.handed_out, self.chunks.open));
        }
        let sketch = self.options.sketch.then(|| Arc::new(Sketch::of(self.hashes.iter())));
        let length = units::Bytes(tail.len() as u64);
        let summary =
            SstSummary { uid: self.uid, bytes, tail: length, checksum, properties, sketch };
        Finished { chunks, summary, tail }
    }
}
