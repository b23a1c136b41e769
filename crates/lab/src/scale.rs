//! One factor for a whole experiment. It divides sizes of memory, trees and data, numbers of
//! operations and lengths of bursts; every ratio between them stays.
//!
//! Rates are not scaled, because they belong to the machine. A tenth of the bytes at the same rate
//! takes a tenth of the time, so a burst of a tenth of its length fills the same share of a
//! memtable. The block of an SST (4 KB), a pair and the cost of a file cannot shrink. At 1/64 an
//! SST of vLSM has 128 KB and its least vSST four blocks. Below that such costs dominate, so
//! smaller factors are refused: vLSM takes 90,000 inserts per second at full size, 19,000 at 1/64
//! and 2,800 at 1/256 (single runs).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use vlsm::Options;
use vlsm_core::Bytes;
use vlsm_measure::spec::StoreSpec;

/// A factor by which everything is smaller: 1 is the papers' size, 64 a sixty-fourth of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scale(u64);

impl Scale {
    /// The papers' sizes.
    pub const FULL: Self = Self(1);
    /// The default scale of a campaign. 100 compaction chains take about a minute at it.
    pub const CAMPAIGN: Self = Self(32);
    /// The smallest scale at which stores with small SSTs are judged.
    pub const SMALL_SSTS: Self = Self(8);
    /// The scale for smoke tests, which show that everything works and measure nothing.
    pub const SMOKE: Self = Self(64);

    /// Whether this scale is too small to measure with.
    #[must_use]
    pub fn is_smoke(self) -> bool {
        self.0 >= Self::SMOKE.0
    }

    /// Whether a store with small SSTs can be judged at this scale. Below 1/8 an SST of 8 MB has
    /// less than 1 MB: the costs of a file, a block and a sync, which do not shrink, decide.
    #[must_use]
    pub fn judges_small_ssts(self) -> bool {
        self.0 <= Self::SMALL_SSTS.0
    }

    /// A number of the papers at this scale; at least one.
    #[must_use]
    pub fn count(self, full: u64) -> u64 {
        self.policies().count(full)
    }

    /// Seconds of the papers at this scale.
    #[must_use]
    pub fn seconds(self, full: f64) -> f64 {
        full / self.0 as f64
    }

    fn policies(self) -> vlsm_policy::smaller::Scale {
        vlsm_policy::smaller::Scale(self.0)
    }

    /// The factor.
    #[must_use]
    pub fn factor(self) -> u64 {
        self.0
    }

    /// Options at this scale. It scales sizes of the tree and of memory, numbers of operations, and
    /// times of policies, which stay at a millisecond or more.
    #[must_use]
    pub fn options(self, mut options: Options) -> Options {
        let scale = self.policies();
        options.policy.scale(scale);
        options.wal_file_bytes = scale.bytes(options.wal_file_bytes).max(Bytes::mib(1));
        options.quantum = scale.bytes(options.quantum).max(Bytes::kib(32));
        options
    }

    /// A store at this scale.
    #[must_use]
    pub fn store(self, spec: StoreSpec) -> StoreSpec {
        let cache = self.count(spec.cache).max(1 << 20);
        StoreSpec { options: self.options(spec.options), cache, ..spec }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("full"),
            factor => write!(f, "1/{factor}"),
        }
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = match text {
            "full" => 1,
            "campaign" => Self::CAMPAIGN.0,
            "smoke" => Self::SMOKE.0,
            _ => text.strip_prefix("1/").unwrap_or(text).parse().map_err(|_| {
                format!("{text:?} is no scale: use full, campaign, smoke, or a share such as 1/16")
            })?,
        };
        if !(1..=Self::SMOKE.0).contains(&factor) {
            return Err(format!(
                "1/{factor} is too small to keep the papers' ratios: blocks of 4 KB and the cost \
                 of a file do not shrink with it; the smallest is smoke, 1/{}",
                Self::SMOKE.0
            ));
        }
        Ok(Self(factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vlsm::PolicyOptions;

    /// Ratios that a scale must not change.
    fn ratios(policy: &PolicyOptions) -> [f64; 7] {
        let memtable = policy.tree.memtable_bytes.0 as f64;
        [
            policy.tree.sst_max.0 as f64 / memtable,
            policy.shapes.vlsm.sst_min.0 as f64 / memtable,
            policy.tree.l1_bytes.0 as f64 / memtable,
            policy.tree.overflow.map_or(-1.0, |bytes| bytes.0 as f64 / memtable),
            policy.tree.debt_soft.map_or(-1.0, |bytes| bytes.0 as f64 / memtable),
            policy.schedules.adoc.batch.0 as f64 / memtable,
            policy.schedules.dlc.interval.0 as f64 / memtable,
        ]
    }

    #[test]
    fn every_ratio_of_every_profile_stays() {
        for profile in vlsm::PROFILES {
            let mut options = Options::default();
            options.policy = profile.options().expect("it is whole");
            let small = Scale::CAMPAIGN.options(options.clone());
            assert_eq!(ratios(&small.policy), ratios(&options.policy), "{}", profile.name);
            assert_eq!(small.policy.shapes.vlsm.phi, options.policy.shapes.vlsm.phi);
            small.policy.build().expect(profile.name);
        }
    }

    #[test]
    fn scales_are_read_and_refused() {
        assert_eq!("1/16".parse(), Ok(Scale(16)));
        assert_eq!("full".parse(), Ok(Scale::FULL));
        assert_eq!(Scale(16).to_string().parse(), Ok(Scale(16)));
        assert_eq!("smoke".parse::<Scale>().map(Scale::is_smoke), Ok(true));
        for wrong in ["0", "1/0", "1/1000", "half"] {
            assert!(wrong.parse::<Scale>().is_err(), "{wrong}");
        }
        assert_eq!(Scale(16).count(350), 21);
        assert_eq!(Scale(16).count(3), 1, "never nothing");
    }
}
