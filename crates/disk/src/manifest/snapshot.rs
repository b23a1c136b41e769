//! A new manifest that begins with the whole state of the old one.
//!
//! 1. [`Manifest::begin_snapshot`] takes the current state (tables are shared, so that costs
//!    nothing) and from then on keeps a copy of all appended groups.
//! 2. [`SnapshotWriter::write`] writes the state to a new file and syncs it. It runs on any thread,
//!    while appends to the old file continue.
//! 3. [`Manifest::finish_snapshot`] adds the groups appended meanwhile, writes the header (a file
//!    without one is no manifest), syncs, and points `CURRENT` at the new file. The old file may
//!    then be removed.
//!
//! After a failure before the rename of `CURRENT`, the old manifest stays in use and the new file
//! is removed, because a full device needs the space. After a later failure it is unknown which of
//! the two counts, so the manifest refuses further changes.

use crate::codec::Reader;
use crate::env::Env;
use crate::fs::{Fs, OpenOptions};
use crate::manifest::format::{Files, Item, put_record, put_store, read_item};
use crate::manifest::log::{LogFile, Manifest};
use crate::manifest::{Record, State, manifest_path};
use crate::record::{HEADER_LEN, RecordKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::{
    Change, Error, Micros, Place, Result, RunOrigin, Table, TreeId, Version, VersionEdit,
};

/// The most tables in one edit of a snapshot.
const PIECE: usize = 1000;
/// The size at which records are written.
const WRITE_LEN: usize = 256 * 1024;

/// A snapshot to be written.
pub struct SnapshotWriter {
    env: Arc<dyn Env>,
    dir: PathBuf,
    number: u64,
    state: State,
}

/// A snapshot that is written and waits for [`Manifest::finish_snapshot`].
pub struct Snapshot {
    number: u64,
    log: LogFile,
}

impl Snapshot {
    pub(super) fn into_log(self) -> LogFile {
        self.log
    }

    /// The path of its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.log.path
    }
}

impl SnapshotWriter {
    pub(super) fn new(env: Arc<dyn Env>, dir: PathBuf, number: u64, state: State) -> Self {
        Self { env, dir, number, state }
    }

    /// Writes the snapshot. Blocks on the device.
    ///
    /// # Errors
    /// The file system's errors. The manifest in use is unchanged; call
    /// [`Manifest::abort_snapshot`].
    pub fn write(self) -> Result<Snapshot> {
        let (env, path) = (self.env.clone(), manifest_path(&self.dir, self.number));
        self.write_file().inspect_err(|_| give_up(&**env.fs(), &path))
    }

    fn write_file(self) -> Result<Snapshot> {
        let (fs, path) = (self.env.fs(), manifest_path(&self.dir, self.number));
        let open = || {
            if fs.exists(&path)? {
                // Left by a snapshot that a crash interrupted; CURRENT never named it.
                fs.remove(&path)?;
            }
            fs.open(&path, OpenOptions::CREATE)
        };
        let file = open().map_err(|error| Error::io("cannot make manifest", &path, error))?;
        let uid = self.env.random();
        let log = LogFile { file, path, uid, offset: HEADER_LEN, synced: 0 };
        let mut output = Output { log, payload: Vec::new(), read_back: ReadBack::default() };
        put_store(&mut output.payload, self.state.store_uid);
        output.add(&Record::Numbers(self.state.numbers))?;
        output.add(&Record::Wals(self.state.wals.clone()))?;
        if self.state.clock > Micros::ZERO {
            output.add(&Record::Clock(self.state.clock))?;
        }
        for keyspace in self.state.keyspaces.values() {
            output.add(&Record::CreateKeyspace(keyspace.clone()))?;
        }
        for (tree, version) in &self.state.trees {
            output.add_tree(*tree, version)?;
        }
        output.flush()?;
        if cfg!(debug_assertions) {
            output.read_back.compare(&self.state);
        }
        output.log.sync()?;
        Ok(Snapshot { number: self.number, log: output.log })
    }
}

/// Removes the file of a snapshot that failed. If that fails, the next snapshot removes it.
fn give_up(fs: &dyn Fs, path: &Path) {
    let _ = fs.remove(path);
}

struct Output {
    log: LogFile,
    payload: Vec<u8>,
    read_back: ReadBack,
}

/// The state that a reader gets from the records of a snapshot. Used in debug builds only.
#[derive(Default)]
struct ReadBack {
    state: State,
    files: Files,
}

impl ReadBack {
    fn read(&mut self, payload: &[u8]) {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            match read_item(&mut reader, &mut self.files).expect("a snapshot can be read") {
                Item::Store(uid) => self.state.store_uid = uid,
                Item::Record(record) => {
                    self.state.apply(&record).expect("a snapshot can be applied");
                }
            }
        }
    }

    /// Compares the two states. Trees may differ in empty levels and cursors.
    fn compare(&self, state: &State) {
        let of = |state: &State| {
            let State { store_uid, keyspaces, numbers, wals, clock, .. } = state.clone();
            (store_uid, keyspaces, numbers, wals, clock)
        };
        assert!(of(&self.state) == of(state), "a snapshot reads back as it was written");
        for (tree, version) in &state.trees {
            let read = &self.state.trees[tree];
            let same = read.tables().eq(version.tables());
            assert!(same && read.flushed_seq == version.flushed_seq, "{tree} reads back");
        }
    }
}

impl Output {
    fn add(&mut self, record: &Record) -> Result<()> {
        put_record(&mut self.payload, record);
        if self.payload.len() >= WRITE_LEN { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if cfg!(debug_assertions) {
            self.read_back.read(&self.payload);
        }
        let mut out = Vec::with_capacity(self.payload.len() + 32);
        self.log.frame(&mut out, RecordKind::Batch, &self.payload);
        self.payload.clear();
        self.log.write(&out)
    }

    fn add_tree(&mut self, tree: TreeId, version: &Version) -> Result<()> {
        let cursors = version.cursors.iter().zip(1_u8..).filter(|(key, _)| key.is_some());
        let cursors = cursors.map(|(key, level)| (level, key.clone())).collect();
        let flushed_seq = Some(version.flushed_seq);
        let head = VersionEdit { flushed_seq, cursors, ..VersionEdit::default() };
        self.add(&Record::Edit(tree, head))?;
        for run in &version.l0 {
            self.add_tables(tree, Place::L0(run.id), run.origin, run.tables.iter())?;
        }
        for (tables, level) in version.levels.iter().zip(1_u8..) {
            self.add_tables(tree, Place::Level(level), RunOrigin::Merge, tables.iter())?;
        }
        Ok(())
    }

    fn add_tables<'a>(
        &mut self,
        tree: TreeId,
        place: Place,
        origin: RunOrigin,
        tables: impl Iterator<Item = &'a Arc<Table>>,
    ) -> Result<()> {
        let changes = tables.map(|table| Change::Add { place, origin, table: table.clone() });
        let mut changes = changes.peekable();
        while changes.peek().is_some() {
            let changes = changes.by_ref().take(PIECE).collect();
            self.add(&Record::Edit(tree, VersionEdit { changes, ..VersionEdit::default() }))?;
        }
        Ok(())
    }
}

impl Manifest {
    /// Begins a snapshot of `state`, which must be the state after all appended records. From then
    /// on appended records are kept until the snapshot is finished or aborted.
    ///
    /// # Panics
    /// If a snapshot is in progress already.
    pub fn begin_snapshot(&mut self, state: State) -> SnapshotWriter {
        assert!(self.catch_up.is_none(), "one snapshot at a time");
        self.catch_up = Some(Vec::new());
        SnapshotWriter::new(self.env.clone(), self.dir.clone(), self.number + 1, state)
    }

    /// Gives up a snapshot whose write failed.
    pub fn abort_snapshot(&mut self) {
        self.catch_up = None;
    }

    /// Switches to the written snapshot. Returns the path of the old manifest, which may be
    /// removed.
    ///
    /// # Errors
    /// The file system's errors. The old manifest stays in use, unless the failure came during the
    /// switch of `CURRENT`.
    pub fn finish_snapshot(&mut self, snapshot: Snapshot) -> Result<PathBuf> {
        let catch_up = self.catch_up.take().unwrap_or_default();
        if let Some(cause) = &self.poison {
            return Err(Error::ReadOnly { cause: cause.clone() });
        }
        let path = snapshot.path().to_owned();
        let completed = self.complete(snapshot, catch_up);
        let next = completed.inspect_err(|_| give_up(&**self.env.fs(), &path))?;
        let switched = next.switch_current();
        self.poison_if_failed(switched)?;
        let old = std::mem::replace(self, next);
        Ok(old.log.path)
    }

    /// Completes the snapshot with the groups appended meanwhile, and makes it durable.
    fn complete(&self, snapshot: Snapshot, catch_up: Vec<Vec<u8>>) -> Result<Self> {
        let Snapshot { number, mut log } = snapshot;
        for payload in catch_up {
            let mut out = Vec::with_capacity(payload.len() + 32);
            log.frame(&mut out, RecordKind::Batch, &payload);
            log.write(&out)?;
        }
        let mut next = Self {
            env: self.env.clone(),
            dir: self.dir.clone(),
            number,
            snapshot_len: log.offset,
            log,
            catch_up: None,
            poison: None,
            certain: true,
            unsettled: None,
        };
        next.seal_snapshot()?;
        Ok(next)
    }
}
