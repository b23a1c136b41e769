//! Stores of figures: a profile or another store, its settings, and the options of its load.
//!
//! Sizes are those of a region of vLSM's testbed: 87.5 M pairs of 24 + 176 bytes (a quarter of 350
//! M), which fill L1 to L3 of the papers' trees. There is one region instead of four, because the
//! machines here have 2 cores and not 32. Settings are at the papers' sizes and scaled with the
//! rest.

use super::{Setting, papers::Map};
use serde::Deserialize;
use serde_json::Value;
use vlsm::{Durability, Options, PolicyOptions};
use vlsm_core::Bytes;
use vlsm_measure::spec::StoreSpec;
use vlsm_measure::workload::Workload;
use vlsm_policy::profile;

/// The block cache of the reference runs, at the papers' sizes.
const CACHE: u64 = 64 << 20;

/// A store of a figure, or a text about what is missing for it.
pub type Arm = Result<StoreSpec, String>;

/// A store of a table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Recipe {
    /// The system, if it is not built. The other fields are then unused.
    missing: Option<String>,
    profile: String,
    /// The kind of a store that is not ours; it takes the profile's sizes.
    kind: Option<String>,
    /// The name of the configuration; `{sst}` is the size of SSTs.
    config: Option<String>,
    pub(super) setup: Option<String>,
    policy: Map,
    /// Whether L2 stays as it is and vLSM's Φ grows if SSTs are below 8 MB. Otherwise the tree
    /// grows by a level (vLSM (2024), §6.2).
    same_l2: bool,
}

/// Settings that several stores share.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Setup {
    /// Options that differ from the default.
    options: Map,
    /// The share of the data that the block cache holds.
    pub(super) cache: Option<f64>,
}

/// A store of a point.
pub(super) struct Store {
    pub recipe: Recipe,
    pub setup: Setup,
    /// The size of an SST in MB, if it is not the profile's.
    pub sst: Option<u64>,
    pub policy: Map,
    pub regions: usize,
}

impl Store {
    /// The store at the scale.
    ///
    /// # Errors
    /// Something that it needs is missing; the text names it.
    pub(super) fn spec(self, setting: &Setting) -> Arm {
        let Self { recipe, setup, sst, policy, regions } = self;
        if let Some(what) = &recipe.missing {
            return Err(format!("{what} is not built yet"));
        }
        if let Some(kind) = recipe.kind.as_ref().filter(|_| !setting.peers) {
            return Err(format!("{kind} is left out: other stores do not take part"));
        }
        let profile = &recipe.profile;
        let own = vlsm_policy::profile(profile);
        let mut own = own.map_err(|_| format!("profile {profile} is not built yet"))?;
        match sst {
            Some(sst) if profile == "vlsm" => own = vlsm_of(sst, recipe.same_l2),
            Some(sst) => {
                own.tree.sst_max = Bytes::mib(sst);
                let sst_min = &mut own.shapes.vlsm.sst_min;
                *sst_min = (*sst_min).min(own.tree.sst_max);
            }
            None => {}
        }
        let config = match (&recipe.config, sst) {
            (Some(config), sst) => config.replace("{sst}", &sst.unwrap_or_default().to_string()),
            (None, Some(sst)) => format!("{profile} {sst} MB"),
            (None, None) => profile.clone(),
        };
        let mut options = serde_json::to_value(options(own)).expect("options have an encoding");
        set(&mut options, Value::Object(setup.options));
        set(&mut options["policy"], Value::Object(recipe.policy));
        set(&mut options["policy"], Value::Object(policy));
        let options = serde_json::from_value(options).expect("the table names options that exist");
        let kind = recipe.kind.unwrap_or_else(|| "vlsm".into());
        Ok(setting.scale.store(StoreSpec { kind, config, options, cache: CACHE, regions }))
    }
}

/// Our engine's options for figures, with this policy.
fn options(policy: PolicyOptions) -> Options {
    let mut options = Options::default();
    (options.policy, options.error_if_exists, options.log) = (policy, true, false);
    options
}

/// Sets each value of `said` in `all`, at any depth.
fn set(all: &mut Value, said: Value) {
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

impl Setting {
    /// Our engine with these options of the three axes.
    #[must_use]
    pub fn ours(&self, config: &str, policy: PolicyOptions) -> StoreSpec {
        let (options, config) = (options(policy), config.to_owned());
        let spec = StoreSpec { kind: "vlsm".into(), config, options, cache: CACHE, regions: 1 };
        self.scale.store(spec)
    }

    /// The length of an interval: a second of the papers, with a lower bound so that it is not
    /// empty. For inserts alone it is half a second, because vLSM's stalls last about a second.
    #[must_use]
    pub fn interval(&self, workload: &Workload) -> f64 {
        match workload.inserts >= 100.0 {
            true => self.scale.seconds(0.5).max(0.01),
            false => self.scale.seconds(1.0).max(0.05),
        }
    }
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
