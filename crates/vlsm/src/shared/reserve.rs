//! Space that is reserved for an open on a full device.
//!
//! Opening a store takes some space: for a new WAL and records of the manifest. If other files
//! filled the device, the store could not even be opened to delete data. So after its first writes
//! a store keeps a file of `reserve_bytes` that has no other use:
//! 1. It is created in the background after a WAL file was prepared, once, if plenty of space is
//!    free.
//! 2. An open that finds too little space removes it and tries again, with a short WAL.
//! 3. It is created again when plenty of space is free again.
//!
//! Its contents cannot be compressed, so it takes its full space on any file system. It is not
//! synced: after power loss it may be too short, and is created again.
//!
//! Threads and locks: one atomic; only one thread at a time prepares WAL files.

use crate::shared::Shared;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::io;
use std::path::Path;
use vlsm_disk::Env;
use vlsm_disk::fs::OpenOptions;

/// The name of the file.
pub(crate) const NAME: &str = "RESERVE";

/// The file is created if this many times its length is free.
const PLENTY: u64 = 16;

/// Whether the file exists, as far as this session of the store knows.
#[derive(Default)]
pub(crate) struct Reserve {
    is_kept: AtomicBool,
}

impl Shared {
    /// Creates the file if it is missing and plenty of space is free.
    pub fn keep_reserve(&self) {
        let len = self.options.reserve_bytes.0;
        let plenty = || self.free_bytes() / PLENTY >= len;
        if len == 0 || self.reserve.is_kept.load(Ordering::Acquire) || !plenty() {
            return;
        }
        self.reserve.is_kept.store(true, Ordering::Release);
        let path = self.dir.join(NAME);
        match keep(&*self.env, &path, len) {
            Ok(written) => self.counters.reserve_bytes.add(written),
            // The store has no reserve until it is opened again.
            Err(_) => drop(self.env.fs().remove(&path)),
        }
    }
}

/// Ensures that the file has this length. Returns the number of bytes written.
fn keep(env: &dyn Env, path: &Path, len: u64) -> io::Result<u64> {
    let fs = &**env.fs();
    if fs.exists(path)? {
        if fs.open(path, OpenOptions::READ)?.len()? >= len {
            return Ok(0);
        }
        fs.remove(path)?;
    }
    let file = fs.open(path, OpenOptions::CREATE)?;
    let mut state = env.random();
    let mut noise = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(64 << 10)];
    let mut written = 0;
    while written < len {
        for word in noise.chunks_mut(8) {
            // A step of xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
        let part = noise.len().min((len - written) as usize);
        file.write_at(&noise[..part], written)?;
        written += part as u64;
    }
    Ok(written)
}

/// Releases the space. Returns false if there was no reserve.
pub(crate) fn give_away(env: &dyn Env, dir: &Path) -> bool {
    env.fs().remove(&dir.join(NAME)).is_ok()
}
