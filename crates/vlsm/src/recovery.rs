//! From WAL batches back to memtables.
//!
//! Every entry newer than what its tree has in tables goes into a memtable, in WAL order. Memtables
//! that are full are sealed; the ordinary flush takes them once the store is open. So recovery
//! writes nothing but the header of a new WAL, and a crash in it changes nothing.
//!
//! A run of L0 that was ingested may be newer than some of the entries and older than others. No
//! memtable has entries of both kinds, so that readers find everything in the order of its age.

use crate::events::Events;
use crate::memtable::{ArenaPool, Memtable, range_size};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::Event;
use vlsm_core::{
    Bytes, Error, FileNumber, Kind, MemtableId, Result, Seq, Trailer, TreeId, Version,
};
use vlsm_disk::Env;
use vlsm_disk::wal::reader::{RecoverOptions, Recovered, Replayed, recover};
use vlsm_disk::wal::{Entries, Entry, wal_path};

/// Progress is told at most this often, and not before this long.
const PROGRESS: Duration = Duration::from_secs(1);

/// No store counts up to here: it leaves as many numbers again for the writes to come.
pub(crate) const SEQ_MAX: Seq = Seq(Seq::MAX.0 / 2);

/// What the WAL held.
pub(crate) struct Replay<'a> {
    pub memtables: BTreeMap<TreeId, Vec<Arc<Memtable>>>,
    pub last_seq: Seq,
    trees: &'a BTreeMap<TreeId, Version>,
    arenas: &'a ArenaPool,
    next_memtable: &'a dyn Fn() -> u64,
}

/// Replays the WAL of a store.
pub(crate) fn replay<'a>(
    env: &dyn Env,
    events: &Events,
    dir: &Path,
    options: RecoverOptions,
    trees: &'a BTreeMap<TreeId, Version>,
    arenas: &'a ArenaPool,
    next_memtable: &'a dyn Fn() -> u64,
) -> Result<(Replay<'a>, Recovered)> {
    let mut replay =
        Replay { memtables: BTreeMap::new(), last_seq: Seq::ZERO, trees, arenas, next_memtable };
    let mut told = env.now();
    let mut sink = |batch: Replayed| {
        let now = env.now();
        if now.saturating_sub(told) >= PROGRESS {
            told = now;
            events.emit(Event::Recovering { done: Bytes(batch.done), total: Bytes(batch.total) });
        }
        replay.batch(dir, &batch)
    };
    let recovered = recover(&**env.fs(), dir, options, &mut sink)?;
    replay.end();
    Ok((replay, recovered))
}

/// Whether a run of L0 is newer than a memtable's entries and older than `seq`: files that were
/// ingested in between.
fn run_between(version: &Version, memtable: &Memtable, seq: Seq) -> bool {
    let last = memtable.seqs().map(|(_, largest)| largest);
    last.is_some_and(|last| version.l0.iter().any(|run| last < run.seq_min && run.seq_min < seq))
}

impl Replay<'_> {
    /// Ends the memtables that a run of L0 is newer than.
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

    fn batch(&mut self, dir: &Path, batch: &Replayed) -> Result<()> {
        let mut seq = batch.first_seq;
        for entry in Entries::new(&batch.payload) {
            let entry = entry.map_err(|what| {
                let what = format!("a batch does not decode: {what:?}");
                Error::corruption(&wal_path(dir, batch.wal), 0, what)
            })?;
            if seq > SEQ_MAX {
                let what = format!("sequence number {seq} is impossible");
                return Err(Error::corruption(&wal_path(dir, batch.wal), 0, what));
            }
            self.last_seq = self.last_seq.max(seq);
            let tree = self.trees.get(&entry.tree);
            if tree.is_some_and(|version| seq > version.flushed_seq) {
                self.insert(batch.wal, seq, &entry);
            }
            seq.0 += 1;
        }
        Ok(())
    }

    fn insert(&mut self, wal: u64, seq: Seq, entry: &Entry) {
        let (tree, key, value) = (entry.tree, entry.key, entry.value);
        let is_range = entry.kind == Kind::RangeDelete;
        let bytes = match is_range {
            true => range_size(key.len(), value.len()),
            false => Memtable::entry_size(key.len(), value.len(), seq),
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
                memtable.insert(&mut space, key, Trailer::new(seq, entry.kind), value);
            }
            memtable.end_write();
        }
    }
}
