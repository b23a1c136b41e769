//! Snapshots: the state of the store at one moment, while the handle exists. A snapshot is a
//! registered sequence number (`read/snapshots`); it copies nothing.

use crate::bounds::KeyBounds;
use crate::handle::Handle;
use crate::held::Held;
use crate::iter::{Iter, count};
use crate::keyspace::Keyspace;
use crate::write::batch::other_store;
use bytes::Bytes;
use std::sync::Arc;
use vlsm_core::{Result, Seq};

/// The state of the store at the call of [`Db::snapshot`](crate::Db::snapshot). It is cheap to
/// clone. It keeps the data that it shows alive.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) held: Arc<Held>,
}

impl Snapshot {
    pub(crate) fn new(engine: &Handle) -> Self {
        Self { held: Arc::new(Held::dated(engine)) }
    }

    /// The sequence number of the snapshot. It shows all writes up to this number.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.held.at.seq
    }

    /// The value of a key in the snapshot.
    ///
    /// # Errors
    /// Any error of reading an SST.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        if keyspace.info.store != self.held.engine.shared.store_uid {
            return Err(other_store());
        }
        let reader = &self.held.engine.reader;
        if !self.held.keeps_any() {
            return reader.get(&keyspace.info, key, Some(self.held.at));
        }
        let (tree, kept) = self.held.tree(&keyspace.info, keyspace.info.region_of(key))?;
        match kept {
            true => {
                reader.admit(1);
                reader.get_in(&tree, self.held.at, key)
            }
            false => reader.get(&keyspace.info, key, Some(self.held.at)),
        }
    }

    /// Whether a key has a value in the snapshot.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// The values of several keys in the snapshot, in their order. Each key has a result of its
    /// own. Like [`Keyspace::multi_get`], it reads blocks that are not in memory in parallel.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Bytes>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let engine = &self.held.engine;
        if keyspace.info.store != engine.shared.store_uid {
            return keys.iter().map(|_| Err(other_store())).collect();
        }
        engine.reader.admit(keys.len());
        let info = &keyspace.info;
        let trees = (0..info.region_count()).map(|region| Ok(self.held.tree(info, region)?.0));
        let trees = match trees.collect::<Result<Vec<_>>>() {
            Ok(trees) => trees,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let asked = keys.iter().map(|key| {
            let key = key.as_ref();
            (&*trees[info.region_of(key)], key)
        });
        engine.reader.multi_get(&asked.collect::<Vec<_>>(), self.held.at)
    }

    /// The pair with the smallest key of a keyspace in the snapshot.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Bytes, Bytes)>> {
        self.iter(keyspace).next().transpose()
    }

    /// The pair with the largest key of a keyspace in the snapshot.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Bytes, Bytes)>> {
        self.iter(keyspace).next_back().transpose()
    }

    /// Whether a keyspace has no pair in the snapshot.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn is_empty(&self, keyspace: &Keyspace) -> Result<bool> {
        Ok(self.first(keyspace)?.is_none())
    }

    /// The number of pairs of a keyspace in the snapshot. The call counts them, so it takes the
    /// time of a scan.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn len(&self, keyspace: &Keyspace) -> Result<u64> {
        count(self.iter(keyspace))
    }

    /// All pairs of a keyspace in key order.
    #[must_use]
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.range(keyspace, ..)
    }

    /// The pairs of a keyspace within a range of keys.
    #[must_use]
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyBounds) -> Iter {
        Iter::new(&keyspace.info, self.held.clone(), range)
    }

    /// The pairs of a keyspace whose keys begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::with_prefix(&keyspace.info, self.held.clone(), prefix.as_ref())
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("seq", &self.held.at.seq).finish()
    }
}
