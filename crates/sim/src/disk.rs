//! The disk, which outlives the machines. After a power failure it holds what was synced and any
//! legal subset of the rest. After the death of the process it holds everything written.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_disk::Fs;
use vlsm_testfs::{CrashMode, FailedSync, SimFs};

/// The part of the unsynced data that survives a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    LoseAll,
    /// Everything.
    KeepAll,
    /// All bytes of files, no directory entries.
    KeepData,
    /// All directory entries, no bytes of files.
    KeepEntries,
    /// A legal subset, chosen by this number. Writes are torn at 512 bytes, independently of
    /// directory entries.
    Random(u64),
}

impl Damage {
    /// A random value.
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

/// A disk. Clones are handles of the same disk.
#[derive(Clone, Default)]
pub struct Disk {
    fs: SimFs,
}

impl Disk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another disk with the same content, durable and pending.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { fs: self.fs.fork() }
    }

    /// Its file system.
    #[must_use]
    pub fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.fs.clone())
    }

    /// Records that a sync of this file failed: no later sync makes the writes before it durable.
    pub fn fail_sync(&self, path: &Path, after: FailedSync) {
        self.fs.fail_sync(path, after);
    }

    /// The bytes of a file.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.fs.content(path)
    }

    /// Replaces the bytes of a file, durably, to damage it.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        self.fs.set_content(path, bytes);
    }

    /// Its files with their lengths.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        self.fs.files()
    }

    /// Feeds a hasher with all files, their names and their bytes.
    pub fn hash_files(&self, hasher: &mut impl Hasher) {
        self.fs.hash_files(hasher);
    }

    /// Limits the bytes of all files; none for no limit. May be called while a machine runs.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.fs.set_capacity(bytes);
    }

    /// The bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.fs.used()
    }

    /// Cuts the power.
    pub fn lose_power(&self, damage: Damage) {
        match damage {
            Damage::LoseAll => self.fs.crash(CrashMode::LoseAll, 0),
            Damage::KeepAll => self.fs.crash(CrashMode::KeepAll, 0),
            Damage::KeepData => self.fs.crash(CrashMode::KeepData, 0),
            Damage::KeepEntries => self.fs.crash(CrashMode::KeepEntries, 0),
            Damage::Random(seed) => self.fs.crash(CrashMode::Random, seed),
        }
    }

    /// Ends the process: its writes stay, its locks are released.
    pub fn lose_process(&self) {
        self.fs.kill();
    }
}
