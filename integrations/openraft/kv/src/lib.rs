//! `vlsm-openraft-kv`: a replicated key-value server, as an example of openraft on vLSM.
//!
//! ```text
//! command    the commands of the state machine, and what they do
//! store      the storage of a node, as the server needs it
//! transport  openraft's calls to other nodes, as HTTP requests
//! server     the HTTP routes of a node
//! node       one node: storage, Raft and routes
//! ```
//!
//! The program is `main.rs`, with `cluster.rs` and `client.rs`.

mod command;
mod node;
mod server;
mod store;
mod transport;

pub use command::{Answer, Command, Config, Pairs, check_key};
pub use node::{Serve, asked_to_stop, serve};
pub use server::{Error, Value};
pub use store::{Opened, Store, Types, Vlsm};
