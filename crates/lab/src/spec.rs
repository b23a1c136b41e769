//! A run as plain values: the store, the data, the steps and the limits. Whoever has a [`RunSpec`]
//! can do the run again; it is what a campaign stores, what goes to the process that does the run,
//! and what a report carries.
//!
//! A run is done by a process of its own, so that memory, processor time and device bytes are those
//! of one store only. That process is this program for our engine and the program of `peers/` for
//! the others.

use crate::arrivals::Arrivals;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use vlsm::Options;
use vlsm_core::Bytes;

/// All of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The store.
    pub store: StoreSpec,
    /// Its data.
    pub data: DataSpec,
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
    /// Bytes of the block cache. Our engine has one limit for everything; the others have this
    /// beside their memtables.
    pub cache: u64,
    /// Regions the keys are split into evenly; stores without regions are opened so many times.
    pub regions: usize,
}

impl StoreSpec {
    /// With the memory that the others have in effect: memtables, cache, and beside them the
    /// indexes and filters of so many pairs, which RocksDB keeps outside of its cache (measured:
    /// 2.7 bytes a pair at 10 bits a key). Our engine has one limit for all of it.
    #[must_use]
    pub fn with_memory_for(mut self, pairs: u64) -> Self {
        let policy = &self.options.policy;
        let memtables = policy.memtable_bytes.0 * policy.memtable_count as u64;
        let tables = (pairs as f64 * 2.7) as u64;
        let limit = Bytes(memtables + self.cache + tables);
        self.options.memory_limit = limit.max(self.options.least_memory());
        self
    }

    /// Keys at which the regions begin, but for the first: the decimal digits that generated keys
    /// have after `user` divided evenly, or their binary hash where keys are shorter.
    #[must_use]
    pub fn splits(&self, key_size: usize) -> Vec<Vec<u8>> {
        let regions = self.regions.max(1) as u128;
        let at = |region: u128| (region << 64) / regions;
        (1..regions)
            .map(|region| match key_size {
                24.. => format!("user{:020}", at(region)).into_bytes(),
                _ => (at(region) as u64).to_be_bytes().to_vec(),
            })
            .collect()
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSpec {
    /// Records.
    pub pairs: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
}

/// What the process of a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes per second to and from the device together: half of it for reads, half for writes.
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
    /// Open the store again with an L0 trigger of one, and settle: no run is left in L0 by chance.
    EmptyL0(f64),
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
    /// Open loop at the highest rate whose queue does not grow, searched by halving between the two
    /// shares of the latest closed-loop phase's throughput; `seconds` are those of one trial.
    Sustainable(f64, f64),
}
