//! The state machine as openraft's examples have it: a map in memory. A snapshot is the whole map
//! as JSON, in one value of the store; a restart begins with the last one and applies the log
//! again.

use crate::log::{Keep, Log, failed};
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Entry, EntryPayload, ErrorVerb, LogId, OptionalSend, RaftSnapshotBuilder,
    SnapshotMeta, StorageError, StoredMembership,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use vlsm_openraft_kv::{Answer, Command, Opened, Store};

openraft::declare_raft_types!(
    /// The server's types, with snapshots in memory.
    pub Config:
        D = Command,
        R = Answer,
        NodeId = u64,
        Node = BasicNode,
        Entry = Entry<Config>,
        SnapshotData = Cursor<Vec<u8>>,
);

type Result<T, E = StorageError<u64>> = std::result::Result<T, E>;

/// The keys of the current snapshot.
const META: &str = "snapshot meta";
const DATA: &str = "snapshot data";

/// All that was applied.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    last: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
    pairs: BTreeMap<String, String>,
}

impl State {
    fn execute(&mut self, command: Command) -> Answer {
        match command {
            Command::Put { key, value } => {
                Answer { done: true, before: self.pairs.insert(key, value) }
            }
            Command::Delete { key } => Answer { done: true, before: self.pairs.remove(&key) },
            Command::Cas { key, expected, value } => {
                let before = self.pairs.get(&key).cloned();
                let done = before == expected;
                if done {
                    self.pairs.insert(key, value);
                }
                Answer { done, before }
            }
        }
    }
}

/// A storage of openraft's examples, over a store.
#[derive(Clone)]
pub struct InMemory<K> {
    keep: K,
    state: Arc<RwLock<State>>,
    /// Of the last snapshot.
    number: u64,
}

impl<K: Keep> InMemory<K> {
    fn snapshot(&self) -> Result<Option<Snapshot<Config>>> {
        let get = |key| self.keep.get(key).map_err(|error| failed(ErrorVerb::Read)(&error));
        let (Some(meta), Some(data)) = (get(META)?, get(DATA)?) else { return Ok(None) };
        let meta = serde_json::from_slice(&meta).map_err(|e| failed(ErrorVerb::Read)(&e))?;
        Ok(Some(Snapshot { meta, snapshot: Box::new(Cursor::new(data)) }))
    }

    fn save(&self, meta: &SnapshotMeta<u64, BasicNode>, data: &[u8]) -> Result<()> {
        let meta = serde_json::to_vec(meta).map_err(|e| failed(ErrorVerb::Write)(&e))?;
        let saved = self.keep.put(DATA, data).and_then(|()| self.keep.put(META, &meta));
        let saved = saved.and_then(|()| self.keep.sync());
        saved.map_err(|error| failed(ErrorVerb::Write)(&error))
    }

    fn replace(&self, data: &[u8]) -> Result<()> {
        let state = serde_json::from_slice(data).map_err(|e| failed(ErrorVerb::Read)(&e))?;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        Ok(())
    }
}

impl<K: Keep> Store for InMemory<K> {
    type Config = Config;
    type Log = Log<K>;
    type State = Self;

    fn open(folder: &Path, _: Option<u64>) -> Result<Opened<Self>, String> {
        let keep = K::open(folder).map_err(|error| error.to_string())?;
        let store = Self { keep: keep.clone(), state: Arc::default(), number: 0 };
        let snapshot = store.snapshot().map_err(|error| error.to_string())?;
        if let Some(snapshot) = snapshot {
            let data = snapshot.snapshot.into_inner();
            store.replace(&data).map_err(|error| error.to_string())?;
        }
        Ok(Opened { log: Log(keep), state: store.clone(), store })
    }

    fn get(&self, key: &str) -> Result<Option<String>, String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        Ok(state.pairs.get(key).cloned())
    }

    fn close(self) -> Result<(), String> {
        self.keep.sync().map_err(|error| error.to_string())
    }
}

impl<K: Keep> RaftSnapshotBuilder<Config> for InMemory<K> {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Config>> {
        let (data, last_log_id, last_membership) = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let data = serde_json::to_vec(&*state).map_err(|e| failed(ErrorVerb::Write)(&e))?;
            (data, state.last, state.membership.clone())
        };
        let index = last_log_id.map_or(0, |last| last.index);
        let snapshot_id = format!("{index}-{}", self.number);
        let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id };
        self.save(&meta, &data)?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(data)) })
    }
}

impl<K: Keep> RaftStateMachine<Config> for InMemory<K> {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        Ok((state.last, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Answer>>
    where
        I: IntoIterator<Item = Entry<Config>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let apply = |entry: Entry<Config>| {
            state.last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => Answer { done: true, before: None },
                EntryPayload::Membership(membership) => {
                    state.membership = StoredMembership::new(state.last, membership);
                    Answer { done: true, before: None }
                }
                EntryPayload::Normal(command) => state.execute(command),
            }
        };
        Ok(entries.into_iter().map(apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.number += 1;
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<()> {
        let data = snapshot.into_inner();
        self.replace(&data)?;
        self.save(meta, &data)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Config>>> {
        self.snapshot()
    }
}
