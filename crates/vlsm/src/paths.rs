//! Resolves the paths that callers pass.
//!
//! A relative path is made absolute once, when it is given, because the working directory may
//! change later, and the store creates files as long as it is open. Errors name files by their
//! absolute paths. Symbolic links stay as they are. Links and `..` are resolved only to compare two
//! folders ([`check_apart`]).
//!
//! The file system does both, because only it knows its working directory and its links.

use std::path::{Path, PathBuf};
use vlsm_core::{Error, Result};
use vlsm_disk::fs::Fs;

/// The absolute path that `path` denotes now.
///
/// # Errors
/// [`Error::InvalidArgument`] for an empty path; [`Error::Io`] if the system does not report its
/// working directory, for example because it was removed.
pub(crate) fn absolute(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(Error::InvalidArgument("the path is empty: name a file or folder".into()));
    }
    let failed = |error| Error::io("cannot find the working directory for", path, error);
    fs.absolute(path).map_err(failed)
}

/// Refuses a target folder that is the original itself or lies in it.
///
/// # Errors
/// [`Error::InvalidArgument`], or any error of resolving the paths.
pub(crate) fn check_apart(fs: &dyn Fs, original: &Path, copy: &Path) -> Result<()> {
    let real = |path: &Path| {
        fs.canonical(path).map_err(|error| Error::io("cannot resolve path", path, error))
    };
    let (within, from) = (real(copy)?, real(original)?);
    if !within.starts_with(&from) {
        return Ok(());
    }
    let place = if within == from { "is" } else { "lies in" };
    Err(Error::InvalidArgument(format!(
        "{} {place} the store itself ({}): name a folder outside of it",
        copy.display(),
        original.display(),
    )))
}
