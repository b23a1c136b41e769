//! What is asked: YCSB's workloads and two of db_bench's, as shares of operations over a
//! distribution of keys.
//!
//! Records are numbered from 0 in the order of their insertion; [`data`] makes their keys, hashed,
//! so that the order of insertion is random in the order of keys. A [`Generator`] gives the
//! operations of one client: the same workload, seed and client give the same operations (inserts
//! take the next free number, which depends on the other clients).
//!
//! Source: Cooper et al., "Benchmarking cloud serving systems with YCSB" (2010). Deviation: the
//! popular records of the zipfian distribution are spread by a hash modulo the number of records,
//! so that no request falls on a record that is not there.

pub mod data;
pub mod keys;

use keys::{Choice, Picker};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One operation on numbered records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A point read.
    Read(u64),
    /// A new value for a record that is there.
    Update(u64),
    /// A new record.
    Insert(u64),
    /// This many records in key order from this one on.
    Scan(u64, usize),
    /// A point read, then an update of the same record.
    ReadModifyWrite(u64),
}

/// A named mix of operations. Shares are percentages and sum to 100.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The name in reports.
    pub name: String,
    /// Point reads.
    pub reads: f64,
    /// Updates.
    pub updates: f64,
    /// Inserts.
    pub inserts: f64,
    /// Scans.
    pub scans: f64,
    /// Reads followed by an update of the same record.
    pub read_modify_writes: f64,
    /// Which records.
    pub choice: Choice,
    /// The shortest scan.
    pub scan_min: usize,
    /// The longest scan.
    pub scan_max: usize,
}

/// The zipfian constant of YCSB.
pub const THETA: f64 = 0.99;

impl Workload {
    /// The names [`Workload::named`] knows.
    pub const NAMES: [&str; 9] = ["load", "a", "b", "c", "d", "e", "f", "readrandom", "scan100"];

    fn mix(name: &str, shares: [f64; 5], choice: Choice) -> Self {
        let [reads, updates, inserts, scans, read_modify_writes] = shares;
        let name = name.to_owned();
        let (scan_min, scan_max) = (1, 100);
        Self {
            name,
            reads,
            updates,
            inserts,
            scans,
            read_modify_writes,
            choice,
            scan_min,
            scan_max,
        }
    }

    /// YCSB's `load` (inserts only) and `a` to `f`; uniform point reads; scans of 100 pairs from
    /// uniform starts.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let zipfian = Choice::Zipfian(THETA);
        Some(match name {
            "load" => Self::mix("Load A", [0.0, 0.0, 100.0, 0.0, 0.0], Choice::Uniform),
            "a" => Self::mix("Run A", [50.0, 50.0, 0.0, 0.0, 0.0], zipfian),
            "b" => Self::mix("Run B", [95.0, 5.0, 0.0, 0.0, 0.0], zipfian),
            "c" => Self::mix("Run C", [100.0, 0.0, 0.0, 0.0, 0.0], zipfian),
            "d" => Self::mix("Run D", [95.0, 0.0, 5.0, 0.0, 0.0], Choice::Latest(THETA)),
            "e" => Self::mix("Run E", [0.0, 0.0, 5.0, 95.0, 0.0], zipfian),
            "f" => Self::mix("Run F", [50.0, 0.0, 0.0, 0.0, 50.0], zipfian),
            "readrandom" => Self::mix(name, [100.0, 0.0, 0.0, 0.0, 0.0], Choice::Uniform),
            "scan100" => Self {
                scan_min: 100,
                ..Self::mix(name, [0.0, 0.0, 0.0, 100.0, 0.0], Choice::Uniform)
            },
            _ => return None,
        })
    }

    /// The same with `reads` percent point reads, the other shares keeping their proportions.
    #[must_use]
    pub fn with_reads(mut self, reads: f64) -> Self {
        let others = 100.0 - self.reads;
        if others <= 0.0 {
            self.updates = 100.0 - reads;
        }
        let factor = if others > 0.0 { (100.0 - reads) / others } else { 1.0 };
        self.updates *= factor;
        self.inserts *= factor;
        self.scans *= factor;
        self.read_modify_writes *= factor;
        self.reads = reads;
        self
    }
}

/// The records that exist, shared by all clients.
#[derive(Debug, Default)]
pub struct Records(AtomicU64);

impl Records {
    /// `count` records are there.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    /// How many there are, those being inserted included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The operations of one client.
pub struct Generator {
    rng: Xoshiro256PlusPlus,
    /// Cumulative shares: reads, updates, inserts, scans; the rest is read-modify-write.
    limits: [f64; 4],
    scans: std::ops::RangeInclusive<usize>,
    picker: Picker,
    records: Arc<Records>,
}

impl Generator {
    /// The operations of client number `client`.
    #[must_use]
    pub fn new(workload: &Workload, records: &Arc<Records>, seed: u64, client: u64) -> Self {
        let mut sum = 0.0;
        let shares = [workload.reads, workload.updates, workload.inserts, workload.scans];
        let limits = shares.map(|share| {
            sum += share;
            sum
        });
        Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(data::mix(seed ^ data::mix(client))),
            limits,
            scans: workload.scan_min..=workload.scan_max,
            picker: Picker::new(workload.choice, records.count()),
            records: records.clone(),
        }
    }

    /// The next operation.
    #[inline]
    pub fn next_op(&mut self) -> Op {
        let share = self.rng.random::<f64>() * 100.0;
        let [reads, updates, inserts, scans] = self.limits;
        if share >= updates && share < inserts {
            return Op::Insert(self.records.0.fetch_add(1, Relaxed));
        }
        let record = self.picker.pick(&mut self.rng, self.records.count());
        if share < reads {
            Op::Read(record)
        } else if share < updates {
            Op::Update(record)
        } else if share < scans {
            Op::Scan(record, self.rng.random_range(self.scans.clone()))
        } else {
            Op::ReadModifyWrite(record)
        }
    }

    /// A random number, to choose a value with.
    #[inline]
    pub fn random(&mut self) -> u64 {
        self.rng.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(name: &str, seed: u64, client: u64, count: usize) -> Vec<Op> {
        let workload = Workload::named(name).expect("known");
        let records = Arc::new(Records::new(1000));
        let mut generator = Generator::new(&workload, &records, seed, client);
        (0..count).map(|_| generator.next_op()).collect()
    }

    #[test]
    fn operations_depend_on_seed_and_client_alone() {
        assert_eq!(ops("a", 1, 0, 100), ops("a", 1, 0, 100));
        assert_ne!(ops("a", 1, 0, 100), ops("a", 1, 1, 100));
        assert_ne!(ops("a", 1, 0, 100), ops("a", 2, 0, 100));
    }

    #[test]
    fn shares_are_as_named() {
        let share = |name, matches: fn(&Op) -> bool| {
            ops(name, 7, 0, 20_000).iter().filter(|op| matches(op)).count() as f64 / 200.0
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1.5, "{found}");
        near(share("a", |op| matches!(op, Op::Read(_))), 50.0);
        near(share("a", |op| matches!(op, Op::Update(_))), 50.0);
        near(share("e", |op| matches!(op, Op::Scan(_, 1..=100))), 95.0);
        near(share("d", |op| matches!(op, Op::Insert(1000..))), 5.0);
        near(share("f", |op| matches!(op, Op::ReadModifyWrite(_))), 50.0);
        assert_eq!(share("load", |op| matches!(op, Op::Insert(_))), 100.0);
    }

    #[test]
    fn inserts_take_consecutive_numbers() {
        let expected: Vec<_> = (1000..1100).map(Op::Insert).collect();
        assert_eq!(ops("load", 3, 0, 100), expected);
    }

    #[test]
    fn the_read_share_can_be_set() {
        let workload = Workload::named("c").expect("known").with_reads(30.0);
        assert_eq!((workload.reads, workload.updates), (30.0, 70.0));
        let workload = Workload::named("d").expect("known").with_reads(90.0);
        assert!((workload.inserts - 10.0).abs() < 1e-9);
    }
}
