//! The network between nodes: openraft's calls as HTTP requests, with postcard bodies.
//!
//! A request carries the sender's id, so that a test build can cut the connection at both ends.

use crate::store::Types;
use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, BasicNode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The header with the sender's id.
pub const FROM: &str = "x-from";

/// The nodes with which this one does not speak. Only a test build fills it.
#[derive(Debug, Clone, Default)]
pub struct Cuts(Arc<Mutex<BTreeSet<u64>>>);

impl Cuts {
    /// Replaces the set.
    #[cfg(feature = "chaos")]
    pub fn set(&self, nodes: BTreeSet<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// Whether the connection to a node is cut.
    pub fn has(&self, node: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&node)
    }
}

/// Makes connections to other nodes.
#[derive(Clone)]
pub struct Network {
    pub http: reqwest::Client,
    pub from: u64,
    pub cuts: Cuts,
}

impl<C: Types> RaftNetworkFactory<C> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        Connection { network: self.clone(), target, node: node.clone() }
    }
}

/// The connection to one node.
pub struct Connection {
    network: Network,
    target: u64,
    node: BasicNode,
}

type Failed<E> = RPCError<u64, BasicNode, E>;

fn unreachable<E: std::error::Error>(error: &(impl std::error::Error + 'static)) -> Failed<E> {
    RPCError::Unreachable(Unreachable::new(error))
}

impl Connection {
    async fn call<Q, A, E>(
        &self,
        path: &str,
        request: &Q,
        option: &RPCOption,
    ) -> Result<A, Failed<E>>
    where
        Q: Serialize,
        A: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        if self.network.cuts.has(self.target) {
            let cut = AnyError::error(format!("the connection to node {} is cut", self.target));
            return Err(unreachable(&cut));
        }
        let body = postcard::to_stdvec(request);
        let body = body.map_err(|error| RPCError::Network(NetworkError::new(&error)))?;
        let url = format!("http://{}/raft/{path}", self.node.addr);
        let request = self.network.http.post(url).header(FROM, self.network.from).body(body);
        let answer =
            request.timeout(option.hard_ttl()).send().await.map_err(|e| unreachable(&e))?;
        let answer = answer.error_for_status().map_err(|error| unreachable(&error))?;
        let bytes = answer.bytes().await.map_err(|error| unreachable(&error))?;
        let answer: Result<A, E> = postcard::from_bytes(&bytes)
            .map_err(|error| RPCError::Network(NetworkError::new(&error)))?;
        let remote = |error| RemoteError::new_with_node(self.target, self.node.clone(), error);
        answer.map_err(|error| RPCError::RemoteError(remote(error)))
    }
}

impl<C: Types> RaftNetwork<C> for Connection {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failed<RaftError<u64>>> {
        self.call("append", &request, &option).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<C>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failed<RaftError<u64, InstallSnapshotError>>> {
        self.call("snapshot", &request, &option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, Failed<RaftError<u64>>> {
        self.call("vote", &request, &option).await
    }
}
