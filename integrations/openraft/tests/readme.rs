//! The sample of the README compiles and does what the text around it says: it is cut out of the
//! README and compared with this file, which has it in one piece, and which runs.

#![allow(clippy::result_large_err, reason = "openraft's errors are large")]

mod words;

use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, Raft};
use std::collections::BTreeMap;
use std::sync::Arc;
use vlsm_openraft::{Apply, Changes, Storage};
use words::Config;

/// A network without other nodes.
struct Alone;

impl RaftNetworkFactory<Config> for Alone {
    type Network = Self;

    async fn new_client(&mut self, _: u64, (): &()) -> Self {
        Self
    }
}

type Failed<E> = RPCError<u64, (), E>;

fn nobody<T, E: std::error::Error>() -> Result<T, Failed<E>> {
    Err(RPCError::Unreachable(Unreachable::new(&AnyError::error("there is no other node"))))
}

impl RaftNetwork<Config> for Alone {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Config>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed<RaftError<u64>>> {
        nobody()
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<Config>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<RaftError<u64, InstallSnapshotError>>> {
        nobody()
    }

    async fn vote(
        &mut self,
        _: VoteRequest<u64>,
        _: RPCOption,
    ) -> Result<VoteResponse<u64>, Failed<RaftError<u64>>> {
        nobody()
    }
}

type Done<T> = Result<T, Box<dyn std::error::Error>>;

// README: begin
struct Words;

impl Apply<Config> for Words {
    fn apply(
        &self,
        changes: &mut Changes<'_>,
        (key, value): (String, String),
    ) -> vlsm::Result<Option<String>> {
        let before = changes.get(&key)?;
        changes.put(&key, value)?;
        Ok(before.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn empty(&self) -> Option<String> {
        None
    }
}
// README: end

/// A cluster of one node sets a word, and reads it.
async fn set_and_read(folder: &std::path::Path, word: &str) -> Done<(Option<String>, Vec<u8>)> {
    let config = Arc::new(openraft::Config::default().validate()?);
    let network = Alone;
    // README: begin
    let Storage { log, state, reader, db } = Storage::open(folder.join("node-1"), Words)?;
    let raft = Raft::new(1, config, network, log, state).await?;
    // README: end
    if !raft.is_initialized().await? {
        raft.initialize(BTreeMap::from([(1, ())])).await?;
    }
    raft.wait(None).current_leader(1, "it leads").await?;
    // README: begin
    let written = raft.client_write(("apple".to_owned(), word.to_owned())).await?;
    raft.ensure_linearizable().await?;
    let value = reader.view().get("apple")?;
    // README: end
    let value = value.ok_or("it was written")?.to_vec();
    // README: begin
    raft.shutdown().await?;
    db.close()?;
    // README: end
    Ok((written.data, value))
}

async fn both_runs() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let first = set_and_read(folder.path(), "green").await.expect("the sample runs");
    assert_eq!(first, (None, b"green".to_vec()));
    let second = set_and_read(folder.path(), "red").await.expect("it runs again after a restart");
    assert_eq!(second, (Some("green".to_owned()), b"red".to_vec()));
}

#[test]
fn the_sample_of_the_readme_runs_on_several_threads() {
    tokio::runtime::Runtime::new().expect("threads can be started").block_on(both_runs());
}

#[test]
fn the_sample_of_the_readme_runs_on_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(both_runs());
}

/// Lines without indentation, and without empty ones.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| line.replace("folder.join(\"node-1\")", "\"node-1\"")).collect()
}

#[test]
fn the_sample_of_the_readme_is_the_code_above() {
    let readme = include_str!("../README.md");
    let sample = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let above = include_str!("readme.rs").split("fn lines(").next().expect("there is a part");
    let parts = above.split("// README: begin").skip(1);
    let parts: String = parts.filter_map(|part| part.split("// README: end").next()).collect();
    assert_eq!(lines(sample.expect("there is a sample")), lines(&parts));
}
