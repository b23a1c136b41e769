//! A disk in memory that loses unsynced data when it crashes.
//!
//! 1. Each file has its bytes as programs see them, and as the device has them. A write changes the
//!    first only, and stays pending; [`File::sync`] brings the second up to date. Directory entries
//!    and [`Fs::sync_dir`] work alike, independently of the files' bytes.
//! 2. [`SimFs::crash`] makes a disk that the machine could find when power returns. Each 512-byte
//!    sector has one of its contents since the last sync. Each file has one of its lengths. Of the
//!    pending changes of directories it has any subset, in order.
//! 3. Mutating calls are counted, and [`SimFs::set_crash_at`] stops the machine before or after one
//!    of them: that call and all later ones fail, until [`SimFs::crash`].
//!
//! 4. [`SimFs::set_capacity`] limits the bytes of all files that have a name. A write beyond the
//!    limit writes as much as fits, then fails as on a full device. The creation of a file fails
//!    when no byte is free. Overwriting always works.
//!
//! Handles and locks from before a crash are invalid. New directories are durable at once. All
//! collections are ordered, so the seed and the sequence of calls determine the disk. No lock is
//! held while the hook of [`SimFs::set_interleave`] runs, at the start and at the end of each call.

use crate::sim_file::{Inode, Random, SimFile};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vlsm_core::LockHolder;
use vlsm_disk::fs::{File, Fs, Lock, OpenOptions};

/// The part of the unsynced data that survives a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMode {
    /// Nothing.
    LoseAll,
    /// Everything.
    KeepAll,
    /// All bytes of files, no directory entries.
    KeepData,
    /// All directory entries, no bytes of files.
    KeepEntries,
    /// A legal subset, chosen by the seed.
    Random,
}

impl CrashMode {
    /// All modes.
    pub const ALL: [Self; 5] =
        [Self::LoseAll, Self::KeepAll, Self::KeepData, Self::KeepEntries, Self::Random];
}

/// The bytes that programs see of a file after its sync failed. The system counts its pages as
/// clean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailedSync {
    /// The bytes that they wrote, as on ext4 and XFS.
    #[default]
    Keeps,
    /// The bytes of the device, as on Btrfs.
    Reverts,
}

/// The call at which the machine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPoint {
    /// The number of the mutating call; the first is 1.
    pub op: u64,
    /// Whether the call takes effect first. Its caller gets an error in any case.
    pub after: bool,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// A disk in memory. Clones are handles of the same disk.
#[derive(Clone, Default)]
pub struct SimFs {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    disk: Mutex<Disk>,
    hook: Mutex<Option<Hook>>,
}

#[derive(Clone, Default)]
pub(super) struct Disk {
    inodes: BTreeMap<u64, Inode>,
    /// Entries as programs see them, and as the device has them.
    entries: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    pending: Vec<EntryChange>,
    dirs: BTreeSet<PathBuf>,
    /// The number of shared holders of each lock; none if it is held exclusively.
    locks: BTreeMap<PathBuf, Option<usize>>,
    next_inode: u64,
    /// The number of crashes. Handles from before the last one are invalid.
    life: u64,
    ops: u64,
    crash_at: Option<CrashPoint>,
    stopped: bool,
    /// The bytes that all files may take; none for no limit.
    capacity: Option<u64>,
}

#[derive(Clone)]
enum EntryChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, u64),
}

impl EntryChange {
    fn dir(&self) -> &Path {
        let (Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _)) = self;
        path.parent().unwrap_or(Path::new(""))
    }

    fn apply(&self, entries: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(path, inode) => {
                entries.insert(path.clone(), *inode);
            }
            Self::Unlink(path) => {
                entries.remove(path);
            }
            Self::Rename(from, to, inode) => {
                if entries.get(from) == Some(inode) {
                    entries.remove(from);
                }
                entries.insert(to.clone(), *inode);
            }
        }
    }
}

/// The error of all calls after the machine has stopped.
fn stopped() -> io::Error {
    io::Error::other("the simulated machine has stopped")
}

impl Disk {
    fn change(&mut self, change: EntryChange) {
        change.apply(&mut self.entries);
        self.pending.push(change);
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        self.entries.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn create(&mut self, path: &Path) -> io::Result<u64> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if !self.is_dir(parent) {
            return Err(ErrorKind::NotFound.into());
        }
        if self.entries.contains_key(path) || self.dirs.contains(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if self.free() == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.next_inode += 1;
        self.inodes.insert(self.next_inode, Inode::default());
        self.change(EntryChange::Link(path.to_owned(), self.next_inode));
        Ok(self.next_inode)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none() || self.dirs.contains(path)
    }

    pub(super) fn inode(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&number).ok_or_else(stopped)
    }

    /// The bytes of all files.
    fn used(&self) -> u64 {
        let named: BTreeSet<&u64> = self.entries.values().collect();
        let len =
            |inode: &u64| self.inodes.get(inode).map_or(0, |inode| inode.bytes().len() as u64);
        named.into_iter().map(len).sum()
    }

    fn free(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    /// The end up to which a file has space, if it is to reach to `end`.
    pub(super) fn room_to(&mut self, inode: u64, end: u64) -> io::Result<u64> {
        let len = self.inode(inode)?.bytes().len() as u64;
        if end <= len || self.capacity.is_none() {
            return Ok(end);
        }
        Ok(end.min(len.saturating_add(self.free())))
    }

    /// The power fails and returns.
    fn crash(&mut self, mode: CrashMode, seed: u64) {
        let mut random = Random(seed);
        for change in std::mem::take(&mut self.pending) {
            let keep = match mode {
                CrashMode::LoseAll | CrashMode::KeepData => false,
                CrashMode::KeepAll | CrashMode::KeepEntries => true,
                CrashMode::Random => random.below(2) == 0,
            };
            if keep {
                change.apply(&mut self.durable);
            }
        }
        self.entries = self.durable.clone();
        let named: BTreeSet<u64> = self.durable.values().copied().collect();
        self.inodes.retain(|inode, _| named.contains(inode));
        for inode in self.inodes.values_mut() {
            match mode {
                CrashMode::LoseAll | CrashMode::KeepEntries => inode.lose(),
                CrashMode::KeepAll | CrashMode::KeepData => {
                    inode.keep();
                    inode.lose();
                }
                CrashMode::Random => inode.keep_some(&mut random),
            }
        }
        self.restart();
    }

    fn restart(&mut self) {
        self.locks.clear();
        self.life += 1;
        self.stopped = false;
        self.crash_at = None;
    }
}

impl SimFs {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another disk with the same durable and pending content. Its locks are free.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut disk = self.shared.disk.lock().clone();
        disk.restart();
        Self { shared: Arc::new(Shared { disk: Mutex::new(disk), hook: Mutex::default() }) }
    }

    /// Cuts the power and returns it. Handles and locks become invalid, and nothing is pending.
    pub fn crash(&self, mode: CrashMode, seed: u64) {
        self.shared.disk.lock().crash(mode, seed);
    }

    /// Ends the process, but not the machine. Handles and locks become invalid, and writes stay
    /// pending.
    pub fn kill(&self) {
        self.shared.disk.lock().restart();
    }

    /// Stops the machine at a future mutating call; none cancels an earlier order.
    pub fn set_crash_at(&self, point: Option<CrashPoint>) {
        self.shared.disk.lock().crash_at = point;
    }

    /// Limits the bytes of all files; none for no limit. The limit holds for clones, but not for
    /// forks.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.disk.lock().capacity = bytes;
    }

    /// The bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.disk.lock().used()
    }

    /// Whether the machine stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.disk.lock().stopped
    }

    /// Number of mutating calls so far.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.shared.disk.lock().ops
    }

    /// Calls `hook` at the start and at the end of each call.
    pub fn set_interleave(&self, hook: Arc<dyn Fn() + Send + Sync>) {
        *self.shared.hook.lock() = Some(hook);
    }

    /// Records that a sync of this file failed: no later sync makes the writes before it durable.
    pub fn fail_sync(&self, path: &Path, after: FailedSync) {
        let mut disk = self.shared.disk.lock();
        if let Some(inode) = disk.entries.get(path).copied()
            && let Some(inode) = disk.inodes.get_mut(&inode)
        {
            inode.fail_sync(after);
        }
    }

    /// All files with their lengths.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        let disk = self.shared.disk.lock();
        let len = |inode| disk.inodes.get(inode).map_or(0, |inode| inode.bytes().len() as u64);
        disk.entries.iter().map(|(path, inode)| (path.clone(), len(inode))).collect()
    }

    /// The bytes of a file.
    #[must_use]
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.shared.disk.lock();
        Some(disk.inodes.get(disk.entries.get(path)?)?.bytes().to_vec())
    }

    /// Feeds a hasher with everything that programs see: folders, files with their bytes, and which
    /// names belong to one file. If nothing is pending, this is all that the disk has.
    pub fn hash_files(&self, hasher: &mut impl Hasher) {
        let disk = self.shared.disk.lock();
        disk.dirs.hash(hasher);
        let mut first_names = BTreeMap::new();
        for (path, inode) in &disk.entries {
            path.hash(hasher);
            match first_names.get(inode) {
                Some(first) => (true, first).hash(hasher),
                None => (false, disk.inodes.get(inode).map(Inode::bytes)).hash(hasher),
            }
            first_names.entry(inode).or_insert(path);
        }
    }

    /// Replaces the bytes of a file, durably, to damage it. Creates the file if it does not exist.
    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        let mut disk = self.shared.disk.lock();
        let inode = match disk.entries.get(path) {
            Some(inode) => *inode,
            None => {
                disk.next_inode += 1;
                disk.next_inode
            }
        };
        disk.entries.insert(path.to_owned(), inode);
        disk.durable.insert(path.to_owned(), inode);
        disk.inodes.insert(inode, Inode::durable(bytes));
    }

    fn held(&self, path: &Path, life: u64) -> Box<dyn Lock> {
        Box::new(SimLock { fs: self.clone(), path: path.to_owned(), life })
    }

    pub(super) fn call<R>(
        &self,
        life: Option<u64>,
        mutates: bool,
        act: impl FnOnce(&mut Disk) -> io::Result<R>,
    ) -> io::Result<R> {
        let hook = self.shared.hook.lock().clone();
        if let Some(hook) = &hook {
            hook();
        }
        let result = self.locked(life, mutates, act);
        if let Some(hook) = &hook {
            hook();
        }
        result
    }

    fn locked<R>(
        &self,
        life: Option<u64>,
        mutates: bool,
        act: impl FnOnce(&mut Disk) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut disk = self.shared.disk.lock();
        if disk.stopped || life.is_some_and(|life| life != disk.life) {
            return Err(stopped());
        }
        if !mutates {
            return act(&mut disk);
        }
        disk.ops += 1;
        let point = disk.crash_at.filter(|point| point.op == disk.ops);
        disk.stopped = point.is_some();
        if point.is_some_and(|point| !point.after) {
            return Err(stopped());
        }
        let result = act(&mut disk);
        if disk.stopped { Err(stopped()) } else { result }
    }
}

impl Fs for SimFs {
    /// Returns the path unchanged, because there is no working directory.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    /// Returns the path unchanged, because there are no symbolic links.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn lock_holder(&self, _: &Path) -> LockHolder {
        LockHolder::Unknown
    }

    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let (inode, life) = self.call(None, options.create_new, |disk| {
            let inode = if options.create_new { disk.create(path)? } else { disk.find(path)? };
            Ok((inode, disk.life))
        })?;
        Ok(Arc::new(SimFile::new(self, inode, life, options)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let there = self.call(None, false, |disk| Ok(disk.is_dir(path)))?;
        if there {
            return Ok(());
        }
        self.call(None, true, |disk| {
            if path.ancestors().any(|part| disk.entries.contains_key(part)) {
                return Err(ErrorKind::NotADirectory.into());
            }
            disk.dirs.extend(path.ancestors().map(Path::to_owned));
            Ok(())
        })
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.call(None, false, |disk| {
            if disk.entries.contains_key(path) {
                return Err(ErrorKind::NotADirectory.into());
            }
            if !disk.is_dir(path) {
                return Err(ErrorKind::NotFound.into());
            }
            let all = disk.entries.keys().chain(&disk.dirs);
            let here = all.filter(|entry| entry.parent() == Some(path));
            Ok(here.filter_map(|entry| entry.file_name()).map(PathBuf::from).collect())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(None, true, |disk| {
            let inode = disk.find(from)?;
            disk.change(EntryChange::Rename(from.to_owned(), to.to_owned(), inode));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(None, true, |disk| {
            disk.find(path)?;
            disk.change(EntryChange::Unlink(path.to_owned()));
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(None, true, |disk| {
            let inode = disk.find(from)?;
            if disk.entries.contains_key(to) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            disk.change(EntryChange::Link(to.to_owned(), inode));
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call(None, true, |disk| {
            if !disk.is_dir(path) {
                return Err(ErrorKind::NotFound.into());
            }
            let pending = std::mem::take(&mut disk.pending);
            let (synced, rest) = pending.into_iter().partition(|change| change.dir() == path);
            disk.pending = rest;
            let synced: Vec<EntryChange> = synced;
            for change in synced {
                change.apply(&mut disk.durable);
            }
            Ok(())
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call(None, false, |disk| Ok(disk.entries.contains_key(path) || disk.is_dir(path)))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        self.call(None, false, |disk| Ok(disk.free()))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let new = self.call(None, false, |disk| Ok(!disk.entries.contains_key(path)))?;
        let taken = self.call(None, new, |disk| {
            if disk.find(path).is_err() {
                disk.create(path)?;
            }
            if disk.locks.contains_key(path) {
                return Ok(None);
            }
            disk.locks.insert(path.to_owned(), None);
            Ok(Some(disk.life))
        })?;
        Ok(taken.map(|life| self.held(path, life)))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let taken = self.call(None, false, |disk| {
            disk.find(path)?;
            match disk.locks.entry(path.to_owned()).or_insert(Some(0)) {
                Some(count) => *count += 1,
                None => return Ok(None),
            }
            Ok(Some(disk.life))
        })?;
        Ok(taken.map(|life| self.held(path, life)))
    }
}

struct SimLock {
    fs: SimFs,
    path: PathBuf,
    life: u64,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut disk = self.fs.shared.disk.lock();
        if disk.life != self.life {
            return;
        }
        match disk.locks.get_mut(&self.path) {
            Some(Some(count)) if *count > 1 => *count -= 1,
            _ => drop(disk.locks.remove(&self.path)),
        }
    }
}

pub(super) fn full_unless(fits: bool) -> io::Result<()> {
    if fits { Ok(()) } else { Err(ErrorKind::StorageFull.into()) }
}
