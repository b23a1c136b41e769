//! Keys and values of numbered records.
//!
//! A key of 24 bytes is YCSB's: "user" and the hash of the record's number with twenty digits.
//! Longer keys are padded; shorter ones (8 bytes at least) start with the hash itself. The hash is
//! a bijection, so no two records share a key. Values are slices of a pool of random bytes: cheap
//! to make, and not to be compressed.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

/// A bijection of 64-bit numbers that leaves no pattern (the finaliser of splitmix64).
#[must_use]
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The shortest key.
pub const MIN_KEY_SIZE: usize = 8;
/// The size of the pool that values are cut from, beyond one value.
const POOL: usize = 1 << 20;

/// Makes keys and values of fixed sizes.
pub struct Data {
    key_size: usize,
    value_size: usize,
    pool: Vec<u8>,
}

impl Data {
    /// Keys of `key_size` and values of `value_size` bytes.
    ///
    /// # Panics
    /// When keys are shorter than [`MIN_KEY_SIZE`].
    #[must_use]
    pub fn new(key_size: usize, value_size: usize, seed: u64) -> Self {
        assert!(key_size >= MIN_KEY_SIZE, "keys of {key_size} bytes cannot all differ");
        let mut pool = vec![0; POOL + value_size];
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut pool);
        Self { key_size, value_size, pool }
    }

    /// The bytes of a pair.
    #[must_use]
    pub fn pair_bytes(&self) -> u64 {
        (self.key_size + self.value_size) as u64
    }

    /// The bytes of a key.
    #[must_use]
    pub fn key_size(&self) -> usize {
        self.key_size
    }

    /// Puts the key of a record into `key`.
    #[inline]
    pub fn key(&self, record: u64, key: &mut Vec<u8>) {
        key.clear();
        key.resize(self.key_size, b'0');
        let mut hash = mix(record);
        if self.key_size < 24 {
            key[..8].copy_from_slice(&hash.to_be_bytes());
            return;
        }
        key[..4].copy_from_slice(b"user");
        for digit in key[4..24].iter_mut().rev() {
            *digit = b'0' + (hash % 10) as u8;
            hash /= 10;
        }
    }

    /// A value, chosen by a random number.
    #[must_use]
    #[inline]
    pub fn value(&self, random: u64) -> &[u8] {
        let start = random as usize % POOL;
        &self.pool[start..start + self.value_size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_have_their_size_and_differ() {
        for size in [8, 16, 24, 40] {
            let data = Data::new(size, 10, 1);
            let mut key = Vec::new();
            let keys: HashSet<_> = (0..10_000)
                .map(|record| {
                    data.key(record, &mut key);
                    assert_eq!(key.len(), size);
                    key.clone()
                })
                .collect();
            assert_eq!(keys.len(), 10_000);
        }
        let mut key = Vec::new();
        Data::new(24, 0, 1).key(0, &mut key);
        assert_eq!(key, format!("user{:020}", mix(0)).as_bytes());
    }

    #[test]
    fn values_have_their_size_and_vary() {
        let data = Data::new(24, 176, 1);
        assert_eq!((data.value(0).len(), data.value(u64::MAX).len()), (176, 176));
        assert_ne!(data.value(1), data.value(2));
    }
}
