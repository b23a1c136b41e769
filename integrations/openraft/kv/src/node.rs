//! One node: opens its storage, starts Raft, and serves until it is told to stop or Raft stops.
//!
//! A node whose storage fails stops: openraft does not go on after a `StorageError`. The process
//! then ends with an error, and may be started again when the cause is gone.

use crate::server::{Node, routes};
use crate::store::{Opened, Store, Types};
use crate::transport::{Cuts, Network};
use clap::Args;
use openraft::{BasicNode, Raft, SnapshotPolicy};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use vlsm::units::parse_bytes;

/// The arguments of `serve`.
#[derive(Args)]
pub struct Serve {
    /// The id of this node.
    #[arg(long)]
    id: u64,
    /// The folder of its storage. It is made if it does not exist.
    #[arg(long)]
    folder: PathBuf,
    /// The members of the cluster, this node among them: 1=127.0.0.1:7101,2=127.0.0.1:7102,...
    #[arg(long, value_delimiter = ',', value_parser = member, required = true)]
    members: Vec<(u64, String)>,
    /// Found the cluster. For the first start of all members; a node that has a log ignores it.
    /// Never for one that lost its folder: it may have voted.
    #[arg(long)]
    init: bool,
    /// Milliseconds between two heartbeats. An election begins after 5 to 10 of them.
    #[arg(long, default_value_t = 100)]
    heartbeat: u64,
    /// Build a snapshot, and purge the log, after this many entries.
    #[arg(long, default_value_t = 10_000)]
    snapshot_every: u64,
    /// The most memory of the store, such as 64M. Default: a share of the machine's.
    #[arg(long, value_parser = bytes)]
    memory: Option<u64>,
}

fn member(text: &str) -> Result<(u64, String), String> {
    let (id, address) = text.split_once('=').ok_or("it must be ID=HOST:PORT")?;
    let id = id.parse().map_err(|error| format!("{id} is not an id: {error}"))?;
    Ok((id, address.to_owned()))
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map(|bytes| bytes.0).map_err(|error| error.to_string())
}

/// Runs a node until it is asked to stop.
///
/// # Errors
/// An address or a folder that cannot be used; any error of the storage, upon which a node stops.
pub async fn serve<S: Store>(serve: Serve) -> Result<(), String> {
    let own = serve.members.iter().find(|(id, _)| *id == serve.id);
    let (_, address) = own.ok_or_else(|| format!("--members does not name node {}", serve.id))?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("cannot listen at {address}: {error}"))?;
    let (opened, serve) = blocking(move || {
        check_owner(&serve.folder, serve.id)?;
        let opened = S::open(&serve.folder, serve.memory);
        let failed = |error| format!("cannot open {}: {error}", serve.folder.display());
        Ok((opened.map_err(failed)?, serve))
    })
    .await?;
    let Opened { log, state, store } = opened;
    let config = openraft::Config {
        cluster_name: "vlsm-openraft-kv".to_owned(),
        heartbeat_interval: serve.heartbeat,
        election_timeout_min: serve.heartbeat * 5,
        election_timeout_max: serve.heartbeat * 10,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(serve.snapshot_every),
        max_in_snapshot_log_to_keep: serve.snapshot_every / 4,
        ..openraft::Config::default()
    };
    let config = config.validate().map_err(|error| error.to_string())?;
    let cuts = Cuts::default();
    let http = reqwest::Client::new();
    let network = Network { http, from: serve.id, cuts: cuts.clone() };
    let raft = Raft::new(serve.id, Arc::new(config), network, log, state).await;
    let raft = raft.map_err(|error| format!("cannot start Raft: {error}"))?;
    if serve.init {
        found(&raft, &serve.members).await?;
    }
    eprintln!(
        "node {} serves at {}",
        serve.id,
        listener.local_addr().map_or_else(|e| e.to_string(), |a| a.to_string())
    );
    let node = Node { id: serve.id, raft: raft.clone(), store: store.clone(), cuts };
    let served = tokio::select! {
        served = axum::serve(listener, routes(node)).into_future() => {
            served.map_err(|error| format!("cannot serve: {error}"))
        }
        stopped = raft_stops(&raft) => Err(format!("node {} stops: {stopped}", serve.id)),
        asked = asked_to_stop() => asked,
    };
    if let Err(error) = raft.shutdown().await {
        eprintln!("node {}: Raft did not end well: {error}", serve.id);
    }
    let closed = blocking(move || store.close()).await;
    served.and(closed)
}

/// Refuses the folder of another node: with its vote and its log this node could vote twice.
fn check_owner(folder: &Path, id: u64) -> Result<(), String> {
    let file = folder.join("node-id");
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    match std::fs::read_to_string(&file) {
        Ok(text) if text.trim() == id.to_string() => Ok(()),
        Ok(text) => {
            Err(format!("{} is the folder of node {}, not {id}", folder.display(), text.trim()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(folder).map_err(failed)?;
            std::fs::write(&file, id.to_string()).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(call).await {
        Ok(done) => done,
        Err(error) => Err(format!("a thread failed: {error}")),
    }
}

/// Founds the cluster, unless this node has a log.
async fn found<C: Types>(raft: &Raft<C>, members: &[(u64, String)]) -> Result<(), String> {
    use openraft::error::{InitializeError, RaftError};
    let members = members.iter().map(|(id, address)| (*id, BasicNode::new(address)));
    match raft.initialize(members.collect::<BTreeMap<_, _>>()).await {
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(error) => Err(format!("cannot found the cluster: {error}")),
    }
}

/// Waits until Raft has stopped by itself. Returns the cause.
async fn raft_stops<C: Types>(raft: &Raft<C>) -> String {
    let mut metrics = raft.metrics();
    loop {
        if let Err(error) = &metrics.borrow_and_update().running_state {
            return error.to_string();
        }
        if metrics.changed().await.is_err() {
            return "Raft has ended".to_owned();
        }
    }
}

/// Waits for SIGTERM or Ctrl-C.
///
/// # Errors
/// Signals that cannot be watched.
pub async fn asked_to_stop() -> Result<(), String> {
    let terminate = signal(SignalKind::terminate());
    let mut terminate = terminate.map_err(|error| format!("cannot watch signals: {error}"))?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        pressed = tokio::signal::ctrl_c() => {
            pressed.map_err(|error| format!("cannot watch signals: {error}"))
        }
    }
}
