//! A run as plain values: the store, the data, the steps and the limits. Whoever has a [`RunSpec`]
//! can do the run again; it is what a campaign stores, what goes to the process that does the run,
//! and what a report carries.
//!
//! A run is done by a process of its own, so that memory, processor time and device bytes are those
//! of one store only. That process is this program for our engine and the program of `peers/` for
//! the others.

use crate::arrivals::{Arrivals, Pattern};
use crate::workload::Workload;
use crate::workload::data::{Data, Shape};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use vlsm::Options;
use vlsm_core::Bytes;

/// All of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The store.
    pub store: StoreSpec,
    /// Its data.
    pub data: DataSpec,
    /// How the data gets there before the first step; the steps do it where there is nothing.
    #[serde(default)]
    pub load: Option<LoadSpec>,
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// Client threads.
    pub threads: usize,
    /// What the process may use.
    #[serde(default)]
    pub limits: Limits,
    /// For keys, values and choices.
    pub seed: u64,
    /// Folder to make the store's own folder in; the system's for temporary files without it.
    #[serde(default)]
    pub dir: Option<PathBuf>,
}

impl RunSpec {
    /// The folder that the store's own folder is made in.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Bytes that the run may need on the device: what is loaded and may be written, twice over,
    /// for compactions have their inputs and outputs at once.
    #[must_use]
    pub fn disk_needed(&self) -> u64 {
        let written: u64 = self.steps.iter().map(Step::writes_at_most).sum();
        let bytes = (written as f64 * self.data.pair_bytes()) as u64;
        let bytes = bytes.saturating_add(self.loaded_bytes());
        bytes.saturating_mul(2).saturating_add(1 << 29)
    }

    /// Refuses a device with too little room.
    ///
    /// # Errors
    /// How much there is, and how much may be needed.
    pub fn check_space(&self, folder: &Path) -> Result<(), String> {
        self.check_space_for(folder, self.disk_needed())
    }

    /// Bytes of the data that is loaded beforehand, about.
    #[must_use]
    pub fn loaded_bytes(&self) -> u64 {
        match self.load {
            Some(_) => (self.data.pairs as f64 * self.data.pair_bytes() * 1.1) as u64,
            None => 0,
        }
    }

    /// About how many seconds it takes to load the data beforehand.
    #[must_use]
    pub fn load_seconds(&self) -> f64 {
        self.loaded_bytes() as f64 / 30e6
    }

    /// Refuses a device with less room than this.
    ///
    /// # Errors
    /// As [`RunSpec::check_space`].
    pub fn check_space_for(&self, folder: &Path, needed: u64) -> Result<(), String> {
        match free_bytes(folder) {
            Some(free) if free < needed => Err(format!(
                "{} has {} free, and this run may need {}: choose another folder or a smaller \
                 scale",
                folder.display(),
                Bytes(free),
                Bytes(needed),
            )),
            _ => Ok(()),
        }
    }

    /// Keys at which the store's regions begin, but for the first: they divide the keys evenly.
    #[must_use]
    pub fn splits(&self) -> Vec<Vec<u8>> {
        let data = Data::shaped(self.data.shape, self.seed);
        let regions = self.store.regions.max(1) as u128;
        let split = |region: u128| {
            let mut key = Vec::new();
            data.key_at(((region << 64) / regions) as u64, self.data.pairs, &mut key);
            key
        };
        (1..regions).map(split).collect()
    }

    /// The folder that keeps the loaded data for other runs with the same; removed by whoever asked
    /// for the runs.
    #[must_use]
    pub fn prepared(&self) -> Option<PathBuf> {
        // Of ours only the options count that it is loaded with.
        let config = if self.store.kind == "vlsm" { "" } else { &self.store.config };
        let what = (&self.store.kind, config, self.store.regions, &self.load, self.data);
        let text = serde_json::to_string(&what).expect("plain values have an encoding");
        let name = format!("vlsm-lab-data-{:08x}", crc32c::crc32c(text.as_bytes()));
        self.load.as_ref().map(|_| self.dir().join(name))
    }

    /// About how many seconds it takes: what it loads at a moderate rate, and its phases.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.steps.iter().map(Step::seconds).sum::<f64>() + 2.0
    }
}

impl Step {
    /// Records that may be written.
    fn writes_at_most(&self) -> u64 {
        let Self::Phase(phase) = self else { return 0 };
        // What is there already is written anew, and mostly merged away.
        let workload = &phase.workload;
        let [reads, missing, scans, ..] = workload.shares();
        let others = 100.0 - reads - missing - scans - workload.inserts;
        let share = (workload.inserts + others / 2.0) / 100.0;
        let rate = match &phase.offered {
            // What a trace writes is not known before it is read.
            Offered::As(Arrivals::Replay(_)) => return phase.ops.unwrap_or(0),
            Offered::As(arrivals) => arrivals.peak().unwrap_or(FASTEST).min(FASTEST),
            _ => FASTEST,
        };
        let by_time = phase.seconds.map_or(u64::MAX, |seconds| (seconds * rate) as u64);
        (phase.ops.unwrap_or(u64::MAX).min(by_time) as f64 * share) as u64
    }

    /// About how long it takes.
    fn seconds(&self) -> f64 {
        match self {
            Self::Settle(_) => 3.0,
            Self::Reopen(..) => 3.0,
            Self::Phase(phase) => {
                let by_ops = phase.ops.map_or(f64::INFINITY, |ops| ops as f64 / 90_000.0);
                let once = phase.seconds.unwrap_or(f64::INFINITY).min(by_ops);
                let once = if once.is_finite() { once } else { 60.0 };
                match phase.offered {
                    Offered::Sustainable(..) => once * 5.0,
                    _ => once + 1.0,
                }
            }
        }
    }
}

/// Writes per second of a closed loop at most, to guess how much is written.
const FASTEST: f64 = 400_000.0;

/// Bytes free on the device of a folder, where the system tells.
#[must_use]
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let device = rustix::fs::statvfs(folder).ok()?;
    Some(device.f_bavail.saturating_mul(device.f_frsize))
}

/// Bytes for buffers of compactions, whatever the scale: RocksDB's read 2 MB ahead of each input.
/// Ours may use an eighth of its limit.
const JOB_BUFFERS: u64 = 16 << 20;

/// A store and how it is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreSpec {
    /// `vlsm`, `rocksdb`, `pebble`, `fjall`, …
    pub kind: String,
    /// Of ours the profile, of others the name of a configuration; empty for the default one.
    #[serde(default)]
    pub config: String,
    /// Ours: all of it. The others take from it what they know: sizes, durability, compression,
    /// direct or buffered I/O, workers.
    pub options: Options,
    /// Bytes of the block cache: of our engine a part of its one limit, of the others beside their
    /// memtables.
    pub cache: u64,
    /// Regions the keys are split into evenly; stores without regions are opened so many times.
    pub regions: usize,
}

impl StoreSpec {
    /// With the memory that the others have in effect: memtables, cache, and beside them the
    /// indexes and filters of so many pairs, which RocksDB keeps outside of its cache (measured:
    /// 2.7 bytes a pair at 10 bits a key), and `JOB_BUFFERS`. Our engine has one limit for all of
    /// it.
    #[must_use]
    pub fn with_memory_for(mut self, pairs: u64) -> Self {
        let tree = &self.options.policy.tree;
        let regions = self.regions.max(1) as u64;
        let memtables = tree.memtable_bytes.0 * tree.memtable_count as u64 * regions;
        let tables = (pairs as f64 * 2.7) as u64;
        let limit = Bytes(memtables + self.cache + tables + JOB_BUFFERS);
        let least = Bytes(self.options.least_memory().0 * regions);
        self.options.memory_limit = limit.max(least);
        self.options.cache_limit = Some(Bytes(self.cache));
        // A WAL of all memtables, where they are larger than the default one allows for.
        self.options.wal_limit = self.options.wal_limit.max(self.options.wal_of_memtables());
        self
    }

    /// Kind and configuration of a store that is named `KIND` or `KIND:CONFIG`. The configuration
    /// of our store is a profile: `vlsm` alone is the default one, `vlsm/AXIS=MECHANISM` is the
    /// profile `vlsm` with another mechanism.
    #[must_use]
    pub fn parts(name: &str) -> (&str, &str) {
        match name.split_once(':').unwrap_or((name, "")) {
            ("vlsm", "") => ("vlsm", "steady"),
            (profile, "") if profile.starts_with("vlsm/") => ("vlsm", profile),
            parts => parts,
        }
    }

    /// `vlsm:silk`, `rocksdb`: as it is named on the command line and in reports.
    #[must_use]
    pub fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for StoreSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.config.as_str() {
            "" => f.write_str(&self.kind),
            config => write!(f, "{}:{config}", self.kind),
        }
    }
}

/// How much of what is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DataSpec {
    /// Records.
    pub pairs: u64,
    /// What they look like.
    pub shape: Shape,
}

impl DataSpec {
    /// Bytes of a pair, in the mean.
    #[must_use]
    pub fn pair_bytes(&self) -> f64 {
        self.shape.pair_bytes()
    }
}

/// Data that is loaded before the store is opened as it is measured, and kept for other runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// The options it is loaded with: those of the run, or others that load faster. When the store
    /// is opened as it is measured, its own compactions bring the tree into shape.
    pub options: Options,
    /// How long background work may take, in seconds.
    pub settle: f64,
}

/// What the process of a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes per second that are read from the device, and as many that are written to it: the
    /// kernel has no limit for both together.
    #[serde(default)]
    pub device: Option<u64>,
    /// Bytes of memory, page cache included.
    #[serde(default)]
    pub memory: Option<u64>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a run has few of them, most of them phases")]
pub enum Step {
    /// Client operations.
    Phase(PhaseSpec),
    /// Wait for background work to end, for at most so many seconds.
    Settle(f64),
    /// Open the store again with something changed, and wait as long as that for background work.
    Reopen(Change, f64),
}

/// What changes when a store is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// Runs in L0 from which they are compacted: with one, no run is left in L0 by chance.
    #[serde(default)]
    pub l0_trigger: Option<usize>,
    /// Size of a memtable; with one that never fills there is no background work.
    #[serde(default)]
    pub memtable: Option<Bytes>,
}

impl Change {
    /// Another size of memtables.
    #[must_use]
    pub fn memtable(bytes: Bytes) -> Self {
        Self { memtable: Some(bytes), ..Self::default() }
    }

    /// The store as it is opened then.
    #[must_use]
    pub fn apply(&self, mut store: StoreSpec, pairs: u64) -> StoreSpec {
        store.options.error_if_exists = false;
        let tree = &mut store.options.policy.tree;
        tree.l0_trigger = self.l0_trigger.unwrap_or(tree.l0_trigger);
        match self.memtable {
            Some(bytes) => {
                tree.memtable_bytes = bytes;
                store.with_memory_for(pairs)
            }
            None => store,
        }
    }
}

/// Client operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSpec {
    /// The name in reports.
    pub name: String,
    /// What is asked.
    pub workload: Workload,
    /// When.
    pub offered: Offered,
    /// Operations at most.
    #[serde(default)]
    pub ops: Option<u64>,
    /// Seconds at most.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Length of the intervals that are reported one by one, in seconds.
    pub interval: f64,
}

/// How requests are offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// As it says.
    As(Arrivals),
    /// Open loop at this share of the throughput of the latest closed-loop phase: the second of two
    /// phases (Luo & Carey).
    OfMaximum(f64),
    /// Rates that change, such that the highest is this share of the throughput of the latest
    /// closed-loop phase.
    PatternOfMaximum(f64, Pattern),
    /// Open loop at the highest rate whose queue does not grow, searched by halving between the two
    /// shares of the latest closed-loop phase's throughput; `seconds` are those of one trial.
    Sustainable(f64, f64),
}
