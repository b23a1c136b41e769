//! File systems for tests, behind the seam of [`vlsm_disk::fs`]: [`SimFs`] is a disk in memory that
//! forgets what was not synced when it crashes, [`FaultFs`] wraps another file system and makes
//! chosen calls fail, and [`MemFile`] is a lone file of bytes to read.
//!
//! Nothing of it is in a release build: the store may only dev-depend on this crate, and its
//! programs not at all, which `cargo xtask tidy` checks. The integration tests of `vlsm_disk` can
//! use it. Its unit tests cannot: they compile the crate a second time, with traits of its own.

mod fault;
mod mem;
mod sim;
mod sim_file;

pub use fault::{Fault, FaultFs, Op, Rule, RuleId};
pub use mem::MemFile;
pub use sim::{CrashMode, CrashPoint, FailedSync, SimFs};
