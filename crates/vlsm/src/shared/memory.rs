//! The ledger of memory: who holds how much, and who must give way under `memory_limit`.
//!
//! Everything large is charged to a gauge for as long as it lives (`disk/gauge`). What may be held
//! is decided in this order, because of the prices of doing without:
//! 1. *Memtables* have five eighths of the limit. When active ones fill half of that, the largest
//!    is rotated although it is not full (`write/rotate`); at all of it writers wait for a flush.
//!    What they do not use is free for the others; blocks made ready for the next ones go first.
//! 2. What *readers pin* (flushed memtables, blocks that left the cache) cannot be refused. Pins
//!    are taken back: iterators go over to a fresh view (`iter`). Nor can buffers of *jobs*, which
//!    are made so that those of as many jobs as run at once take about an eighth of the
//!    limit (`job`).
//! 3. *Indexes and filters* of open SSTs have what is left but for what the cache has at least and
//!    an eighth of the limit, which the cache can give up at once. Beyond that the coldest are let
//!    go, and files are opened for one use only.
//! 4. The *block cache* has the rest, an eighth of the limit at least, but no more than
//!    `cache_limit`.
//!
//! [`Memory::balance`] sets 3 and 4 anew; workers call it between steps, and who opened a file. It
//! keeps a small part of the limit free for what memtables grow meanwhile.
//!
//! Not counted: WAL buffers, the tree's metadata, and values that the caller copied.
//!
//! Threads and locks: gauges are atomics; `balance` takes a lock, which is only tried but where a
//! job needs room or a file was opened.

use crate::budget::{jobs_share, memtable_share};
use crate::memtable::ArenaGauges;
use crate::options::Options;
use crate::sync::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use vlsm_core::Bytes;
use vlsm_disk::sst::BlockCache;
use vlsm_disk::{Charge, Condition, Gauge};

/// Memory by kind, as it counts towards `memory_limit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Memtables that take writes.
    pub active: Bytes,
    /// Sealed memtables that wait for their flush.
    pub sealed: Bytes,
    /// Empty memory kept for the next memtables.
    pub spare: Bytes,
    /// Flushed memtables that readers still hold.
    pub pinned_memtables: Bytes,
    /// Indexes and filters of open SSTs.
    pub readers: Bytes,
    /// Blocks in the cache.
    pub cache: Bytes,
    /// Blocks that only readers still hold.
    pub pinned_blocks: Bytes,
    /// Buffers of flushes and compactions.
    pub jobs: Bytes,
}

impl MemoryStats {
    /// Each kind with its name in reports.
    #[must_use]
    pub fn kinds(&self) -> [(&'static str, Bytes); 8] {
        [
            ("active memtables", self.active),
            ("sealed memtables", self.sealed),
            ("spare memtables", self.spare),
            ("pinned memtables", self.pinned_memtables),
            ("indexes and filters", self.readers),
            ("block cache", self.cache),
            ("pinned blocks", self.pinned_blocks),
            ("jobs", self.jobs),
        ]
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.kinds().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// What cannot be refused: all but readers and cache.
    fn fixed(&self) -> u64 {
        (self.total() - self.readers - self.cache).0
    }

    /// The larger one of each kind.
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
        }
    }
}

/// The most that was held.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    pub total: Bytes,
    /// Of each kind by itself.
    pub kinds: MemoryStats,
}

/// The ledger of one store.
pub(crate) struct Memory {
    limit: u64,
    /// The most that the cache takes.
    cache_limit: u64,
    /// What all blocks made ready for memtables take.
    spare: u64,
    pub arenas: ArenaGauges,
    pub readers: Gauge,
    /// Readers that were let go and that somebody still sees. Not to be let go again, so no reason
    /// to let go of others.
    pub evicted: Gauge,
    /// What readers held after a look for cold ones that found none to let go of.
    pub unevictable: AtomicU64,
    pub jobs: Gauge,
    pub cache: Arc<BlockCache>,
    /// What readers may take, as of the last balance.
    reader_share: AtomicU64,
    /// What memtables took at the last balance.
    balanced_at: AtomicU64,
    balancing: Mutex<u64>,
    peak: Mutex<Peak>,
    /// Whether readers are being let go of.
    pub evicting: AtomicBool,
    /// Whether a balance was asked for.
    asked: AtomicBool,
    /// Wakes those who balance.
    wake: Arc<dyn Condition>,
}

impl Memory {
    pub fn new(options: &Options, spare: u64, wake: Arc<dyn Condition>) -> Self {
        let limit = options.memory_limit.0;
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

    /// What memtables may take in all.
    pub fn memtable_share(&self) -> u64 {
        memtable_share(self.limit)
    }

    /// Below this, active memtables are left alone.
    pub fn active_share(&self) -> u64 {
        self.memtable_share() / 2
    }

    /// Whether the reader of one more file may be kept open.
    pub fn readers_fit(&self) -> bool {
        self.readers.get() + self.evicted.get() < self.reader_share.load(Relaxed)
    }

    /// To how much readers shall shrink when they do not fit: a little less than their share, so
    /// that it is not asked again at once.
    pub fn readers_target(&self) -> u64 {
        self.reader_share.load(Relaxed) / 8 * 7
    }

    /// Whether jobs' buffers leave room for those of one more.
    pub fn jobs_fit(&self) -> bool {
        self.jobs.get() < jobs_share(self.limit)
    }

    /// Memory by kind: the smaller one of two looks. Whoever stands still while it reads the gauges
    /// may count twice what goes from one to another meanwhile.
    pub fn stats(&self) -> MemoryStats {
        let (first, second) = (self.read_gauges(), self.read_gauges());
        if first.total() < second.total() { first } else { second }
    }

    fn read_gauges(&self) -> MemoryStats {
        let arenas = &self.arenas;
        // Before the cache, which gives way before buffers are counted.
        let jobs = Bytes(self.jobs.get());
        MemoryStats {
            active: Bytes(arenas.active.get()),
            sealed: Bytes(arenas.sealed.get()),
            spare: Bytes(arenas.spare.get()),
            pinned_memtables: Bytes(arenas.pinned.get()),
            readers: Bytes(self.readers.get() + self.evicted.get()),
            cache: Bytes(self.cache.memory_bytes()),
            pinned_blocks: Bytes(self.cache.pinned_bytes()),
            jobs,
        }
    }

    /// What is held now, and the most that was held as far as somebody looked, now included.
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

    /// Asks for a balance when so much was taken since the last one that it matters.
    #[inline]
    pub fn note_growth(&self) {
        let arenas = &self.arenas;
        let held = arenas.active.get() + arenas.sealed.get() + arenas.spare.get();
        let before = self.balanced_at.load(Relaxed);
        if held + arenas.pinned.get() > before + self.limit / 64 {
            self.ask();
        }
    }

    /// Has the cache give way to a reader that was opened, and others to be let go where it does
    /// not fit.
    pub fn note_reader(&self) {
        // Not only tried: whoever balances just now may have looked before this reader was counted.
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

    /// Gives readers and cache what the others leave. True when readers hold more than that, and
    /// something changed since none could be let go of: the look for them wakes those who ask here.
    pub fn balance(&self) -> bool {
        self.asked.store(false, Relaxed);
        let capacity = self.balancing.try_lock();
        capacity.is_some_and(|mut capacity| self.balance_with(0, &mut capacity))
    }

    /// Counts the buffers of a job, before they are made; the cache gives way first.
    pub fn take_buffers(&self, held: &mut Charge, bytes: u64) {
        let more = bytes.saturating_sub(held.bytes());
        if more > 0 {
            // Nobody sees the room and not yet what it is for.
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
        // The cache gives way at once, a reader only when nobody sees it any more: what is pinned
        // or grows meanwhile comes out of the cache.
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
        // Not for every little, because it looks at every shard of the cache.
        if wanted.abs_diff(*capacity) >= self.limit / 64 {
            self.cache.set_capacity(wanted);
            *capacity = wanted;
        }
        let held = self.readers.get();
        held > readers && held != self.unevictable.load(Relaxed)
    }
}
