//! Memory for the blocks of the cache: slots of one length, cut from large pieces.
//!
//! Threads of clients and of jobs put blocks into the cache, which drops them in an order of its
//! own. Memory that the allocator keeps for each of these threads would then be free where nobody
//! needs it. A slot is free for all.
//!
//! A block that is longer than a slot, or much shorter, has memory of the allocator. Free
//! slots take at most the bytes of the cache's capacity. Readers may hold far more blocks than the
//! cache, such as all values of a long scan; when they drop them, the slots beyond this bound are
//! dropped, too, and a piece goes back to the allocator with its last slot. A lower bound costs
//! memory: slots that are dropped one by one are lost while their pieces are in use.
//!
//! Threads and locks: any thread; the lock is held for a push or a pop, or to cut a new piece. A
//! block may be dropped under the lock of a shard of the cache, so no other lock is taken under
//! this one.

use bytes::BytesMut;
use parking_lot::Mutex;
use std::sync::Arc;

/// The length of a slot: a block of 4096 bytes with its trailer, or a little less.
const SLOT: usize = 4096;
/// The least length of bytes that take a slot.
const LEAST: usize = SLOT - SLOT / 8;
/// The length of a piece.
const PIECE: usize = 256 << 10;

/// The free slots. Clones are the same.
#[derive(Clone)]
pub(super) struct Slots(Arc<Free>);

struct Free {
    slots: Mutex<Vec<BytesMut>>,
    /// The most slots that are kept.
    most: usize,
}

/// Bytes in a slot, or in memory of the allocator.
pub(super) enum Slot {
    Own(Box<[u8]>),
    Cut(BytesMut, Slots),
}

impl Slots {
    /// For a cache of this capacity in bytes.
    pub(super) fn new(capacity: u64) -> Self {
        let most = usize::try_from(capacity).unwrap_or(usize::MAX).max(PIECE) / SLOT;
        Self(Arc::new(Free { slots: Mutex::default(), most }))
    }

    /// A copy of these bytes, and the bytes of memory that it takes.
    pub(super) fn copy(&self, bytes: &[u8]) -> (Slot, usize) {
        if !(LEAST..=SLOT).contains(&bytes.len()) {
            return (Slot::Own(bytes.into()), bytes.len());
        }
        let mut slot = self.take();
        slot.extend_from_slice(bytes);
        (Slot::Cut(slot, self.clone()), SLOT)
    }

    fn take(&self) -> BytesMut {
        let mut free = self.0.slots.lock();
        free.pop().unwrap_or_else(|| {
            let mut piece = BytesMut::with_capacity(PIECE);
            while piece.capacity() >= 2 * SLOT {
                free.push(piece.split_off(piece.capacity() - SLOT));
            }
            piece
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Self::Cut(bytes, home) = self {
            bytes.clear();
            let mut free = home.0.slots.lock();
            if free.len() < home.0.most {
                free.push(std::mem::take(bytes));
            }
        }
    }
}

impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Cut(bytes, _) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_slot_is_used_again() {
        let slots = Slots::new(4 << 20);
        let fill = |byte: u8| (0..100).map(|_| slots.copy(&[byte; SLOT - 5]).0).collect::<Vec<_>>();
        let first = fill(1);
        let free = slots.0.slots.lock().len();
        assert_eq!(first.len() + free, 2 * PIECE / SLOT, "two pieces are cut");
        assert!(first.iter().all(|slot| *slot.as_ref() == [1; SLOT - 5]));
        drop(first);
        let second = fill(2);
        assert_eq!(slots.0.slots.lock().len(), free);
        assert!(second.iter().all(|slot| *slot.as_ref() == [2; SLOT - 5]));
    }

    #[test]
    fn few_free_slots_are_kept() {
        let slots = Slots::new(8 << 20);
        let many: Vec<_> = (0..10_000).map(|_| slots.copy(&[7; SLOT]).0).collect();
        drop(many);
        assert_eq!(slots.0.slots.lock().len(), (8 << 20) / SLOT);
    }

    #[test]
    fn long_and_short_blocks_have_memory_of_their_own() {
        let slots = Slots::new(0);
        for (len, weight) in [(0, 0), (LEAST - 1, LEAST - 1), (LEAST, SLOT), (SLOT, SLOT)] {
            let (slot, taken) = slots.copy(&vec![7; len]);
            assert_eq!((slot.as_ref(), taken), (&vec![7; len][..], weight));
        }
        let (slot, taken) = slots.copy(&[7; SLOT + 1]);
        assert_eq!((slot.as_ref().len(), taken), (SLOT + 1, SLOT + 1));
    }
}
