//! A Bloom filter over user keys, with one cache line a key.
//!
//! A key's hash chooses one line of 512 bits, and a few bits in that line. So a lookup touches one
//! line of memory. Compared with a filter without lines this costs a little accuracy: about 1.0 %
//! false positives at 10 bits a key.
//!
//! ```text
//! filter := [line of 64 bytes]* · probes u32
//! ```
//!
//! Threads and locks: a filter is immutable once built.

use super::format::{Damage, u32_at};
use bytemuck::{Pod, Zeroable};
use twox_hash::XxHash3_64;

const LINE_LEN: usize = 64;
const PROBES_MAX: u32 = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u32; 16]);

/// The hash of a user key for filters. One hash serves the filters of all files and memtables.
#[must_use]
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// The hashes of a file's keys, until its filter is built.
///
/// They are kept in parts, so that no long vector is copied and freed while it grows: the allocator
/// would keep its memory, for each thread.
#[derive(Default)]
pub struct Hashes {
    full: Vec<Vec<u64>>,
    open: Vec<u64>,
}

impl Hashes {
    const PART: usize = 4096;

    /// Appends a hash.
    #[inline]
    pub fn push(&mut self, hash: u64) {
        if self.open.len().is_multiple_of(Self::PART) {
            self.begin();
        }
        self.open.push(hash);
    }

    /// Begins a part.
    #[cold]
    fn begin(&mut self) {
        let full = std::mem::replace(&mut self.open, Vec::with_capacity(Self::PART));
        self.full.extend((!full.is_empty()).then_some(full));
    }

    /// Their number.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.full.len() * Self::PART + self.open.len()
    }

    /// The hashes, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.full.iter().chain([&self.open]).flatten().copied()
    }
}

/// A set of keys. It may report a key that it does not have, but it never denies a key that it has.
pub struct Filter {
    lines: Vec<Line>,
    probes: u32,
}

impl Filter {
    /// A filter with `bits_per_key` bits for each of these hashes, which belong to distinct keys.
    #[must_use]
    pub fn build(hashes: &Hashes, bits_per_key: u32) -> Self {
        let bits = hashes.count() as u64 * u64::from(bits_per_key);
        let count = bits.div_ceil(8 * LINE_LEN as u64).clamp(1, 1 << 26) as usize;
        // In theory ln 2 · bits a key is the best number of probes. With lines a little less is
        // better, and it costs less time.
        let probes = (bits_per_key * 6 / 10).clamp(1, PROBES_MAX);
        let mut filter = Self { lines: vec![Line::zeroed(); count], probes };
        match probes {
            // For 10 bits a key. The loop over the probes is unrolled.
            6 => hashes.iter().for_each(|hash| filter.set(hash, 6)),
            _ => hashes.iter().for_each(|hash| filter.set(hash, probes)),
        }
        filter
    }

    #[inline(always)]
    fn set(&mut self, hash: u64, probes: u32) {
        let line = self.line_of(hash);
        let line = &mut self.lines[line].0;
        for (word, bit) in bits(hash, probes) {
            line[word] |= bit;
        }
    }

    #[inline]
    fn line_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.lines.len() as u64) >> 32) as usize
    }

    /// Whether the key with this hash may be in the set.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[self.line_of(hash)].0;
        bits(hash, self.probes).all(|(word, bit)| line[word] & bit != 0)
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_LEN
    }

    /// About the bytes that a filter of `keys` keys takes in a file.
    pub(super) fn len_for(keys: usize, bits_per_key: u32) -> usize {
        if bits_per_key == 0 { 0 } else { keys * bits_per_key as usize / 8 + LINE_LEN + 4 }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.memory_bytes() + 4);
        for word in self.lines.iter().flat_map(|line| &line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.probes.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let Some(lines_len) = bytes.len().checked_sub(4).filter(|len| len % LINE_LEN == 0) else {
            return Err("the filter has a wrong length");
        };
        let probes = u32_at(bytes, lines_len).unwrap_or(0);
        if lines_len == 0 || !(1..=PROBES_MAX).contains(&probes) {
            return Err("the filter is impossible");
        }
        let mut lines = vec![Line::zeroed(); lines_len / LINE_LEN];
        for (line, bytes) in lines.iter_mut().zip(bytes.chunks_exact(LINE_LEN)) {
            for (word, bytes) in line.0.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes(bytes.try_into().expect("chunks have four bytes"));
            }
        }
        Ok(Self { lines, probes })
    }
}

/// The bits of a hash in its line. Each takes nine bits of the next number in a sequence of odd
/// multiples.
#[inline(always)]
fn bits(hash: u64, probes: u32) -> impl Iterator<Item = (usize, u32)> {
    let mut state = hash as u32;
    (0..probes).map(move |_| {
        state = state.wrapping_mul(0x9e37_79b9);
        ((state >> 28) as usize, 1 << ((state >> 23) & 31))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(hashes: &[u64]) -> Hashes {
        let mut kept = Hashes::default();
        hashes.iter().for_each(|hash| kept.push(*hash));
        kept
    }

    #[test]
    fn hashes_stay_as_they_came() {
        for count in [0, 1, Hashes::PART - 1, Hashes::PART, Hashes::PART + 1, 3 * Hashes::PART] {
            let hashes: Vec<u64> = (0..count as u64).collect();
            let kept = kept(&hashes);
            assert_eq!((kept.count(), kept.iter().collect()), (count, hashes));
        }
    }

    #[test]
    fn never_forgets_and_seldom_lies() {
        for (bits, most) in [(4, 0.20), (10, 0.015), (16, 0.004)] {
            let hashes: Vec<u64> = (0..20_000u32).map(|n| hash(&n.to_be_bytes())).collect();
            let filter =
                Filter::decode(&Filter::build(&kept(&hashes), bits).encode()).expect("sound");
            assert!(hashes.iter().all(|hash| filter.may_contain(*hash)));
            let lies =
                (20_000..120_000u32).filter(|n| filter.may_contain(hash(&n.to_be_bytes()))).count();
            assert!((lies as f64) < 100_000.0 * most, "{bits} bits: {lies} of 100000");
        }
    }

    #[test]
    fn one_key_and_damage() {
        let filter = Filter::build(&kept(&[hash(b"")]), 10);
        assert!(filter.may_contain(hash(b"")));
        let bytes = filter.encode();
        assert!(Filter::decode(&bytes[1..]).is_err());
        assert!(Filter::decode(&bytes[64..]).is_err());
        assert!(Filter::decode(&[]).is_err());
    }
}
