//! SSTs that no tree shows any more.
//!
//! A file is removed in three steps: an edit removes its last table from the current version (the
//! file becomes a *zombie*); the last reader that uses it drops its view (only the list of zombies
//! holds its metadata); a background thread removes the file. No drop on a latency path does a file
//! operation.
//!
//! A file that the system does not remove is tried again with the next dead ones. Of many such
//! files one is tried, in turns, and the others only when that one goes: if nothing can be removed,
//! the calls grow with the number of dead files and not with its square.

use crate::shared::Shared;
use crate::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Error, FileMeta, FileNumber, Result};
use vlsm_disk::sst::sst_path;

/// Files that are to be removed.
#[derive(Default)]
pub(crate) struct DeadFiles {
    zombies: Mutex<BTreeMap<FileNumber, Arc<FileMeta>>>,
    /// Dead files that the system did not remove when asked.
    stuck: Mutex<VecDeque<Arc<FileMeta>>>,
}

impl DeadFiles {
    /// Notes files that left the current version.
    pub fn bury(&self, files: impl IntoIterator<Item = Arc<FileMeta>>) {
        let mut zombies = self.zombies.lock();
        // A file that is consumed slice by slice is named several times.
        for file in files {
            zombies.entry(file.number).or_insert(file);
        }
    }

    /// Whether there is a zombie that nobody sees any more.
    pub fn any_dead(&self) -> bool {
        self.zombies.lock().values().any(|file| Arc::strong_count(file) == 1)
    }

    /// Number of zombies and their bytes, with those that cannot be removed.
    pub fn zombies(&self) -> (usize, u64) {
        let (zombies, stuck) = (self.zombies.lock(), self.stuck.lock());
        let bytes = zombies.values().chain(stuck.iter()).map(|file| file.bytes.0).sum();
        (zombies.len() + stuck.len(), bytes)
    }

    /// Number and bytes of the zombies that somebody still uses.
    pub fn pinned(&self) -> (u64, u64) {
        let zombies = self.zombies.lock();
        let used = zombies.values().filter(|file| Arc::strong_count(file) > 1);
        used.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes.0))
    }

    /// Number of dead files that the system did not remove when asked.
    pub fn stuck(&self) -> usize {
        self.stuck.lock().len()
    }

    /// Removes the files that nobody sees any more, and tries those again that could not be removed
    /// before. Does file calls: on a background thread only.
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

    /// Tries files that could not be removed, until one still cannot be.
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

/// Removes a file, unless it is gone already.
fn remove(shared: &Shared, file: &FileMeta) -> Result<()> {
    let path = sst_path(&shared.dir, file.number);
    match shared.env.fs().remove(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("cannot remove", &path, error))
        }
        _ => Ok(()),
    }
}
