//! The disk that outlives the machines. When the power fails, it keeps what was synced and any
//! legal subset of the rest; when only the process dies, all that was written.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_disk::Fs;
use vlsm_testfs::{CrashMode, FailedSync, SimFs};

/// What the disk keeps of what was not synced when the power failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    LoseAll,
    /// Everything.
    KeepAll,
    /// All bytes of files, no directory entry.
    KeepData,
    /// All directory entries, no byte.
    KeepEntries,
    /// A legal subset, drawn with this number: writes torn at 512 bytes, directory entries apart.
    Random(u64),
}

impl Damage {
    /// Any.
    pub fn random(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::LoseAll,
            1 => Self::KeepAll,
            2 => Self::KeepData,
            3 => Self::KeepEntries,
            _ => Self::Random(rng.u64()),
        }
    }
}

/// A disk. Clones are handles of the same one.
#[derive(Clone, Default)]
pub struct Disk {
    fs: SimFs,
}

impl Disk {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another one of the same content, synced and not.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { fs: self.fs.fork() }
    }

    /// Its file system.
    #[must_use]
    pub fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.fs.clone())
    }

    /// A sync of this file failed: no later sync makes durable what was written before it.
    pub fn fail_sync(&self, path: &Path, after: FailedSync) {
        self.fs.fail_sync(path, after);
    }

    /// The bytes of a file.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.fs.content(path)
    }

    /// Puts other bytes into a file, durably: damage on purpose.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        self.fs.set_content(path, bytes);
    }

    /// Its files with their lengths.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        self.fs.files()
    }

    /// Bytes that its files may take in all; none for no limit. May change while a machine runs.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.fs.set_capacity(bytes);
    }

    /// Bytes that its files take.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.fs.used()
    }

    /// The power failed.
    pub fn lose_power(&self, damage: Damage) {
        match damage {
            Damage::LoseAll => self.fs.crash(CrashMode::LoseAll, 0),
            Damage::KeepAll => self.fs.crash(CrashMode::KeepAll, 0),
            Damage::KeepData => self.fs.crash(CrashMode::KeepData, 0),
            Damage::KeepEntries => self.fs.crash(CrashMode::KeepEntries, 0),
            Damage::Random(seed) => self.fs.crash(CrashMode::Random, seed),
        }
    }

    /// The process died: what it had written is there, its locks are gone.
    pub fn lose_process(&self) {
        self.fs.kill();
    }
}
