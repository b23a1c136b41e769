//! Stores of figures: a profile or another store, its settings, and the options of its load.
//!
//! Sizes are those of a region of vLSM's testbed: 87.5 M pairs of 24 + 176 bytes (a quarter of 350
//! M), which fill L1 to L3 of the papers' trees. There is one region instead of four, because the
//! machines here have 2 cores and not 32. Settings are at the papers' sizes and scaled with the
//! rest.
//!
//! SSTs are read and written with direct I/O. vLSM's authors do so, too (§5). The data of SILK,
//! DLC and CruiseDB does not fit into the memory of their machines; where their page caches held
//! much of it, a table gives the block cache as much. Here the page cache would hold all of the
//! data, no read would reach the device, and neither the device's limit nor its counters would mean
//! anything.

use super::Setting;
use super::papers::{BYTES, Map};
use serde::Deserialize;
use serde_json::Value;
use vlsm::{Compression, Durability, Options, PolicyOptions};
use vlsm_core::Bytes;
use vlsm_measure::spec::StoreSpec;
use vlsm_policy::profile;

/// The block cache of the reference runs, at the papers' sizes.
const CACHE: u64 = 64 << 20;

/// A store of a figure, or a text about what is missing for it.
pub type Arm = Result<StoreSpec, String>;

/// A store of a table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Recipe {
    pub profile: String,
    /// The kind of a store that is not ours; it takes the profile's sizes.
    pub kind: Option<String>,
    /// The name of the configuration; `{sst}` is the size of SSTs.
    pub config: Option<String>,
    /// The name of the values that it shares with other stores.
    pub setup: Option<String>,
    /// Options that differ from the default.
    pub options: Map,
    /// Options of the policy that differ from the profile.
    pub policy: Map,
    /// Whether L2 stays as it is and vLSM's Φ grows if SSTs are below 8 MB. Otherwise the tree
    /// grows by a level (vLSM (2024), §6.2).
    pub same_l2: bool,
    /// The share of the data that the block cache holds.
    pub cache: Option<f64>,
    /// The number of regions.
    pub regions: Option<String>,
}

impl Recipe {
    /// The store at the scale, with SSTs of this many MB if they are not the profile's.
    ///
    /// # Errors
    /// It is left out; the text says why.
    pub(super) fn spec(self, sst: Option<u64>, setting: &Setting) -> Arm {
        if let Some(kind) = self.kind.as_ref().filter(|_| !setting.peers) {
            return Err(format!("{kind} is left out: other stores do not take part"));
        }
        let profile = &self.profile;
        let mut own = profile::profile(profile).map_err(|error| error.to_string())?;
        match sst {
            Some(sst) if profile == "vlsm" => own = vlsm_of(sst, self.same_l2),
            Some(sst) => {
                own.tree.sst_max = Bytes::mib(sst);
                let sst_min = &mut own.shapes.vlsm.sst_min;
                *sst_min = (*sst_min).min(own.tree.sst_max);
            }
            None => {}
        }
        let sized = || sst.map_or(profile.clone(), |sst| format!("{profile} {sst} MB"));
        let config = self.config.clone().unwrap_or_else(sized);
        let mut options = Options::default();
        (options.policy, options.error_if_exists, options.log) = (own, true, false);
        (options.direct_io, options.direct_reads) = (true, true);
        options.compression = vec![Compression::None];
        let mut options = serde_json::to_value(options).expect("options have an encoding");
        set(&mut options, self.options.into());
        set(&mut options["policy"], self.policy.into());
        let options = serde_json::from_value(options).expect("the table names options that exist");
        let kind = self.kind.unwrap_or_else(|| "vlsm".into());
        let regions = self.regions.map_or(1, |text| text.parse().expect("it is a number"));
        let mut store = StoreSpec { kind, config, options, cache: CACHE, regions };
        store = setting.scale.store(store);
        if let Some(share) = self.cache {
            store.cache = (setting.scale.count(BYTES as u64) as f64 * share) as u64;
        }
        Ok(store)
    }
}

/// Sets each value of `said` in `all`, at any depth.
pub(super) fn set(all: &mut Value, said: Value) {
    match (all, said) {
        (Value::Object(all), Value::Object(said)) => {
            said.into_iter()
                .for_each(|(name, one)| set(all.entry(name).or_insert(Value::Null), one));
        }
        (one, said) => *one = said,
    }
}

/// vLSM with this SST size in MB. Below 8 MB it has one more level instead of a larger Φ, unless
/// `same_l2` is set (vLSM (2024), §6.2).
fn vlsm_of(sst: u64, same_l2: bool) -> PolicyOptions {
    let mut policy = PolicyOptions::vlsm(Bytes::mib(sst));
    if sst < 8 && !same_l2 {
        policy.shapes.vlsm.phi = 32;
        policy.tree.levels += 1;
    }
    policy
}

/// The options that the data of a run is loaded with. Our engine loads with RocksDB's shape and
/// large memtables, which is several times faster than vLSM's shape; its SSTs and deeper levels
/// are those of the run. Other stores load as they are measured. No load has limits of debt, which
/// would make it wait.
pub(super) fn loading(store: &StoreSpec) -> Options {
    let mut options = store.options.clone();
    if store.kind == "vlsm" {
        let own = &store.options.policy;
        let mut policy = profile("rocksdb").expect("it ships inside");
        policy.tree.memtable_bytes = Bytes::mib(16);
        policy.tree.memtable_count = 4;
        policy.tree.sst_max = own.tree.sst_max;
        policy.shapes.vlsm.sst_min = own.shapes.vlsm.sst_min;
        policy.tree.l1_bytes = own.tree.l1_bytes.max(Bytes::mib(32));
        policy.tree.levels = own.tree.levels;
        policy.tree.growth = own.tree.growth;
        // A load leaves no run in L0, because some shapes have no runs there.
        policy.tree.l0_trigger = 1;
        options.policy = policy;
        options.memory_limit = Bytes::mib(256);
        options.cache_limit = None;
        options.wal_file_bytes = Bytes::mib(16);
        options.wal_limit = Bytes::mib(512);
        options.quantum = Bytes::kib(256);
        options.durability = Durability::NoWal;
    }
    options.policy.tree.debt_soft = None;
    options.policy.tree.debt_hard = None;
    options
}
