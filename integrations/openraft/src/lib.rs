//! vLSM as the storage of [openraft](https://docs.rs/openraft) 0.9: log and state machine in one
//! store, with one write-ahead log.
//!
//! [`Storage::open`] gives the two halves that `openraft::Raft::new` takes: a [`LogStore`] and a
//! [`StateMachine`]. The application says by [`Apply`] what a command does. It reads by
//! [`Reader::view`], which never waits for writes, snapshots or installs.
//!
//! ```text
//! FOLDER/store      the vLSM store
//!   keyspace log      'e' + index (8 bytes, big endian)   entry
//!                     'm' + name                          vote, committed, last purged log id,
//!                                                         current snapshot, number of the state
//!   keyspace state-N  'm'                                 last applied log id, membership
//!                     'd' + key                           the application's pairs
//! FOLDER/snapshots  the current snapshot, and those that are being built or received
//! ```
//!
//! Durability:
//! 1. Entries go into the store's memory (`Lazy`) and can be read at once. Then the WAL is synced,
//!    and they are reported as flushed.
//! 2. A vote is synced before `save_vote` returns.
//! 3. Truncate and purge are one range delete each, without a sync: the WAL keeps the order of
//!    writes, so a crash that loses one of them loses all that was written after it, too.
//! 4. Applied commands and the committed log id are `Lazy`, too. After a crash the state machine
//!    may be behind the log, never ahead of it, and openraft applies the entries again.
//! 5. A snapshot is recorded when its file is synced; an installed one replaces the state, and is
//!    recorded, by one synced batch.
//!
//! **The vote of a former process is read as not committed.** openraft 0.9 lets a restarted leader
//! lead on without an election, and answer linearizable reads from a state machine that is behind
//! what it had applied before (4). So a restarted node begins as a follower, and the next leader's
//! first entry is applied before it answers reads.

mod codec;
mod error;
mod log;
mod plant;
mod recent;
mod snapshot;
mod state;
mod storage;

pub use error::StoreError;
pub use log::LogStore;
pub use snapshot::{Builder, SnapshotFile};
pub use state::{Apply, Changes, MAX_KEY_LEN, Reader, StateMachine, View};
pub use storage::{Storage, TypeConfig};
