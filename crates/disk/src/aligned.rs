//! A byte buffer that starts at a multiple of 4096, as direct I/O wants it.
//!
//! The memory is a vector of 4096-byte pages, each aligned to its size; the bytes are a view of it.
//! So no `unsafe` is needed, and the capacity is always a multiple of [`ALIGNMENT`]. A buffer is
//! meant to be used again: [`AlignedBuf::clear`] keeps the memory.

use bytemuck::{Pod, Zeroable};
use std::ops::{Deref, DerefMut};

/// The unit of offsets, lengths and addresses in direct I/O.
pub const ALIGNMENT: usize = 4096;

/// One page.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

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
#[derive(Clone, Default)]
pub struct AlignedBuf {
    pages: Vec<Page>,
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer with room for `capacity` bytes, rounded up.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let pages = vec![Page::zeroed(); capacity.div_ceil(ALIGNMENT)];
        Self { pages, len: 0 }
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
        self.pages.len() * ALIGNMENT
    }

    /// Removes the content and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Sets the length to `len`. New bytes have any content: zeros, or what the memory held before.
    pub fn set_len(&mut self, len: usize) {
        if len > self.capacity() {
            self.pages.resize(len.div_ceil(ALIGNMENT), Page::zeroed());
        }
        self.len = len;
    }

    /// Appends `bytes`, and grows if needed.
    #[inline]
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
        &bytemuck::cast_slice(&self.pages)[..self.len]
    }
}

impl DerefMut for AlignedBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.pages)[..self.len]
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
    fn rounding() {
        assert_eq!([0, 1, 4096].map(align_up), [0, 4096, 4096]);
        assert_eq!([0, 4095, 4096].map(align_down), [0, 0, 4096]);
        assert_eq!(align_up(u64::MAX), align_down(u64::MAX), "saturates");
    }
}
