//! How many bytes the scans of a keyspace need of each level, so that a scan that has to read takes
//! them with its first read, instead of a block and then more and more.
//!
//! Algorithm: a moving mean for each level, in which the last scan counts an eighth. A scan reads
//! the mean, and of what it has beyond a block half as much again, because scans differ. If scans
//! end at their first pair, the mean is a block, and a seek reads no more than that. Only scans
//! that had to read are counted, so scans in memory write to no shared memory.
//!
//! Levels are counted from the last one, because the last one keeps its share of a scan when the
//! tree grows. All runs of L0 share one mean.
//!
//! Threads and locks: relaxed atomics; of two scans that end at the same time one may not count.

use std::sync::atomic::{AtomicU64, Ordering};
use vlsm_core::Version;
use vlsm_core::version::LEVELS_MAX;
use vlsm_disk::sst::AHEAD_MAX;

/// The usual size of a block.
const BLOCK: u64 = 4 << 10;

/// The mean bytes of scans by level.
#[derive(Debug, Default)]
pub(crate) struct Habits([AtomicU64; LEVELS_MAX + 1]);

impl Habits {
    /// The index of a run, of which a walk has passed `newer` others that are newer.
    pub fn index(version: &Version, newer: usize) -> usize {
        let levels = version.levels.iter().filter(|tables| !tables.is_empty()).count();
        match newer.checked_sub(version.l0.len()) {
            Some(level) => levels.saturating_sub(level).min(LEVELS_MAX),
            None => 0,
        }
    }

    /// The bytes that a scan should read of a run.
    #[inline]
    pub fn expected(&self, index: usize) -> u64 {
        let mean = self.0[index].load(Ordering::Relaxed);
        let wanted = mean + mean.saturating_sub(BLOCK) / 2;
        (wanted + BLOCK / 2) / BLOCK * BLOCK
    }

    /// Notes what a scan needed of a run.
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
        assert_eq!(habits.expected(1), 12 << 10);
        assert_eq!(habits.expected(2), 0, "another level");
        (0..60).for_each(|_| habits.note(1, 4_096));
        assert_eq!(habits.expected(1), 4 << 10);
        habits.note(1, 20_000);
        assert_eq!(habits.expected(1), 8 << 10, "one long scan");
        (0..60).for_each(|_| habits.note(1, u64::MAX / 2));
        assert!(habits.expected(1) <= AHEAD_MAX * 3 / 2);
    }
}
