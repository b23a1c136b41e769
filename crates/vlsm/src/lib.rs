//! **vLSM**: an embedded, ordered, durable key-value store that avoids write stalls and reports the
//! cause of each wait.
//!
//! ```
//! # fn main() -> vlsm::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("store");
//! use vlsm::{Batch, Db, KeyspaceOptions, WriteOptions};
//!
//! let db = Db::open(&path)?;
//! let users = db.create_keyspace("users", KeyspaceOptions::new())?;
//! let mut batch = Batch::new();
//! batch.put(&users, "ada", "1815");
//! batch.put(&users, "alan", "1912");
//! db.write(&batch, WriteOptions::default())?;
//!
//! let before = db.snapshot();
//! users.delete("ada")?;
//! assert_eq!(users.iter().count(), 1);
//! assert_eq!(before.iter(&users).rev().count(), 2);
//! db.close()
//! # }
//! ```
//!
//! [`Db`] opens a store; [`Keyspace`] reads and writes; [`Batch`] makes writes atomic; [`Snapshot`]
//! and [`Iter`] read a consistent state; [`Transaction`] makes reads and writes atomic together;
//! [`Options`] sets durability, memory and the mechanisms that shape the tree ([`PolicyOptions`]);
//! [`Stats`] holds the counters.

mod aside;
mod batch;
mod beside;
mod bounds;
mod budget;
mod catalog;
mod checkpoint;
mod close;
mod control;
mod copies;
mod db;
mod default;
mod device;
mod engine;
mod external;
mod folder;
mod follow;
mod handle;
mod held;
mod ingest;
mod install;
mod iter;
mod job;
mod keyspace;
mod log;
#[doc(hidden)]
pub mod memtable;
mod open;
mod options;
mod own_writes;
mod paths;
mod read;
mod recovery;
mod replace;
mod rules;
mod salvage;
mod shared;
mod single_key;
mod snapshot;
mod stats;
mod sync;
#[cfg(all(test, shuttle))]
mod tests;
pub mod trace;
#[cfg(feature = "tracing")]
mod tracing;
mod transaction;
mod unwind;
mod verify;
mod write;

#[cfg(feature = "tracing")]
pub use crate::tracing::to_tracing;
pub use batch::{Batch, MAX_BATCH_LEN};
pub use bounds::KeyBounds;
pub use bytes::Bytes;
pub use catalog::{DEFAULT_KEYSPACE, KeyspaceOptions};
pub use checkpoint::{CopyReport, restore, restore_with};
pub use control::chain::ChainSummary;
pub use db::{Builder, Db};
pub use external::{SstFile, SstFileWriter};
pub use ingest::{IngestOptions, IngestReport};
pub use iter::{Iter, PairRef};
pub use keyspace::Keyspace;
pub use options::{Compression, Durability, Options, WriteOptions};
pub use read::size::ApproximateSize;
pub use rules::{CompactionFilter, Decision, MergeOperator};
pub use salvage::{DamagedRange, Salvage, Salvaged};
pub use shared::events::Listener;
pub use shared::latency::{LatencyBucket, LatencyStats};
pub use shared::memory::MemoryStats;
pub use snapshot::Snapshot;
pub use stats::{FileStats, JobStats, KeyspaceStats, KeyspaceWait, Latencies, LevelStats};
pub use stats::{SnapshotStats, Stats, WaitStats, WorkStats};
pub use transaction::{TRANSACT_TRIES, Transaction, TransactionIter};
pub use verify::{Finding, Severity, VerifyProgress, VerifyReport, verify, verify_with};
pub use vlsm_core::event::{
    Behind, Callback, ChainReport, ChainStage, Event, JobKind, SlowPath, WaitCause,
};
pub use vlsm_core::key::{MAX_KEY_LEN, MAX_VALUE_LEN};
pub use vlsm_core::{ByteCount, BytesPerSec, Error, Micros, Result, Seq};
pub use vlsm_core::{ConflictKind, LockHolder, OptionDifference};
pub use vlsm_core::{FileNumber, JobId, MemtableId, TreeId};
pub use vlsm_disk::Env;
pub use vlsm_disk::sst::{sst_number, sst_path};
pub use vlsm_policy::profile::PROFILES;
pub use vlsm_policy::{DeviceMap, DevicePoint, PolicyOptions, Profile};

/// Sizes as people write and read them.
pub mod units {
    pub use vlsm_core::units::{GIB, KIB, MIB, parse_bytes, print_bytes};
}

/// The machine that a store runs on, which [`Builder::env`] replaces.
///
/// An [`Env`] has a clock, threads, waits and a file system ([`Fs`](env::Fs)). Programs use the
/// default; simulators and tests of failures implement their own. Later versions may add methods to
/// these traits, each with a default implementation.
pub mod env {
    pub use vlsm_disk::env::{Condition, Env, Join, Priority};
    pub use vlsm_disk::env_real::RealEnv;
    pub use vlsm_disk::fs::{File, Fs, Lock, OpenOptions};
    pub use vlsm_disk::waker::Waker;
}

/// The types of the fields of [`PolicyOptions`]: the sizes of a tree, and the options of each
/// mechanism.
pub mod policy {
    pub use vlsm_policy::admission::AdmissionOptions;
    pub use vlsm_policy::admission::cruise::{CruiseOptions, First, High, Limits, Rise};
    pub use vlsm_policy::admission::fixed::FixedOptions;
    pub use vlsm_policy::admission::gradual::GradualOptions;
    pub use vlsm_policy::admission::slowdown_stop::SlowdownStopOptions;
    pub use vlsm_policy::admission::spring::SpringOptions;
    pub use vlsm_policy::mechanism::NoOptions;
    pub use vlsm_policy::schedule::ScheduleOptions;
    pub use vlsm_policy::schedule::adoc::AdocOptions;
    pub use vlsm_policy::schedule::auto_tuned::AutoTunedOptions;
    pub use vlsm_policy::schedule::dlc::{Burst, Delay, DlcOptions};
    pub use vlsm_policy::schedule::gear::GearOptions;
    pub use vlsm_policy::schedule::load::LoadModel;
    pub use vlsm_policy::schedule::priority::PriorityOptions;
    pub use vlsm_policy::schedule::silk::{Pause, SilkOptions};
    pub use vlsm_policy::shape::flsm::FlsmOptions;
    pub use vlsm_policy::shape::sp_lsm::{Order, SpLsmOptions};
    pub use vlsm_policy::shape::tiered_l0::TieredOptions;
    pub use vlsm_policy::shape::triad::TriadOptions;
    pub use vlsm_policy::shape::vlsm::{L1Limit, VlsmOptions};
    pub use vlsm_policy::shape::{Overlap, ShapeOptions};
    pub use vlsm_policy::tree::TreeOptions;
}

/// Runs the examples of the README and of the guide as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../guide.md")]
struct Guide;

/// Runs the example of the page for users of other stores.
#[cfg(doctest)]
#[doc = include_str!("../moving.md")]
struct Moving;
