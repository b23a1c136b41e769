//! The compaction debt that a phase left: work that its writes caused and that later phases have to
//! do.
//!
//! A store that lets its levels grow beyond their targets postpones the work. Its throughput and
//! its latencies in such a phase are those of a part of the work.
//!
//! 1. The size of a level is its bytes ÷ its target. L0 has no target; its size is its bytes ÷ the
//!    larger one of L1's target and of the runs that start its compaction. The last level, whose
//!    target is unlimited, has no debt.
//! 2. A level's bound is [`BOUND`], or its size when the phase began if that was larger. L0 grows
//!    by whole memtables: it may have one more than when the phase began.
//! 3. Sizes vary: a compaction of L0 brings as much to L1 at once as L1 holds. So the best moment
//!    within the last fifth of the phase counts, at which the level that is furthest beyond its
//!    bound exceeds it the least. All levels count at the same moment.
//! 4. The debt is bounded if no level is beyond its bound at that moment. So a debt that is paid
//!    within the phase, as in the valley behind a burst, is no debt.

use super::{PhaseReport, Report, Sample};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest size of a level, in targets, that is no debt.
pub const BOUND: f64 = 1.2;

/// The level that is furthest beyond its bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Debt {
    /// Its number.
    pub level: usize,
    /// Its size in targets when the phase began.
    pub start: f64,
    /// Its size in targets at the best moment in the last fifth of the phase.
    pub end: f64,
    /// The growth of L0 by one flush, in targets; 0 for other levels.
    #[serde(default)]
    pub flush: f64,
}

impl Debt {
    /// Its size ÷ its bound.
    #[must_use]
    pub fn beyond(&self) -> f64 {
        self.end / (self.start + self.flush).max(BOUND)
    }

    /// Whether it is within its bound, and with it all others.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.beyond() <= 1.0
    }
}

/// The level and its sizes, such as `L1 at 5.80 targets (at first 0.95)`.
impl fmt::Display for Debt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, start, end, .. } = self;
        write!(f, "L{level} at {end:.2} targets (at first {start:.2})")
    }
}

impl PhaseReport {
    /// The debt that the phase left. `l0_trigger` is the bytes in L0 that start its compaction,
    /// `flush` those that one flush adds.
    /// `None` if the store does not report targets of its levels.
    #[must_use]
    pub fn debt(&self, l0_trigger: u64, flush: u64) -> Option<Debt> {
        let told = |level: usize| self.store.levels.get(level)?.target.filter(|target| *target > 0);
        let mut targets: Vec<(usize, u64)> =
            (1..self.store.levels.len()).filter_map(|level| Some((level, told(level)?))).collect();
        let (_, first) = targets.first()?;
        targets.insert(0, (0, l0_trigger.max(*first)));
        let size = |sample: &Sample, (level, target): (usize, u64)| {
            sample.levels.get(level).copied().unwrap_or(0) as f64 / target as f64
        };
        let worst = |sample: &Sample| {
            let level = |&target: &(usize, u64)| {
                let start = self.samples.first().map_or(0.0, |first| size(first, target));
                let flush = if target.0 == 0 { flush as f64 / target.1 as f64 } else { 0.0 };
                Debt { level: target.0, start, end: size(sample, target), flush }
            };
            targets.iter().map(level).max_by(|a, b| a.beyond().total_cmp(&b.beyond()))
        };
        let end = self.samples.last()?.at;
        let last = self.samples.iter().filter(|sample| sample.at >= end * 0.8);
        last.filter_map(worst).min_by(|a, b| a.beyond().total_cmp(&b.beyond()))
    }
}

impl Report {
    /// The debt that a phase of this run left ([`PhaseReport::debt`]).
    #[must_use]
    pub fn debt(&self, phase: &PhaseReport) -> Option<Debt> {
        let (trigger, flush) = self.method.spec.as_ref().map_or((0, 0), |spec| {
            let tree = &spec.store.options.policy.tree;
            let flush = tree.memtable_bytes.0.saturating_mul(spec.store.regions.max(1) as u64);
            (flush.saturating_mul(tree.l0_trigger as u64), flush)
        });
        phase.debt(trigger, flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::LevelStats;

    /// A phase of ten seconds with these levels, in percent of their targets, at each second. L1
    /// and L2 have a target of 100 bytes; L3 has none.
    fn phase(seconds: &[[u64; 4]]) -> PhaseReport {
        let level = |target| LevelStats { target, ..LevelStats::default() };
        let levels = vec![level(None), level(Some(100)), level(Some(100)), level(None)];
        let sample = |(second, levels): (usize, &[u64; 4])| {
            let at = second as f64 * 10.0 / (seconds.len() - 1) as f64;
            Sample { at, levels: levels.to_vec(), ..Sample::default() }
        };
        let mut phase = PhaseReport::default();
        phase.store.levels = levels;
        phase.samples = seconds.iter().enumerate().map(sample).collect();
        phase
    }

    #[test]
    fn a_level_may_be_a_fifth_beyond_its_target_or_as_at_first() {
        let debt = |seconds: &[[u64; 4]]| phase(seconds).debt(0, 0).expect("targets are told");
        let [calm, full] = [[0, 100, 100, 900], [0, 119, 120, 2000]];
        assert!(debt(&[calm, full]).is_bounded(), "and the last level may grow");
        let grown = debt(&[calm, [0, 100, 130, 900]]);
        assert!(!grown.is_bounded());
        assert_eq!(grown.to_string(), "L2 at 1.30 targets (at first 1.00)");
        assert!(debt(&[[0, 580, 100, 0], [0, 570, 100, 0]]).is_bounded(), "it was there before");
        assert!(!debt(&[[0, 580, 100, 0], [0, 590, 100, 0]]).is_bounded(), "and grew");
    }

    #[test]
    fn what_counts_is_the_best_moment_of_the_last_fifth() {
        let [wide, paid] = [[0, 250, 100, 0], [0, 110, 110, 0]];
        let mut seconds = vec![wide; 11];
        seconds[0] = paid;
        assert!(!phase(&seconds).debt(0, 0).expect("told").is_bounded());
        seconds[5] = paid;
        assert!(!phase(&seconds).debt(0, 0).expect("told").is_bounded(), "it grew again");
        seconds[9] = paid;
        assert!(phase(&seconds).debt(0, 0).expect("told").is_bounded());
        // Levels that are within their bounds at different moments are never all within them at
        // once.
        (seconds[8], seconds[9], seconds[10]) = ([0, 100, 300, 0], wide, wide);
        assert!(!phase(&seconds).debt(0, 0).expect("told").is_bounded());
    }

    #[test]
    fn l0_may_have_what_l1_holds_or_the_runs_that_start_its_compaction() {
        let seconds = [[0, 100, 100, 0], [150, 100, 100, 0]];
        let debt = phase(&seconds).debt(0, 0).expect("told");
        assert_eq!((debt.level, debt.end, debt.is_bounded()), (0, 1.5, false));
        assert!(phase(&seconds).debt(128, 0).expect("told").is_bounded());
        let seconds = [[230, 100, 100, 0], [250, 100, 100, 0]];
        assert!(!phase(&seconds).debt(0, 0).expect("told").is_bounded());
        assert!(!phase(&seconds).debt(0, 19).expect("told").is_bounded());
        assert!(phase(&seconds).debt(0, 20).expect("told").is_bounded(), "one flush more");
    }

    #[test]
    fn a_store_without_targets_does_not_tell_its_debt() {
        let mut phase = phase(&[[0, 100, 100, 0], [0, 900, 100, 0]]);
        phase.store.levels.iter_mut().for_each(|level| level.target = None);
        assert_eq!(phase.debt(0, 0), None);
    }
}
