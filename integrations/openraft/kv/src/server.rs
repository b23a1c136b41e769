//! The HTTP routes of a node.
//!
//! | route | does |
//! |---|---|
//! | `GET /kv?key=KEY` | a linearizable read: `{"value": ...}` |
//! | `POST /kv` | a [`Command`]: `{"done": ..., "before": ...}` |
//! | `GET /status` | openraft's metrics |
//! | `POST /snapshot` | builds a snapshot and purges the log |
//! | `POST /raft/...` | for the other nodes |
//! | `POST /chaos/cut` | a test build only: the ids of nodes to which connections are cut |
//!
//! Errors are a status and an [`Error`]: 400 for a key or a value that is too long, 421 when
//! another node leads (try that one), 503 when the outcome is unknown or nobody leads.

use crate::command::{Command, check_key};
use crate::store::Store;
use crate::transport::{Cuts, FROM};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use openraft::error::{CheckIsLeaderError, ClientWriteError, RaftError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a node's routes need.
#[derive(Clone)]
pub struct Node<S: Store> {
    pub id: u64,
    pub raft: openraft::Raft<S::Config>,
    pub store: S,
    pub cuts: Cuts,
}

/// What a read asks for.
#[derive(Debug, Deserialize)]
struct Key {
    key: String,
}

/// The answer to a read.
#[derive(Debug, Serialize, Deserialize)]
pub struct Value {
    /// None if the key does not exist.
    pub value: Option<String>,
}

/// The answer to a request that failed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Error {
    /// What went wrong, for people.
    pub error: String,
    /// The address of the leader, if it is known and another node.
    pub leader: Option<String>,
    /// Whether the command may still take effect.
    pub unknown: bool,
}

fn refuse(status: StatusCode, error: String, leader: Option<String>, unknown: bool) -> Response {
    (status, Json(Error { error, leader, unknown })).into_response()
}

/// All routes.
pub fn routes<S: Store>(node: Node<S>) -> Router {
    let routes = Router::new()
        .route("/kv", get(read::<S>).post(write::<S>))
        .route("/status", get(status::<S>))
        .route("/snapshot", post(snapshot::<S>))
        .route("/raft/append", post(raft_append::<S>))
        .route("/raft/vote", post(raft_vote::<S>))
        .route("/raft/snapshot", post(raft_snapshot::<S>));
    #[cfg(feature = "chaos")]
    let routes = routes.route("/chaos/cut", post(cut::<S>));
    routes.layer(DefaultBodyLimit::max(64 << 20)).with_state(node)
}

async fn read<S: Store>(State(node): State<Node<S>>, Query(Key { key }): Query<Key>) -> Response {
    if let Err(error) = check_key(&key) {
        return refuse(StatusCode::BAD_REQUEST, error, None, false);
    }
    if !stale_reads() {
        match node.raft.ensure_linearizable().await {
            Ok(_) => {}
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(to))) => {
                let leader = to.leader_node.map(|node| node.addr);
                let error = format!("node {} does not lead", node.id);
                return refuse(StatusCode::MISDIRECTED_REQUEST, error, leader, false);
            }
            Err(error) => {
                return refuse(StatusCode::SERVICE_UNAVAILABLE, error.to_string(), None, false);
            }
        }
    }
    let store = node.store.clone();
    match tokio::task::spawn_blocking(move || store.get(&key)).await {
        Ok(Ok(value)) => Json(Value { value }).into_response(),
        Ok(Err(error)) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error, None, false),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), None, false),
    }
}

/// The planted bug: reads are answered without asking whether this node leads.
#[cfg(feature = "chaos")]
fn stale_reads() -> bool {
    std::env::var("PLANT").is_ok_and(|name| name == "stale-read")
}

#[cfg(not(feature = "chaos"))]
fn stale_reads() -> bool {
    false
}

async fn write<S: Store>(State(node): State<Node<S>>, Json(command): Json<Command>) -> Response {
    if let Err(error) = command.check() {
        return refuse(StatusCode::BAD_REQUEST, error, None, false);
    }
    // A node that does not lead says so before it proposes: then the command has no effect.
    let metrics = node.raft.metrics().borrow().clone();
    if metrics.current_leader != Some(node.id) {
        let membership = metrics.membership_config.membership();
        let leader = metrics.current_leader.and_then(|leader| membership.get_node(&leader));
        let leader = leader.map(|node| node.addr.clone());
        let error = format!("node {} does not lead", node.id);
        return refuse(StatusCode::MISDIRECTED_REQUEST, error, leader, false);
    }
    match node.raft.client_write(command).await {
        Ok(written) => Json(written.data).into_response(),
        // Also the answer for an entry that was in the log when the leader lost its lead.
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
            let leader = to.leader_node.map(|node| node.addr);
            let error = format!("node {} lost its lead", node.id);
            refuse(StatusCode::SERVICE_UNAVAILABLE, error, leader, true)
        }
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, error.to_string(), None, true),
    }
}

async fn status<S: Store>(State(node): State<Node<S>>) -> Response {
    let metrics = node.raft.metrics().borrow().clone();
    Json(metrics).into_response()
}

async fn snapshot<S: Store>(State(node): State<Node<S>>) -> Response {
    match node.raft.trigger().snapshot().await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, error.to_string(), None, false),
    }
}

#[cfg(feature = "chaos")]
async fn cut<S: Store>(
    State(node): State<Node<S>>,
    Json(nodes): Json<std::collections::BTreeSet<u64>>,
) -> StatusCode {
    node.cuts.set(nodes);
    StatusCode::OK
}

/// The request of another node, or the answer if it is refused.
fn request<S: Store, T: DeserializeOwned>(
    node: &Node<S>,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<T, Box<Response>> {
    let from = headers.get(FROM).and_then(|from| from.to_str().ok()?.parse().ok());
    let Some(from) = from else {
        let error = format!("the header {FROM} with the sender's id is missing");
        return Err(Box::new(refuse(StatusCode::BAD_REQUEST, error, None, false)));
    };
    if node.cuts.has(from) {
        let error = format!("the connection from node {from} is cut");
        return Err(Box::new(refuse(StatusCode::SERVICE_UNAVAILABLE, error, None, false)));
    }
    postcard::from_bytes(body).map_err(|error| {
        let error = format!("the request of node {from} cannot be decoded: {error}");
        Box::new(refuse(StatusCode::BAD_REQUEST, error, None, false))
    })
}

fn answer<T: Serialize>(answer: &T) -> Response {
    match postcard::to_stdvec(answer) {
        Ok(bytes) => bytes.into_response(),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), None, false),
    }
}

async fn raft_append<S: Store>(
    State(node): State<Node<S>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match request(&node, &headers, &body) {
        Ok(request) => answer(&node.raft.append_entries(request).await),
        Err(refused) => *refused,
    }
}

async fn raft_vote<S: Store>(
    State(node): State<Node<S>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match request(&node, &headers, &body) {
        Ok(request) => answer(&node.raft.vote(request).await),
        Err(refused) => *refused,
    }
}

async fn raft_snapshot<S: Store>(
    State(node): State<Node<S>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match request(&node, &headers, &body) {
        Ok(request) => answer(&node.raft.install_snapshot(request).await),
        Err(refused) => *refused,
    }
}
