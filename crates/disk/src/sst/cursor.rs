//! Iterates over an SST through the block cache, with read-ahead.
//!
//! Algorithm: a seek reads one block, and as much behind it as the caller expects to need
//! ([`SstCursor::expecting`]). When the cursor goes on to the next block, it reads more than
//! that block, and twice as much each time ([`AHEAD_MIN`], [`AHEAD_MAX`]). The next blocks come
//! from that buffer. So a short scan waits for the device three times instead of once a block, or
//! once if it was expected, and a long scan is as fast as the device. A move backwards or to
//! another place begins with a single block again. When the cursor reaches a block of the buffer,
//! the block enters the cache.
//!
//! Invariants: a block from the buffer is verified like any other. The buffer counts as memory of
//! pinned blocks.
//!
//! Threads and locks: one thread owns the cursor. The cursor holds its file open. It takes no lock
//! except the cache's.

use super::block::{Block, BlockCursor};
use super::cache::BlockCache;
use super::format::Damage;
use super::reader::{ReadStats, SstReader, read, renumbered};
use crate::aligned::{AlignedBuf, align_down, align_up};
use crate::gauge::Charge;
use bytes::Bytes;
use std::sync::Arc;
use vlsm_core::{Cursor, Entry, Error, FileUid, Result, Trailer};

/// Bytes of a cursor's first read-ahead.
const AHEAD_MIN: u64 = 8 << 10;

/// The most bytes of one read-ahead.
pub const AHEAD_MAX: u64 = 64 << 10;

/// A part of a file that was read ahead.
struct Ahead {
    start: u64,
    bytes: AlignedBuf,
    _charge: Charge,
}

impl Ahead {
    fn holds(&self, extent: &std::ops::Range<u64>) -> bool {
        self.start <= extent.start && extent.end <= self.start + self.bytes.len() as u64
    }
}

/// A block that has to be read, and some behind it.
pub struct Wanted {
    reader: Arc<SstReader>,
    cache: Arc<BlockCache>,
    fill: bool,
    number: usize,
    /// The bytes behind that block.
    more: u64,
}

/// [`Wanted`] blocks that have been read.
pub struct BlocksRead {
    block: Block,
    ahead: Option<Ahead>,
    bytes_read: u64,
}

impl Wanted {
    /// The file and the number of the first block.
    #[must_use]
    pub fn first(&self) -> (FileUid, usize) {
        (self.reader.uid(), self.number)
    }

    /// The length of all blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let extent = self.reader.extent(self.number);
        extent.end - extent.start + self.more
    }

    /// Reads the blocks, whether or not the cache has them, and keeps the first one there. Any
    /// thread may do this for the one that needs them.
    ///
    /// # Errors
    /// [`Error::Corruption`] or [`Error::Io`].
    pub fn read(&self) -> Result<BlocksRead> {
        let Self { reader, cache, fill, number, more } = self;
        let extent = reader.extent(*number);
        let end = align_up((extent.end + more).min(reader.blocks_end()));
        if end <= align_up(extent.end) {
            let (block, bytes_read) = reader.read_block(*number, cache, *fill)?;
            return Ok(BlocksRead { block, ahead: None, bytes_read });
        }
        let start = align_down(extent.start);
        let bytes = read(&**reader.file(), reader.path(), start..end)?;
        let bytes_read = bytes.len() as u64;
        let ahead = Ahead { start, _charge: cache.pinned(bytes.capacity() as u64), bytes };
        let block = reader.decode(*number, &ahead.bytes, extent.start - start, cache)?;
        cache.missed(reader.uid(), extent.start, bytes_read, &block, *fill);
        Ok(BlocksRead { block, ahead: Some(ahead), bytes_read })
    }
}

impl BlocksRead {
    /// The first block.
    #[must_use]
    pub fn into_block(self) -> Block {
        self.block
    }
}

/// A position among the entries of an SST.
pub struct SstCursor {
    reader: Arc<SstReader>,
    cache: Arc<BlockCache>,
    fill: bool,
    stats: ReadStats,
    block: Option<BlockCursor>,
    number: usize,
    /// The number of the key's block, from [`Cursor::approach`] to the next seek.
    approached: Option<usize>,
    /// The block of the last move, even if that move failed.
    target: usize,
    /// The block to which the cursor came without following the one before.
    first: usize,
    /// The bytes to read behind such a block, if it has to be read.
    expected: u64,
    /// The least bytes of the next read-ahead.
    window: u64,
    ahead: Option<Ahead>,
    error: Option<Error>,
}

impl SstReader {
    /// A block that has to be read.
    #[must_use]
    pub fn wanted(self: &Arc<Self>, number: usize, cache: &Arc<BlockCache>) -> Wanted {
        Wanted { reader: self.clone(), cache: cache.clone(), fill: true, number, more: 0 }
    }

    /// A cursor over all entries. If `fill`, the blocks that it reads go into the cache.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, cache: &Arc<BlockCache>, fill: bool) -> SstCursor {
        SstCursor {
            reader: self.clone(),
            cache: cache.clone(),
            fill,
            stats: ReadStats::default(),
            block: None,
            number: 0,
            approached: None,
            target: 0,
            first: 0,
            expected: 0,
            window: AHEAD_MIN,
            ahead: None,
            error: None,
        }
    }
}

impl SstCursor {
    /// The cursor, which reads so many bytes behind a block that it has to read, unless it follows
    /// the block that was read before; at most [`AHEAD_MAX`].
    #[must_use]
    pub fn expecting(self, more: u64) -> Self {
        Self { expected: more.min(AHEAD_MAX), ..self }
    }

    /// Of a cursor that made one seek and went on from there: the bytes of the file that it went
    /// through behind the first block. None if all blocks were in the cache.
    #[must_use]
    pub fn walked(&self) -> Option<u64> {
        let any = self.stats.block_misses > 0;
        let within = self.first <= self.number && self.number < self.reader.block_count();
        let end = |block| self.reader.extent(block).end;
        (any && within).then(|| end(self.number) - end(self.first))
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> &ReadStats {
        &self.stats
    }

    /// After an error: the smallest and the largest key that the unreadable block may hold.
    #[must_use]
    pub fn unread(&self) -> (Bytes, Bytes) {
        self.reader.keys_of(self.target)
    }

    /// After an error: goes to the first entry after the unreadable block, as if that block did not
    /// exist. Only for callers that report the missing keys.
    ///
    /// # Errors
    /// As the moves of a [`Cursor`], for the next block that cannot be read.
    pub fn pass_unread(&mut self) -> Result<()> {
        self.error = None;
        let next = self.target + 1;
        self.sticky(|cursor| {
            cursor.enter(next, BlockCursor::seek_first)?;
            cursor.forward()
        })
    }

    /// Goes to the next entry if the current block has one and it is not damaged. Otherwise returns
    /// false and stays; then [`Cursor::next`] reads the next block, or says what is damaged.
    #[inline]
    pub fn step(&mut self) -> bool {
        self.block.as_mut().is_some_and(BlockCursor::step)
    }

    /// After [`Cursor::approach`]: the blocks that the seek has to read, if it has to.
    #[must_use]
    pub fn missing(&self) -> Option<Wanted> {
        let number = self.approached?;
        let taken = self.block.is_some() && self.number == number;
        let readable = number < self.reader.block_count() && !self.reader.has_logged();
        (readable && !taken && self.error.is_none()).then(|| self.wanted(number))
    }

    fn wanted(&self, number: usize) -> Wanted {
        let block = self.reader.wanted(number, &self.cache);
        Wanted { fill: self.fill, more: self.expected, ..block }
    }

    /// Takes the blocks that were missing, and have been read.
    pub fn give(&mut self, read: BlocksRead) {
        if let Some(number) = self.approached {
            self.begin(number);
            let block = self.count(read);
            (self.block, self.number) = (Some(BlockCursor::new(block)), number);
        }
    }

    /// Forgets the last block, and what was read ahead of it.
    fn begin(&mut self, number: usize) {
        (self.ahead, self.window, self.first) = (None, self.expected.max(AHEAD_MIN), number);
    }

    /// Counts what was read for a seek. Returns its block; the next ones are at hand.
    fn count(&mut self, read: BlocksRead) -> Block {
        self.stats.block_misses += 1;
        self.stats.bytes_read += read.bytes_read;
        self.ahead = read.ahead;
        read.block
    }

    #[inline]
    fn here(&self) -> &BlockCursor {
        self.block.as_ref().expect("the cursor stands on an entry")
    }

    /// Goes to a block and to a position in it. Without such a block the cursor is not valid.
    fn enter(
        &mut self,
        number: usize,
        position: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<()> {
        self.target = number;
        if number >= self.reader.block_count() {
            self.block = None;
            return Ok(());
        }
        if self.block.is_none() || self.number != number {
            let follows = self.block.is_some() && number == self.number + 1;
            let block = if follows { self.following(number)? } else { self.elsewhere(number)? };
            let block = if self.reader.has_logged() { self.whole(number, block)? } else { block };
            match &mut self.block {
                Some(cursor) => cursor.set_block(block),
                None => self.block = Some(BlockCursor::new(block)),
            }
            self.number = number;
        }
        match &mut self.block {
            Some(cursor) => position(cursor).map_err(|what| self.reader.damaged(number, what)),
            None => Ok(()),
        }
    }

    /// The block with its values, of which some are in WALs.
    fn whole(&mut self, number: usize, block: Block) -> Result<Block> {
        let stored = block.payload();
        let payload = self.reader.inlined(number, stored)?;
        self.stats.bytes_read += payload.len().saturating_sub(stored.len()) as u64;
        let weight = payload.capacity();
        let whole = Block::new(self.cache.hold(payload, weight), weight);
        whole.map_err(|what| self.reader.damaged(number, what))
    }

    fn elsewhere(&mut self, number: usize) -> Result<Block> {
        self.begin(number);
        if let Some(block) = self.reader.cached(number, &self.cache) {
            self.stats.block_hits += 1;
            return Ok(block);
        }
        let read = self.wanted(number).read()?;
        Ok(self.count(read))
    }

    /// The block after the current one.
    fn following(&mut self, number: usize) -> Result<Block> {
        let Self { reader, cache, stats, .. } = self;
        let extent = reader.extent(number);
        if let Some(block) = cache.get(reader.uid(), extent.start) {
            stats.block_hits += 1;
            return Ok(block);
        }
        let mut bytes_read = 0;
        let ahead = match self.ahead.take() {
            Some(ahead) if ahead.holds(&extent) => ahead,
            old => {
                drop(old);
                let start = align_down(extent.start);
                let end = (start + self.window).min(reader.blocks_end()).max(extent.end);
                let bytes = read(&**reader.file(), reader.path(), start..align_up(end))?;
                bytes_read = bytes.len() as u64;
                self.window = (self.window * 2).min(AHEAD_MAX);
                Ahead { start, _charge: cache.pinned(bytes.capacity() as u64), bytes }
            }
        };
        let block = reader.decode(number, &ahead.bytes, extent.start - ahead.start, cache)?;
        self.ahead = Some(ahead);
        stats.block_misses += 1;
        stats.bytes_read += bytes_read;
        cache.missed(reader.uid(), extent.start, bytes_read, &block, self.fill);
        Ok(block)
    }

    /// Whether the cursor is beyond an end of a block, but not of the file.
    fn is_past_block(&self) -> bool {
        self.block.as_ref().is_some_and(|block| !block.valid())
    }

    fn forward(&mut self) -> Result<()> {
        while self.is_past_block() {
            self.enter(self.number + 1, BlockCursor::seek_first)?;
        }
        Ok(())
    }

    fn backward(&mut self) -> Result<()> {
        while self.is_past_block() {
            match self.number.checked_sub(1) {
                Some(before) => self.enter(before, BlockCursor::seek_last)?,
                None => self.block = None,
            }
        }
        Ok(())
    }

    /// Runs a move. After an error the cursor is not valid, and every move returns that error.
    fn sticky(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        run(self).inspect_err(|error| {
            self.block = None;
            self.error = Some(error.clone());
        })
    }

    /// [`Cursor::next`] where the current block has no next entry that can be read.
    #[cold]
    fn next_block(&mut self) -> Result<()> {
        self.sticky(|cursor| {
            match &mut cursor.block {
                Some(block) if block.valid() => {
                    let number = cursor.number;
                    block.next().map_err(|what| cursor.reader.damaged(number, what))?;
                }
                _ => return Ok(()),
            }
            cursor.forward()
        })
    }
}

impl Cursor for SstCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.block.as_ref().is_some_and(BlockCursor::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.here().key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        renumbered(self.here().trailer(), self.reader.global_seq())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.here().value()
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        let here = self.here();
        let trailer = renumbered(here.trailer(), self.reader.global_seq());
        Entry { key: here.key(), trailer, value: here.value() }
    }

    fn value_shared(&self) -> Bytes {
        self.here().value_shared()
    }

    /// Takes the key's block out of the cache, if it is there.
    fn approach(&mut self, key: &[u8]) {
        let Self { reader, cache, .. } = self;
        let number = reader.find(key);
        self.approached = Some(number);
        if number >= reader.block_count() || reader.has_logged() || self.error.is_some() {
            return;
        }
        if let Some(block) = cache.get(reader.uid(), reader.extent(number).start) {
            self.stats.block_hits += 1;
            block.fetch();
            self.begin(number);
            (self.block, self.number) = (Some(BlockCursor::new(block)), number);
        }
    }

    fn seek_first(&mut self) -> Result<()> {
        (self.error, self.approached) = (None, None);
        self.sticky(|cursor| {
            cursor.enter(0, BlockCursor::seek_first)?;
            cursor.forward()
        })
    }

    fn seek_last(&mut self) -> Result<()> {
        (self.error, self.approached) = (None, None);
        self.sticky(|cursor| {
            match cursor.reader.block_count().checked_sub(1) {
                Some(last) => cursor.enter(last, BlockCursor::seek_last)?,
                None => cursor.block = None,
            }
            cursor.backward()
        })
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.error = None;
        let global = self.reader.global_seq().is_some();
        let target = if global { Trailer::FIRST } else { trailer };
        self.sticky(|cursor| {
            let number = cursor.approached.take().unwrap_or_else(|| cursor.reader.find(key));
            cursor.enter(number, |block| block.seek(key, target))?;
            while cursor.is_past_block() && cursor.reader.ends_with(cursor.number, key) {
                cursor.enter(cursor.number + 1, |block| block.seek(key, target))?;
            }
            cursor.forward()
        })?;
        let newer = global && self.valid() && self.key() == key && self.trailer() > trailer;
        if newer { self.next() } else { Ok(()) }
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.seek(key, trailer)?;
        if self.valid() { self.prev() } else { self.seek_last() }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.step() { Ok(()) } else { self.next_block() }
    }

    fn prev(&mut self) -> Result<()> {
        self.sticky(|cursor| {
            match &mut cursor.block {
                Some(block) if block.valid() => {
                    let number = cursor.number;
                    block.prev().map_err(|what| cursor.reader.damaged(number, what))?;
                }
                _ => return Ok(()),
            }
            cursor.backward()
        })
    }
}
