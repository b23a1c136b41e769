//! Handles that only read: for a store that no process writes, and for a store that another process
//! writes, which can catch up. The work is in `open` and `follow`.

use crate::db::{Builder, Db};
use crate::follow::catch_up;
#[cfg(doc)]
use crate::options::Options;
use crate::verify::{VerifyProgress, VerifyReport, verify_beside};
use std::path::Path;
#[cfg(doc)]
use vlsm_core::Error;
use vlsm_core::{Result, Seq};

impl Builder {
    /// Opens a store that no process writes, for reading only. Default: false. Beside a process
    /// that writes the store use [`Db::open_read_only`] or [`Builder::follow`].
    ///
    /// | | `Builder::read_only` | [`Db::open_read_only`] |
    /// |---|---|---|
    /// | lock | shared: other processes may read, none may write | none |
    /// | while a process writes the store | fails with [`Error::Locked`] | works |
    /// | a process that opens it for writing later | gets [`Error::Locked`] | is not disturbed |
    /// | later writes | there are none | show after [`Db::catch_up`] |
    /// | SSTs | opened when needed | all held open |
    ///
    /// Neither changes anything in the folder, so both work without write permission: the contents
    /// of the WAL are read into memory, and no LOG is written.
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

    /// Opens the store read-only beside a process that writes it, or may write it later. Default:
    /// false. This is [`Db::open_read_only`] with options. [`Builder::read_only`] excludes writers
    /// instead; its documentation compares the two.
    #[must_use]
    pub fn follow(mut self, follow: bool) -> Self {
        self.follow = follow;
        self
    }
}

impl Db {
    /// Opens a store read-only beside a process that writes it, or may write it later. For a store
    /// that no process writes use [`Builder::read_only`]; its documentation compares the two.
    ///
    /// This handle takes no lock and writes nothing, so the other process neither waits for it nor
    /// knows of it. It shows the store as of one moment, until [`Db::catch_up`] moves it to a later
    /// one. All calls that read work as in any store; calls that write fail with
    /// [`Error::OpenedReadOnly`].
    ///
    /// It shows the writes that the other process has handed to the operating system: all
    /// acknowledged `Buffered` and `Sync` writes, a prefix of the others, and only whole batches.
    /// It may show a `Sync` write shortly before it is acknowledged.
    ///
    /// [`Db::checkpoint`] copies the store as of the moment of that call, as if this handle had
    /// caught up, without help from the other process.
    ///
    /// The writes that are in no SST yet are read into memory, up to 7/8 of
    /// [`Options::memory_limit`]. If they need more, the call fails with [`Error::CannotFollow`].
    /// Every SST is held open, even those that the other process removes meanwhile, so this process
    /// needs a file descriptor for each.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// use vlsm::Db;
    ///
    /// // The process that writes.
    /// let db = Db::open(&path)?;
    /// db.put("apple", "green")?;
    ///
    /// // Another process.
    /// let reader = Db::open_read_only(&path)?;
    /// assert_eq!(reader.get("apple")?.as_deref(), Some(&b"green"[..]));
    ///
    /// db.put("apple", "red")?;
    /// assert_eq!(reader.get("apple")?.as_deref(), Some(&b"green"[..]));
    /// reader.catch_up()?;
    /// assert_eq!(reader.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # reader.close()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`], but never [`Error::Locked`]; [`Error::CannotFollow`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).follow(true).open()
    }

    /// Makes later writes of the other process visible, in a store opened by
    /// [`Db::open_read_only`]. Returns the sequence number of the last visible write, which never
    /// falls.
    ///
    /// All keyspaces change to the later state at the same moment. Snapshots, iterators and
    /// transactions keep showing the state with which they began, and keep its files open.
    /// Keyspaces that were created meanwhile can be opened. Handles follow a keyspace that was
    /// renamed or cleared. If it was both renamed and cleared since the last call, it must be
    /// opened again, and its old handle returns [`Error::KeyspaceDropped`]. The call reads all
    /// writes that are in no SST yet again, but no SST that it already holds.
    ///
    /// # Errors
    /// After an error the handle shows the same state as before. [`Error::CannotFollow`] if the
    /// writes that are in no SST need too much memory, if there are too many SSTs, if another store
    /// is in the folder, or if the files changed during every attempt to read them for 30 seconds.
    /// [`Error::UnknownMergeOperator`] of a new keyspace, [`Error::Corruption`], [`Error::Io`],
    /// [`Error::Closed`]. [`Error::InvalidArgument`] if the store was opened in another way.
    pub fn catch_up(&self) -> Result<Seq> {
        catch_up(&self.engine)
    }

    /// Checks a store opened by [`Db::open_read_only`] while another process writes it, as of one
    /// moment: the manifest, every byte of the SSTs, their order, and the WALs. For a closed store,
    /// [`verify`](crate::verify) also checks the other files of the folder.
    ///
    /// # Errors
    /// As [`Db::catch_up`]. Damage of SSTs is in the report; damage of the manifest or a WAL is an
    /// error.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress<'_>)) -> Result<VerifyReport> {
        verify_beside(&self.engine, progress)
    }
}
