//! Smaller options: by one factor for an experiment, so that their ratios stay; at random for a
//! test, whose store lives for milliseconds.

use vlsm_core::{Bytes, Micros};

/// The factor by which an experiment is smaller than the papers'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale(pub u64);

impl Scale {
    /// A number at this scale; at least one.
    #[must_use]
    pub fn count(self, full: u64) -> u64 {
        (full / self.0).max(1)
    }

    /// Bytes at this scale.
    #[must_use]
    pub fn bytes(self, full: Bytes) -> Bytes {
        Bytes(self.count(full.0))
    }

    /// A duration at this scale; at least a millisecond.
    #[must_use]
    pub fn time(self, full: Micros) -> Micros {
        Micros(self.count(full.0).max(1_000))
    }
}

/// Draws values from lists.
pub struct Pick<'a>(pub &'a mut dyn FnMut(usize) -> usize);

impl Pick<'_> {
    /// One of these values.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.0)(values.len())]
    }
}
