//! The options that all mechanisms share: the sizes of a tree, and the bounds of the work on it. An
//! option that only one mechanism reads is in the file of that mechanism.

use crate::smaller::{Pick, Scale};
use serde::{Deserialize, Serialize};
use vlsm_core::version::LEVELS_MAX;
use vlsm_core::{Bytes, BytesPerSec, Error, Result};

/// The sizes of a tree, and the bounds of the work on it. [`Default`] is vLSM's with SSTs of 8 MB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TreeOptions {
    /// Size at which the active memtable is sealed.
    pub memtable_bytes: Bytes,
    /// The most memtables, including the active one.
    pub memtable_count: usize,
    /// S_M: size of an SST.
    pub sst_max: Bytes,
    /// f: growth factor of the levels.
    pub growth: u64,
    /// Target of L1.
    pub l1_bytes: Bytes,
    /// The most levels below L0; the last one has no target. (The shape `flsm` has its own number.)
    pub levels: u8,
    /// The number of runs in L0 that starts their compaction. In `blsm`, the number of memtables
    /// that are gathered before a merge (`sp_lsm` has `gather` for this). The value 1 costs nothing
    /// in shapes that compact runs one by one.
    pub l0_trigger: usize,
    /// Runs in L0 at which flushes wait (shapes `vlsm`, `lsmi` and `flsm`). It is L0's maximum.
    pub l0_max: usize,
    /// Runs in L0 at which writes are slowed down.
    pub l0_slowdown: usize,
    /// Runs in L0 at which writes are stopped.
    pub l0_stop: usize,
    /// Bytes by which each level may exceed its target before merges into it wait ("overflow" or
    /// debt in vLSM (2024), §5). None: no bound, so no level ever waits for the next. In the shapes
    /// `vlsm` (`l1_limit`) and `lsmi` L1 may not exceed its target.
    #[serde(with = "limit")]
    pub overflow: Option<Bytes>,
    /// Bytes owed to compaction, over all levels, at which writes are slowed down.
    #[serde(with = "limit")]
    pub debt_soft: Option<Bytes>,
    /// Bytes owed to compaction, over all levels, at which writes are stopped.
    #[serde(with = "limit")]
    pub debt_hard: Option<Bytes>,
    /// Move tables that overlap nothing instead of rewriting them.
    pub trivial_move: bool,
    /// A table is not moved when it overlaps more than this many SST sizes in the level after the
    /// next: its own compaction would become too wide (RocksDB's `max_compaction_bytes`).
    pub trivial_move_overlap: u64,
    /// The most concurrent compactions; 0 for one per worker.
    pub compaction_jobs: usize,
    /// The device's bandwidth for schedules that plan with it; 0 for the least measured throughput.
    pub device_bandwidth: BytesPerSec,
    /// Jobs leave clients their share of a slow device: they get a rate while their calls take long
    /// and clients wait for the device. No paper's engine does this.
    pub jobs_yield: bool,
    /// Compactions keep what they rewrite in the block cache, if it was there. No paper's engine
    /// does this.
    pub cache_rewrites: bool,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            memtable_bytes: Bytes::mib(8),
            memtable_count: 2,
            sst_max: Bytes::mib(8),
            growth: 8,
            l1_bytes: Bytes::mib(64),
            levels: 7,
            l0_trigger: 1,
            l0_max: 20,
            l0_slowdown: 16,
            l0_stop: 36,
            overflow: Some(Bytes::mib(64)),
            debt_soft: None,
            debt_hard: None,
            trivial_move: true,
            trivial_move_overlap: 25,
            compaction_jobs: 0,
            device_bandwidth: BytesPerSec::ZERO,
            jobs_yield: false,
            cache_rewrites: false,
        }
    }
}

impl TreeOptions {
    /// Target of a level, 1 or deeper, where the step from L1 to L2 has this factor. None for the
    /// last level.
    pub(crate) fn target(&self, level: u8, l1_to_l2: u64) -> Option<Bytes> {
        if level >= self.levels {
            return None;
        }
        let mut target = self.l1_bytes.0;
        for step in 1..level {
            let factor = if step == 1 { l1_to_l2 } else { self.growth };
            target = target.saturating_mul(factor);
        }
        // Leaves room for the addition of more bytes without overflow.
        Some(Bytes(target.min(u64::MAX / 4)))
    }

    /// Refuses values that cannot work, each with the reason.
    ///
    /// # Errors
    /// [`Error::InvalidOption`].
    pub(crate) fn check(&self) -> Result<()> {
        all_hold([
            (
                (4 << 10..=16 << 30).contains(&self.memtable_bytes.0),
                "memtable_bytes",
                "must be from 4 KB to 16 GB",
            ),
            (
                (2..=64).contains(&self.memtable_count),
                "memtable_count",
                "must be from 2 (one takes writes while the other is flushed) to 64",
            ),
            (self.sst_max.0 >= 4 << 10, "sst_max", "must be at least 4 KB"),
            (
                self.sst_max.0 <= 16 << 30,
                "sst_max",
                "must be at most 16 GB: larger SSTs make every compaction as large",
            ),
            (
                (2..=1 << 10).contains(&self.growth),
                "growth",
                "must be from 2 to 1024: each level is this much larger than the one above",
            ),
            (
                self.l1_bytes >= self.sst_max,
                "l1_bytes",
                "must be at least sst_max: L1 has to hold one SST",
            ),
            (
                (1..=LEVELS_MAX as u8).contains(&self.levels),
                "levels",
                "must be from 1 to 15: the manifest knows no more levels",
            ),
        ])?;
        self.check_bounds()
    }

    /// The bounds of L0, of debt and of the work.
    fn check_bounds(&self) -> Result<()> {
        all_hold([
            ((1..=1 << 20).contains(&self.l0_trigger), "l0_trigger", "must be from 1 to 1048576"),
            (
                self.l0_max >= self.l0_trigger,
                "l0_max",
                "must be at least l0_trigger, or flushes would wait for ever",
            ),
            (self.l0_slowdown >= 1, "l0_slowdown", "must be at least 1"),
            (
                self.l0_stop >= self.l0_slowdown && self.l0_stop > self.l0_trigger,
                "l0_stop",
                "must be at least l0_slowdown and more than l0_trigger",
            ),
            (
                at_most(self.debt_soft, self.debt_hard),
                "debt_hard",
                "must be at least debt_soft: writes are slowed down before they are stopped",
            ),
            (self.compaction_jobs <= 256, "compaction_jobs", "must be at most 256"),
            (
                self.device_bandwidth.0 == 0 || self.device_bandwidth.0 >= 1 << 20,
                "device_bandwidth",
                "must be at least 1 MB/s, or 0: what was measured",
            ),
        ])
    }

    /// Makes every size smaller by the same factor, so that their ratios stay.
    pub(crate) fn scale(&mut self, by: Scale) {
        for size in [&mut self.memtable_bytes, &mut self.sst_max, &mut self.l1_bytes] {
            *size = by.bytes(*size);
        }
        for limit in [&mut self.overflow, &mut self.debt_soft, &mut self.debt_hard] {
            *limit = limit.map(|bytes| if bytes.0 == 0 { bytes } else { by.bytes(bytes) });
        }
    }

    /// Draws sizes so small that a few thousand writes reach the third level.
    pub(crate) fn shrink(&mut self, pick: &mut Pick<'_>) {
        let sst = Bytes::kib(pick.of(&[4, 8, 16]));
        self.sst_max = sst;
        self.memtable_bytes = Bytes::kib(pick.of(&[4, 8, 16, 64]));
        self.memtable_count = pick.of(&[2, 3, 4]);
        self.growth = pick.of(&[2, 4, 8]);
        self.l1_bytes = sst * pick.of(&[1, 4, 8]);
        self.levels = pick.of(&[2, 3, 4, 5, 6, 7]);
        let more = [0, 1, 2, 3, 4, 5];
        self.l0_trigger = pick.of(&[1, 1, 4]);
        self.l0_max = self.l0_trigger + pick.of(&more);
        self.l0_slowdown = self.l0_trigger + pick.of(&more);
        self.l0_stop = self.l0_slowdown.max(self.l0_trigger + 1) + pick.of(&more);
        self.overflow = pick.of(&[None, Some(Bytes::ZERO), Some(Bytes::kib(64))]);
        self.debt_soft = pick.of(&[None, None, Some(Bytes::kib(32))]);
        self.debt_hard = self.debt_soft.map(|soft| soft * 4);
        self.trivial_move = pick.of(&[true, true, true, false]);
        // Not drawn, so that the later draws stay the same.
        self.jobs_yield = self.growth == 4;
        self.cache_rewrites = self.growth != 4;
    }
}

/// Refuses the first option whose rule does not hold: whether it does, the option, and the reason.
pub(crate) fn all_hold(
    rules: impl IntoIterator<Item = (bool, &'static str, &'static str)>,
) -> Result<()> {
    match rules.into_iter().find(|(holds, ..)| !holds) {
        Some((_, option, why)) => Err(Error::InvalidOption { option, why: why.into() }),
        None => Ok(()),
    }
}

/// Whether a soft limit is not above a hard one.
fn at_most(soft: Option<Bytes>, hard: Option<Bytes>) -> bool {
    match (soft, hard) {
        (Some(soft), Some(hard)) => soft <= hard,
        _ => true,
    }
}

/// A limit in a file: a number of bytes, or the word `none` (TOML knows no null).
mod limit {
    use serde::{Deserialize, Deserializer, Serializer};
    use vlsm_core::Bytes;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Limit {
        None(Unlimited),
        Bytes(Bytes),
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Unlimited {
        None,
    }

    pub fn serialize<S: Serializer>(limit: &Option<Bytes>, to: S) -> Result<S::Ok, S::Error> {
        match limit {
            Some(bytes) => to.serialize_u64(bytes.0),
            None => to.serialize_str("none"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
        match Limit::deserialize(from) {
            Ok(Limit::Bytes(bytes)) => Ok(Some(bytes)),
            Ok(Limit::None(Unlimited::None)) => Ok(None),
            Err(_) => Err(serde::de::Error::custom(
                "a limit is a number of bytes, a size such as \"64M\", or \"none\"",
            )),
        }
    }
}
