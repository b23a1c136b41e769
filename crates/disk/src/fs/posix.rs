//! The operating system's file system.
//!
//! Files are private to their owner (0600, directories 0700) and are not inherited by child
//! processes. Interrupted calls are repeated, and short ones continued. A failed sync is reported
//! once and never repeated here, because the system may have dropped the very pages that were to be
//! written.
//!
//! Holders of locks: this process keeps a list of its own locks (by device and inode, so it knows
//! them under every name). Linux lists the locks of all processes in `/proc/locks`, with the
//! process that took each. The lock file itself stays empty, so it can hold no outdated process id.
//!
//! The platform-dependent parts are at the end of this file: how a file is synced, and whether an
//! open can bypass the page cache.

use crate::fs::patience::patiently;
#[cfg(target_os = "linux")]
use crate::fs::{Changed, Map, Watch};
use crate::fs::{File, Fs, Lock, OpenOptions};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vlsm_core::LockHolder;

#[cfg(target_os = "linux")]
mod map;
#[cfg(target_os = "linux")]
mod watch;

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct PosixFs;

struct PosixFile {
    fd: OwnedFd,
    direct: AtomicBool,
}

impl PosixFile {
    fn new(fd: OwnedFd, direct: bool) -> Arc<Self> {
        Arc::new(Self { fd, direct: AtomicBool::new(direct) })
    }

    /// Repeats a refused direct call through the page cache: a device with blocks of more than 4096
    /// bytes accepts the open and refuses the calls.
    fn or_buffered<T>(
        &self,
        mut call: impl FnMut() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        // Read before the call, because another thread may end direct I/O meanwhile.
        let was_direct = self.is_direct();
        match retry_on_intr(&mut call) {
            Err(Errno::INVAL) if was_direct => {
                platform::end_direct(&self.fd)?;
                self.direct.store(false, Ordering::Relaxed);
                retry_on_intr(&mut call)
            }
            done => done,
        }
    }
}

/// The identity of a file under all its names: device and inode.
type FileId = (u64, u64);

/// The locks that this process holds. A shared lock may be held several times.
static HELD: Mutex<Vec<FileId>> = Mutex::new(Vec::new());

/// Holds the lock until it is dropped.
struct PosixLock {
    fd: Option<OwnedFd>,
    id: FileId,
}

impl Lock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closing it is not enough: a process that another thread is forking has the descriptor,
        // too, and would hold the lock until it executes its program.
        if let Some(fd) = self.fd.take() {
            let _ = retry_on_intr(|| rustix::fs::flock(&fd, FlockOperation::Unlock));
        }
        if let Some(at) = held.iter().position(|id| *id == self.id) {
            held.swap_remove(at);
        }
    }
}

impl File for PosixFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset_after(offset, done)?;
            match self.or_buffered(|| rustix::io::pread(&self.fd, &mut buf[done..], at))? {
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
            match self.or_buffered(|| rustix::io::pwrite(&self.fd, &buf[done..], at))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => done += n,
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(platform::sync_data(&self.fd)?)
    }

    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.fd)?;
        u64::try_from(stat.st_size).map_err(io::Error::other)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::ftruncate(&self.fd, len))?)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, len: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::empty();
        match retry_on_intr(|| rustix::fs::fallocate(&self.fd, flags, 0, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            done => Ok(done?),
        }
    }

    fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    #[cfg(target_os = "linux")]
    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        Ok(Arc::new(map::PosixMap::new(&self.fd, len)?))
    }
}

fn offset_after(offset: u64, done: usize) -> io::Result<u64> {
    offset.checked_add(done as u64).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Opens a file. Repeats the call while the process or the system has no descriptor or memory left.
fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    #[allow(clippy::disallowed_methods, reason = "nothing tells when there is one")]
    let opened = patiently(std::thread::sleep, || {
        Ok(retry_on_intr(|| rustix::fs::open(path, flags | OFlags::CLOEXEC, mode))?)
    });
    opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

impl Fs for PosixFs {
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let mut found = PathBuf::new();
        for part in std::path::absolute(path)?.components() {
            found.push(part);
            match found.canonicalize() {
                Ok(canonical) => found = canonical,
                // The path does not exist yet, so no part of it is a link.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if part == Component::ParentDir {
                        found.pop();
                        found.pop();
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    #[cfg(target_os = "linux")]
    fn watch(&self, path: &Path, changed: Changed) -> Option<Watch> {
        watch::watch(path, changed)
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        holder(path).unwrap_or(LockHolder::Unknown)
    }

    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let mut flags = if options.write { OFlags::RDWR } else { OFlags::RDONLY };
        if options.create_new {
            flags |= OFlags::CREATE | OFlags::EXCL;
        }
        if let Some(direct) = platform::DIRECT.filter(|_| options.direct) {
            match open(path, flags | direct) {
                Ok(fd) => return Ok(PosixFile::new(fd, true)),
                // The file system has no direct I/O (tmpfs, for instance). The refused call may
                // have created the file.
                Err(Errno::INVAL) => flags -= OFlags::EXCL,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(PosixFile::new(open(path, flags)?, false))
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
        // Links the target of a symbolic link, not the link itself.
        let (cwd, follow) = (rustix::fs::CWD, rustix::fs::AtFlags::SYMLINK_FOLLOW);
        Ok(rustix::fs::linkat(cwd, from, cwd, to, follow)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(platform::sync(&fd)?)
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

    fn files_max(&self) -> Option<usize> {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // If the system refuses to raise the limit, the current one applies.
        let now = setrlimit(Resource::Nofile, raised).map_or(limit.current, |()| limit.maximum);
        now.map(|max| usize::try_from(max).unwrap_or(usize::MAX))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        loop {
            let fd = open(path, OFlags::RDWR | OFlags::CREATE)?;
            let lock = flock(fd, FlockOperation::NonBlockingLockExclusive)?;
            let Some(lock) = lock else { return Ok(None) };
            // The previous holder may have removed the file; then the lock is on no path.
            match rustix::fs::stat(path) {
                Ok(stat) if id_of(&stat) == lock.id => return Ok(Some(Box::new(lock))),
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let lock = flock(open(path, OFlags::RDONLY)?, FlockOperation::NonBlockingLockShared)?;
        Ok(lock.map(|lock| Box::new(lock) as Box<dyn Lock>))
    }
}

fn flock(fd: OwnedFd, operation: FlockOperation) -> io::Result<Option<PosixLock>> {
    match retry_on_intr(|| rustix::fs::flock(&fd, operation)) {
        Ok(()) => {
            let id = id_of(&rustix::fs::fstat(&fd)?);
            HELD.lock().push(id);
            Ok(Some(PosixLock { fd: Some(fd), id }))
        }
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[allow(clippy::unnecessary_cast, reason = "a device has 32 bits on macOS")]
fn id_of(stat: &rustix::fs::Stat) -> FileId {
    (stat.st_dev as u64, stat.st_ino)
}

/// The holder of the lock on a file; none if it is not known for certain.
fn holder(path: &Path) -> Option<LockHolder> {
    let id = id_of(&rustix::fs::stat(path).ok()?);
    if HELD.lock().contains(&id) {
        return Some(LockHolder::ThisProcess);
    }
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let holds = |process: &u32| holds_open(*process, id);
    let process = locks.lines().filter_map(|line| flock_of(line, id.1)).find(holds)?;
    // If it is this process, another thread has taken the lock and not listed it yet.
    let own = process == std::process::id();
    Some(if own { LockHolder::ThisProcess } else { LockHolder::Process(process) })
}

/// The process in a line of `/proc/locks`, if the line is an `flock` on a file with this inode:
/// `1: FLOCK  ADVISORY  WRITE 4711 fe:01:131085 0 EOF`. The line of a waiter has an arrow after its
/// number.
fn flock_of(line: &str, inode: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let (kind, process) = (words.next()?, words.nth(2)?);
    let file = words.next()?.rsplit(':').next()?;
    let ours = kind == "FLOCK" && file.parse() == Ok(inode);
    process.parse().ok().filter(|process| ours && *process > 0)
}

/// Whether a process has this very file open. On some file systems the device numbers in
/// `/proc/locks` differ from those of `stat`. And the process that took the lock may have ended,
/// while a child still holds it.
fn holds_open(process: u32, id: FileId) -> bool {
    let folder = PathBuf::from(format!("/proc/{process}/fd"));
    let files = PosixFs.read_dir(&folder).unwrap_or_default();
    let is_it = |name: &PathBuf| rustix::fs::stat(folder.join(name)).map(|stat| id_of(&stat) == id);
    files.iter().any(|name| is_it(name).unwrap_or(false))
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

/// Linux: `fdatasync` and `fsync` reach the device's medium.
#[cfg(target_os = "linux")]
mod platform {
    use rustix::fd::OwnedFd;
    use rustix::fs::OFlags;
    use rustix::io::Result;

    pub(super) use rustix::fs::{fdatasync as sync_data, fsync as sync};

    /// The flag to bypass the page cache.
    pub(super) const DIRECT: Option<OFlags> = Some(OFlags::DIRECT);

    /// Ends direct I/O: later calls of the file use the page cache.
    pub(super) fn end_direct(fd: &OwnedFd) -> Result<()> {
        let flags = rustix::fs::fcntl_getfl(fd)?;
        rustix::fs::fcntl_setfl(fd, flags - OFlags::DIRECT)
    }
}

/// macOS: `fsync` ends at the device, whose cache may lose the bytes in a power cut. `F_FULLFSYNC`
/// empties that cache, too, as Rust's `File::sync_data` and `sync_all` do there. A volume without
/// that request, for example of a server, is synced as far as possible. This repeats no failed
/// sync, because such a refusal comes before any write.
#[cfg(target_os = "macos")]
mod platform {
    use rustix::fd::OwnedFd;
    use rustix::fs::OFlags;
    use rustix::io::{Errno, Result};

    /// There is no such flag. `F_NOCACHE` is no substitute: it reads what is cached.
    pub(super) const DIRECT: Option<OFlags> = None;

    /// Never called, because no file is opened with direct I/O.
    pub(super) fn end_direct(_: &OwnedFd) -> Result<()> {
        Ok(())
    }

    pub(super) fn sync(fd: &OwnedFd) -> Result<()> {
        match rustix::fs::fcntl_fullfsync(fd) {
            Err(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY) => {
                rustix::fs::fsync(fd)
            }
            done => done,
        }
    }

    pub(super) fn sync_data(fd: &OwnedFd) -> Result<()> {
        sync(fd)
    }
}

#[cfg(test)]
mod tests;
