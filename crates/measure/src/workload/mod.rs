//! Workloads: shares of operations over a distribution of keys.
//!
//! Records are numbered from 0 in the order of their insertion; [`data`] makes their keys and
//! values. A [`Generator`] gives the operations of one client: the same workload, seed and client
//! give the same operations (inserts take the next free number, which depends on other clients).
//!
//! Each family of named workloads is a file; its top names their source. A [`Preset`] is a workload
//! with the sizes and arrivals of its source. To add one, add an entry to its family.

mod cruise;
pub mod data;
mod db_bench;
mod dlc;
mod generator;
pub mod keys;
mod silk;
pub mod sizes;
mod ycsb;

pub use generator::{Generator, Key, Op, Records};
pub use ycsb::THETA;

use crate::arrivals::Arrivals;
use data::Shape;
use keys::Choice;
use serde::{Deserialize, Serialize};
use sizes::Sizes;
use vlsm_core::Result;
use vlsm_policy::names::unknown;

/// A named mix of operations. Shares are percentages and sum to 100.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The name in reports.
    pub name: String,
    /// Point reads.
    pub reads: f64,
    /// Point reads of keys that are not there.
    #[serde(default)]
    pub missing_reads: f64,
    /// Updates.
    pub updates: f64,
    /// Inserts.
    pub inserts: f64,
    /// Deletes of records that are there, unless they were deleted before.
    #[serde(default)]
    pub deletes: f64,
    /// Scans.
    pub scans: f64,
    /// Reads followed by an update of the same record.
    pub read_modify_writes: f64,
    /// Transactions.
    #[serde(default)]
    pub transactions: f64,
    /// The operations of a transaction.
    #[serde(default)]
    pub transaction: Transaction,
    /// The distribution of records.
    pub choice: Choice,
    /// The number of pairs that a scan reads.
    pub scan: Sizes,
    /// Whether the first client does only the writing operations and the others only the reading
    /// ones, whatever the shares of the two are. A single client does both.
    #[serde(default)]
    pub apart: bool,
}

/// Operations that count as one: reads, then scans, then all writes as one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Transaction {
    /// Point reads.
    pub reads: u32,
    /// Scans.
    pub scans: u32,
    /// Pairs of each scan.
    pub scan_length: u32,
    /// Updates.
    pub updates: u32,
    /// Deletes, each with an insert of the same record.
    pub replaces: u32,
}

/// A named workload, with the data and the arrivals of its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: String,
    /// A description in one line.
    pub what: String,
    /// The workload.
    pub workload: Workload,
    /// The records of its source.
    pub shape: Shape,
    /// The arrivals of its source, if it has some.
    pub arrivals: Option<Arrivals>,
}

impl Workload {
    /// The names of YCSB's workloads and two of db_bench's.
    pub const NAMES: [&str; 9] = ["load", "a", "b", "c", "d", "e", "f", "readrandom", "scan100"];

    /// A workload without operations; families set their shares.
    fn none(name: impl Into<String>, choice: Choice) -> Self {
        Self {
            name: name.into(),
            reads: 0.0,
            missing_reads: 0.0,
            updates: 0.0,
            inserts: 0.0,
            deletes: 0.0,
            scans: 0.0,
            read_modify_writes: 0.0,
            transactions: 0.0,
            transaction: Transaction::default(),
            choice,
            scan: Sizes::Uniform(1, 100),
            apart: false,
        }
    }

    /// The workload of a phase that replays a trace ([`Arrivals::Replay`]). Only its name is used.
    #[must_use]
    pub fn trace() -> Self {
        Self { reads: 100.0, ..Self::none("trace", Choice::Uniform) }
    }

    /// The workload of this name.
    ///
    /// # Errors
    /// [`InvalidOption`](vlsm_core::Error::InvalidOption) if the name is unknown. Its text has the
    /// nearest known name and all names.
    pub fn named(name: &str) -> Result<Self> {
        Ok(Preset::named(name)?.workload)
    }

    /// All names, each with a description in one line.
    #[must_use]
    pub fn list() -> Vec<(String, String)> {
        Preset::all().into_iter().map(|preset| (preset.name, preset.what)).collect()
    }

    /// The shares of all kinds: first the reading ones (reads, missing reads, scans), then the
    /// writing ones.
    #[must_use]
    pub fn shares(&self) -> [f64; 8] {
        [
            self.reads,
            self.missing_reads,
            self.scans,
            self.updates,
            self.inserts,
            self.deletes,
            self.read_modify_writes,
            self.transactions,
        ]
    }

    /// Sets the share of point reads in percent. The other shares keep their proportions.
    #[must_use]
    pub fn with_reads(mut self, reads: f64) -> Self {
        let others = 100.0 - self.reads;
        if others <= 0.0 {
            self.updates = 100.0 - reads;
        }
        let factor = if others > 0.0 { (100.0 - reads) / others } else { 1.0 };
        for share in [
            &mut self.missing_reads,
            &mut self.updates,
            &mut self.inserts,
            &mut self.deletes,
            &mut self.scans,
            &mut self.read_modify_writes,
            &mut self.transactions,
        ] {
            *share *= factor;
        }
        self.reads = reads;
        self
    }
}

impl Preset {
    fn new(name: impl Into<String>, what: impl Into<String>, workload: Workload) -> Self {
        let (name, what) = (name.into(), what.into());
        Self { name, what, workload, shape: Shape::default(), arrivals: None }
    }

    /// The preset of this name.
    ///
    /// # Errors
    /// As for [`Workload::named`].
    pub fn named(name: &str) -> Result<Self> {
        let name = name.to_lowercase();
        if let Some(preset) = cruise::of_any_share(&name) {
            return Ok(preset);
        }
        let all = Self::all();
        match all.iter().find(|preset| preset.name == name) {
            Some(preset) => Ok(preset.clone()),
            None => Err(unknown("workload", &name, all.iter().map(|preset| &*preset.name))),
        }
    }

    /// All presets; only some of those that have a number in their names.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let families = [ycsb::all(), db_bench::all(), silk::all(), dlc::all(), cruise::all()];
        families.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_workload_is_well_formed_and_found_by_its_name() {
        let all = Preset::all();
        let names: HashSet<_> = all.iter().map(|preset| &preset.name).collect();
        assert_eq!(names.len(), all.len(), "names differ");
        for preset in &all {
            let name = &preset.name;
            let sum: f64 = preset.workload.shares().iter().sum();
            assert!((sum - 100.0).abs() < 1e-9, "{name}: the shares sum to {sum}");
            assert_eq!(Preset::named(name).as_ref().ok(), Some(preset));
            assert!(preset.what.len() <= 90 && preset.what.len() > 10, "{name}: {}", preset.what);
            assert!(preset.arrivals.as_ref().is_none_or(|arrivals| arrivals.check().is_ok()));
            let transactions = preset.workload.transactions > 0.0;
            assert_eq!(transactions, preset.workload.transaction != Transaction::default());
        }
        assert!(Workload::NAMES.iter().all(|name| Workload::named(name).is_ok()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = Workload::named("filseq").expect_err("there is none").to_string();
        assert!(error.contains("did you mean \"fillseq\"?"), "{error}");
        assert!(error.contains("silk, ") && error.contains("dlc-sustained"), "{error}");
        assert!(Workload::named("cruise-get-101").is_err());
    }

    #[test]
    fn the_read_share_can_be_set() {
        let workload = Workload::named("c").expect("known").with_reads(30.0);
        assert_eq!((workload.reads, workload.updates), (30.0, 70.0));
        let workload = Workload::named("d").expect("known").with_reads(90.0);
        assert!((workload.inserts - 10.0).abs() < 1e-9);
    }

    #[test]
    fn workloads_survive_json() {
        for preset in Preset::all() {
            let json = serde_json::to_string(&preset.workload).expect("it has an encoding");
            let read: Workload = serde_json::from_str(&json).expect("it can be read");
            assert_eq!(read, preset.workload);
        }
    }
}
