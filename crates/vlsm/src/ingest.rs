//! Adds SSTs that were written outside the store to a keyspace, atomically.
//!
//! 1. Each file is checked completely; the key ranges of the files must not overlap. Each file is
//!    copied (or linked) durably into the store's folder under a new number, and opened. A crash
//!    from here to step 5 leaves unreferenced files, which the next open removes.
//! 2. Each file gets a place: the deepest level such that neither it nor any level above overlaps
//!    the file, and no job writes into the file's keys there. If there is none, the place is a new
//!    run of L0, the newest. The place is reserved as by a running job, so that no job writes
//!    there, or takes the file as an input before step 6.
//! 3. The ingest raises a barrier in the commit queue (`write/barrier`). The barrier gives all
//!    entries of the files their sequence number, and seals the memtables of trees with a new run
//!    of L0, so that no memtable holds entries both older and newer than the run.
//! 4. The ingest waits for earlier batches. If one of them wrote into the key range of a file for a
//!    deeper level, the ingest ends the barrier and repeats step 2, for L0.
//! 5. The WAL is synced, because the ingest must not survive a crash that loses an earlier batch.
//!    One group of the manifest adds the files to their trees (`install`).
//! 6. The barrier ends, and the files become visible. Readers at earlier sequence numbers skip
//!    them.
//!
//! Memtables that are older than the new run are not flushed first: readers interleave memtables
//! and runs of L0 by age (`read/view`), jobs do not touch the newer part until the older memtables
//! are flushed (`control/tick`), and recovery cuts its memtables at the run (`recovery`).
//!
//! Writes after step 3 become visible only after step 6. So they wait for two syncs and the running
//! installs, whatever the length of the files. If the device is too full for step 5, the ingest
//! fails: its edits are withdrawn, and the barrier ends. Threads: any. One ingest at a time, and
//! none while a checkpoint fixes its moment.

use crate::catalog::KeyspaceInfo;
use crate::control::Slot;
use crate::copies::{copy, link};
use crate::engine::Engine;
use crate::job::Request;
use crate::memtable::Memtable;
use crate::paths::absolute;
use crate::read::view::TreeView;
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::{Event, JobKind};
use vlsm_core::{
    ByteCount, Cursor, Error, FileNumber, JobId, KeyRange, Micros, Place, Result, RunId, RunOrigin,
    Seq, Table, Trailer, TreeId, VersionEdit,
};
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::sst::check::check;
use vlsm_disk::sst::{SstReader, SstSummary, sst_path};
use vlsm_policy::{Busy, Candidate, Class, Inputs};

/// The interval at which busy locks are retried.
const RETRY: Duration = Duration::from_millis(1);

/// Options of an ingest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestOptions {
    /// Link the files into the store where the file system supports it, and remove the originals.
    /// Otherwise they are copied. Default: false.
    pub move_files: bool,
}

impl IngestOptions {
    /// Options that move the files into the store.
    #[must_use]
    pub fn moving() -> Self {
        Self { move_files: true }
    }
}

/// The result of an ingest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct IngestReport {
    /// Ingested files.
    pub files: u64,
    /// Files that were placed in L0, because other data overlapped their key range.
    pub into_l0: u64,
    /// The number of entries of the files.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: ByteCount,
}

/// A file that has been checked.
struct Checked {
    source: PathBuf,
    tree: TreeId,
    summary: SstSummary,
}

/// A file in the store's folder, and its place in the tree.
struct Incoming {
    tree: TreeId,
    number: FileNumber,
    summary: SstSummary,
    reader: Option<SstReader>,
    /// 0 for L0.
    level: u8,
}

impl Incoming {
    fn range(&self) -> KeyRange {
        let properties = &self.summary.properties;
        KeyRange::closed(properties.smallest.clone(), properties.largest.clone())
    }

    fn table(&self, seq: Seq) -> Arc<Table> {
        let meta = self.summary.clone().into_meta(self.number);
        Arc::new(Table::whole(Arc::new(meta.with_global_seq(seq))))
    }

    /// The candidate that reserves the file's place.
    fn candidate(&self) -> Candidate {
        Candidate {
            tree: self.tree,
            frees: Class::L0,
            kind: JobKind::TrivialMove,
            inputs: Inputs {
                memtables: Vec::new(),
                tables: vec![(Place::L0(RunId(0)), self.table(Seq::ZERO))],
            },
            output_level: self.level,
            range: self.range(),
            bytes_in: ByteCount::ZERO,
            bytes_out: ByteCount::ZERO,
            score: 0.0,
            sets_cursor: None,
            conflicts: Vec::new(),
        }
    }
}

/// The files of one ingest. Dropping this removes their copies, unless they were handed over.
struct Copies<'a> {
    shared: &'a Shared,
    files: Vec<Incoming>,
    handed_over: bool,
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        let unused = self.files.iter().filter(|_| !self.handed_over);
        for file in unused {
            // If this fails, the next open finds and removes the file.
            let _ = self.shared.env.fs().remove(&sst_path(&self.shared.dir, file.number));
        }
    }
}

/// The places of one ingest, reserved as by running jobs.
struct Places<'a> {
    shared: &'a Shared,
    jobs: Vec<(JobId, TreeId)>,
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        self.jobs.iter().for_each(|(job, tree)| self.shared.channel.job_ended(*job, *tree));
    }
}

/// Adds files to a keyspace.
pub(crate) fn ingest(
    engine: &Engine,
    keyspace: &KeyspaceInfo,
    files: &[PathBuf],
    options: IngestOptions,
) -> Result<IngestReport> {
    Ingest { engine }.run(keyspace, files, options)
}

/// One ingest.
struct Ingest<'a> {
    engine: &'a Engine,
}

impl<'a> Ingest<'a> {
    fn run(
        &self,
        keyspace: &KeyspaceInfo,
        files: &[PathBuf],
        options: IngestOptions,
    ) -> Result<IngestReport> {
        self.engine.shared.health.check()?;
        keyspace.trees()?;
        let files = files.iter().map(|path| absolute(&**self.engine.shared.env.fs(), path));
        let files = files.collect::<Result<Vec<_>>>()?;
        let mut checked = Vec::with_capacity(files.len());
        for path in &files {
            checked.push(self.check_file(keyspace, path, options)?);
        }
        checked.sort_by(|a, b| a.summary.properties.smallest.cmp(&b.summary.properties.smallest));
        for pair in checked.windows(2) {
            if pair[0].summary.properties.largest >= pair[1].summary.properties.smallest {
                return Err(Error::InvalidArgument(format!(
                    "{} and {} overlap: the key ranges of files that are ingested together must be \
                     disjoint; ingest them one after the other, the newest last",
                    pair[0].source.display(),
                    pair[1].source.display()
                )));
            }
        }
        if checked.is_empty() {
            return Ok(IngestReport::default());
        }
        let mut copies =
            Copies { shared: &self.engine.shared, files: Vec::new(), handed_over: false };
        for file in checked {
            self.take_over(file, options, &mut copies.files)?;
        }
        let synced = self.engine.shared.env.fs().sync_dir(&self.engine.shared.dir);
        synced.map_err(|error| {
            Error::io_unknown("cannot sync folder", &self.engine.shared.dir, error)
        })?;
        // If writes are stopped, the ingest also waits, instead of adding to the load.
        if !self.engine.shared.gate.is_open() {
            self.engine.shared.wait_at_gate(None, 0, None)?;
        }
        let held = self.bring_in(&mut copies)?;
        if options.move_files {
            // The files are already in the store; an original that stays does no harm.
            files.iter().for_each(|path| drop(self.engine.shared.env.fs().remove(path)));
        }
        let report = report_of(&copies.files);
        let IngestReport { files, into_l0, bytes, .. } = report;
        let held = Micros(held.as_micros() as u64);
        self.engine.shared.emit(Event::Ingested { files, into_l0, bytes, held });
        Ok(report)
    }

    /// Step 1: the check, before anything is changed.
    fn check_file(
        &self,
        keyspace: &KeyspaceInfo,
        path: &Path,
        options: IngestOptions,
    ) -> Result<Checked> {
        let wrong = |what: &str| {
            let path = path.display();
            Err(Error::InvalidArgument(format!("{path} cannot be ingested: {what}")))
        };
        let file = self.engine.shared.env.fs().open(path, OpenOptions::READ);
        let file = file.map_err(|error| Error::io("cannot open", path, error))?;
        let reader = SstReader::open_unknown(file, path)?;
        let of_a_store = "it is an SST of a store; write files for this with SstFileWriter";
        if !reader.summary().properties.wals.is_empty() {
            return wrong(of_a_store);
        }
        let mut damage = None;
        let found = check(
            &reader,
            &mut |offset, what| {
                damage.get_or_insert_with(|| Error::corruption(path, offset, what));
            },
            &mut |_| {},
        );
        if let Some(damage) = damage {
            return Err(damage);
        }
        let summary = reader.summary().clone();
        let properties = &summary.properties;
        let foreign = properties.range_tombstones > 0 || found.special > 0;
        if properties.seq_max > Seq::ZERO || foreign || found.keys != properties.entries {
            return wrong(of_a_store);
        }
        let view = self.engine.reader.views().load_full();
        let ours = || view.trees().flat_map(|tree| tree.version.tables());
        if options.move_files && ours().any(|(_, table)| table.file.uid == summary.uid) {
            return wrong("the store has it already, and may need it where it is; copy it instead");
        }
        let region = keyspace.region_of(&properties.smallest);
        if region != keyspace.region_of(&properties.largest) {
            return wrong("it spans regions of the keyspace; write a file for each region");
        }
        Ok(Checked { source: path.to_owned(), tree: keyspace.trees()?.tree(region), summary })
    }

    /// Step 1: the copy.
    fn take_over(
        &self,
        checked: Checked,
        options: IngestOptions,
        files: &mut Vec<Incoming>,
    ) -> Result<()> {
        let (fs, Checked { source, tree, summary }) = (&**self.engine.shared.env.fs(), checked);
        let number = FileNumber(self.engine.shared.numbers.next_file());
        let to = sst_path(&self.engine.shared.dir, number);
        files.push(Incoming { tree, number, summary, reader: None, level: 0 });
        if options.move_files && link(fs, &source, &to)? {
            let synced = fs.open(&to, OpenOptions::READ).and_then(|file| file.sync());
            synced.map_err(|error| Error::io("cannot sync SST", &to, error))?;
        } else if !options.move_files {
            copy(fs, &source, &to, u64::MAX)?;
        }
        if let Some(file) = files.last_mut() {
            // This also verifies that the file is the one that was checked before.
            let meta = file.summary.clone().into_meta(number);
            file.reader = Some(self.engine.reader.tables().open_new(&meta)?);
        }
        Ok(())
    }

    /// Steps 2 to 6. Returns the time for which the barrier was held.
    fn bring_in(&self, copies: &mut Copies<'_>) -> Result<Duration> {
        let _alone = self.engine.installer.without_ingests()?;
        // No keyspace is cleared or dropped from here on.
        let view = self.engine.reader.views().load_full();
        for file in copies.files.iter_mut().filter(|file| view.find(file.tree).is_none()) {
            file.tree = self.engine.catalog.current(file.tree)?;
        }
        drop(view);
        // Sync most of the WAL before writers have to wait.
        self.engine.log.sync_all()?;
        let mut deep = true;
        loop {
            // Released after the barrier, because files that are not visible yet must not be a
            // job's input.
            let _places = self.reserve_places(&mut copies.files, deep)?;
            let in_l0 = copies.files.iter().filter(|file| file.level == 0);
            let mut seal: Vec<TreeId> = in_l0.map(|file| file.tree).collect();
            seal.dedup();
            let trees: Vec<TreeId> = copies.files.iter().map(|file| file.tree).collect();
            self.engine.shared.env.interleave();
            let barrier = self.engine.writer.raise_barrier(&trees, &seal)?;
            let since = self.engine.shared.env.now();
            self.engine.writer.await_published(Seq(barrier.seq.0 - 1))?;
            if self.places_are_free(&copies.files)? {
                self.engine.log.sync_all()?;
                self.install_files(copies, barrier.seq)?;
                let seq = barrier.seq;
                drop(barrier);
                self.engine.writer.await_published(seq)?;
                return Ok(self.engine.shared.env.now().saturating_sub(since));
            }
            deep = false;
        }
    }

    /// Step 2.
    fn reserve_places(&self, files: &mut [Incoming], deep: bool) -> Result<Places<'a>> {
        let mut places = Places { shared: &self.engine.shared, jobs: Vec::new() };
        loop {
            let epoch = self.engine.shared.channel.room_epoch();
            self.engine.shared.health.check_running()?;
            let reserved = self.engine.control.reserve(|state| {
                for file in &mut *files {
                    let busy = state.busy(file.tree);
                    let view = self.engine.reader.views().load_full();
                    file.level = match deep {
                        true => level_for(view.tree(file.tree), &busy, &file.range())?,
                        false => 0,
                    };
                    let id = JobId(self.engine.shared.numbers.next_job());
                    places.jobs.push((id, file.tree));
                    state.jobs.push(Slot::reserved(id, file.candidate()));
                    self.engine.shared.channel.mark(file.tree);
                }
                Ok(())
            });
            if let Some(reserved) = reserved {
                return reserved.map(|()| places);
            }
            self.engine
                .shared
                .channel
                .wait_for_room(epoch, Some(self.engine.shared.env.now() + RETRY));
        }
    }

    /// Step 4: checks that no older write overlaps a file for a deeper level. All older writes are
    /// in this view, in memtables or in tables.
    fn places_are_free(&self, files: &[Incoming]) -> Result<bool> {
        let view = self.engine.reader.views().load_full();
        for file in files.iter().filter(|file| file.level > 0) {
            let (tree, range) = (view.tree(file.tree), file.range());
            if file.level > free_down_to(tree, &range) || memtables_hold(tree, &range)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Step 5.
    fn install_files(&self, copies: &mut Copies<'_>, seq: Seq) -> Result<()> {
        let mut edits: BTreeMap<TreeId, (RunId, VersionEdit)> = BTreeMap::new();
        for file in &mut copies.files {
            let table = file.table(seq);
            if let Some(reader) = file.reader.take() {
                self.engine.reader.tables().keep(&table, reader.with_global_seq(seq));
            }
            let fresh = || (RunId(self.engine.shared.numbers.next_run()), VersionEdit::default());
            let (run, edit) = edits.entry(file.tree).or_insert_with(fresh);
            match file.level {
                0 => edit.add_l0(*run, RunOrigin::Merge, table),
                level => edit.add(level, table),
            }
        }
        let request = |(tree, (_, edit))| {
            // The places of the files are released later, and their names are durable already.
            Request {
                job: JobId(0),
                tree,
                edit,
                makes_files: false,
                flushed: Vec::new(),
                keeps: false,
                inputs: Vec::new(),
                rewritten: Vec::new(),
                _filtering: None,
            }
        };
        copies.handed_over = true;
        self.engine.installer.submit(edits.into_iter().map(request));
        loop {
            let epoch = self.engine.shared.channel.room_epoch();
            let view = self.engine.reader.views().load_full();
            if copies.files.iter().all(|file| shows(view.tree(file.tree), file, seq)) {
                return Ok(());
            }
            self.engine.shared.health.check_running()?;
            if let Err(full) = self.engine.shared.health.check()
                && self.engine.installer.withdraw_ingest()?
            {
                copies.handed_over = false;
                return Err(full);
            }
            self.engine.shared.channel.wait_for_room(epoch, None);
        }
    }
}

fn report_of(files: &[Incoming]) -> IngestReport {
    let mut report = IngestReport::default();
    for file in files {
        report.files += 1;
        report.into_l0 += u64::from(file.level == 0);
        report.entries += file.summary.properties.entries;
        report.bytes += file.summary.bytes;
    }
    report
}

/// The deepest level such that it and all levels above are free in the range; 0 for none.
fn free_down_to(tree: &TreeView, range: &KeyRange) -> u8 {
    let version = &tree.version;
    if version.l0.iter().any(|run| run.tables.overlapping(range).next().is_some()) {
        return 0;
    }
    let mut levels = 1..=version.depth().max(1);
    let taken = levels.find(|level| version.level(*level).overlapping(range).next().is_some());
    taken.map_or(version.depth().max(1), |level| level - 1)
}

/// The deepest level into which a file fits; 0 for L0.
fn level_for(tree: &TreeView, busy: &Busy, range: &KeyRange) -> Result<u8> {
    if memtables_hold(tree, range)? {
        return Ok(0);
    }
    let mut levels = (1..=free_down_to(tree, range)).rev();
    Ok(levels.find(|level| busy.writes(*level, range).next().is_none()).unwrap_or(0))
}

/// Whether a memtable overlaps the range.
fn memtables_hold(tree: &TreeView, range: &KeyRange) -> Result<bool> {
    let holds = |memtable: &Arc<Memtable>| -> Result<bool> {
        if memtable.has_ranges() && memtable.range().is_some_and(|all| all.overlaps(range)) {
            return Ok(true);
        }
        for part in memtable.parts() {
            let mut cursor = part.cursor();
            cursor.seek(&range.lo, Trailer::FIRST)?;
            if cursor.valid() && !range.ends_before(cursor.key()) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    for memtable in tree.immutables.iter().chain([&tree.active]) {
        if holds(memtable)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a tree shows the file in its place.
fn shows(tree: &TreeView, file: &Incoming, seq: Seq) -> bool {
    let version = &tree.version;
    let tables = match file.level {
        0 => version.l0.iter().find(|run| run.seq_min == seq).map(|run| &run.tables),
        level => Some(version.level(level)),
    };
    let key = &file.summary.properties.smallest;
    let table = tables.and_then(|tables| tables.find(key));
    table.is_some_and(|table| table.file.number == file.number)
}
