//! Reads a store's manifest without opening the store: nothing is locked, recovered or changed, so
//! it works on a store that another process has open.
//!
//! 1. `CURRENT` names the manifest; its header has the length of the snapshot at its beginning.
//! 2. Each record is a group of changes; applied in order they make the [`State`].
//! 3. A torn group at the end was never acknowledged: the state ends before it.
//!
//! Writes that are only in the WAL are not included.

use crate::failure::{Failure, Result};
use std::path::{Path, PathBuf};
use vlsm_core::Error;
use vlsm_disk::codec::Reader;
use vlsm_disk::fs::{posix::PosixFs, read_all};
use vlsm_disk::manifest::format::{Files, Item, read_item};
use vlsm_disk::manifest::{CURRENT, Manifest, Presence, State, manifest_number};
use vlsm_disk::record::{HEADER_LEN, Header, MANIFEST_MAGIC, Records, Tail};

/// The contents of a manifest.
pub struct Catalog {
    /// The resulting state.
    pub state: State,
    /// Its path.
    pub path: PathBuf,
}

impl Catalog {
    /// Reads the manifest of the store in this folder.
    pub fn read(dir: &Path) -> Result<Self> {
        // A store in use may switch to another manifest in between.
        let mut attempts = 0..3;
        loop {
            let path = current(dir)?;
            let mut state = State::default();
            let walked = walk(&path, |_, item| {
                match item {
                    Item::Store(uid) => state.store_uid = uid,
                    Item::Record(record) => state.apply(&record).map_err(|why| why.0)?,
                }
                Ok(())
            });
            match walked {
                Ok(_) => return Ok(Self { state, path }),
                Err(failure) if attempts.next().is_none() => return Err(failure),
                Err(_) => {}
            }
        }
    }
}

/// The current manifest of this folder.
pub fn current(dir: &Path) -> Result<PathBuf> {
    match Manifest::probe(&PosixFs, dir)? {
        Presence::Store => {}
        Presence::Missing => return Err(Error::Missing { path: dir.to_owned() }.into()),
        Presence::Empty => {
            let why = "it is empty".to_owned();
            return Err(Error::NotAStore { path: dir.to_owned(), why }.into());
        }
    }
    let path = dir.join(CURRENT);
    let text = read_all(&PosixFs, &path).map_err(|e| Error::io("cannot read", &path, e))?;
    let name = String::from_utf8_lossy(&text);
    let name = Path::new(name.split_whitespace().next().unwrap_or_default()).to_owned();
    match manifest_number(&name) {
        Some(_) => Ok(dir.join(name)),
        None => Err(Error::corruption(&path, 0, "it does not name a manifest").into()),
    }
}

/// Reads the header page of a manifest or a WAL.
pub fn header(content: &[u8], magic: &[u8; 8], path: &Path) -> Result<Header> {
    let page = &content[..content.len().min(HEADER_LEN as usize)];
    Ok(Header::decode(page, magic, path)?)
}

/// Passes each item of a manifest to `item`, with the offset of its record, and returns the offset
/// where the manifest ends.
pub fn walk(
    path: &Path,
    mut item: impl FnMut(u64, Item) -> std::result::Result<(), String>,
) -> Result<u64> {
    let content = read_all(&PosixFs, path).map_err(|e| Error::io("cannot read", path, e))?;
    let header = header(&content, MANIFEST_MAGIC, path)?;
    let mut records = Records::new(content.into(), header.uid);
    let mut files = Files::default();
    for record in records.by_ref() {
        let damaged = |why: String| Failure::from(Error::corruption(path, record.offset, why));
        let mut reader = Reader::new(&record.payload);
        while !reader.is_empty() {
            let read = read_item(&mut reader, &mut files).map_err(|why| damaged(why.0.into()))?;
            item(record.offset, read).map_err(damaged)?;
        }
    }
    let end = records.offset();
    if end < header.filled {
        let what = "a record of the snapshot does not verify";
        return Err(Error::corruption(path, end, what).into());
    }
    if let Tail::Damaged(later) = records.tail() {
        let what = format!("a record does not verify, but one at {later} does");
        return Err(Error::corruption(path, end, what).into());
    }
    Ok(end)
}
