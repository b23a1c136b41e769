//! Random numbers that depend only on the seed, not on the machine or on a library's version,
//! because seeds of failures are kept in files. The generator is SplitMix64.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed ^ 0x5851_F42D_4C95_7F2D);
        rng.u64();
        rng
    }

    /// A separate stream for a part. Draws of other parts do not affect it.
    #[must_use]
    pub fn fork(&mut self, part: u64) -> Self {
        Self::new(self.u64() ^ part.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Any number.
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }

    /// An index below `n`; 0 for `n` = 0.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number from `lo` up to and including `hi`.
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these values.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        assert!(!choices.is_empty(), "nothing to pick from");
        &choices[self.index(choices.len())]
    }
}
