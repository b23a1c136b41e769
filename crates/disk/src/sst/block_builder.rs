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
//! An entry is added in two steps, so that its size is known before it is decided which block it
//! belongs to, and nothing is computed twice: [`BlockBuilder::place`], [`BlockBuilder::add`].
//!
//! No allocation per entry: the next block reuses the buffers. The memory behind the block is
//! always initialized and longer than the block, so that the lengths of an entry are written as 16
//! bytes at once. The key and the value then overwrite the rest of these bytes.

use super::format::BLOCK_TRAILER_LEN;
use vlsm_core::Trailer;
use vlsm_core::key::copy_short;

/// Bytes after the restart offsets.
pub(super) const BLOCK_TAIL_LEN: usize = 8;

/// The approximate most bytes from one restart point to the next. A lookup walks over them.
const RESTART_BYTES: usize = 1024;

/// Bytes that the lengths of an entry are written with: more than the longest take.
const HEAD_LEN: usize = 16;

/// Collects the entries of a block.
pub(super) struct BlockBuilder {
    /// The entries, and memory for more.
    buf: Vec<u8>,
    /// Length of the entries.
    end: usize,
    restarts: Vec<u32>,
    restart_interval: usize,
    since_restart: usize,
    /// The offset from which on the next entry is a restart point in any case.
    restart_from: usize,
}

/// How an entry would be stored as the next one of a block.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Bytes of the block if it ended after this entry, including its trailer.
    pub(super) block_len: usize,
    is_restart: bool,
    shared: usize,
    /// The encoded lengths, as a little-endian number, and how many bytes they take.
    head: u128,
    head_len: usize,
}

impl BlockBuilder {
    pub(super) fn new(restart_interval: usize) -> Self {
        assert!(restart_interval >= 1, "a block needs restart points");
        let (buf, restarts) = (Vec::new(), Vec::new());
        Self { buf, end: 0, restarts, restart_interval, since_restart: 0, restart_from: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Bytes of the block if it ended here, including its trailer.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end + 4 * self.restarts.len() + BLOCK_TAIL_LEN + BLOCK_TRAILER_LEN
    }

    /// The place of an entry whose key shares `shared` bytes with the last one.
    #[inline]
    pub(super) fn place(&self, shared: usize, key_len: usize, value_len: usize) -> Place {
        let is_restart =
            self.end >= self.restart_from || self.since_restart >= self.restart_interval;
        let (shared, restart_len) = if is_restart { (0, 4) } else { (shared, 0) };
        let unshared = key_len - shared;
        let (head, head_len) = lengths(shared, unshared, value_len);
        let block_len = self.len() + restart_len + head_len + unshared + 8 + value_len;
        Place { block_len, is_restart, shared, head, head_len }
    }

    /// Appends an entry at its place, which was computed after the last entry was added.
    #[inline(always)]
    pub(super) fn add(&mut self, place: Place, key: &[u8], trailer: Trailer, value: &[u8]) {
        let suffix = &key[place.shared..];
        let end = self.end + place.head_len + suffix.len() + 8 + value.len();
        if self.buf.len() < end + HEAD_LEN {
            self.grow(end + HEAD_LEN);
        }
        if place.is_restart {
            self.restarts.push(self.end as u32);
            self.since_restart = 0;
            self.restart_from = self.end + RESTART_BYTES;
        }
        self.since_restart += 1;
        let out = &mut self.buf[self.end..end + HEAD_LEN];
        out[..HEAD_LEN].copy_from_slice(&place.head.to_le_bytes());
        let (out_suffix, out) = out[place.head_len..].split_at_mut(suffix.len());
        copy_short(out_suffix, suffix);
        out[..8].copy_from_slice(&trailer.0.to_le_bytes());
        out[8..8 + value.len()].copy_from_slice(value);
        self.end = end;
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.buf.resize(len.max(2 * self.buf.len()).max(4096), 0);
    }

    /// Ends the block. It inserts zeros so that the block with its trailer takes at least `len`
    /// bytes. Returns the payload and the room for the trailer. The caller clears the builder
    /// afterwards.
    pub(super) fn finish(&mut self, len: usize) -> &mut [u8] {
        let zeros = len.saturating_sub(self.len());
        let len = self.len() + zeros;
        if self.buf.len() < len {
            self.grow(len);
        }
        let (entries, rest) = self.buf[..len].split_at_mut(self.end);
        let (zeros, rest) = rest.split_at_mut(zeros);
        zeros.fill(0);
        let counts = [self.restarts.len() as u32, entries.len() as u32];
        for (place, number) in rest.chunks_exact_mut(4).zip(self.restarts.iter().chain(&counts)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        &mut self.buf[..len]
    }

    /// Ends the block. Returns its payload.
    pub(super) fn into_payload(mut self) -> Vec<u8> {
        let len = self.finish(0).len() - BLOCK_TRAILER_LEN;
        self.buf.truncate(len);
        self.buf.shrink_to_fit();
        self.buf
    }

    pub(super) fn clear(&mut self) {
        self.end = 0;
        self.restarts.clear();
        self.since_restart = 0;
        self.restart_from = 0;
    }
}

/// The three lengths of an entry as varints: the bytes as a little-endian number, and how many.
#[inline]
fn lengths(shared: usize, unshared: usize, value: usize) -> (u128, usize) {
    if (shared | unshared) < 0x80 && value < 0x4000 {
        let short = shared | unshared << 8;
        return match value < 0x80 {
            true => ((short | value << 16) as u128, 3),
            false => ((short | (value & 0x7f | 0x80) << 16 | (value >> 7) << 24) as u128, 4),
        };
    }
    long_lengths([shared, unshared, value])
}

#[cold]
fn long_lengths(lengths: [usize; 3]) -> (u128, usize) {
    let (mut head, mut len) = (0u128, 0);
    for mut length in lengths {
        while length >= 0x80 {
            head |= ((length & 0x7f | 0x80) as u128) << (8 * len);
            length >>= 7;
            len += 1;
        }
        head |= (length as u128) << (8 * len);
        len += 1;
    }
    (head, len)
}

#[cfg(test)]
mod tests {
    use super::super::format::put_varint;
    use super::*;

    #[test]
    fn lengths_are_varints() {
        let numbers = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x1_0000, 0x1f_ffff, 0x20_0000, 1 << 30];
        for (shared, unshared, value) in numbers
            .into_iter()
            .flat_map(|a| numbers.into_iter().map(move |b| (a, b)))
            .flat_map(|(a, b)| numbers.into_iter().map(move |c| (a, b, c)))
            .filter(|(a, b, _)| a + b <= vlsm_core::key::MAX_KEY_LEN)
        {
            let mut expected = Vec::new();
            [shared, unshared, value].iter().for_each(|len| put_varint(&mut expected, *len as u64));
            let (head, len) = lengths(shared, unshared, value);
            assert_eq!(head.to_le_bytes()[..len], expected);
            assert!(head.to_le_bytes()[len..].iter().all(|byte| *byte == 0));
        }
    }

    /// The layout of the module's essay, one field after the other.
    fn plainly(entries: &[(Vec<u8>, u64, Vec<u8>)], interval: usize, len: usize) -> Vec<u8> {
        let (mut out, mut restarts): (Vec<u8>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut last, mut since): (&[u8], usize) = (&[], 0);
        for (key, trailer, value) in entries {
            let begun = restarts.last().map(|at| out.len() - *at as usize);
            let mut shared = last.iter().zip(key).take_while(|(a, b)| a == b).count();
            if since >= interval || begun.is_none_or(|bytes| bytes >= RESTART_BYTES) {
                restarts.push(out.len() as u32);
                (shared, since) = (0, 0);
            }
            for number in [shared, key.len() - shared, value.len()] {
                put_varint(&mut out, number as u64);
            }
            out.extend_from_slice(&key[shared..]);
            out.extend_from_slice(&trailer.to_le_bytes());
            out.extend_from_slice(value);
            (last, since) = (key, since + 1);
        }
        let entries = out.len() as u32;
        let tail = 4 * restarts.len() + BLOCK_TAIL_LEN + BLOCK_TRAILER_LEN;
        out.resize(out.len() + len.saturating_sub(out.len() + tail), 0);
        for number in restarts.iter().chain(&[restarts.len() as u32, entries]) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    #[test]
    fn a_block_has_its_layout() {
        let scatter = |n: usize| (n ^ (n >> 7)).wrapping_mul(0x9e37_79b1) >> 8 & 0xffff;
        let key_lens = [0, 1, 3, 7, 8, 15, 16, 24, 31, 32, 33, 100, 127, 128, 300];
        let value_lens = [0, 0, 8, 100, 127, 128, 176, 1000, 16_383, 16_384, 70_000];
        let mut block = BlockBuilder::new(3);
        for seed in 0..400 {
            block.restart_interval = 1 + seed % 5;
            let small = seed % 3 > 0;
            let entry = |n: usize| {
                let random = scatter(scatter(seed) + 31 * n);
                let mut key = vec![b'a'; random % 40];
                key.extend_from_slice(&n.to_be_bytes()[7..]);
                key.resize(key.len() + key_lens[random / 40 % key_lens.len()], n as u8);
                let values = if small { 7 } else { value_lens.len() };
                let value = vec![n as u8; value_lens[random / 7 % values]];
                (key, (n as u64) << 8 | 1, value)
            };
            let mut entries: Vec<_> = (0..1 + seed % 60).map(entry).collect();
            entries.sort();
            let mut last: &[u8] = &[];
            for (key, trailer, value) in &entries {
                let shared = last.iter().zip(key).take_while(|(a, b)| a == b).count();
                let place = block.place(shared, key.len(), value.len());
                block.add(place, key, Trailer(*trailer), value);
                assert_eq!(block.len(), place.block_len, "the size is known beforehand");
                last = key;
            }
            let len = if seed % 2 == 0 { 0 } else { block.len() + seed };
            let expected = plainly(&entries, block.restart_interval, len);
            let found = block.finish(len);
            assert_eq!(found[..found.len() - BLOCK_TRAILER_LEN], expected, "seed {seed}");
            block.clear();
        }
    }
}
