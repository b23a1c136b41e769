//! SSTs that no tree shows any more.
//!
//! A file is removed in three steps: an edit removes its last table from the current version (the
//! file becomes a *zombie*); the last reader that uses it drops its view (only the list of zombies
//! holds its metadata); a background thread removes the file. No drop on a latency path does a file
//! operation.

use crate::shared::Shared;
use crate::sync::Mutex;
use std::io;
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Error, FileMeta};
use vlsm_disk::sst::sst_path;

/// Files that are to be removed.
#[derive(Default)]
pub(crate) struct DeadFiles {
    zombies: Mutex<Vec<Arc<FileMeta>>>,
    /// Dead files that the system did not remove when asked.
    stuck: Mutex<Vec<Arc<FileMeta>>>,
}

impl DeadFiles {
    /// Notes files that left the current version.
    pub fn bury(&self, files: impl IntoIterator<Item = Arc<FileMeta>>) {
        let mut zombies = self.zombies.lock();
        for file in files {
            // A file that is consumed slice by slice is named several times.
            if !zombies.iter().any(|zombie| zombie.number == file.number) {
                zombies.push(file);
            }
        }
    }

    /// Whether there is a zombie that nobody sees any more.
    pub fn any_dead(&self) -> bool {
        self.zombies.lock().iter().any(|file| Arc::strong_count(file) == 1)
    }

    /// Number of zombies and their bytes, with those that cannot be removed.
    pub fn zombies(&self) -> (usize, u64) {
        let count = |files: &[Arc<FileMeta>]| {
            (files.len(), files.iter().map(|file| file.bytes.0).sum::<u64>())
        };
        let (zombies, stuck) = (count(&self.zombies.lock()), count(&self.stuck.lock()));
        (zombies.0 + stuck.0, zombies.1 + stuck.1)
    }

    /// Number of dead files that the system did not remove when asked.
    pub fn stuck(&self) -> usize {
        self.stuck.lock().len()
    }

    /// Removes the files that nobody sees any more, and tries those again that could not be removed
    /// before. Does file calls: on a background thread only.
    pub fn remove(&self, shared: &Shared) {
        let mut dead = std::mem::take(&mut *self.stuck.lock());
        let known = dead.len();
        self.zombies.lock().retain(|file| {
            let unseen = Arc::strong_count(file) == 1;
            if unseen {
                dead.push(file.clone());
            }
            !unseen
        });
        for (n, file) in dead.into_iter().enumerate() {
            let path = sst_path(&shared.dir, file.number);
            match shared.env.fs().remove(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    if n >= known {
                        let error = Error::io("cannot remove", &path, error);
                        shared.events.emit(Event::NotRemoved { error });
                    }
                    self.stuck.lock().push(file);
                }
            }
        }
    }
}
