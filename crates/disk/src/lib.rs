//! Everything that knows bytes: the environment, file systems, SSTs, the WAL and the manifest.
//!
//! Sees [`vlsm_core`] only. Must not know policies, memtables, jobs or who calls it.

pub mod env;
pub mod fs;

pub use env::{Condition, Env, Priority};
pub use fs::{File, Fs};
