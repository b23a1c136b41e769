//! Named profiles: a shape, a schedule, an admission and their sizes (docs/mechanisms.md,
//! "Profiles"). Any other triple is a profile with mechanisms of one's own:
//! `rocksdb/schedule=fifo/admission=open` has the sizes of `rocksdb`.

use crate::admission::{self, Admission};
use crate::options::PolicyOptions;
use crate::registry;
use crate::schedule::dlc::Burst;
use crate::schedule::load::LoadModel;
use crate::schedule::silk::SilkOptions;
use crate::schedule::{self, Schedule};
use crate::shape::{self, Shape};
use std::sync::Arc;
use vlsm_core::{Bytes, Result};

/// A name for a set of options.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// A short description.
    pub what: &'static str,
    /// Its options.
    pub options: fn() -> PolicyOptions,
}

/// All profiles; the first is the default.
pub static PROFILES: &[Profile] = &[
    Profile {
        name: "steady",
        what: "the default: tiered L0 of 8 MB memtables",
        options: PolicyOptions::steady,
    },
    Profile {
        name: "vlsm",
        what: "vLSM with 8 MB SSTs and memtables",
        options: || PolicyOptions::vlsm(Bytes::mib(8)),
    },
    Profile {
        name: "vlsm-4",
        what: "vLSM with 4 MB SSTs and memtables, and one level more instead of a larger Φ",
        options: || PolicyOptions { phi: 32, levels: 8, ..PolicyOptions::vlsm(Bytes::mib(4)) },
    },
    Profile {
        name: "rocksdb",
        what: "tiered L0 of 64 MB memtables, RocksDB's own debt limits",
        options: PolicyOptions::rocksdb,
    },
    Profile {
        name: "rocksdb-io",
        what: "tiered L0, no level may exceed its size, L0 neither",
        options: || PolicyOptions {
            l0_slowdown: 5,
            l0_stop: 5,
            intra_l0: false,
            overflow: Some(Bytes::ZERO),
            debt_soft: None,
            debt_hard: None,
            ..PolicyOptions::rocksdb()
        },
    },
    Profile {
        name: "rocksdb-debt64",
        what: "tiered L0, writes slowed at 64 MB of debt and stopped at 256 MB",
        options: || PolicyOptions {
            debt_soft: Some(Bytes::mib(64)),
            debt_hard: Some(Bytes::mib(256)),
            ..PolicyOptions::rocksdb()
        },
    },
    Profile {
        name: "rocksdb-overflow64",
        what: "tiered L0, each level at most 64 MB beyond its target",
        options: || PolicyOptions { overflow: Some(Bytes::mib(64)), ..PolicyOptions::rocksdb() },
    },
    Profile {
        name: "lsmi",
        what: "one 64 MB run of L0 at a time into an L1 of 256 MB, no tiering",
        options: || PolicyOptions {
            shape: "lsmi".into(),
            l0_trigger: 1,
            l0_max: 4,
            l0_slowdown: 4,
            overflow: Some(Bytes::mib(64)),
            debt_soft: None,
            debt_hard: None,
            ..PolicyOptions::rocksdb()
        },
    },
    Profile {
        name: "rocksdb-auto",
        what: "tiered L0, background work under RocksDB's auto-tuned limit",
        options: || PolicyOptions { schedule: "auto_tuned".into(), ..PolicyOptions::rocksdb() },
    },
    Profile {
        name: "silk",
        what: "SILK over a tiered L0 of 128 MB memtables, L0 without bounds",
        options: || silk(SilkOptions::default()),
    },
    Profile {
        name: "silk-bandwidth",
        what: "silk without priorities and preemption",
        options: || silk(SilkOptions { scheduling: false, ..SilkOptions::default() }),
    },
    Profile {
        name: "silk-scheduling",
        what: "silk without a limit on bandwidth",
        options: || silk(SilkOptions { bandwidth: false, ..SilkOptions::default() }),
    },
    Profile {
        name: "silk-dlc-load",
        what: "silk with DLC's model of the load, as DLC is compared with it",
        options: || silk(SilkOptions { load: LoadModel::CacheMisses, ..SilkOptions::default() }),
    },
    Profile {
        name: "vlsm+silk",
        what: "vLSM with 8 MB SSTs under SILK's schedule",
        options: || PolicyOptions {
            schedule: "silk".into(),
            admission: "open".into(),
            compaction_jobs: 3,
            ..PolicyOptions::vlsm(Bytes::mib(8))
        },
    },
    Profile {
        name: "dlc",
        what: "tiered L0 that is compacted while clients leave the device time, or in bursts",
        options: PolicyOptions::dlc,
    },
    Profile {
        name: "dlc-part",
        what: "DLC whose bursts merge flushed runs four times before all of L0 goes down",
        options: || {
            let mut options = PolicyOptions::dlc();
            options.dlc.burst = Burst::Part;
            options.merge_flushed = options.dlc.burst_runs;
            options
        },
    },
    Profile {
        name: "dlc-no-burst",
        what: "DLC without bursts, L0 growing to 100 runs, where writes stop",
        options: || {
            let mut options = PolicyOptions::dlc();
            options.admission = "slowdown_stop".into();
            options.dlc.burst = Burst::None;
            options
        },
    },
    Profile {
        name: "adoc",
        what: "tiered L0, jobs and memtables of 64 to 512 MB by what overflows",
        options: || PolicyOptions {
            schedule: "adoc".into(),
            memtable_bytes: Bytes::mib(512),
            ..PolicyOptions::rocksdb()
        },
    },
    Profile {
        name: "cruise",
        what: "CruiseDB: no L0, 12 memtables of 64 MB, memory first, writes held to its watermark",
        options: PolicyOptions::cruise,
    },
    Profile {
        name: "vlsm+cruise",
        what: "vLSM with 12 memtables of 8 MB, writes held to their watermark",
        options: || {
            let mut options = PolicyOptions::vlsm(Bytes::mib(8));
            options.admission = "cruise".into();
            options.memtable_count = 12;
            // An eighth of the paper's, as the memory is: a window is half of it in both.
            options.cruise.window = 50_000;
            options
        },
    },
];

/// SILK as its paper has it (SILK (2019), §6.1): 128 MB memtables, L0 without bounds, four threads
/// with the one that flushes.
fn silk(silk: SilkOptions) -> PolicyOptions {
    PolicyOptions {
        schedule: "silk".into(),
        admission: "open".into(),
        memtable_bytes: Bytes::mib(128),
        l0_max: 10_000,
        l0_slowdown: 10_000,
        l0_stop: 10_000,
        debt_soft: None,
        debt_hard: None,
        compaction_jobs: 3,
        silk,
        ..PolicyOptions::rocksdb()
    }
}

/// The options of the profile of this name: `NAME`, or `NAME/AXIS=MECHANISM/…` with the profile's
/// sizes and other mechanisms, where an axis is `shape`, `schedule` or `admission`.
///
/// # Errors
/// [`vlsm_core::Error::InvalidOption`] that names the nearest known one, or says why the mechanisms
/// do not work together.
pub fn profile(name: &str) -> Result<PolicyOptions> {
    let (name, changes) = name.split_once('/').unwrap_or((name, ""));
    let Some(profile) = PROFILES.iter().find(|profile| profile.name == name) else {
        let known = PROFILES.iter().map(|profile| profile.name);
        return Err(registry::unknown("profile", name, known));
    };
    let mut options = (profile.options)();
    for change in changes.split('/').filter(|change| !change.is_empty()) {
        let (axis, mechanism) = change.split_once('=').unwrap_or((change, ""));
        *options.axis(axis)? = mechanism.to_owned();
    }
    options.build()?;
    Ok(options)
}

/// The three mechanisms that options name.
pub type Policies = (Arc<dyn Shape>, Box<dyn Schedule>, Box<dyn Admission>);

impl PolicyOptions {
    /// The name of the mechanism on an axis.
    fn axis(&mut self, axis: &str) -> Result<&mut String> {
        match axis {
            "shape" => Ok(&mut self.shape),
            "schedule" => Ok(&mut self.schedule),
            "admission" => Ok(&mut self.admission),
            _ => {
                let known = ["shape", "schedule", "admission"];
                Err(registry::unknown("profile, axis", axis, known.into_iter()))
            }
        }
    }

    /// Makes the three mechanisms.
    ///
    /// # Errors
    /// Those of [`PolicyOptions::validate`], or a name that is not known.
    pub fn build(&self) -> Result<Policies> {
        self.validate()?;
        let shape = registry::make("shape", shape::REGISTRY, &self.shape, self)?;
        let schedule = registry::make("schedule", schedule::REGISTRY, &self.schedule, self)?;
        let admission = registry::make("admission", admission::REGISTRY, &self.admission, self)?;
        Ok((Arc::from(shape), schedule, admission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_builds() {
        for entry in PROFILES {
            profile(entry.name).expect("known").build().expect(entry.name);
        }
        assert_eq!(profile("vlsm").expect("known"), PolicyOptions::default());
    }

    #[test]
    fn a_triple_of_ones_own_has_a_profiles_sizes() {
        let own = profile("rocksdb/shape=lsmi/admission=open").expect("known");
        let (shape, admission) = ("lsmi".into(), "open".into());
        assert_eq!(own, PolicyOptions { shape, admission, ..PolicyOptions::rocksdb() });
        assert_eq!(profile("vlsm/").expect("known"), PolicyOptions::default());
        let refused = |name: &str| profile(name).expect_err("unknown").to_string();
        assert!(refused("rocksbd/shape=lsmi").contains("did you mean \"rocksdb\"?"));
        let near = "option admission: \"opne\" is not known; did you mean \"open\"?";
        assert!(refused("rocksdb/admission=opne").starts_with(near));
        assert!(refused("rocksdb/shap=lsmi").contains("did you mean \"shape\"?"));
        assert!(refused("rocksdb/lsmi").contains("There are: shape, schedule, admission"));
    }

    #[test]
    fn mistakes_are_answered_with_help() {
        assert_eq!(
            profile("rocksdb-oi").expect_err("unknown").to_string(),
            "option profile: \"rocksdb-oi\" is not known; did you mean \"rocksdb-io\"? \
             There are: steady, vlsm, vlsm-4, rocksdb, rocksdb-io, rocksdb-debt64, \
             rocksdb-overflow64, lsmi, rocksdb-auto, silk, silk-bandwidth, silk-scheduling, \
             silk-dlc-load, vlsm+silk, dlc, dlc-part, dlc-no-burst, adoc, cruise, vlsm+cruise"
        );
        let options = PolicyOptions { shape: "colunm".into(), ..PolicyOptions::default() };
        assert!(options.build().expect_err("unknown").to_string().starts_with("option shape"));
        let options = PolicyOptions { l0_max: 0, ..PolicyOptions::default() };
        assert!(options.build().expect_err("refused").to_string().contains("l0_trigger"));
    }
}
