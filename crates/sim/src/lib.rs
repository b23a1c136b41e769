//! The real engine on a simulated machine: one OS thread, one seed, crashes, an oracle.
//!
//! | module | what it holds |
//! |---|---|
//! | [`machine`] | the scheduler: tasks as coroutines, virtual time, deadlock and livelock found |
//! | [`env`](mod@env) | the machine as the engine's `Env`; [`SimEnv::run`] |
//! | [`device`] | the disk as the machine sees it: latency, crash points, counting |
//!
//! Sees the engine only through its public face and its two seams, `Env` and `Fs`.

pub mod device;
pub mod env;
pub mod machine;
pub mod rng;
pub mod trace;

pub use env::{End, Outcome, SimConfig, SimEnv};
pub use rng::Rng;
