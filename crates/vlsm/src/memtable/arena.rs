//! The memory of memtables: one block each, faulted in ahead, pooled and used again.
//!
//! A fresh block costs a page fault for every 4 KiB, which a writer would pay in the middle of its
//! write. So a memtable's last drop does not free its block but puts it on the pool's shelf:
//!
//! 1. [`ArenaPool::take`] hands out a block from the shelf, or makes one (and faults it in).
//! 2. The arena lives in the memtable. Readers, jobs and iterators may hold that for long.
//! 3. The last drop pushes the block back, unless the shelf is full or the block has a special
//!    size.
//!
//! Invariant: the shelf holds at most `spare` blocks, all of the standard size.
//! Threads and locks: any thread; the shelf's lock is held for a push or a pop only.

use super::skiplist::Block;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Blocks of memory for memtables, used again and again. Cheap to clone.
#[derive(Clone)]
pub struct ArenaPool {
    shelf: Arc<Shelf>,
}

struct Shelf {
    /// The standard size of a block in bytes.
    bytes: usize,
    /// How many unused blocks are kept.
    spare: usize,
    blocks: Mutex<Vec<Block>>,
}

impl ArenaPool {
    /// A pool of blocks of `bytes`, at least what one memtable needs, that keeps up to `spare`
    /// unused ones.
    #[must_use]
    pub fn new(bytes: usize, spare: usize) -> Self {
        let blocks = Mutex::new(Vec::with_capacity(spare));
        Self { shelf: Arc::new(Shelf { bytes, spare, blocks }) }
    }

    /// Makes blocks until the shelf is full, so that the next [`ArenaPool::take`] is instant.
    pub fn fill(&self) {
        while self.spare_blocks() < self.shelf.spare {
            self.shelf.put(Block::new(self.shelf.bytes));
        }
    }

    /// An arena of at least `bytes`. One larger than the standard size is made for the occasion,
    /// and freed on drop.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Arena {
        let block = if bytes > self.shelf.bytes {
            Block::new(bytes)
        } else {
            let shelved = self.shelf.blocks.lock().pop();
            shelved.unwrap_or_else(|| Block::new(self.shelf.bytes))
        };
        Arena { block: Some(block), shelf: Arc::downgrade(&self.shelf) }
    }

    /// How many unused blocks it holds.
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
    /// Keeps the block, or frees it when the shelf is full.
    fn put(&self, block: Block) {
        let refused = {
            let mut blocks = self.blocks.lock();
            if blocks.len() < self.spare && block.len() == self.bytes {
                blocks.push(block);
                None
            } else {
                Some(block)
            }
        };
        drop(refused);
    }
}

/// The memory of one memtable.
pub struct Arena {
    /// Some until the drop.
    block: Option<Block>,
    shelf: Weak<Shelf>,
}

impl Arena {
    /// An arena that belongs to no pool.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { block: Some(Block::new(bytes)), shelf: Weak::new() }
    }

    /// The block, which stays where it is for the arena's life.
    pub(super) fn block(&self) -> &Block {
        self.block.as_ref().expect("only the drop takes the block")
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let (Some(shelf), Some(block)) = (self.shelf.upgrade(), self.block.take()) {
            shelf.put(block);
        }
    }
}
