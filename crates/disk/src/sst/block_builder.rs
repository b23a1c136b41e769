//! Writes one block after the other into one buffer.
//!
//! An uncompressed block is
//! ```text
//! [entry]* [zeros] [restart offset u32]* [restart count u32] [length of all entries u32]
//! entry := shared varint · unshared varint · value length varint · key suffix · trailer u64 ·
//! value
//! ```
//! `shared` is the number of bytes that the user key shares with the key of the previous entry.
//! Every n-th entry is a restart point, and at least one every 1024 bytes. A restart point shares
//! no bytes, so a lookup can begin there.
//!
//! No allocation per entry: the next block reuses the buffers.

use super::format::BLOCK_TRAILER_LEN;
use vlsm_core::Trailer;

/// Bytes after the restart offsets.
pub(super) const BLOCK_TAIL_LEN: usize = 8;

/// About the most bytes from one restart point to the next, which a lookup walks over.
const RESTART_BYTES: usize = 1024;

/// Collects the entries of a block.
pub(super) struct BlockBuilder {
    buf: Vec<u8>,
    restarts: Vec<u32>,
    restart_interval: usize,
    since_restart: usize,
}

impl BlockBuilder {
    pub(super) fn new(restart_interval: usize) -> Self {
        assert!(restart_interval >= 1, "a block needs restart points");
        Self { buf: Vec::new(), restarts: Vec::new(), restart_interval, since_restart: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Bytes of the block if it ended here, including its trailer.
    pub(super) fn len(&self) -> usize {
        self.buf.len() + 4 * self.restarts.len() + BLOCK_TAIL_LEN + BLOCK_TRAILER_LEN
    }

    #[inline]
    fn is_restart(&self) -> bool {
        self.restarts.last().is_none_or(|last| {
            self.since_restart >= self.restart_interval
                || self.buf.len() - *last as usize >= RESTART_BYTES
        })
    }

    /// Bytes of the block if it ended after this entry, whose key shares `shared` bytes with the
    /// last one.
    #[inline]
    pub(super) fn len_with(&self, shared: usize, key_len: usize, value_len: usize) -> usize {
        let (shared, restart) = if self.is_restart() { (0, 4) } else { (shared, 0) };
        let unshared = key_len - shared;
        let lengths = varint_len(shared) + varint_len(unshared) + varint_len(value_len);
        self.len() + restart + lengths + unshared + 8 + value_len
    }

    /// Appends an entry whose key shares `shared` bytes with the last one.
    #[inline]
    pub(super) fn add(&mut self, shared: usize, key: &[u8], trailer: Trailer, value: &[u8]) {
        let shared = if self.is_restart() {
            self.restarts.push(self.buf.len() as u32);
            self.since_restart = 0;
            0
        } else {
            shared
        };
        self.since_restart += 1;
        let suffix = &key[shared..];
        let mut head = [0; 15];
        let mut len = put(&mut head, 0, shared);
        len = put(&mut head, len, suffix.len());
        len = put(&mut head, len, value.len());
        self.buf.reserve(len + suffix.len() + 8 + value.len());
        self.buf.extend_from_slice(&head[..len]);
        self.buf.extend_from_slice(suffix);
        self.buf.extend_from_slice(&trailer.0.to_le_bytes());
        self.buf.extend_from_slice(value);
    }

    /// Ends the block. It inserts zeros so that the block with its trailer takes at least `len`
    /// bytes. The returned buffer holds the payload. The caller may append to it, and then clears
    /// the builder.
    pub(super) fn finish(&mut self, len: usize) -> &mut Vec<u8> {
        let entries = self.buf.len() as u32;
        let zeros = len.saturating_sub(self.len());
        self.buf.resize(self.buf.len() + zeros, 0);
        for restart in &self.restarts {
            self.buf.extend_from_slice(&restart.to_le_bytes());
        }
        self.buf.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.buf.extend_from_slice(&entries.to_le_bytes());
        &mut self.buf
    }

    pub(super) fn clear(&mut self) {
        self.buf.clear();
        self.restarts.clear();
        self.since_restart = 0;
    }
}

#[inline]
fn varint_len(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

#[inline]
fn put(head: &mut [u8; 15], mut at: usize, mut value: usize) -> usize {
    while value >= 0x80 {
        head[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    head[at] = value as u8;
    at + 1
}
