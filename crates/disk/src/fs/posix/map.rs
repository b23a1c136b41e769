//! The beginning of a file in memory, on Linux: a shared `mmap` of the file.
//!
//! 1. A store is a copy. The page cache has the bytes then, so they survive the process, and every
//!    sync of the file includes them.
//! 2. The kernel protects a page when it writes it to the device. The next store there faults, and
//!    may wait for the file system's journal. `populate` takes these faults beforehand
//!    (`MADV_POPULATE_WRITE`, Linux 5.14; an older kernel refuses it), and reports as errors what
//!    would be a signal in a store.
//! 3. `sync` is `msync`, which the kernel does as an `fdatasync` of the range. It leaves the pages
//!    outside the range as they are, above all those that `populate` has prepared.
//!
//! Faults that cannot be served: something else has cut the file, or the device failed. The kernel
//! then sends SIGBUS to the thread that stores. A handler of this process looks the address up in
//! the list of maps. If it is in one, the handler puts memory without a file in the place of the
//! whole map and marks the map as lost; so the copy ends, and the store returns an error. Any other
//! SIGBUS goes to the handler that was there before, or has its usual effect. The handler is
//! installed with the first map. A program that installs its own handler later, and does not call
//! the earlier one, dies of the signal as it would without this one.
//!
//! Ranges are rounded to [`GRAIN`], a multiple of every page size, because asking for the page size
//! would cost more than it saves.
//!
//! Threads and locks: any thread; stores take turns. The list has no lock, because the handler
//! reads it: an entry is filled address first, length last, and emptied in the opposite order.

#![allow(unsafe_code)]

use crate::fs::Map;
use libc::{c_int, c_void};
use parking_lot::Mutex;
use rustix::fd::{AsRawFd, OwnedFd};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

/// A multiple of the page size of every machine that Linux runs on.
const GRAIN: usize = 64 * 1024;
/// The most maps of a process at once.
const MAPS_MAX: usize = 1024;

/// An entry of the list; free while the address is zero.
struct Slot {
    address: AtomicUsize,
    len: AtomicUsize,
    /// Whether the map has lost its file.
    lost: AtomicBool,
}

static MAPS: [Slot; MAPS_MAX] = [const {
    Slot { address: AtomicUsize::new(0), len: AtomicUsize::new(0), lost: AtomicBool::new(false) }
}; MAPS_MAX];

/// The handler of SIGBUS that was there before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The beginning of a file in memory.
pub(super) struct PosixMap {
    base: *mut u8,
    len: usize,
    slot: &'static Slot,
    storing: Mutex<()>,
}

// SAFETY: the memory belongs to the map alone. It is written by copies that `storing` orders, and
// never read. The system calls on it may be made by several threads at once.
unsafe impl Send for PosixMap {}
// SAFETY: as above.
unsafe impl Sync for PosixMap {}

impl PosixMap {
    pub(super) fn new(fd: &OwnedFd, len: u64) -> io::Result<Self> {
        let there = u64::try_from(rustix::fs::fstat(fd)?.st_size).map_err(io::Error::other)?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        if len == 0 || there < len as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        handle_faults()?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match enter(base as usize, len) {
            Some(slot) => Ok(Self { base: base.cast(), len, slot, storing: Mutex::new(()) }),
            None => {
                // SAFETY: nothing refers to the mapping yet.
                unsafe { libc::munmap(base, len) };
                Err(io::Error::from_raw_os_error(libc::ENOMEM))
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.slot.lost.load(Ordering::Acquire) {
            true => {
                Err(io::Error::other("the file was cut by something else, or its device failed"))
            }
            false => Ok(()),
        }
    }

    /// A range with its bounds rounded outward.
    fn outward(&self, from: u64, to: u64) -> io::Result<(usize, usize)> {
        let within = from <= to && to <= self.len as u64;
        if !within {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let from = from as usize / GRAIN * GRAIN;
        Ok((from, (to as usize).next_multiple_of(GRAIN).min(self.len)))
    }

    /// `madvise` of a range whose begin is rounded.
    fn advise(&self, from: usize, to: usize, advice: c_int) -> io::Result<()> {
        if from >= to {
            return Ok(());
        }
        loop {
            // SAFETY: the range lies in the mapping, and no advice given here changes its content.
            let done = unsafe { libc::madvise(self.base.add(from).cast(), to - from, advice) };
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                _ if done == 0 => return Ok(()),
                Some(libc::EINTR | libc::EAGAIN) => {}
                // Of populate: a store would get the signal.
                Some(libc::EFAULT) => return Err(io::Error::from_raw_os_error(libc::EIO)),
                _ => return Err(error),
            }
        }
    }
}

impl Map for PosixMap {
    fn store(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= self.len as u64);
        if end.is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let storing = self.storing.lock();
        self.check()?;
        // SAFETY: the target lies in the mapping, which no reference points into, and no other
        // thread writes it meanwhile. If a page is missing there, `on_fault` provides one.
        unsafe {
            let target = self.base.add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        // The handler ran on this thread.
        compiler_fence(Ordering::SeqCst);
        drop(storing);
        self.check()
    }

    fn populate(&self, from: u64, to: u64) -> io::Result<()> {
        let (from, to) = self.outward(from, to)?;
        self.check()?;
        self.advise(from, to, libc::MADV_POPULATE_WRITE)
    }

    fn sync(&self, from: u64, to: u64) -> io::Result<()> {
        let (from, to) = self.outward(from, to)?;
        self.check()?;
        if from >= to {
            return Ok(());
        }
        // SAFETY: the range lies in the mapping; its content stays.
        let done = unsafe { libc::msync(self.base.add(from).cast(), to - from, libc::MS_SYNC) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        // Memory without a file "syncs", too.
        self.check()
    }

    fn release(&self, from: u64, to: u64) {
        let from = from as usize / GRAIN * GRAIN;
        let to = (to as usize).min(self.len) / GRAIN * GRAIN;
        if self.check().is_ok() {
            // Of a shared mapping of a file: the page cache keeps the pages. Refused, they stay.
            let _ = self.advise(from, to, libc::MADV_DONTNEED);
        }
    }
}

impl Drop for PosixMap {
    fn drop(&mut self) {
        self.slot.len.store(0, Ordering::Release);
        // SAFETY: no thread stores any more, and no pointer into the mapping remains.
        unsafe { libc::munmap(self.base.cast(), self.len) };
        self.slot.address.store(0, Ordering::Release);
    }
}

/// Enters a map into the list; none if that is full.
fn enter(address: usize, len: usize) -> Option<&'static Slot> {
    let free = |slot: &&Slot| {
        let taken = Ordering::AcqRel;
        slot.address.compare_exchange(0, address, taken, Ordering::Relaxed).is_ok()
    };
    let slot = MAPS.iter().find(free)?;
    slot.lost.store(false, Ordering::Release);
    slot.len.store(len, Ordering::Release);
    Some(slot)
}

/// Installs the handler, once.
fn handle_faults() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock();
    if *installed {
        return Ok(());
    }
    // SAFETY: both calls get valid pointers; a zeroed `sigaction` is a valid value. The handler
    // calls only what a handler may call.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Stored before the handler can run.
        let _ = BEFORE.set(before);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    *installed = true;
    Ok(())
}

/// The handler. It may interrupt any code, so it takes no lock and allocates nothing.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `info`.
    let (address, sent) = unsafe { ((*info).si_addr() as usize, (*info).si_code <= 0) };
    if sent || !replace(address) {
        pass_on(signal, info, context, sent);
    }
}

/// Puts memory without a file in the place of the map that the address is in. False if it is in
/// none.
fn replace(address: usize) -> bool {
    let hit = MAPS.iter().find_map(|slot| {
        let len = slot.len.load(Ordering::Acquire);
        let base = slot.address.load(Ordering::Acquire);
        (base != 0 && address.wrapping_sub(base) < len).then_some((slot, base, len))
    });
    let Some((slot, base, len)) = hit else { return false };
    slot.lost.store(true, Ordering::Release);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the range is that of a map of this module, which nothing else uses, and `mmap` is a
    // bare system call. The interrupted code must find its `errno` as it was.
    unsafe {
        let errno = *libc::__errno_location();
        let put = libc::mmap(base as *mut c_void, len, access, kind, -1, 0);
        *libc::__errno_location() = errno;
        put != libc::MAP_FAILED
    }
}

/// Does what would have happened without this handler.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, sent: bool) {
    let Some(before) = BEFORE.get() else { return };
    let handler = before.sa_sigaction;
    if handler == libc::SIG_IGN && sent {
        return;
    }
    // SAFETY: a handler that was installed has the type that its flags say. The default action is
    // restored as it was; at the return the faulting instruction is repeated and ends the process.
    unsafe {
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
            if sent {
                libc::raise(signal);
            }
        } else if before.sa_flags & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a child process that a signal ends")]
mod tests {
    use super::*;
    use crate::fs::posix::PosixFs;
    use crate::fs::{File, Fs, OpenOptions, read_all};
    use std::os::unix::process::ExitStatusExt;
    use std::sync::Arc;

    const LEN: u64 = 5 * GRAIN as u64 + 100;

    fn file(folder: &tempfile::TempDir) -> (std::path::PathBuf, Arc<dyn File>) {
        let path = folder.path().join("file");
        let file = PosixFs.open(&path, OpenOptions::CREATE).expect("made");
        file.write_at(&vec![0; LEN as usize], 0).expect("filled");
        file.sync().expect("synced");
        (path, file)
    }

    #[test]
    fn what_is_stored_is_in_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, file) = file(&folder);
        assert!(file.map(LEN + 1).is_err(), "beyond the end");
        assert!(file.map(0).is_err());
        let map = file.map(LEN).expect("mapped");
        map.populate(3, LEN).expect("populated");
        map.store(b"end", LEN - 3).expect("stored");
        map.store(b"begin", 1).expect("stored");
        assert!(map.store(b"end!", LEN - 3).is_err(), "beyond the end");
        assert!(map.store(b"", u64::MAX).is_err());
        assert!(map.populate(5, 4).is_err() && map.sync(0, LEN + 1).is_err());
        file.write_at(b"call", GRAIN as u64).expect("written");
        for _ in 0..2 {
            let all = read_all(&PosixFs, &path).expect("read");
            assert_eq!((&all[1..6], &all[LEN as usize - 3..]), (&b"begin"[..], &b"end"[..]));
            assert_eq!(&all[GRAIN..GRAIN + 4], b"call");
            map.release(0, LEN);
            map.sync(0, LEN).expect("synced");
        }
        map.store(b"again", 1).expect("stored after the release");
        drop(map);
        assert_eq!(&read_all(&PosixFs, &path).expect("read")[1..6], b"again");
    }

    #[test]
    fn a_file_that_is_cut_is_an_error_and_no_signal() {
        let folder = tempfile::tempdir().expect("a folder");
        for populated in [false, true] {
            let (path, file) = file(&folder);
            let (map, other) = (file.map(LEN).expect("mapped"), file.map(LEN).expect("mapped"));
            if populated {
                map.populate(0, LEN).expect("populated");
            }
            map.store(b"kept", 8).expect("stored");
            file.truncate(GRAIN as u64).expect("cut");
            assert!(map.populate(0, LEN).is_err(), "it says so beforehand");
            map.store(b"kept, too", 100).expect("not in the part that was cut");
            assert!(map.store(b"lost", LEN - 4).is_err());
            for again in [map.store(b"late", 8), map.sync(0, 8), map.populate(0, 8)] {
                assert!(again.is_err(), "the map is given up");
            }
            map.release(0, LEN);
            other.store(b"other", 200).expect("another map of the file is as it was");
            let all = read_all(&PosixFs, &path).expect("read");
            assert_eq!((&all[8..12], &all[100..109]), (&b"kept"[..], &b"kept, too"[..]));
            assert_eq!((&all[200..205], all.len()), (&b"other"[..], GRAIN));
            drop((map, file));
            PosixFs.remove(&path).expect("removed");
        }
    }

    /// A fault of something else, or a signal that was sent, ends the process as it always did.
    #[test]
    fn other_faults_keep_their_effect() {
        const CHILD: &str = "VLSM_MAP_TEST_CHILD";
        if let Ok(how) = std::env::var(CHILD) {
            let folder = tempfile::tempdir().expect("a folder");
            let (path, file) = file(&folder);
            let map = file.map(LEN).expect("mapped");
            map.store(b"x", 0).expect("stored");
            let foreign = PosixFs.open(&path, OpenOptions::WRITE).expect("opened");
            foreign.truncate(0).expect("cut");
            if how == "sent" {
                // SAFETY: no memory is concerned.
                unsafe { libc::raise(libc::SIGBUS) };
            }
            // A mapping that is not in the list.
            let slot = map_of_nobody(&path);
            // SAFETY: a mapped address, beyond the end of the file.
            unsafe { slot.write_volatile(1) };
            unreachable!("the signal has no effect");
        }
        let folder = tempfile::tempdir().expect("a folder");
        for how in ["sent", "fault"] {
            let child = std::process::Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "fs::posix::map::tests::other_faults_keep_their_effect"])
                .env(CHILD, how)
                .env("TMPDIR", folder.path()) // the child cannot remove what it leaves
                .output()
                .expect("ran");
            assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{how}: {child:?}");
        }
    }

    fn map_of_nobody(path: &std::path::Path) -> *mut u8 {
        use std::os::fd::AsRawFd;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opened");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        // SAFETY: a new mapping.
        unsafe { libc::mmap(null, GRAIN, access, libc::MAP_SHARED, fd, 0).cast() }
    }
}
