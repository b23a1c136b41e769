//! From a finished job to the tree that readers see: edit → manifest → new version → dead files.
//!
//! Requests queue up; one background thread takes all that wait and installs them as a group:
//! 1. New files: their directory entries are synced. Their readers are opened.
//! 2. Flushes: the WAL is synced through everything appended, so that one keyspace's durable SST
//!    never outlives another keyspace's lost half of a batch.
//! 3. The edits are applied to the current versions, which checks what they change. Debug builds
//!    and the feature `invariants` check the whole trees, and have the shape check them.
//! 4. They are appended to the manifest and synced, once for the group.
//! 5. The new versions become visible; flushed memtables leave their trees with the same change of
//!    view.
//! 6. Files that no tree shows any more become zombies; WAL files that hold nothing unflushed are
//!    recycled.
//!
//! Failure before 4: nothing changed but the store is latched. Failure in 4: nobody knows whether
//! the edit is durable, so nothing is deleted and the store is latched; reopening tells.
//!
//! A device that is too full for 4: nobody knows either, so nothing is deleted and the requests
//! stay at the head of the queue, with the files and memtables of their jobs. When there is space
//! the same edits are appended again, in the place of the failed append (`disk/manifest`). So a
//! crash at any time finds a manifest with them or without them, and the files of either. Only an
//! ingest does not wait: its edits are cut off the manifest and given up
//! ([`Engine::withdraw_ingest`]).
//!
//! Threads and locks: `leader` is only ever taken with `try_lock` and held over file calls; whoever
//! finds it taken leaves its request to the holder.

mod wals;

use crate::engine::{Engine, Watch};
use crate::files::{colder, sst_path};
use crate::keyspace::{KeyspaceInfo, KeyspaceOptions, check_name};
use crate::memtable::Memtable;
use crate::read::view::TreeView;
use crate::snapshot::Filtering;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, Slip, slips};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::edit::Change;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{
    Error, FileMeta, FileNumber, JobId, MemtableId, Micros, Result, Seq, TreeId, Version,
    VersionEdit, Violation,
};
use vlsm_disk::manifest::{self, Manifest, Record, SnapshotWriter, State};

/// A finished job.
pub(crate) struct Request {
    pub job: JobId,
    pub tree: TreeId,
    pub edit: VersionEdit,
    /// Memtables whose content is in the edit's tables.
    pub flushed: Vec<MemtableId>,
    /// Held until the new version is visible, where a compaction filter had its say.
    pub _filtering: Option<Arc<Filtering>>,
    /// Files of the tables that the edit removes.
    pub inputs: Vec<Arc<FileMeta>>,
}

/// What the leader of a group holds.
struct Leader {
    manifest: Manifest,
    /// What the manifest says.
    state: State,
}

/// The leadership, held. Letting go of it wakes those who wait for it; a panic latches the store
/// before that.
struct Leading<'a> {
    held: Option<MutexGuard<'a, Leader>>,
    watch: Option<Watch<'a>>,
    engine: &'a Engine,
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
        if !slips(Slip::LeadNoNotify) {
            self.engine.control.made_room();
        }
    }
}

/// The queue of installs.
pub(crate) struct Installer {
    queue: Mutex<Vec<Request>>,
    leader: Mutex<Leader>,
    snapshotting: AtomicBool,
    /// Whether requests wait for space in the manifest.
    waiting: AtomicBool,
    /// Held by who ingests, and by a checkpoint until its end is fixed. Only ever tried.
    pub ingests: Mutex<()>,
}

impl Installer {
    pub fn new(manifest: Manifest, state: State) -> Self {
        let leader = Mutex::new(Leader { manifest, state });
        let (snapshotting, waiting) = (AtomicBool::new(false), AtomicBool::new(false));
        let (queue, ingests) = (Mutex::default(), Mutex::default());
        Self { queue, leader, snapshotting, waiting, ingests }
    }

    /// Whether requests wait for space in the manifest.
    pub fn waits(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Queues a finished job and has a background thread install it.
    pub fn submit_install(self: &Arc<Self>, request: Request) {
        self.submit_installs([request]);
    }

    /// Queues what is installed together: all of it is true, or nothing.
    pub fn submit_installs(self: &Arc<Self>, requests: impl IntoIterator<Item = Request>) {
        self.install.queue.lock().extend(requests);
        self.in_background(Self::install_all);
    }

    /// Installs what is queued, unless somebody else does. Whoever leads looks at the queue again
    /// after it let go, so nothing is left behind by those who found the leadership taken.
    pub fn install_all(self: &Arc<Self>) {
        loop {
            let Some(mut leader) = self.lead() else { return };
            let requests = std::mem::take(&mut *self.install.queue.lock());
            if !requests.is_empty() && !self.install_or_put_back(&mut leader, requests) {
                return;
            }
            drop(leader);
            self.snapshot_manifest();
            if self.install.queue.lock().is_empty() || slips(Slip::InstallNoSecondLook) {
                break;
            }
        }
        self.take_back();
        self.remove_dead();
        self.arenas.fill(|| _ = self.memory.balance());
        self.events.write_log();
    }

    /// False when there is no space: the requests wait in the queue then.
    fn install_or_put_back(self: &Arc<Self>, leader: &mut Leader, requests: Vec<Request>) -> bool {
        // What waits for space may be in the manifest already: nobody knows.
        let begun = self.install.waits();
        let result = self.install_group(leader, &requests);
        if matches!(result, Err(Error::Closed)) && !begun {
            requests.iter().for_each(|request| self.remove_outputs(request));
        }
        let refused = matches!(result, Err(Error::NoSpace { .. }));
        self.install.waiting.store(refused, Ordering::Release);
        if refused {
            self.install.queue.lock().splice(0..0, requests);
        } else {
            for request in &requests {
                self.job_ended(request.job, request.tree);
            }
        }
        if let Err(error) = result {
            self.failed(error);
        }
        !refused
    }

    /// Takes back the edits of the ingest under way, which a full device refused: they are not
    /// true, now or after a crash. False where nothing of them was refused, or they are being
    /// installed: then it comes to be known otherwise.
    pub fn withdraw_ingest(self: &Arc<Self>) -> Result<bool> {
        if !self.install.waits() {
            return Ok(false);
        }
        let Some(mut leader) = self.lead() else { return Ok(false) };
        let (ours, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *self.install.queue.lock()).into_iter().partition(is_ingest);
        let found = !ours.is_empty();
        let forgotten = if found { leader.manifest.forget_refused() } else { Ok(()) };
        {
            let mut queue = self.install.queue.lock();
            self.install.waiting.store(!others.is_empty(), Ordering::Release);
            queue.splice(0..0, others);
        }
        drop(leader);
        let forgotten = forgotten.map_err(|error| self.failed(error));
        self.install_all();
        forgotten.map(|()| found)
    }

    /// Removes the files that a job wrote for a store that was closed before they were installed.
    fn remove_outputs(&self, request: &Request) {
        let inputs = || request.inputs.iter().map(|file| file.number);
        for change in &request.edit.changes {
            if let Change::Add { table, .. } = change
                && !inputs().any(|input| input == table.file.number)
            {
                // Not removed is not lost: the next opening finds and removes it.
                let _ = self.env.fs().remove(&sst_path(&self.dir, table.file.number));
            }
        }
    }

    /// Takes the leadership, if it is free.
    fn lead(&self) -> Option<Leading<'_>> {
        let held = Some(self.install.leader.try_lock()?);
        Some(Leading { held, watch: Some(self.watch()), engine: self })
    }

    fn install_group(self: &Arc<Self>, leader: &mut Leader, requests: &[Request]) -> Result<()> {
        self.health.check_running()?;
        self.open_readers(requests)?;
        let flushes = requests.iter().any(|request| !request.flushed.is_empty());
        if flushes && !planted::is(Bug::WalSyncSkipped) {
            self.sync_wal()?;
        }
        let begun = self.env.now();
        let versions = self.next_versions(&leader.state, requests)?;
        let checked = self.env.now();
        let min_wal = self.min_wal(requests);
        let mut records: Vec<Record> = requests
            .iter()
            .map(|request| Record::Edit(request.tree, request.edit.clone()))
            .collect();
        let mut numbers = self.manifest_numbers(min_wal);
        // That of ingested files is published after their install.
        let added = requests.iter().flat_map(|request| &request.edit.changes).filter_map(seq_of);
        numbers.last_seq = added.fold(numbers.last_seq, Ord::max);
        let mut told = vec![Record::Numbers(numbers), Record::Wals(self.listed_wals(min_wal))];
        told.extend(self.clock.to_record().map(Record::Clock));
        records.extend_from_slice(&told);
        if planted::is(Bug::InputsDeletedEarly) {
            let paths = requests.iter().flat_map(gone).map(|f| sst_path(&self.dir, f.number));
            paths.for_each(|path| drop(self.env.fs().remove(&path)));
        }
        self.append(leader, &records)?;
        let durable = self.env.now();
        for record in &told {
            leader.state.apply(record).map_err(violated)?;
        }
        for (id, version) in versions {
            leader.state.trees.insert(id, Version::clone(&version));
            let flushed: Vec<MemtableId> = requests
                .iter()
                .filter(|request| request.tree == id)
                .flat_map(|request| request.flushed.iter().copied())
                .collect();
            self.views.update(id, |tree| {
                let left = tree.immutables.iter().filter(|sealed| flushed.contains(&sealed.id()));
                left.for_each(|sealed| sealed.note_gone());
                let immutables = without(&tree.immutables, &flushed);
                TreeView { immutables, version, ..tree.clone() }
            });
        }
        self.counters.installs.add(requests.len() as u64);
        let micros = |took: Duration| Micros(took.as_micros() as u64);
        self.emit(Event::Installed {
            jobs: requests.len() as u64,
            tables: requests.iter().map(|request| request.edit.changes.len() as u64).sum(),
            applied: micros(checked - begun + self.env.now().saturating_sub(durable)),
            written: micros(durable - checked),
        });
        self.files.bury(requests.iter().flat_map(gone));
        self.release_wals(min_wal);
        Ok(())
    }

    /// Appends records to the manifest.
    fn append(&self, leader: &mut Leader, records: &[Record]) -> Result<()> {
        let before = leader.manifest.len();
        leader.manifest.append(records)?;
        self.counters.manifest_bytes.add(leader.manifest.len().saturating_sub(before));
        Ok(())
    }

    /// The directory entries of new files become durable, and their readers are opened ahead of the
    /// reads.
    fn open_readers(&self, requests: &[Request]) -> Result<()> {
        let mut any = false;
        for change in requests.iter().flat_map(|request| &request.edit.changes) {
            if let Change::Add { table, .. } = change
                && !table.reader.is_filled()
            {
                self.files.reader(table)?;
                any = true;
            }
        }
        if any && !planted::is(Bug::DirectorySyncSkipped) {
            let synced = self.env.fs().sync_dir(&self.dir);
            synced.map_err(|error| Error::io_unknown("cannot sync folder", &self.dir, error))?;
        }
        Ok(())
    }

    /// The versions that the requests lead to, each checked.
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
            // `apply` checked what the edit changed; to check everything costs O(tables).
            if cfg!(any(feature = "invariants", debug_assertions)) {
                let sound = next.check().and_then(|()| self.control.shape.check(&next));
                sound.map_err(violated)?;
            }
            versions.insert(request.tree, next);
        }
        Ok(versions.into_iter().map(|(id, version)| (id, Arc::new(version))).collect())
    }

    /// Makes the WAL durable up to everything appended so far.
    pub fn sync_wal(self: &Arc<Self>) -> Result<()> {
        let position = self.commit.sequence.lock().tail.appended();
        self.wal.sync_through(self, position)
    }

    pub fn manifest_numbers(&self, min_wal: u64) -> manifest::Numbers {
        let (next_file, next_run) = self.numbers.peek();
        let last_seq = self.commit.visible();
        manifest::Numbers { next_file, next_run, min_wal, last_seq, ..Default::default() }
    }

    /// Lets go of the readers that were used least lately, while they hold more than they may. Not
    /// for latency paths.
    pub fn cool_readers(self: &Arc<Self>) {
        // Who leads now will be followed by another look: readers still do not fit.
        let Some(mut leader) = self.lead() else { return };
        let target = self.memory.readers_target();
        let mut excess = self.memory.readers.get().saturating_sub(target);
        let mut found = false;
        // What was used keeps its reader in the first pass, and loses its mark.
        for _ in 0..2 {
            for (id, version) in &mut leader.state.trees {
                if excess > 0
                    && let Some(next) = colder(version, &mut excess, &self.memory.let_go)
                {
                    found = true;
                    let next = Arc::new(next);
                    *version = Version::clone(&next);
                    self.views.update(*id, |tree| TreeView { version: next, ..tree.clone() });
                }
            }
        }
        let held = if found { u64::MAX } else { self.memory.readers.get() };
        self.memory.uncoolable.store(held, Ordering::Relaxed);
        drop(leader);
        self.install_all();
    }

    /// Removes files that no reader sees any more.
    pub fn remove_dead(&self) {
        if self.health.is_running() {
            self.files.remove_dead();
        }
    }

    /// Begins a new manifest with a snapshot, when the log has grown long. The snapshot is written
    /// without the leader's lock; installs go on meanwhile.
    fn snapshot_manifest(self: &Arc<Self>) {
        if self.install.snapshotting.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.try_snapshot_manifest() {
            self.failed(error);
        }
        self.install.snapshotting.store(false, Ordering::Release);
    }

    fn try_snapshot_manifest(self: &Arc<Self>) -> Result<()> {
        let begun: SnapshotWriter = {
            let Some(mut leader) = self.lead() else { return Ok(()) };
            if !leader.manifest.snapshot_needed(self.options.manifest_bytes.0)
                || !self.health.is_good()
            {
                return Ok(());
            }
            let state = leader.state.clone();
            leader.manifest.begin_snapshot(state)
        };
        let written = begun.write();
        loop {
            let epoch = self.control.room_epoch();
            if let Some(mut leader) = self.lead() {
                let written = written.inspect_err(|_| leader.manifest.abort_snapshot())?;
                let old = leader.manifest.finish_snapshot(written)?;
                self.counters.manifest_bytes.add(leader.manifest.len());
                // Not removed is not lost: the next recovery finds and removes it.
                let _ = self.env.fs().remove(&old);
                return Ok(());
            }
            self.control.wait_for_room(epoch, None);
        }
    }

    /// The moment of a checkpoint: what the manifest says, the oldest WAL that is needed beside it,
    /// which is pinned from here on, and the WAL position up to which batches are sequenced.
    ///
    /// While the leadership is held no install is under way: the memtables of the view are all that
    /// is not in the state's tables, and no WAL is about to be let go that they need.
    pub fn freeze(self: &Arc<Self>) -> Result<(State, FileNumber, u64)> {
        loop {
            let epoch = self.control.room_epoch();
            self.health.check()?;
            if let Some(leader) = self.lead() {
                let moment = {
                    let mut sequence = self.commit.sequence.lock();
                    let view = self.views.load();
                    let memtables =
                        view.trees().flat_map(|tree| tree.immutables.iter().chain([&tree.active]));
                    let needed = memtables.filter_map(|memtable| memtable.wal());
                    let newest = self.live_wals.lock().last().map(|live| FileNumber(live.number));
                    let first = needed.chain(sequence.pinned_wal()).chain(newest).min();
                    let first = first.unwrap_or_default();
                    sequence.pin_wal(first);
                    (leader.state.clone(), first, sequence.tail.appended())
                };
                drop(leader);
                self.install_all();
                return Ok(moment);
            }
            self.control.wait_for_room(epoch, None);
        }
    }

    /// Makes a keyspace. Waits for the manifest; not for latency paths.
    pub fn create_keyspace(
        self: &Arc<Self>,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceInfo>> {
        options.check()?;
        // Nor are copies of the log made: a batch in it may be of trees that are in the state.
        let torn = planted::is(Bug::CopyTreesTorn);
        let _alone = if torn { None } else { Some(self.without_ingests()?) };
        loop {
            let epoch = self.control.room_epoch();
            self.health.check()?;
            if let Some(mut leader) = self.lead() {
                let result = self.add_keyspace(&mut leader, name, options);
                drop(leader);
                self.install_all();
                return result;
            }
            self.control.wait_for_room(epoch, None);
        }
    }

    fn add_keyspace(
        &self,
        leader: &mut Leader,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<Arc<KeyspaceInfo>> {
        if let Some(known) = self.keyspace(name) {
            known.check_options(options)?;
            return Ok(known);
        }
        check_name(name)?;
        let numbers = leader.state.numbers;
        let (id, first) = (numbers.next_keyspace, numbers.next_tree);
        let regions = options.regions(first);
        let grown = manifest::Numbers {
            next_keyspace: id + 1,
            next_tree: first + regions.len() as u64,
            ..manifest::Numbers::default()
        };
        let (name, text) = (name.to_owned(), options.to_text()?);
        let keyspace = manifest::Keyspace { id, name, options: text, regions };
        let info = KeyspaceInfo::of(&self.clock, self.store_uid, &keyspace, &self.extensions)?;
        let info = Arc::new(info);
        // Tried before it is written: what cannot be applied could not be read, either.
        leader.state.check_new(&keyspace).map_err(|why| Error::InvalidArgument(why.0))?;
        let records = [Record::CreateKeyspace(keyspace), Record::Numbers(grown)];
        let added = self.append(leader, &records).or_else(|refused| match refused {
            // Nothing of it may be there after a crash, either.
            Error::NoSpace { .. } => leader.manifest.forget_refused().and(Err(refused)),
            _ => Err(refused),
        });
        added.map_err(|error| self.failed(error))?;
        for record in &records {
            leader.state.apply(record).map_err(violated)?;
        }
        self.add_trees(&info);
        self.keyspaces.lock().push(info.clone());
        Ok(info)
    }
}

fn without(memtables: &[Arc<Memtable>], flushed: &[MemtableId]) -> Vec<Arc<Memtable>> {
    memtables.iter().filter(|memtable| !flushed.contains(&memtable.id())).cloned().collect()
}

/// Whether it comes from an ingest, which is no job.
fn is_ingest(request: &Request) -> bool {
    request.job == JobId(0)
}

/// The largest sequence number of a table that comes.
fn seq_of(change: &Change) -> Option<Seq> {
    match change {
        Change::Add { table, .. } => Some(table.file.seq_max),
        Change::Remove { .. } => None,
    }
}

/// The files that a request takes away and does not give back.
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
