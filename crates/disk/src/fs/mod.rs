//! Files and directories, as far as a store needs them.
//!
//! `posix` is the operating system's; `pool` keeps few descriptors for many files; `patience` waits
//! for descriptors that others hold. The file systems of tests have a crate of their own
//! (`crates/testfs`).
//!
//! What a crash keeps: a file's bytes up to its last [`File::sync`] (later ones in any subset, torn
//! at 512 bytes), and a directory's entries up to its last [`Fs::sync_dir`] (later creations,
//! renames and removals in any subset).

pub mod patience;
pub mod pool;
#[cfg(unix)]
pub mod posix;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::LockHolder;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Make the file; it must not exist.
    pub create_new: bool,
    /// Allow writing.
    pub write: bool,
    /// Bypass the page cache. Offsets, lengths and buffers must then be multiples of 4096. A
    /// platform or file system that cannot do it opens the file without ([`File::is_direct`]).
    pub direct: bool,
}

impl OpenOptions {
    /// An existing file, to read.
    pub const READ: Self = Self { create_new: false, write: false, direct: false };
    /// An existing file, to read and write.
    pub const WRITE: Self = Self { create_new: false, write: true, direct: false };
    /// A new file, to read and write.
    pub const CREATE: Self = Self { create_new: true, write: true, direct: false };

    /// The same with the page cache bypassed.
    #[must_use]
    pub fn direct(self, direct: bool) -> Self {
        Self { direct, ..self }
    }
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads into `buf` from `offset`. Shorter than `buf` only at the end of the file.
    ///
    /// # Errors
    /// What the system says. So do all operations here.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `buf` at `offset`, growing the file where needed. After an error any part may
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

    /// Whether reads and writes bypass the page cache: it was asked for, and can be done here.
    fn is_direct(&self) -> bool {
        false
    }
}

/// A lock on a file, held until dropped.
pub trait Lock: Send + Sync {}

/// A file system.
pub trait Fs: Send + Sync {
    /// The path that means for good what `path` means now: on the operating system a relative path
    /// goes on from the working directory, which may change. What the path names need not exist.
    ///
    /// # Errors
    /// What the system says. So do all operations here.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf>;

    /// The one path of a file or folder: absolute, without symbolic links and `..`. Of what does
    /// not exist yet, the path that it would have.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Opens a file.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>>;

    /// Makes a directory (mode 0700) and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a second name for a file.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a directory's entries durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Whether there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// How many files may be open at once; none for any number. It is for the whole process, and
    /// raised as far as that can be done.
    fn files_max(&self) -> Option<usize> {
        None
    }

    /// Bytes that new files in this directory may still take.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Locks a file exclusively, making it if needed. None when somebody else holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;

    /// Who holds the lock on this file, as far as that is certain.
    fn lock_holder(&self, path: &Path) -> LockHolder;

    /// Locks an existing file together with others who only read, and changes nothing. None when
    /// somebody holds it exclusively.
    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;
}

/// Reads a whole file.
///
/// # Errors
/// What the system says.
pub fn read_all(fs: &dyn Fs, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open(path, OpenOptions::READ)?;
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut content = vec![0; len];
    let read = file.read_at(&mut content, 0)?;
    content.truncate(read);
    Ok(content)
}
