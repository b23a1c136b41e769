//! The storage that a node runs on.
//!
//! A node runs on vLSM, by [`Vlsm`]. The trait is there so that `peers/raft` can measure the same
//! server on other storages; a program of your own needs only `vlsm_openraft::Storage`.

use crate::command::{Answer, Command, Config, Pairs};
use openraft::impls::{OneshotResponder, TokioRuntime};
use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{BasicNode, Entry, RaftTypeConfig};
use std::path::Path;
use vlsm::Db;
use vlsm_openraft::{LogStore, Reader, StateMachine, Storage};

/// This program's types of openraft, whatever a snapshot is.
pub trait Types:
    RaftTypeConfig<
        D = Command,
        R = Answer,
        NodeId = u64,
        Node = BasicNode,
        Entry = Entry<Self>,
        AsyncRuntime = TokioRuntime,
        Responder = OneshotResponder<Self>,
    >
{
}

impl<C> Types for C where
    C: RaftTypeConfig<
            D = Command,
            R = Answer,
            NodeId = u64,
            Node = BasicNode,
            Entry = Entry<Self>,
            AsyncRuntime = TokioRuntime,
            Responder = OneshotResponder<Self>,
        >
{
}

/// A storage for the server: what is left of it when openraft has taken log and state machine.
pub trait Store: Clone + Send + Sync + 'static {
    /// The types of openraft.
    type Config: Types;
    /// The log.
    type Log: RaftLogStorage<Self::Config>;
    /// The state machine.
    type State: RaftStateMachine<Self::Config>;

    /// Opens the storage in a folder, or makes it, with the most memory that it may take. Blocks.
    ///
    /// # Errors
    /// A folder that cannot be made, read or locked.
    fn open(folder: &Path, memory: Option<u64>) -> Result<Opened<Self>, String>;

    /// Reads a key of the state machine. Blocks.
    ///
    /// # Errors
    /// Any error of reading the store.
    fn get(&self, key: &str) -> Result<Option<String>, String>;

    /// Closes the store. Blocks.
    ///
    /// # Errors
    /// Any error of its last writes.
    fn close(self) -> Result<(), String>;
}

/// An open storage.
pub struct Opened<S: Store> {
    /// For openraft.
    pub log: S::Log,
    /// For openraft.
    pub state: S::State,
    /// For the server.
    pub store: S,
}

/// vLSM.
#[derive(Clone)]
pub struct Vlsm {
    reader: Reader<Config>,
    db: Db,
}

impl Store for Vlsm {
    type Config = Config;
    type Log = LogStore<Config>;
    type State = StateMachine<Config, Pairs>;

    fn open(folder: &Path, memory: Option<u64>) -> Result<Opened<Self>, String> {
        let opened = Storage::open_with(folder, Pairs, |builder| {
            builder.configure(|options| {
                if let Some(memory) = memory {
                    options.memory_limit = vlsm::ByteCount(memory);
                    // A quarter for memtables that are being written and flushed.
                    options.policy.tree.memtable_bytes = vlsm::ByteCount(memory / 16);
                }
            })
        });
        let Storage { log, state, reader, db } = opened.map_err(|error| error.to_string())?;
        Ok(Opened { log, state, store: Self { reader, db } })
    }

    fn get(&self, key: &str) -> Result<Option<String>, String> {
        let value = self.reader.view().get(key).map_err(|error| error.to_string())?;
        Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
    }

    fn close(self) -> Result<(), String> {
        self.db.close().map_err(|error| error.to_string())
    }
}
