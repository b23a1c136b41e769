//! Opens a node's folder, and brings it into order after a crash.
//!
//! 1. The keyspace of the state is the one that the record `state` names.
//! 2. Another keyspace `state-N` is an install that a crash cut short, or the state before one:
//!    it is dropped.
//! 3. A snapshot in `snapshots` that is not the current one is removed for the same reasons; files
//!    with other names stay. There is no current snapshot if its file is missing.
//! 4. Snapshots without a store are an error: the node has lost its log and its vote.

use crate::codec::{Record, SNAPSHOT, STATE, encode};
use crate::error::StoreError;
use crate::log::{LogStore, get};
use crate::snapshot::SnapshotFile;
use crate::state::{Apply, Reader, StateMachine};
use openraft::{Entry, RaftTypeConfig};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};
use vlsm::{Db, Durability, Keyspace, KeyspaceOptions, WriteOptions};

/// The type configurations of openraft that can be stored: with openraft's own entries, and
/// snapshots in files.
pub trait TypeConfig: RaftTypeConfig<Entry = Entry<Self>, SnapshotData = SnapshotFile> {}

impl<C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotFile>> TypeConfig for C {}

type RecordOf<C> = Record<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>;

/// What log, state machine and readers of a node share.
pub struct Shared<C: TypeConfig> {
    pub db: Db,
    pub log: Keyspace,
    /// The folder of the snapshots.
    pub snapshots: PathBuf,
    /// The keyspace of the state. An install replaces it.
    pub state: RwLock<Keyspace>,
    /// The current snapshot. Locked while it is replaced.
    pub current: Mutex<Option<RecordOf<C>>>,
    /// Makes names of files unique within this process.
    pub names: AtomicU64,
}

/// The storage of one node.
pub struct Storage<C: TypeConfig, A> {
    /// For `Raft::new`: the log.
    pub log: LogStore<C>,
    /// For `Raft::new`: the state machine.
    pub state: StateMachine<C, A>,
    /// Reads the state machine from anywhere.
    pub reader: Reader<C>,
    /// The store, for its statistics, events and `close`. Write nothing into it.
    pub db: Db,
}

impl<C: TypeConfig, A: Apply<C>> Storage<C, A> {
    /// Opens the storage in a folder, or makes it. Blocks: an asynchronous program calls it before
    /// it serves, or by `spawn_blocking`.
    ///
    /// # Errors
    /// Any error of opening the store, among them that another process has it open; a folder that
    /// cannot be made or read, or has snapshots and no store; a state that was written by a program
    /// with other types.
    pub fn open(folder: impl AsRef<Path>, application: A) -> Result<Self, StoreError> {
        Self::open_with(folder, application, |builder| builder)
    }

    /// As [`Storage::open`], with options of the store.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub fn open_with(
        folder: impl AsRef<Path>,
        application: A,
        options: impl FnOnce(vlsm::Builder) -> vlsm::Builder,
    ) -> Result<Self, StoreError> {
        let folder = folder.as_ref();
        let snapshots = folder.join("snapshots");
        let made = std::fs::create_dir_all(&snapshots);
        made.map_err(StoreError::file("cannot make the folder", &snapshots))?;
        let store = folder.join("store");
        refuse_lost(&store, &snapshots)?;
        let db = options(Db::builder(store)).open()?;
        let log = db.create_keyspace("log", KeyspaceOptions::new())?;
        let state = current_state(&db, &log)?;
        let record = get(&log, SNAPSHOT, "the record of the current snapshot")?;
        let record = record.filter(|record: &RecordOf<C>| is_there(&snapshots.join(&record.file)));
        remove_leftovers(&snapshots, record.as_ref())?;
        let shared = Arc::new(Shared {
            db: db.clone(),
            log: log.clone(),
            snapshots,
            state: RwLock::new(state),
            current: Mutex::new(record),
            names: AtomicU64::new(0),
        });
        let reader = Reader::new(shared.clone());
        let state = StateMachine::new(shared, application)?;
        Ok(Self { log: LogStore::new(db.clone(), log), state, reader, db })
    }
}

/// Whether a file in `snapshots` has the name of a snapshot.
fn is_ours(name: &str) -> bool {
    name.starts_with("built-") || name.starts_with("received-")
}

/// Refuses a folder whose store is gone: a new one would have neither log nor vote, and could vote
/// a second time.
fn refuse_lost(store: &Path, snapshots: &Path) -> Result<(), StoreError> {
    let files = std::fs::read_dir(snapshots);
    let mut files = files.map_err(StoreError::file("cannot list the folder", snapshots))?;
    if is_there(store) || files.next().is_none() {
        return Ok(());
    }
    Err(StoreError::Broken(format!(
        "{} has files, but {} is missing: if it was a node's, that node has lost its log and its \
         vote; take the node out of the cluster, and add a new one in an empty folder",
        snapshots.display(),
        store.display()
    )))
}

/// Whether a snapshot's file is there. Without it openraft builds another when it needs one; any
/// other trouble with the file is an error when it is read.
fn is_there(file: &Path) -> bool {
    !matches!(file.try_exists(), Ok(false))
}

/// The name of the keyspace of a state.
pub fn state_name(number: u64) -> String {
    format!("state-{number}")
}

fn current_state(db: &Db, log: &Keyspace) -> Result<Keyspace, StoreError> {
    let number = get::<u64>(log, STATE, "the number of the state")?;
    let keyspace = match number {
        Some(number) => db.keyspace(&state_name(number))?,
        None => {
            let state = db.create_keyspace(&state_name(0), KeyspaceOptions::new())?;
            let sync = WriteOptions::durability(Durability::Sync);
            log.put_with(STATE, encode("the number of the state", &0_u64)?, sync)?;
            state
        }
    };
    for name in db.keyspaces() {
        if name.starts_with("state-") && name != keyspace.name() {
            db.drop_keyspace(&db.keyspace(&name)?)?;
        }
    }
    Ok(keyspace)
}

fn remove_leftovers<NID: openraft::NodeId, N: openraft::Node>(
    snapshots: &Path,
    record: Option<&Record<NID, N>>,
) -> Result<(), StoreError> {
    let files = std::fs::read_dir(snapshots);
    for file in files.map_err(StoreError::file("cannot list the folder", snapshots))? {
        let file = file.map_err(StoreError::file("cannot list the folder", snapshots))?;
        let name = file.file_name();
        let Some(name) = name.to_str().filter(|name| is_ours(name)) else { continue };
        if record.is_none_or(|record| name != record.file) {
            let removed = std::fs::remove_file(file.path());
            removed.map_err(StoreError::file("cannot remove the leftover", file.path()))?;
        }
    }
    Ok(())
}
