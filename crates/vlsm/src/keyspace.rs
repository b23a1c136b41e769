//! Handles to keyspaces: named sets of keys within a store. A batch may write to several keyspaces
//! and is atomic across them.

use crate::bounds::KeyBounds;
use crate::catalog::{KeyspaceInfo, KeyspaceOptions};
use crate::external::SstFileWriter;
use crate::handle::Handle;
use crate::held::Held;
use crate::ingest::{IngestOptions, IngestReport, ingest};
use crate::iter::{Iter, count};
use crate::options::WriteOptions;
use crate::read::size::ApproximateSize;
use crate::replace::clear;
use crate::salvage::Salvage;
use crate::write::Writer;
use crate::write::batch::Batch;
use bytes::Bytes;
use std::cell::Cell;
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
#[cfg(doc)]
use vlsm_core::Error;
use vlsm_core::Result;

/// A handle to one keyspace of an open store. It is cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) engine: Handle,
    pub(crate) info: Arc<KeyspaceInfo>,
}

/// The most bytes of a batch that is kept for reuse.
const SCRATCH_MAX: usize = 1 << 20;

thread_local! {
    /// The batch of this thread's last single write; the next write reuses its memory. It may be
    /// gone when the thread ends.
    static SCRATCH: Cell<Option<Batch>> = const { Cell::new(None) };
}

impl Keyspace {
    /// The name of the keyspace.
    #[must_use]
    pub fn name(&self) -> String {
        self.info.name()
    }

    /// The options of the keyspace.
    #[must_use]
    pub fn options(&self) -> KeyspaceOptions {
        self.info.made().options.clone()
    }

    /// Renames the keyspace, durably. All its handles follow, and the old name is free. Its
    /// compaction filter stays until the store is closed. From the next open on it has the filter
    /// that is registered for the new name.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let draft = db.create_keyspace("draft", vlsm::KeyspaceOptions::new())?;
    /// draft.put("title", "A tale")?;
    /// draft.rename("book")?;
    /// assert_eq!(draft.name(), "book");
    /// assert!(db.keyspace("book")?.contains_key("title")?);
    /// assert!(db.keyspace("draft").is_err());
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NameTaken`] if another keyspace has the name, [`Error::InvalidArgument`] for a name
    /// that no keyspace can have, [`Error::KeyspaceNeeded`] for the keyspace `default`,
    /// [`Error::KeyspaceDropped`], [`Error::NoSpace`] on a full device (nothing has changed then),
    /// [`Error::OpenedReadOnly`], [`Error::Closed`], or any error of writing the manifest.
    pub fn rename(&self, name: &str) -> Result<()> {
        self.engine.installer.rename_keyspace(&self.info, name)
    }

    /// Changes the options, durably. Existing data stays as it is. A new time to live applies to
    /// later puts. Compression, block length and filters apply to SSTs that are written from now
    /// on, so compactions bring them into the tree step by step.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// use vlsm::{Compression, KeyspaceOptions};
    ///
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let pages = db.create_keyspace("pages", KeyspaceOptions::new())?;
    /// let hour = std::time::Duration::from_secs(3600);
    /// pages.set_options(pages.options().ttl(hour).compression([Compression::Lz4]))?;
    /// assert_eq!(pages.options().ttl, Some(hour));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::OptionFixed`] if the splits or the merge operator would change;
    /// [`Error::InvalidArgument`] or [`Error::InvalidOption`] for impossible options. Otherwise as
    /// [`Keyspace::rename`].
    pub fn set_options(&self, options: KeyspaceOptions) -> Result<()> {
        self.engine.installer.set_keyspace_options(&self.info, &options)
    }

    /// The number of regions of the keyspace.
    #[must_use]
    pub fn region_count(&self) -> usize {
        self.info.region_count()
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key or value over the limits, [`Error::ReadOnly`] after a
    /// failure, [`Error::NoSpace`] on a full device (nothing was written), [`Error::Closed`], or
    /// any error of writing the WAL.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Sets a key to a value, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::Busy`] if a deadline was given and passed.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        write_one(&self.engine.writer, options, |batch| batch.put(self, key, value))
    }

    /// Removes a key. An absent key is no error.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Removes a key, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put_with`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        write_one(&self.engine.writer, options, |batch| batch.delete(self, key))
    }

    /// Removes all keys of a range, at the cost of one delete for each region that the range
    /// touches. An empty range changes nothing. A range without an upper end costs 64 KiB more,
    /// because the end that is stored must be larger than any key.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// for key in ["a", "b", "c", "d"] {
    ///     db.put(key, "")?;
    /// }
    /// db.delete_range("b".."d")?;
    /// let left: Vec<_> = db.iter().map(|pair| Ok(pair?.0)).collect::<vlsm::Result<_>>()?;
    /// assert_eq!(left, ["a", "d"]);
    /// # db.close()
    /// # }
    /// ```
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// Removes all keys of a range, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put_with`].
    pub fn delete_range_with(&self, range: impl KeyBounds, options: WriteOptions) -> Result<()> {
        write_one(&self.engine.writer, options, |batch| batch.delete_range(self, range))
    }

    /// Changes the value of a key by an operand of the keyspace's merge operator, without reading
    /// the value.
    ///
    /// # Errors
    /// As [`Keyspace::put`]. [`Error::OperandRefused`] if the operator refuses the operand, and
    /// [`Error::InvalidArgument`] if the keyspace has no operator; nothing is written then.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default())
    }

    /// Changes the value of a key by an operand, with options.
    ///
    /// # Errors
    /// As [`Keyspace::merge`]; [`Error::Busy`] if a deadline was given and passed.
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        write_one(&self.engine.writer, options, |batch| batch.merge(self, key, operand))
    }

    /// Sets a key to a value that expires after `ttl` from now.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::InvalidArgument`] if the keyspace has a merge operator.
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.put_with_ttl_with(key, value, ttl, WriteOptions::default())
    }

    /// Sets a key to a value that expires after `ttl` from now, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put_with_ttl`]; [`Error::Busy`] if a deadline was given and passed.
    pub fn put_with_ttl_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
        options: WriteOptions,
    ) -> Result<()> {
        write_one(&self.engine.writer, options, |batch| batch.put_with_ttl(self, key, value, ttl))
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The pair with the smallest key.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn first(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.iter().next().transpose()
    }

    /// The pair with the largest key.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn last(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.iter().next_back().transpose()
    }

    /// Whether the keyspace has no pair.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// The number of pairs. The call counts them, so it takes the time of a scan.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn len(&self) -> Result<u64> {
        count(self.iter())
    }

    /// The value of a key; none if the key is absent or has expired.
    ///
    /// # Errors
    /// Any error of reading an SST; such a key is never reported as absent. [`Error::MergeFailed`]
    /// if the merge operator could not combine the operands, or panicked;
    /// [`Error::UnknownMergeOperator`] if it is not registered.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.engine.reader.get(&self.info, key.as_ref(), None)
    }

    /// The values of several keys, all as of one moment, in the order of `keys`. Each key has a
    /// result of its own, as from [`Keyspace::get`], so a key that cannot be read does not hide the
    /// others. `collect::<Result<Vec<_>>>()` combines the results.
    ///
    /// Blocks that are not in memory are read in parallel: up to [`Options::io_threads`] reads are
    /// in flight at the same time, and a block that several keys need is read once.
    ///
    /// [`Options::io_threads`]: crate::Options::io_threads
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Bytes>>> {
        let reader = &self.engine.reader;
        let keys: Vec<K> = keys.into_iter().collect();
        reader.admit(keys.len());
        let (pinned, trees) = match reader.pin_keyspace(&self.info) {
            Ok(pinned) => pinned,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let asked = keys.iter().map(|key| {
            let key = key.as_ref();
            (&**pinned.view.pinned(trees.tree(self.info.region_of(key))), key)
        });
        reader.multi_get(&asked.collect::<Vec<_>>(), pinned.at)
    }

    /// All pairs in key order, as of now.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.range(..)
    }

    /// The pairs within a range of keys, as of now.
    #[must_use]
    pub fn range(&self, range: impl KeyBounds) -> Iter {
        Iter::new(&self.info, Arc::new(Held::now(&self.engine)), range)
    }

    /// The readable pairs of a damaged keyspace, in key order, and the ranges of keys that cannot
    /// be read. Use it to rescue data when there is no backup. All other reads stop at damage.
    ///
    /// No pair of a damaged range is returned, even if another SST holds it: the lost data may have
    /// replaced or deleted it. If a block is damaged, the range of its keys is lost. If an SST is
    /// missing or cut off, or its index, filter or range tombstones are damaged, its whole range is
    /// lost. [`Builder::allow_missing_ssts`](crate::Builder::allow_missing_ssts) opens a store that
    /// lacks SSTs.
    #[must_use]
    pub fn salvage(&self) -> Salvage {
        Salvage::new(&self.engine, &self.info)
    }

    /// Adds files of sorted pairs to the keyspace, atomically: readers see all of them or none, and
    /// older snapshots see none. Their values replace older values of the same keys. When the call
    /// returns, the files and all earlier writes are durable.
    ///
    /// [`Keyspace::sst_writer`] and [`SstFileWriter::create`] make the files. Their key ranges must
    /// not overlap, and no file may span regions. The files are checked completely, and copied.
    /// Writes continue meanwhile, even to keys of the files. They wait only while the files become
    /// part of the store, for about two syncs ([`WaitCause::Ingest`](crate::WaitCause::Ingest)).
    /// The values do not expire, whatever the keyspace's `ttl`. A crash may keep the files and lose
    /// earlier writes that are neither in the WAL nor flushed.
    ///
    /// # Errors
    /// [`Error::Corruption`], [`Error::InvalidArgument`], [`Error::FormatVersion`] or [`Error::Io`]
    /// with the file that cannot be ingested, or [`Error::NoSpace`]; nothing has changed then.
    /// [`Error::OpenedReadOnly`], [`Error::Closed`], or any error of writing the WAL or the
    /// manifest.
    pub fn ingest(
        &self,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<IngestReport> {
        self.ingest_with(files, IngestOptions::default())
    }

    /// Begins a file of sorted pairs for [`Keyspace::ingest`], with the compression, block length
    /// and filters of the keyspace. An ingested file keeps its own compression, blocks and filters
    /// until a compaction rewrites its pairs.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let file = folder.path().join("file");
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let words = db.create_keyspace("words", vlsm::KeyspaceOptions::new().bits_per_key(12))?;
    /// let mut writer = words.sst_writer(&file)?;
    /// writer.put("ant", "1")?;
    /// writer.put("bee", "2")?;
    /// writer.finish()?;
    /// words.ingest([&file])?;
    /// assert_eq!(words.get("bee")?.as_deref(), Some(&b"2"[..]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`SstFileWriter::create`].
    pub fn sst_writer(&self, path: impl AsRef<Path>) -> Result<SstFileWriter> {
        let shared = &self.engine.shared;
        let options = self.info.made().rules.own.over(&shared.options);
        SstFileWriter::create_in(&shared.env, path.as_ref(), &options)
    }

    /// As [`Keyspace::ingest`], with options, which choose between copying and moving the files.
    ///
    /// # Errors
    /// As [`Keyspace::ingest`].
    pub fn ingest_with(
        &self,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
        options: IngestOptions,
    ) -> Result<IngestReport> {
        let files: Vec<_> = files.into_iter().map(|file| file.as_ref().to_owned()).collect();
        ingest(&self.engine, &self.info, &files, options)
    }

    /// Removes all data of the keyspace, durably. The cost is one record in the manifest, whatever
    /// the size of the keyspace; the files are removed in the background. Earlier snapshots and
    /// iterators still read the data that they show. The options stay.
    ///
    /// Each concurrent write of another thread is either removed or kept. A transaction that began
    /// before the clear fails with [`Error::Conflict`] if it has read the keyspace, or writes to it
    /// afterwards. If it only wrote to the keyspace before the clear, it may commit. Its writes
    /// then come after the clear, like those of a [`Batch`](crate::Batch) that was filled before.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let cache = db.create_keyspace("cache", vlsm::KeyspaceOptions::new())?;
    /// cache.put("page", "text")?;
    /// let before = db.snapshot();
    /// cache.clear()?;
    /// assert!(cache.is_empty()?);
    /// assert!(before.contains_key(&cache, "page")?);
    /// # drop(before);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`], [`Error::NoSpace`] on a full device (nothing has changed then),
    /// [`Error::OpenedReadOnly`], [`Error::Closed`], or any error of writing the WAL or the
    /// manifest. After such an error a reopened store has the keyspace either cleared or unchanged.
    pub fn clear(&self) -> Result<()> {
        clear(&self.engine, &self.info)
    }

    /// The approximate size of a range of keys on disk and in memory. It includes old versions and
    /// tombstones that still exist.
    ///
    /// # Errors
    /// Any error of reading an SST's index; [`Error::Closed`].
    pub fn approximate_size(&self, range: impl KeyBounds) -> Result<ApproximateSize> {
        let (lo, hi) = half_open(range);
        self.engine.reader.approximate_size(&self.info, &lo, hi.as_ref())
    }

    /// Compacts a range of keys down to the last level and waits for the result. Shadowed versions,
    /// tombstones and expired values are removed, unless a snapshot needs them.
    ///
    /// Writes before the call are flushed first; concurrent writes may stay in higher levels. Reads
    /// and writes continue: the jobs are as narrow as any other, run under the schedule in use, and
    /// wait for jobs that hold their inputs.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let fruit = db.default_keyspace();
    /// fruit.put("apple", "green")?;
    /// fruit.delete("apple")?;
    /// fruit.compact_range("a".."q")?;
    /// assert_eq!(db.stats().levels.iter().map(|level| level.tables).sum::<u64>(), 0);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`] if the store is closed meanwhile, [`Error::ReadOnly`] if the store became
    /// read-only, [`Error::NoSpace`] if the device is full, [`Error::OpenedReadOnly`].
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        let (lo, hi) = half_open(range);
        self.engine.control.compact_range(&self.info, &lo, hi.as_ref())
    }

    /// The pairs whose keys begin with `prefix`, as of now.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::with_prefix(&self.info, Arc::new(Held::now(&self.engine)), prefix.as_ref())
    }
}

/// The first key of a range, and the first key behind its end, if it has one.
fn half_open(range: impl KeyBounds) -> (Bytes, Option<Bytes>) {
    let behind = |key: Bytes| Bytes::from([&key[..], &[0]].concat());
    let (lo, hi) = range.key_bounds();
    let lo = match lo {
        Bound::Included(key) => key,
        Bound::Excluded(key) => behind(key),
        Bound::Unbounded => Bytes::new(),
    };
    let hi = match hi {
        Bound::Included(key) => Some(behind(key)),
        Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    };
    (lo, hi)
}

impl IntoIterator for &Keyspace {
    type Item = Result<(Bytes, Bytes)>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}

/// Commits a batch of one write. The batch reuses memory.
pub(crate) fn write_one(
    writer: &Arc<Writer>,
    options: WriteOptions,
    add: impl FnOnce(&mut Batch),
) -> Result<()> {
    let mut batch = SCRATCH.try_with(Cell::take).ok().flatten().unwrap_or_default();
    batch.clear();
    add(&mut batch);
    let result = writer.write(&batch, options);
    if batch.encoded_len() <= SCRATCH_MAX {
        let _ = SCRATCH.try_with(|kept| kept.set(Some(batch)));
    }
    result
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.info.name()).finish_non_exhaustive()
    }
}
