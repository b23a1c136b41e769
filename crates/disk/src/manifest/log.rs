//! The manifest in use: how it is created, recovered and appended to.
//!
//! 1. `create` writes a first manifest with a snapshot of the new store, and makes it and its
//!    directory entry durable. Only then it points `CURRENT` at it: it writes a temporary file,
//!    syncs it, renames it, and syncs the directory. A crash in between leaves no `CURRENT`, and
//!    the folder counts as empty.
//! 2. `append` writes a group of changes as one record and syncs it: all of the group counts, or
//!    nothing. An unsynced mark follows the sync. Once the mark is on the device too, damage of the
//!    group cannot pass for a torn tail.
//! 3. `open` reads the manifest that `CURRENT` names, and changes nothing. A torn record at the
//!    very end was never acknowledged and does not count. Any other damage is an error.
//! 4. `settle` makes durable what was read, without a torn end (`settle.rs`). The sync of a record
//!    may have failed in an earlier life: then its pages can be read and count as clean, but are
//!    not on the device. `recover` is `open` and `settle`.
//!
//! After a group's write or sync failed, it is unknown whether the group is on the device. The
//! manifest then refuses further changes, and no file may be deleted. A write that a full device
//! refused is different. Any part of the group may be on the device, so no file that the group adds
//! or removes may be deleted; but the place of the next record has not moved, and once there is
//! space the next group is written over the failed one. A crash in between finds the old bytes, the
//! new ones, or a mixture that does not verify, that is, the manifest with the failed group or
//! without it. If the group is given up instead, its bytes are cut off first
//! ([`Manifest::forget_refused`]).
//!
//! Threads: one owner. All calls block on the device.

use crate::codec::Reader;
use crate::env::Env;
use crate::fs::{File, Fs, OpenOptions, read_all};
use crate::manifest::format::{Files, Item, put_record, read_item};
use crate::manifest::snapshot::SnapshotWriter;
use crate::manifest::{CURRENT, CURRENT_TMP, Record, State, manifest_number, manifest_path};
use crate::names;
use crate::record::{
    Header, MANIFEST_MAGIC, RecordHead, RecordKind, Records, Tail, checksum, encode_record,
};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result, Seq};

/// The most bytes in one group.
const GROUP_MAX: usize = 1 << 30;

/// The content of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The folder does not exist.
    Missing,
    /// A store can be created here.
    Empty,
    /// A store is here.
    Store,
}

/// The manifest in use.
pub struct Manifest {
    pub(super) env: Arc<dyn Env>,
    pub(super) dir: PathBuf,
    pub(super) number: u64,
    pub(super) log: LogFile,
    /// The groups appended since a snapshot began.
    pub(super) catch_up: Option<Vec<Vec<u8>>>,
    pub(super) snapshot_len: u64,
    pub(super) poison: Option<Arc<Error>>,
    /// Whether no append has failed since the last durable one.
    pub(super) certain: bool,
    /// The file's bytes, from its opening until it is settled.
    pub(super) unsettled: Option<Bytes>,
}

/// A manifest file and the place of its next record.
pub(super) struct LogFile {
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) uid: u64,
    pub(super) offset: u64,
    pub(super) synced: u64,
}

impl LogFile {
    /// Appends the record of a payload to `out`, which the caller writes at the place of the next
    /// record.
    pub(super) fn frame(&self, out: &mut Vec<u8>, kind: RecordKind, payload: &[u8]) {
        let (seq, synced) = (Seq::ZERO, self.synced);
        let head = RecordHead { kind, seq, synced, payload_checksum: checksum(payload) };
        encode_record(out, self.uid, self.offset + out.len() as u64, &head, payload);
    }

    pub(super) fn write(&mut self, records: &[u8]) -> Result<()> {
        self.file
            .write_at(records, self.offset)
            .map_err(|error| Error::io("cannot write manifest", &self.path, error))?;
        self.offset += records.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        let synced = self.file.sync();
        synced.map_err(|error| Error::io_unknown("cannot sync manifest", &self.path, error))?;
        self.synced = self.offset;
        Ok(())
    }

    /// Writes a mark: all before it is synced. The mark is not synced. If its write fails nothing
    /// is lost, because the next record takes its place.
    pub(super) fn mark(&mut self) {
        let mut out = Vec::new();
        self.frame(&mut out, RecordKind::Mark, &[]);
        let _ = self.write(&out);
    }
}

impl Manifest {
    /// Finds out what the folder contains.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if the folder is in use for something else.
    pub fn probe(fs: &dyn Fs, dir: &Path) -> Result<Presence> {
        let failed = |error| Error::io("cannot list", dir, error);
        if !fs.exists(dir).map_err(failed)? {
            return Ok(Presence::Missing);
        }
        // A lookup by name, because listing the folder of a large store takes long.
        match fs.exists(&dir.join(CURRENT)) {
            Ok(true) => return Ok(Presence::Store),
            Err(error) if error.kind() != std::io::ErrorKind::NotADirectory => {
                return Err(failed(error));
            }
            _ => {}
        }
        let not_a_store = |why: String| Error::NotAStore { path: dir.to_owned(), why };
        let names = match fs.read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(not_a_store("it is a file".into()));
            }
            names => names.map_err(failed)?,
        };
        let leftover = |name: &Path| {
            let text = name.to_string_lossy();
            // An open may have begun the first WAL before the name of CURRENT was durable.
            let is_wal = names::number(name, "", ".wal.tmp").is_some();
            let is_manifest = manifest_number(name).is_some() || text == CURRENT_TMP;
            is_wal || is_manifest || text.starts_with("LO") || text.starts_with("STATS.")
        };
        match names.iter().filter(|name| !leftover(name)).min() {
            None => Ok(Presence::Empty),
            Some(name) => {
                let name = name.display();
                Err(not_a_store(format!("it holds {name} but no {CURRENT} file")))
            }
        }
    }

    /// Makes a new store in an existing folder.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::Missing`], [`Error::NotAStore`], and the file system's
    /// errors.
    pub fn create(env: &Arc<dyn Env>, dir: &Path, state: &State) -> Result<Self> {
        let path = dir.to_owned();
        match Self::probe(&**env.fs(), dir)? {
            Presence::Empty => Self::begin(env, dir, state),
            Presence::Missing => Err(Error::Missing { path }),
            Presence::Store => Err(Error::AlreadyExists { path }),
        }
    }

    /// Makes a folder a store with this state. The files that the state names must be in the
    /// folder, durably; a manifest must not.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn begin(env: &Arc<dyn Env>, dir: &Path, state: &State) -> Result<Self> {
        let path = dir.to_owned();
        let writer = SnapshotWriter::new(env.clone(), path.clone(), 1, state.clone());
        let log = writer.write()?.into_log();
        let mut manifest = Self {
            env: env.clone(),
            dir: path,
            number: 1,
            snapshot_len: log.offset,
            log,
            catch_up: None,
            poison: None,
            certain: true,
            unsettled: None,
        };
        manifest.seal_snapshot()?;
        manifest.switch_current()?;
        Ok(manifest)
    }

    /// Reads the manifest of a store and makes it durable.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::NotAStore`], [`Error::FormatVersion`], [`Error::Corruption`],
    /// and the file system's errors.
    pub fn recover(env: &Arc<dyn Env>, dir: &Path) -> Result<(Self, State)> {
        let (mut manifest, state) = Self::open(env, dir)?;
        manifest.settle()?;
        Ok((manifest, state))
    }

    /// Reads the manifest of a store and changes nothing. The caller must call [`Manifest::settle`]
    /// before it appends anything or relies on the state.
    ///
    /// # Errors
    /// As [`Manifest::recover`].
    pub fn open(env: &Arc<dyn Env>, dir: &Path) -> Result<(Self, State)> {
        let fs = &**env.fs();
        let Found { number, path, header, content, state, end } = read(fs, dir)?;
        let failed = |error| Error::io("cannot open manifest", &path, error);
        let file = fs.open(&path, OpenOptions::WRITE).map_err(failed)?;
        let log = LogFile { file, path, uid: header.uid, offset: end, synced: 0 };
        let (env, dir, snapshot_len) = (env.clone(), dir.to_owned(), header.filled);
        let (catch_up, poison, unsettled) = (None, None, Some(content));
        let certain = true;
        let manifest =
            Self { env, dir, number, log, catch_up, snapshot_len, poison, certain, unsettled };
        Ok((manifest, state))
    }

    /// Reads the manifest of a store and changes nothing. The result refuses appends.
    ///
    /// # Errors
    /// As [`Manifest::recover`].
    pub fn open_read_only(env: &Arc<dyn Env>, dir: &Path) -> Result<(Self, State)> {
        let fs = &**env.fs();
        let Found { number, path, header, state, end, .. } = read(fs, dir)?;
        let failed = |error| Error::io("cannot open manifest", &path, error);
        let file = fs.open(&path, OpenOptions::READ).map_err(failed)?;
        let log = LogFile { file, path, uid: header.uid, offset: end, synced: 0 };
        let (env, dir, snapshot_len) = (env.clone(), dir.to_owned(), header.filled);
        let (catch_up, poison) = (None, Some(Arc::new(Error::OpenedReadOnly)));
        let unsettled = None;
        let certain = true;
        let manifest =
            Self { env, dir, number, log, catch_up, snapshot_len, poison, certain, unsettled };
        Ok((manifest, state))
    }

    /// Makes a group of changes durable, all or none.
    ///
    /// # Errors
    /// The file system's errors. It is then unknown whether the group is on the device: delete no
    /// file. After any failure other than [`Error::NoSpace`] of the write, further appends return
    /// [`Error::ReadOnly`].
    pub fn append(&mut self, records: &[Record]) -> Result<()> {
        if let Some(cause) = &self.poison {
            return Err(Error::ReadOnly { cause: cause.clone() });
        }
        assert!(self.unsettled.is_none(), "a manifest is settled before it is appended to");
        let mut payload = Vec::new();
        for record in records {
            put_record(&mut payload, record);
        }
        // A group that cannot be read back must not be written.
        if !planted::is(Bug::GroupUnread) {
            let read = read_all_items(&payload)
                .map_err(|why| Error::Internal(format!("a change cannot be read back: {why}")))?;
            debug_assert!(read == records, "a change reads back as another one");
        }
        if payload.len() > GROUP_MAX {
            return Err(Error::Internal("a group of changes is over 1 GB".into()));
        }
        let mut out = Vec::with_capacity(payload.len() + 32);
        self.log.frame(&mut out, RecordKind::Batch, &payload);
        self.certain = false;
        match self.log.write(&out) {
            Err(error @ Error::NoSpace { .. }) => return Err(error),
            written => self.poison_if_failed(written)?,
        }
        let skipped = planted::is(Bug::ManifestSyncSkipped);
        let synced = if skipped { Ok(()) } else { self.log.sync() };
        self.poison_if_failed(synced)?;
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.push(payload);
        }
        self.certain = true;
        self.log.mark();
        Ok(())
    }

    /// Removes the rest of a group that a full device refused. After success no crash can bring the
    /// group back. This takes no space.
    ///
    /// # Errors
    /// The file system's errors. The group may then still be on the device, as after a failed
    /// append.
    pub fn forget_refused(&mut self) -> Result<()> {
        if let Some(cause) = &self.poison {
            return Err(Error::ReadOnly { cause: cause.clone() });
        }
        if planted::is(Bug::RefusedEditKept) {
            return Ok(());
        }
        let cut = self.log.file.truncate(self.log.offset);
        let failed = |error| Error::io_unknown("cannot cut manifest", &self.log.path, error);
        let cut = cut.map_err(failed).and_then(|()| self.log.sync());
        self.certain = cut.is_ok();
        self.poison_if_failed(cut)
    }

    pub(super) fn poison_if_failed(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            self.poison = Some(Arc::new(error.clone()));
        }
        result
    }

    /// Whether the device holds exactly the successful appends. A failed append may or may not show
    /// after a crash.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.certain || planted::is(Bug::FailedEditForgotten)
    }

    /// The path of the file in use.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.log.path
    }

    /// The number and the length of the file in use, as in [`Found`] after it was opened.
    #[must_use]
    pub fn place(&self) -> (u64, u64) {
        (self.number, self.log.offset)
    }

    /// The length of the file in use.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.log.offset
    }

    /// Always false: the file holds at least a snapshot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether it is time for a snapshot: the log has grown to twice the last snapshot and at least
    /// to `bytes_min`, and no snapshot is in progress.
    #[must_use]
    pub fn snapshot_needed(&self, bytes_min: u64) -> bool {
        let limit = self.snapshot_len.saturating_mul(2).max(bytes_min);
        self.log.offset > limit && self.catch_up.is_none() && self.poison.is_none()
    }

    /// Lists the leftovers in the folder, which may be removed: manifests that are not in use, and
    /// a temporary `CURRENT`.
    ///
    /// # Errors
    /// The file system's errors.
    pub fn unused(&self) -> Result<Vec<PathBuf>> {
        let names = self.env.fs().read_dir(&self.dir);
        let names = names.map_err(|error| Error::io("cannot list", &self.dir, error))?;
        let unused = |name: &PathBuf| {
            let old = manifest_number(name).is_some_and(|number| number != self.number);
            old || name.as_path() == Path::new(CURRENT_TMP)
        };
        Ok(names.into_iter().filter(unused).map(|name| self.dir.join(name)).collect())
    }

    /// Writes the header, which holds the snapshot's length. Then makes the file and its directory
    /// entry durable, and writes the temporary `CURRENT`.
    pub(super) fn seal_snapshot(&mut self) -> Result<()> {
        let (number, uid, filled) = (self.number, self.log.uid, self.log.offset);
        let (started, closed, next_seq, predecessor) = (true, false, Seq::ZERO, None);
        let header = Header { number, uid, started, closed, filled, next_seq, predecessor };
        let failed = |error| Error::io("cannot write manifest", &self.log.path, error);
        self.log.file.write_at(&header.encode(MANIFEST_MAGIC), 0).map_err(failed)?;
        if !planted::is(Bug::PointerBeforeManifest) {
            self.log.sync()?;
        }
        self.log.mark();
        let fs = self.env.fs();
        fs.sync_dir(&self.dir)
            .map_err(|error| Error::io_unknown("cannot sync folder", &self.dir, error))?;
        write_current(&**fs, &self.dir, self.number)
    }

    /// Makes the manifest the current one.
    pub(super) fn switch_current(&self) -> Result<()> {
        let (fs, dir) = (self.env.fs(), &self.dir);
        let path = dir.join(CURRENT);
        fs.rename(&temporary(dir), &path)
            .map_err(|error| Error::io_unknown("cannot rename to", &path, error))?;
        if planted::is(Bug::CurrentSyncSkipped) {
            return Ok(());
        }
        fs.sync_dir(dir).map_err(|error| Error::io_unknown("cannot sync folder", dir, error))
    }
}

/// The content of a folder's manifest.
pub struct Found {
    /// The number in its name.
    pub number: u64,
    /// Its path.
    pub path: PathBuf,
    header: Header,
    /// The file's bytes.
    content: Bytes,
    /// The state after its last record.
    pub state: State,
    /// The end of its records. The bytes after it were never acknowledged.
    pub end: u64,
}

/// Reads the manifest of a store and changes nothing. The store may be in use: if its manifest is
/// replaced meanwhile, the next one is read.
///
/// # Errors
/// As [`Manifest::recover`].
pub fn read(fs: &dyn Fs, dir: &Path) -> Result<Found> {
    match Manifest::probe(fs, dir)? {
        Presence::Store => {}
        Presence::Missing => return Err(Error::Missing { path: dir.to_owned() }),
        Presence::Empty => {
            let why = "it is empty".into();
            return Err(Error::NotAStore { path: dir.to_owned(), why });
        }
    }
    let mut number = read_current(fs, dir)?;
    loop {
        let found = read_numbered(fs, dir, number);
        let current = if found.is_err() { read_current(fs, dir)? } else { number };
        if current == number {
            return found;
        }
        number = current;
    }
}

/// The number of the current manifest and the length of its file. Each change of the store's state
/// changes one of them. Both are zero where they cannot be read.
#[must_use]
pub fn position(fs: &dyn Fs, dir: &Path) -> (u64, u64) {
    let Ok(number) = read_current(fs, dir) else { return (0, 0) };
    let file = fs.open(&manifest_path(dir, number), OpenOptions::READ);
    let len = file.and_then(|file| file.len());
    len.map_or((0, 0), |len| (number, len))
}

/// The changes that were appended after this place (number and end, as in [`Found`]) of a manifest
/// that is still the current one. None if another manifest has replaced it.
///
/// # Errors
/// [`Error::Corruption`], and the file system's errors.
pub fn changes_after(
    fs: &dyn Fs,
    dir: &Path,
    (number, end): (u64, u64),
) -> Result<Option<Vec<Record>>> {
    if read_current(fs, dir)? != number {
        return Ok(None);
    }
    let path = manifest_path(dir, number);
    let content =
        read_all(fs, &path).map_err(|error| Error::io("cannot read manifest", &path, error))?;
    let content = Bytes::from(content);
    let header = Header::decode(&content, MANIFEST_MAGIC, &path)?;
    let mut changes = Vec::new();
    for record in Records::new(content, header.uid).filter(|record| record.offset >= end) {
        let items = read_all_items(&record.payload);
        changes.extend(items.map_err(|why| Error::corruption(&path, record.offset, why))?);
    }
    Ok(Some(changes))
}

fn read_numbered(fs: &dyn Fs, dir: &Path, number: u64) -> Result<Found> {
    let path = manifest_path(dir, number);
    let failed = |error| Error::io("cannot read manifest", &path, error);
    if !fs.exists(&path).map_err(failed)? {
        return Err(Error::corruption(&path, 0, format!("{CURRENT} names it, but it is gone")));
    }
    let content = Bytes::from(read_all(fs, &path).map_err(failed)?);
    let header = Header::decode(&content, MANIFEST_MAGIC, &path)?;
    if header.number != number {
        return Err(Error::corruption(&path, 16, "the header is of another manifest"));
    }
    let (state, end) = replay(&path, content.clone(), &header)?;
    Ok(Found { number, path, header, content, state, end })
}

/// Reads all changes of a payload.
fn read_all_items(payload: &[u8]) -> Result<Vec<Record>, &'static str> {
    let (mut reader, mut files) = (Reader::new(payload), Files::default());
    let mut records = Vec::new();
    while !reader.is_empty() {
        match read_item(&mut reader, &mut files).map_err(|why| why.0)? {
            Item::Record(record) => records.push(record),
            Item::Store(_) => return Err("the store's number in a group"),
        }
    }
    Ok(records)
}

fn replay(path: &Path, content: Bytes, header: &Header) -> Result<(State, u64)> {
    let (mut state, mut files) = (State::default(), Files::default());
    let mut records = Records::new(content, header.uid);
    for record in records.by_ref() {
        let damaged = |why: String| Error::corruption(path, record.offset, why);
        let mut reader = Reader::new(&record.payload);
        while !reader.is_empty() {
            match read_item(&mut reader, &mut files).map_err(|why| damaged(why.0.into()))? {
                Item::Store(uid) => state.store_uid = uid,
                Item::Record(change) => {
                    state.apply(&change).map_err(|why| damaged(why.0))?;
                }
            }
        }
    }
    let end = records.offset();
    if end < header.filled {
        return Err(Error::corruption(path, end, "a record of the snapshot does not verify"));
    }
    if let Tail::Damaged(later) = records.tail() {
        let what = format!("a record does not match its checksum, but one at {later} does");
        return Err(Error::corruption(path, end, what));
    }
    for version in state.trees.values() {
        version.check().map_err(|why| Error::corruption(path, end, why.0))?;
    }
    Ok((state, end))
}

pub(super) fn temporary(dir: &Path) -> PathBuf {
    dir.join(CURRENT_TMP)
}

fn current_text(number: u64) -> String {
    let name = format!("MANIFEST-{number:06}");
    format!("{name} {:08x}\n", checksum(name.as_bytes()))
}

/// Writes the temporary file that becomes `CURRENT`.
fn write_current(fs: &dyn Fs, dir: &Path, number: u64) -> Result<()> {
    let path = temporary(dir);
    let write = || {
        if fs.exists(&path)? {
            fs.remove(&path)?;
        }
        let file = fs.open(&path, OpenOptions::CREATE)?;
        file.write_at(current_text(number).as_bytes(), 0)?;
        Ok(file)
    };
    let file = write().map_err(|error| Error::io("cannot write", &path, error))?;
    file.sync().map_err(|error| Error::io_unknown("cannot sync", &path, error))
}

fn read_current(fs: &dyn Fs, dir: &Path) -> Result<u64> {
    let path = dir.join(CURRENT);
    let text = read_all(fs, &path).map_err(|error| Error::io("cannot read", &path, error))?;
    let name = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let number = std::str::from_utf8(name).ok().and_then(|name| manifest_number(Path::new(name)));
    match number {
        Some(number) if current_text(number).as_bytes() == text => Ok(number),
        _ => Err(Error::corruption(&path, 0, "it does not name a manifest")),
    }
}
