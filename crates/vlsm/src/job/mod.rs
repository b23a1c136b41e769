//! Flushes and compactions. A job is a value that runs in steps, and never waits.
//!
//! A job goes through these stages. Each step does the work that needs no wait, and returns `Ran`,
//! `Blocked` (on the device), or `Done` with a request to install:
//! 1. *Opening* (compactions): the readers of the input files are opened in the background.
//!
//!    *Choosing* (flushes, if the shape keeps hot keys): the hot keys stay in memory (`hot`).
//!
//!    *Locating* (flushes, if the shape logs values): their values are found in the WAL (`logged`).
//! 2. *Merging*: `merge` turns inputs into chunks of SSTs (`output`), and `files` writes them.
//! 3. *Syncing*: all chunks are written; one call in the background makes the files durable.
//!
//! The readers of the new SSTs are made from their tails, which are in memory, and installed with
//! the tables. So nothing that was just written is read, as far as memory has room for the readers.
//!
//! A trivial move has none of these stages; it only makes its edit.
//!
//! Invariants: J1 inputs and snapshots are frozen when the job is created; J2 whether tombstones
//! are dropped is decided at that time: only if no older version lies below in the job's range, and
//! its reservation keeps this true. This includes range tombstones, because a table's range covers
//! them.

mod buffers;
mod combine;
pub(crate) mod files;
pub(crate) mod hot;
mod inputs;
pub(crate) mod logged;
pub(crate) mod merge;
pub(crate) mod output;

use crate::memtable::Memtable;
use crate::read::snapshots::{Filtering, Snapshots};
use crate::read::table_cache::TableCache;
use crate::read::view::{TreeView, Views};
use crate::shared::Shared;
use buffers::Buffers;
use combine::MergeContext;
use files::OutputFiles;
use hot::{Choosing, Chosen, HotKeys};
use inputs::{check_order, memtables_of, nothing_below};
use logged::{Logs, Places};
use merge::{Merge, Source};
use output::Outputs;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::{Event, JobKind};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{
    Bytes, Error, FileMeta, FileUid, JobId, KeyRange, MemtableId, Place, Result, RunId, RunOrigin,
    Seq, Table, TreeId, Version, VersionEdit,
};
use vlsm_disk::sst::{BlockCache, Scanner, SstOptions, SstReader};
use vlsm_disk::{Charge, Condition, Pending, Rank};
use vlsm_policy::shape::cuts::Cutter;
use vlsm_policy::{Candidate, Class, CutRule};

/// The parts of the store that jobs use.
#[derive(Clone)]
pub(crate) struct Context {
    pub shared: Arc<Shared>,
    pub views: Arc<Views>,
    pub tables: Arc<TableCache>,
    pub snapshots: Arc<Snapshots>,
    /// Whether runs of L0 get sketches of their keys.
    pub sketches: bool,
    /// The keys that flushes leave in memory, if any.
    pub hot: Option<HotKeys>,
    /// The WALs, if flushes leave values there.
    pub logs: Option<Arc<dyn Logs>>,
}

/// The result of a finished job, to be installed.
pub(crate) struct Request {
    pub job: JobId,
    pub tree: TreeId,
    pub edit: VersionEdit,
    /// Whether the edit's tables have new files, whose names are not durable yet.
    pub makes_files: bool,
    /// Memtables whose contents are in the edit's tables.
    pub flushed: Vec<MemtableId>,
    /// Whether some entries of these memtables are in the WAL again and not in the edit's tables.
    pub keeps: bool,
    /// Held until the new version is visible, if the job called a compaction filter.
    pub _filtering: Option<Arc<Filtering>>,
    /// Files of the tables that the edit removes.
    pub inputs: Vec<Arc<FileMeta>>,
    /// Cached blocks that were rewritten, by their files' uids and their offsets.
    pub rewritten: Vec<(FileUid, u64)>,
}

/// The outcome of a step.
pub(crate) enum Step {
    /// The step merged this many bytes.
    Ran(Bytes),
    /// The step did nothing; the job waits until a file call ends.
    Blocked,
    /// The output is written and durable.
    Done(Request),
}

/// The slice of a file that is read.
type Part = (Arc<SstReader>, KeyRange);

enum Stage {
    /// Only the edit is left.
    Move,
    Opening(Pending<Vec<Arc<SstReader>>>),
    Choosing(Box<Choosing>),
    Locating(Pending<Places>),
    Merging(Box<Merge>),
    Syncing(Pending<Vec<(usize, SstReader)>>),
    Ended,
}

/// A running flush or compaction.
pub(crate) struct Job {
    pub id: JobId,
    pub candidate: Arc<Candidate>,
    /// The rank of its file calls among those of other jobs.
    pub rank: Rank,
    started: Duration,
    stage: Stage,
    memtables: Vec<Arc<Memtable>>,
    outputs: Option<Outputs>,
    /// The context of its merge; the range tombstones of the inputs are added when the inputs are
    /// open.
    context: MergeContext,
    /// Held while the job may call a compaction filter.
    filtering: Option<Arc<Filtering>>,
    files: OutputFiles,
    counters: merge::MergeCounters,
    rewritten: Vec<(FileUid, u64)>,
    buffers: Buffers,
    /// The charge for the buffers, from the first step of merging on.
    memory: Charge,
    /// The charge for the tails of its SSTs, until their readers are charged.
    tails: Charge,
    /// Bytes read and written that [`Job::progress`] has already returned.
    told: (u64, u64),
    /// The epoch of `wake`, which ended file calls notify, before the last step, if it blocked.
    blocked_at: Option<u64>,
    wake: Arc<dyn Condition>,
}

/// The event of a job that begins.
fn started(job: JobId, candidate: &Candidate) -> Event {
    Event::JobStarted {
        job,
        tree: candidate.tree,
        keyspace: String::new(),
        kind: candidate.kind,
        from: candidate.frees.level(),
        to: candidate.output_level,
        bytes: candidate.bytes_in,
    }
}

impl Job {
    /// Creates a job, and freezes its inputs and snapshots.
    pub fn new(
        context: &Context,
        id: JobId,
        candidate: Arc<Candidate>,
        tree: &TreeView,
        cuts: CutRule,
    ) -> Result<Self> {
        let Context { shared, views, snapshots, .. } = context;
        let version = tree.version.clone();
        let memtables = memtables_of(&candidate, tree)?;
        check_order(&candidate, tree)?;
        shared.emit(started(id, &candidate));
        let filters = tree.rules.filter.is_some()
            && candidate.kind != JobKind::TrivialMove
            && snapshots.may_filter(&views.load());
        let filtering = filters.then(|| Arc::new(snapshots.filter_begins()));
        // Read before the snapshots are frozen, so that for later snapshots all values that have
        // expired by now are absent.
        let mut now = shared.clock.now();
        shared.env.interleave();
        let frozen = snapshots.frozen();
        if planted::is(Bug::ClockReadLate) {
            // The thread pauses for a while.
            (0..60).for_each(|_| drop(shared.env.fs().exists(&shared.dir)));
            now = shared.clock.now();
        }
        let merge = MergeContext {
            snapshots: frozen,
            nothing_below: nothing_below(&version, &candidate)
                || planted::is(Bug::TombstoneDroppedEarly),
            rules: tree.rules.clone(),
            filters,
            now,
            level: candidate.output_level,
            ..MergeContext::default()
        };
        let mut job = Self {
            id,
            rank: Rank::default(),
            started: shared.env.now(),
            stage: Stage::Move,
            outputs: None,
            context: merge,
            filtering,
            files: OutputFiles::default(),
            counters: merge::MergeCounters::default(),
            rewritten: Vec::new(),
            buffers: Buffers::of(&shared.options, shared.options.worker_count()),
            memory: shared.memory.jobs.charge(0),
            tails: shared.memory.readers.charge(0),
            told: (0, 0),
            blocked_at: None,
            wake: shared.channel.calls(candidate.frees != Class::Memtable).clone(),
            memtables,
            candidate,
        };
        if job.candidate.kind != JobKind::TrivialMove {
            job.outputs = Some(job.new_outputs(context, &version, cuts));
            job.stage = if job.memtables.is_empty() || !job.candidate.inputs.tables.is_empty() {
                Stage::Opening(job.open_inputs(context))
            } else {
                job.choosing(context).map_or_else(|| job.locating(context), Ok)?
            };
        }
        Ok(job)
    }

    /// The stage of a flush before merging, if hot keys stay in memory.
    fn choosing(&self, context: &Context) -> Option<Stage> {
        let hot = context.hot.as_ref().filter(|_| self.candidate.kind == JobKind::Flush)?;
        Choosing::of(self.candidate.tree, hot, &self.memtables).map(Box::new).map(Stage::Choosing)
    }

    /// The stage after choosing.
    fn chosen(&mut self, context: &Context, choosing: &Choosing) -> Result<Stage> {
        let (job, tree, (keys, bytes)) = (self.id, self.candidate.tree, choosing.kept());
        if keys > 0 {
            let keyspace = String::new();
            context.shared.emit(Event::HotKeysKept { job, tree, keyspace, keys, bytes });
        }
        self.locating(context)
    }

    /// The stage of a flush before merging, in which its values are found in the WAL. Without it
    /// the merge.
    fn locating(&mut self, context: &Context) -> Result<Stage> {
        let flushes = self.candidate.kind == JobKind::Flush && self.candidate.output_level == 0;
        let tree = self.candidate.tree;
        let flushes = flushes && self.filtering.is_none();
        let logs = context.logs.clone().filter(|logs| flushes && logs.can_link());
        let found =
            logs.and_then(|logs| logged::locating(&context.shared, logs, tree, &self.memtables));
        match found {
            Some(locating) => Ok(Stage::Locating(locating)),
            None => self.merging(context, Vec::new()),
        }
    }

    /// Opens the readers of the input files, if they are not open.
    fn open_inputs(&self, context: &Context) -> Pending<Vec<Arc<SstReader>>> {
        let tables = self.candidate.inputs.tables.clone();
        let cache = context.tables.clone();
        let open = move || {
            let reader = |(_, table): &(Place, Arc<Table>)| cache.reader_for_job(table);
            tables.iter().map(reader).collect()
        };
        let all_open = |(_, table): &(Place, Arc<Table>)| table.attachment.is_set();
        if self.candidate.inputs.tables.iter().all(all_open) {
            return Pending::ready(open());
        }
        context.shared.io.submit(open)
    }

    fn new_outputs(&self, context: &Context, version: &Version, rule: CutRule) -> Outputs {
        let Context { shared, sketches, .. } = context;
        let level = self.candidate.output_level;
        let sst_options = SstOptions {
            sketch: *sketches && level == 0,
            ..self.context.rules.own.sst(&shared.options, level, shared.env.wall_clock())
        };
        let cutter = Cutter::of(rule, version, &self.candidate.range);
        let env = shared.env.clone();
        let outputs = Outputs::new(sst_options, cutter, move || FileUid(env.random()));
        outputs.bounded(self.buffers.unwritten_max).warming(self.warmed(context))
    }

    /// The block cache, if it keeps what the job rewrites.
    fn warmed(&self, context: &Context) -> Option<Arc<BlockCache>> {
        let keeps = context.shared.options.policy.tree.cache_rewrites;
        keeps.then(|| context.tables.cache().clone())
    }

    /// The merge of all inputs, with one source for each memtable, run of L0 and level.
    fn merging(&mut self, store: &Context, readers: Vec<Arc<SstReader>>) -> Result<Stage> {
        let mut sources = Vec::new();
        let mut context = std::mem::take(&mut self.context);
        context.left_out = hot::left_out(&self.memtables);
        context.copies = self.memtables.iter().any(|memtable| memtable.has_copies());
        for memtable in &self.memtables {
            for part in memtable.parts() {
                part.add_ranges_to(&mut context.ranges);
                sources.push(Source::memory(part.cursor().fetching()));
            }
        }
        let mut runs: Vec<(Place, Vec<Part>)> = Vec::new();
        for ((place, table), reader) in self.candidate.inputs.tables.iter().zip(readers) {
            context.ranges.add(reader.range_tombstones(), &table.range);
            let part = (reader, table.range.clone());
            match runs.iter_mut().find(|(other, _)| other == place) {
                Some((_, parts)) => parts.push(part),
                None => runs.push((*place, vec![part])),
            }
        }
        if planted::is(Bug::InputForgotten) && runs.len() > 1 {
            runs.pop();
        }
        self.buffers.read_by(runs.len());
        for (_, mut parts) in runs {
            parts.sort_by(|a, b| a.1.lo.cmp(&b.1.lo));
            let scanner = Scanner::new(parts, self.buffers.read_len, self.buffers.depth);
            sources.push(Source::tables(scanner.asking(self.warmed(store))));
        }
        let outputs = self.outputs.take();
        let outputs = outputs.ok_or_else(|| Error::Internal("a job merges twice".into()))?;
        let merge = Merge::new(sources, context, outputs)?;
        Ok(Stage::Merging(Box::new(merge)))
    }

    /// Whether a step may make progress: the last step did not block, or a file call has ended
    /// since.
    pub fn is_ready(&self) -> bool {
        self.blocked_at.is_none_or(|epoch| self.wake.epoch() != epoch)
    }

    /// Whether the next step returns the error of a failed call.
    pub fn has_failed(&self) -> bool {
        self.files.has_failed()
    }

    /// Does at most about `quantum` bytes of work, without waiting.
    pub fn step(&mut self, context: &Context, quantum: Bytes) -> Result<Step> {
        let epoch = self.wake.epoch();
        let step = self.go_on(context, quantum)?;
        self.blocked_at = matches!(step, Step::Blocked).then_some(epoch);
        Ok(step)
    }

    fn go_on(&mut self, context: &Context, quantum: Bytes) -> Result<Step> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Move => Ok(Step::Done(self.request(context, Vec::new(), Vec::new()))),
            Stage::Opening(pending) => match pending.try_take() {
                Some(readers) => {
                    self.stage = self.merging(context, readers?)?;
                    self.go_on(context, quantum)
                }
                None => {
                    self.stage = Stage::Opening(pending);
                    Ok(Step::Blocked)
                }
            },
            Stage::Choosing(mut choosing) => {
                let chosen = choosing.step(quantum.0)?;
                self.stage = match chosen {
                    Chosen::Done => self.chosen(context, &choosing)?,
                    Chosen::Ran | Chosen::Blocked => Stage::Choosing(choosing),
                };
                let blocked = matches!(chosen, Chosen::Blocked);
                Ok(if blocked { Step::Blocked } else { Step::Ran(Bytes::ZERO) })
            }
            Stage::Locating(pending) => match pending.try_take() {
                Some(places) => {
                    let places = places?;
                    if let Some(outputs) = &mut self.outputs {
                        outputs.refer_to(places);
                    }
                    self.stage = self.merging(context, Vec::new())?;
                    self.go_on(context, quantum)
                }
                None => {
                    self.stage = Stage::Locating(pending);
                    Ok(Step::Blocked)
                }
            },
            Stage::Merging(merge) => self.go_on_merging(context, merge, quantum),
            Stage::Syncing(pending) => match pending.try_take() {
                Some(readers) => {
                    let readers = readers?;
                    assert!(!self.has_failed(), "{} ends despite a failed call", self.id);
                    let metas = self.files.metas();
                    // From now on they are charged as readers.
                    self.tails.set(0);
                    Ok(Step::Done(self.request(context, metas, readers)))
                }
                None => {
                    self.stage = Stage::Syncing(pending);
                    Ok(Step::Blocked)
                }
            },
            Stage::Ended => Err(Error::Internal(format!("{} was stepped after its end", self.id))),
        }
    }

    /// A step of the merge.
    fn go_on_merging(
        &mut self,
        context: &Context,
        mut merge: Box<Merge>,
        quantum: Bytes,
    ) -> Result<Step> {
        let shared = &context.shared;
        let tables = self.candidate.inputs.tables.iter();
        let logged: Bytes = tables.map(|(_, table)| table.file.logged_bytes).sum();
        let buffers = self.buffers.bytes(self.candidate.bytes_in + logged);
        shared.memory.take_room(&mut self.memory, buffers);
        self.files.collect(merge.outputs())?;
        let calls = shared.io.ranked(self.rank).urgent(self.candidate.frees == Class::Memtable);
        let stepped = merge.step(calls, quantum.0)?;
        let of = (self.candidate.frees, self.rank);
        self.files.write(context, merge.outputs(), of)?;
        self.counters = merge.counters();
        self.tails.set(merge.outputs().tail_bytes() as u64);
        match stepped {
            merge::Step::Ran(bytes) => {
                self.stage = Stage::Merging(merge);
                Ok(Step::Ran(Bytes(bytes)))
            }
            merge::Step::Done if self.files.is_written(merge.outputs()) => {
                let (read, kept) = (self.counters.entries_in, self.counters.entries_out);
                assert!(kept <= read, "{} made {kept} entries of {read}", self.id);
                assert!(!self.has_failed(), "{} ends despite a failed call", self.id);
                let (values, bytes) = merge.outputs().referred();
                shared.counters.logged_values.add(values);
                shared.counters.logged_bytes.add(bytes);
                let summaries = merge.outputs().finished().to_vec();
                self.rewritten = merge.warm();
                let age = self.age();
                let tails = merge.outputs().take_tails();
                self.stage = Stage::Syncing(self.files.sync(context, summaries, tails, age));
                Ok(Step::Ran(Bytes::ZERO))
            }
            merge::Step::Blocked | merge::Step::Done => {
                self.stage = Stage::Merging(merge);
                Ok(Step::Blocked)
            }
        }
    }

    /// The sequence numbers that give the age of the output, if those of its entries do not. The
    /// age of a run of L0 is that of its inputs, and the age of a memtable is given by the numbers
    /// under which its entries were logged. Entries of hot keys may be older.
    fn age(&self) -> Option<(Seq, Seq)> {
        let candidate = &self.candidate;
        if candidate.output_level > 0 {
            return None;
        }
        let copies = self.memtables.iter().any(|memtable| memtable.has_copies());
        let memtables = self.memtables.iter().filter_map(|memtable| memtable.seqs());
        let tables = candidate.inputs.tables.iter();
        let tables = tables.map(|(_, table)| (table.file.seq_min, table.file.seq_max));
        let known = (copies || self.memtables.is_empty()).then(|| memtables.chain(tables))?;
        known.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The request with the edit that installs the job's result.
    fn request(
        &self,
        Context { shared, tables, .. }: &Context,
        outputs: Vec<Arc<FileMeta>>,
        readers: Vec<(usize, SstReader)>,
    ) -> Request {
        let candidate = &self.candidate;
        let moves = candidate.kind == JobKind::TrivialMove;
        assert!(!moves || outputs.is_empty(), "{} moves tables and wrote some", self.id);
        debug_assert!(outputs.is_sorted_by(|a, b| a.largest <= b.smallest), "{outputs:?}");
        let mut edit = VersionEdit::default();
        for (place, table) in &candidate.inputs.tables {
            edit.remove(*place, table);
        }
        let run = RunId(shared.numbers.next_run());
        let origin = match candidate.kind {
            JobKind::Flush => RunOrigin::Flush,
            _ => RunOrigin::Merge,
        };
        let mut add = |table: Arc<Table>| match candidate.output_level {
            0 => edit.add_l0(run, origin, table),
            level => edit.add(level, table),
        };
        if moves {
            candidate.inputs.tables.iter().for_each(|(_, table)| add(table.clone()));
        }
        let makes_files = !outputs.is_empty();
        let outputs: Vec<_> = outputs.into_iter().map(Table::whole).collect();
        readers.into_iter().for_each(|(index, reader)| tables.keep(&outputs[index], reader));
        outputs.into_iter().for_each(|table| add(Arc::new(table)));
        edit.cursors.extend(candidate.sets_cursor.clone());
        let flushed_seq = self.memtables.iter().filter_map(|memtable| memtable.seqs());
        edit.flushed_seq = flushed_seq.map(|(_, largest)| largest).max();
        Request {
            job: self.id,
            tree: candidate.tree,
            edit,
            makes_files,
            _filtering: self.filtering.clone(),
            flushed: self.memtables.iter().map(|memtable| memtable.id()).collect(),
            keeps: self.memtables.iter().any(|memtable| !memtable.left().is_empty()),
            inputs: candidate.inputs.tables.iter().map(|(_, table)| table.file.clone()).collect(),
            rewritten: self.rewritten.clone(),
        }
    }

    /// The time at which the job was created, by the environment's clock.
    pub fn started(&self) -> Duration {
        self.started
    }

    /// Whether the job has taken memory for its buffers.
    pub fn has_begun(&self) -> bool {
        self.memory.bytes() > 0
    }

    /// The counters of the merge so far.
    pub fn counters(&self) -> merge::MergeCounters {
        self.counters
    }

    /// Bytes read and written since the last call.
    pub fn progress(&mut self) -> (u64, u64) {
        let now = (self.counters.bytes_read, self.files.written().0.0);
        let before = std::mem::replace(&mut self.told, now);
        (now.0 - before.0, now.1 - before.1)
    }

    /// Bytes and files written so far.
    pub fn written(&self) -> (Bytes, u64) {
        self.files.written()
    }

    /// Discards the job: its files are removed in the background. Returns the wasted bytes.
    pub fn discard(self, shared: &Arc<Shared>) -> Bytes {
        self.files.discard(shared)
    }
}
