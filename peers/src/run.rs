//! One run of one store in a process of its own: load, settle, point reads, scans.
//!
//! 1. *fillrandom*: all pairs, in random order, closed loop.
//! 2. Wait for background work to end; what it costs is counted too.
//! 3. Open it again with an L0 trigger of one and wait: a load leaves between no run and three in
//!    L0, by chance, each of which costs every scan a read. Without that, chance would be compared.
//! 4. *readrandom*: point reads of uniformly chosen pairs; then *scan100*.
//! 5. The report goes to a file as JSON; amplification is that of the load until it settled.

use crate::stores;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vlsm_core::Bytes;
use vlsm_lab::arrivals::Arrivals;
use vlsm_lab::driver::{self, Phase};
use vlsm_lab::engine::{Engine, describe};
use vlsm_lab::process::{Machine, Usage, peak_memory};
use vlsm_lab::report::{Amplification, Method, PhaseReport, Report};
use vlsm_lab::spec::StoreSpec;
use vlsm_lab::store::Store;
use vlsm_lab::workload::data::Data;
use vlsm_lab::workload::{Records, Workload};

/// How long background work may take to end.
const SETTLE_MAX: Duration = Duration::from_secs(600);

/// What to run, the same for every store.
#[derive(Debug, Clone, clap::Args)]
pub struct Load {
    /// Pairs of 24 + 176 bytes to load
    #[arg(long, default_value_t = 20_000_000)]
    pub pairs: u64,
    /// Client threads
    #[arg(long, default_value_t = 4)]
    pub threads: usize,
    /// Seconds of point reads, and of scans; 0 for none
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// Megabytes of a memtable [default: the profile's]
    #[arg(long)]
    pub memtable: Option<u64>,
    /// Megabytes of the block cache
    #[arg(long, default_value_t = 64)]
    pub cache: u64,
    /// Seed of keys, values and choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder for the stores' data [default: the system's for temporary files]
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

/// Runs one store, named as `rocksdb` or `vlsm:PROFILE`.
pub fn run(store: &str, load: &Load) -> Result<Report, String> {
    let folder = match &load.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let folder = folder.map_err(|error| format!("cannot make a folder for the data: {error}"))?;
    let (name, config) = store.split_once(':').unwrap_or((store, ""));
    let profile = if name == "vlsm" && !config.is_empty() { config } else { "rocksdb" };
    let mut options = vlsm::Options::default();
    options.policy = vlsm_policy::profile::profile(profile).map_err(text)?;
    if let Some(memtable) = load.memtable {
        sized(&mut options.policy, Bytes::mib(memtable));
    }
    // As much memory as the other store has for memtables and cache.
    let memtables = options.policy.memtable_bytes * options.policy.memtable_count as u64;
    options.memory_limit = (memtables + Bytes::mib(load.cache)).max(options.least_memory());
    let described = describe(&options);
    let open = |l0_trigger: Option<usize>| -> Result<Box<dyn Store>, String> {
        let mut options = options.clone();
        options.policy.l0_trigger = l0_trigger.unwrap_or(options.policy.l0_trigger);
        Ok(match name {
            "vlsm" => Box::new(Engine::open(folder.path(), options, Vec::new()).map_err(text)?),
            kind => {
                let (kind, config) = (kind.to_owned(), config.to_owned());
                let cache = load.cache << 20;
                let spec = StoreSpec { kind, config, options, cache, regions: 1 };
                stores::open(&spec, Vec::new(), folder.path()).map_err(text)?
            }
        })
    };
    let method = Method {
        version: env!("CARGO_PKG_VERSION").into(),
        store: name.into(),
        profile: profile.into(),
        options: described,
        machine: Machine::this(),
        pairs: load.pairs,
        key_size: 24,
        value_size: 176,
        threads: load.threads,
        load: "closed loop".into(),
        seed: load.seed,
        ..Method::default()
    };
    measure(&open, folder.path(), method, load)
}

/// Memtables of this size, and the tree scaled with them as the reference runs had it: L1 of 256
/// MB with 64 MB memtables, of 64 MB with 8 MB ones.
fn sized(policy: &mut vlsm_policy::PolicyOptions, memtable: Bytes) {
    if memtable < policy.memtable_bytes {
        policy.l1_bytes = Bytes::mib(64);
        policy.sst_max = memtable;
        policy.sst_min = policy.sst_min.min(memtable);
    }
    policy.memtable_bytes = memtable;
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Opens a store, with this L0 trigger if there is one.
type Open<'a> = &'a dyn Fn(Option<usize>) -> Result<Box<dyn Store>, String>;

fn measure(open: Open, dir: &Path, method: Method, load: &Load) -> Result<Report, String> {
    let mut store = open(None)?;
    let data = Data::new(method.key_size, method.value_size, method.seed);
    let records = Arc::new(Records::default());
    let stop = AtomicBool::new(false);
    let start = (Usage::now(), store.stats());
    let mut phases = Vec::new();
    let (mut settled, mut loaded) = (None, None);
    for (name, index) in [("load", 0), ("readrandom", 1), ("scan100", 2)] {
        let loading = index == 0;
        if !loading && load.seconds <= 0.0 {
            break;
        }
        let phase = Phase {
            workload: Workload::named(name).map_err(text)?,
            arrivals: Arrivals::Closed,
            threads: load.threads,
            ops: loading.then_some(load.pairs),
            seconds: (!loading).then_some(load.seconds),
            seed: load.seed + index,
            interval: 1.0,
        };
        let before = store.stats();
        let outcome = driver::run(&*store, &data, &records, &phase, &stop, &mut |progress| {
            eprint!("\r  {name}: {:.0} %   ", progress.done * 100.0);
        });
        eprintln!();
        let after = (&before, &store.stats());
        phases.push(PhaseReport::new(&phase, &outcome, false, after));
        if let Some(error) = outcome.error {
            return Err(format!("{name}: {error}"));
        }
        if loading {
            let clock = std::time::Instant::now();
            let ended = store.settle(SETTLE_MAX, &|| false).map_err(text)?;
            settled = ended.then(|| clock.elapsed().as_secs_f64());
            loaded = Some((store.stats(), Usage::now().since(&start.0)));
            drop(store);
            store = open(Some(1))?;
            store.settle(SETTLE_MAX, &|| false).map_err(text)?;
        }
    }
    let (loaded, used) = loaded.ok_or("there was a load")?;
    let user_bytes = phases.iter().map(|phase| phase.amplification.user_bytes).sum();
    Ok(Report {
        method,
        amplification: Amplification::new(user_bytes, &loaded.since(&start.1), used.device),
        phases,
        settled,
        sustainable: None,
        store: store.stats(),
        records: records.count(),
        peak_memory: peak_memory(),
        data: dir.display().to_string(),
    })
}
