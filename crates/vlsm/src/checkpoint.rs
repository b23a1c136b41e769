//! Checkpoints: a consistent copy of a store in another folder, while the store stays in use.
//!
//! 1. *The moment* ([`freeze`]) is fixed in the sequencing step, while no install and no release of
//!    WALs is running. The checkpoint keeps the manifest's state, whose references keep its SSTs,
//!    and pins the oldest WAL that the memtables need.
//! 2. The WAL is written up to the batches sequenced at that moment. The WAL of the copy ends where
//!    the written WAL ends after that. It may contain later batches; the copy is then of a slightly
//!    later moment.
//! 3. WALs are always copied, because a linked file would be overwritten when the WAL is recycled.
//!    They are copied first, because the store keeps its whole WAL until then.
//! 4. SSTs are linked, or copied where the file system cannot link. The WALs to which they refer
//!    are copied, for the reason of step 3, each once.
//! 5. All files are synced; then a new manifest, a snapshot of the state, makes the folder a store.
//!
//! The target's LOCK is held throughout, so no other process copies into the folder or opens it.
//!
//! No files are ingested and no keyspaces created between step 1 and the end of step 2. Otherwise a
//! later batch could be in the WAL of the copy while an earlier ingest or keyspace is not in its
//! state.
//!
//! The copy is consistent. The state's tables contain only batches sequenced before the moment, and
//! the WALs from the oldest one on contain, in order, all batches that are not in the tables. So a
//! recovery of the copy finds exactly a prefix of the batches.
//!
//! If another process writes the store, the moment is that of a look (`follow`): the state, the
//! batches that are in no SST, and the SSTs held open. The batches go into one new WAL of the copy.
//!
//! A crash leaves a folder without `CURRENT`, which is not a store; after a failure the new files
//! are removed. Threads: any; the calls block. No lock is held over a file call except, for a short
//! time, the leadership of installs.

use crate::copies::{copy, copy_open, link, link_held};
use crate::engine::Engine;
use crate::follow::{Look, alone, look_from, patiently, state_of};
use crate::open::enter_read_only;
use crate::paths::{absolute, check_apart};
use crate::read::table_cache::Held;
use crate::recovery::recover_options;
use crate::shared::Shared;
use crate::verify::{Severity, VerifyReport, verify_locked};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{ByteCount, Error, FileMeta, FileNumber, Result, Seq};
use vlsm_disk::Env;
use vlsm_disk::env_real::RealEnv;
use vlsm_disk::fs::{Fs, Lock};
use vlsm_disk::manifest::{self, Manifest, State};
use vlsm_disk::sst::{sst_path, values_path};
use vlsm_disk::wal::reader::recover;
use vlsm_disk::wal::{Rewrite, wal_path};

/// The name of the file that is locked in every store.
const LOCK: &str = "LOCK";

/// The files that a checkpoint or a restore created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CopyReport {
    /// SSTs of the new store.
    pub ssts: u64,
    /// SSTs that were copied because the file system could not link them.
    pub copied: u64,
    /// WAL files, all copied.
    pub wals: u64,
    /// Bytes of all SSTs and WALs.
    pub bytes: ByteCount,
}

/// Makes a copy of the store in a new or empty folder.
pub(crate) fn checkpoint(engine: &Engine, target: &Path) -> Result<CopyReport> {
    let Engine { shared, log, installer, writer, .. } = engine;
    if engine.reader.views().follows() {
        return checkpoint_beside(engine, target);
    }
    shared.health.check()?;
    let target = absolute(&**shared.env.fs(), target)?;
    if writer.wrote_unlogged() {
        // Writes that are not in the WAL are copied as SSTs.
        writer.flush_all()?;
    }
    let mut copy = Copy::begin(&shared.env, &shared.dir, &target)?;
    let alone = installer.without_ingests()?;
    let (state, first, position) = freeze(engine)?;
    let result = log.write_through(position).and_then(|()| {
        let (last, len) = log.written_end();
        drop(alone);
        let wals = log.live_numbers().into_iter();
        let wals = wals.filter(|number| (first.0..=last).contains(number));
        let end = |number| (number, if number == last { len } else { u64::MAX });
        copy.wals(&wals.map(end).collect::<Vec<_>>())
    });
    log.unpin(Some(first));
    result.and_then(|()| copy.finish(state, &Held::new())).inspect_err(|_| copy.undo())
}

/// Makes a copy of a store that another process writes, as of the moment of a look. The batches
/// that are in no SST are copied into one new WAL.
fn checkpoint_beside(engine: &Engine, target: &Path) -> Result<CopyReport> {
    let Shared { env, dir, .. } = &*engine.shared;
    let fs = &**env.fs();
    let target = absolute(fs, target)?;
    let seen = alone(engine)?;
    let mut copy = Copy::begin(env, dir, &target)?;
    let looked = patiently(env, dir, || {
        let (mut state, place) = state_of(engine)?;
        let number = state.numbers.next_file;
        state.numbers.next_file += 1;
        let mut rewrite = Rewrite::begin(fs, &target, number, env.random())?;
        match look_from(engine, &seen, (state, place), Some(&mut rewrite)) {
            Ok(look) => Ok((look, rewrite)),
            Err(failure) => {
                rewrite.give_up();
                Err(failure)
            }
        }
    });
    let result = looked.and_then(|(look, rewrite)| {
        let Look { state, last_seq, held, .. } = look;
        let number = rewrite.number();
        copy.made.push(rewrite.path().to_owned());
        let path = wal_path(&target, number);
        let wal = copy.make(&path, || rewrite.finish(0, Seq(last_seq.0 + 1)))?;
        copy.report.wals += 1;
        copy.report.bytes += ByteCount(wal.capacity());
        copy.wals.push(number);
        copy.finish(state, &held)
    });
    result.inspect_err(|_| copy.undo())
}

/// Fixes the moment of a checkpoint: the manifest's state, the oldest WAL that it needs (pinned
/// from here on), and the WAL position up to which batches are sequenced.
///
/// While the leadership is held no install is running. So the memtables of the view contain all
/// data that is not in the state's tables, and no WAL that they need is about to be released.
fn freeze(engine: &Engine) -> Result<(State, FileNumber, u64)> {
    let Engine { shared, reader, log, installer, .. } = engine;
    installer.alone(|leader| {
        shared.health.check()?;
        let mut sequence = log.sequence();
        let view = reader.views().load();
        let memtables = view.trees().flat_map(|tree| tree.immutables.iter().chain([&tree.active]));
        let needed = memtables.filter_map(|memtable| memtable.wal());
        let newest = log.live_numbers().last().map(|number| FileNumber(*number));
        let first = needed.chain(sequence.pinned_wal()).chain(newest).min();
        let first = first.unwrap_or_default();
        sequence.pin_wal(first);
        Ok((leader.state().clone(), first, sequence.tail.appended()))
    })
}

/// Copies a checkpoint, or any closed store, into a new or empty folder, after checking it
/// completely. SSTs are hard-linked where the file system supports it.
///
/// ```
/// # fn main() -> vlsm::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let (path, backup) = (folder.path().join("store"), folder.path().join("backup"));
/// use vlsm::Db;
///
/// let db = Db::open(&path)?;
/// db.put("apple", "green")?;
/// db.checkpoint(&backup)?;
/// db.put("apple", "red")?;
/// db.close()?;
///
/// let restored = folder.path().join("restored");
/// vlsm::restore(&backup, &restored)?;
/// assert_eq!(Db::open(&restored)?.get("apple")?.as_deref(), Some(&b"green"[..]));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Missing`], [`Error::NotAStore`] or [`Error::Locked`] for the checkpoint; the first
/// damage found in it; [`Error::AlreadyExists`] or [`Error::InvalidArgument`] if the target is not
/// empty, or lies in the checkpoint itself; [`Error::Locked`] if another copy into the target is
/// running; [`Error::Io`]. After an error the target's folder is left empty, unless only its last
/// sync failed: then it may already be a store.
pub fn restore(checkpoint: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<CopyReport> {
    let env: Arc<dyn Env> = RealEnv::new();
    restore_with(&env, checkpoint.as_ref(), target.as_ref())
}

/// As [`restore`], in another environment.
///
/// # Errors
/// As [`restore`].
pub fn restore_with(env: &Arc<dyn Env>, from: &Path, target: &Path) -> Result<CopyReport> {
    let (from, target) = (&absolute(&**env.fs(), from)?, &absolute(&**env.fs(), target)?);
    let lock = enter_read_only(env, from)?;
    let mut copy = Copy::begin(env, from, target)?;
    let result = checked(env, from).and_then(|(state, wals)| {
        copy.wals(&wals)?;
        copy.finish(state, &Held::new())
    });
    drop(lock);
    result.inspect_err(|_| copy.undo())
}

/// The contents of a store that is undamaged and not in use: its state, and the number and valid
/// length of each WAL.
fn checked(env: &Arc<dyn Env>, dir: &Path) -> Result<(State, Vec<(u64, u64)>)> {
    sound(verify_locked(env, dir, &mut |_| {})?)?;
    let fs = &**env.fs();
    let mut state = manifest::log::read(fs, dir)?.state;
    let log = recover(fs, dir, recover_options(&state, false, true), &mut |_| Ok(()))?;
    state.numbers.last_seq = state.numbers.last_seq.max(log.seq_floor);
    Ok((state, log.live.iter().map(|live| (live.number, live.len)).collect()))
}

/// The first damage of a report as an error.
fn sound(report: VerifyReport) -> Result<()> {
    let mut findings = report.findings.into_iter();
    match findings.find(|finding| finding.severity == Severity::Damage) {
        None => Ok(()),
        Some(found) => {
            let Some(offset) = found.offset else {
                return Err(Error::corruption(&found.path, 0, found.what));
            };
            Err(Error::corruption(&found.path, offset, found.what))
        }
    }
}

/// A copy of a store, in progress.
struct Copy<'a> {
    env: &'a Arc<dyn Env>,
    from: &'a Path,
    to: &'a Path,
    /// The files created so far.
    made: Vec<PathBuf>,
    /// The numbers of the WALs.
    wals: Vec<u64>,
    report: CopyReport,
    /// Keeps other processes out of the target.
    _lock: Option<Box<dyn Lock>>,
}

impl<'a> Copy<'a> {
    /// Creates the folder, or checks that it is empty, and locks it.
    fn begin(env: &'a Arc<dyn Env>, from: &'a Path, to: &'a Path) -> Result<Self> {
        let fs = &**env.fs();
        check_apart(fs, from, to)?;
        let failed = |error| Error::io("cannot make folder", to, error);
        fs.create_dir_all(to).map_err(failed)?;
        let path = to.join(LOCK);
        // Create nothing in a folder that has other contents. If another copy into it is running,
        // `Locked` is returned instead. A copy begins with its LOCK, so the lock is checked last.
        if let Err(error) = check_empty(fs, to)
            && !fs.exists(&path).map_err(|error| Error::io("cannot look for", &path, error))?
        {
            return Err(error);
        }
        let lock = fs.lock(&path).map_err(|error| Error::io("cannot lock", &path, error))?;
        if lock.is_none() && !planted::is(Bug::CopyUnlocked) {
            return Err(Error::Locked { path: to.to_owned(), holder: fs.lock_holder(&path) });
        }
        // The previous holder of the lock may have created a store here.
        check_empty(fs, to)?;
        let (made, wals, report) = (vec![path], Vec::new(), CopyReport::default());
        Ok(Self { env, from, to, made, wals, report, _lock: lock })
    }

    /// Creates a file. If the copy fails, the file is removed, unless it existed before.
    fn make<R>(&mut self, path: &Path, make: impl FnOnce() -> Result<R>) -> Result<R> {
        let made = make();
        let is_there = |error: &Error| match error {
            Error::Io { source, .. } => source.kind() == ErrorKind::AlreadyExists,
            _ => false,
        };
        if !made.as_ref().is_err_and(is_there) {
            self.made.push(path.to_owned());
        }
        made
    }

    /// Step 3. `wals` holds the number and the valid length of each WAL.
    fn wals(&mut self, wals: &[(u64, u64)]) -> Result<()> {
        let fs = self.env.fs().clone();
        for (number, len) in wals {
            let (from, to) = (wal_path(self.from, *number), wal_path(self.to, *number));
            let copied = self.make(&to, || copy(&*fs, &from, &to, *len))?;
            self.report.bytes += ByteCount(copied);
            self.report.wals += 1;
            self.wals.push(*number);
        }
        Ok(())
    }

    /// Steps 4 and 5. SSTs that are held open may be gone from the folder.
    fn finish(&mut self, state: State, held: &Held) -> Result<CopyReport> {
        let fs = self.env.fs().clone();
        let tables = state.trees.values().flat_map(|version| version.tables());
        let files: BTreeMap<FileNumber, &Arc<FileMeta>> =
            tables.map(|(_, table)| (table.file.number, &table.file)).collect();
        // The copies of WALs to which SSTs refer.
        let mut copied: BTreeMap<u64, PathBuf> = BTreeMap::new();
        for (number, file) in &files {
            let (from, to) = (sst_path(self.from, *number), sst_path(self.to, *number));
            let linked = self.make(&to, || match held.get(&(*number, file.uid)) {
                Some(held) => link_held(&*fs, &*held.file, &from, &to),
                None => link(&*fs, &from, &to),
            })?;
            self.report.copied += u64::from(!linked);
            self.report.ssts += 1;
            self.report.bytes += file.bytes;
            for wal in &file.wals {
                let (from, to) = (values_path(&from, *wal), values_path(&to, *wal));
                if let Some(other) = copied.get(wal) {
                    self.make(&to, || link(&*fs, other, &to))?;
                    continue;
                }
                let held = held.get(&(*number, file.uid)).and_then(|held| held.values_in(*wal));
                let bytes = self.make(&to, || match held {
                    Some(held) => copy_open(&*fs, &*held, &from, &to),
                    None => copy(&*fs, &from, &to, u64::MAX),
                })?;
                self.report.wals += 1;
                self.report.bytes += ByteCount(bytes);
                copied.insert(*wal, to);
            }
        }
        drop(files);
        if !planted::is(Bug::CopyUnsynced) {
            let synced = fs.sync_dir(self.to);
            synced.map_err(|error| Error::io("cannot sync folder", self.to, error))?;
        }
        let mut state = State { store_uid: self.env.random(), ..state };
        state.numbers.min_wal = self.wals.first().copied().unwrap_or(state.numbers.min_wal);
        state.wals.clone_from(&self.wals);
        Manifest::begin(self.env, self.to, &state)?;
        Ok(self.report)
    }

    /// Removes the created files, and ignores failures.
    fn undo(&mut self) {
        let names = self.env.fs().read_dir(self.to).unwrap_or_default();
        let manifests = names.into_iter().filter(|name| {
            manifest::manifest_number(name).is_some() || name == Path::new("CURRENT.tmp")
        });
        self.made.extend(manifests.map(|name| self.to.join(name)));
        if self.env.fs().exists(&self.to.join(manifest::CURRENT)).unwrap_or(true) {
            // The folder may already be a store: only the last sync failed.
            return;
        }
        // The LOCK is removed last.
        for path in self.made.drain(..).rev() {
            let _ = self.env.fs().remove(&path);
        }
    }
}

/// Refuses a folder that is not empty.
fn check_empty(fs: &dyn Fs, folder: &Path) -> Result<()> {
    let names = fs.read_dir(folder).map_err(|error| Error::io("cannot list", folder, error))?;
    if names.iter().any(|name| name == Path::new(manifest::CURRENT)) {
        return Err(Error::AlreadyExists { path: folder.to_owned() });
    }
    match names.iter().all(|name| name == Path::new(LOCK)) {
        true => Ok(()),
        false => {
            let folder = folder.display();
            let why = format!("{folder} is not empty: name a folder that is new or empty");
            Err(Error::InvalidArgument(why))
        }
    }
}
