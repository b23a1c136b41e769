//! The operations of one client of a workload.
//!
//! 1. A random number chooses the kind of operation by the shares; another one chooses the record.
//! 2. Inserts take the next free number from the counter that all clients share.

use super::data::{Data, mix};
use super::keys::{Choice, Picker};
use super::{Transaction, Workload};
use crate::metrics::Kind;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One operation of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// Its kind.
    pub kind: Kind,
    /// Its key; a transaction chooses its own ones.
    pub key: Key,
    /// The number of records that a scan reads, in key order from its key on.
    pub length: usize,
}

/// The key of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The key of a record.
    Record(u64),
    /// A key that no record has, chosen by this record's number.
    Missing(u64),
    /// The key that has this share (of 2^64) of the records below it.
    At(u64),
}

/// The records that exist, shared by all clients.
#[derive(Debug, Default)]
pub struct Records(AtomicU64);

impl Records {
    /// Begins with `count` records.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    /// The number of records, including those being inserted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The index of the reads of keys that no record has, in [`Workload::shares`].
const MISSING: usize = 1;
/// The number of reading kinds, which come first there.
const READING: usize = 3;

/// The operations of one client.
pub struct Generator {
    rng: Xoshiro256PlusPlus,
    kinds: [Kind; 8],
    /// Cumulative shares of the kinds, up to one.
    limits: [f64; 8],
    workload: Workload,
    /// The start of the next scan in order, in shares of 2^64.
    place: u64,
    picker: Picker,
    records: Arc<Records>,
}

impl Generator {
    /// The operations of client number `client` of `clients`.
    #[must_use]
    pub fn new(
        workload: &Workload,
        data: &Data,
        records: &Arc<Records>,
        seed: u64,
        (client, clients): (u64, u64),
    ) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed ^ mix(client)));
        let kinds = workload.shares().map(|(kind, _)| kind);
        let mut shares = workload.shares().map(|(_, share)| share);
        if workload.apart && clients > 1 {
            let (reading, writing) = shares.split_at_mut(READING);
            if client == 0 { reading } else { writing }.fill(0.0);
        }
        let total: f64 = shares.iter().sum();
        let mut sum = 0.0;
        let limits = shares.map(|share| {
            sum += share / total;
            sum
        });
        Self {
            kinds,
            limits,
            workload: workload.clone(),
            place: if workload.choice == Choice::InOrder { rng.random() } else { 0 },
            picker: Picker::new(workload.choice, records.count(), data.shape().order),
            records: records.clone(),
            rng,
        }
    }

    /// The next operation.
    #[inline]
    pub fn next_op(&mut self) -> Op {
        let share = self.rng.random::<f64>();
        let index = self.limits.iter().position(|limit| share < *limit);
        let kind = self.kinds[index.unwrap_or(self.kinds.len() - 1)];
        let length = if kind == Kind::Scan { self.workload.scan.at(self.rng.random()) } else { 0 };
        let key = match kind {
            Kind::Scan if self.workload.choice == Choice::InOrder => self.place_of(length),
            Kind::Insert => Key::Record(self.records.0.fetch_add(1, Relaxed)),
            Kind::Transaction => Key::Record(0),
            _ if index == Some(MISSING) => Key::Missing(self.pick()),
            _ => Key::Record(self.pick()),
        };
        Op { kind, key, length }
    }

    /// Returns the start of the next scan in order: its first key follows the last one of the scan
    /// before.
    fn place_of(&mut self, length: usize) -> Key {
        let step = ((length as u128) << 64) / u128::from(self.records.count().max(1));
        let next = self.place.wrapping_add(step as u64);
        Key::At(std::mem::replace(&mut self.place, next))
    }

    /// The transaction of the workload.
    pub(crate) fn transaction(&self) -> Transaction {
        self.workload.transaction
    }

    /// An existing record, chosen as the workload says.
    #[inline]
    pub fn pick(&mut self) -> u64 {
        self.picker.pick(&mut self.rng, self.records.count())
    }

    /// The number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records.count()
    }

    /// A random number, to choose a value with.
    #[inline]
    pub fn random(&mut self) -> u64 {
        self.rng.random()
    }
}
