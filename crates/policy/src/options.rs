//! The options of the three axes in one value that can be written to a file and read back.
//!
//! It has every number that a paper leaves open, or that a mechanism's source makes configurable;
//! the constructors of shapes, schedules and admissions take the ones they need.

use crate::admission::cruise::{CruiseOptions, First};
use crate::schedule::adoc::AdocOptions;
use crate::schedule::auto_tuned::AutoTunedOptions;
use crate::schedule::dlc::{Burst, Delay, DlcOptions};
use crate::schedule::priority::PriorityOptions;
use crate::schedule::silk::SilkOptions;
use crate::shape::Overlap;
use serde::{Deserialize, Serialize};
use vlsm_core::version::LEVELS_MAX;
use vlsm_core::{Bytes, BytesPerSec, Error, Result};

/// The mechanisms of a tree, and their sizes. [`Default`] is the profile `vlsm`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PolicyOptions {
    /// Name of the shape: `vlsm`, `tiered_l0`, `lsmi` or `sp_lsm`.
    pub shape: String,
    /// Name of the schedule: `fifo`, `silk`, `auto_tuned`, `dlc`, `adoc` or `priority`.
    pub schedule: String,
    /// Name of the admission: `open`, `slowdown_stop` or `cruise`.
    pub admission: String,
    /// Size at which the active memtable is sealed.
    pub memtable_bytes: Bytes,
    /// The most memtables, including the active one.
    pub memtable_count: usize,
    /// S_M: size of an SST.
    pub sst_max: Bytes,
    /// S_m: least size of a vSST (shape `vlsm`).
    pub sst_min: Bytes,
    /// f: growth factor of the levels, and the overlap a good vSST may have at most.
    pub growth: u64,
    /// Φ: growth factor from L1 to L2 (shape `vlsm`; the others use `growth`).
    pub phi: u64,
    /// Target of L1.
    pub l1_bytes: Bytes,
    /// The most levels below L0; the last one has no target.
    pub levels: u8,
    /// How the overlap of a vSST is counted.
    pub overlap: Overlap,
    /// Runs in L0 at which their compaction starts; for `sp_lsm`, memtables that are gathered. The
    /// value 1 costs nothing in shapes that compact runs one by one.
    pub l0_trigger: usize,
    /// Runs in L0 at which flushes wait (shapes `vlsm` and `lsmi`). It is L0's maximum.
    pub l0_max: usize,
    /// Runs in L0 at which writes are slowed down.
    pub l0_slowdown: usize,
    /// Runs in L0 at which writes are stopped.
    pub l0_stop: usize,
    /// Merge runs within L0 while L0→L1 is busy (shape `tiered_l0`).
    pub intra_l0: bool,
    /// `tiered_l0`: propose merges within L0 also where L0→L1 could start.
    pub intra_l0_beside: bool,
    /// Flushed runs in L0 at which a merge of only them is proposed, independent of other rules
    /// (shape `tiered_l0`, for DLC's `resume part`); 0 for never.
    pub merge_flushed: usize,
    /// Bytes by which each level may exceed its target before merges into it wait ("overflow" or
    /// debt in vLSM (2024), §5). None: no bound, so no level ever waits for the next.
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
    /// The initial rate of delayed writes.
    pub delayed_write_rate: BytesPerSec,
    /// The most concurrent compactions; 0 for one per worker.
    pub compaction_jobs: usize,
    /// The device's bandwidth for schedules that plan with it; 0 for the least measured throughput.
    pub device_bandwidth: BytesPerSec,
    /// Constants of the schedule `silk`.
    pub silk: SilkOptions,
    /// Constants of the schedule `auto_tuned`.
    pub auto_tuned: AutoTunedOptions,
    /// Constants of the schedule `dlc`.
    pub dlc: DlcOptions,
    /// Constants of the schedule `adoc`.
    pub adoc: AdocOptions,
    /// Constants of the schedule `priority`.
    pub priority: PriorityOptions,
    /// Constants of the admission `cruise`.
    pub cruise: CruiseOptions,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self::vlsm(Bytes::mib(8))
    }
}

impl PolicyOptions {
    /// vLSM at an SST size: one S_M each for memtables and SSTs, L1 = f · S_M, and Φ such that L2
    /// stays at 2 GB (vLSM (2024), §4.2 and §6.3).
    #[must_use]
    pub fn vlsm(sst_max: Bytes) -> Self {
        let growth = 8;
        let l1_bytes = Bytes(sst_max.0.saturating_mul(growth).max(1));
        Self {
            shape: "vlsm".into(),
            schedule: "fifo".into(),
            admission: "slowdown_stop".into(),
            memtable_bytes: sst_max,
            memtable_count: 2,
            sst_max,
            sst_min: sst_max / growth,
            growth,
            phi: (Bytes::mib(2048).0 / l1_bytes.0).max(growth),
            l1_bytes,
            levels: 7,
            overlap: Overlap::Count,
            l0_trigger: 1,
            l0_max: 20,
            l0_slowdown: 16,
            l0_stop: 36,
            intra_l0: false,
            intra_l0_beside: false,
            merge_flushed: 0,
            overflow: Some(Bytes::mib(64)),
            debt_soft: None,
            debt_hard: None,
            trivial_move: true,
            trivial_move_overlap: 25,
            delayed_write_rate: BytesPerSec(16 << 20),
            compaction_jobs: 0,
            device_bandwidth: BytesPerSec::ZERO,
            silk: SilkOptions::default(),
            auto_tuned: AutoTunedOptions::default(),
            dlc: DlcOptions::default(),
            adoc: AdocOptions::default(),
            priority: PriorityOptions::default(),
            cruise: CruiseOptions::default(),
        }
    }

    /// The default: RocksDB's shape with memtables, SSTs and L1 of an eighth to a quarter of its
    /// sizes (docs/performance.md, "The default"). Small memtables stay in the processor's cache,
    /// and jobs are narrow. L0 may have more runs before writes are held back, because each is
    /// small. None of its mechanisms plans with the device, so nothing is measured when a store is
    /// created.
    #[must_use]
    pub fn steady() -> Self {
        Self {
            memtable_bytes: Bytes::mib(8),
            sst_max: Bytes::mib(8),
            sst_min: Bytes::mib(8),
            l1_bytes: Bytes::mib(64),
            l0_max: 150,
            l0_slowdown: 100,
            l0_stop: 150,
            ..Self::rocksdb()
        }
    }

    /// RocksDB in the papers' configuration, with RocksDB's own debt limits (vLSM (2024), §5 and
    /// §3.1).
    #[must_use]
    pub fn rocksdb() -> Self {
        Self {
            shape: "tiered_l0".into(),
            memtable_bytes: Bytes::mib(64),
            sst_max: Bytes::mib(64),
            sst_min: Bytes::mib(64),
            phi: 8,
            l1_bytes: Bytes::mib(256),
            l0_trigger: 4,
            l0_max: 36,
            l0_slowdown: 20,
            l0_stop: 36,
            intra_l0: true,
            overflow: None,
            debt_soft: Some(Bytes::mib(64 << 10)),
            debt_hard: Some(Bytes::mib(256 << 10)),
            ..Self::default()
        }
    }

    /// DLC in its paper's configuration (DLC (2021), §6.1): five levels, L0 among them.
    #[must_use]
    pub fn dlc() -> Self {
        Self {
            schedule: "dlc".into(),
            admission: "open".into(),
            memtable_bytes: Bytes::mib(128),
            memtable_count: 2,
            growth: 10,
            phi: 10,
            l1_bytes: Bytes::mib(2048),
            levels: 4,
            l0_max: 100,
            l0_slowdown: 100,
            l0_stop: 100,
            ..Self::rocksdb()
        }
    }

    /// CruiseDB: no L0 and 12 memtables (CruiseDB (2021), §VI.B). The rest as in [`Self::rocksdb`],
    /// so that they can be compared; the paper names no other sizes.
    #[must_use]
    pub fn cruise() -> Self {
        Self {
            shape: "sp_lsm".into(),
            schedule: "priority".into(),
            admission: "cruise".into(),
            memtable_count: 12,
            debt_soft: None,
            debt_hard: None,
            cruise: CruiseOptions { first: First::Window, ..CruiseOptions::default() },
            ..Self::rocksdb()
        }
    }

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
    pub fn validate(&self) -> Result<()> {
        let rules = [
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
                self.sst_min.0 >= 1 && self.sst_min <= self.sst_max,
                "sst_min",
                "must be from 1 byte up to sst_max",
            ),
            (
                (2..=1 << 10).contains(&self.growth),
                "growth",
                "must be from 2 to 1024: each level is this much larger than the one above",
            ),
            ((2..=1 << 20).contains(&self.phi), "phi", "must be from 2 to 1048576"),
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
            (
                (16 << 10..=1 << 40).contains(&self.delayed_write_rate.0),
                "delayed_write_rate",
                "must be from 16 KB/s to 1 TB/s",
            ),
            (self.compaction_jobs <= 256, "compaction_jobs", "must be at most 256"),
        ];
        all_hold(rules)?;
        self.check_mechanisms()?;
        self.check_together()
    }

    /// The constants of every mechanism, in use or not.
    fn check_mechanisms(&self) -> Result<()> {
        self.silk.check()?;
        self.auto_tuned.check()?;
        self.dlc.check()?;
        self.adoc.check()?;
        self.priority.check()?;
        self.cruise.check()
    }

    /// The device, and what a mechanism in use needs of another axis' options.
    fn check_together(&self) -> Result<()> {
        let dlc = (self.schedule == "dlc").then_some(&self.dlc);
        let tiered = self.shape == "tiered_l0";
        let rules = [
            (
                self.device_bandwidth.0 == 0 || self.device_bandwidth.0 >= 1 << 20,
                "device_bandwidth",
                "must be at least 1 MB/s, or 0: what was measured",
            ),
            (
                dlc.is_none_or(|dlc| {
                    let merges = (2..=dlc.burst_runs).contains(&self.merge_flushed);
                    dlc.burst != Burst::Part || tiered && merges
                }),
                "dlc.burst",
                "part needs shape tiered_l0 and merge_flushed from 2 to dlc.burst_runs: from how \
                 many flushed runs on the shape proposes to merge them",
            ),
            (
                dlc.is_none_or(|dlc| {
                    let merges = self.intra_l0 && self.intra_l0_beside;
                    dlc.delay != Delay::Part || tiered && merges
                }),
                "dlc.delay",
                "part needs shape tiered_l0 with intra_l0 and intra_l0_beside: merges within L0 \
                 while L0→L1 waits",
            ),
        ];
        all_hold(rules)
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
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use vlsm_core::Bytes;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Word(String),
    }

    pub fn serialize<S: Serializer>(limit: &Option<Bytes>, to: S) -> Result<S::Ok, S::Error> {
        match limit {
            Some(bytes) => to.serialize_u64(bytes.0),
            None => to.serialize_str("none"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
        match Either::deserialize(from)? {
            Either::Number(bytes) => Ok(Some(Bytes(bytes))),
            Either::Word(word) if word == "none" => Ok(None),
            Either::Word(word) => Err(D::Error::custom(format!(
                "a limit is a number of bytes or \"none\", not {word:?}"
            ))),
        }
    }
}
