//! A buffer for the current key of an iteration, such as a merge. Each key overwrites the one
//! before.
//!
//! Its memory is never shorter than the key, so that most keys are copied by a few moves of fixed
//! length, without a call. Keys longer than 32 bytes are copied as any other bytes.

use std::ops::Deref;

/// Copies bytes; faster than `copy_from_slice` where they are few.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub fn copy_short(to: &mut [u8], from: &[u8]) {
    assert!(to.len() == from.len(), "as many bytes as there is room for");
    match from.len() {
        17..=32 => copy_ends::<16>(to, from),
        8..=16 => copy_ends::<8>(to, from),
        4..=7 => copy_ends::<4>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes. They meet or overlap.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

/// A user key. It is empty at first.
#[derive(Debug, Default)]
pub struct KeyBuf {
    /// At least `len` bytes.
    bytes: Vec<u8>,
    len: usize,
}

impl KeyBuf {
    /// Keeps the first `shared` bytes and appends `suffix`.
    ///
    /// # Panics
    /// If the key is shorter than `shared`.
    #[inline]
    pub fn replace(&mut self, shared: usize, suffix: &[u8]) {
        assert!(shared <= self.len, "a key has the bytes that the next one shares");
        let len = shared + suffix.len();
        if len > self.bytes.len() {
            self.grow(len);
        }
        copy_short(&mut self.bytes[shared..len], suffix);
        self.len = len;
    }

    /// Removes all bytes and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.bytes.resize(len.next_power_of_two().max(64), 0);
    }
}

impl Deref for KeyBuf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_every_length() {
        let from: Vec<u8> = (1..=200).collect();
        for len in 0..from.len() {
            let mut to = vec![0; len + 1];
            copy_short(&mut to[..len], &from[..len]);
            assert_eq!((&to[..len], to[len]), (&from[..len], 0));
        }
    }

    #[test]
    fn takes_the_place_of_the_key_before() {
        let long: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let (mut key, mut expected) = (KeyBuf::default(), Vec::new());
        for (shared, len) in [(0, 3), (3, 20), (10, 0), (4, 900), (900, 33), (64, 7), (0, 0)] {
            key.replace(shared, &long[..len]);
            expected.truncate(shared);
            expected.extend_from_slice(&long[..len]);
            assert_eq!(&key[..], &expected[..]);
        }
        key.replace(0, b"abc");
        key.clear();
        assert!(key.is_empty());
    }
}
