//! The memory of one memtable: zeros at a fixed address. [`Block::new`] touches all of it, on huge
//! pages if possible; [`Block::lazy`] leaves each page to its first write.
//!
//! Unsafe, for memory from the system and the allocator: a block gives it back once, at its drop.
//! Miri checks the allocated kind. Threads and locks: none; the skip list orders accesses.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The size of a huge page.
const HUGE: usize = 2 << 20;
/// The size from which a block is mapped instead of allocated: memory that is given back goes back
/// to the system, and what was never touched takes none.
const MAPPED: usize = 64 << 10;

/// Initialised memory of fixed size and place.
pub struct Block {
    base: NonNull<u8>,
    len: usize,
    /// The start and the length of its mapping; none if it was allocated.
    mapping: Option<(NonNull<u8>, usize)>,
    /// Whether all of it was faulted in when it was made.
    faulted: bool,
}

// SAFETY: a block is plain memory that it owns; whoever reads and writes through `base` must order
// that.
unsafe impl Send for Block {}
// SAFETY: as above; `&Block` gives out nothing but an address and a length.
unsafe impl Sync for Block {}

impl Block {
    /// Makes a block of `len` bytes of zeros, faulted in.
    ///
    /// # Panics
    /// When `len` is zero or over 32 GiB.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let mut block = Self::lazy(len);
        block.advise(true);
        // SAFETY: the block has `len` bytes and is ours alone.
        unsafe { block.base.as_ptr().write_bytes(0, len) };
        block.faulted = true;
        block
    }

    /// Makes a block of `len` bytes of zeros of which a page takes memory when it is first written
    /// to, as far as the system can do that.
    ///
    /// # Panics
    /// As [`Block::new`].
    #[must_use]
    pub fn lazy(len: usize) -> Self {
        assert!(len > 0 && len as u64 <= 8 << 32, "a block of {len} bytes");
        if len >= MAPPED
            && let Some(block) = Self::mapped(len)
        {
            block.advise(false);
            return block;
        }
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Self { base, len, mapping: None, faulted: true }
    }

    /// A mapping that is aligned to huge pages where it is as long as one.
    #[cfg(all(unix, not(miri)))]
    fn mapped(len: usize) -> Option<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let align = if len >= HUGE { HUGE } else { 64 };
        let (total, access) = (len + align, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at no given address overlaps nothing.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), total, access, MapFlags::PRIVATE).ok()? };
        let start = NonNull::new(start.cast::<u8>())?;
        let skip = start.as_ptr().align_offset(align);
        // SAFETY: `skip` is less than `align`, by which the mapping is longer than the block.
        let base = unsafe { start.add(skip) };
        Some(Self { base, len, mapping: Some((start, total)), faulted: false })
    }

    #[cfg(not(all(unix, not(miri))))]
    fn mapped(_: usize) -> Option<Self> {
        None
    }

    /// Huge pages where the system offers them, because a search meets a node per page otherwise;
    /// or none, because they would take memory that is not used yet.
    fn advise(&self, huge: bool) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if self.len >= HUGE && self.mapping.is_some() {
            use rustix::mm::{Advice, madvise};
            let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
            // SAFETY: the range is mapped, page aligned and ours; the advice changes no content.
            let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, advice) };
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        let _ = huge;
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, 64).expect("a block is far smaller than the address space")
    }

    /// Whether all of it was faulted in when it was made.
    #[must_use]
    pub fn is_faulted(&self) -> bool {
        self.faulted
    }

    /// Its first byte, aligned to 64.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match self.mapping {
            #[cfg(all(unix, not(miri)))]
            Some((start, len)) => {
                // SAFETY: mapped in `mapped` with this length, unmapped once, used by nobody.
                let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
            }
            // SAFETY: allocated in `lazy` with the same layout, freed once.
            _ => unsafe { dealloc(self.base.as_ptr(), Self::layout(self.len)) },
        }
    }
}
