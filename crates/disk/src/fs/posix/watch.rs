//! Calls back when any process has written a file, by Linux's inotify.
//!
//! One instance and one thread serve the whole process, because the system allows few instances.
//! The thread is there while anything is watched. It sleeps in the kernel until a watched folder
//! has an event, so nothing wakes it while nothing happens.
//!
//! A forked process has none of its parent's threads, and shares the parent's instance. So each
//! process has a state of its own.
//!
//! Threads and locks: the lock is held for the calls that add and remove a folder, which do not
//! block, and never while a callback runs. The thread ends, with the instance, when it finds
//! nothing watched; the end of a folder's watch is an event, too.

use crate::fs::{Changed, Watch};
use crate::per_process::PerProcess;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Room for some events: a name has at most 255 bytes.
const EVENTS_LEN: usize = 4096;

/// The watches of each process.
static WATCHES: PerProcess<Mutex<Watches>> = PerProcess::new();

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
    process: u32,
    folder: i32,
    id: u64,
}

/// Watches a file. None if the system refuses: it has limits for watches and instances.
pub fn watch(path: &Path, changed: Changed) -> Option<Watch> {
    let (parent, name) = (path.parent()?, path.file_name()?.to_owned());
    let process = std::process::id();
    let all = WATCHES.of(process);
    let mut watches = all.lock();
    let inotify = match &watches.inotify {
        Some(inotify) => inotify.clone(),
        None => watches.begin(all)?,
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
    fn begin(&mut self, all: &'static Mutex<Self>) -> Option<Arc<OwnedFd>> {
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC).ok()?);
        let own = inotify.clone();
        let thread = std::thread::Builder::new().name("vlsm-watch".into());
        thread.spawn(move || serve(all, &own)).ok()?;
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
        if self.process != std::process::id() {
            return;
        }
        let mut watches = WATCHES.of(self.process).lock();
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
fn serve(watches: &Mutex<Watches>, inotify: &OwnedFd) {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_LEN];
    let mut events = Reader::new(inotify, &mut buffer);
    loop {
        let called = match events.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                watches.lock().of(event.wd(), name)
            }
            Err(Errno::INTR) => continue,
            // No such error is known. It would end all watches.
            Err(_) => {
                watches.lock().folders.clear();
                Vec::new()
            }
        };
        called.iter().for_each(|changed| changed());
        drop(called);
        let mut watches = watches.lock();
        if watches.folders.is_empty() {
            watches.inotify = None;
            return;
        }
    }
}
