//! Replays the WAL into memtables.
//!
//! Every entry above its tree's flushed sequence number goes into a memtable, in WAL order. Full
//! memtables are sealed; the ordinary flush takes them once the store is open.
//!
//! The batches with such entries are copied into the new WAL, which replaces the older WALs by the
//! one write that starts it (`disk/wal/rewrite`). A crash before that write changes nothing. If the
//! device is too full for the copies, the store releases its reserve. If that is too little, the
//! new WAL seals the last one instead, and the older WALs stay.
//!
//! A damaged WAL is an error. With `salvage_wal` it ends before the damage instead, and the
//! recovered batches are an exact prefix of the WAL. (SSTs stay, so a tree that was flushed later
//! than others may contain later batches.) The files with the rest are moved aside, and an event
//! describes their contents.
//!
//! Before the WAL was read completely, only the new WAL with its temporary name is created, so a
//! refused store stays unchanged. If the device has no space for the copies, the WAL is read
//! completely once more before leftovers are removed.
//!
//! A hot key that a flush left in memory (`write/keep`) is in the WAL twice until that flush is
//! installed. The second entry states its original number, and is dropped if a memtable has an
//! entry of its key that is as new. Its place in the order of age is that of the second entry. A
//! dropped entry must not be in the WAL any more when that memtable is flushed. So it is not
//! copied, and if there is no space for the copies, the store is refused.
//!
//! An ingested run of L0 may be newer than some of the entries and older than others. No memtable
//! has entries of both kinds, so that readers find all places in order of age.

use crate::aside::keep_aside;
use crate::folder::Settling;
use crate::log::live::LiveWal;
use crate::memtable::{ArenaGauges, ArenaPool, Memtable, range_size};
use crate::options::Options;
use crate::shared::clock::Clock;
use crate::shared::events::Events;
use crate::shared::reserve;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{
    Bytes, Error, FileNumber, Kind, MemtableId, Result, Seq, Trailer, TreeId, Version, key,
};
use vlsm_disk::Env;
use vlsm_disk::manifest::State;
use vlsm_disk::sst::filter::hash;
use vlsm_disk::wal::reader::{RecoverOptions, Recovered, Replayed, recover};
use vlsm_disk::wal::salvage::LostWal;
use vlsm_disk::wal::{self, Entries, Entry, Rewrite, WalFile, prepare_next, wal_path};

/// The time before the first event of progress, and between two of them.
const PROGRESS: Duration = Duration::from_secs(1);

/// The first WAL after an open has this much room; each of its successors is twice as long, up to
/// the full length.
const FIRST_WAL_BYTES: u64 = 1 << 20;
/// The length of that WAL on a full device.
const SHORT_WAL_BYTES: u64 = 16 << 10;

/// A store is opened for writing only if its sequence numbers are at most this. As many numbers
/// again are left, more than one session can use.
const SEQ_MAX: Seq = Seq(Seq::MAX.0 / 2);

/// The contents of the WAL.
struct Replay<'a> {
    memtables: Memtables,
    last_seq: Seq,
    trees: &'a BTreeMap<TreeId, Version>,
    arenas: &'a ArenaPool,
    next_memtable: &'a dyn Fn() -> u64,
    clock: &'a Clock,
    /// All trees have numbers below this.
    trees_end: u64,
    /// The largest valid sequence number.
    seq_max: Seq,
    /// Whether second entries of hot keys were dropped.
    dropped: bool,
    /// The bound of the memtables' memory, if there is one.
    bound: Option<MemoryBound<'a>>,
}

/// The recovery of a store from its WALs, while it is being opened.
pub(crate) struct Recovery<'a> {
    pub folder: &'a Settling<'a>,
    pub from: Logged<'a>,
    /// The number of the new WAL.
    pub number: u64,
}

/// A WAL to replay into memtables, and the way to replay it.
#[derive(Clone, Copy)]
pub(crate) struct Logged<'a> {
    pub env: &'a Arc<dyn Env>,
    pub dir: &'a Path,
    pub events: &'a Events,
    pub state: &'a State,
    pub options: &'a Options,
    pub arenas: &'a ArenaPool,
    pub next_memtable: &'a dyn Fn() -> u64,
    pub clock: &'a Clock,
    /// Whether the store is only read.
    pub read_only: bool,
    /// The bound of the memtables' memory. A store that is opened for writing has none, because its
    /// workers flush memtables that exceed their share.
    pub bound: Option<MemoryBound<'a>>,
}

/// The most memory that the memtables of all states may take.
#[derive(Clone, Copy)]
pub(crate) struct MemoryBound<'a> {
    pub gauges: &'a ArenaGauges,
    pub bytes: u64,
}

impl MemoryBound<'_> {
    fn check(&self, dir: &Path) -> Result<()> {
        if self.gauges.in_use() + self.gauges.pinned.get() <= self.bytes {
            return Ok(());
        }
        let why = format!(
            "the writes that are in its WAL and in no SST yet need more than the {} that \
             memory_limit leaves for them here: raise memory_limit, or try again when the process \
             that writes has flushed them",
            Bytes(self.bytes)
        );
        Err(Error::CannotFollow { path: dir.to_owned(), why })
    }
}

/// A replayed WAL, and the WAL that continues it.
pub(crate) struct Begun {
    pub memtables: Memtables,
    pub last_seq: Seq,
    pub recovered: Recovered,
    /// The WALs that are in use from here on, the new one last.
    pub live: Vec<LiveWal>,
    pub wal: WalFile,
}

/// Memtables of each tree, oldest first.
pub(crate) type Memtables = BTreeMap<TreeId, Vec<Arc<Memtable>>>;

impl Recovery<'_> {
    /// Replays the WAL and begins the new one; a store that is only read has no new WAL.
    pub fn begin(&self) -> Result<Begun> {
        if self.from.read_only {
            let (memtables, last_seq, recovered) = self.from.replay(true, None)?;
            recovered
                .lost
                .iter()
                .for_each(|wal| tell_lost(self.folder.events, wal.path.clone(), wal));
            let (live, wal) = (Vec::new(), WalFile::none());
            return Ok(Begun { memtables, last_seq, recovered, live, wal });
        }
        if planted::is(Bug::RefusedOpeningWrites) {
            self.folder.settle()?;
        }
        if planted::is(Bug::WalTailTrusted) && !self.from.options.salvage_wal {
            self.from.replay(true, None)?;
            return self.go_on();
        }
        match self.take_over(FIRST_WAL_BYTES.min(self.from.options.wal_file_bytes.0)) {
            Err(Error::NoSpace { .. }) => {}
            begun => return begun,
        }
        self.from.replay(true, None)?;
        self.folder.settle()?;
        reserve::give_away(&**self.folder.env, self.folder.dir);
        match self.take_over(SHORT_WAL_BYTES) {
            Err(Error::NoSpace { .. }) => self.go_on(),
            begun => begun,
        }
    }

    /// Begins a new WAL that holds all entries that are not in SSTs, with `room` for more. The
    /// older WALs become leftovers.
    fn take_over(&self, room: u64) -> Result<Begun> {
        let Settling { env, dir, .. } = *self.folder;
        let mut rewrite = Rewrite::begin(&**env.fs(), dir, self.number, env.random())?;
        // The old files need not be durable, because the new one holds all their needed batches.
        let replayed = self.from.replay(true, Some(&mut rewrite));
        let (memtables, last_seq, mut recovered) = replayed.inspect_err(|_| rewrite.give_up())?;
        recovered.unused.retain(|path| path != rewrite.path());
        self.folder.settle().inspect_err(|_| rewrite.give_up())?;
        self.keep_aside(&recovered).inspect_err(|_| rewrite.give_up())?;
        let wal = rewrite.finish(room, Seq(last_seq.0 + 1))?;
        recovered.unused.extend(recovered.live.iter().map(|live| live.path.clone()));
        let live = vec![LiveWal::of(&wal)];
        Ok(Begun { memtables, last_seq, recovered, live, wal })
    }

    /// Begins a new WAL that seals the last one, which takes the least space.
    fn go_on(&self) -> Result<Begun> {
        self.folder.settle()?;
        let (memtables, last_seq, recovered) = self.from.replay(false, None)?;
        if !recovered.lost.is_empty() {
            // The dropped batches would be in a file that stays in use, and would be overwritten
            // later.
            return Err(Error::NoSpace { path: self.folder.dir.to_owned() });
        }
        let Settling { env, dir, .. } = *self.folder;
        let (fs, uid) = (&**env.fs(), env.random());
        let prepared = prepare_next(fs, dir, self.number, uid, SHORT_WAL_BYTES, None)?;
        let wal = prepared.start(recovered.end, Seq(last_seq.0 + 1))?;
        let older =
            recovered.live.iter().map(|live| LiveWal { number: live.number, len: live.len });
        let live = older.chain([LiveWal::of(&wal)]).collect();
        Ok(Begun { memtables, last_seq, recovered, live, wal })
    }

    /// Links the WALs that a salvage drops into a folder of their own, which no open reads, and
    /// reports their contents. Their first names are removed as leftovers after the new WAL has
    /// started.
    fn keep_aside(&self, recovered: &Recovered) -> Result<()> {
        if recovered.lost.is_empty() {
            return Ok(());
        }
        let paths: Vec<_> = recovered.lost.iter().map(|wal| wal.path.clone()).collect();
        let kept = keep_aside(&**self.folder.env.fs(), self.folder.dir, &paths)?;
        for (path, wal) in kept.into_iter().zip(&recovered.lost) {
            tell_lost(self.folder.events, path, wal);
        }
        Ok(())
    }
}

impl Logged<'_> {
    /// Replays the WAL, and copies the batches that are not in SSTs yet into `rewrite`.
    pub fn replay(
        &self,
        read_only: bool,
        mut rewrite: Option<&mut Rewrite<'_>>,
    ) -> Result<(Memtables, Seq, Recovered)> {
        let Self { env, events, dir, state, options, arenas, next_memtable, clock, .. } = *self;
        let (trees, memtables) = (&state.trees, BTreeMap::new());
        // Sequenced batches may not be in the WAL yet.
        let last_seq =
            if self.bound.is_some() { written_seq_of(state) } else { last_seq_of(state) };
        let trees_end = state.numbers.next_tree;
        // An open that only reads assigns no sequence numbers.
        let seq_max = if self.read_only { Seq(Seq::MAX.0 - 1) } else { SEQ_MAX };
        let mut replay = Replay {
            memtables,
            last_seq,
            trees,
            arenas,
            next_memtable,
            clock,
            trees_end,
            seq_max,
            dropped: false,
            bound: self.bound,
        };
        let mut told = env.now();
        let mut sink = |batch: Replayed| {
            let now = env.now();
            if now.saturating_sub(told) >= PROGRESS {
                told = now;
                let (done, total) = (Bytes(batch.done), Bytes(batch.total));
                events.emit(Event::Recovering { done, total });
            }
            replay.batch(dir, &batch, rewrite.as_deref_mut())
        };
        let how = recover_options(state, options.salvage_wal, read_only);
        let recovered = recover(&**env.fs(), dir, how, &mut sink)?;
        replay.end();
        let floor = Seq(recovered.seq_floor.0.saturating_sub(1));
        let Replay { memtables, last_seq, dropped, .. } = replay;
        if dropped && !read_only {
            // In a WAL that stays in use they would later replace newer values that are flushed
            // meanwhile.
            return Err(Error::NoSpace { path: dir.to_owned() });
        }
        let last_seq = last_seq.max(floor);
        if last_seq > seq_max {
            return Err(used_up(dir));
        }
        Ok((memtables, last_seq, recovered))
    }
}

/// Reports the contents of a WAL that a salvage dropped.
fn tell_lost(events: &Events, path: PathBuf, wal: &LostWal) {
    events.emit(Event::WalLost { path, batches: wal.batches, seqs: wal.seqs });
}

/// The options for reading the WAL of a store with this state.
pub(crate) fn recover_options(state: &State, salvage: bool, read_only: bool) -> RecoverOptions<'_> {
    let (min_wal, flushed) = (state.numbers.min_wal, Some(last_seq_of(state)));
    RecoverOptions { min_wal, listed: &state.wals, flushed, salvage, read_only }
}

/// The largest sequence number that is used according to the manifest.
fn last_seq_of(state: &State) -> Seq {
    let flushed = state.trees.values().map(|version| version.flushed_seq);
    flushed.fold(state.numbers.last_seq, Ord::max)
}

/// The largest sequence number of writes that are in SSTs.
fn written_seq_of(state: &State) -> Seq {
    let tables = state.trees.values().flat_map(Version::tables);
    let flushed = state.trees.values().map(|version| version.flushed_seq);
    tables.map(|(_, table)| table.file.seq_max).chain(flushed).fold(Seq::ZERO, Ord::max)
}

/// The error of a store whose next sequence numbers would not fit.
fn used_up(dir: &Path) -> Error {
    Error::UsedUp { path: dir.to_owned(), what: "sequence numbers" }
}

/// Whether a run of L0, which was ingested, is newer than a memtable's entries and older than
/// `seq`.
fn run_between(version: &Version, memtable: &Memtable, seq: Seq) -> bool {
    let last = memtable.seqs().map(|(_, largest)| largest);
    last.is_some_and(|last| version.l0.iter().any(|run| last < run.seq_min && run.seq_min < seq))
}

/// Copies a batch without the dropped entries; the others keep their numbers.
fn add_without(rewrite: &mut Rewrite<'_>, batch: &Replayed, dropped: &[Seq]) -> Result<()> {
    let mut part = wal::Batch::default();
    let mut seq = batch.first_seq;
    for entry in Entries::new(&batch.payload).flatten() {
        if dropped.binary_search(&seq).is_err() {
            part.add(entry.tree, entry.kind, entry.key, entry.value);
        } else if !part.is_empty() {
            rewrite.add(Seq(seq.0 - part.entries()), part.payload())?;
            part.clear();
        }
        seq.0 += 1;
    }
    match part.is_empty() {
        true => Ok(()),
        false => rewrite.add(Seq(seq.0 - part.entries()), part.payload()),
    }
}

impl Replay<'_> {
    /// Seals the memtables that are older than a run of L0.
    fn end(&mut self) {
        for (tree, memtables) in &mut self.memtables {
            let Some(version) = self.trees.get(tree) else { continue };
            let Some(last) = memtables.last() else { continue };
            if run_between(version, last, Seq::MAX) {
                last.seal();
                let arena = self.arenas.take(self.arenas.block_bytes());
                memtables.push(Arc::new(Memtable::new(MemtableId((self.next_memtable)()), arena)));
            }
        }
    }

    fn batch(
        &mut self,
        dir: &Path,
        batch: &Replayed,
        rewrite: Option<&mut Rewrite<'_>>,
    ) -> Result<()> {
        self.bound.map_or(Ok(()), |bound| bound.check(dir))?;
        let mut seq = batch.first_seq;
        let wal = rewrite.as_ref().map_or(batch.wal, |rewrite| rewrite.number());
        let (mut needed, mut dropped) = (false, Vec::new());
        for entry in Entries::new(&batch.payload) {
            let entry = entry.map_err(|what| {
                let what = format!("a batch does not decode: {what:?}");
                Error::corruption(&wal_path(dir, batch.wal), 0, what)
            })?;
            if seq > self.seq_max {
                return Err(used_up(dir));
            }
            if entry.tree.0 >= self.trees_end {
                let what = format!("a batch writes to tree {}, which never existed", entry.tree);
                return Err(Error::corruption(&wal_path(dir, batch.wal), 0, what));
            }
            self.last_seq = self.last_seq.max(seq);
            // There is no tree if its keyspace was dropped or cleared since.
            let tree = self.trees.get(&entry.tree);
            let needs = tree.is_some_and(|version| seq > version.flushed_seq);
            if needs && entry.kind == Kind::Kept {
                let kept = self.keep(wal, seq, &entry).map_err(|what| {
                    Error::corruption(&wal_path(dir, batch.wal), 0, what.to_owned())
                })?;
                needed |= kept;
                dropped.extend((!kept).then_some(seq));
            } else if needs {
                self.insert(wal, seq, &entry, seq);
                needed = true;
            }
            seq.0 += 1;
        }
        self.dropped |= !dropped.is_empty();
        match rewrite {
            Some(rewrite) if needed && dropped.is_empty() => {
                rewrite.add(batch.first_seq, &batch.payload)
            }
            Some(rewrite) if needed => add_without(rewrite, batch, &dropped),
            _ => Ok(()),
        }
    }

    /// Handles a put that a flush left in memory. It goes into a memtable under its original
    /// number, unless a memtable has it, because that flush was not installed, or has a newer entry
    /// of the key. Returns whether it was inserted.
    fn keep(&mut self, wal: u64, seq: Seq, entry: &Entry) -> Result<bool, &'static str> {
        let (original, value) = key::kept(entry.value).ok_or("a kept entry is too short")?;
        if original >= seq {
            return Err("a kept entry is not newer than its original");
        }
        let hash = hash(entry.key);
        let decides = |memtable: &Arc<Memtable>| {
            let newest = memtable.newest(entry.key, hash, Seq::MAX);
            newest.is_some_and(|(trailer, _)| trailer.seq() >= original)
                || memtable.cover(entry.key, Seq::MAX) > original
        };
        let there = self.memtables.get(&entry.tree).is_some_and(|all| all.iter().any(decides));
        if there || planted::is(Bug::KeptNotRecovered) {
            return Ok(false);
        }
        self.insert(wal, seq, &Entry { kind: Kind::Put, value, ..*entry }, original);
        Ok(true)
    }

    /// Inserts an entry, whose number in the WAL is `seq`, under the number `own`.
    fn insert(&mut self, wal: u64, seq: Seq, entry: &Entry, own: Seq) {
        let (tree, key, value) = (entry.tree, entry.key, entry.value);
        let is_range = entry.kind == Kind::RangeDelete;
        if entry.kind == Kind::PutExpiring {
            self.clock.note_use();
        }
        let bytes = match is_range {
            true => range_size(key.len(), value.len()),
            false => Memtable::entry_size(key.len(), value.len(), own),
        };
        let (arenas, next) = (self.arenas, self.next_memtable);
        let fresh = || {
            Arc::new(Memtable::new(MemtableId(next()), arenas.take(Memtable::arena_bytes(bytes))))
        };
        let memtables = self.memtables.entry(tree).or_insert_with(|| vec![fresh()]);
        let version = self.trees.get(&tree);
        let full = memtables.last().is_none_or(|memtable| {
            let ends = version.is_some_and(|version| run_between(version, memtable, seq));
            ends || memtable.growth_for(bytes).is_none()
        });
        if full {
            if let Some(last) = memtables.last() {
                last.seal();
            }
            memtables.push(fresh());
        }
        if let Some(memtable) = memtables.last() {
            memtable.note_wal(FileNumber(wal));
            memtable.grow_for(bytes);
            let space = memtable.reserve(1, if is_range { 0 } else { bytes }, seq..=seq);
            let mut space = space.expect("a fresh memtable has room for the entry it was made for");
            if is_range {
                memtable.delete_range(key, value, seq);
            } else {
                memtable.insert(&mut space, key, Trailer::new(own, entry.kind), value);
            }
            if own < seq {
                memtable.note_copies();
            }
            memtable.end_write();
        }
    }
}
