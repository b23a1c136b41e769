//! Makes the result of a finished job part of its tree: edit → manifest → new version → dead files.
//!
//! Requests queue up; one background thread takes all waiting requests and installs them as a
//! group:
//! 1. New files: their directory entries are synced. Readers are opened, except for those that jobs
//!    handed over.
//! 2. Flushes: the WAL is synced up to its end. Otherwise one half of a batch could be durable in
//!    an SST of one keyspace, and the other half, of another keyspace, could be lost with the WAL.
//!    The entries that a flush left in memory (`write/keep`) are in the WAL by then, and so are the
//!    values to which it refers (`job/logged`). The sync also makes them durable.
//! 3. The edits are applied to the current versions, which checks the changed parts. In debug
//!    builds, and with the feature `invariants`, the whole trees are checked, also by the shape.
//! 4. They are appended to the manifest and synced, once for the group.
//! 5. The new versions become visible; flushed memtables leave their trees in the same change of
//!    the view.
//! 6. Files that are in no tree any more become zombies; WAL files without unflushed entries are
//!    recycled.
//!
//! Failure before step 4: nothing has changed, and the store is latched. Failure in step 4: it is
//! unknown whether the edit is durable, so nothing is deleted and the store is latched; a reopen
//! finds out.
//!
//! If the device is too full for step 4, the outcome is also unknown: nothing is deleted, and the
//! requests stay at the head of the queue, with the files and memtables of their jobs. When there
//! is space, the same edits are appended again, in the place of the failed append
//! (`disk/manifest`). So after a crash at any time the manifest either contains the edits or not,
//! and the files for both states exist. Only an ingest does not wait: its edits are cut off the
//! manifest and withdrawn ([`Installer::withdraw_ingest`]).
//!
//! Threads and locks: `leader` is only taken with `try_lock`, because it is held over file calls.
//! If it is taken, its holder also handles the new request.

pub(crate) mod dead_files;
mod evict;
pub(crate) mod keyspaces;
mod snapshot;
mod wals;

use crate::catalog::Catalog;
use crate::job::Request;
use crate::log::Log;
use crate::memtable::Memtable;
use crate::read::Reader;
use crate::read::view::{TreeView, Views};
use crate::shared::{Shared, Watch};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, Race, races};
use dead_files::DeadFiles;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::edit::Change;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{
    Error, FileMeta, JobId, MemtableId, Micros, Result, Seq, TreeId, Version, Violation,
};
use vlsm_disk::manifest::{self, Manifest, Record, State};
use vlsm_disk::sst::{sst_path, sst_paths};
use vlsm_policy::Shape;

/// The state that the leader of a group holds.
pub(crate) struct Leader {
    manifest: Manifest,
    /// The state of the store that the manifest records.
    state: State,
}

impl Leader {
    /// The state of the store that the manifest records.
    pub fn state(&self) -> &State {
        &self.state
    }
}

/// The held leadership. Releasing it wakes the threads that wait for it; a panic latches the store
/// before that.
struct Leading<'a> {
    held: Option<MutexGuard<'a, Leader>>,
    watch: Option<Watch<'a>>,
    shared: &'a Shared,
}

impl Deref for Leading<'_> {
    type Target = Leader;
    fn deref(&self) -> &Leader {
        self.held.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Leading<'_> {
    fn deref_mut(&mut self) -> &mut Leader {
        self.held.as_mut().expect("held until dropped")
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.watch.take();
        self.held.take();
        if !races(Race::LeadNoNotify) {
            self.shared.channel.made_room();
        }
    }
}

/// Installs changes of trees.
pub(crate) struct Installer {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    views: Arc<Views>,
    log: Arc<Log>,
    catalog: Arc<Catalog>,
    /// Checks whole trees, in debug builds.
    shape: Arc<dyn Shape>,
    dead: DeadFiles,
    queue: Mutex<Vec<Request>>,
    leader: Mutex<Leader>,
    snapshotting: AtomicBool,
    /// Whether requests wait for space in the manifest.
    waiting: AtomicBool,
    /// Held by an ingest, by a change of keyspaces, and by a checkpoint until its end is fixed. It
    /// is only taken with `try_lock`.
    ingests: Mutex<()>,
}

/// The parts of the store that an installer uses.
pub(crate) struct Parts {
    pub shared: Arc<Shared>,
    pub reader: Arc<Reader>,
    pub log: Arc<Log>,
    pub catalog: Arc<Catalog>,
    pub shape: Arc<dyn Shape>,
}

/// While this is held no files are ingested. Dropping it wakes waiters.
pub(crate) struct WithoutIngests<'a> {
    held: Option<MutexGuard<'a, ()>>,
    shared: &'a Shared,
}

impl Drop for WithoutIngests<'_> {
    fn drop(&mut self) {
        self.held.take();
        self.shared.channel.made_room();
    }
}

impl Installer {
    /// Builds the installer from its parts, the manifest and the manifest's state.
    pub fn new(parts: Parts, (manifest, state): (Manifest, State)) -> Self {
        let Parts { shared, reader, log, catalog, shape } = parts;
        Self {
            shared,
            views: reader.views().clone(),
            reader,
            log,
            catalog,
            shape,
            dead: DeadFiles::default(),
            queue: Mutex::default(),
            leader: Mutex::new(Leader { manifest, state }),
            snapshotting: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            ingests: Mutex::default(),
        }
    }

    /// Whether requests wait for space in the manifest.
    pub fn waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// The SSTs that are in no tree any more.
    pub fn dead(&self) -> &DeadFiles {
        &self.dead
    }

    /// Waits until no files are being ingested. No ingest begins while the result is held.
    pub fn without_ingests(&self) -> Result<WithoutIngests<'_>> {
        loop {
            let epoch = self.shared.channel.room_epoch();
            self.shared.health.check()?;
            if let Some(held) = self.ingests.try_lock() {
                return Ok(WithoutIngests { held: Some(held), shared: &self.shared });
            }
            self.shared.channel.wait_for_room(epoch, None);
        }
    }

    /// Waits for the leadership and makes a change while no other thread changes the manifest. Not
    /// for latency paths.
    pub fn alone<R>(self: &Arc<Self>, change: impl FnOnce(&mut Leader) -> Result<R>) -> Result<R> {
        loop {
            let epoch = self.shared.channel.room_epoch();
            self.shared.health.check_running()?;
            if let Some(mut leader) = self.lead() {
                let result = change(&mut leader);
                drop(leader);
                self.install_all();
                return result;
            }
            self.shared.channel.wait_for_room(epoch, None);
        }
    }

    /// Queues requests that are installed together: all of them or none.
    pub fn submit(self: &Arc<Self>, requests: impl IntoIterator<Item = Request>) {
        self.queue.lock().extend(requests);
        let installer = self.clone();
        self.shared.in_background(move || installer.install_all());
    }

    /// Installs the queued requests, unless another thread does. The leader checks the queue again
    /// after it released the leadership, so no request of a thread that found the leadership taken
    /// stays in the queue.
    pub fn install_all(self: &Arc<Self>) {
        loop {
            let Some(mut leader) = self.lead() else { return };
            let requests = std::mem::take(&mut *self.queue.lock());
            if !requests.is_empty() && !self.install_or_put_back(&mut leader, requests) {
                return;
            }
            drop(leader);
            self.snapshot_manifest();
            if self.queue.lock().is_empty() || races(Race::InstallNoSecondLook) {
                break;
            }
        }
        self.reader.take_back();
        self.remove_dead();
        self.shared.fill_arenas();
        self.shared.events.write_log();
    }

    /// Returns false if there is no space; the requests then wait in the queue.
    fn install_or_put_back(self: &Arc<Self>, leader: &mut Leader, requests: Vec<Request>) -> bool {
        let in_use = |request: &Request| {
            leader.state.trees.contains_key(&request.tree) || planted::is(Bug::GoneInstalled)
        };
        let (requests, gone): (Vec<_>, Vec<_>) = requests.into_iter().partition(in_use);
        for request in &gone {
            // Its keyspace was cleared or dropped while the job ran.
            self.remove_outputs(request);
            self.shared.channel.job_ended(request.job, request.tree);
        }
        if requests.is_empty() {
            self.waiting.store(false, Ordering::Release);
            return true;
        }
        // Requests that wait for space may already be in the manifest.
        let begun = self.waits();
        let result = self.install_group(leader, &requests);
        if matches!(result, Err(Error::Closed)) && !begun {
            requests.iter().for_each(|request| self.remove_outputs(request));
        }
        let refused = matches!(result, Err(Error::NoSpace { .. }));
        self.waiting.store(refused, Ordering::Release);
        if refused {
            self.queue.lock().splice(0..0, requests);
        } else {
            for request in &requests {
                self.shared.channel.job_ended(request.job, request.tree);
            }
        }
        if let Err(error) = result {
            self.shared.failed(error);
        }
        !refused
    }

    /// Withdraws the edits of the running ingest if a full device refused them: they have no
    /// effect, now or after a crash. Returns false if none of them was refused, or if they are
    /// being installed; the result of that install then decides.
    pub fn withdraw_ingest(self: &Arc<Self>) -> Result<bool> {
        if !self.waits() {
            return Ok(false);
        }
        let Some(mut leader) = self.lead() else { return Ok(false) };
        let (ours, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *self.queue.lock()).into_iter().partition(is_ingest);
        let found = !ours.is_empty();
        let forgotten = if found { leader.manifest.forget_refused() } else { Ok(()) };
        {
            let mut queue = self.queue.lock();
            self.waiting.store(!others.is_empty(), Ordering::Release);
            queue.splice(0..0, others);
        }
        drop(leader);
        let forgotten = forgotten.map_err(|error| self.shared.failed(error));
        self.install_all();
        forgotten.map(|()| found)
    }

    /// Removes the output files of a job whose store was closed before their install, or whose tree
    /// is no longer in use.
    fn remove_outputs(&self, request: &Request) {
        let inputs = || request.inputs.iter().map(|file| file.number);
        for change in &request.edit.changes {
            if let Change::Add { table, .. } = change
                && !inputs().any(|input| input == table.file.number)
            {
                for path in sst_paths(&self.shared.dir, &table.file) {
                    // If this fails, the next open finds and removes the file.
                    let _ = self.shared.env.fs().remove(&path);
                }
            }
        }
    }

    /// Replaces the state by a later one that another process recorded.
    pub fn follow(&self, state: State) {
        loop {
            let epoch = self.shared.channel.room_epoch();
            if let Some(mut leader) = self.lead() {
                // The old state is dropped after the leadership is released.
                let _old = std::mem::replace(&mut leader.state, state);
                drop(leader);
                return;
            }
            self.shared.channel.wait_for_room(epoch, None);
        }
    }

    /// Takes the leadership, if it is free.
    fn lead(&self) -> Option<Leading<'_>> {
        let held = Some(self.leader.try_lock()?);
        Some(Leading { held, watch: Some(self.shared.watch()), shared: &self.shared })
    }

    fn install_group(self: &Arc<Self>, leader: &mut Leader, requests: &[Request]) -> Result<()> {
        self.shared.health.check_running()?;
        self.open_readers(requests)?;
        let flushes = requests.iter().any(|request| !request.flushed.is_empty());
        let unsynced =
            planted::is(Bug::KeptUnsynced) && requests.iter().any(|request| request.keeps);
        if flushes && !unsynced && !planted::is(Bug::WalSyncSkipped) {
            self.log.sync_all()?;
        }
        let begun = self.shared.env.now();
        let versions = self.next_versions(&leader.state, requests)?;
        let checked = self.shared.env.now();
        let min_wal = self.log.oldest_needed(&self.views, &flushed_by(requests));
        let mut records: Vec<Record> = requests
            .iter()
            .map(|request| Record::Edit(request.tree, request.edit.clone()))
            .collect();
        let mut numbers = self.manifest_numbers(min_wal);
        // The number of ingested files is published after their install.
        let added = requests.iter().flat_map(|request| &request.edit.changes).filter_map(seq_of);
        numbers.last_seq = added.fold(numbers.last_seq, Ord::max);
        let mut told = vec![Record::Numbers(numbers), Record::Wals(self.log.listed(min_wal))];
        told.extend(self.shared.clock.to_record().map(Record::Clock));
        records.extend_from_slice(&told);
        if planted::is(Bug::InputsDeletedEarly) {
            let paths =
                requests.iter().flat_map(gone).map(|f| sst_path(&self.shared.dir, f.number));
            paths.for_each(|path| drop(self.shared.env.fs().remove(&path)));
        }
        self.append(leader, &records)?;
        let durable = self.shared.env.now();
        for record in &told {
            leader.state.apply(record).map_err(violated)?;
        }
        for (id, version) in versions {
            let before = leader.state.trees.insert(id, Version::clone(&version));
            assert!(before.is_some(), "a version of {id}, which the manifest does not know");
            let flushed: Vec<MemtableId> = requests
                .iter()
                .filter(|request| request.tree == id)
                .flat_map(|request| request.flushed.iter().copied())
                .collect();
            self.views.update(id, |tree| {
                let left = tree.immutables.iter().filter(|sealed| flushed.contains(&sealed.id()));
                left.for_each(|sealed| sealed.note_gone());
                let immutables = without(&tree.immutables, &flushed);
                let gone = tree.immutables.len() - immutables.len();
                assert!(gone == flushed.len(), "{gone} of {flushed:?} were there");
                TreeView { immutables, version, ..tree.clone() }
            });
        }
        let cache = self.reader.tables().cache();
        requests.iter().for_each(|request| cache.forget(&request.rewritten));
        self.shared.counters.installs.add(requests.len() as u64);
        let micros = |took: Duration| Micros(took.as_micros() as u64);
        self.shared.emit(Event::Installed {
            jobs: requests.len() as u64,
            tables: requests.iter().map(|request| request.edit.changes.len() as u64).sum(),
            applied: micros(checked - begun + self.shared.env.now().saturating_sub(durable)),
            written: micros(durable - checked),
        });
        self.dead.bury(requests.iter().flat_map(gone));
        self.log.release(min_wal);
        Ok(())
    }

    /// Appends records to the manifest. A failure latches the store, because the manifest takes no
    /// further change; only a full device does not.
    fn append(&self, leader: &mut Leader, records: &[Record]) -> Result<()> {
        let before = leader.manifest.len();
        leader.manifest.append(records).map_err(|error| match error {
            Error::NoSpace { .. } => error,
            error => self.shared.latch(error),
        })?;
        self.shared.counters.manifest_bytes.add(leader.manifest.len().saturating_sub(before));
        Ok(())
    }

    /// Makes the directory entries of new files durable. Opens the readers that tables do not have,
    /// before the first reads.
    fn open_readers(&self, requests: &[Request]) -> Result<()> {
        for change in requests.iter().flat_map(|request| &request.edit.changes) {
            if let Change::Add { table, .. } = change
                && !table.attachment.is_set()
            {
                self.reader.tables().reader(table)?;
            }
        }
        let any = requests.iter().any(|request| request.makes_files);
        if any && !planted::is(Bug::DirectorySyncSkipped) {
            let synced = self.shared.env.fs().sync_dir(&self.shared.dir);
            synced.map_err(|error| {
                Error::io_unknown("cannot sync folder", &self.shared.dir, error)
            })?;
        }
        Ok(())
    }

    /// The versions that result from the requests, each checked.
    fn next_versions(
        &self,
        state: &State,
        requests: &[Request],
    ) -> Result<BTreeMap<TreeId, Arc<Version>>> {
        let mut versions: BTreeMap<TreeId, Version> = BTreeMap::new();
        for request in requests {
            let current =
                match versions.get(&request.tree).or_else(|| state.trees.get(&request.tree)) {
                    Some(version) => version,
                    None => return Err(violated(Violation(format!("no tree {}", request.tree)))),
                };
            let next = request.edit.apply(current).map_err(violated)?;
            // `apply` checked the changed parts; a full check costs O(tables).
            if cfg!(any(feature = "invariants", debug_assertions)) {
                let sound = next.check().and_then(|()| self.shape.check(&next));
                sound.map_err(violated)?;
            }
            versions.insert(request.tree, next);
        }
        Ok(versions.into_iter().map(|(id, version)| (id, Arc::new(version))).collect())
    }

    pub fn manifest_numbers(&self, min_wal: u64) -> manifest::Numbers {
        let (next_file, next_run) = self.shared.numbers.peek();
        let last_seq = self.views.visible();
        manifest::Numbers { next_file, next_run, min_wal, last_seq, ..Default::default() }
    }

    /// Removes files that no reader sees any more.
    pub fn remove_dead(&self) {
        if self.shared.health.is_running() {
            self.dead.remove(&self.shared);
        }
    }
}

/// The memtables that these requests remove from their trees.
fn flushed_by(requests: &[Request]) -> Vec<MemtableId> {
    requests.iter().flat_map(|request| request.flushed.iter().copied()).collect()
}

fn without(memtables: &[Arc<Memtable>], flushed: &[MemtableId]) -> Vec<Arc<Memtable>> {
    memtables.iter().filter(|memtable| !flushed.contains(&memtable.id())).cloned().collect()
}

/// Whether the request comes from an ingest, which is no job.
fn is_ingest(request: &Request) -> bool {
    request.job == JobId(0)
}

/// The largest sequence number of an added table.
fn seq_of(change: &Change) -> Option<Seq> {
    match change {
        Change::Add { table, .. } => Some(table.file.seq_max),
        Change::Remove { .. } => None,
    }
}

/// The files that a request removes and does not add again.
fn gone(request: &Request) -> impl Iterator<Item = Arc<FileMeta>> {
    let gives = |change: &Change, file: &Arc<FileMeta>| match change {
        Change::Add { table, .. } => table.file.number == file.number,
        Change::Remove { .. } => false,
    };
    let stays =
        move |file: &Arc<FileMeta>| request.edit.changes.iter().any(|change| gives(change, file));
    request.inputs.iter().filter(move |file| !stays(file)).cloned()
}

fn violated(violation: Violation) -> Error {
    Error::Internal(format!("an edit would break the tree: {violation}"))
}
