//! Large batches: small batches do not wait for their commit.
//!
//! 1. The batch is inserted into memtables of its own, one per tree, with sequence numbers that
//!    count from 1.
//! 2. Its payload goes into the WAL as fragments; records of other batches may lie between them.
//!    The file with the first fragment is pinned, because no memtable refers to it yet. Fragments
//!    of a cancelled batch are never committed, and recovery ignores them.
//! 3. In the sequencing step a short commit record gives the batch its sequence numbers, and its
//!    memtables are attached to the active ones as parts.
//!
//! After that it is published and synced like any other batch.

use crate::memtable::{Memtable, body_size, towers_size};
use crate::write::Writer;
use crate::write::batch::Batch;
use std::collections::BTreeMap;
use std::sync::Arc;
use vlsm_core::event::WaitCause;
use vlsm_core::{FileNumber, Kind, MemtableId, Result, Seq, Trailer, TreeId};
use vlsm_disk::record::record_len;
use vlsm_disk::wal::writer::{Commit, fragments};

/// A large batch that is ready to be sequenced.
pub(crate) struct Prepared {
    /// Its memtable for each tree, with sequence numbers relative to the batch.
    pub parts: BTreeMap<TreeId, Arc<Memtable>>,
    /// Its commit record; none when it is not in the WAL.
    pub commit: Option<Commit>,
    /// The WAL that holds the first fragment. Pinned until the batch is sequenced.
    pub pinned: Option<FileNumber>,
}

impl Writer {
    /// Steps 1 and 2.
    pub fn prepare_large(self: &Arc<Self>, batch: &Batch, in_wal: bool) -> Result<Prepared> {
        let parts = self.private_memtables(batch);
        let mut prepared = Prepared { parts, commit: None, pinned: None };
        if in_wal {
            let id = self.shared.env.random();
            prepared.commit = Some(Commit::new(id, batch.payload()));
            for fragment in fragments(id, batch.payload()) {
                let written = self.write_fragment(&fragment, &mut prepared.pinned);
                if let Err(error) = written {
                    self.log.unpin(prepared.pinned);
                    return Err(error);
                }
            }
        }
        Ok(prepared)
    }

    /// Frames one fragment and has it written, so that the WAL's buffer stays small.
    fn write_fragment(
        self: &Arc<Self>,
        fragment: &[u8],
        pinned: &mut Option<FileNumber>,
    ) -> Result<()> {
        let mut since = None;
        loop {
            let room = self.shared.channel.room_epoch();
            if let Some(position) = self.frame_fragment(fragment, pinned)? {
                if let Some(since) = since {
                    self.shared.note_wait(WaitCause::WalQueue, since);
                }
                return self.log.write_through(position);
            }
            since.get_or_insert_with(|| self.shared.env.now());
            self.log.want(record_len(fragment.len()));
            self.shared.channel.wait_for_room(room, None);
        }
    }

    /// Frames one fragment; none when the WAL has no room for it.
    fn frame_fragment(
        &self,
        fragment: &[u8],
        pinned: &mut Option<FileNumber>,
    ) -> Result<Option<u64>> {
        let mut sequence = self.log.sequence();
        self.shared.health.check()?;
        if !self.log.make_room(&mut sequence, record_len(fragment.len())) {
            return Ok(None);
        }
        let number = sequence.tail.number();
        if pinned.is_none() {
            *pinned = Some(number);
            sequence.pin_wal(number);
        }
        let hint = self.log.synced_hint(number);
        let position = sequence.tail.append(|framer, out| {
            framer.fragment(out, hint, fragment);
        });
        Ok(Some(position))
    }

    fn private_memtables(&self, batch: &Batch) -> BTreeMap<TreeId, Arc<Memtable>> {
        // Sequence numbers relative to the batch: entry i of the whole batch has i + 1.
        let mut sizes: BTreeMap<TreeId, (usize, usize)> = BTreeMap::new();
        for (entry, seq) in batch.entries().iter().zip(1..) {
            let (count, bytes) = sizes.entry(entry.tree).or_default();
            *count += 1;
            if entry.kind != Kind::RangeDelete {
                let body = body_size(batch.key(entry).len(), batch.value(entry).len());
                *bytes += body + towers_size(Seq(seq), 1);
            }
        }
        let last = Seq(batch.len() as u64);
        let part = |(tree, (count, bytes)): (TreeId, (usize, usize))| {
            let id = MemtableId(self.shared.numbers.next_memtable());
            let arena = self.shared.arenas.take_exactly(Memtable::arena_bytes(bytes + 8));
            let part = Arc::new(Memtable::new(id, arena));
            let space = part.reserve(count, bytes, Seq(1)..=last);
            (tree, (part, space.expect("the arena was made for it")))
        };
        let mut parts: BTreeMap<_, _> = sizes.into_iter().map(part).collect();
        for (entry, seq) in batch.entries().iter().zip(1..) {
            if let Some((part, space)) = parts.get_mut(&entry.tree) {
                let (key, value) = (batch.key(entry), batch.value(entry));
                if entry.kind == Kind::RangeDelete {
                    part.delete_range(key, value, Seq(seq));
                } else {
                    part.insert(space, key, Trailer::new(Seq(seq), entry.kind), value);
                }
            }
        }
        let finish = |(tree, (part, _)): (TreeId, (Arc<Memtable>, _))| {
            part.end_write();
            part.seal();
            (tree, part)
        };
        parts.into_iter().map(finish).collect()
    }
}
