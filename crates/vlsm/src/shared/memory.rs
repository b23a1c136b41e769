//! The ledger of memory under `memory_limit`: it counts each kind of memory, and decides which kind
//! shrinks.
//!
//! All large memory is charged to a gauge for its whole life (`disk/gauge`). The kinds get memory
//! in this order, the kind whose lack costs most first:
//! 1. *Memtables* have five eighths of the limit. When active memtables fill half of this share,
//!    the largest is rotated although it is not full (`write/rotate`). When the share is used up,
//!    writers wait for a flush. Other kinds may use the unused part; blocks allocated ahead are
//!    freed first.
//! 2. Memory that *readers pin* (flushed memtables, blocks evicted from the cache) cannot be
//!    refused. Pins are released: iterators switch to a fresh view (`iter`). Buffers of *jobs*
//!    cannot be refused either. Their sizes are chosen so that the buffers of all concurrent jobs
//!    take about an eighth of the limit (`job`). The mapped parts of *WAL files* (`log/window`)
//!    cannot be refused, but take at most a sixteenth of it.
//! 3. *Indexes and filters* of open SSTs, and of those that jobs write, get the rest, less the
//!    cache's minimum and an eighth of the limit, which the cache can release at once. Beyond that
//!    the coldest are evicted, and files are opened for one use only.
//! 4. The *block cache* gets the remaining memory, at least an eighth of the limit and at most
//!    `cache_limit`.
//!
//! [`Memory::balance`] recomputes the shares 3 and 4. Workers call it between steps, and readers
//! call it after they opened a file. It keeps a small part of the limit free for the growth of
//! memtables until the next call.
//!
//! Not counted: buffers of the WAL, the trees' metadata, and values that the caller copied.
//!
//! Threads and locks: gauges are atomics. A balance uses `try_lock`, except when a job needs room
//! or a file was opened.

use crate::budget::{jobs_share, memtable_share};
use crate::memtable::ArenaGauges;
use crate::options::Options;
use crate::sync::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use vlsm_core::ByteCount;
use vlsm_disk::sst::BlockCache;
use vlsm_disk::{Charge, Condition, Gauge};

/// Memory by kind, as counted under `memory_limit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Memtables that take writes.
    pub active: ByteCount,
    /// Sealed memtables that wait for their flush.
    pub sealed: ByteCount,
    /// Empty memory kept for the next memtables.
    pub spare: ByteCount,
    /// Flushed memtables that readers still hold.
    pub pinned_memtables: ByteCount,
    /// Indexes and filters of open SSTs.
    pub readers: ByteCount,
    /// Blocks in the cache.
    pub cache: ByteCount,
    /// Blocks that only readers still hold.
    pub pinned_blocks: ByteCount,
    /// Buffers of flushes and compactions.
    pub jobs: ByteCount,
    /// The parts of WAL files that are mapped for writing.
    pub wal: ByteCount,
}

impl MemoryStats {
    /// All kinds, with their names for reports.
    #[must_use]
    pub fn kinds(&self) -> [(&'static str, ByteCount); 9] {
        [
            ("active memtables", self.active),
            ("sealed memtables", self.sealed),
            ("spare memtables", self.spare),
            ("pinned memtables", self.pinned_memtables),
            ("indexes and filters", self.readers),
            ("block cache", self.cache),
            ("pinned blocks", self.pinned_blocks),
            ("jobs", self.jobs),
            ("mapped log", self.wal),
        ]
    }

    /// The sum of all kinds.
    #[must_use]
    pub fn total(&self) -> ByteCount {
        self.kinds().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// Memory that cannot be refused: all kinds except readers and cache.
    fn fixed(&self) -> u64 {
        (self.total() - self.readers - self.cache).0
    }

    /// The larger value of each kind.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        Self {
            active: self.active.max(other.active),
            sealed: self.sealed.max(other.sealed),
            spare: self.spare.max(other.spare),
            pinned_memtables: self.pinned_memtables.max(other.pinned_memtables),
            readers: self.readers.max(other.readers),
            cache: self.cache.max(other.cache),
            pinned_blocks: self.pinned_blocks.max(other.pinned_blocks),
            jobs: self.jobs.max(other.jobs),
            wal: self.wal.max(other.wal),
        }
    }
}

/// The peak of memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    pub total: ByteCount,
    /// The peak of each kind, each at its own moment.
    pub kinds: MemoryStats,
}

/// The ledger of one store.
pub(crate) struct Memory {
    limit: u64,
    /// The most memory that the cache may use.
    cache_limit: u64,
    /// Bytes of the blocks allocated ahead for memtables.
    spare: u64,
    pub arenas: ArenaGauges,
    pub readers: Gauge,
    /// Evicted readers that are still pinned. They cannot be evicted again, and do not cause
    /// further evictions.
    pub evicted: Gauge,
    /// Bytes of readers at the last search that found no reader to evict; `u64::MAX` if the last
    /// search found one, or before the first search.
    pub unevictable: AtomicU64,
    pub jobs: Gauge,
    pub wal: Gauge,
    pub cache: Arc<BlockCache>,
    /// The share of readers, as of the last balance.
    reader_share: AtomicU64,
    /// Bytes of all memtables at the last balance, including spare and pinned ones.
    balanced_at: AtomicU64,
    balancing: Mutex<u64>,
    peak: Mutex<Peak>,
    /// Whether an eviction of readers is running.
    pub evicting: AtomicBool,
    /// Whether a balance was requested.
    asked: AtomicBool,
    /// Wakes the workers that balance.
    wake: Arc<dyn Condition>,
}

impl Memory {
    pub fn new(options: &Options, spare: u64, wake: Arc<dyn Condition>) -> Self {
        let limit = options.memory_limit.0;
        assert!(limit > 0, "an open sets the limit (Options::set_memory)");
        let cache_limit = options.cache_limit.map_or(limit, |most| most.0.min(limit));
        let this = Self {
            limit,
            cache_limit,
            spare,
            arenas: ArenaGauges::default(),
            readers: Gauge::default(),
            evicted: Gauge::default(),
            unevictable: AtomicU64::new(u64::MAX),
            jobs: Gauge::default(),
            wal: Gauge::default(),
            cache: Arc::new(BlockCache::new(cache_limit)),
            reader_share: AtomicU64::new(0),
            balanced_at: AtomicU64::new(0),
            balancing: Mutex::new(cache_limit),
            peak: Mutex::default(),
            evicting: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            wake,
        };
        this.balance();
        this
    }

    /// The bound of all kinds together.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The share of the memtables.
    pub fn memtable_share(&self) -> u64 {
        memtable_share(self.limit)
    }

    /// While active memtables use less than this, none is rotated early.
    pub fn active_share(&self) -> u64 {
        self.memtable_share() / 2
    }

    /// Whether the reader of one more file may be kept open.
    pub fn readers_fit(&self) -> bool {
        self.readers.get() + self.evicted.get() < self.reader_share.load(Relaxed)
    }

    /// The target of an eviction of readers: slightly less than their share, so that the next
    /// eviction is not needed at once.
    pub fn readers_target(&self) -> u64 {
        self.reader_share.load(Relaxed) / 8 * 7
    }

    /// Whether the buffers of jobs leave room for one more job.
    pub fn jobs_fit(&self) -> bool {
        self.jobs.get() < jobs_share(self.limit)
    }

    /// Memory by kind: the smaller of two reads. A thread that is preempted while it reads the
    /// gauges may count memory twice if it moves from one gauge to another.
    pub fn stats(&self) -> MemoryStats {
        let (first, second) = (self.read_gauges(), self.read_gauges());
        if first.total() < second.total() { first } else { second }
    }

    fn read_gauges(&self) -> MemoryStats {
        let arenas = &self.arenas;
        // Read before the cache, because the cache shrinks before buffers are charged.
        let jobs = ByteCount(self.jobs.get());
        MemoryStats {
            active: ByteCount(arenas.active.get()),
            sealed: ByteCount(arenas.sealed.get()),
            spare: ByteCount(arenas.spare.get()),
            pinned_memtables: ByteCount(arenas.pinned.get()),
            readers: ByteCount(self.readers.get() + self.evicted.get()),
            cache: ByteCount(self.cache.memory_bytes()),
            pinned_blocks: ByteCount(self.cache.pinned_bytes()),
            jobs,
            wal: ByteCount(self.wal.get()),
        }
    }

    /// The memory held now, and the peak over all calls, including this one.
    pub fn stats_and_peak(&self) -> (MemoryStats, Peak) {
        let now = self.stats();
        self.note_peak(&now);
        (now, *self.peak.lock())
    }

    fn note_peak(&self, now: &MemoryStats) {
        let mut peak = self.peak.lock();
        peak.total = peak.total.max(now.total());
        peak.kinds = peak.kinds.max(now);
    }

    /// Requests a balance when memtables have grown enough since the last one.
    #[inline]
    pub fn note_growth(&self) {
        let arenas = &self.arenas;
        let held = arenas.active.get() + arenas.sealed.get() + arenas.spare.get();
        let before = self.balanced_at.load(Relaxed);
        if held + arenas.pinned.get() > before + self.limit / 64 {
            self.ask();
        }
    }

    /// Shrinks the cache to make room for an opened reader, and requests an eviction if the readers
    /// do not fit.
    pub fn note_reader(&self) {
        // This takes the lock: a balance that runs now may have read the gauges before this reader
        // was counted.
        let is_short = self.balance_with(0, &mut self.balancing.lock());
        if is_short {
            self.ask();
        }
    }

    fn ask(&self) {
        if !self.asked.swap(true, Relaxed) {
            self.wake.notify();
        }
    }

    /// Gives readers and cache the memory that the other kinds leave. Returns true if readers
    /// exceed their share, and have changed since a search found none to evict.
    pub fn balance(&self) -> bool {
        self.asked.store(false, Relaxed);
        let capacity = self.balancing.try_lock();
        capacity.is_some_and(|mut capacity| self.balance_with(0, &mut capacity))
    }

    /// Charges memory that cannot be refused before it is allocated; the cache shrinks first.
    pub fn take_room(&self, held: &mut Charge, bytes: u64) {
        let more = bytes.saturating_sub(held.bytes());
        if more > 0 {
            // The lock is held until the memory is charged, so that no other balance assigns
            // their room.
            let mut capacity = self.balancing.lock();
            let is_short = self.balance_with(more, &mut capacity);
            held.set(bytes);
            drop(capacity);
            if is_short {
                self.ask();
            }
        }
    }

    fn balance_with(&self, coming: u64, capacity: &mut u64) -> bool {
        let now = self.stats();
        self.note_peak(&now);
        let fixed = now.fixed() + coming;
        let memtables = now.active + now.sealed + now.spare + now.pinned_memtables;
        self.balanced_at.store(memtables.0, Relaxed);
        let left = self.limit.saturating_sub(fixed + self.limit / 32);
        let floor = (self.limit / 8).min(self.cache_limit);
        // The cache shrinks at once, a reader only when no view holds it any more. So pinned memory
        // and growth are taken from the cache.
        let margin = self.limit / 8;
        let readers = left.saturating_sub(floor + margin).max(self.limit / 16);
        self.reader_share.store(readers, Relaxed);
        let scarce = &self.arenas.scarce;
        if now.readers.0 > readers {
            scarce.store(true, Relaxed);
        } else if now.readers.0 + self.spare <= readers {
            scarce.store(false, Relaxed);
        }
        let wanted = left.saturating_sub(now.readers.0).clamp(floor, self.cache_limit);
        // Small changes are skipped, because a resize visits every shard of the cache.
        if wanted.abs_diff(*capacity) >= self.limit / 64 {
            self.cache.set_capacity(wanted);
            *capacity = wanted;
        }
        let held = self.readers.get();
        held > readers && held != self.unevictable.load(Relaxed)
    }
}
