//! Everything that knows bytes: the environment, file systems, SSTs, the WAL and the manifest.
//!
//! Depends on [`vlsm_core`] only. It must not know policies, memtables, jobs or its callers.

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!(
    "vLSM runs on Linux and macOS: this platform's way to make files and folders durable is not \
     written yet (crates/disk/src/fs/posix.rs is where it belongs)"
);

pub mod aligned;
pub mod codec;
pub mod crew;
pub mod env;
#[cfg(unix)]
pub mod env_real;
pub mod fs;
pub mod gauge;
pub mod io;
pub mod manifest;
pub mod names;
#[cfg(unix)]
mod per_process;
pub mod record;
pub mod sst;
pub mod throttle;
pub mod waker;
pub mod wal;

pub use aligned::AlignedBuf;
pub use crew::Crew;
pub use env::{Condition, Env, Priority};
#[cfg(unix)]
pub use env_real::RealEnv;
pub use fs::{File, Fs};
pub use gauge::{Charge, Gauge};
pub use io::{Bulk, Done, IoPool, Pending, Rank, Ranked, Way};
pub use manifest::Manifest;
