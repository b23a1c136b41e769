//! Reads an SST: point lookups through the block cache. `cursor.rs` iterates over an SST.
//!
//! Open: the manifest records the length of the tail of the file, which is all except its blocks.
//! One aligned read gets the tail: index, filter, range tombstones, properties and footer. Without
//! that length (an older manifest, a lone file) the last two pages are read, which have the footer,
//! and then the rest of the tail. No byte is read twice. The parts of the tail stay in memory;
//! blocks do not. The tail of a file that was just written need not be read
//! ([`SstReader::written`]).
//!
//! Get: 1. the filter; 2. the index; 3. one block, or several if the versions of one key fill it.
//! The caller hides the entries that range tombstones cover.
//!
//! An ingested file has one sequence number for all its entries, whatever the file contains
//! ([`FileMeta::global_seq`]). Every answer has that sequence number.
//!
//! Invariants: R1 lengths are compared with the file's length before anything is allocated; R2 no
//! byte is used before its checksum is verified. All reads are aligned, whether or not the file
//! bypasses the page cache.
//!
//! Threads and locks: a reader is immutable and shared. A cursor belongs to one thread. No lock is
//! held while the file is read.

use super::block::{Block, Lookup};
use super::cache::BlockCache;
use super::filter::{self, Filter};
use super::format::{
    Compression, Damage, FOOTER_PAGES_LEN, Footer, VERSION, decompress, open_block,
};
use super::index::Index;
use super::logged::{self, Values};
use super::tail::Tail;
use super::values_path;
use super::writer::SstSummary;
use crate::aligned::{ALIGNMENT, AlignedBuf, align_down, align_up};
use crate::fs::File;
use crate::gauge::{Charge, Gauge};
use bytes::Bytes;
use parking_lot::Mutex;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{Error, FileMeta, FileUid, RangeTombstones, Result, Seq, Trailer, units};

/// The longest buffer that a thread keeps for the next block.
const PAGES_KEPT: usize = 64 << 10;

/// The counters of gets and cursors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadStats {
    /// Gets that checked a filter.
    pub filter_checks: u64,
    /// Gets that a filter answered: the file does not have the key.
    pub filter_negatives: u64,
    /// Gets that a filter let through although the file has no version of the key that they may
    /// see.
    pub filter_false_positives: u64,
    /// Blocks found in the cache.
    pub block_hits: u64,
    /// Blocks read from the file.
    pub block_misses: u64,
    /// Bytes read from the file.
    pub bytes_read: u64,
}

/// An open SST.
pub struct SstReader {
    file: Arc<dyn File>,
    path: PathBuf,
    index: Index,
    filter: Option<Filter>,
    ranges: Arc<RangeTombstones>,
    global_seq: Option<Seq>,
    summary: SstSummary,
    /// The WALs that hold values of the file.
    values: Values,
    open_bytes: u64,
    charge: Mutex<Option<Charge>>,
}

impl SstReader {
    /// Opens the file that the manifest describes as `expected`.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is another file or damaged, [`Error::FormatVersion`] if it is
    /// newer than this code, [`Error::Io`] if it cannot be read.
    pub fn open(file: Arc<dyn File>, path: &Path, expected: &FileMeta) -> Result<Self> {
        Self::open_as(file, path, expected.tail, expected.global_seq)?.expected(path, expected)
    }

    /// As [`SstReader::open`], for a file that was just written and has this tail, so that nothing
    /// is read. The tail was decoded with the sequence number of `expected`.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the description is of another file, or the file has another length;
    /// [`Error::Io`].
    pub fn written(
        file: Arc<dyn File>,
        path: &Path,
        expected: &FileMeta,
        tail: Tail,
    ) -> Result<Self> {
        let len = file.len().map_err(|error| Error::io("cannot measure", path, error))?;
        if len != expected.bytes.0 {
            return Err(Error::corruption(
                path,
                len,
                "the length of the file differs from what was written",
            ));
        }
        Self::new(file, path, tail, expected.global_seq, 0).expected(path, expected)
    }

    /// The reader, if its file is the one that the manifest describes.
    fn expected(self, path: &Path, expected: &FileMeta) -> Result<Self> {
        let wrong = |what: &str| Err(Error::corruption(path, 0, what));
        let found = &self.summary;
        if found.bytes != expected.bytes {
            return wrong("the length of the file differs from the manifest");
        }
        if found.uid != expected.uid || found.checksum != expected.checksum {
            return wrong("this is not the file that the manifest names");
        }
        if found.properties.wals != expected.wals {
            return wrong("the WALs that hold its values are not those of the manifest");
        }
        if expected.tail.is_some_and(|tail| tail != found.tail) {
            return wrong("the length of index, filter and footer differs from the manifest");
        }
        Ok(self)
    }

    /// Opens a file without a description, for tools and repairs.
    ///
    /// # Errors
    /// As [`SstReader::open`].
    pub fn open_unknown(file: Arc<dyn File>, path: &Path) -> Result<Self> {
        Self::open_as(file, path, None, None)
    }

    fn open_as(
        file: Arc<dyn File>,
        path: &Path,
        tail: Option<units::Bytes>,
        global_seq: Option<Seq>,
    ) -> Result<Self> {
        let len = file.len().map_err(|error| Error::io("cannot measure", path, error))?;
        if len == 0 || len % ALIGNMENT as u64 != 0 {
            return Err(Error::corruption(path, len, "the file is cut off"));
        }
        let wanted = tail.map_or(FOOTER_PAGES_LEN, |tail| tail.0);
        let mut start = align_down(len.saturating_sub(wanted));
        let mut tail = read(&*file, path, start..len)?;
        // Only to know whether more must be read; the decoding of the tail reports what is wrong.
        if let Ok((footer, _)) = Footer::decode(&tail, len)
            && footer.version == VERSION
            && footer.is_contiguous()
            && footer.index.offset < start
        {
            let from = align_down(footer.index.offset);
            let mut longer = read(&*file, path, from..start)?;
            longer.extend_from_slice(&tail);
            (start, tail) = (from, longer);
        }
        let tail = Tail::decode(&tail, len, path, global_seq)?;
        Ok(Self::new(file, path, tail, global_seq, len - start))
    }

    fn new(
        file: Arc<dyn File>,
        path: &Path,
        tail: Tail,
        global_seq: Option<Seq>,
        open_bytes: u64,
    ) -> Self {
        let Tail { index, filter, ranges, summary } = tail;
        Self {
            file,
            path: path.to_owned(),
            index,
            filter,
            ranges: Arc::new(ranges),
            global_seq,
            summary,
            values: Values::default(),
            open_bytes,
            charge: Mutex::default(),
        }
    }

    /// The reader with the files that hold values of the SST (`logged`), which `open` opens for
    /// reading. Without them these values cannot be read.
    ///
    /// # Errors
    /// [`Error::Io`] if one cannot be opened.
    pub fn with_values(
        mut self,
        mut open: impl FnMut(u64, &Path) -> io::Result<Arc<dyn File>>,
    ) -> Result<Self> {
        for wal in &self.summary.properties.wals {
            let path = values_path(&self.path, *wal);
            let file = open(*wal, &path);
            let file = file.map_err(|error| Error::io("cannot open values of SST", &path, error));
            self.values.add(*wal, path, file?);
        }
        Ok(self)
    }

    /// The reader without its filter, for callers that read the whole file.
    #[must_use]
    pub fn without_filter(self) -> Self {
        Self { filter: None, ..self }
    }

    /// The reader of an ingested file: all its entries have this sequence number. The file has no
    /// range tombstones.
    #[must_use]
    pub fn with_global_seq(self, seq: Seq) -> Self {
        debug_assert!(self.ranges.is_empty(), "their sequence numbers would stay");
        Self { global_seq: Some(seq), ..self }
    }

    /// Counts the reader's memory on a gauge from now on, as long as the reader lives.
    pub fn charge_to(&self, gauge: &Gauge) {
        *self.charge.lock() = Some(gauge.charge(self.memory_bytes() as u64));
    }

    /// Bytes that were read to open it.
    #[must_use]
    pub fn open_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// Bytes of memory that index, filter and range tombstones keep.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes()
            + self.filter.as_ref().map_or(0, Filter::memory_bytes)
            + self.ranges.memory()
            + std::mem::size_of::<Self>()
    }

    /// Its range tombstones.
    #[must_use]
    pub fn range_tombstones(&self) -> &Arc<RangeTombstones> {
        &self.ranges
    }

    /// The sequence number of all its entries in this store, whatever the file contains.
    pub(super) fn global_seq(&self) -> Option<Seq> {
        self.global_seq
    }

    /// The summary of the file.
    #[must_use]
    pub fn summary(&self) -> &SstSummary {
        &self.summary
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Number of data blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.index.len()
    }

    /// Bytes of the blocks that may hold keys of `range`, for estimates.
    #[must_use]
    pub fn bytes_in(&self, range: &vlsm_core::KeyRange) -> units::Bytes {
        let blocks = self.blocks_of(range);
        if blocks.is_empty() {
            return units::Bytes::ZERO;
        }
        let start = self.index.extent(blocks.start).start;
        units::Bytes(self.index.extent(blocks.end - 1).end - start)
    }

    /// The blocks that may hold keys of `range`.
    pub(super) fn blocks_of(&self, range: &vlsm_core::KeyRange) -> Range<usize> {
        let start = self.index.find(&range.lo);
        let last = match range.hi_inclusive {
            true => self.index.find_after(&range.hi),
            false => self.index.find(&range.hi),
        };
        start..(last + 1).min(self.index.len()).max(start)
    }

    /// The smallest and the largest key that a block may hold.
    pub(super) fn keys_of(&self, block: usize) -> (Bytes, Bytes) {
        let properties = &self.summary.properties;
        let end = |block: usize| match block < self.index.len() {
            true => self.index.separator(block).into(),
            false => Bytes::from(properties.largest.clone()),
        };
        let start = block.checked_sub(1).map(end);
        (start.unwrap_or_else(|| properties.smallest.clone().into()), end(block))
    }

    pub(super) fn extent(&self, block: usize) -> Range<u64> {
        self.index.extent(block)
    }

    /// The first block that may hold `key`.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        self.index.find(key)
    }

    /// Whether versions of `key` may continue in the next block.
    pub(super) fn ends_with(&self, block: usize, key: &[u8]) -> bool {
        self.index.ends_with(block, key)
    }

    /// The end of the last data block.
    pub(super) fn blocks_end(&self) -> u64 {
        self.index.len().checked_sub(1).map_or(0, |last| self.index.extent(last).end)
    }

    pub(super) fn uid(&self) -> FileUid {
        self.summary.uid
    }

    pub(super) fn damaged(&self, block: usize, what: Damage) -> Error {
        Error::corruption(&self.path, self.index.extent(block).start, what)
    }

    /// A block from the cache or the file.
    pub(super) fn block(
        &self,
        number: usize,
        cache: &BlockCache,
        fill: bool,
        stats: &mut ReadStats,
    ) -> Result<Block> {
        if let Some(block) = self.cached(number, cache) {
            stats.block_hits += 1;
            return Ok(block);
        }
        let (block, bytes) = self.read_block(number, cache, fill)?;
        stats.block_misses += 1;
        stats.bytes_read += bytes;
        Ok(block)
    }

    /// A block, if the cache has it.
    #[must_use]
    pub fn cached(&self, number: usize, cache: &BlockCache) -> Option<Block> {
        cache.get(self.uid(), self.index.extent(number).start)
    }

    /// A block from the file, and the bytes that were read.
    pub(super) fn read_block(
        &self,
        number: usize,
        cache: &BlockCache,
        fill: bool,
    ) -> Result<(Block, u64)> {
        let extent = self.index.extent(number);
        let around = align_down(extent.start)..align_up(extent.end);
        let bytes = around.end - around.start;
        let mut pages = PAGES.try_with(Cell::take).unwrap_or_default();
        read_into(&mut pages, &*self.file, &self.path, around.clone())?;
        let block = self.decode(number, &pages, extent.start - around.start, cache)?;
        if pages.capacity() <= PAGES_KEPT {
            let _ = PAGES.try_with(|kept| kept.set(pages));
        }
        cache.missed(self.uid(), extent.start, bytes, &block, fill);
        Ok((block, bytes))
    }

    /// Makes a block from bytes of the file that begin `skip` bytes before it. The block is copied:
    /// aligned memory that is freed in the order of a cache leaves holes, which take several times
    /// the memory of the blocks.
    pub(super) fn decode(
        &self,
        number: usize,
        buf: &[u8],
        skip: u64,
        cache: &BlockCache,
    ) -> Result<Block> {
        let (extent, skip) = (self.index.extent(number), skip as usize);
        let stored = &buf[skip..skip + (extent.end - extent.start) as usize];
        let decode = || {
            let (payload, compression) = open_block(stored, self.uid(), extent.start)?;
            let mut raw = Vec::new();
            let (copy, weight) = match compression {
                Compression::None => cache.copy(payload),
                _ => {
                    decompress(compression, payload, &mut raw)?;
                    cache.copy(&raw)
                }
            };
            Block::new(copy, weight)
        };
        decode().map_err(|what| self.damaged(number, what))
    }

    /// Whether values of the file are in WALs.
    #[inline]
    pub(super) fn has_logged(&self) -> bool {
        !self.summary.properties.wals.is_empty()
    }

    /// About the bytes of values in WALs to which a block refers.
    pub(super) fn logged_per_block(&self) -> u64 {
        self.summary.properties.logged_bytes.div_ceil(self.index.len().max(1) as u64)
    }

    /// The payload of a block with all its values.
    pub(super) fn inlined(&self, number: usize, payload: &[u8]) -> Result<Vec<u8>> {
        logged::inlined(payload, &self.values, |what| self.damaged(number, what))
    }

    /// The value at this place in a WAL, to which a block refers.
    #[cold]
    #[inline(never)]
    pub(super) fn logged(&self, number: usize, place: &[u8]) -> Result<Vec<u8>> {
        self.values.read(place, |what| self.damaged(number, what))
    }

    /// Whether the file may hold entries of `key`, according to its filter.
    #[must_use]
    pub fn may_contain(&self, key: &[u8], stats: &mut ReadStats) -> bool {
        self.may_contain_hashed(filter::hash(key), stats)
    }

    /// As [`SstReader::may_contain`], with the key's [`filter::hash`].
    #[must_use]
    pub fn may_contain_hashed(&self, hash: u64, stats: &mut ReadStats) -> bool {
        let Some(filter) = &self.filter else { return true };
        stats.filter_checks += 1;
        let may = filter.may_contain(hash);
        stats.filter_negatives += u64::from(!may);
        may
    }

    /// The newest entry of `key` that a reader at `seq` sees, tombstones included. A cursor finds
    /// the older entries after it, which a merge operand needs.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`].
    pub fn get(
        &self,
        key: &[u8],
        seq: Seq,
        cache: &BlockCache,
        fill: bool,
        stats: &mut ReadStats,
    ) -> Result<Option<(Trailer, Bytes)>> {
        self.get_hashed(key, filter::hash(key), seq, cache, fill, stats)
    }

    /// As [`SstReader::get`], with the key's [`filter::hash`], which is the same for all files.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`].
    pub fn get_hashed(
        &self,
        key: &[u8],
        hash: u64,
        seq: Seq,
        cache: &BlockCache,
        fill: bool,
        stats: &mut ReadStats,
    ) -> Result<Option<(Trailer, Bytes)>> {
        self.get_from(key, hash, seq, stats, |number, stats| self.block(number, cache, fill, stats))
    }

    /// As [`SstReader::get_hashed`], with blocks from `block`, which may give up instead of reading
    /// one. A value that is in a WAL is read all the same.
    ///
    /// # Errors
    /// Those of `block`, and [`Error::Corruption`].
    #[inline]
    pub fn get_from<E: From<Error>>(
        &self,
        key: &[u8],
        hash: u64,
        seq: Seq,
        stats: &mut ReadStats,
        mut block: impl FnMut(usize, &mut ReadStats) -> Result<Block, E>,
    ) -> Result<Option<(Trailer, Bytes)>, E> {
        if !self.may_contain_hashed(hash, stats) {
            return Ok(None);
        }
        let target = match self.global_seq {
            None => Trailer::seek(seq),
            Some(global) if global <= seq => Trailer::FIRST,
            Some(_) => return Ok(None),
        };
        for number in self.index.find(key)..self.index.len() {
            let found = block(number, stats)?.get(key, target);
            match found.map_err(|what| self.damaged(number, what))? {
                Lookup::Found(trailer, value) => {
                    if logged::is_logged(trailer) {
                        let value = self.logged(number, &value)?;
                        stats.bytes_read += value.len() as u64;
                        return Ok(Some((logged::as_put(trailer), value.into())));
                    }
                    return Ok(Some((renumbered(trailer, self.global_seq), value)));
                }
                Lookup::Beyond if self.index.ends_with(number, key) => {}
                Lookup::Absent | Lookup::Beyond => break,
            }
        }
        stats.filter_false_positives += u64::from(self.filter.is_some());
        Ok(None)
    }
}

impl std::fmt::Debug for SstReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SstReader({}, {})", self.path.display(), self.summary.bytes)
    }
}

/// The trailer with the sequence number that it has in this store.
#[inline]
pub(super) fn renumbered(trailer: Trailer, global_seq: Option<Seq>) -> Trailer {
    match global_seq {
        None => trailer,
        Some(seq) => Trailer(seq.0 << 8 | u64::from(trailer.kind_number())),
    }
}

thread_local! {
    /// The pages that this thread reads blocks into. If each block had new ones, holes would stay
    /// between the blocks of the cache: a fifth of its size. While a thread ends, they may be gone
    /// already.
    static PAGES: Cell<AlignedBuf> = Cell::default();
}

/// Reads exactly this range of a file. The range is aligned and within the file.
pub(super) fn read(file: &dyn File, path: &Path, range: Range<u64>) -> Result<AlignedBuf> {
    let mut buf = AlignedBuf::default();
    read_into(&mut buf, file, path, range)?;
    Ok(buf)
}

/// As [`read`], in place of what `buf` held.
fn read_into(buf: &mut AlignedBuf, file: &dyn File, path: &Path, range: Range<u64>) -> Result<()> {
    let len = usize::try_from(range.end - range.start)
        .map_err(|_| Error::corruption(path, range.start, "an extent is too long"))?;
    buf.clear();
    buf.set_len(len);
    let count =
        file.read_at(buf, range.start).map_err(|error| Error::io("cannot read", path, error))?;
    if count < len {
        return Err(Error::corruption(path, range.start + count as u64, "the file is cut off"));
    }
    Ok(())
}
