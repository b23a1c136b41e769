//! Keys and values of numbered records.
//!
//! A key of 24 bytes is YCSB's: "user" and a number with twenty digits. Longer keys are padded;
//! shorter ones (8 bytes at least) start with the number itself. The number is one of two functions
//! of the record's number. A hash puts records in random order; it is a bijection, so no two
//! records share a key. Twice the record's number keeps the order of insertion. In both orders, the
//! keys for reads that miss lie between the others.
//!
//! Values are slices of a pool of random bytes: they are cheap to make and cannot be compressed.
//! With `compressible`, the end of each piece of 100 bytes repeats its beginning, as in RocksDB's
//! `db_bench`, and values begin with a piece.

use super::sizes::Sizes;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

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
/// The bytes of the pool that repeat among themselves.
const PIECE: usize = 100;
/// Records have smaller numbers. Other numbers belong to keys that do not exist.
const MISSING: u64 = 1 << 63;

/// The relation of the order of insertion to the order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// The orders are independent: keys are hashed.
    #[default]
    Hashed,
    /// Both orders are the same.
    Sequential,
}

/// The shape of records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of values.
    pub values: Sizes,
    /// The order of keys.
    #[serde(default)]
    pub order: KeyOrder,
    /// The share of a value's bytes that repeat earlier ones, in percent: 0 to 99.
    #[serde(default)]
    pub compressible: u8,
}

impl Shape {
    /// The mean size of a pair in bytes.
    #[must_use]
    pub fn pair_bytes(&self) -> f64 {
        self.key_size as f64 + self.values.mean()
    }
}

impl Default for Shape {
    /// 24 + 176 bytes, hashed.
    fn default() -> Self {
        Self { key_size: 24, values: Sizes::Fixed(176), order: KeyOrder::Hashed, compressible: 0 }
    }
}

/// Makes keys and values.
pub struct Data {
    shape: Shape,
    mean: u64,
    pool: Vec<u8>,
}

impl Data {
    /// Hashed keys of `key_size` and values of `value_size` bytes.
    ///
    /// # Panics
    /// Keys are shorter than [`MIN_KEY_SIZE`].
    #[must_use]
    pub fn new(key_size: usize, value_size: usize, seed: u64) -> Self {
        let values = Sizes::Fixed(value_size);
        Self::shaped(Shape { key_size, values, ..Shape::default() }, seed)
    }

    /// Records of this shape.
    ///
    /// # Panics
    /// Keys are shorter than [`MIN_KEY_SIZE`].
    #[must_use]
    pub fn shaped(shape: Shape, seed: u64) -> Self {
        let key_size = shape.key_size;
        assert!(key_size >= MIN_KEY_SIZE, "keys of {key_size} bytes cannot all differ");
        let mut pool = vec![0; POOL + shape.values.max()];
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut pool);
        let fresh = PIECE - usize::from(shape.compressible.min(99));
        for piece in pool.chunks_mut(PIECE) {
            for at in fresh..piece.len() {
                piece[at] = piece[at - fresh];
            }
        }
        let mean = shape.pair_bytes().round() as u64;
        Self { shape, mean, pool }
    }

    /// The shape of the records.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The mean size of a pair in bytes.
    #[must_use]
    pub fn pair_bytes(&self) -> u64 {
        self.mean
    }

    /// The bytes of a key.
    #[must_use]
    pub fn key_size(&self) -> usize {
        self.shape.key_size
    }

    /// Puts the key of a record into `key`.
    #[inline]
    pub fn key(&self, record: u64, key: &mut Vec<u8>) {
        let number = match self.shape.order {
            KeyOrder::Hashed => mix(record),
            KeyOrder::Sequential => record << 1,
        };
        self.write(number, key);
    }

    /// Puts a key that no record has into `key`, chosen by the number of a record.
    #[inline]
    pub fn missing_key(&self, record: u64, key: &mut Vec<u8>) {
        let number = match self.shape.order {
            KeyOrder::Hashed => mix(record | MISSING),
            KeyOrder::Sequential => record << 1 | 1,
        };
        self.write(number, key);
    }

    /// Puts a key into `key` so that this share (of 2^64) of `records` records lies below it.
    pub fn key_at(&self, share: u64, records: u64, key: &mut Vec<u8>) {
        let number = match self.shape.order {
            KeyOrder::Hashed => share,
            KeyOrder::Sequential => ((u128::from(share) * u128::from(records)) >> 64) as u64 * 2,
        };
        self.write(number, key);
    }

    #[inline]
    fn write(&self, mut number: u64, key: &mut Vec<u8>) {
        key.clear();
        key.resize(self.shape.key_size, b'0');
        if self.shape.key_size < 24 {
            key[..8].copy_from_slice(&number.to_be_bytes());
            return;
        }
        key[..4].copy_from_slice(b"user");
        for digit in key[4..24].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    /// A value chosen by a random number. The upper half chooses its length, the lower its bytes.
    #[must_use]
    #[inline]
    pub fn value(&self, random: u64) -> &[u8] {
        let size = match self.shape.values {
            Sizes::Fixed(size) => size,
            sizes => sizes.at((random >> 32) as f64 / 4_294_967_296.0),
        };
        self.value_of(size, random)
    }

    /// A value of a given length (at most the longest), whose bytes a random number chooses.
    #[must_use]
    #[inline]
    pub fn value_of(&self, size: usize, random: u64) -> &[u8] {
        let mut start = random as u32 as usize % POOL;
        if self.shape.compressible > 0 {
            start -= start % PIECE;
        }
        &self.pool[start..start + size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_have_their_size_and_differ() {
        for order in [KeyOrder::Hashed, KeyOrder::Sequential] {
            for key_size in [8, 16, 24, 40] {
                let data = Data::shaped(Shape { key_size, order, ..Shape::default() }, 1);
                let mut key = Vec::new();
                let mut keys = HashSet::new();
                for record in 0..10_000 {
                    data.key(record, &mut key);
                    assert_eq!(key.len(), key_size);
                    keys.insert(key.clone());
                    data.missing_key(record, &mut key);
                    keys.insert(key.clone());
                }
                assert_eq!(keys.len(), 20_000, "also those that are missing");
            }
        }
        let mut key = Vec::new();
        Data::new(24, 0, 1).key(0, &mut key);
        assert_eq!(key, format!("user{:020}", mix(0)).as_bytes());
    }

    #[test]
    fn sequential_keys_ascend_and_hashed_ones_do_not() {
        let keys = |order, key_size| -> Vec<Vec<u8>> {
            let data = Data::shaped(Shape { key_size, order, ..Shape::default() }, 1);
            let key = |record| {
                let mut key = Vec::new();
                data.key(record, &mut key);
                key
            };
            (0..1000).map(key).collect()
        };
        for key_size in [8, 24] {
            assert!(keys(KeyOrder::Sequential, key_size).is_sorted());
            assert!(!keys(KeyOrder::Hashed, key_size).is_sorted());
        }
    }

    #[test]
    fn a_share_of_the_keys_is_found() {
        for order in [KeyOrder::Hashed, KeyOrder::Sequential] {
            let data = Data::shaped(Shape { order, ..Shape::default() }, 1);
            let (mut middle, mut key) = (Vec::new(), Vec::new());
            data.key_at(1 << 62, 10_000, &mut middle);
            let below = (0..10_000).filter(|&record| {
                data.key(record, &mut key);
                key < middle
            });
            let below = below.count();
            assert!((2300..2700).contains(&below), "{below} of 10,000 are in the first quarter");
        }
    }

    #[test]
    fn the_share_that_repeats_is_as_said() {
        for compressible in [0, 50, 90] {
            let data = Data::shaped(Shape { compressible, ..Shape::default() }, 1);
            let fresh = PIECE - usize::from(compressible);
            let pool = &data.pool[..PIECE * 1000];
            let repeats = pool
                .chunks(PIECE)
                .map(|piece| (fresh..PIECE).filter(|&at| piece[at] == piece[at - fresh]).count());
            assert_eq!(repeats.sum::<usize>(), 1000 * usize::from(compressible));
            let beginnings: HashSet<_> = pool.chunks(PIECE).map(|piece| &piece[..8]).collect();
            assert_eq!(beginnings.len(), 1000);
        }
    }

    #[test]
    fn values_have_their_size_and_vary() {
        let data = Data::new(24, 176, 1);
        assert_eq!((data.value(0).len(), data.value(u64::MAX).len()), (176, 176));
        assert_ne!(data.value(1), data.value(2));
        let values = Sizes::Uniform(10, 20);
        let data = Data::shaped(Shape { values, ..Shape::default() }, 1);
        let lengths: HashSet<_> = (0..1000).map(|i| data.value(mix(i)).len()).collect();
        assert!(lengths.len() == 11 && lengths.iter().all(|len| (10..=20).contains(len)));
        assert_eq!(data.pair_bytes(), 24 + 15);
    }
}
