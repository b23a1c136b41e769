//! The block cache: uncompressed blocks of SSTs, bounded by the memory that they keep.
//!
//! The key of a block is its file's uid and its offset. So deleted files leave no wrong answers,
//! only entries that age out. When two readers miss the same block at the same time, both read it.
//!
//! Compactions read past the cache. But what they rewrite stays in it: if most entries of a new
//! block come from cached ones, or replace such, the writer puts a copy into the cache, which
//! forgets the old blocks when the new file is installed. Otherwise each compaction would make hot
//! keys cold.
//!
//! Threads and locks: any thread may use the cache. The lock of a shard is held during a lookup or
//! an insertion, never while a file is read.

use super::block::Block;
use super::slots::Slots;
use crate::gauge::{Charge, Gauge};
use bytes::Bytes;
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};
use rustc_hash::FxBuildHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vlsm_core::{FileUid, Striped};

/// Memory of a cache entry besides its block, as measured (docs/performance.md): the entry in the
/// cache's tables, which grow by doubling, the counts of users and of memory, and the rounding of
/// the allocator.
const ENTRY_OVERHEAD: usize = 192;

/// The key of a block: the uid of its file, and its offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place(FileUid, u64);

impl Hash for Place {
    /// The cache picks a shard by low bits of the hash, and those depend on lower bits of the key
    /// only. Where blocks are as long as pages, the lowest bits of an offset that differ are those
    /// of the page, so they come first.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0.wrapping_add(self.1.rotate_right(12)));
    }
}

#[derive(Clone)]
struct ByMemory;

impl Weighter<Place, Block> for ByMemory {
    fn weight(&self, _: &Place, block: &Block) -> u64 {
        (block.weight() + ENTRY_OVERHEAD) as u64
    }
}

/// The memory of a block.
struct Held<T> {
    bytes: T,
    _charge: Charge,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// The counters of a cache since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounters {
    /// Lookups that found their block.
    pub hits: u64,
    /// Blocks that were read from their file.
    pub misses: u64,
    /// Bytes read for these blocks.
    pub miss_bytes: u64,
    /// Blocks that compactions wrote in place of cached ones.
    pub rewrites: u64,
}

/// The block cache: blocks that were read recently.
pub struct BlockCache {
    /// Hashed without a random seed, so that a simulated store evicts the same blocks in each run.
    /// The uids are random.
    blocks: Option<Cache<Place, Block, ByMemory, FxBuildHasher>>,
    /// The memory of all blocks read through the cache that the cache or a reader still holds.
    held: Gauge,
    slots: Slots,
    hits: Striped<AtomicU64>,
    misses: AtomicU64,
    miss_bytes: AtomicU64,
    rewrites: AtomicU64,
}

impl BlockCache {
    /// A cache that keeps at most `capacity` bytes. With 0 it keeps no block.
    ///
    /// # Panics
    /// Never: the options are complete.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let items = usize::try_from(capacity / 4096).unwrap_or(usize::MAX).max(16);
        let blocks = (capacity > 0).then(|| {
            let options = OptionsBuilder::new()
                .estimated_items_capacity(items)
                .weight_capacity(capacity)
                .build()
                .expect("both capacities are given");
            Cache::with_options(options, ByMemory, FxBuildHasher, Default::default())
        });
        let counter = AtomicU64::default;
        let (held, hits) = (Gauge::default(), Striped::default());
        let (misses, miss_bytes, rewrites) = (counter(), counter(), counter());
        let slots = Slots::new(capacity);
        Self { blocks, held, slots, hits, misses, miss_bytes, rewrites }
    }

    pub(crate) fn get(&self, uid: FileUid, offset: u64) -> Option<Block> {
        let found = self.blocks.as_ref()?.get(&Place(uid, offset));
        if found.is_some() {
            self.hits.mine().fetch_add(1, Relaxed);
        }
        found
    }

    /// Counts a block that was read, and keeps it if `fill`.
    pub(crate) fn missed(&self, uid: FileUid, offset: u64, bytes: u64, block: &Block, fill: bool) {
        self.misses.fetch_add(1, Relaxed);
        self.miss_bytes.fetch_add(bytes, Relaxed);
        if let Some(blocks) = self.blocks.as_ref().filter(|_| fill) {
            blocks.insert(Place(uid, offset), block.clone());
        }
    }

    /// Whether it has this block. This is no use of the block.
    pub(crate) fn has(&self, uid: FileUid, offset: u64) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.contains_key(&Place(uid, offset)))
    }

    /// Keeps a new block with this payload, which a compaction wrote in place of cached ones.
    pub(crate) fn rewrote(&self, uid: FileUid, offset: u64, payload: &[u8]) {
        let Some(blocks) = &self.blocks else { return };
        let (copy, weight) = self.copy(payload);
        if let Ok(block) = Block::new(copy, weight) {
            blocks.insert(Place(uid, offset), block);
            self.rewrites.fetch_add(1, Relaxed);
        }
    }

    /// Forgets blocks by their files' uids and their offsets.
    pub fn forget(&self, rewritten: &[(FileUid, u64)]) {
        for (uid, offset) in rewritten {
            self.blocks.as_ref().map(|blocks| blocks.remove(&Place(*uid, *offset)));
        }
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> CacheCounters {
        CacheCounters {
            hits: self.hits.iter().map(|hits| hits.load(Relaxed)).sum(),
            misses: self.misses.load(Relaxed),
            miss_bytes: self.miss_bytes.load(Relaxed),
            rewrites: self.rewrites.load(Relaxed),
        }
    }

    /// Bytes that it keeps now.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.blocks.as_ref().map_or(0, Cache::weight)
    }

    /// Shares the memory of a block, `weight` bytes. The memory is counted as long as the cache or
    /// a reader holds a part of it.
    pub(crate) fn hold<T>(&self, bytes: T, weight: usize) -> Bytes
    where
        T: AsRef<[u8]> + Send + 'static,
    {
        Bytes::from_owner(Held { bytes, _charge: self.held.charge(weight as u64) })
    }

    /// As [`BlockCache::hold`], of a copy. Returns its weight, too.
    pub(crate) fn copy(&self, payload: &[u8]) -> (Bytes, usize) {
        let (copy, weight) = self.slots.copy(payload);
        (self.hold(copy, weight), weight)
    }

    /// Counts memory that a reader holds for blocks that it will need next.
    pub(crate) fn pinned(&self, bytes: u64) -> Charge {
        self.held.charge(bytes)
    }

    /// Bytes of blocks that only readers still hold.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        let kept = self.blocks.as_ref().map_or(0, |blocks| {
            blocks.weight().saturating_sub((blocks.len() * ENTRY_OVERHEAD) as u64)
        });
        self.held.get().saturating_sub(kept)
    }

    /// Changes the capacity. A cache that was created with a capacity of 0 stays off.
    pub fn set_capacity(&self, capacity: u64) {
        if let Some(blocks) = &self.blocks {
            blocks.set_capacity(capacity);
        }
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockCache({} bytes, {:?})", self.memory_bytes(), self.counters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one file, of this length each, as many as fill the cache twice. Returns the part
    /// of the cache that they fill.
    fn filled(len: usize) -> f64 {
        let capacity = 32 << 20;
        let cache = BlockCache::new(capacity);
        let mut raw = vec![0; len];
        // One restart point, and one byte of entries.
        raw[len - 8] = 1;
        raw[len - 4] = 1;
        for n in 0..2 * capacity / len as u64 {
            let block = Block::new(cache.hold(raw.clone(), len), len).expect("a block");
            cache.missed(FileUid(7), n * len as u64, len as u64, &block, true);
        }
        cache.memory_bytes() as f64 / capacity as f64
    }

    #[test]
    fn one_file_fills_the_cache_whatever_the_length_of_its_blocks() {
        for len in [512, 1000, 4096, 4231, 8192, 16_384] {
            let filled = filled(len);
            assert!(filled > 0.95 && filled <= 1.0, "blocks of {len} bytes fill {filled}");
        }
    }
}
