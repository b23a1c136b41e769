//! Handles that only read: of a store that nobody writes, and of one that another process writes,
//! which can catch up. The work is in `open` and `follow`.

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
    /// Opens a store that nobody writes, for reading only. Default: false. Beside a process that
    /// writes use [`Db::open_read_only`], which is [`Builder::follow`].
    ///
    /// | | `Builder::read_only` | [`Db::open_read_only`] |
    /// |---|---|---|
    /// | lock | shared: others may read, nobody may write | none |
    /// | a process writes the store | [`Error::Locked`] | works |
    /// | a process wants to write it later | it gets [`Error::Locked`] | it is not disturbed |
    /// | later writes | there are none | show after [`Db::catch_up`] |
    /// | SSTs | opened when needed | all held open |
    ///
    /// Neither changes anything in the folder, so no write permission is needed: the contents of
    /// the WAL are read into memory, and no LOG is written.
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
    /// false. This is [`Db::open_read_only`] with options; [`Builder::read_only`] locks writers out
    /// instead, and compares the two.
    #[must_use]
    pub fn follow(mut self, follow: bool) -> Self {
        self.follow = follow;
        self
    }
}

impl Db {
    /// Opens a store read-only beside a process that writes it, or may write it later. For a store
    /// that nobody writes there is [`Builder::read_only`], which compares the two.
    ///
    /// This handle takes no lock and writes nothing, so the other process neither waits for it nor
    /// knows of it. It shows the store as it was at one moment, until [`Db::catch_up`] makes it
    /// show a later one. All that reads works as in any store; what writes fails with
    /// [`Error::OpenedReadOnly`].
    ///
    /// It shows what the other process has handed to the operating system: all acknowledged writes
    /// of the durabilities `Buffered` and `Sync`, a prefix of the others, and whole batches only.
    /// It may show a `Sync` write shortly before it is acknowledged.
    ///
    /// [`Db::checkpoint`] copies the store as of the moment of that call, as if this handle had
    /// caught up, and needs no help of the other process.
    ///
    /// The writes that are in no SST yet are read into memory, up to 7/8 of
    /// [`Options::memory_limit`]; beyond that the call fails with [`Error::CannotFollow`]. Every
    /// SST is held open, also those that the other process removes meanwhile: the process needs a
    /// descriptor for each.
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
    /// As [`Builder::open`], but never [`Error::Locked`]. [`Error::CannotFollow`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).follow(true).open()
    }

    /// Makes what the other process wrote visible, in a store opened by [`Db::open_read_only`].
    /// Returns the sequence number of the last write that is visible now. It never falls.
    ///
    /// All keyspaces change to the later state at the same moment. Snapshots, iterators and
    /// transactions keep showing the state with which they began, and keep its files open.
    /// Keyspaces that were created meanwhile can be opened. The handles of keyspaces that were
    /// renamed or cleared follow; after both since the last call, the keyspace has to be opened
    /// again, and the handle returns [`Error::KeyspaceDropped`]. The writes that are in no SST yet
    /// are read again; SSTs that stayed are not.
    ///
    /// # Errors
    /// The handle then shows what it showed before. [`Error::CannotFollow`] when the writes that
    /// are in no SST need too much memory, when there are too many SSTs, when another store is in
    /// the folder, or when the files changed under every look for 30 seconds.
    /// [`Error::UnknownMergeOperator`] of a new keyspace. [`Error::Corruption`] and [`Error::Io`].
    /// [`Error::Closed`]. [`Error::InvalidArgument`] if the store was opened otherwise.
    pub fn catch_up(&self) -> Result<Seq> {
        catch_up(&self.engine)
    }

    /// Checks a store opened by [`Db::open_read_only`] while another process writes it, as of one
    /// moment: the manifest, every byte of the SSTs, their order, and the WALs. For a store that is
    /// closed, [`verify`](crate::verify) checks the other files of the folder, too.
    ///
    /// # Errors
    /// As [`Db::catch_up`]. Damage of SSTs is in the report; damage of the manifest or a WAL is an
    /// error.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress<'_>)) -> Result<VerifyReport> {
        verify_beside(&self.engine, progress)
    }
}
