//! Changes of one key that depend on its value. Each is a transaction over that key, which is
//! repeated after a conflict, at most [`TRANSACT_TRIES`](crate::TRANSACT_TRIES) times.

use crate::db::Db;
use crate::keyspace::Keyspace;
use crate::options::WriteOptions;
use crate::transaction::transact;
use bytes::Bytes;
#[cfg(doc)]
use vlsm_core::Error;
use vlsm_core::Result;

impl Keyspace {
    /// Sets a key to `new` if its value is `expected`. `None` stands for an absent key. If the
    /// value differs, nothing changes, and the inner error is the value that the key has.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let locks = db.default_keyspace();
    /// assert_eq!(locks.compare_and_swap("job", None, Some(b"ada"))?, Ok(()));
    /// assert_eq!(locks.compare_and_swap("job", None, Some(b"alan"))?, Err(Some("ada".into())));
    /// assert_eq!(locks.compare_and_swap("job", Some(b"ada"), None)?, Ok(()));
    /// assert_eq!(locks.get("job")?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`] and [`Keyspace::get`]; [`Error::Conflict`] if the transaction met a
    /// concurrent write to the key [`TRANSACT_TRIES`](crate::TRANSACT_TRIES) times.
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<(), Option<Bytes>>> {
        self.compare_and_swap_with(key, expected, new, WriteOptions::default())
    }

    /// As [`Keyspace::compare_and_swap`], with options.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap`]; [`Error::Busy`] if a deadline was given and passed.
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<Result<(), Option<Bytes>>> {
        let key = key.as_ref();
        transact(&self.engine, options, |transaction| {
            let found = transaction.get(self, key)?;
            if found.as_deref() != expected {
                return Ok(Err(found));
            }
            match new {
                Some(value) => transaction.put(self, key, value)?,
                None => transaction.delete(self, key)?,
            }
            Ok(Ok(()))
        })
    }

    /// Sets a key to the value that `update` returns for its current value, and returns the value
    /// before. `None` stands for an absent key, in both directions. `update` may be called several
    /// times.
    ///
    /// ```
    /// # fn main() -> vlsm::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = vlsm::Db::open(folder.path().join("store"))?;
    /// let names = db.default_keyspace();
    /// let add = |names: Option<&[u8]>| Some([names.unwrap_or_default(), b"ada "].concat());
    /// assert_eq!(names.fetch_update("all", add)?, None);
    /// assert_eq!(names.fetch_update("all", add)?, Some("ada ".into()));
    /// assert_eq!(names.get("all")?, Some("ada ada ".into()));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap`].
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        self.fetch_update_with(key, WriteOptions::default(), update)
    }

    /// As [`Keyspace::fetch_update`], with options.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap_with`].
    pub fn fetch_update_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        transact(&self.engine, options, |transaction| {
            let found = transaction.get(self, key)?;
            match update(found.as_deref()) {
                Some(value) => transaction.put(self, key, value)?,
                None if found.is_some() => transaction.delete(self, key)?,
                None => {}
            }
            Ok(found)
        })
    }

    /// Sets a key to a value if the key is absent. Otherwise nothing changes, and the call returns
    /// the value that the key has.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap`].
    pub fn insert_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        self.insert_if_absent_with(key, value, WriteOptions::default())
    }

    /// As [`Keyspace::insert_if_absent`], with options.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap_with`].
    pub fn insert_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<Option<Bytes>> {
        let swapped = self.compare_and_swap_with(key, None, Some(value.as_ref()), options)?;
        Ok(swapped.err().flatten())
    }
}

impl Db {
    /// Sets a key of the keyspace `default` to `new` if its value is `expected`, as
    /// [`Keyspace::compare_and_swap`] does.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<(), Option<Bytes>>> {
        self.default_keyspace().compare_and_swap(key, expected, new)
    }

    /// Sets a key of the keyspace `default` to the value that `update` returns for its current
    /// value, and returns the value before, as [`Keyspace::fetch_update`] does.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap`].
    pub fn fetch_update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        self.default_keyspace().fetch_update(key, update)
    }

    /// Sets a key of the keyspace `default` to a value if the key is absent. Otherwise nothing
    /// changes, and the call returns the value that the key has.
    ///
    /// # Errors
    /// As [`Keyspace::compare_and_swap`].
    pub fn insert_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Bytes>> {
        self.default_keyspace().insert_if_absent(key, value)
    }
}
