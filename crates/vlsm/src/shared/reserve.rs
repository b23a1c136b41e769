//! Space that is reserved for an open on a full device.
//!
//! To open a store takes a little space: a new WAL, records of the manifest. If others filled the
//! device, the store could not even be opened to delete data. So after its first writes a store
//! keeps a file of [`RESERVE_BYTES`] that has no other use:
//! 1. It is made in the background when a WAL file was prepared, once, if plenty of space is free.
//! 2. An open that finds too little space removes it and tries again, with a short WAL.
//! 3. It is made anew when there is plenty of space again.
//!
//! Its contents cannot be compressed, so that it takes its space on any file system. It is not
//! synced: after power loss it may be short, and is made anew.
//!
//! Threads and locks: one thread at a time prepares WAL files; one atomic.

use crate::shared::Shared;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::io;
use std::path::Path;
use vlsm_disk::Env;
use vlsm_disk::fs::OpenOptions;

/// The file's name.
pub(crate) const NAME: &str = "RESERVE";

/// The file is made if this many times its length is free.
const PLENTY: u64 = 16;

/// Whether the file is there, as far as this life of the store knows.
#[derive(Default)]
pub(crate) struct Reserve {
    is_kept: AtomicBool,
}

impl Shared {
    /// Makes the file where it is missing and there is plenty of space.
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
            // The store does without it until its next life.
            Err(_) => drop(self.env.fs().remove(&path)),
        }
    }
}

/// Sees to it that the file has this length. Returns the bytes that were written.
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

/// Gives the space away. False when there was none to give.
pub(crate) fn give_away(env: &dyn Env, dir: &Path) -> bool {
    env.fs().remove(&dir.join(NAME)).is_ok()
}
