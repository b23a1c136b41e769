//! Workloads: shares of operations over a distribution of keys.
//!
//! Records are numbered from 0 in the order of their insertion; [`data`] makes their keys and
//! values. A [`Generator`] gives the operations of one client: the same workload, seed and client
//! give the same operations (inserts take the next free number, which depends on other clients).
//!
//! A [`Preset`] is a named workload with the sizes and arrivals of its source.

pub mod data;
mod generator;
pub mod keys;
mod presets;
pub mod sizes;

pub use generator::{Generator, Key, Op, Records};
pub use presets::Preset;

use crate::metrics::Kind;
use keys::Choice;
use serde::{Deserialize, Serialize};
use sizes::Sizes;
use vlsm_core::Result;

/// The zipfian constant of YCSB.
pub const THETA: f64 = 0.99;

/// A named mix of operations. Shares are percentages and sum to 100.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// The name in reports.
    pub name: String,
    /// Point reads.
    pub reads: f64,
    /// Point reads of keys that are not there.
    pub missing_reads: f64,
    /// Updates.
    pub updates: f64,
    /// Inserts.
    pub inserts: f64,
    /// Deletes of records that are there, unless they were deleted before.
    pub deletes: f64,
    /// Scans.
    pub scans: f64,
    /// Reads followed by an update of the same record.
    pub read_modify_writes: f64,
    /// Transactions.
    pub transactions: f64,
    /// The operations of a transaction.
    pub transaction: Transaction,
    /// The distribution of records.
    pub choice: Choice,
    /// The number of pairs that a scan reads.
    pub scan: Sizes,
    /// Whether the first client does only the writing operations and the others only the reading
    /// ones, whatever the shares of the two are. A single client does both.
    pub apart: bool,
}

/// Operations that count as one: reads, then scans, then all writes as one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
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

impl Workload {
    /// The workload of a phase that replays a trace
    /// ([`Arrivals::Replay`](crate::arrivals::Arrivals::Replay)). Only its name is used.
    #[must_use]
    pub fn trace() -> Self {
        Self { name: "trace".into(), reads: 100.0, ..Self::default() }
    }

    /// The workload of this name.
    ///
    /// # Errors
    /// [`InvalidOption`](vlsm_core::Error::InvalidOption) if the name is unknown. Its text has the
    /// nearest known name and all names.
    pub fn named(name: &str) -> Result<Self> {
        Ok(Preset::named(name)?.workload)
    }

    /// The kinds and their shares: first the reading ones (reads, missing reads, scans), then the
    /// writing ones.
    #[must_use]
    pub fn shares(&self) -> [(Kind, f64); 8] {
        self.clone().shares_mut().map(|(kind, share)| (kind, *share))
    }

    fn shares_mut(&mut self) -> [(Kind, &mut f64); 8] {
        [
            (Kind::Read, &mut self.reads),
            (Kind::Read, &mut self.missing_reads),
            (Kind::Scan, &mut self.scans),
            (Kind::Update, &mut self.updates),
            (Kind::Insert, &mut self.inserts),
            (Kind::Delete, &mut self.deletes),
            (Kind::ReadModifyWrite, &mut self.read_modify_writes),
            (Kind::Transaction, &mut self.transactions),
        ]
    }

    /// Sets the share of point reads in percent. The other shares keep their proportions; if all
    /// are zero, the rest becomes updates.
    #[must_use]
    pub fn with_reads(mut self, reads: f64) -> Self {
        let others = 100.0 - self.reads;
        if others > 0.0 {
            for (_, share) in self.shares_mut() {
                *share *= (100.0 - reads) / others;
            }
        } else {
            self.updates = 100.0 - reads;
        }
        self.reads = reads;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_share_can_be_set() {
        let workload = Workload::named("c").expect("known").with_reads(30.0);
        assert_eq!((workload.reads, workload.updates), (30.0, 70.0));
        let workload = Workload::named("d").expect("known").with_reads(90.0);
        assert!((workload.inserts - 10.0).abs() < 1e-9);
    }
}
