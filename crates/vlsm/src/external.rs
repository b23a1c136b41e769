//! SSTs that are written outside a store, for [`Keyspace::ingest`](crate::Keyspace::ingest).
//!
//! 1. Keys arrive in strictly ascending order and are cut into blocks; full blocks are written to a
//!    temporary file beside the final one.
//! 2. At the end the file is made durable and renamed, and its directory entry is made durable. So
//!    a file of this name is either complete or absent.
//!
//! All entries have sequence number zero; the ingest assigns the real one.

use crate::options::Options;
use crate::paths::absolute;
use bytes::Bytes;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{ByteCount, Error, FileUid, Kind, Result, Seq, Trailer, key};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::{File, OpenOptions};
use vlsm_disk::sst::{Finished, SstWriter};

/// The level whose compression is used: deep enough for the last entry of the option.
const LEVEL: u8 = u8::MAX;

/// Writes one file of sorted pairs, which [`Keyspace::ingest`](crate::Keyspace::ingest) adds to a
/// store. Dropping an unfinished writer removes its file.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let (path, file) = (folder.path().join("store"), folder.path().join("sorted.sst"));
/// let mut writer = vlsm::SstFileWriter::create(&file)?;
/// writer.put("apple", "green")?;
/// writer.put("pear", "yellow")?;
/// assert!(writer.put("banana", "out of order").is_err());
/// writer.finish()?;
///
/// let db = vlsm::Db::open(&path)?;
/// db.put("apple", "red")?;
/// db.default_keyspace().ingest([&file])?;
/// assert_eq!(db.get("apple")?.as_deref(), Some(&b"green"[..]));
/// # db.close()
/// # }
/// ```
pub struct SstFileWriter {
    env: Arc<dyn Env>,
    path: PathBuf,
    /// The temporary file; none after the rename.
    temporary: Option<PathBuf>,
    file: Arc<dyn File>,
    writer: SstWriter,
    last: Option<Vec<u8>>,
}

/// A finished file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The length of the file.
    pub bytes: ByteCount,
    /// The number of entries.
    pub entries: u64,
    /// The smallest key.
    pub smallest: Bytes,
    /// The largest key.
    pub largest: Bytes,
}

impl SstFileWriter {
    /// Creates a new file, with the default options of a store.
    ///
    /// # Errors
    /// [`Error::Io`], for example if the file already exists.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let env: Arc<dyn Env> = RealEnv::new();
        Self::create_in(&env, path.as_ref(), &Options::default())
    }

    /// As [`SstFileWriter::create`], in another environment, with the blocks, filter and last
    /// compression of a store's options.
    ///
    /// # Errors
    /// As [`SstFileWriter::create`]; [`Error::InvalidOption`].
    pub fn create_in(env: &Arc<dyn Env>, path: &Path, options: &Options) -> Result<Self> {
        options.check()?;
        let fs = env.fs();
        let path = &absolute(&**fs, path)?;
        let failed = |error| Error::io("cannot make SST", path, error);
        if fs.exists(path).map_err(failed)? {
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        // A killed process may have left this file.
        let _ = fs.remove(&temporary);
        let file = fs.open(&temporary, OpenOptions::CREATE).map_err(failed)?;
        let sst = options.sst(LEVEL, env.wall_clock());
        let writer = SstWriter::new(sst, FileUid(env.random()));
        let (path, temporary) = (path.to_owned(), Some(temporary));
        Ok(Self { env: env.clone(), path, temporary, file, writer, last: None })
    }

    /// Appends a pair. Its key must be greater than the previous key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key out of order, or for a key or value over the limits;
    /// nothing is appended then. Any error of writing the file.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Kind::Put, value.as_ref())
    }

    /// Appends a delete of a key. The key must be greater than the previous key.
    ///
    /// # Errors
    /// As [`SstFileWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Kind::Delete, &[])
    }

    fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        key::check_lengths(key.len(), value.len())?;
        if self.last.as_ref().is_some_and(|last| key <= &last[..]) {
            return Err(Error::InvalidArgument(format!(
                "the keys of {} must be in strictly ascending order: this key does not follow the \
                 previous one; sort them, and remove duplicates",
                self.path.display()
            )));
        }
        self.writer.add(key, Trailer::new(Seq::ZERO, kind), value);
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        while let Some((offset, chunk)) = self.writer.take_full() {
            self.write(offset, &chunk)?;
            self.writer.recycle(chunk);
        }
        Ok(())
    }

    /// The approximate length of the file if it were finished now.
    #[must_use]
    pub fn bytes(&self) -> ByteCount {
        ByteCount(self.writer.bytes())
    }

    /// Completes the file, makes it durable and renames it to its final name.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if nothing was appended; [`Error::Io`].
    pub fn finish(mut self) -> Result<SstFile> {
        if self.writer.is_empty() {
            let path = self.path.display();
            let why = format!("{path} would be empty: add at least one entry");
            return Err(Error::InvalidArgument(why));
        }
        let none = SstWriter::new(Options::default().sst(LEVEL, Default::default()), FileUid(0));
        let Finished { chunks, summary, .. } = std::mem::replace(&mut self.writer, none).finish();
        for (offset, chunk) in chunks {
            self.write(offset, &chunk)?;
        }
        let synced = self.file.sync();
        synced.map_err(|error| Error::io("cannot sync SST", &self.path, error))?;
        self.publish()?;
        Ok(SstFile {
            path: self.path.clone(),
            bytes: summary.bytes,
            entries: summary.properties.entries,
            smallest: summary.properties.smallest.into(),
            largest: summary.properties.largest.into(),
        })
    }

    fn publish(&mut self) -> Result<()> {
        let fs = self.env.fs();
        if let Some(temporary) = &self.temporary {
            let renamed = fs.rename(temporary, &self.path);
            renamed.map_err(|error| Error::io("cannot rename to", &self.path, error))?;
        }
        self.temporary = None;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let synced = fs.sync_dir(folder);
        synced.map_err(|error| Error::io_unknown("cannot sync folder", folder, error))
    }

    fn write(&self, offset: u64, chunk: &[u8]) -> Result<()> {
        let written = self.file.write_at(chunk, offset);
        written.map_err(|error| Error::io("cannot write SST", &self.path, error))
    }
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = self.env.fs().remove(temporary);
        }
    }
}

impl std::fmt::Debug for SstFileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstFileWriter").field("path", &self.path).finish_non_exhaustive()
    }
}
