//! The program `vlsm-openraft-kv`: `serve` is one node, `cluster` starts three on loopback, and the
//! other commands are a client.

mod client;
mod cluster;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use vlsm_openraft_kv::{Serve, Vlsm, serve};

/// A replicated key-value store: openraft on vLSM.
#[derive(Parser)]
#[command(name = "vlsm-openraft-kv", version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one node.
    Serve(Serve),
    /// Run three nodes on loopback, each a process; a node that stops is started again.
    Cluster(cluster::Cluster),
    /// Print the value of a key.
    Get(client::Get),
    /// Set a key to a value.
    Put(client::Put),
    /// Set a key to a value if it has an expected one.
    Cas(client::Cas),
    /// Remove a key.
    Delete(client::Delete),
    /// Print what each node says of itself.
    Status(client::Status),
}

fn main() -> ExitCode {
    let program = Program::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start threads: {error}")),
    };
    let done = runtime.block_on(async {
        match program.command {
            Command::Serve(arguments) => serve::<Vlsm>(arguments).await,
            Command::Cluster(cluster) => cluster::run(cluster).await,
            Command::Get(get) => client::get(get).await,
            Command::Put(put) => client::put(put).await,
            Command::Cas(cas) => client::cas(cas).await,
            Command::Delete(delete) => client::delete(delete).await,
            Command::Status(status) => client::status(status).await,
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("vlsm-openraft-kv: {error}");
    ExitCode::FAILURE
}
