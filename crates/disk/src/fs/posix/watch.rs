//! Calls back when any process has written a file, by Linux's inotify.
//!
//! One instance and one thread serve the whole process, because the system allows few instances.
//! The thread is there while anything is watched. It sleeps in the kernel until a watched folder
//! has an event, so nothing wakes it while nothing happens.
//!
//! A forked process has none of its parent's threads, shares the parent's instance, and its locks
//! stay as they were at the fork. So each process has a state of its own, found by its process id.
//!
//! Threads and locks: the lock is held for the calls that add and remove a folder, which do not
//! block, and never while a callback runs. The thread ends, with the instance, when it finds
//! nothing watched; the end of a folder's watch is an event, too.

use crate::fs::{Changed, Watch};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Room for some events: a name has at most 255 bytes.
const EVENTS_LEN: usize = 4096;

/// The process that watched first. The others are behind it, in the order of their forks.
static FIRST: OnceLock<Process> = OnceLock::new();

/// The state of one process.
struct Process {
    number: u32,
    watches: Mutex<Watches>,
    /// The state of a process that this one forked and that watches, too.
    forked: OnceLock<Box<Process>>,
}

impl Process {
    fn new(number: u32) -> Self {
        Self { number, watches: Mutex::default(), forked: OnceLock::new() }
    }

    /// The state of the process with this number, which is this process.
    fn of(number: u32) -> &'static Self {
        let mut process = FIRST.get_or_init(|| Self::new(number));
        while process.number != number {
            process = process.forked.get_or_init(|| Box::new(Self::new(number)));
        }
        process
    }
}

#[derive(Default)]
struct Watches {
    /// None while nothing is watched.
    inotify: Option<Arc<OwnedFd>>,
    /// The watched files of each folder, by inotify's number for the folder.
    folders: BTreeMap<i32, Vec<Watched>>,
    next_id: u64,
}

struct Watched {
    id: u64,
    name: OsString,
    changed: Changed,
}

/// Ends the watch when it is dropped.
struct Guard {
    process: &'static Process,
    folder: i32,
    id: u64,
}

/// Watches a file. None if the system refuses: it has limits for watches and instances.
pub fn watch(path: &Path, changed: Changed) -> Option<Watch> {
    let (parent, name) = (path.parent()?, path.file_name()?.to_owned());
    let process = Process::of(std::process::id());
    let mut watches = process.watches.lock();
    let inotify = match &watches.inotify {
        Some(inotify) => inotify.clone(),
        None => watches.begin(process)?,
    };
    let events = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    // If this fails nothing was added, and a thread that has nothing to do waits for the next one.
    let folder = inotify::add_watch(&*inotify, parent, events).ok()?;
    let id = watches.next_id;
    watches.next_id += 1;
    watches.folders.entry(folder).or_default().push(Watched { id, name, changed });
    Some(Box::new(Guard { process, folder, id }))
}

impl Watches {
    /// Begins to watch, with a thread.
    fn begin(&mut self, process: &'static Process) -> Option<Arc<OwnedFd>> {
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC).ok()?);
        let own = inotify.clone();
        let thread = std::thread::Builder::new().name("vlsm-watch".into());
        thread.spawn(move || serve(process, &own)).ok()?;
        self.inotify = Some(inotify.clone());
        Some(inotify)
    }

    /// The callbacks for an event; those of all files if events were lost.
    fn of(&self, folder: i32, name: Option<&OsStr>) -> Vec<Changed> {
        let all = self.folders.iter().filter(|(number, _)| folder < 0 || **number == folder);
        let files = all.flat_map(|(_, files)| files);
        let files = files.filter(|file| folder < 0 || Some(&*file.name) == name);
        files.map(|file| file.changed.clone()).collect()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Only the parent ends its watches.
        if self.process.number != std::process::id() {
            return;
        }
        let mut watches = self.process.watches.lock();
        let Watches { inotify, folders, .. } = &mut *watches;
        let Some(files) = folders.get_mut(&self.folder) else { return };
        files.retain(|file| file.id != self.id);
        if files.is_empty() {
            folders.remove(&self.folder);
            // It fails if the folder is gone, whose watch then ended by itself.
            let _ = inotify.as_ref().map(|fd| inotify::remove_watch(&**fd, self.folder));
        }
    }
}

/// Calls back until nothing is watched.
fn serve(process: &Process, inotify: &OwnedFd) {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_LEN];
    let mut events = Reader::new(inotify, &mut buffer);
    loop {
        let called = match events.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                process.watches.lock().of(event.wd(), name)
            }
            Err(Errno::INTR) => continue,
            // No such error is known. It would end all watches.
            Err(_) => {
                process.watches.lock().folders.clear();
                Vec::new()
            }
        };
        called.iter().for_each(|changed| changed());
        drop(called);
        let mut watches = process.watches.lock();
        if watches.folders.is_empty() {
            watches.inotify = None;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_does_not_wait_for_its_parents_lock() {
        let parent = Process::of(1);
        let _held = parent.watches.lock();
        let child = Process::of(2);
        assert!(child.watches.try_lock().is_some() && child.number == 2);
        assert!(std::ptr::eq(child, Process::of(2)));
    }
}
