//! The operations on files and directories that a store needs.
//!
//! `posix` is the operating system's file system. `pool` shares few descriptors among many files.
//! `patience` waits while all descriptors are in use. The file systems for tests have a crate of
//! their own (`crates/testfs`).
//!
//! A crash keeps a file's bytes up to its last [`File::sync`] and any subset of the later ones,
//! torn at 512 bytes. It keeps a directory's entries up to its last [`Fs::sync_dir`] and any subset
//! of the later creations, renames and removals.

pub mod patience;
pub mod pool;
#[cfg(unix)]
pub mod posix;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::LockHolder;

/// The way in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Create the file; it must not exist.
    pub create_new: bool,
    /// Allow writing.
    pub write: bool,
    /// Bypass the page cache. Offsets, lengths and buffers must then be multiples of 4096. On a
    /// platform or file system without this, the file is opened with the page cache
    /// ([`File::is_direct`]).
    pub direct: bool,
}

impl OpenOptions {
    /// An existing file, for reading.
    pub const READ: Self = Self { create_new: false, write: false, direct: false };
    /// An existing file, for reading and writing.
    pub const WRITE: Self = Self { create_new: false, write: true, direct: false };
    /// A new file, for reading and writing.
    pub const CREATE: Self = Self { create_new: true, write: true, direct: false };

    /// The same options, with the page cache bypassed.
    #[must_use]
    pub fn direct(self, direct: bool) -> Self {
        Self { direct, ..self }
    }
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads into `buf` from `offset`. Returns less than its length only at the end of the file.
    ///
    /// # Errors
    /// The system's error. The other operations fail likewise.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `buf` at `offset`, and extends the file if needed. After an error any part may
    /// have been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Makes content and length durable.
    fn sync(&self) -> io::Result<()>;

    /// The file's length.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends (with zeros) to `len`.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Extends the file to `len` with zeros that take their space on the device and are not written
    /// to it. Less is written than with zeros, but a sync of what is written later is slower.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the platform or the file system cannot do this, as by
    /// default; else the system's error.
    fn allocate(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether reads and writes bypass the page cache: the options ask for it, and it is possible.
    fn is_direct(&self) -> bool {
        false
    }

    /// Maps the first `len` bytes, which the file must have, for writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the platform or the file system cannot do this, as by
    /// default; else the system's error.
    fn map(&self, _len: u64) -> io::Result<Arc<dyn Map>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The beginning of a file in this process's memory. All other operations of the file see at once
/// what is stored there, and it survives the end of the process. It reaches the device at any time
/// until the next sync of the file or of that range, in any order and in parts.
pub trait Map: Send + Sync {
    /// Copies `bytes` to an offset of the file, without a call of the system.
    ///
    /// # Errors
    /// The bytes lie outside of the map, the file was cut, or the device failed. Then any part may
    /// have been stored, and the map must not be used any more. The other operations fail likewise.
    fn store(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Brings a range into memory, ready to be written. A store there is quick until the system
    /// writes the range to the device. An error has no effect.
    fn populate(&self, from: u64, to: u64) -> io::Result<()>;

    /// Makes the bytes of a range durable, however they were written. The file's length must be
    /// durable already.
    fn sync(&self, from: u64, to: u64) -> io::Result<()>;

    /// Takes a range out of this process's memory; the file keeps it.
    fn release(&self, from: u64, to: u64);
}

/// A lock on a file, held until dropped.
pub trait Lock: Send + Sync {}

/// A file system.
pub trait Fs: Send + Sync {
    /// The absolute form of `path`. It stays valid when the working directory changes later. The
    /// file need not exist.
    ///
    /// # Errors
    /// The system's error. The other operations fail likewise.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf>;

    /// The unique path of a file or folder: absolute, without symbolic links and `..`. For a file
    /// that does not exist yet, the path that it would have.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Opens a file.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>>;

    /// Creates a directory (mode 0700) and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a second name for a file.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a directory's entries durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Whether there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// The number of files that the whole process may have open at once; none for no limit. The
    /// call raises the limit as far as possible.
    fn files_max(&self) -> Option<usize> {
        None
    }

    /// The number of bytes that new files in this directory may still take.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Locks a file exclusively, and creates it if needed. None if another handle holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;

    /// The process that holds the lock on this file, as far as that is certain.
    fn lock_holder(&self, path: &Path) -> LockHolder;

    /// Locks an existing file shared with other readers, and changes nothing. None if another
    /// handle holds it exclusively.
    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;

    /// Calls `changed` whenever a process has written and closed this file, or has renamed another
    /// one to it. The watch ends when the result is dropped. None if the system does not tell of
    /// changes, or refuses a further watch: then the caller has to check for changes itself.
    fn watch(&self, _path: &Path, _changed: Changed) -> Option<Watch> {
        None
    }
}

/// A function that a watch calls, on a thread of its own. It must return soon.
pub type Changed = Arc<dyn Fn() + Send + Sync>;

/// A watch on a file. It ends when it is dropped.
pub type Watch = Box<dyn Send + Sync>;

/// Reads a whole file.
///
/// # Errors
/// The system's error.
pub fn read_all(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path, OpenOptions::READ)?;
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut content = vec![0; len];
    let read = file.read_at(&mut content, 0)?;
    content.truncate(read);
    Ok(content)
}
