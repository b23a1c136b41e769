//! Keeps hot keys of memtables that are being flushed in memory (TRIAD-MEM).
//!
//! 1. A flush's job chooses the keys that were updated most often (`job/hot`), and hands their
//!    newest versions over, some at a time.
//! 2. In the sequencing step those that may stay are written to the WAL again, in a batch of the
//!    kind [`Kind::Kept`](vlsm_core::Kind::Kept). The batch gets sequence numbers of its own; each
//!    entry says which number it had.
//! 3. They go into the active memtable *with their original sequence numbers*. So every reader,
//!    with or without a snapshot, reads what it read before.
//! 4. The flush leaves out exactly these versions. The sync of the WAL before its install
//!    (`install`) makes the batch durable, so the older log may go.
//!
//! A version may stay if nothing newer of its key is in a place that is older than the active
//! memtable, because readers take the first place that has the key:
//! - no memtable between has a newer version, or a range tombstone over the key that is newer. They
//!   must be drained, so that this can be seen;
//! - no run of L0 was ingested after the memtables that are being flushed, and no ingest is under
//!   way;
//! - the active memtable may have something newer: there the sequence numbers decide. A batch that
//!   is sequenced and not inserted yet cannot be seen. It does no harm: a recovery that meets it
//!   before the kept entry drops that one (`recovery`). Only with a merge operator the older value
//!   counts, too, so there nothing is kept while a writer inserts;
//! - it fits into the active memtable as that is. Nothing is rotated, and nobody waits.
//!
//! None stays if somebody waits for the memtables to be in tables ([`Writer::flush_trees`]), and
//! none of memtables with entries outside the WAL.
//!
//! Consequence: a salvage of a damaged log (`salvage_wal`) may lose the newest value of a hot key
//! and keep younger writes of the same tree, because these are in tables already.
//!
//! Bounds: a part of `job/hot` is kept at once, and the next one when that is written.

use crate::job::hot::{Hot, Keeps, Kept};
use crate::log::sequence::Sequence;
use crate::memtable::{Memtable, Reservation};
use crate::read::view::TreeView;
use crate::sync::atomic::Ordering;
use crate::write::Writer;
use crate::write::publish::IN_FLIGHT_MAX;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Kind, Seq, Trailer, TreeId};
use vlsm_disk::record::record_len;
use vlsm_disk::sst::filter::hash;
use vlsm_disk::wal;

/// Entries that were sequenced.
struct Sequenced {
    holder: Arc<Memtable>,
    space: Reservation,
    ticket: u64,
    last_seq: Seq,
    /// The position of the WAL behind them.
    position: u64,
}

impl Keeps for Writer {
    fn keep(&self, tree: TreeId, flushed: &[Arc<Memtable>], hot: &[Hot]) -> Kept {
        let (mut sequenced, kept) = {
            let mut sequence = self.log.sequence();
            let view = self.views.load_full();
            let Some(tree) = view.find(tree) else { return Kept::Never };
            if !self.may_keep(tree, flushed) {
                return Kept::Never;
            }
            // Before the search for newer versions: while the sequence is held no writer begins, so
            // a quiet memtable stays as it is.
            if tree.rules.operator.is_some() && !tree.active.is_quiet() {
                return Kept::None;
            }
            let kept: Vec<&Hot> = match in_between(tree, flushed) {
                Some(newer) => hot.iter().filter(|hot| may_stay(hot, &newer, flushed)).collect(),
                None => return Kept::None,
            };
            let Some(sequenced) = self.sequence_kept(&mut sequence, tree, &kept) else {
                return Kept::None;
            };
            flushed[0].note_left(sequenced.holder.id(), kept.iter().map(|hot| hot.seq));
            (sequenced, kept)
        };
        self.shared.env.interleave();
        for hot in &kept {
            let trailer = Trailer::new(hot.seq, Kind::Put);
            sequenced.holder.insert(&mut sequenced.space, &hot.key, trailer, &hot.value);
        }
        if sequenced.holder.end_write() {
            self.shared.channel.wake();
        }
        self.publisher.finish(sequenced.ticket, sequenced.last_seq);
        let (counters, keys) = (&self.shared.counters, kept.len() as u64);
        let bytes = kept.iter().map(|hot| (hot.key.len() + hot.value.len()) as u64).sum();
        counters.kept.add(keys);
        counters.kept_bytes.add(bytes);
        let (log, position) = (self.log.clone(), sequenced.position);
        Kept::Some(keys, bytes, self.shared.io.submit(move || log.write_through(position)))
    }
}

impl Writer {
    /// Whether anything of these memtables may stay. Called in the sequencing step.
    fn may_keep(&self, tree: &TreeView, flushed: &[Arc<Memtable>]) -> bool {
        let settled = |memtable: &Arc<Memtable>| self.shared.channel.is_settled(memtable.id());
        self.shared.health.check().is_ok()
            && !self.closing.load(Ordering::Relaxed)
            && self.barriers.load(Ordering::Relaxed) == 0
            && !tree.mixed
            && !flushed.is_empty()
            && !flushed.iter().any(settled)
    }

    /// Claims space for these entries and frames them. None, with nothing changed, if there is no
    /// room.
    fn sequence_kept(
        &self,
        sequence: &mut Sequence,
        tree: &TreeView,
        kept: &[&Hot],
    ) -> Option<Sequenced> {
        let holder = tree.active.clone();
        if kept.is_empty() || self.publisher.in_flight(sequence.next_ticket) >= IN_FLIGHT_MAX {
            return None;
        }
        let mut batch = wal::Batch::default();
        let mut bytes = 0;
        for hot in kept {
            batch.keep(tree.id, &hot.key, hot.seq, &hot.value);
            bytes += Memtable::entry_size(hot.key.len(), hot.value.len(), hot.seq);
        }
        let len = record_len(batch.payload().len());
        if !self.has_room_to_keep(tree, &holder, bytes) || !self.log.make_room(sequence, len) {
            return None;
        }
        let first_seq = Seq(sequence.next_seq);
        let last_seq = Seq(first_seq.0 + kept.len() as u64 - 1);
        let space = holder.reserve(kept.len(), bytes, first_seq..=last_seq)?;
        holder.note_copies();
        holder.note_wal(sequence.tail.number());
        sequence.next_seq = last_seq.0 + 1;
        let ticket = sequence.next_ticket;
        sequence.next_ticket += 1;
        let hint = self.log.synced_hint(sequence.tail.number());
        let position = sequence.tail.append(|framer, out| {
            framer.batch(out, first_seq, hint, batch.payload(), batch.checksum());
        });
        Some(Sequenced { holder, space, ticket, last_seq, position })
    }

    /// Whether so much more fits into the active memtable, within the bounds of memory and without
    /// a rotation.
    fn has_room_to_keep(&self, tree: &TreeView, active: &Memtable, bytes: usize) -> bool {
        let sealed_at = tree.rules.own.memtable_bytes(self.shared.channel.memtable_bytes());
        if (active.bytes() + bytes) as u64 > sealed_at {
            return false;
        }
        if active.has_room(bytes) {
            return true;
        }
        let Some(growth) = active.growth_for(bytes) else { return false };
        let memory = &self.shared.memory;
        let held = memory.arenas.active.get() + growth as u64;
        if held > memory.active_share()
            || held + memory.arenas.sealed.get() > memory.memtable_share()
        {
            return false;
        }
        active.grow_for(bytes);
        memory.note_growth();
        true
    }
}

/// The sealed memtables that are newer than those that are being flushed. None if one of them is
/// still written to.
fn in_between(tree: &TreeView, flushed: &[Arc<Memtable>]) -> Option<Vec<Arc<Memtable>>> {
    let last = flushed.last()?.id();
    let newer = tree.immutables.iter().filter(|sealed| sealed.id() > last);
    let newer: Vec<_> = newer.chain([&tree.active]).cloned().collect();
    let written = |memtable: &Arc<Memtable>| memtable.sealed() && !memtable.drained();
    (!newer.iter().any(written)).then_some(newer)
}

/// Whether a version is the newest of its key as far as can be seen, and not there yet.
fn may_stay(hot: &Hot, newer: &[Arc<Memtable>], flushed: &[Arc<Memtable>]) -> bool {
    let covers = |memtable: &Arc<Memtable>| {
        memtable.has_ranges() && memtable.cover(&hot.key, Seq::MAX) > hot.seq
    };
    let hash = hash(&hot.key);
    let has_newer = |memtable: &Arc<Memtable>| {
        let newest = memtable.newest(&hot.key, hash, Seq::MAX);
        newest.is_some_and(|(trailer, _)| trailer.seq() >= hot.seq)
    };
    let hidden = newer.iter().any(has_newer) && !planted::is(Bug::KeptHidesNewer);
    !hidden && !flushed.iter().chain(newer).any(covers)
}
