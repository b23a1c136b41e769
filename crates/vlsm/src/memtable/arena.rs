//! The memory of memtables: one block each, charged as it is used, pooled and reused.
//!
//! A fresh block costs a page fault for every 4 KiB, which a writer would pay in the middle of its
//! write. So a tree that fills its memtables gets blocks that were faulted in beforehand. The pool
//! makes none until a tree has filled a memtable and asks for one. That first request gets none, so
//! a store that is little used takes no memory for them:
//!
//! 1. [`ArenaPool::take_spare`] returns a block from the shelf; all of it is charged.
//! 2. A new tree, or an empty shelf, uses [`ArenaPool::take`]: a block that takes memory, and is
//!    charged, only as far as it is written. So hundreds of trees with a little data each cost a
//!    little each.
//! 3. The arena lives in the memtable. Readers, jobs and iterators may hold that for long. Its
//!    charge moves from gauge to gauge: active, sealed, pinned ([`Arena::move_to`]).
//! 4. The last drop pushes a pooled block back, unless the shelf is full; others are freed.
//!
//! Invariant: the shelf holds at most `spare` blocks, all of the standard size and faulted in, and
//! nothing when memtables take more than `budget` already, or others need the memory
//! ([`ArenaGauges::scarce`]). Memory is charged for before it is there and until it is gone.
//! Threads and locks: any thread; the shelf's lock is held for a push or a pop only.

use super::block::Block;
use crate::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Weak};
use vlsm_disk::{Charge, Gauge};

/// The gauges that the memory of memtables is charged to, by the state of the memtable.
#[derive(Debug, Clone, Default)]
pub struct ArenaGauges {
    /// Memtables that take writes.
    pub active: Gauge,
    /// Memtables that wait for their flush.
    pub sealed: Gauge,
    /// Memtables that are in no tree: flushed ones that readers or jobs still hold, and those of
    /// large batches that are not committed yet.
    pub pinned: Gauge,
    /// Blocks on the shelf.
    pub spare: Gauge,
    /// Whether the shelf must stay empty, because others need the memory.
    pub scarce: Arc<AtomicBool>,
}

impl ArenaGauges {
    /// Bytes of active and sealed memtables and of spare blocks. Pinned memtables are left out.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.active.get() + self.sealed.get() + self.spare.get()
    }
}

/// Blocks of memory for memtables, used again and again. Cheap to clone.
#[derive(Clone)]
pub struct ArenaPool {
    shelf: Arc<Shelf>,
}

struct Shelf {
    /// The standard size of a block in bytes.
    bytes: usize,
    /// The most unused blocks that are kept.
    spare: usize,
    /// The most memory of memtables, in bytes, at which unused blocks are kept.
    budget: u64,
    gauges: ArenaGauges,
    blocks: Mutex<Vec<(Block, Charge)>>,
    /// Whether a thread is making blocks.
    filling: AtomicBool,
    /// Whether a block has been asked for. The shelf stays empty before.
    asked: AtomicBool,
}

impl ArenaPool {
    /// A pool of blocks of `bytes`, at least what one memtable needs, that keeps up to `spare`
    /// unused ones while all memory of memtables is within `budget`.
    #[must_use]
    pub fn new(bytes: usize, spare: usize, budget: u64, gauges: ArenaGauges) -> Self {
        let blocks = Mutex::new(Vec::with_capacity(spare));
        let [filling, asked] = [false; 2].map(AtomicBool::new);
        Self { shelf: Arc::new(Shelf { bytes, spare, budget, gauges, blocks, filling, asked }) }
    }

    /// Makes blocks until the shelf is full, so that the next [`ArenaPool::take_spare`] finds one.
    /// `charge` makes others give memory back and then charges for a block. It is allocated last,
    /// and only if nobody needs the memory more.
    pub fn fill(&self, charge: impl Fn(&mut Charge, u64)) {
        if self.shelf.filling.swap(true, AcqRel) {
            return;
        }
        while self.shelf.has_room() {
            let mut charged = self.shelf.gauges.spare.charge(0);
            charge(&mut charged, self.shelf.bytes as u64);
            if !self.shelf.allows(0) {
                break;
            }
            let block = Block::new(self.shelf.bytes);
            self.shelf.blocks.lock().push((block, charged));
        }
        self.shelf.filling.store(false, Release);
    }

    /// Whether a block more should be kept, and no thread is making one.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        !self.shelf.filling.load(Acquire) && self.shelf.has_room()
    }

    /// Frees a block that should not be kept any more; true when there was one.
    pub fn trim(&self) -> bool {
        if self.shelf.allows(0) {
            return false;
        }
        let block = self.shelf.blocks.lock().pop();
        block.is_some()
    }

    /// An arena of at least `bytes`, the standard size if that is more, which takes memory as it is
    /// filled.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Arena {
        let block = Block::lazy(bytes.max(self.shelf.bytes));
        // A small block may have been cleared and so be in memory already.
        let charged = if block.is_faulted() { block.len() as u64 } else { 0 };
        self.arena(block, self.shelf.gauges.active.charge(charged))
    }

    /// A block of the standard size, faulted in, if there is one and active memtables have room for
    /// it up to `active_max` bytes.
    #[must_use]
    pub fn take_spare(&self, active_max: u64) -> Option<Arena> {
        self.shelf.asked.store(true, Relaxed);
        if self.shelf.gauges.active.get() + self.shelf.bytes as u64 > active_max {
            return None;
        }
        let (block, mut charge) = self.shelf.blocks.lock().pop()?;
        charge.move_to(&self.shelf.gauges.active);
        Some(self.arena(block, charge))
    }

    /// An arena of exactly `bytes` for a memtable that is filled before it belongs to a tree.
    #[must_use]
    pub fn take_exactly(&self, bytes: usize) -> Arena {
        let charge = self.shelf.gauges.pinned.charge(bytes as u64);
        self.arena(Block::lazy(bytes), charge)
    }

    fn arena(&self, block: Block, charge: Charge) -> Arena {
        let held = Some((block, Mutex::new(charge)));
        Arena { held, shelf: Arc::downgrade(&self.shelf) }
    }

    /// The number of unused blocks that it holds.
    #[must_use]
    pub fn spare_blocks(&self) -> usize {
        self.shelf.blocks.lock().len()
    }

    /// The standard size of a block in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.shelf.bytes
    }
}

impl Shelf {
    /// Whether there is room for a block more.
    fn has_room(&self) -> bool {
        self.asked.load(Relaxed) && self.blocks.lock().len() < self.spare && self.allows(self.bytes)
    }

    /// Whether memtables leave room for `bytes` more. Pinned ones count: most come back at once.
    fn allows(&self, bytes: usize) -> bool {
        let held = self.gauges.in_use() + self.gauges.pinned.get();
        !self.gauges.scarce.load(Relaxed) && held + bytes as u64 <= self.budget
    }

    /// Keeps the block, or frees it when the shelf is full.
    fn put(&self, block: Block, mut charge: Charge) {
        let fits = block.len() == self.bytes && block.is_faulted();
        let refused = {
            let mut blocks = self.blocks.lock();
            if fits && blocks.len() < self.spare && self.allows(0) {
                charge.move_to(&self.gauges.spare);
                blocks.push((block, charge));
                None
            } else {
                Some((block, charge))
            }
        };
        drop(refused);
    }
}

/// The memory of one memtable.
pub struct Arena {
    /// Some until the drop.
    held: Option<(Block, Mutex<Charge>)>,
    shelf: Weak<Shelf>,
}

impl Arena {
    /// An arena outside of all pools, whose memory is in no gauge of theirs.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let charge = Gauge::default().charge(bytes as u64);
        Self { held: Some((Block::new(bytes), Mutex::new(charge))), shelf: Weak::new() }
    }

    fn held(&self) -> &(Block, Mutex<Charge>) {
        self.held.as_ref().expect("only the drop takes the block")
    }

    /// The block, which stays where it is for the arena's life.
    pub(super) fn block(&self) -> &Block {
        &self.held().0
    }

    /// The bytes that it is charged with.
    pub(super) fn charged(&self) -> usize {
        self.held().1.lock().bytes() as usize
    }

    /// Charges this many bytes for it.
    pub(super) fn charge(&self, bytes: usize) {
        self.held().1.lock().set(bytes as u64);
    }

    /// Charges another gauge of its pool for it from here on.
    pub(super) fn move_to(&self, gauge: impl FnOnce(&ArenaGauges) -> &Gauge) {
        if let Some(shelf) = self.shelf.upgrade() {
            self.held().1.lock().move_to(gauge(&shelf.gauges));
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let (Some(shelf), Some((block, charge))) = (self.shelf.upgrade(), self.held.take()) {
            shelf.put(block, charge.into_inner());
        }
    }
}
