//! Reads and writes of a [`Db`] that name no keyspace: each is the call of the same name on the
//! keyspace `default`. The most frequent ones, `put`, `delete` and `get`, create no handle to it.

use crate::batch::Batch;
use crate::bounds::KeyBounds;
use crate::db::Db;
use crate::iter::Iter;
#[cfg(doc)]
use crate::keyspace::Keyspace;
use crate::keyspace::write_one;
use crate::options::WriteOptions;
use bytes::Bytes;
use std::time::Duration;
use vlsm_core::{Kind, Result};

impl Db {
    /// Sets a key of the keyspace `default` to a value.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let add = |batch: &mut Batch| batch.add_put(&self.default, key, value);
        write_one(&self.engine.writer, WriteOptions::default(), add)
    }

    /// Sets a key of the keyspace `default` to a value, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put_with`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.default_keyspace().put_with(key, value, options)
    }

    /// Sets a key of the keyspace `default` to a value that expires after `ttl` from now.
    ///
    /// # Errors
    /// As [`Keyspace::put_with_ttl`].
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.default_keyspace().put_with_ttl(key, value, ttl)
    }

    /// Sets a key of the keyspace `default` to a value that expires, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put_with_ttl_with`].
    pub fn put_with_ttl_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
        options: WriteOptions,
    ) -> Result<()> {
        self.default_keyspace().put_with_ttl_with(key, value, ttl, options)
    }

    /// Removes a key of the keyspace `default`.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let add = |batch: &mut Batch| batch.add(&self.default, Kind::Delete, key.as_ref(), &[]);
        write_one(&self.engine.writer, WriteOptions::default(), add)
    }

    /// Removes a key of the keyspace `default`, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put_with`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.default_keyspace().delete_with(key, options)
    }

    /// Removes all keys of a range from the keyspace `default`.
    ///
    /// # Errors
    /// As [`Keyspace::delete_range`].
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        self.default_keyspace().delete_range(range)
    }

    /// Removes all keys of a range from the keyspace `default`, with options.
    ///
    /// # Errors
    /// As [`Keyspace::put_with`].
    pub fn delete_range_with(&self, range: impl KeyBounds, options: WriteOptions) -> Result<()> {
        self.default_keyspace().delete_range_with(range, options)
    }

    /// Changes the value of a key of the keyspace `default` by an operand of its merge operator
    /// ([`Builder::default_keyspace`](crate::Builder::default_keyspace)).
    ///
    /// # Errors
    /// As [`Keyspace::merge`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().merge(key, operand)
    }

    /// Changes the value of a key of the keyspace `default` by an operand, with options.
    ///
    /// # Errors
    /// As [`Keyspace::merge_with`].
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        self.default_keyspace().merge_with(key, operand, options)
    }

    /// The value of a key of the keyspace `default`.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.engine.reader.get(&self.default, key.as_ref(), None)
    }

    /// The values of several keys of the keyspace `default`, as [`Keyspace::multi_get`] does.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Bytes>>> {
        self.default_keyspace().multi_get(keys)
    }

    /// Whether a key of the keyspace `default` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The pair with the smallest key of the keyspace `default`.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn first(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.default_keyspace().first()
    }

    /// The pair with the largest key of the keyspace `default`.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn last(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.default_keyspace().last()
    }

    /// Whether the keyspace `default` has no pair.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn is_empty(&self) -> Result<bool> {
        self.default_keyspace().is_empty()
    }

    /// The number of pairs of the keyspace `default`. The call counts them, so it takes the time of
    /// a scan.
    ///
    /// # Errors
    /// As those of [`Iter`].
    pub fn len(&self) -> Result<u64> {
        self.default_keyspace().len()
    }

    /// All pairs of the keyspace `default`.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.default_keyspace().iter()
    }

    /// The pairs of the keyspace `default` within a range of keys.
    #[must_use]
    pub fn range(&self, range: impl KeyBounds) -> Iter {
        self.default_keyspace().range(range)
    }

    /// The pairs of the keyspace `default` whose keys begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.default_keyspace().prefix(prefix)
    }
}
