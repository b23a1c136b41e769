//! A byte buffer that starts at a multiple of 4096, as direct I/O requires.
//!
//! The capacity is always a multiple of [`ALIGNMENT`]. A buffer is meant to be used again:
//! [`AlignedBuf::clear`] keeps the memory.
//!
//! A large buffer is a memory map of its own. The allocator would keep the memory of freed large
//! buffers, for each of its threads: 12 MB with a `memory_limit` of 32 MB. A map goes back to the
//! system with its buffer, and takes memory only for the pages that were written. Small buffers,
//! and those for which the system has no map, are vectors of pages.

use bytemuck::{Pod, Zeroable};
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// The unit of offsets, lengths and addresses in direct I/O.
pub const ALIGNMENT: usize = 4096;

/// The capacity from which a buffer is a map.
const MAPPED: usize = 128 << 10;

/// One page.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// Zeros at first, a multiple of [`ALIGNMENT`] of them.
enum Memory {
    Pages(Vec<Page>),
    Map(MmapMut),
}

impl Memory {
    /// Memory for `len` bytes, rounded up.
    fn new(len: usize) -> Self {
        let len = len.next_multiple_of(ALIGNMENT);
        if len >= MAPPED
            && !cfg!(miri)
            && let Ok(map) = MmapMut::map_anon(len)
        {
            return Self::Map(map);
        }
        Self::Pages(vec![Page::zeroed(); len / ALIGNMENT])
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Pages(pages) => bytemuck::cast_slice(pages),
            Self::Map(map) => map,
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pages(pages) => bytemuck::cast_slice_mut(pages),
            Self::Map(map) => map,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Pages(Vec::new())
    }
}

/// The largest multiple of [`ALIGNMENT`] that is not above `offset`.
#[must_use]
#[inline]
pub const fn align_down(offset: u64) -> u64 {
    offset & !(ALIGNMENT as u64 - 1)
}

/// The smallest multiple of [`ALIGNMENT`] that is not below `offset`; saturates.
#[must_use]
#[inline]
pub const fn align_up(offset: u64) -> u64 {
    align_down(offset.saturating_add(ALIGNMENT as u64 - 1))
}

/// Bytes at an aligned address.
#[derive(Default)]
pub struct AlignedBuf {
    memory: Memory,
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer with room for `capacity` bytes, rounded up.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { memory: Memory::new(capacity), len: 0 }
    }

    /// A buffer of `len` zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self { len, ..Self::with_capacity(len) }
    }

    /// Bytes that fit without growing; a multiple of [`ALIGNMENT`].
    #[must_use]
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.bytes().len()
    }

    /// Removes the content and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Sets the length to `len`. The content of new bytes is undefined: zeros, or earlier content
    /// of the memory.
    pub fn set_len(&mut self, len: usize) {
        if len > self.capacity() {
            let mut memory = Memory::new(len);
            memory.bytes_mut()[..self.len].copy_from_slice(self);
            self.memory = memory;
        }
        self.len = len;
    }

    /// Appends `bytes`, and grows as needed.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.set_len(start + bytes.len());
        self[start..].copy_from_slice(bytes);
    }

    /// Appends as much of `bytes` as fits without growing. Returns the length of that part.
    #[inline]
    pub fn fill_from(&mut self, bytes: &[u8]) -> usize {
        let start = self.len;
        let count = bytes.len().min(self.capacity() - start);
        self.len += count;
        self[start..].copy_from_slice(&bytes[..count]);
        count
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }
}

impl DerefMut for AlignedBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_grows_and_is_used_again() {
        let mut buf = AlignedBuf::with_capacity(5000);
        assert_eq!((buf.len(), buf.capacity()), (0, 8192));
        buf.extend_from_slice(&[7; 9000]);
        assert_eq!((buf.len(), buf.capacity()), (9000, 12_288));
        assert_eq!(buf.as_ptr() as usize % ALIGNMENT, 0);
        buf.clear();
        assert_eq!((buf.len(), buf.capacity()), (0, 12_288));
        assert_eq!(buf.fill_from(&[9; 20_000]), 12_288);
        assert!(buf.iter().all(|byte| *byte == 9));
        assert_eq!(buf.fill_from(&[9; 1]), 0);
    }

    #[test]
    fn a_large_one_is_a_map_and_keeps_its_bytes_when_it_grows() {
        let mut buf = AlignedBuf::with_capacity(MAPPED - ALIGNMENT);
        let content: Vec<u8> = (0..MAPPED - 1).map(|at| at as u8).collect();
        let filled = buf.fill_from(&content);
        assert!(matches!(buf.memory, Memory::Pages(_)));
        buf.set_len(content.len());
        assert!(matches!(buf.memory, Memory::Map(_)) || cfg!(miri));
        assert_eq!(buf.as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!((&buf[..filled], buf[filled]), (&content[..filled], 0));
        buf.set_len(MAPPED * 2);
        assert_eq!(&buf[..filled], &content[..filled]);
        assert!(AlignedBuf::zeroed(MAPPED).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn rounding() {
        assert_eq!([0, 1, 4096].map(align_up), [0, 4096, 4096]);
        assert_eq!([0, 4095, 4096].map(align_down), [0, 0, 4096]);
        assert_eq!(align_up(u64::MAX), align_down(u64::MAX), "saturates");
    }
}
