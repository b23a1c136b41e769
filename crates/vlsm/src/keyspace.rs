//! Keyspaces: named sets of keys within a store.
//!
//! A keyspace is one or more *regions*: trees over a static partition of its key range, given when
//! it is made (vlsm.txt §2.1). A batch may touch any keyspaces and is atomic across them.

use crate::batch::Batch;
use crate::clock::Clock;
use crate::db::Db;
use crate::engine::Engine;
use crate::ingest::{IngestOptions, IngestReport};
use crate::iter::Iter;
use crate::options::WriteOptions;
use crate::rules::{Extensions, Rules};
use crate::salvage::Salvage;
use crate::size::ApproximateSize;
use crate::snapshot::Held;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{Error, OptionDifference, Result, TreeId};
use vlsm_disk::manifest;

/// The keyspace that every store has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// What a keyspace is made with. Fixed for its life.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// use vlsm::{Db, KeyspaceOptions};
///
/// let db = Db::open(folder.path().join("store"))?;
/// let visits = db.create_keyspace("visits", KeyspaceOptions::new().merge_operator("add"))?;
/// visits.merge("ada", 1u64.to_le_bytes())?;
/// visits.merge("ada", 1u64.to_le_bytes())?;
/// assert_eq!(visits.get("ada")?.as_deref(), Some(&2u64.to_le_bytes()[..]));
///
/// let hour = std::time::Duration::from_secs(3600);
/// let sessions = db.create_keyspace("sessions", KeyspaceOptions::new().ttl(hour))?;
/// sessions.put("ada", "here for an hour")?;
/// # db.close()
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// The keys at which the second and each further region begins: strictly ascending, not empty
    /// keys.
    pub splits: Vec<Bytes>,
    /// The name of the operator for [`Keyspace::merge`]: `append`, `add`, `max`, or one given to
    /// [`Builder::merge_operator`](crate::Builder::merge_operator).
    pub merge_operator: Option<String>,
    /// How long each put lives. Not together with a merge operator.
    pub ttl: Option<Duration>,
}

/// The options as they stand in the manifest; the regions have a place of their own there.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Recorded {
    #[serde(skip_serializing_if = "Option::is_none")]
    merge_operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_micros: Option<u64>,
}

impl KeyspaceOptions {
    /// One region.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Regions that begin at these keys (and one before the first of them).
    #[must_use]
    pub fn splits(splits: impl IntoIterator<Item = impl Into<Bytes>>) -> Self {
        Self { splits: splits.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// With this merge operator.
    #[must_use]
    pub fn merge_operator(self, name: impl Into<String>) -> Self {
        Self { merge_operator: Some(name.into()), ..self }
    }

    /// With values that are absent again after so long.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let ascending = self.splits.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || self.splits.iter().any(Bytes::is_empty) {
            return Err(Error::InvalidArgument(
                "the split keys of a keyspace must be strictly ascending and not empty".into(),
            ));
        }
        if self.ttl.is_some() && self.merge_operator.is_some() {
            return Err(Error::InvalidArgument(
                "a keyspace cannot have both a merge operator and a time to live: an operand over \
                 a value that expires would have no meaning that lasts"
                    .into(),
            ));
        }
        let micros = self.ttl.map_or(1, |ttl| ttl.as_micros());
        if micros == 0 || i64::try_from(micros).is_err() {
            return Err(Error::InvalidArgument(
                "the time to live of a keyspace must be between one microsecond and 290,000 years"
                    .into(),
            ));
        }
        Ok(())
    }

    /// The options that differ from what these are.
    fn differences(&self, asked: &Self) -> Vec<OptionDifference> {
        let mut differences = Vec::new();
        let mut compare = |option, existing: String, asked: String| {
            differences.push(OptionDifference { option, existing, asked });
        };
        if self.splits != asked.splits {
            // Keys appear in no error: how many, and whether it is only they that differ.
            let (ours, theirs) = (self.splits.len(), asked.splits.len());
            let other = if ours == theirs { "other " } else { "" };
            let count = |count, other| {
                let s = if count == 1 { "" } else { "s" };
                format!("{count} {other}key{s}")
            };
            compare("splits", count(ours, ""), count(theirs, other));
        }
        if self.merge_operator != asked.merge_operator {
            let say = |name: &Option<String>| match name {
                Some(name) => format!("{name:?}"),
                None => "none".to_owned(),
            };
            compare("merge_operator", say(&self.merge_operator), say(&asked.merge_operator));
        }
        if self.ttl != asked.ttl {
            let say = |ttl: Option<Duration>| match ttl {
                Some(ttl) => format!("{ttl:?}"),
                None => "none".to_owned(),
            };
            compare("ttl", say(self.ttl), say(asked.ttl));
        }
        differences
    }

    /// The regions, with trees from this number on.
    pub(crate) fn regions(&self, first: u64) -> Vec<manifest::Region> {
        let los = std::iter::once(Bytes::new()).chain(self.splits.iter().cloned());
        los.zip(first..).map(|(lo, tree)| manifest::Region { lo, tree: TreeId(tree) }).collect()
    }

    /// As text for the manifest.
    pub(crate) fn to_text(&self) -> Result<String> {
        let recorded = Recorded {
            merge_operator: self.merge_operator.clone(),
            ttl_micros: self.ttl.map(|ttl| ttl.as_micros() as u64),
        };
        toml::to_string(&recorded).map_err(|error| Error::Internal(error.to_string()))
    }

    /// What the manifest says of a keyspace.
    fn of(keyspace: &manifest::Keyspace) -> Result<Self, String> {
        let recorded: Recorded = toml::from_str(&keyspace.options).map_err(|e| e.to_string())?;
        Ok(Self {
            splits: keyspace.regions.iter().skip(1).map(|region| region.lo.clone()).collect(),
            merge_operator: recorded.merge_operator,
            ttl: recorded.ttl_micros.map(Duration::from_micros),
        })
    }
}

/// What the store knows of one keyspace.
pub(crate) struct KeyspaceInfo {
    /// The random number of its store.
    pub store: u64,
    pub name: String,
    pub options: KeyspaceOptions,
    pub trees: Vec<TreeId>,
    pub rules: Arc<Rules>,
    /// Whose clock says when a put expires.
    pub clock: Arc<Clock>,
}

/// Refuses a name that a person could not read or type. Keyspaces that have one already stay.
pub(crate) fn check_name(name: &str) -> Result<()> {
    // What moves the text around it or is not seen at all.
    let unseen = |c: char| {
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || c == '\u{feff}'
            || c.is_control()
    };
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains('/') {
        "it holds '/'"
    } else if name.contains(unseen) {
        "it holds characters that nobody sees"
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument(format!(
        "a keyspace cannot have the name {name:?}: {why}; choose one of visible characters"
    )))
}

impl KeyspaceInfo {
    /// Refuses options that it was not made with.
    pub fn check_options(&self, asked: &KeyspaceOptions) -> Result<()> {
        let differences = self.options.differences(asked);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::KeyspaceExists { keyspace: self.name.clone(), differences })
    }

    /// Index of the region that holds a key.
    pub fn region_of(&self, key: &[u8]) -> usize {
        self.options.splits.partition_point(|split| split.as_ref() <= key)
    }

    /// The tree of the region that holds a key.
    #[inline]
    pub fn tree_of(&self, key: &[u8]) -> TreeId {
        match self.trees.as_slice() {
            [only] => *only,
            trees => trees[self.region_of(key)],
        }
    }

    /// What the manifest says of a keyspace.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the options were written by a newer version,
    /// [`Error::UnknownMergeOperator`].
    pub fn of(
        clock: &Arc<Clock>,
        store: u64,
        keyspace: &manifest::Keyspace,
        extensions: &Extensions,
    ) -> Result<Self> {
        let name = keyspace.name.clone();
        let options = KeyspaceOptions::of(keyspace).map_err(|why| {
            let what = format!(
                "the options of keyspace {name:?} in the manifest are not known here: use a newer \
                 vlsm ({why})"
            );
            Error::InvalidArgument(what)
        })?;
        let rules = extensions.rules(&name, &options)?;
        let trees = keyspace.regions.iter().map(|region| region.tree).collect();
        Ok(Self { store, name, options, trees, rules, clock: clock.clone() })
    }
}

/// A handle to one keyspace of an open store. Cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) db: Db,
    pub(crate) info: Arc<KeyspaceInfo>,
}

/// A larger batch is not kept.
const SCRATCH_MAX: usize = 1 << 20;

thread_local! {
    /// The batch of the last single write of this thread, for its memory.
    static SCRATCH: Cell<Option<Batch>> = const { Cell::new(None) };
}

impl Keyspace {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Number of its regions.
    #[must_use]
    pub fn region_count(&self) -> usize {
        self.info.trees.len()
    }

    pub(crate) fn tree_of(&self, key: &[u8]) -> TreeId {
        self.info.tree_of(key)
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key or value over the limits, [`Error::ReadOnly`] after a
    /// failure, [`Error::NoSpace`] on a full device (nothing was written), [`Error::Closed`], or
    /// what writing the WAL failed with.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Sets a key to a value, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::Busy`] when a deadline was given and passed.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        write_one(&self.db.engine, options, |batch| batch.put(self, key, value))
    }

    /// Removes a key. Not an error where it is absent.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        write_one(&self.db.engine, WriteOptions::default(), |batch| batch.delete(self, key))
    }

    /// Removes all keys of a range, which costs no more than removing one for each region that it
    /// touches. An empty range changes nothing.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::InvalidArgument`] for a range without an upper end: give a
    /// key that is larger than all of the keyspace.
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
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        write_one(&self.db.engine, WriteOptions::default(), |batch| {
            batch.delete_range(self, range);
        })
    }

    /// Changes the value of a key by an operand of the keyspace's merge operator, without reading.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::OperandRefused`] when the operator refuses the operand, and
    /// [`Error::InvalidArgument`] when the keyspace has none: nothing was written.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        write_one(&self.db.engine, WriteOptions::default(), |batch| {
            batch.merge(self, key, operand);
        })
    }

    /// Sets a key to a value that is absent again after `ttl` from now.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; [`Error::InvalidArgument`] when the keyspace has a merge operator.
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        write_one(&self.db.engine, WriteOptions::default(), |batch| {
            batch.put_with_ttl(self, key, value, ttl);
        })
    }

    /// The value of a key; none where it is absent or has expired.
    ///
    /// # Errors
    /// What reading an SST failed with. An error is never taken for absence.
    /// [`Error::MergeFailed`] when the merge operator could not combine what was written, or
    /// panicked over it.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        self.db.engine.get(self.tree_of(key), key, None)
    }

    /// The values of several keys, as of one moment, in the order asked for. Each has an answer of
    /// its own, as of [`Keyspace::get`], so one that cannot be read hides no other;
    /// `collect::<Result<Vec<_>>>()` makes one answer of them.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Bytes>>> {
        let pinned = self.db.engine.pin();
        let read = |key: K| {
            let key = key.as_ref();
            self.db.engine.get_in(pinned.view.tree(self.tree_of(key)), pinned.at, key)
        };
        keys.into_iter().map(read).collect()
    }

    /// All pairs in key order, as of now.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.range::<&[u8]>(..)
    }

    /// The pairs within a range of keys, as of now.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self, Arc::new(Held::now(&self.db)), &range)
    }

    /// What can be read of a damaged keyspace, in key order, and the ranges of keys that cannot:
    /// for rescuing data where no backup is. Every other reader stops at damage.
    ///
    /// In a damaged range nothing is handed out, not even what other SSTs have there: it may be
    /// older than what was lost, or deleted by it. A damaged block costs its own keys; an SST that
    /// is missing or cut off, or whose index, filter or range tombstones are damaged, its whole
    /// range. [`Builder::allow_missing_ssts`](crate::Builder::allow_missing_ssts) opens a store
    /// that lacks SSTs.
    #[must_use]
    pub fn salvage(&self) -> Salvage {
        Salvage::new(self)
    }

    /// Brings files of sorted pairs into the keyspace, at one moment: readers see all of them or
    /// none, and snapshots taken before see none. Their values replace older ones of their keys.
    /// It is durable when it returns, and so is everything written before.
    ///
    /// The files are made by [`SstFileWriter`](crate::SstFileWriter). Together they must hold keys
    /// apart, and none may span regions. They are checked completely, and copied. Writes go on
    /// meanwhile, in the files' keys, too; only while the files become part of the store, writes
    /// wait, for about two syncs ([`WaitCause::Ingest`](crate::WaitCause::Ingest)). Values do not
    /// expire, whatever the keyspace's `ttl`. Of writes outside the WAL that were not flushed, a
    /// crash may take those before the ingest although it keeps the files.
    ///
    /// # Errors
    /// [`Error::Corruption`], [`Error::InvalidArgument`], [`Error::FormatVersion`] or [`Error::Io`]
    /// with the file that cannot be brought in, [`Error::NoSpace`]: nothing has changed then.
    /// [`Error::OpenedReadOnly`], [`Error::Closed`], or what writing the WAL or the manifest failed
    /// with.
    pub fn ingest(
        &self,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<IngestReport> {
        self.ingest_with(files, IngestOptions::default())
    }

    /// As [`Keyspace::ingest`], with options: whether the files are copied or moved.
    ///
    /// # Errors
    /// As [`Keyspace::ingest`].
    pub fn ingest_with(
        &self,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
        options: IngestOptions,
    ) -> Result<IngestReport> {
        let files: Vec<_> = files.into_iter().map(|file| file.as_ref().to_owned()).collect();
        self.db.engine.ingest(&self.info, &files, options)
    }

    /// What a range of keys takes on disk and in memory, about: old versions and tombstones that
    /// are still there count, too.
    ///
    /// # Errors
    /// What reading an SST's index failed with; [`Error::Closed`].
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<ApproximateSize> {
        let (lo, hi) = half_open(&range);
        self.db.engine.approximate_size(&self.info, &lo, hi.as_ref())
    }

    /// Compacts a range of keys down to the last level and waits for it: versions that nobody sees,
    /// tombstones and values that have expired go, as far as no snapshot needs them.
    ///
    /// What was written before the call is flushed first; what is written meanwhile may stay above.
    /// The work is done in jobs as narrow as any other, under the schedule in use, and waits for
    /// those that hold what it needs; so other reads and writes go on.
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
    /// [`Error::Closed`] when the store is closed meanwhile, [`Error::ReadOnly`] when it fails,
    /// [`Error::NoSpace`] when the device is full, [`Error::OpenedReadOnly`].
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let (lo, hi) = half_open(&range);
        self.db.engine.compact_range(&self.info, &lo, hi.as_ref())
    }

    /// The pairs whose keys begin with `prefix`, as of now.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::with_prefix(self, Arc::new(Held::now(&self.db)), prefix.as_ref())
    }
}

/// The first key of a range and the first one behind it, if there is an end.
fn half_open<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> (Bytes, Option<Bytes>) {
    let at = |key: &K| Bytes::copy_from_slice(key.as_ref());
    let behind = |key: &K| [key.as_ref(), &[0]].concat().into();
    let lo = match range.start_bound() {
        Bound::Included(key) => at(key),
        Bound::Excluded(key) => behind(key),
        Bound::Unbounded => Bytes::new(),
    };
    let hi = match range.end_bound() {
        Bound::Included(key) => Some(behind(key)),
        Bound::Excluded(key) => Some(at(key)),
        Bound::Unbounded => None,
    };
    (lo, hi)
}

/// Commits a batch of one write, in memory that is used again.
pub(crate) fn write_one(
    engine: &Arc<Engine>,
    options: WriteOptions,
    add: impl FnOnce(&mut Batch),
) -> Result<()> {
    let mut batch = SCRATCH.take().unwrap_or_default();
    batch.clear();
    add(&mut batch);
    let result = engine.write(&batch, options);
    if batch.encoded_len() <= SCRATCH_MAX {
        SCRATCH.set(Some(batch));
    }
    result
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("name", &self.info.name).finish_non_exhaustive()
    }
}
