//! The operations of one client of a workload.
//!
//! 1. A random number chooses the kind of operation by the shares; another one chooses the record.
//! 2. Inserts take the next free number from the counter that all clients share.

use super::data::{Data, mix};
use super::keys::{Choice, Picker};
use super::sizes::Sizes;
use super::{Transaction, Workload};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One operation on numbered records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A point read.
    Read(u64),
    /// A point read of a key that no record has, chosen by this record's number.
    ReadMissing(u64),
    /// A new value for a record that is there.
    Update(u64),
    /// A new record.
    Insert(u64),
    /// Removes a record.
    Delete(u64),
    /// This many records in key order from this one on.
    Scan(u64, usize),
    /// This many records from the key that has this share (of 2^64) of the records below it.
    ScanAt(u64, usize),
    /// A point read, then an update of the same record.
    ReadModifyWrite(u64),
    /// Operations that count as one.
    Transaction(Transaction),
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

/// The number of reading kinds, which come first in [`Workload::shares`].
const READING: usize = 3;

/// The operations of one client.
pub struct Generator {
    rng: Xoshiro256PlusPlus,
    /// Cumulative shares, up to one.
    limits: [f64; 8],
    scan: Sizes,
    in_order: bool,
    /// Where the next scan in order begins, in shares of 2^64.
    place: u64,
    transaction: Transaction,
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
        let mut shares = workload.shares();
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
        let in_order = workload.choice == Choice::InOrder;
        Self {
            limits,
            scan: workload.scan,
            in_order,
            place: if in_order { rng.random() } else { 0 },
            transaction: workload.transaction,
            picker: Picker::new(workload.choice, records.count(), data.shape().order),
            records: records.clone(),
            rng,
        }
    }

    /// The next operation.
    #[inline]
    pub fn next_op(&mut self) -> Op {
        let share = self.rng.random::<f64>();
        let kind = self.limits.iter().position(|limit| share < *limit);
        match kind.unwrap_or(self.limits.len() - 1) {
            0 => Op::Read(self.pick()),
            1 => Op::ReadMissing(self.pick()),
            2 => self.next_scan(),
            3 => Op::Update(self.pick()),
            4 => Op::Insert(self.records.0.fetch_add(1, Relaxed)),
            5 => Op::Delete(self.pick()),
            6 => Op::ReadModifyWrite(self.pick()),
            _ => Op::Transaction(self.transaction),
        }
    }

    fn next_scan(&mut self) -> Op {
        let length = self.scan.at(self.rng.random());
        if !self.in_order {
            return Op::Scan(self.pick(), length);
        }
        let step = ((length as u128) << 64) / u128::from(self.records.count().max(1));
        let place = self.place;
        // The first key follows the last one.
        self.place = place.wrapping_add(step as u64);
        Op::ScanAt(place, length)
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
