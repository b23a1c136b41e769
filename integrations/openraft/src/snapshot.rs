//! Snapshots: SSTs that are built from a snapshot of the store, streamed, and ingested.
//!
//! Building, while commands are applied and read:
//! 1. A [`View`] fixes the moment. Its pairs, and what was applied, go into an SST in `snapshots`,
//!    which is synced.
//! 2. The record of the current snapshot is replaced by a synced write; then the old file is
//!    removed. A crash before leaves a file that nobody names, which the next open removes.
//!
//! Installing, while readers read:
//! 1. The received file is synced. The store checks it completely and ingests it into a new
//!    keyspace.
//! 2. What it says was applied is compared with what the leader said.
//! 3. One synced batch makes the keyspace the state, and the file the current snapshot.
//! 4. Readers get the new keyspace; the old one and the old file are removed. A reader that has a
//!    view of the old one goes on reading it.
//!
//! The state and the current snapshot are replaced under the lock of the latter, so a build that an
//! install overtakes does not replace the newer record.

use crate::codec::{APPLIED, Record, SNAPSHOT, STATE, encode};
use crate::error::{StoreError, blocking};
use crate::log::get;
use crate::state::{AppliedOf, Reader, View};
use crate::storage::{Shared, TypeConfig, state_name};
use openraft::storage::Snapshot;
use openraft::{
    ErrorSubject, ErrorVerb, RaftSnapshotBuilder, RaftTypeConfig, SnapshotMeta, StorageError,
};
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::SystemTime;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, AsyncWriteExt, ReadBuf};
use vlsm::{Batch, Durability, IngestOptions, Keyspace, KeyspaceOptions, WriteOptions};

type MetaOf<C> = SnapshotMeta<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>;

/// A snapshot in a file, to be read or written as a stream.
#[derive(Debug)]
pub struct SnapshotFile {
    file: File,
    path: PathBuf,
    /// It is being received: the file goes away with this value unless it is finished.
    unfinished: bool,
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if self.unfinished {
            // What cannot be removed now is removed by the next open.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl SnapshotFile {
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(StoreError::file("cannot create the snapshot", path))?;
        Ok(Self { file: File::from_std(file), path: path.to_owned(), unfinished: true })
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        let file = std::fs::File::open(path);
        let file = file.map_err(StoreError::file("cannot open the snapshot", path))?;
        Ok(Self { file: File::from_std(file), path: path.to_owned(), unfinished: false })
    }

    /// Makes the file durable. Returns its path.
    pub(crate) async fn finish(mut self) -> Result<PathBuf, StoreError> {
        let done = async {
            self.file.flush().await?;
            self.file.sync_all().await
        };
        done.await.map_err(StoreError::file("cannot sync the snapshot", &self.path))?;
        self.unfinished = false;
        Ok(self.path.clone())
    }
}

impl AsyncRead for SnapshotFile {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.file).poll_read(cx, buffer)
    }
}

impl AsyncWrite for SnapshotFile {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.file).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.file).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.file).poll_shutdown(cx)
    }
}

impl AsyncSeek for SnapshotFile {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        Pin::new(&mut self.file).start_seek(position)
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.file).poll_complete(cx)
    }
}

impl<C: TypeConfig> Shared<C> {
    /// A path for a new file. It was not used before, in this process or in a former one.
    pub(crate) fn snapshot_path(&self, what: &str) -> PathBuf {
        self.snapshots.join(format!("{what}-{}", self.unique()))
    }

    fn unique(&self) -> String {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let count = self.names.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{count}", time.as_nanos(), std::process::id())
    }

    pub(crate) fn current_snapshot(&self) -> Result<Option<Snapshot<C>>, StoreError> {
        // Under the lock: the file may be replaced, and then it is removed.
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = &*current else { return Ok(None) };
        let snapshot = Box::new(SnapshotFile::open(&self.snapshots.join(&record.file))?);
        Ok(Some(Snapshot { meta: record.meta.clone(), snapshot }))
    }

    /// Makes a file the current snapshot, by a batch that may do more, unless it is older than the
    /// current one. Returns whether it did.
    fn replace(
        &self,
        meta: &MetaOf<C>,
        path: &Path,
        mut batch: Batch,
        then: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let name = path.file_name().and_then(|name| name.to_str());
        let file = name.ok_or_else(|| StoreError::Broken("a file without a name".to_owned()))?;
        let record = Record { meta: meta.clone(), file: file.to_owned() };
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|old| old.meta.last_log_id > meta.last_log_id) {
            return Ok(false);
        }
        batch.put(&self.log, SNAPSHOT, encode("the record of the current snapshot", &record)?);
        self.db.write(&batch, WriteOptions::durability(Durability::Sync))?;
        let old = current.replace(record);
        then()?;
        if let Some(old) = old {
            // What cannot be removed now is removed by the next open.
            let _ = std::fs::remove_file(self.snapshots.join(old.file));
        }
        Ok(true)
    }
}

/// Builds a snapshot of the moment when it was made.
pub struct Builder<C: TypeConfig> {
    shared: Arc<Shared<C>>,
    view: Option<View>,
}

impl<C: TypeConfig> Builder<C> {
    pub(crate) fn new(shared: Arc<Shared<C>>) -> Self {
        let view = Some(Reader::new(shared.clone()).view());
        Self { shared, view }
    }
}

impl<C: TypeConfig> RaftSnapshotBuilder<C> for Builder<C> {
    async fn build_snapshot(&mut self) -> Result<Snapshot<C>, StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let view = self.view.take().unwrap_or_else(|| Reader::new(shared.clone()).view());
        let built = blocking(move || build(&shared, &view)).await;
        built.map_err(|error| error.at(ErrorSubject::Snapshot(None), ErrorVerb::Write))
    }
}

fn build<C: TypeConfig>(shared: &Shared<C>, view: &View) -> Result<Snapshot<C>, StoreError> {
    let applied = view.snapshot.get(&view.keyspace, APPLIED)?;
    let applied: AppliedOf<C> = applied
        .map(|bytes| crate::codec::decode("what was applied", &bytes))
        .transpose()?
        .unwrap_or_default();
    let unique = shared.unique();
    let path = shared.snapshots.join(format!("built-{unique}"));
    let mut writer = view.keyspace.sst_writer(&path)?;
    let mut empty = true;
    for pair in view.snapshot.iter(&view.keyspace) {
        let (key, value) = pair?;
        writer.put(key, value)?;
        empty = false;
    }
    if empty {
        writer.put(APPLIED, encode("what was applied", &applied)?)?;
    }
    writer.finish()?;
    let index = applied.last.as_ref().map_or(0, |last| last.index);
    let meta = SnapshotMeta {
        last_log_id: applied.last,
        last_membership: applied.membership,
        snapshot_id: format!("{index}-{unique}"),
    };
    let snapshot = Box::new(SnapshotFile::open(&path)?);
    if !shared.replace(&meta, &path, Batch::new(), || Ok(()))? {
        // A newer one was installed meanwhile. This one stays readable while it is open.
        let removed = std::fs::remove_file(&path);
        removed.map_err(StoreError::file("cannot remove the snapshot", &path))?;
    }
    Ok(Snapshot { meta, snapshot })
}

/// Makes a received snapshot the state.
pub fn install<C: TypeConfig>(
    shared: &Shared<C>,
    meta: MetaOf<C>,
    received: &Path,
) -> Result<AppliedOf<C>, StoreError> {
    let path = adopt(shared, received)?;
    let number = get::<u64>(&shared.log, STATE, "the number of the state")?.unwrap_or(0) + 1;
    let prepared = prepare(shared, &meta, &path, number).inspect_err(|_| {
        let _ = std::fs::remove_file(&path); // no record names it
    });
    let (keyspace, applied) = prepared?;
    let mut batch = Batch::new();
    batch.put(&shared.log, STATE, encode("the number of the state", &number)?);
    let swap = || {
        let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *state, keyspace);
        drop(state);
        Ok(shared.db.drop_keyspace(&old)?)
    };
    // If this fails, its outcome may be unknown, so the file and the keyspace stay: the next open
    // removes those that are not recorded.
    if !shared.replace(&meta, &path, batch, swap)? {
        let why = format!("snapshot {} is older than the current one", meta.snapshot_id);
        return Err(StoreError::Broken(why));
    }
    Ok(applied)
}

/// Ingests a snapshot into a new keyspace. Returns that, and what was applied there.
fn prepare<C: TypeConfig>(
    shared: &Shared<C>,
    meta: &MetaOf<C>,
    path: &Path,
    number: u64,
) -> Result<(Keyspace, AppliedOf<C>), StoreError> {
    if let Ok(leftover) = shared.db.keyspace(&state_name(number)) {
        // Of an install that failed.
        shared.db.drop_keyspace(&leftover)?;
    }
    let keyspace = shared.db.create_keyspace(&state_name(number), KeyspaceOptions::new())?;
    ingest(&keyspace, path)?;
    let applied: AppliedOf<C> = get(&keyspace, APPLIED, "what was applied")?.unwrap_or_default();
    if applied.last != meta.last_log_id {
        shared.db.drop_keyspace(&keyspace)?;
        let why = format!(
            "{} holds another state than that of its snapshot {}: it was not installed",
            path.display(),
            meta.snapshot_id
        );
        return Err(StoreError::Broken(why));
    }
    Ok((keyspace, applied))
}

/// Brings a file into the folder of this node's snapshots, if it is not there.
fn adopt<C: TypeConfig>(shared: &Shared<C>, received: &Path) -> Result<PathBuf, StoreError> {
    if received.parent() == Some(&*shared.snapshots) {
        let folder = std::fs::File::open(&shared.snapshots).and_then(|folder| folder.sync_all());
        folder.map_err(StoreError::file("cannot sync the folder", &shared.snapshots))?;
        return Ok(received.to_owned());
    }
    let path = shared.snapshot_path("received");
    let copied =
        std::fs::copy(received, &path).and_then(|_| std::fs::File::open(&path)?.sync_all());
    copied.map_err(StoreError::file("cannot copy the snapshot to", &path))?;
    let folder = std::fs::File::open(&shared.snapshots).and_then(|folder| folder.sync_all());
    folder.map_err(StoreError::file("cannot sync the folder", &shared.snapshots))?;
    Ok(path)
}

/// Ingests a second name of the file, if the file system has them: it is linked, not copied, and
/// the first name stays as the current snapshot.
fn ingest(keyspace: &Keyspace, path: &Path) -> Result<(), StoreError> {
    let second = path.with_extension("ingest");
    match std::fs::hard_link(path, &second) {
        Ok(()) => {
            let ingested = keyspace.ingest_with([&second], IngestOptions::moving());
            // Gone after a success; else what is left is removed by the next open.
            let _ = std::fs::remove_file(&second);
            ingested?;
        }
        Err(_) => {
            keyspace.ingest([path])?;
        }
    }
    Ok(())
}
