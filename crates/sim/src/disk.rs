//! The disk that outlives the machines: what a crash leaves of it.

use crate::rng::Rng;
use std::sync::Arc;
use vlsm_disk::Fs;
use vlsm_disk::fs::sim::SimFs;

/// What the disk keeps of what was not synced when the power failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    LoseAll,
    /// Everything.
    KeepAll,
    /// A legal subset, drawn with this number: writes torn at 512 bytes, directory entries apart.
    Random(u64),
}

impl Damage {
    /// Any.
    pub fn random(rng: &mut Rng) -> Self {
        match rng.below(6) {
            0 => Self::LoseAll,
            1 => Self::KeepAll,
            _ => Self::Random(rng.u64()),
        }
    }
}

/// A disk.
pub struct Disk {
    fs: Arc<SimFs>,
}

impl Disk {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { fs: Arc::new(SimFs::new()) }
    }

    /// Its file system.
    #[must_use]
    pub fn fs(&self) -> Arc<dyn Fs> {
        self.fs.clone()
    }

    /// The power failed.
    pub fn lose_power(&self, damage: Damage) {
        match damage {
            Damage::LoseAll => self.fs.crash(0, 1),
            Damage::KeepAll => self.fs.crash(1, 1),
            Damage::Random(seed) => self.fs.crash(2, seed),
        }
    }

    /// The process died: what it had written is there, its locks are gone.
    pub fn lose_process(&self) {
        self.fs.kill();
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}
