//! How many bytes the scans of a keyspace need of each level, so that a scan that has to read takes
//! them with its first read, instead of a block and then more and more.
//!
//! Algorithm: for each level a moving mean of the bytes behind a scan's first block, in which the
//! last scan counts an eighth. A scan first reads its block, and half as much again as the mean
//! behind it, because scans differ. Where scans end at their first pair, the mean is zero. Scans
//! that read nothing are not counted, so in memory nobody writes to the means.
//!
//! Levels are counted from the last one, because the last one keeps its share of a scan when the
//! tree grows. All runs of L0 share one mean.
//!
//! Threads and locks: relaxed atomics; of two scans that end at the same time one may not count.

use std::sync::atomic::{AtomicU64, Ordering};
use vlsm_core::Version;
use vlsm_core::version::LEVELS_MAX;
use vlsm_disk::sst::AHEAD_MAX;

/// Reads have a multiple of this length.
const PAGE: u64 = 4 << 10;

/// The means by level.
#[derive(Debug, Default)]
pub(crate) struct Habits([AtomicU64; LEVELS_MAX + 1]);

impl Habits {
    /// The index of the run or level below `newer` other ones.
    pub fn index(version: &Version, newer: usize) -> usize {
        let levels = version.levels.iter().filter(|tables| !tables.is_empty()).count();
        match newer.checked_sub(version.l0.len()) {
            Some(level) => levels.saturating_sub(level).min(LEVELS_MAX),
            None => 0,
        }
    }

    /// The bytes that a scan should read behind its first block.
    #[inline]
    pub fn expected(&self, index: usize) -> u64 {
        let mean = self.0[index].load(Ordering::Relaxed);
        (mean + mean / 2 + PAGE / 2) / PAGE * PAGE
    }

    /// Notes what a scan needed behind its first block.
    pub fn note(&self, index: usize, bytes: u64) {
        let mean = self.0[index].load(Ordering::Relaxed);
        let next = (mean * 7 + bytes.min(AHEAD_MAX)) / 8;
        if next != mean {
            self.0[index].store(next, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_the_scans_and_has_a_bound() {
        let habits = Habits::default();
        assert_eq!(habits.expected(1), 0);
        (0..60).for_each(|_| habits.note(1, 10_000));
        assert_eq!(habits.expected(1), 16 << 10);
        assert_eq!(habits.expected(2), 0, "another level");
        (0..60).for_each(|_| habits.note(1, 0));
        assert_eq!(habits.expected(1), 0, "seeks alone");
        habits.note(1, 20_000);
        assert_eq!(habits.expected(1), 4 << 10, "one scan among seeks");
        (0..60).for_each(|_| habits.note(1, u64::MAX / 2));
        assert!(habits.expected(1) <= AHEAD_MAX * 3 / 2);
    }
}
