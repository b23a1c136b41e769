//! The operating system's files.
//!
//! Files are private to their owner (0600, directories 0700) and never inherited by a child
//! process. Interrupted calls are repeated and short ones continued. A failed sync is reported once
//! and never tried again here: after it the system may have dropped the very pages that were to be
//! written.

use crate::fs::{File, Fs, Lock, OpenOptions};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct PosixFs;

struct PosixFile(OwnedFd);

/// Holds the lock as long as it is open.
struct PosixLock(#[allow(dead_code)] OwnedFd);

impl Lock for PosixLock {}

impl File for PosixFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset_after(offset, done)?;
            match retry_on_intr(|| rustix::io::pread(&self.0, &mut buf[done..], at))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset_after(offset, done)?;
            match retry_on_intr(|| rustix::io::pwrite(&self.0, &buf[done..], at))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => done += n,
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.0)?)
    }

    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.0)?;
        u64::try_from(stat.st_size).map_err(io::Error::other)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::ftruncate(&self.0, len))?)
    }
}

fn offset_after(offset: u64, done: usize) -> io::Result<u64> {
    offset.checked_add(done as u64).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    retry_on_intr(|| rustix::fs::open(path, flags | OFlags::CLOEXEC, mode))
}

impl Fs for PosixFs {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let mut flags = if options.write { OFlags::RDWR } else { OFlags::RDONLY };
        if options.create_new {
            flags |= OFlags::CREATE | OFlags::EXCL;
        }
        if options.direct {
            match open(path, flags | OFlags::DIRECT) {
                Ok(fd) => return Ok(Arc::new(PosixFile(fd))),
                // Not possible here, for instance on tmpfs. The refused call may have made the
                // file.
                Err(Errno::INVAL) => flags -= OFlags::EXCL,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Arc::new(PosixFile(open(path, flags)?)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mode = Mode::RWXU;
        let made = match rustix::fs::mkdir(path, mode) {
            Err(Errno::NOENT) => {
                let parent = parent_of(path).ok_or(io::ErrorKind::NotFound)?;
                self.create_dir_all(parent)?;
                rustix::fs::mkdir(path, mode)
            }
            made => made,
        };
        match made {
            Ok(()) => self.sync_dir(parent_of(path).unwrap_or(Path::new("/"))),
            Err(Errno::EXIST) if is_dir(path)? => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(PathBuf::from(OsStr::from_bytes(name)));
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::rename(from, to)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlink(path)?)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        // Of what a symbolic link leads to, rather than of the link.
        let (cwd, follow) = (rustix::fs::CWD, rustix::fs::AtFlags::SYMLINK_FOLLOW);
        Ok(rustix::fs::linkat(cwd, from, cwd, to, follow)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(rustix::fs::fsync(&fd)?)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::stat(path) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = retry_on_intr(|| rustix::fs::statvfs(path))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let fd = open(path, OFlags::RDWR | OFlags::CREATE)?;
        flock(fd, FlockOperation::NonBlockingLockExclusive)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        flock(open(path, OFlags::RDONLY)?, FlockOperation::NonBlockingLockShared)
    }
}

fn flock(fd: OwnedFd, operation: FlockOperation) -> io::Result<Option<Box<dyn Lock>>> {
    match retry_on_intr(|| rustix::fs::flock(&fd, operation)) {
        Ok(()) => Ok(Some(Box::new(PosixLock(fd)))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The directory that holds the entry; `.` for a bare name, none for the root.
fn parent_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

fn is_dir(path: &Path) -> io::Result<bool> {
    let mode = rustix::fs::stat(path)?.st_mode;
    Ok(rustix::fs::FileType::from_raw_mode(mode).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::read_all;

    #[test]
    fn files_and_directories() {
        let dir = tempfile::tempdir().expect("a folder");
        let (fs, root) = (PosixFs, dir.path().join("a/b"));
        fs.create_dir_all(&root).expect("made");
        fs.create_dir_all(&root).expect("is there");
        let (one, two) = (root.join("one"), root.join("two"));
        let file = fs.open(&one, OpenOptions::CREATE).expect("new");
        assert!(fs.open(&one, OpenOptions::CREATE).is_err());
        file.write_at(b"hello", 3).expect("written");
        file.sync().expect("synced");
        assert_eq!(file.len().expect("len"), 8);
        let mut buf = [9; 16];
        assert_eq!(file.read_at(&mut buf, 1).expect("read"), 7);
        assert_eq!(&buf[..8], b"\0\0hello\x09");
        file.truncate(4).expect("cut");
        fs.hard_link(&one, &two).expect("linked");
        fs.rename(&one, &root.join("three")).expect("renamed");
        fs.sync_dir(&root).expect("synced");
        assert_eq!(read_all(&fs, &two).expect("read"), b"\0\0\0h");
        assert!(fs.free_bytes(&root).expect("asked") > 0);
        fs.remove(&two).expect("removed");
        assert!(!fs.exists(&two).expect("asked"));
        assert_eq!(fs.read_dir(&root).expect("listed"), [PathBuf::from("three")]);
        assert!(fs.create_dir_all(&root.join("three")).is_err(), "a file is in the way");
    }

    #[test]
    fn one_holder_of_the_lock() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("LOCK");
        let held = PosixFs.lock(&path).expect("asked").expect("free");
        assert!(PosixFs.lock(&path).expect("asked").is_none());
        assert!(PosixFs.lock_shared(&path).expect("asked").is_none());
        drop(held);
        assert!(PosixFs.lock(&path).expect("asked").is_some());
        let readers = [0, 1].map(|_| PosixFs.lock_shared(&path).expect("asked").expect("free"));
        assert!(PosixFs.lock(&path).expect("asked").is_none());
        drop(readers);
        assert!(PosixFs.lock(&path).expect("asked").is_some());
        let none = PosixFs.lock_shared(&dir.path().join("none")).map(drop);
        assert_eq!(none.expect_err("not there").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn direct_falls_back() {
        for root in [Path::new("/dev/shm"), Path::new("/tmp")] {
            let Ok(dir) = tempfile::tempdir_in(root) else { continue };
            let path = dir.path().join("f");
            PosixFs.open(&path, OpenOptions::CREATE.direct(true)).expect("opened");
            PosixFs.open(&path, OpenOptions::READ.direct(true)).expect("opened");
        }
    }
}
