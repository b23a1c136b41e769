//! `peers-raft`: the key-value server of `integrations/openraft` on vLSM, on RocksDB and on fjall,
//! and the load that compares them.
//!
//! ```text
//! memory    the state machine of openraft's examples: a map in memory, snapshots in the store
//! log       the log of openraft's examples, over a store
//! rocksdb   RocksDB as such a store      fjall   fjall as one
//! cluster   three nodes, each a process of this program
//! load      clients in a closed loop     syncs   counts system calls
//! measure   rounds, medians and the table
//! ```

mod cluster;
mod fjall;
mod load;
mod log;
mod measure;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod syncs;
#[cfg(test)]
mod tests;

use clap::{Parser, Subcommand, ValueEnum};
use std::process::ExitCode;
use vlsm_openraft_kv::{Serve, Vlsm, serve};

/// The key-value server of integrations/openraft on three storages, and its load.
#[derive(Parser)]
#[command(name = "peers-raft", version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one node.
    Serve {
        /// Its storage.
        #[arg(long)]
        storage: Storage,
        #[command(flatten)]
        serve: Serve,
    },
    /// Measure puts at the leader of three nodes, storage after storage.
    Measure(measure::Measure),
}

/// The storages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Storage {
    /// The one of integrations/openraft.
    Vlsm,
    /// As openraft's own examples store.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// As openraft's own examples store.
    Fjall,
}

impl std::fmt::Display for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

fn main() -> ExitCode {
    let program = Program::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start threads: {error}")),
    };
    let done = runtime.block_on(async {
        match program.command {
            Command::Serve { storage: Storage::Vlsm, serve: it } => serve::<Vlsm>(it).await,
            #[cfg(feature = "rocksdb")]
            Command::Serve { storage: Storage::Rocksdb, serve: it } => {
                serve::<memory::InMemory<rocksdb::RocksDb>>(it).await
            }
            Command::Serve { storage: Storage::Fjall, serve: it } => {
                serve::<memory::InMemory<fjall::Fjall>>(it).await
            }
            Command::Measure(measure) => measure::run(&measure).await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("peers-raft: {error}");
    ExitCode::FAILURE
}
