//! **vLSM**: an embedded, ordered, durable key-value store that fights write stalls and reports the
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
//! [`Stats`] has the counters.

mod aside;
mod batch;
mod bounds;
mod budget;
mod catalog;
mod checkpoint;
mod close;
mod control;
mod copies;
mod db;
mod device;
mod engine;
mod external;
mod folder;
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
mod rules;
mod salvage;
mod shared;
mod single_key;
mod snapshot;
mod stats;
mod sync;
#[cfg(all(test, feature = "shuttle"))]
mod tests;
pub mod trace;
mod transaction;
mod unwind;
mod verify;
mod write;

pub use batch::{Batch, MAX_BATCH_LEN};
pub use bounds::KeyBounds;
pub use catalog::{DEFAULT_KEYSPACE, KeyspaceOptions};
pub use checkpoint::{CopyReport, restore, restore_with};
pub use control::chain::ChainSummary;
pub use db::{Builder, Db};
pub use external::{SstFile, SstFileWriter};
pub use ingest::{IngestOptions, IngestReport};
pub use iter::Iter;
pub use keyspace::Keyspace;
pub use options::{Compression, Durability, Options, WriteOptions};
pub use read::size::ApproximateSize;
pub use rules::{CompactionFilter, Decision, MergeOperator};
pub use salvage::{DamagedRange, Salvage, Salvaged};
pub use shared::events::Listener;
pub use shared::memory::MemoryStats;
pub use snapshot::Snapshot;
pub use stats::{LevelStats, Stats, WaitStats, WorkStats};
pub use transaction::{TRANSACT_TRIES, Transaction, TransactionIter};
pub use verify::{Finding, Severity, VerifyProgress, VerifyReport, verify, verify_with};
pub use vlsm_core::event::{Callback, ChainReport, ChainStage, Event, JobKind, WaitCause};
pub use vlsm_core::key::{MAX_KEY_LEN, MAX_VALUE_LEN};
pub use vlsm_core::{Bytes as ByteCount, BytesPerSec, Error, Micros, Result, Seq, units};
pub use vlsm_core::{ConflictKind, LockHolder, OptionDifference};
pub use vlsm_disk::Env;
pub use vlsm_disk::sst::{sst_number, sst_path};
pub use vlsm_policy::profile::PROFILES;
pub use vlsm_policy::{DeviceMap, DevicePoint, PolicyOptions, Profile};

/// The examples of the README and of the guide run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;
