//! The state machine: openraft's `RaftStateMachine` in a keyspace `state-N`.
//!
//! 1. A batch of entries is applied by transactions of at most [`CHUNK`] entries: the application's
//!    changes and the last applied log id become visible together.
//! 2. Readers take the keyspace and a snapshot of the store together ([`Reader::view`]). They wait
//!    for nothing longer than the swap of a pointer.
//! 3. Snapshots are in [`crate::snapshot`].

use crate::codec::{APPLIED, Applied, DATA, data_key, encode};
use crate::error::{StoreError, blocking};
use crate::log::get;
use crate::snapshot::{Builder, SnapshotFile, install};
use crate::storage::{Shared, TypeConfig};
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    Entry, EntryPayload, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftTypeConfig,
    SnapshotMeta, StorageError, StoredMembership,
};
use std::sync::{Arc, PoisonError};
use vlsm::{Bytes, Durability, Keyspace, Transaction, WriteOptions};

type Result<T, C> = std::result::Result<T, StorageError<<C as RaftTypeConfig>::NodeId>>;
pub(crate) type AppliedOf<C> = Applied<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>;

/// The most entries that are applied by one transaction.
const CHUNK: usize = 256;

/// The longest key of an application.
pub const MAX_KEY_LEN: usize = vlsm::MAX_KEY_LEN - 1; // without the first byte, [`DATA`]

/// What the commands of an application do.
pub trait Apply<C: RaftTypeConfig>: Send + Sync + 'static {
    /// Executes a command, and answers it. It must depend on nothing but the command and what it
    /// reads from `changes`: all nodes execute the same commands.
    ///
    /// # Errors
    /// An error of the store, which stops the node. The command stays in the log, so one that no
    /// store can execute, such as with a key longer than [`MAX_KEY_LEN`], stops all nodes for good:
    /// check commands before they are proposed. A command that is refused is an answer.
    fn apply(&self, changes: &mut Changes<'_>, command: C::D) -> vlsm::Result<C::R>;

    /// The answer to an entry without a command: a new leader's first one, or a membership.
    fn empty(&self) -> C::R;
}

/// The state, as a command changes it. It sees its own changes and those of earlier commands.
pub struct Changes<'a> {
    transaction: &'a mut Transaction,
    keyspace: &'a Keyspace,
}

impl Changes<'_> {
    /// The value of a key.
    ///
    /// # Errors
    /// Any error of reading the store.
    pub fn get(&self, key: impl AsRef<[u8]>) -> vlsm::Result<Option<Bytes>> {
        self.transaction.get(self.keyspace, data_key(key.as_ref()))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value that is too long.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> vlsm::Result<()> {
        self.transaction.put(self.keyspace, data_key(key.as_ref()), value)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is too long.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> vlsm::Result<()> {
        self.transaction.delete(self.keyspace, data_key(key.as_ref()))
    }

    /// The pairs whose keys begin with `prefix`, in key order.
    pub fn prefix(
        &self,
        prefix: &[u8],
    ) -> impl Iterator<Item = vlsm::Result<(Bytes, Bytes)>> + use<> {
        let pairs = self.transaction.prefix(self.keyspace, data_key(prefix));
        pairs.map(|pair| pair.map(|(key, value)| (key.slice(1..), value)))
    }
}

/// Reads the state machine. A cheap handle.
pub struct Reader<C: TypeConfig> {
    shared: Arc<Shared<C>>,
}

impl<C: TypeConfig> Clone for Reader<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<C: TypeConfig> Reader<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>) -> Self {
        Self { shared }
    }

    /// The state as of now. After `Raft::ensure_linearizable` its reads are linearizable. Reads
    /// may wait for the device: call them by `spawn_blocking`.
    #[must_use]
    pub fn view(&self) -> View {
        // Under the lock: an install drops the old keyspace after it has replaced it.
        let state = self.shared.state.read().unwrap_or_else(PoisonError::into_inner);
        View { snapshot: self.shared.db.snapshot(), keyspace: state.clone() }
    }
}

/// The state machine as it was at one moment.
pub struct View {
    pub(crate) snapshot: vlsm::Snapshot,
    pub(crate) keyspace: Keyspace,
}

impl View {
    /// The value of a key.
    ///
    /// # Errors
    /// Any error of reading the store.
    pub fn get(&self, key: impl AsRef<[u8]>) -> vlsm::Result<Option<Bytes>> {
        self.snapshot.get(&self.keyspace, data_key(key.as_ref()))
    }

    /// The pairs whose keys begin with `prefix`, in key order.
    pub fn prefix(
        &self,
        prefix: &[u8],
    ) -> impl DoubleEndedIterator<Item = vlsm::Result<(Bytes, Bytes)>> + use<> {
        let pairs = self.snapshot.prefix(&self.keyspace, data_key(prefix));
        pairs.map(|pair| pair.map(|(key, value)| (key.slice(1..), value)))
    }

    /// All pairs in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = vlsm::Result<(Bytes, Bytes)>> + use<> {
        let pairs = self.snapshot.prefix(&self.keyspace, [DATA]);
        pairs.map(|pair| pair.map(|(key, value)| (key.slice(1..), value)))
    }
}

/// The state machine of a node.
pub struct StateMachine<C: TypeConfig, A> {
    shared: Arc<Shared<C>>,
    application: Arc<A>,
    applied: AppliedOf<C>,
}

impl<C: TypeConfig, A: Apply<C>> StateMachine<C, A> {
    pub(crate) fn new(
        shared: Arc<Shared<C>>,
        application: A,
    ) -> std::result::Result<Self, StoreError> {
        let state = shared.state.read().unwrap_or_else(PoisonError::into_inner).clone();
        let applied = get(&state, APPLIED, "what was applied")?.unwrap_or_default();
        Ok(Self { shared, application: Arc::new(application), applied })
    }
}

/// Applies entries by one transaction.
fn apply<C: TypeConfig, A: Apply<C>>(
    shared: &Shared<C>,
    application: &A,
    mut applied: AppliedOf<C>,
    entries: Vec<Entry<C>>,
) -> std::result::Result<(AppliedOf<C>, Vec<C::R>), StoreError> {
    let keyspace = shared.state.read().unwrap_or_else(PoisonError::into_inner).clone();
    let mut transaction = shared.db.transaction();
    let mut answers = Vec::with_capacity(entries.len());
    for entry in entries {
        applied.last = Some(entry.log_id);
        answers.push(match entry.payload {
            EntryPayload::Blank => application.empty(),
            EntryPayload::Membership(membership) => {
                applied.membership = StoredMembership::new(applied.last.clone(), membership);
                application.empty()
            }
            EntryPayload::Normal(command) => {
                let transaction = &mut transaction;
                application.apply(&mut Changes { transaction, keyspace: &keyspace }, command)?
            }
        });
    }
    transaction.put(&keyspace, APPLIED, encode("what was applied", &applied)?)?;
    transaction.commit_with(WriteOptions::durability(Durability::Lazy))?;
    Ok((applied, answers))
}

impl<C: TypeConfig, A: Apply<C>> RaftStateMachine<C> for StateMachine<C, A> {
    type SnapshotBuilder = Builder<C>;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<C::NodeId>>, StoredMembership<C::NodeId, C::Node>), C> {
        Ok((self.applied.last.clone(), self.applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<C::R>, C>
    where
        I: IntoIterator<Item = Entry<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut answers = Vec::new();
        let mut entries: Vec<_> = entries.into_iter().collect();
        while !entries.is_empty() {
            let rest = entries.split_off(entries.len().min(CHUNK));
            let chunk = std::mem::replace(&mut entries, rest);
            let (shared, application) = (self.shared.clone(), self.application.clone());
            let applied = self.applied.clone();
            let done = blocking(move || apply(&shared, &*application, applied, chunk)).await;
            let (applied, answered) =
                done.map_err(|error| error.at(ErrorSubject::StateMachine, ErrorVerb::Write))?;
            self.applied = applied;
            answers.extend(answered);
        }
        Ok(answers)
    }

    async fn get_snapshot_builder(&mut self) -> Builder<C> {
        Builder::new(self.shared.clone())
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotFile>, C> {
        let path = self.shared.snapshot_path("received");
        let made = blocking(move || SnapshotFile::create(&path)).await;
        made.map(Box::new).map_err(|error| error.at(ErrorSubject::Snapshot(None), ErrorVerb::Write))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<C::NodeId, C::Node>,
        snapshot: Box<SnapshotFile>,
    ) -> Result<(), C> {
        let subject = ErrorSubject::Snapshot(Some(meta.signature()));
        let (shared, meta) = (self.shared.clone(), meta.clone());
        let installed = async {
            let path = snapshot.finish().await?;
            blocking(move || install(&shared, meta, &path)).await
        };
        let installed = installed.await;
        self.applied = installed.map_err(|error| error.at(subject, ErrorVerb::Write))?;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<C>>, C> {
        let shared = self.shared.clone();
        let current = blocking(move || shared.current_snapshot()).await;
        current.map_err(|error| error.at(ErrorSubject::Snapshot(None), ErrorVerb::Read))
    }
}
