//! File systems for tests, behind the interface of [`vlsm_disk::fs`]: [`SimFs`] is a disk in memory
//! that loses unsynced data when it crashes, [`FaultFs`] wraps another file system and makes chosen
//! calls fail, and [`MemFile`] is a single file in memory, for reading.
//!
//! No release build contains this crate: the store may only dev-depend on it, and the store's
//! programs not at all, which `cargo xtask tidy` checks. The integration tests of `vlsm_disk` can
//! use it. Its unit tests cannot: they compile `vlsm_disk` a second time, with traits of its own.

mod fault;
mod mem;
mod sim;
mod sim_file;

pub use fault::{Fault, FaultFs, Op, Rule, RuleId};
pub use mem::MemFile;
pub use sim::{CrashMode, CrashPoint, FailedSync, SimFs};
