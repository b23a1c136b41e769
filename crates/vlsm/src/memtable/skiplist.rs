//! A skip list in one block of memory: many threads insert at once, nothing is ever deleted.
//!
//! An entry is one piece of the block, its tower growing downwards from the node so that the lowest
//! link, the lengths, the trailer and the first bytes of the key share a cache line:
//!
//! ```text
//!        … link 1 | link 0 | key_len u32 | value_len u32 | trailer u64 | key, padded to 8 | value
//!                          ^ the node: its offset ÷ 8 in 32 bits (a block is at most 32 GiB)
//! ```
//!
//! Insert:
//! 1. `reserve` claims the exact space of a batch by moving the block's end. The sequence number
//!    determines the height of an entry's tower, so the size is known before.
//! 2. `insert` copies lengths, trailer, key and value into the reserved space, which no one else
//!    sees yet.
//! 3. It searches from the top level down and notes, per level, the nodes before and after. Most
//!    comparisons look at the first eight bytes of the key as one number, or at the next eight. A
//!    node met again one level lower is not compared again.
//! 4. From level 0 up it sets the node's link and swings the link of the node before by
//!    compare-and-swap (release). If another writer was faster, it tries again from there.
//!
//! The last 128th of a block is for the words of a filter over the keys (`filter`).
//!
//! Readers follow links (acquire) and never wait.
//!
//! Invariants: each level is sorted in tree order and holds a subset of the level below; no two
//! entries have the same key and trailer; a node's bytes do not change once it is linked; link 0
//! means "end", which no node is, because the head lies first in the block.
//!
//! Unsafe, for raw memory shared by threads, rests on four facts: the block is initialised and
//! stays put; reservations are disjoint; a node is complete before a release link shows it; the
//! words of the filter lie behind `capacity`, where no entry goes. Miri checks the tests:
//! `cargo +nightly miri test -p vlsm skiplist`. Source: Pugh, "Skip lists" (1990), and the arena
//! skip lists of LevelDB and RocksDB.
#![allow(unsafe_code)]

use super::arena::Arena;
use std::cmp::Ordering as Order;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use vlsm_core::key::{self, Seq, Trailer};

/// The largest tower. With one node in four going a level higher this serves 4¹² entries.
pub const MAX_HEIGHT: usize = 12;
/// The lengths and the trailer.
const HEADER: usize = 16;
/// The head's tower and an empty entry.
const HEAD_BYTES: usize = MAX_HEIGHT * 4 + HEADER + 8;
/// The head's node.
const HEAD: u32 = (MAX_HEIGHT * 4 / 8) as u32;
/// No node.
const END: u32 = 0;
/// The bytes of a block for which its filter has one word.
const FILTER_STEP: usize = 1024;
/// The bytes of a line of the processor's cache.
const LINE: usize = 64;
/// The most bytes of a node that are fetched ahead. The processor notices longer reads by itself.
const FETCHED_MAX: usize = 1024;
/// The least step in which the charge for a block grows: a page.
const CHARGE_STEP: usize = 4096;

/// The bytes at the end of a block of `len` bytes that its filter takes.
const fn filter_bytes(len: usize) -> usize {
    len / FILTER_STEP * 8
}

/// The number of levels of the tower of the entry with this sequence number.
#[must_use]
#[inline]
pub fn height(seq: Seq) -> usize {
    // The finaliser of splitmix64: neighbouring numbers give unrelated bits.
    let mut z = seq.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (1 + (z ^ (z >> 31)).trailing_zeros() as usize / 2).min(MAX_HEIGHT)
}

/// The bytes of an entry without its tower.
#[must_use]
#[inline]
pub fn body_size(key_len: usize, value_len: usize) -> usize {
    (HEADER + key_len.max(8) + value_len).next_multiple_of(8)
}

/// The bytes of the tower of the entry with this sequence number.
#[must_use]
#[inline]
pub fn tower_size(seq: Seq) -> usize {
    (height(seq) * 4).next_multiple_of(8)
}

/// Space in one list, claimed for entries to come. Space that is not used stays empty.
#[derive(Debug)]
pub struct Reservation {
    /// The id of the list that the space belongs to.
    list: u64,
    offset: usize,
    end: usize,
}

impl Reservation {
    /// The bytes that are still free.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.end - self.offset
    }

    /// Splits off the first `bytes` as a reservation of their own, for another thread.
    ///
    /// # Panics
    /// When less than that is free, or `bytes` is not a multiple of eight.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        assert!(bytes.is_multiple_of(8) && bytes <= self.remaining(), "no entries of that size");
        let first = Self { list: self.list, offset: self.offset, end: self.offset + bytes };
        self.offset += bytes;
        first
    }
}

/// The position that a search looks for, with the key's first and second eight bytes as numbers.
#[derive(Clone, Copy)]
struct Target<'a> {
    prefix: u64,
    second: Option<u64>,
    key: &'a [u8],
    trailer: Trailer,
}

impl<'a> Target<'a> {
    #[inline]
    fn new(key: &'a [u8], trailer: Trailer) -> Self {
        let second = key.get(8..16).map(key::prefix);
        Self { prefix: key::prefix(key), second, key, trailer }
    }
}

/// A node of one list: only valid with the list that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node(u32);

/// The list. See the head of this file.
pub struct SkipList {
    base: NonNull<u8>,
    /// Distinguishes lists, so that no reservation is used on another one.
    id: u64,
    /// The end of the entries. The filter's words lie there.
    capacity: usize,
    /// The number of words of the filter.
    filter_len: usize,
    /// Bytes of the block, from its start, that are charged for.
    charged: AtomicUsize,
    /// The number of levels in use.
    height: AtomicUsize,
    end: Padded<AtomicUsize>,
    /// Owns the memory of `base`.
    arena: Arena,
}

/// Keeps what writers change all the time away from what searches read.
#[repr(align(128))]
pub struct Padded<T>(pub T);

// SAFETY: the list owns its arena; entries are written by the owner of their reservation before a
// release store shows them, and not changed after; links and counters are atomics.
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

impl Drop for SkipList {
    /// Clears the filter, because another list may use the block.
    fn drop(&mut self) {
        self.filter().iter().for_each(|word| word.store(0, Relaxed));
    }
}

impl SkipList {
    /// An empty list in an arena.
    ///
    /// # Panics
    /// When the arena is too small to hold even an empty list.
    #[must_use]
    pub fn new(arena: Arena) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let block = arena.block();
        assert!(block.len() >= HEAD_BYTES, "an arena of {} bytes", block.len());
        let capacity = (block.len() & !7) - filter_bytes(block.len());
        // In a block that takes memory as it is written, a few keys would touch most pages of it.
        let filter_len = if block.is_faulted() { filter_bytes(block.len()) / 8 } else { 0 };
        let list = Self {
            base: block.base(),
            id: NEXT_ID.fetch_add(1, Relaxed),
            capacity,
            filter_len,
            charged: AtomicUsize::new(arena.charged()),
            height: AtomicUsize::new(1),
            end: Padded(AtomicUsize::new(HEAD_BYTES)),
            arena,
        };
        for level in 0..MAX_HEIGHT {
            list.link(HEAD, level).store(END, Relaxed);
        }
        list
    }

    /// The bytes of an empty list.
    #[must_use]
    pub const fn overhead() -> usize {
        HEAD_BYTES
    }

    /// The arena that entries of `bytes` in all need, with the head and the filter.
    #[must_use]
    pub const fn arena_bytes(bytes: usize) -> usize {
        let used = bytes.saturating_add(HEAD_BYTES);
        used.saturating_add(used / (FILTER_STEP - 8) * 8)
    }

    /// The words of the filter; none if the block has no memory for them.
    #[inline]
    pub fn filter(&self) -> &[AtomicU64] {
        // SAFETY: so many words lie in the block from `capacity` on, which is a multiple of eight
        // like `base`. They are initialised, no entry reaches there, and they are used only as
        // atomics while the list lives.
        unsafe {
            let words = self.base.as_ptr().add(self.capacity).cast::<AtomicU64>();
            std::slice::from_raw_parts(words, self.filter_len)
        }
    }

    /// The bytes in use, reserved ones included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.end.0.load(Relaxed) - HEAD_BYTES
    }

    /// Returns the end of the list with `bytes` more; none if [`SkipList::reserve`] would find no
    /// space.
    #[inline]
    fn end_with(&self, bytes: usize) -> Option<usize> {
        let end = self.end.0.load(Relaxed).checked_add(bytes)?.checked_next_multiple_of(8)?;
        (end <= self.capacity).then_some(end)
    }

    /// Whether there is space for `bytes` that is charged for already.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.end_with(bytes).is_some_and(|end| end <= self.charged.load(Relaxed))
    }

    /// The charge that `bytes` more would lead to, a step ahead of what is used; none when there is
    /// no space.
    pub fn charge_with(&self, bytes: usize) -> Option<usize> {
        let (end, charged) = (self.end_with(bytes)?, self.charged.load(Relaxed));
        if end <= charged {
            return Some(charged);
        }
        Some((charged + (charged / 8).max(CHARGE_STEP)).max(end).min(self.capacity))
    }

    /// Charges for the block up to here.
    pub fn charge(&self, bytes: usize) {
        self.arena.charge(bytes);
        self.charged.store(bytes, Relaxed);
    }

    /// The charge for the block.
    pub fn charged(&self) -> usize {
        self.charged.load(Relaxed)
    }

    /// The arena.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The bytes that entries may take in all.
    pub fn capacity(&self) -> usize {
        self.capacity - HEAD_BYTES
    }

    /// Claims space for entries of `bytes` in all (the sum of [`body_size`] and [`tower_size`]), or
    /// None when the block has not that much left.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut offset = self.end.0.load(Relaxed);
        loop {
            let end = offset.checked_add(bytes)?.checked_next_multiple_of(8)?;
            if end > self.capacity {
                return None;
            }
            match self.end.0.compare_exchange_weak(offset, end, Relaxed, Relaxed) {
                Ok(_) => return Some(Reservation { list: self.id, offset, end }),
                Err(other) => offset = other,
            }
        }
    }

    /// Adds an entry in reserved space. Its key and trailer together must be new to the list.
    ///
    /// # Panics
    /// When the reservation is another list's or has no room for the entry.
    pub fn insert(&self, space: &mut Reservation, key: &[u8], trailer: Trailer, value: &[u8]) {
        let height = height(trailer.seq());
        let tower = (height * 4).next_multiple_of(8);
        let size = tower + body_size(key.len(), value.len());
        assert!(space.list == self.id && size <= space.remaining(), "entry was not reserved");
        let node = ((space.offset + tower) / 8) as u32;
        space.offset += size;
        self.write(node, key, trailer, value);

        let target = Target::new(key, trailer);
        let mut splice = [(HEAD, END); MAX_HEIGHT];
        self.find(&target, &mut splice);
        if height > self.height.load(Relaxed) {
            self.height.fetch_max(height, Relaxed);
        }
        for (level, &(mut before, mut after)) in splice[..height].iter().enumerate() {
            loop {
                self.link(node, level).store(after, Relaxed);
                let link = self.link(before, level);
                if link.compare_exchange(after, node, Release, Relaxed).is_ok() {
                    break;
                }
                (before, after) = self.walk(before, level, END, &target);
            }
        }
    }

    /// Copies an entry to its place.
    #[inline]
    fn write(&self, node: u32, key: &[u8], trailer: Trailer, value: &[u8]) {
        let at = self.at(node);
        // SAFETY: the caller owns the reserved space of the entry, `body_size` bytes from `at`,
        // which lies in the block and is aligned to eight; no other thread reads it before it is
        // linked.
        unsafe {
            at.cast::<u32>().write(key.len() as u32);
            at.add(4).cast::<u32>().write(value.len() as u32);
            at.add(8).cast::<u64>().write(trailer.0);
            let body = at.add(HEADER);
            if key.len() < 8 {
                body.cast::<u64>().write(0);
            }
            body.copy_from_nonoverlapping(key.as_ptr(), key.len());
            body.add(key.len().max(8)).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
    }

    /// Finds for every level in use the nodes before and after the target.
    #[inline]
    fn find(&self, target: &Target<'_>, splice: &mut [(u32, u32); MAX_HEIGHT]) {
        let (mut before, mut after) = (HEAD, END);
        for level in (0..self.height.load(Relaxed)).rev() {
            (before, after) = self.walk(before, level, after, target);
            splice[level] = (before, after);
        }
    }

    /// The last node before the target and the first one at or after it.
    #[inline]
    fn neighbours(&self, target: &Target<'_>) -> (u32, u32) {
        let (mut before, mut after) = (HEAD, END);
        for level in (0..self.height.load(Relaxed)).rev() {
            (before, after) = self.walk(before, level, after, target);
        }
        (before, after)
    }

    /// Walks right on one level: the last node before the target and the one after it. `bound` is a
    /// node known not to be before the target.
    #[inline(always)]
    fn walk(&self, mut before: u32, level: usize, bound: u32, target: &Target<'_>) -> (u32, u32) {
        loop {
            let after = self.link(before, level).load(Acquire);
            if level > 0 {
                self.prefetch(self.link(before, level - 1).load(Relaxed));
            }
            if after == bound || after == END || !self.is_before(after, target) {
                return (before, after);
            }
            before = after;
        }
    }

    /// Whether a node comes before the target in tree order.
    #[inline(always)]
    fn is_before(&self, node: u32, target: &Target<'_>) -> bool {
        // SAFETY: a linked node has at least eight initialised bytes of key, aligned to eight.
        let head = unsafe { self.at(node).add(HEADER).cast::<u64>().read() };
        let prefix = u64::from_be(head);
        if prefix != target.prefix {
            return prefix < target.prefix;
        }
        let key = self.key_of(node);
        match key.get(8..16).map(key::prefix).zip(target.second) {
            Some((second, wanted)) if second != wanted => second < wanted,
            _ => match key.cmp(target.key) {
                Order::Less => true,
                Order::Equal => self.trailer_of(node).0 > target.trailer.0,
                Order::Greater => false,
            },
        }
    }

    /// Tells the processor that the bytes of a node from `from` on may be looked at soon.
    #[inline]
    fn prefetch_from(&self, node: u32, from: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: every x86-64 processor has the instruction, and it faults on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.at(node).wrapping_add(from).cast());
        }
        let _ = (node, from);
    }

    /// Tells the processor that a node may be looked at soon.
    #[inline]
    fn prefetch(&self, node: u32) {
        self.prefetch_from(node, 0);
    }

    #[inline]
    fn at(&self, node: u32) -> *mut u8 {
        // SAFETY: nodes come from `insert` and from links, and so lie in the block.
        unsafe { self.base.as_ptr().add(node as usize * 8) }
    }

    #[inline]
    fn link(&self, node: u32, level: usize) -> &AtomicU32 {
        // SAFETY: a node met on a level, or being put there, has a link for it just below; links
        // are aligned to four and only ever used as atomics while the list lives.
        unsafe { &*self.at(node).sub(4 * (level + 1)).cast::<AtomicU32>() }
    }

    #[inline]
    fn lengths(&self, node: u32) -> (usize, usize) {
        let at = self.at(node).cast::<u32>();
        // SAFETY: a linked node starts with its two lengths.
        unsafe { (at.read() as usize, at.add(1).read() as usize) }
    }

    #[inline]
    fn key_of(&self, node: u32) -> &[u8] {
        let (key_len, _) = self.lengths(node);
        // SAFETY: a linked node has these bytes and they do not change while the list lives.
        unsafe { std::slice::from_raw_parts(self.at(node).add(HEADER), key_len) }
    }

    #[inline]
    fn trailer_of(&self, node: u32) -> Trailer {
        // SAFETY: as for the lengths.
        Trailer(unsafe { self.at(node).add(8).cast::<u64>().read() })
    }

    /// The user key of a node.
    #[must_use]
    #[inline]
    pub fn key(&self, node: Node) -> &[u8] {
        self.key_of(node.0)
    }

    /// The trailer of a node.
    #[must_use]
    #[inline]
    pub fn trailer(&self, node: Node) -> Trailer {
        self.trailer_of(node.0)
    }

    /// The value of a node.
    #[must_use]
    #[inline]
    pub fn value(&self, node: Node) -> &[u8] {
        let (key_len, value_len) = self.lengths(node.0);
        // SAFETY: as for the key; the value lies behind the padded key.
        unsafe {
            let start = self.at(node.0).add(HEADER + key_len.max(8));
            std::slice::from_raw_parts(start, value_len)
        }
    }

    /// The first entry at or after `(key, trailer)`.
    #[must_use]
    #[inline]
    pub fn seek(&self, key: &[u8], trailer: Trailer) -> Option<Node> {
        as_node(self.neighbours(&Target::new(key, trailer)).1)
    }

    /// The last entry before `(key, trailer)`.
    #[must_use]
    pub fn seek_before(&self, key: &[u8], trailer: Trailer) -> Option<Node> {
        as_node(self.neighbours(&Target::new(key, trailer)).0)
    }

    /// The first entry.
    #[must_use]
    pub fn first(&self) -> Option<Node> {
        as_node(self.link(HEAD, 0).load(Acquire))
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<Node> {
        let mut node = HEAD;
        for level in (0..self.height.load(Relaxed)).rev() {
            loop {
                match self.link(node, level).load(Acquire) {
                    END => break,
                    after => node = after,
                }
            }
        }
        as_node(node)
    }

    /// The entry after a node.
    #[must_use]
    #[inline]
    pub fn next(&self, node: Node) -> Option<Node> {
        as_node(self.link(node.0, 0).load(Acquire))
    }

    /// As [`Self::next`]. The processor begins to fetch the beginning of the next node, and the
    /// rest of this one, whose beginning should be there already.
    #[must_use]
    #[inline]
    pub fn fetch_next(&self, node: Node) -> Option<Node> {
        let next = self.next(node);
        if let Some(next) = next {
            self.prefetch(next.0);
        }
        let (key_len, value_len) = self.lengths(node.0);
        let end = (HEADER + key_len + value_len).min(FETCHED_MAX);
        (LINE..end + LINE).step_by(LINE).for_each(|from| self.prefetch_from(node.0, from));
        next
    }
}

/// A link as an entry: neither the end nor the head is one.
#[inline]
fn as_node(link: u32) -> Option<Node> {
    (link != END && link != HEAD).then_some(Node(link))
}
