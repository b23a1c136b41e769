//! The beginning of a WAL file in memory: the errors of a [`Map`] with the file's path, as those of
//! [`WalFile`](super::WalFile).

use crate::fs::{File, Map};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{Error, Result};

/// A WAL file whose bytes up to a length can be written without a call.
pub struct MappedWal {
    map: Arc<dyn Map>,
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
}

impl MappedWal {
    /// Maps the file up to its capacity.
    pub(super) fn new(file: &Arc<dyn File>, path: &Path, len: u64) -> Result<Self> {
        let map = file.map(len).map_err(|error| Error::io("cannot map WAL", path, error))?;
        Ok(Self { map, file: file.clone(), path: path.to_owned(), len })
    }

    /// Length of the mapped part.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores framed records, as [`WalFile::write`](super::WalFile::write) writes them.
    ///
    /// # Errors
    /// The file was cut, or its device failed; never [`Error::NoSpace`]. The file must not be
    /// written any more after an error.
    pub fn store(&self, records: &[u8], offset: u64) -> Result<()> {
        self.map.store(records, offset).map_err(|error| {
            Error::io_unknown("cannot store into the map of WAL", &self.path, error)
        })
    }

    /// Brings a range into memory, ready for stores.
    ///
    /// # Errors
    /// The system's error, without effect; or [`Error::Corruption`] if the file is shorter than it
    /// was prepared.
    pub fn populate(&self, from: u64, to: u64) -> Result<()> {
        self.map.populate(from, to).map_err(|error| {
            if self.file.len().is_ok_and(|len| len < self.len) {
                let what = "the WAL in use was truncated by something other than the store";
                return Error::corruption(&self.path, self.len, what);
            }
            Error::io("cannot populate the map of WAL", &self.path, error)
        })
    }

    /// Makes all writes into a range durable.
    ///
    /// # Errors
    /// As [`WalFile::sync`](super::WalFile::sync): it must not be retried.
    pub fn sync(&self, from: u64, to: u64) -> Result<()> {
        self.map
            .sync(from, to)
            .map_err(|error| Error::io_unknown("cannot sync WAL", &self.path, error))
    }

    /// Takes a range out of this process's memory.
    pub fn release(&self, from: u64, to: u64) {
        self.map.release(from, to);
    }
}
