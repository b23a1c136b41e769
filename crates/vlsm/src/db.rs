//! The handle to an open store, and the builder that opens a store. Each method only calls the part
//! of the engine that does the work.

use crate::batch::Batch;
use crate::catalog::{DEFAULT_KEYSPACE, KeyspaceInfo, KeyspaceOptions};
use crate::checkpoint::CopyReport;
use crate::checkpoint::checkpoint;
use crate::close::close;
use crate::handle::Handle;
#[cfg(doc)]
use crate::iter::Iter;
use crate::keyspace::Keyspace;
use crate::open::{Opening, open};
use crate::options::{Options, WriteOptions};
use crate::paths::absolute;
use crate::replace::drop_keyspace;
use crate::rules::{CompactionFilter, Extensions, MergeOperator, NamedFilter};
use crate::shared::events::Listener;
use crate::snapshot::Snapshot;
use crate::stats::{Stats, stats};
use crate::write::batch::other_store;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Error, Result};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;

/// A handle to an open store. It is cheap to clone and to share between threads. Dropping the last
/// handle closes the store.
///
/// A [`Keyspace`], a [`Snapshot`], a [`Transaction`](crate::Transaction) and an [`Iter`] are
/// handles, too: each keeps the store open until it is dropped. Until then another open fails with
/// [`Error::Locked`]. [`Db::close`] does not wait for them. If a panic drops the last handle, the
/// store is closed as by any other drop.
///
/// Methods that read or write and name no keyspace use the keyspace `default`.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// let db = vlsm::Db::open(path)?;
/// db.put("apple", "green")?;
/// assert_eq!(db.get("apple")?.as_deref(), Some(&b"green"[..]));
/// for pair in db.range("a".."b") {
///     let (key, value) = pair?;
///     assert_eq!((&key[..], &value[..]), (&b"apple"[..], &b"green"[..]));
/// }
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) engine: Handle,
    pub(crate) default: Arc<KeyspaceInfo>,
}

/// Opens a store with options. [`Db::builder`] creates it.
pub struct Builder {
    path: PathBuf,
    options: Options,
    pub(crate) read_only: bool,
    pub(crate) follow: bool,
    env: Option<Arc<dyn Env>>,
    listener: Option<Listener>,
    allow_missing_ssts: bool,
    extensions: Extensions,
    default_keyspace: Option<KeyspaceOptions>,
    keep_unknown: bool,
}

impl Builder {
    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Sets the shape, schedule, admission and sizes of a named profile. A name such as
    /// `rocksdb/schedule=fifo/admission=open` keeps the profile's sizes and replaces single
    /// mechanisms. If the profile needs more memory than `memory_limit`, the limit is raised
    /// ([`Options::set_profile`]).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is no such profile or mechanism; the message lists those
    /// that exist.
    pub fn profile(mut self, name: &str) -> Result<Self> {
        self.options.set_profile(name)?;
        Ok(self)
    }

    /// Changes options in place.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Whether to create the store if it does not exist. Default: true.
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.options.create_if_missing = create;
        self
    }

    /// Opens the store even if some of its SSTs are missing. Reads that need a missing SST fail,
    /// and [`Keyspace::salvage`] reads the rest. Requires [`Builder::read_only`]. Default: false.
    #[must_use]
    pub fn allow_missing_ssts(mut self, allow: bool) -> Self {
        self.allow_missing_ssts = allow;
        self
    }

    /// Uses this environment instead of the operating system, for example a simulator.
    #[must_use]
    pub fn env(mut self, env: Arc<dyn Env>) -> Self {
        self.env = Some(env);
        self
    }

    /// Calls a listener for every event. A listener that panics gets no further events; see
    /// [`Listener`].
    #[must_use]
    pub fn listener(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Registers a merge operator in addition to `append`, `add` and `max`. Opening a store fails
    /// if an operator that a keyspace names is not registered, except with
    /// [`Builder::keep_unknown_operators`].
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        let name = operator.name().to_owned();
        self.extensions.operators.push((name, operator));
        self
    }

    /// Opens the store even if merge operators that its keyspaces name are not registered. This is
    /// for tools that work with any store. Default: false.
    ///
    /// Everything that needs no merge works. A read of a key that has operands fails with
    /// [`Error::UnknownMergeOperator`], and iterators continue after it; a merge into such a
    /// keyspace is refused with [`Error::OperandRefused`]. Compactions keep the operands as they
    /// are, so a program that registers the operator reads the same values as before. See
    /// [`MergeOperator`] for an example.
    #[must_use]
    pub fn keep_unknown_operators(mut self, keep: bool) -> Self {
        self.keep_unknown = keep;
        self
    }

    /// Registers a compaction filter for a keyspace. The keyspace need not exist yet. Unlike a
    /// merge operator, the filter is not recorded in the store: the next open may omit it.
    #[must_use]
    pub fn compaction_filter(
        mut self,
        keyspace: impl Into<String>,
        filter: Arc<dyn CompactionFilter>,
    ) -> Self {
        let name = filter.name().to_owned();
        self.extensions.filters.push(NamedFilter { keyspace: keyspace.into(), name, filter });
        self
    }

    /// Sets the options of the keyspace `default`. A new store is created with them. An existing
    /// store must have the same options, or the open fails. Without this call the options of the
    /// existing store apply.
    #[must_use]
    pub fn default_keyspace(mut self, options: KeyspaceOptions) -> Self {
        self.default_keyspace = Some(options);
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::AlreadyExists`], [`Error::NotAStore`], [`Error::Locked`],
    /// [`Error::FormatVersion`], [`Error::Corruption`], [`Error::InvalidOption`],
    /// [`Error::UsedUp`], [`Error::UnknownMergeOperator`], [`Error::KeyspaceExists`] if the
    /// keyspace `default` has other options than those given to [`Builder::default_keyspace`], or
    /// [`Error::Io`]. A failed open loses nothing on disk.
    pub fn open(self) -> Result<Db> {
        let env = self.env.unwrap_or_else(|| RealEnv::new());
        let mut options = self.options;
        options.set_memory(env.memory_bytes());
        let how = Opening {
            options,
            read_only: self.read_only || self.follow,
            follow: self.follow,
            partial: self.allow_missing_ssts,
            listener: self.listener,
            extensions: self.extensions,
            default_keyspace: self.default_keyspace,
            keep_unknown: self.keep_unknown,
        };
        let path = absolute(&**env.fs(), &self.path)?;
        let engine = open(env, &path, how)?;
        let default = engine.catalog.keyspace(DEFAULT_KEYSPACE);
        let default = default.ok_or_else(|| Error::NoSuchKeyspace(DEFAULT_KEYSPACE.into()))?;
        Ok(Db { engine: Handle::new(engine), default })
    }
}

impl Db {
    /// Opens the store in a folder with default options. Creates it if it does not exist.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Returns a builder that opens the store in a folder with other options.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        let path = path.as_ref().to_owned();
        Builder {
            path,
            options: Options::default(),
            read_only: false,
            follow: false,
            env: None,
            listener: None,
            allow_missing_ssts: false,
            extensions: Extensions::default(),
            default_keyspace: None,
            keep_unknown: false,
        }
    }

    /// The folder of the store, as an absolute path. A relative path is resolved when the store is
    /// opened, so a later change of the working directory does not matter.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.engine.shared.dir
    }

    /// The options that the store was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.engine.shared.options
    }

    /// A handle to the keyspace of this name.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let info = self.engine.catalog.keyspace(name);
        let info = info.ok_or_else(|| Error::NoSuchKeyspace(name.to_owned()))?;
        Ok(Keyspace { engine: self.engine.clone(), info })
    }

    /// Creates a keyspace, durably. If it already exists with the same options, returns it.
    ///
    /// # Errors
    /// [`Error::KeyspaceExists`] if it exists with other options; the error lists them.
    /// [`Error::InvalidArgument`] for impossible options, and for a name that is empty or contains
    /// `/`, control characters or invisible characters. Any error of writing the manifest.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let info = self.engine.installer.create_keyspace(name, &options)?;
        Ok(Keyspace { engine: self.engine.clone(), info })
    }

    /// Removes a keyspace with all its data, durably. The cost is one record in the manifest,
    /// whatever the size of the keyspace; the files are removed in the background. Earlier
    /// snapshots and iterators still read the data that they show. Every other call of the
    /// keyspace's handles returns [`Error::KeyspaceDropped`]. A new keyspace may take the name.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// use vlsm::{Db, Error, KeyspaceOptions};
    ///
    /// let db = Db::open(folder.path().join("store"))?;
    /// let old = db.create_keyspace("sessions", KeyspaceOptions::new())?;
    /// old.put("ada", "online")?;
    /// db.drop_keyspace(&old)?;
    /// assert!(matches!(old.get("ada"), Err(Error::KeyspaceDropped(_))));
    /// assert_eq!(db.keyspaces(), ["default"]);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyspaceNeeded`] for the keyspace `default`, which can only be cleared. Otherwise
    /// as [`Keyspace::clear`].
    pub fn drop_keyspace(&self, keyspace: &Keyspace) -> Result<()> {
        if keyspace.info.store != self.engine.shared.store_uid {
            return Err(other_store());
        }
        drop_keyspace(&self.engine, &keyspace.info)
    }

    /// The names of all keyspaces.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        self.engine.catalog.keyspaces().iter().map(|info| info.name()).collect()
    }

    /// The keyspace `default`.
    #[must_use]
    pub fn default_keyspace(&self) -> Keyspace {
        Keyspace { engine: self.engine.clone(), info: self.default.clone() }
    }

    /// Applies a batch atomically.
    ///
    /// # Errors
    /// As [`Keyspace::put_with`]. [`Error::OperandRefused`] or [`Error::InvalidArgument`] if a
    /// write in the batch is invalid; no part of the batch is written then. After an error of the
    /// WAL the outcome is unknown: a reopened store has the whole batch or none of it.
    pub fn write(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        self.engine.writer.write(batch, options)
    }

    /// Takes a snapshot: the state of the store at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.engine)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// Any error of syncing the WAL; [`Error::Closed`].
    pub fn sync(&self) -> Result<()> {
        self.engine.shared.health.check_open()?;
        self.engine.log.sync_for_client()
    }

    /// Flushes all memtables and waits for the flushes.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the device is full; the flush then runs when there is space again.
    /// [`Error::ReadOnly`] if the store became read-only meanwhile.
    pub fn flush(&self) -> Result<()> {
        self.engine.writer.flush_all()
    }

    /// Waits until there is nothing to flush or compact.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the work must wait for space; [`Error::ReadOnly`] if the store became
    /// read-only meanwhile.
    pub fn wait_idle(&self) -> Result<()> {
        self.engine.control.wait_idle()
    }

    /// Makes a consistent copy of the store in a new or empty folder while the store stays in use.
    /// The copy contains all writes that returned before this call, and a prefix of the concurrent
    /// writes. It is a store of its own. [`restore`](crate::restore) copies it back.
    ///
    /// SSTs are hard-linked where the file system supports it, so a copy takes little time and
    /// space. The folder becomes a store only when all its files are durable. A failed call removes
    /// its files. A crash may leave files in the folder; no store needs them.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] or [`Error::InvalidArgument`] if the folder is not empty;
    /// [`Error::InvalidArgument`] if it lies in the store itself; [`Error::ReadOnly`],
    /// [`Error::OpenedReadOnly`], [`Error::Closed`], or any error of the file system.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<CopyReport> {
        checkpoint(&self.engine, target.as_ref())
    }

    /// Starts a trace: a new file records each operation with its time, its keys, and the lengths
    /// of its values or scans. [`TraceReader`](crate::trace::TraceReader) reads the file. Closing
    /// the store also ends the trace.
    ///
    /// While a trace runs, each operation is encoded under one shared lock, and waits for the
    /// device if the file cannot keep up. Without a trace the cost is the check of a flag.
    /// Operations that run during this call may be missing.
    ///
    /// # Errors
    /// [`Error::Io`] if the file exists or cannot be created; [`Error::InvalidArgument`] if a trace
    /// is already running; [`Error::Closed`].
    pub fn start_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        {
            let shared = &self.engine.shared;
            shared.health.check_open()?;
            shared.tracer.start(&*shared.env, path.as_ref())
        }
    }

    /// Ends the trace, durably, and returns the number of recorded operations. Iterators that still
    /// exist are not recorded.
    ///
    /// # Errors
    /// Any error of writing the file, including earlier ones: the trace then lacks its end, and a
    /// reader reports that. [`Error::InvalidArgument`] if there is no trace. [`Error::Closed`].
    pub fn end_trace(&self) -> Result<u64> {
        self.engine.shared.health.check_open()?;
        let ended = self.engine.shared.tracer.end()?;
        ended.ok_or_else(|| Error::InvalidArgument("there is no trace to end".into()))
    }

    /// The counters and measurements of the store since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        stats(&self.engine)
    }

    /// Closes the store. All writes are durable when the call returns. Other handles then return
    /// [`Error::Closed`].
    ///
    /// # Errors
    /// Any error of making the last writes durable. The store is closed even then.
    pub fn close(self) -> Result<()> {
        close(&self.engine)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.engine.shared.dir).finish_non_exhaustive()
    }
}
