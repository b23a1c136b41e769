//! Keyspaces: named sets of keys within a store.
//!
//! A keyspace is one or more *regions*: trees over a static partition of its key range, given when
//! it is made (vlsm.txt §2.1). A batch may touch any keyspaces and is atomic across them.

use crate::batch::Batch;
use crate::db::Db;
use crate::engine::Engine;
use crate::iter::Iter;
use crate::options::WriteOptions;
use bytes::Bytes;
use std::cell::Cell;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use vlsm_core::{Error, Result, TreeId};
use vlsm_disk::manifest;

/// The keyspace that every store has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// What a keyspace is made with. Fixed for its life.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// The keys at which the second and each further region begins: strictly ascending, not empty
    /// keys.
    pub splits: Vec<Bytes>,
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
        Self { splits: splits.into_iter().map(Into::into).collect() }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let ascending = self.splits.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || self.splits.iter().any(Bytes::is_empty) {
            return Err(Error::InvalidArgument(
                "the split keys of a keyspace must be strictly ascending and not empty".into(),
            ));
        }
        Ok(())
    }
}

/// What the store knows of one keyspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyspaceInfo {
    /// The random number of its store.
    pub store: u64,
    pub name: String,
    pub splits: Vec<Bytes>,
    pub trees: Vec<TreeId>,
}

impl KeyspaceInfo {
    /// Index of the region that holds a key.
    pub fn region_of(&self, key: &[u8]) -> usize {
        self.splits.partition_point(|split| split.as_ref() <= key)
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
    pub fn of(store: u64, keyspace: &manifest::Keyspace) -> Self {
        let splits = keyspace.regions.iter().skip(1).map(|region| region.lo.clone()).collect();
        let trees = keyspace.regions.iter().map(|region| region.tree).collect();
        Self { store, name: keyspace.name.clone(), splits, trees }
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
    /// failure, [`Error::Closed`], or what writing the WAL failed with.
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

    /// The value of a key; none where it is absent.
    ///
    /// # Errors
    /// What reading an SST failed with. An error is never taken for absence.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        self.db.engine.get(self.tree_of(key), key, None)
    }

    /// The values of several keys, as of one moment, in the order asked for.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>> {
        let pinned = self.db.engine.pin();
        let read = |key: K| {
            let key = key.as_ref();
            self.db.engine.get_in(&pinned.view, pinned.seq, self.tree_of(key), key)
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
        Iter::new(self, self.db.engine.pin(), &range)
    }

    /// The pairs whose keys begin with `prefix`, as of now.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::with_prefix(self, self.db.engine.pin(), prefix.as_ref())
    }
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
