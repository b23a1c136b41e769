//! The real engine on a simulated machine: one OS thread, one seed, crashes, an oracle.
//!
//! | module | what it holds |
//! |---|---|
//! | [`machine`] | the scheduler: tasks as coroutines, virtual time, deadlock and livelock found |
//! | [`env`](mod@env) | the machine as the engine's `Env`; [`SimEnv::run`] |
//! | [`device`] | the disk as the machine sees it: latency, crash points, counting |
//! | [`disk`] | the disk, which outlives the machines, and its state after crashes |
//! | [`oracle`] | the answers that the store must give: sorted maps |
//! | [`history`] | the history of concurrent clients, and the contents consistent with it |
//! | [`ledger`] | the histories of one store: in the WAL, and outside it |
//! | [`world`] | a store on a machine: the one place that knows the engine's public API |
//! | [`model`] | random operations against the oracle |
//! | `leaks` | checks of the files that a store leaves on the disk |
//! | [`clients`] | concurrent clients, crashes, faults and reopening, by seed |
//! | [`actor`] | one of those clients |
//! | `admin` | administrators, which copy, restore and verify the store meanwhile |
//! | `eraser` | a client that clears a keyspace of its own beside them |
//! | `follower` | a reader beside them, as another process would be |
//! | `life` | what all of these share |
//! | [`tally`] | counts of what happened in stories |
//! | [`script`] | readable scripts, `scripts/*.txt` |
//! | [`serial`] | concurrent transactions, and the order that explains what they saw |
//! | [`full`] | a disk that is full for a while |
//! | [`closure`] | what is written can be read again |
//! | [`spaces`] | keyspaces that are made, cleared and dropped, with crashes |
//! | [`crash`] | a script crashed before and after every mutating file operation |
//! | [`salvage`] | a damaged log, salvaged; salvages that crash |
//! | [`flip`] | a store at rest, damaged everywhere |
//!
//! The crate uses the engine only through its public API and its two interfaces, `Env` and `Fs`.

pub mod actor;
mod admin;
pub mod clients;
pub mod closure;
pub mod crash;
pub mod device;
pub mod disk;
pub mod env;
mod eraser;
pub mod flip;
mod follower;
pub mod full;
pub mod history;
mod leaks;
pub mod ledger;
mod life;
pub mod machine;
pub mod model;
pub mod oracle;
pub mod rng;
pub mod salvage;
pub mod script;
pub mod serial;
pub mod spaces;
pub mod tally;
pub mod trace;
pub mod world;

pub use env::{End, Outcome, SimConfig, SimEnv};
pub use rng::Rng;
