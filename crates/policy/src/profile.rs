//! Named profiles: a shape, a schedule, an admission and their sizes (2-mechanisms, "Named
//! profiles").

use crate::admission::{self, Admission};
use crate::options::PolicyOptions;
use crate::registry;
use crate::schedule::{self, Schedule};
use crate::shape::{self, Shape};
use std::sync::Arc;
use vlsm_core::{Bytes, Result};

/// A name for a set of options.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// Its options.
    pub options: fn() -> PolicyOptions,
}

/// All profiles; the first is the default.
pub static PROFILES: &[Profile] = &[
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
        name: "cruise",
        what: "CruiseDB: no L0, 12 memtables of 64 MB, memory first, writes held to its watermark",
        options: PolicyOptions::cruise,
    },
    Profile {
        name: "vlsm+cruise",
        what: "vLSM with 12 memtables of 8 MB, writes held to their watermark",
        options: || PolicyOptions {
            admission: "cruise".into(),
            memtable_count: 12,
            ..PolicyOptions::vlsm(Bytes::mib(8))
        },
    },
];

/// The options of the profile of this name.
///
/// # Errors
/// [`vlsm_core::Error::InvalidOption`] that names the nearest known one.
pub fn profile(name: &str) -> Result<PolicyOptions> {
    match PROFILES.iter().find(|profile| profile.name == name) {
        Some(profile) => Ok((profile.options)()),
        None => {
            Err(registry::unknown("profile", name, PROFILES.iter().map(|profile| profile.name)))
        }
    }
}

/// The three mechanisms that options name.
pub type Policies = (Arc<dyn Shape>, Box<dyn Schedule>, Box<dyn Admission>);

impl PolicyOptions {
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
    fn mistakes_are_answered_with_help() {
        assert_eq!(
            profile("rocksdb-oi").expect_err("unknown").to_string(),
            "option profile: \"rocksdb-oi\" is not known; did you mean \"rocksdb-io\"? \
             There are: vlsm, vlsm-4, rocksdb, rocksdb-io, rocksdb-debt64, lsmi, cruise, \
             vlsm+cruise"
        );
        let options = PolicyOptions { shape: "colunm".into(), ..PolicyOptions::default() };
        assert!(options.build().expect_err("unknown").to_string().starts_with("option shape"));
        let options = PolicyOptions { l0_max: 0, ..PolicyOptions::default() };
        assert!(options.build().expect_err("refused").to_string().contains("l0_trigger"));
    }
}
