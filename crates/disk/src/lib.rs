//! Everything that knows bytes: the environment, file systems, SSTs, the WAL and the manifest.
//!
//! Sees [`vlsm_core`] only. Must not know policies, memtables, jobs or who calls it.

pub mod aligned;
pub mod codec;
pub mod env;
pub mod env_real;
pub mod fs;
pub mod gauge;
pub mod io;
pub mod manifest;
pub mod sst;
pub mod wal;

pub use aligned::AlignedBuf;
pub use env::{Condition, Env, Priority};
pub use env_real::RealEnv;
pub use fs::{File, Fs};
pub use gauge::{Charge, Gauge};
pub use io::{IoPool, Pending};
pub use manifest::Manifest;
