//! The handle to an open store.
//! Thin: each method hands over to the part of the engine that does it.

use crate::batch::Batch;
use crate::catalog::{DEFAULT_KEYSPACE, KeyspaceInfo, KeyspaceOptions};
use crate::checkpoint::CopyReport;
use crate::checkpoint::checkpoint;
use crate::close::close;
use crate::handle::Handle;
use crate::iter::Iter;
use crate::keyspace::{Keyspace, write_one};
use crate::open::{Opening, open};
use crate::options::{Options, WriteOptions};
use crate::paths::absolute;
use crate::rules::{CompactionFilter, Extensions, MergeOperator, NamedFilter};
use crate::shared::events::Listener;
use crate::snapshot::Snapshot;
use crate::stats::{Stats, stats};
use bytes::Bytes;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Error, Kind, Result};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;

/// An open store. Cheap to clone and to share between threads; the last handle's drop closes it.
///
/// A [`Keyspace`], a [`Snapshot`] and an [`Iter`] are handles, too: each keeps the store open, and
/// [`Error::Locked`] for everybody else, until it is dropped. [`Db::close`] does not wait for them.
///
/// The methods that read and write without naming a keyspace use the keyspace `default`.
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
    default: Arc<KeyspaceInfo>,
}

/// How to open a store; made by [`Db::builder`].
pub struct Builder {
    path: PathBuf,
    options: Options,
    read_only: bool,
    env: Option<Arc<dyn Env>>,
    listener: Option<Listener>,
    allow_missing_ssts: bool,
    extensions: Extensions,
    default_keyspace: Option<KeyspaceOptions>,
}

impl Builder {
    /// With these options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// With the shape, schedule, admission and sizes of a named profile; or, as
    /// `rocksdb/schedule=fifo/admission=open`, with its sizes and other mechanisms. Where that
    /// needs more memory than `memory_limit` has, it is raised ([`Options::set_profile`]).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when there is no such profile or mechanism; the message lists them.
    pub fn profile(mut self, name: &str) -> Result<Self> {
        self.options.set_profile(name)?;
        Ok(self)
    }

    /// Changes some of the options.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Whether to make the store when there is none. Default: true.
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.options.create_if_missing = create;
        self
    }

    /// To be read only. Default: false.
    ///
    /// Nothing in the folder changes, so it works without the right to write there: what is only in
    /// the WAL is read into memory, and no LOG is written. Several may read a store at once. While
    /// somebody has it open for writing the answer is [`Error::Locked`], because its files would
    /// change under the reader; and nobody can open it for writing while it is read.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// use vlsm::{Db, Error};
    ///
    /// let db = Db::open(&path)?;
    /// db.put("apple", "green")?;
    /// db.close()?;
    /// let db = Db::builder(&path).read_only(true).open()?;
    /// assert_eq!(db.get("apple")?.as_deref(), Some(&b"green"[..]));
    /// assert!(matches!(db.put("apple", "red"), Err(Error::OpenedReadOnly)));
    /// db.close()
    /// # }
    /// ```
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Opens a store although SSTs are missing that it names: reads that need one of them fail, and
    /// [`Keyspace::salvage`] reads the rest. Only together with [`Builder::read_only`]. Default:
    /// false.
    #[must_use]
    pub fn allow_missing_ssts(mut self, allow: bool) -> Self {
        self.allow_missing_ssts = allow;
        self
    }

    /// In another environment than the operating system's: a simulator's.
    #[must_use]
    pub fn env(mut self, env: Arc<dyn Env>) -> Self {
        self.env = Some(env);
        self
    }

    /// Tells a listener about every event. One that panics is told of no further event, and
    /// nothing else changes: see [`Listener`].
    #[must_use]
    pub fn listener(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Knows this merge operator, besides `append`, `add` and `max`. A store cannot be opened
    /// without the operators that its keyspaces name.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        let name = operator.name().to_owned();
        self.extensions.operators.push((name, operator));
        self
    }

    /// Shows the values of this keyspace to a compaction filter, whether or not the keyspace exists
    /// yet. Unlike a merge operator it is not recorded: the next open may do without.
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

    /// The options of the keyspace `default`. A new store gets them; one that is there must have
    /// been made with the same. Without this call it is opened with what it was made with.
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
    /// [`Error::UsedUp`],
    /// [`Error::UnknownMergeOperator`], [`Error::KeyspaceExists`] when the keyspace `default` was
    /// made with other options than [`Builder::default_keyspace`] says, or what the system says.
    /// Nothing on disk is lost by a failed open.
    pub fn open(self) -> Result<Db> {
        let env = self.env.unwrap_or_else(|| RealEnv::new());
        let how = Opening {
            options: self.options,
            read_only: self.read_only,
            partial: self.allow_missing_ssts,
            listener: self.listener,
            extensions: self.extensions,
            default_keyspace: self.default_keyspace,
        };
        let path = absolute(&**env.fs(), &self.path)?;
        let engine = open(env, &path, how)?;
        let default = engine.catalog.keyspace(DEFAULT_KEYSPACE);
        let default = default.ok_or_else(|| Error::NoSuchKeyspace(DEFAULT_KEYSPACE.into()))?;
        Ok(Db { engine: Handle::new(engine), default })
    }
}

impl Db {
    /// Opens the store in a folder with default options, making it where there is none.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Opens a store with other options.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        let path = path.as_ref().to_owned();
        Builder {
            path,
            options: Options::default(),
            read_only: false,
            env: None,
            listener: None,
            allow_missing_ssts: false,
            extensions: Extensions::default(),
            default_keyspace: None,
        }
    }

    /// The folder of the store, as an absolute path: a relative one is resolved when the store is
    /// opened, so it does not matter where the process's working directory goes afterwards.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.engine.shared.dir
    }

    /// The options it was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.engine.shared.options
    }

    /// The keyspace of this name.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`].
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let info = self.engine.catalog.keyspace(name);
        let info = info.ok_or_else(|| Error::NoSuchKeyspace(name.to_owned()))?;
        Ok(Keyspace { engine: self.engine.clone(), info })
    }

    /// Makes a keyspace, durably. One of the same name and options is simply returned.
    ///
    /// # Errors
    /// [`Error::KeyspaceExists`] when there is one with other options, and which differ;
    /// [`Error::InvalidArgument`] for impossible options, and for a name that is empty or holds
    /// `/`, control characters or others that nobody sees; what writing the manifest failed with.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let info = self.engine.installer.create_keyspace(name, &options)?;
        Ok(Keyspace { engine: self.engine.clone(), info })
    }

    /// The names of all keyspaces.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        self.engine.catalog.keyspaces().iter().map(|info| info.name.clone()).collect()
    }

    /// The keyspace `default`.
    #[must_use]
    pub fn default_keyspace(&self) -> Keyspace {
        Keyspace { engine: self.engine.clone(), info: self.default.clone() }
    }

    /// Applies a batch, all or nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put_with`], and what the batch was refused for when a write was added to it
    /// ([`Error::OperandRefused`], [`Error::InvalidArgument`]): nothing of it was written then.
    /// After an error of the WAL the batch is indeterminate: a reopened store has all of it or
    /// nothing.
    pub fn write(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        self.engine.writer.write(batch, options)
    }

    /// Sets a key of the keyspace `default` to a value.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let add = |batch: &mut Batch| batch.add_put(&self.default, key, value);
        write_one(&self.engine.writer, WriteOptions::default(), add)
    }

    /// Removes a key of the keyspace `default`.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let add = |batch: &mut Batch| batch.add(&self.default, Kind::Delete, key.as_ref(), &[]);
        write_one(&self.engine.writer, WriteOptions::default(), add)
    }

    /// Removes all keys of a range from the keyspace `default`.
    ///
    /// # Errors
    /// As [`Keyspace::delete_range`].
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (lo, hi) = (own(range.start_bound()), own(range.end_bound()));
        let add = |batch: &mut Batch| batch.add_range(&self.default, lo, hi);
        write_one(&self.engine.writer, WriteOptions::default(), add)
    }

    /// Changes the value of a key of the keyspace `default` by an operand of its merge operator
    /// ([`Builder::default_keyspace`]).
    ///
    /// # Errors
    /// As [`Keyspace::merge`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        let add = |batch: &mut Batch| batch.add_merge(&self.default, key, operand);
        write_one(&self.engine.writer, WriteOptions::default(), add)
    }

    /// The value of a key of the keyspace `default`.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        self.engine.reader.get(self.default.tree_of(key), key, None)
    }

    /// All pairs of the keyspace `default`.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.default_keyspace().iter()
    }

    /// The pairs of the keyspace `default` within a range of keys.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        self.default_keyspace().range(range)
    }

    /// The store as it is now, for as long as the snapshot lives.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.engine)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// What syncing the WAL failed with.
    pub fn sync(&self) -> Result<()> {
        self.engine.log.sync_all()
    }

    /// Flushes all memtables and waits for it.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when the device is full: the flush is done later, when there is space.
    /// [`Error::ReadOnly`] when the store was latched meanwhile.
    pub fn flush(&self) -> Result<()> {
        self.engine.writer.flush_all()
    }

    /// Waits until there is nothing to flush or compact.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when that has to wait for space; [`Error::ReadOnly`] when the store was
    /// latched meanwhile.
    pub fn wait_idle(&self) -> Result<()> {
        self.engine.control.wait_idle()
    }

    /// Makes a copy of the store, as of one moment, in a new or empty folder, while the store works
    /// on: all writes that returned before this call are in it, and of those that run meanwhile a
    /// prefix. It is a store of its own; [`restore`](crate::restore) copies it back.
    ///
    /// SSTs are linked where the file system can do that, so it takes little time and space. The
    /// folder is a store only once all of it is durable. What a failure leaves behind is removed;
    /// after a crash the folder may hold files, which no store needs.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`] or [`Error::InvalidArgument`] when the folder is not empty;
    /// [`Error::InvalidArgument`] when it lies in the store itself; [`Error::ReadOnly`],
    /// [`Error::OpenedReadOnly`], [`Error::Closed`]; what the file system says.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<CopyReport> {
        checkpoint(&self.engine, target.as_ref())
    }

    /// Records from now on which operations are asked for, and when, in a new file: keys, lengths
    /// of values, lengths of scans. [`TraceReader`](crate::trace::TraceReader) reads it. Closing
    /// the store ends it, too.
    ///
    /// It costs each operation its encoding under a lock that all share, and a wait for the device
    /// when the file cannot keep up; a store without a trace pays one look at a flag. Operations
    /// under way at this moment may be missing.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be made, also when there is one;
    /// [`Error::InvalidArgument`] when a trace is under way; [`Error::Closed`].
    pub fn start_trace(&self, path: impl AsRef<Path>) -> Result<()> {
        {
            let shared = &self.engine.shared;
            shared.health.check_open()?;
            shared.tracer.start(&*shared.env, path.as_ref())
        }
    }

    /// Ends the trace, durably: how many operations it has. Iterators that are still there are not
    /// in it.
    ///
    /// # Errors
    /// What writing the file failed with, also before: the trace has no end then, and a reader says
    /// so. [`Error::InvalidArgument`] when there is no trace.
    pub fn end_trace(&self) -> Result<u64> {
        let ended = self.engine.shared.tracer.end()?;
        ended.ok_or_else(|| Error::InvalidArgument("there is no trace to end".into()))
    }

    /// What the store counted and measured so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        stats(&self.engine)
    }

    /// Closes the store: everything written is durable when it returns. Other handles then answer
    /// [`Error::Closed`].
    ///
    /// # Errors
    /// What making the last writes durable failed with; the store is closed all the same.
    pub fn close(self) -> Result<()> {
        close(&self.engine)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.engine.shared.dir).finish_non_exhaustive()
    }
}
