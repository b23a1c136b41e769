//! The WAL files of a folder, found by their headers.
//!
//! A file is damaged if its header does not verify, or if it is shorter than its header says. It is
//! a leftover instead, in any state, if a later file took over from it. With salvage, the remaining
//! part of a file that was cut off counts.
//!
//! Threads: none; all calls block on the device.

use crate::fs::{Fs, OpenOptions};
use crate::record::{HEADER_LEN, Header, WAL_MAGIC};
use crate::wal::reader::{RecoverOptions, Recovered};
use crate::wal::{wal_number, wal_path};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use vlsm_core::{Error, Result};

/// A file that may hold a part of the log.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) len: u64,
}

/// The files at or beyond the smallest number, by number.
#[derive(Clone, Default)]
pub(super) struct Found {
    pub(super) started: BTreeMap<u64, Candidate>,
    /// The uids of the prepared files: those not started yet, and those whose start a crash lost.
    pub(super) prepared: BTreeMap<u64, u64>,
    /// The files with damage.
    damaged: Vec<Damaged>,
}

/// A damaged file.
#[derive(Clone)]
struct Damaged {
    number: u64,
    path: PathBuf,
    /// Its header and its length; none if the header is damaged.
    header: Option<(Header, u64)>,
    error: Error,
}

impl Found {
    fn add(
        &mut self,
        number: u64,
        path: PathBuf,
        header: Header,
        len: u64,
        recovered: &mut Recovered,
    ) {
        if header.started {
            self.started.insert(number, Candidate { path, header, len });
        } else {
            self.prepared.insert(number, header.uid);
            recovered.unused.push(path);
        }
    }

    /// All files that may hold batches, by number.
    pub(super) fn files(&self) -> Vec<(u64, PathBuf)> {
        let started = self.started.iter().map(|(number, file)| (*number, file.path.clone()));
        let damaged = self.damaged.iter().map(|file| (file.number, file.path.clone()));
        let mut files: Vec<_> = started.chain(damaged).collect();
        files.sort_unstable();
        files
    }
}

/// The first missing WAL among those that the manifest lists and that are still needed.
///
/// A file without predecessor took over from all older ones. Those may be gone although the
/// manifest does not know it yet. A file may also be gone if a later file sealed one before it: the
/// file was prepared, and nothing was written into it.
pub(super) fn missing(dir: &Path, options: RecoverOptions<'_>, found: &Found) -> Option<Error> {
    let Found { started, prepared, .. } = found;
    let takes_over = |(_, file): &(&u64, &Candidate)| file.header.predecessor.is_none();
    let first = started.iter().rev().find(takes_over).map_or(0, |(number, _)| *number);
    let is_there = |number: &u64| started.contains_key(number) || prepared.contains_key(number);
    let seals = started.values().filter_map(|file| Some((file.header.predecessor?.number, file)));
    let is_passed_over = |number: &u64| {
        seals.clone().any(|(sealed, file)| (sealed + 1..file.header.number).contains(number))
    };
    let mut needed = options.listed.iter().filter(|number| **number >= first.max(options.min_wal));
    let number = needed.find(|number| !is_there(number) && !is_passed_over(number))?;
    let what = "the manifest lists this WAL, but it is missing: writes that were acknowledged were \
                in it";
    Some(Error::corruption(&wal_path(dir, *number), 0, what))
}

/// Reads the headers of all WAL files.
pub(super) fn list(
    fs: &dyn Fs,
    dir: &Path,
    options: RecoverOptions<'_>,
    recovered: &mut Recovered,
) -> Result<Found> {
    let names = fs.read_dir(dir).map_err(|error| Error::io("cannot list", dir, error))?;
    let mut found = Found::default();
    for name in names {
        if name.to_str().is_some_and(|name| name.ends_with(".wal.tmp")) {
            recovered.unused.push(dir.join(name));
            continue;
        }
        let Some(number) = wal_number(&name) else { continue };
        let path = dir.join(name);
        if number < options.min_wal {
            recovered.unused.push(path);
            continue;
        }
        let read = match read_any_header(fs, &path, number) {
            Ok((header, len)) => check_len(&path, &header, len).map_or_else(
                // The begin of a file that was cut off may be kept.
                |error| (Some((header, len)), Some(error)),
                |()| (Some((header, len)), None),
            ),
            Err(error @ Error::Corruption { .. }) => (None, Some(error)),
            Err(error) => return Err(error),
        };
        match read {
            (header, Some(error)) => found.damaged.push(Damaged { number, path, header, error }),
            (Some((header, len)), None) => found.add(number, path, header, len, recovered),
            (None, None) => {}
        }
    }
    // The files before one that took over from all older ones are leftovers, in any state.
    let took_over = |file: &&Candidate| file.header.predecessor.is_none();
    let last = found.started.values().rev().find(took_over);
    let first = last.map_or(0, |file| file.header.number);
    for Damaged { number, path, header, error } in std::mem::take(&mut found.damaged) {
        if number < first {
            recovered.unused.push(path);
        } else if !options.salvage {
            return Err(error);
        } else {
            recovered.damage.get_or_insert(error.clone());
            match header {
                Some((header, len)) => found.add(number, path, header, len, recovered),
                None => found.damaged.push(Damaged { number, path, header, error }),
            }
        }
    }
    recovered.unused.sort();
    Ok(found)
}

/// Reads the header of a WAL file. Also returns the file's length.
///
/// # Errors
/// [`Error::Corruption`] if it is not the header of this file, or if the file is shorter than its
/// header says.
pub fn read_header(fs: &dyn Fs, path: &Path, number: u64) -> Result<(Header, u64)> {
    let (header, len) = read_any_header(fs, path, number)?;
    check_len(path, &header, len)?;
    Ok((header, len))
}

fn check_len(path: &Path, header: &Header, len: u64) -> Result<()> {
    if len >= header.filled {
        return Ok(());
    }
    let what = format!("the file is shorter than the {} bytes it had", header.filled);
    Err(Error::corruption(path, len, what))
}

/// As [`read_header`], for a file of any length.
fn read_any_header(fs: &dyn Fs, path: &Path, number: u64) -> Result<(Header, u64)> {
    let failed = |error| Error::io("cannot read WAL", path, error);
    let file = fs.open(path, OpenOptions::READ).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    let mut page = vec![0; HEADER_LEN as usize];
    let read = file.read_at(&mut page, 0).map_err(failed)?;
    let header = Header::decode(&page[..read], WAL_MAGIC, path)?;
    if header.number != number {
        let what = format!("the header is of WAL {}", header.number);
        return Err(Error::corruption(path, 16, what));
    }
    Ok((header, len))
}
