//! What the figures of several papers have in common: stores set up as the papers have them, and
//! runs on them.
//!
//! Sizes are those of a region of vLSM's testbed: 87.5 M pairs of 24 + 176 bytes (a quarter of 350
//! M), which fills L1 to L3 of the papers' trees. One region instead of four, because the machines
//! here have 2 cores and not 32.

use super::{Setting, Wanted};
use std::sync::Arc;
use vlsm::{Durability, Options, PolicyOptions};
use vlsm_core::Bytes;
use vlsm_measure::arrivals::Arrivals;
use vlsm_measure::spec::{
    DataSpec, Limits, LoadSpec, Offered, PhaseSpec, RunSpec, Step, StoreSpec,
};
use vlsm_measure::workload::Workload;
use vlsm_measure::workload::data::Shape;

/// Pairs of a region of vLSM's testbed.
pub const PAIRS: u64 = 87_500_000;
/// The block cache of the reference line of 3-measuring, at the papers' sizes.
const CACHE: u64 = 64 << 20;
/// The share of its own maximum that a store is asked for where the paper speaks of the load that a
/// store sustains without giving a rate.
pub const SHARE: f64 = 0.7;
/// Flushes of a phase: three rounds have 100 chains.
const FLUSHES: f64 = 36.0;
/// How long background work may take.
const SETTLE: f64 = 600.0;

/// A store of a figure, or what is missing for it.
pub type Arm = Result<StoreSpec, String>;

impl Setting {
    /// Our engine with a profile.
    ///
    /// # Errors
    /// When the profile is not built.
    pub fn profile(&self, name: &str) -> Arm {
        match vlsm_policy::profile::profile(name) {
            Ok(policy) => Ok(self.ours(name, policy)),
            Err(_) => Err(format!("profile {name} is not built yet")),
        }
    }

    /// Our engine with these options of the three axes.
    #[must_use]
    pub fn ours(&self, config: &str, policy: PolicyOptions) -> StoreSpec {
        let mut options = Options::default();
        options.policy = policy;
        options.error_if_exists = true;
        options.log = false;
        let config = config.to_owned();
        let spec = StoreSpec { kind: "vlsm".into(), config, options, cache: CACHE, regions: 1 };
        self.scale.store(spec)
    }

    /// Another store, with the sizes of one of our profiles.
    ///
    /// # Errors
    /// When other stores do not take part.
    pub fn peer(&self, kind: &str, config: &str, profile: &str) -> Arm {
        if !self.peers {
            return Err(format!("{kind} is left out: other stores do not take part"));
        }
        let ours = self.profile(profile)?;
        Ok(StoreSpec { kind: kind.into(), config: config.into(), ..ours })
    }

    /// The length of an interval: a second of the papers, but not so short that it holds nothing.
    /// Where only inserts are asked for, half a second: vLSM's stalls are about a second long.
    #[must_use]
    pub fn interval(&self, workload: &Workload) -> f64 {
        match workload.inserts >= 100.0 {
            true => self.scale.seconds(0.5).max(0.01),
            false => self.scale.seconds(1.0).max(0.05),
        }
    }

    /// So many seconds, but five minutes in three rounds at least; for smoke no longer than others.
    #[must_use]
    pub fn long_enough(&self, seconds: f64) -> f64 {
        if self.scale.is_smoke() { self.seconds } else { seconds.max(101.0) }
    }

    /// A phase of this workload.
    #[must_use]
    pub fn phase(&self, name: &str, workload: &str, offered: Offered, seconds: f64) -> Step {
        let workload = Workload::named(workload).expect("figures name workloads that exist");
        Step::Phase(PhaseSpec {
            name: name.to_owned(),
            interval: self.interval(&workload),
            workload,
            offered,
            ops: None,
            seconds: Some(seconds),
        })
    }

    /// As [`Setting::load_a_at_share`], with the pairs of all four regions of the paper.
    pub fn load_a_regions(&self, arm: &Arm) -> Wanted {
        let phases = vec![
            self.phase("max", "load", Offered::As(Arrivals::Closed), self.seconds),
            self.phase("share", "load", Offered::OfMaximum(SHARE), 1.5 * self.seconds),
        ];
        self.run_shaped(arm, 4 * PAIRS, Shape::default(), phases)
    }

    /// Clients: as many as cores where pairs are vLSM's, whose runs mostly write. SILK's eight for
    /// the others (silk.txt §6.1): their reads wait for the device, and half as many would be what
    /// limits a peak of 20 k/s.
    fn threads(&self, shape: &Shape) -> usize {
        if *shape == Shape::default() { 2 } else { 8 }
    }

    /// A run of a store over `pairs` pairs of the papers' testbed: the load, then these phases,
    /// with background work ended between them.
    pub fn run_shaped(&self, arm: &Arm, pairs: u64, shape: Shape, phases: Vec<Step>) -> Wanted {
        let pairs = self.scale.count(pairs);
        let steps = phases.into_iter().flat_map(|phase| [phase, Step::Settle(SETTLE)]).collect();
        let store = arm.clone()?.with_memory_for(pairs);
        Ok(Arc::new(RunSpec {
            load: Some(LoadSpec { options: loading(&store), settle: SETTLE }),
            store,
            data: DataSpec { pairs, shape },
            steps,
            threads: self.threads(&shape),
            limits: Limits::default(),
            seed: 1,
            dir: self.dir.clone(),
        }))
    }

    /// Load A at its maximum, at 60 % of that, and at fixed rates: phases `max`, `60 %` and
    /// `8 k/s`, ….
    pub fn load_a(&self, arm: &Arm, rates: &[f64]) -> Wanted {
        let mut phases =
            vec![self.phase("max", "load", Offered::As(Arrivals::Closed), self.seconds)];
        phases.push(self.phase("60 %", "load", Offered::OfMaximum(0.6), self.seconds));
        for &rate in rates {
            let offered = Offered::As(Arrivals::Open(rate));
            let seconds = self.seconds_for_chains(arm, rate);
            phases.push(self.phase(&rate_name(rate), "load", offered, seconds));
        }
        self.run_shaped(arm, PAIRS, Shape::default(), phases)
    }

    /// Seconds in which this rate of inserts of 200 bytes fills the memtables of [`FLUSHES`]
    /// flushes: each has a chain behind it.
    fn seconds_for_chains(&self, arm: &Arm, rate: f64) -> f64 {
        let memtable = arm.as_ref().map_or(0, |store| store.options.policy.memtable_bytes.0);
        (FLUSHES * memtable as f64 / (rate * 200.0)).max(self.seconds)
    }

    /// Load A at its maximum and at [`SHARE`] of it: phases `max` and `share`.
    pub fn load_a_at_share(&self, arm: &Arm) -> Wanted {
        let phases = vec![
            self.phase("max", "load", Offered::As(Arrivals::Closed), self.seconds),
            self.phase("share", "load", Offered::OfMaximum(SHARE), 1.5 * self.seconds),
        ];
        self.run_shaped(arm, PAIRS, Shape::default(), phases)
    }

    /// Run A at its maximum and at [`SHARE`] of it: phases `max` and `a`.
    pub fn run_a(&self, arm: &Arm) -> Wanted {
        let phases = vec![
            self.phase("max", "a", Offered::As(Arrivals::Closed), 2.0 * self.seconds),
            self.phase("a", "a", Offered::OfMaximum(SHARE), 3.0 * self.seconds),
        ];
        self.run_shaped(arm, PAIRS, Shape::default(), phases)
    }

    /// Runs B to D at [`SHARE`] of the store's maximum of run B: phases `b` to `d`, long enough for
    /// five minutes in three rounds; before them `max`, that maximum.
    pub fn run_b_to_d(&self, arm: &Arm) -> Wanted {
        let closed = Offered::As(Arrivals::Closed);
        let mut phases = vec![self.phase("max", "b", closed, self.seconds)];
        for name in ["b", "c", "d"] {
            let seconds = self.long_enough(self.seconds);
            phases.push(self.phase(name, name, Offered::OfMaximum(SHARE), seconds));
        }
        self.run_shaped(arm, PAIRS, Shape::default(), phases)
    }
}

/// The options that the data of a run is loaded with. Ours: RocksDB's shape with large memtables,
/// which loads several times faster than vLSM's, and SSTs and deeper levels as they will be. The
/// others: as they are measured, but for limits of debt, which would make the load wait.
pub(super) fn loading(store: &StoreSpec) -> Options {
    let mut options = store.options.clone();
    if store.kind == "vlsm" {
        let own = &store.options.policy;
        let mut policy = PolicyOptions::rocksdb();
        policy.memtable_bytes = Bytes::mib(16);
        policy.memtable_count = 4;
        policy.sst_max = own.sst_max;
        policy.sst_min = own.sst_min;
        policy.l1_bytes = own.l1_bytes.max(Bytes::mib(32));
        policy.levels = own.levels;
        policy.growth = own.growth;
        // No run is left in L0, which some shapes do not have.
        policy.l0_trigger = 1;
        options.policy = policy;
        options.memory_limit = Bytes::mib(256);
        options.cache_limit = None;
        options.wal_file_bytes = Bytes::mib(16);
        options.wal_limit = Bytes::mib(512);
        options.quantum = Bytes::kib(256);
        options.durability = Durability::NoWal;
    }
    options.policy.debt_soft = None;
    options.policy.debt_hard = None;
    options
}

/// `20 k/s`.
#[must_use]
pub fn rate_name(rate: f64) -> String {
    format!("{} k/s", rate / 1e3)
}

/// vLSM with this SST size in MB; below 8 MB with a level more instead of a larger Φ (vlsm.txt
/// §6.2).
#[must_use]
pub fn vlsm_of(sst: u64) -> PolicyOptions {
    let policy = PolicyOptions::vlsm(Bytes::mib(sst));
    if sst < 8 {
        return one_level_more(policy);
    }
    policy
}

fn one_level_more(mut policy: PolicyOptions) -> PolicyOptions {
    policy.phi = 32;
    policy.levels += 1;
    policy
}

/// A profile with another SST size in MB, memtables as they are.
///
/// # Errors
/// When the profile is not built.
pub fn with_sst(profile: &str, sst: u64) -> Result<PolicyOptions, String> {
    let policy = vlsm_policy::profile::profile(profile);
    let mut policy = policy.map_err(|_| format!("profile {profile} is not built yet"))?;
    policy.sst_max = Bytes::mib(sst);
    policy.sst_min = policy.sst_min.min(policy.sst_max);
    Ok(policy)
}

/// With this durability.
///
/// # Errors
/// What the arm lacks.
pub fn with_durability(arm: Arm, durability: Durability) -> Arm {
    let mut store = arm?;
    store.options.durability = durability;
    Ok(store)
}

/// With limits of device and memory.
///
/// # Errors
/// What the run lacks.
pub fn limited(run: Wanted, limits: Limits) -> Wanted {
    let run = run?;
    Ok(Arc::new(RunSpec { limits, ..(*run).clone() }))
}
