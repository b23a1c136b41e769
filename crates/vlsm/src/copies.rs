//! Copies of files, and hard links to them. A copy is durable when its call returns, except for its
//! directory entry.

use std::io::ErrorKind;
use std::path::Path;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result};
use vlsm_disk::aligned::AlignedBuf;
use vlsm_disk::fs::{File, Fs, OpenOptions};

/// The number of bytes copied in one step.
const COPY_LEN: usize = 1 << 20;

/// Makes a hard link to a file. Returns false if the file had to be copied.
pub(crate) fn link(fs: &dyn Fs, from: &Path, to: &Path) -> Result<bool> {
    match fs.hard_link(from, to) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            ErrorKind::CrossesDevices
            | ErrorKind::Unsupported
            | ErrorKind::PermissionDenied
            | ErrorKind::TooManyLinks => copy(fs, from, to, u64::MAX).map(|_| false),
            _ => Err(Error::io("cannot link to", to, error)),
        },
    }
}

/// As [`link`], for a file that is held open, because another process may remove its name.
pub(crate) fn link_held(fs: &dyn Fs, file: &dyn File, from: &Path, to: &Path) -> Result<bool> {
    match link(fs, from, to) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
        linked => return linked,
    }
    copy_open(fs, file, from, to)?;
    Ok(false)
}

/// Copies an open file durably, and returns its length.
pub(crate) fn copy_open(fs: &dyn Fs, file: &dyn File, from: &Path, to: &Path) -> Result<u64> {
    let read = |error| Error::io("cannot read", from, error);
    let write = |error| Error::io("cannot write", to, error);
    let target = fs.open(to, OpenOptions::CREATE).map_err(write)?;
    let len = file.len().map_err(read)?;
    // The file may be open for direct I/O.
    let mut buf = AlignedBuf::zeroed(COPY_LEN);
    let mut at = 0;
    while at < len {
        let count = file.read_at(&mut buf, at).map_err(read)?;
        if count == 0 {
            return Err(Error::corruption(from, at, "the file is cut off"));
        }
        target.write_at(&buf[..count], at).map_err(write)?;
        at += count as u64;
    }
    target.sync().map_err(write)?;
    Ok(len)
}

/// Copies the first `len` bytes of a file, durably. Zeros extend the copy to the length of the
/// file, which is returned.
pub(crate) fn copy(fs: &dyn Fs, from: &Path, to: &Path, len: u64) -> Result<u64> {
    let read = |error| Error::io("cannot read", from, error);
    let write = |error| Error::io("cannot write", to, error);
    let source = fs.open(from, OpenOptions::READ).map_err(read)?;
    let target = fs.open(to, OpenOptions::CREATE).map_err(write)?;
    let whole = source.len().map_err(read)?;
    let mut buf = vec![0; COPY_LEN];
    let mut at = 0;
    while at < len.min(whole) {
        let part = (len.min(whole) - at).min(COPY_LEN as u64) as usize;
        let count = source.read_at(&mut buf[..part], at).map_err(read)?;
        if count == 0 {
            return Err(Error::corruption(from, at, "the file is cut off"));
        }
        target.write_at(&buf[..count], at).map_err(write)?;
        at += count as u64;
    }
    target.truncate(whole).map_err(write)?;
    if !planted::is(Bug::CopyUnsynced) {
        target.sync().map_err(write)?;
    }
    Ok(whole)
}
