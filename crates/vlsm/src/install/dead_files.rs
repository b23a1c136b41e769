//! SSTs that are in no tree any more.
//!
//! A file is removed in three steps. An edit removes its last table from the current version; the
//! file becomes a *zombie*. The last reader that uses it drops its view; then only the list of
//! zombies holds its metadata. A background thread removes the file. So no drop on a latency path
//! does a file operation.
//!
//! A file that the system fails to remove is tried again with the next dead files. Of several such
//! files only one is tried, in turns, and the others only if its removal succeeds. So if no file
//! can be removed, the number of calls grows with the number of dead files and not with its square.

use crate::shared::Shared;
use crate::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Error, FileMeta, FileNumber, Result};
use vlsm_disk::sst::sst_paths;

/// Files that will be removed.
#[derive(Default)]
pub(crate) struct DeadFiles {
    zombies: Mutex<BTreeMap<FileNumber, Arc<FileMeta>>>,
    /// Dead files that the system failed to remove.
    stuck: Mutex<VecDeque<Arc<FileMeta>>>,
}

impl DeadFiles {
    /// Adds files that left the current version.
    pub fn bury(&self, files: impl IntoIterator<Item = Arc<FileMeta>>) {
        let mut zombies = self.zombies.lock();
        // A file that is consumed slice by slice occurs several times.
        for file in files {
            zombies.entry(file.number).or_insert(file);
        }
    }

    /// Whether there is a zombie that no reader uses any more.
    pub fn any_dead(&self) -> bool {
        self.zombies.lock().values().any(|file| Arc::strong_count(file) == 1)
    }

    /// The number of zombies and their bytes, including files that cannot be removed.
    pub fn zombies(&self) -> (usize, u64) {
        let (zombies, stuck) = (self.zombies.lock(), self.stuck.lock());
        let bytes = zombies.values().chain(stuck.iter()).map(|file| file.bytes.0).sum();
        (zombies.len() + stuck.len(), bytes)
    }

    /// The number and bytes of the zombies that readers still use.
    pub fn pinned(&self) -> (u64, u64) {
        let zombies = self.zombies.lock();
        let used = zombies.values().filter(|file| Arc::strong_count(file) > 1);
        used.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes.0))
    }

    /// The number of dead files that the system failed to remove.
    pub fn stuck(&self) -> usize {
        self.stuck.lock().len()
    }

    /// Removes the files that no reader uses any more, and retries files that could not be removed
    /// before. It makes file calls, so it runs only on a background thread.
    pub fn remove(&self, shared: &Shared) {
        self.retry(shared);
        let mut dead = Vec::new();
        self.zombies.lock().retain(|_, file| {
            let unseen = Arc::strong_count(file) == 1;
            if unseen {
                dead.push(file.clone());
            }
            !unseen
        });
        for file in dead {
            if let Err(error) = remove(shared, &file) {
                shared.events.emit(Event::NotRemoved { error });
                self.stuck.lock().push_back(file);
            }
        }
    }

    /// Retries files that could not be removed, until one fails again.
    fn retry(&self, shared: &Shared) {
        loop {
            let Some(file) = self.stuck.lock().pop_front() else { return };
            if remove(shared, &file).is_err() {
                self.stuck.lock().push_back(file);
                return;
            }
        }
    }
}

/// Removes a file and the names of WALs to which it refers, unless they are already gone.
fn remove(shared: &Shared, file: &FileMeta) -> Result<()> {
    for path in sst_paths(&shared.dir, file) {
        match shared.env.fs().remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("cannot remove", &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}
