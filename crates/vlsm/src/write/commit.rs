//! The staged commit.
//!
//! 1. *Prepare*: the batch is already in its WAL encoding; its size in memory is summed up.
//! 2. *Sequence*, one writer at a time and short: space in the memtables is claimed (a full one is
//!    rotated), sequence numbers are given, the batch is framed into the WAL buffer.
//! 3. *Memtable*: each writer inserts its own entries, in parallel with the others.
//! 4. *WAL*: `Buffered` writers wait until the buffer is written; the first one writes for all
//!    (`log`). `Lazy` and `Sync` writers continue.
//! 5. *Publish*: batches become visible in the order of their sequence numbers (`publish.rs`).
//! 6. *Sync*: `Sync` writers wait until the buffer is written and on the device, after publishing,
//!    so that no other writer waits for them. One of them writes and syncs for all.
//!
//! Deviation from the order WAL → memtable: stages 3 and 4 do not depend on each other, only stage
//! 5 on both. A `Buffered` batch whose WAL write failed is in a memtable but never visible, because
//! the store is latched and its sequence number is never published. A `Sync` batch is visible while
//! it is written, as a `Lazy` one is; its writer learns of the failure.
//!
//! A full device is detected before stage 2: the WAL has room before a batch is sequenced, so a
//! batch that is refused with [`Error::NoSpace`] leaves no trace (`log`).
//!
//! Invariants: sequence numbers are assigned in WAL order; a batch becomes visible only after all
//! earlier batches, and after it is in all its memtables; a memtable is drained only after its
//! writers published.

use crate::catalog::Catalog;
use crate::log::sequence::Sequence;
use crate::memtable::{Memtable, Reservation, towers_size};
use crate::options::{Durability, WriteOptions};
use crate::read::changes::{Change, ReadIndex};
use crate::shared::Shared;
use crate::shared::latency::Timed;
use crate::sync::atomic::Ordering;
use crate::write::Writer;
use crate::write::batch::{Batch, Entry};
use crate::write::check::Condition;
use crate::write::large::Prepared;
use crate::write::needs::{Needs, needs_of};
use crate::write::publish::IN_FLIGHT_MAX;
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::event::WaitCause;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, FileNumber, Kind, Micros, Result, Seq, Trailer, TreeId};
use vlsm_disk::record::{checksum, record_len};
use vlsm_disk::wal::LARGE_BATCH;
use vlsm_disk::wal::writer::COMMIT_LEN;

/// A batch after sequencing.
struct Sequenced {
    ticket: u64,
    first_seq: Seq,
    last_seq: Seq,
    /// The WAL position up to which it must be written.
    position: u64,
    /// Its memtables with the space claimed there, by tree.
    claims: Claims,
    rotated: bool,
}

/// The space that was claimed for a batch, by tree.
type Claims = SmallVec<[Claim; 1]>;

/// The result of the sequencing step.
enum Attempt {
    Sequenced(Sequenced),
    /// One of its trees is a former one of its keyspace, which was cleared or dropped.
    Moved,
    /// Other batches were sequenced since the transaction's snapshot. Its check has begun, with
    /// the notes from this number on.
    Outrun(Seq),
    /// There is no room in a memtable for now, and why.
    Full(WaitCause),
    /// Too many batches are on their way to being published.
    Crowded,
    /// The WAL has no room for so many bytes until its next file is prepared.
    LogFull(u64),
}

struct Claim {
    tree: TreeId,
    memtable: Arc<Memtable>,
    space: Reservation,
}

/// What the commit of a transaction depends on.
pub(crate) struct Basis<'a> {
    /// What it read.
    pub reads: &'a ReadIndex,
    /// The sequence number at which it read.
    pub since: Seq,
    /// Looks for a read that a visible write after a sequence number has changed.
    pub changed: &'a dyn Fn(Seq) -> Result<Option<Change>>,
}

/// How often a commit begins its check at most, while notes are lost.
const CHECKS: u32 = 8;

/// A batch and its condition.
type Checked<'a> = (&'a Batch, Condition<'a>);

/// A batch after stage 1.
enum Staged {
    /// Its entries are inserted after sequencing. `checksum` is that of its payload; none when it
    /// is not for the WAL.
    Small { needs: Needs, checksum: Option<u32> },
    /// Its entries are in memtables of its own, its payload in the WAL.
    Large(Prepared),
}

impl Staged {
    /// Length of its record's payload.
    fn record(&self, batch: &Batch) -> usize {
        match self {
            Self::Small { .. } => batch.payload().len(),
            Self::Large(_) => COMMIT_LEN,
        }
    }

    /// The WAL that a large batch's fragments pin.
    fn pinned(&self) -> Option<FileNumber> {
        match self {
            Self::Small { .. } => None,
            Self::Large(large) => large.pinned,
        }
    }
}

impl Writer {
    /// Commits a batch.
    pub fn write(self: &Arc<Self>, batch: &Batch, options: WriteOptions) -> Result<()> {
        self.write_checked(batch, options, None)
    }

    /// Commits a batch; that of a transaction only if nothing that it read has changed.
    pub fn write_checked(
        self: &Arc<Self>,
        batch: &Batch,
        options: WriteOptions,
        basis: Option<&Basis<'_>>,
    ) -> Result<()> {
        batch.check(self.shared.store_uid)?;
        self.shared.health.check()?;
        if batch.is_empty() || self.write_once(batch, options, basis)? {
            return Ok(());
        }
        // Its keyspaces were cleared or dropped since it was filled.
        if planted::is(Bug::FormerBatchLost) {
            return Ok(());
        }
        loop {
            let moved = self.moved(batch)?;
            if self.write_once(&moved, options, basis)? {
                return Ok(());
            }
        }
    }

    /// Commits a batch. False, with nothing changed, if one of its trees is a former one.
    fn write_once(
        self: &Arc<Self>,
        batch: &Batch,
        options: WriteOptions,
        basis: Option<&Basis<'_>>,
    ) -> Result<bool> {
        let started = self.shared.begin(Timed::Write);
        let env = &*self.shared.env;
        // A refused transaction has written nothing, so those are traced later.
        if basis.is_none() {
            self.trace(batch);
        }
        let durability = options.durability.unwrap_or(self.shared.options.durability);
        if durability == Durability::NoWal {
            check_one_keyspace(&self.catalog, batch)?;
        }
        let _watch = self.shared.watch();
        let bytes = batch.encoded_len() as u64;
        let give_up = options.deadline.map(|deadline| env.now() + deadline);
        let admitted = match self.shared.gate.is_open() {
            true => None,
            false => Some(self.shared.wait_at_gate(tree_of(batch), bytes, give_up)?),
        };
        let give_back = |error| {
            admitted.inspect(|admitted| self.shared.gate.give_back(*admitted));
            error
        };
        let staged = self.stage(batch, durability).map_err(give_back)?;
        let sequenced = match basis {
            None => self.sequence((batch, Condition::None), &staged, durability, give_up),
            Some(basis) => self.sequence_checked(batch, basis, &staged, durability, give_up),
        };
        let sequenced = sequenced.map_err(|error| {
            self.log.unpin(staged.pinned());
            give_back(error)
        })?;
        let Some(mut sequenced) = sequenced else {
            self.log.unpin(staged.pinned());
            admitted.inspect(|admitted| self.shared.gate.give_back(*admitted));
            return Ok(false);
        };
        if basis.is_some() {
            self.trace(batch);
        }
        let early = planted::is(Bug::PublishedBeforeInsert);
        if early {
            self.publish(sequenced.ticket, sequenced.last_seq)?;
        }
        env.interleave();
        self.fill(batch, &mut sequenced);
        env.interleave();
        self.wait_for_write(durability, sequenced.position)?;
        if !early {
            self.publish(sequenced.ticket, sequenced.last_seq)?;
        }
        if sequenced.rotated {
            self.shared.channel.wake();
        }
        if durability == Durability::Sync {
            self.wait_for_sync(sequenced.position)?;
        }
        self.shared.end(started);
        Ok(true)
    }

    /// Stage 4.
    #[inline]
    fn wait_for_write(&self, durability: Durability, position: u64) -> Result<()> {
        match durability {
            Durability::Sync => {
                self.log.note_sync(position);
                Ok(())
            }
            Durability::Buffered => self.log.write_through(position),
            Durability::Lazy => self.log.write_if_large(position),
            Durability::NoWal => Ok(()),
        }
    }

    /// Stage 6.
    fn wait_for_sync(&self, position: u64) -> Result<()> {
        let since = self.shared.env.now();
        self.shared.counters.awaited_syncs.add(1);
        self.log.sync_through(position)?;
        self.shared.note_wait(WaitCause::WalSync, since);
        Ok(())
    }

    /// Records the writes, if a trace runs.
    #[inline]
    fn trace(&self, batch: &Batch) {
        let Shared { env, io, tracer, .. } = &*self.shared;
        if tracer.is_on() {
            tracer.record(io, env.now(), batch.asked());
        }
    }

    /// Stage 1.
    fn stage(self: &Arc<Self>, batch: &Batch, durability: Durability) -> Result<Staged> {
        let in_wal = durability != Durability::NoWal;
        if batch.encoded_len() >= LARGE_BATCH {
            return Ok(Staged::Large(self.prepare_large(batch, in_wal)?));
        }
        let checksum = in_wal.then(|| checksum(batch.payload()));
        Ok(Staged::Small { needs: needs_of(batch), checksum })
    }

    /// Stage 2, again and again while there is no room.
    fn sequence(
        self: &Arc<Self>,
        batch: Checked<'_>,
        staged: &Staged,
        durability: Durability,
        give_up: Option<Duration>,
    ) -> Result<Option<Sequenced>> {
        match self.try_sequence(batch, staged, durability)? {
            Attempt::Sequenced(sequenced) => return Ok(Some(sequenced)),
            Attempt::Moved => return Ok(None),
            _ => {}
        }
        let since = self.shared.env.now();
        self.shared.counters.waiting_writers.add(1);
        let result = self.wait_to_sequence(batch, staged, durability, since, give_up);
        self.shared.counters.waiting_writers.sub(1);
        result
    }

    /// Stage 2 of a transaction: at once if no batch was sequenced since its snapshot, because then
    /// nothing has changed; otherwise with a check before it and in it.
    fn sequence_checked(
        self: &Arc<Self>,
        batch: &Batch,
        basis: &Basis<'_>,
        staged: &Staged,
        durability: Durability,
        give_up: Option<Duration>,
    ) -> Result<Option<Sequenced>> {
        let mut since = basis.since;
        let mut begun = None;
        if self.views.visible() == since {
            let batch = (batch, Condition::NoneSince(since));
            match self.try_sequence(batch, staged, durability)? {
                Attempt::Sequenced(sequenced) => return Ok(Some(sequenced)),
                Attempt::Outrun(from) => begun = Some(from),
                _ => {}
            }
        }
        let mut checks = 1;
        loop {
            let check = match begun.take() {
                Some(from) => self.check_from(from, basis.reads, give_up)?,
                None => self.begin_check(basis.reads, give_up)?,
            };
            if let Some(change) = (basis.changed)(since)? {
                return Err(self.conflict(change));
            }
            self.shared.env.interleave();
            let searched = check.search();
            let sequenced = searched.and_then(|()| {
                self.sequence((batch, Condition::Passed(&check)), staged, durability, give_up)
            });
            if !check.is_lost() || checks == CHECKS {
                return sequenced;
            }
            // All before the check was visible, and has been compared.
            since = Seq(check.from.0 - 1);
            checks += 1;
        }
    }

    /// Waits until there may be room, with the help of all workers.
    fn stop(&self, room: u64, give_up: Option<Duration>) {
        self.shared.counters.stopped_writers.add(1);
        self.shared.channel.wake();
        self.shared.channel.wait_for_room(room, give_up);
        self.shared.counters.stopped_writers.sub(1);
    }

    #[cold]
    fn wait_to_sequence(
        self: &Arc<Self>,
        batch: Checked<'_>,
        staged: &Staged,
        durability: Durability,
        since: Duration,
        give_up: Option<Duration>,
    ) -> Result<Option<Sequenced>> {
        let (mut cause, tree) = (WaitCause::MemtableFull, tree_of(batch.0));
        loop {
            let room = self.shared.channel.room_epoch();
            let published = self.publisher.epoch();
            let attempt = self.try_sequence(batch, staged, durability)?;
            if matches!(attempt, Attempt::Sequenced(_) | Attempt::Moved) {
                // A former tree is forgotten.
                let tree = tree.filter(|_| !matches!(attempt, Attempt::Moved));
                self.shared.note_wait_of(tree, cause, since);
                return Ok(match attempt {
                    Attempt::Sequenced(sequenced) => Some(sequenced),
                    _ => None,
                });
            }
            let now = self.shared.env.now();
            if give_up.is_some_and(|give_up| now >= give_up) {
                let waited = Micros(now.saturating_sub(since).as_micros() as u64);
                self.shared.note_wait_of(tree, cause, since);
                return Err(Error::Busy { waited, cause: cause.name() });
            }
            match attempt {
                Attempt::Sequenced(_) | Attempt::Moved => {}
                Attempt::Outrun(_) => unreachable!("this batch may come after others"),
                Attempt::Crowded => {
                    cause = WaitCause::WalQueue;
                    self.publisher.wait(published, give_up);
                }
                Attempt::LogFull(len) => {
                    cause = WaitCause::WalQueue;
                    self.log.want(len);
                    self.stop(room, give_up);
                }
                Attempt::Full(why) => {
                    cause = why;
                    self.stop(room, give_up);
                }
            }
        }
    }

    /// Stage 2.
    fn try_sequence(
        self: &Arc<Self>,
        batch: Checked<'_>,
        staged: &Staged,
        durability: Durability,
    ) -> Result<Attempt> {
        let (batch, condition) = batch;
        let mut sequence = self.log.sequence();
        self.check_open()?;
        if self.publisher.in_flight(sequence.next_ticket) >= IN_FLIGHT_MAX {
            return Ok(Attempt::Crowded);
        }
        if let Some(from) = self.test(condition, &sequence)? {
            return Ok(Attempt::Outrun(from));
        }
        if self.names_former(batch) {
            return Ok(Attempt::Moved);
        }
        let first_seq = Seq(sequence.next_seq);
        let len = record_len(staged.record(batch));
        if durability != Durability::NoWal && !self.log.make_room(&mut sequence, len) {
            return Ok(Attempt::LogFull(len));
        }
        assert!(!batch.is_empty(), "an empty batch has no sequence numbers");
        debug_assert!(self.views.visible() < first_seq, "{first_seq} is visible already");
        let last_seq = Seq(first_seq.0 + batch.len() as u64 - 1);
        let (claims, rotated) = match self.claim(&mut sequence, staged, first_seq..=last_seq) {
            Ok(claimed) => claimed,
            Err(why) => return Ok(Attempt::Full(why)),
        };
        sequence.next_seq = last_seq.0 + 1;
        let ticket = sequence.next_ticket;
        sequence.next_ticket += 1;
        let position = match durability {
            Durability::NoWal => 0,
            _ => {
                let tail = &mut sequence.tail;
                let hint = self.log.synced_hint(tail.number());
                tail.append(|framer, out| {
                    match staged {
                        Staged::Small { checksum, .. } => {
                            let checksum = checksum.expect("only NoWal batches have none");
                            framer.batch(out, first_seq, hint, batch.payload(), checksum)
                        }
                        Staged::Large(large) => {
                            let commit = large.commit.as_ref().expect("made with the fragments");
                            framer.commit(out, first_seq, hint, commit)
                        }
                    };
                })
            }
        };
        if let Some(number) = staged.pinned() {
            sequence.unpin_wal(number);
        }
        if self.recent.is_active() {
            match staged {
                Staged::Small { .. } => self.recent.note_batch(first_seq, batch),
                Staged::Large(large) => self.recent.note_parts(first_seq, &large.parts),
            }
        }
        if durability == Durability::NoWal {
            self.unlogged.store(true, Ordering::Relaxed);
        }
        // Counted here, one at a time, so that no atomic is contended for.
        self.shared.counters.batches.bump(1);
        self.shared.counters.writes.bump(batch.len() as u64);
        self.shared.counters.write_bytes.bump(batch.encoded_len() as u64);
        Ok(Attempt::Sequenced(Sequenced { ticket, first_seq, last_seq, position, claims, rotated }))
    }

    /// Claims a batch's space in its memtables, or attaches its own ones, and says whether any was
    /// rotated. An error, with nothing claimed, when writers have to wait.
    fn claim(
        &self,
        sequence: &mut Sequence,
        staged: &Staged,
        seqs: RangeInclusive<Seq>,
    ) -> Result<(Claims, bool), WaitCause> {
        let mut rotated = false;
        match staged {
            Staged::Small { needs, checksum } => {
                // The entries of one tree need not be consecutive, so the towers of the whole batch
                // are claimed for each: exact for one tree, a little more for several.
                let towers =
                    towers_size(*seqs.start(), (seqs.end().0 - seqs.start().0 + 1) as usize);
                for (index, need) in needs.iter().enumerate() {
                    let bytes = need.bytes + towers + need.tombstones;
                    let served = |tree| needs[..index].iter().any(|need| need.tree == tree);
                    rotated |= self.make_room(sequence, need.tree, bytes, served)?;
                }
                let view = self.views.load();
                let mut claims = Claims::new();
                for need in needs {
                    let memtable = view.tree(need.tree).active.clone();
                    let space = memtable
                        .reserve(need.entries, need.bytes + towers, seqs.clone())
                        .expect("room was made in the same sequencing step");
                    match checksum {
                        Some(_) => memtable.note_wal(sequence.tail.number()),
                        None => memtable.note_unlogged(),
                    }
                    claims.push(Claim { tree: need.tree, memtable, space });
                }
                Ok((claims, rotated))
            }
            Staged::Large(large) => {
                for (tree, part) in &large.parts {
                    let bytes = part.bytes().min(self.shared.arenas.block_bytes() / 2);
                    rotated |= self.make_room(sequence, *tree, bytes, |_| false)?;
                }
                let view = self.views.load();
                for (tree, part) in &large.parts {
                    let active = &view.tree(*tree).active;
                    active.attach(part.clone(), Seq(seqs.start().0 - 1));
                    match large.pinned {
                        Some(number) => active.note_wal(number),
                        None => active.note_unlogged(),
                    }
                }
                // Its memory counts from here on; who writes next may have to wait for that.
                rotated |= self.bound_memtables(sequence, 0, |_| false).unwrap_or(true);
                Ok((Claims::new(), rotated))
            }
        }
    }

    /// Stage 3.
    fn fill(&self, batch: &Batch, sequenced: &mut Sequenced) {
        if sequenced.claims.is_empty() {
            return;
        }
        let mut seq = sequenced.first_seq;
        for entry in batch.entries() {
            let claim = match sequenced.claims.as_mut_slice() {
                [only] => only,
                claims => claims
                    .iter_mut()
                    .find(|claim| claim.tree == entry.tree)
                    .expect("every tree of the batch got a claim"),
            };
            let (key, value) = (batch.key(entry), batch.value(entry));
            if entry.kind == Kind::RangeDelete {
                claim.memtable.delete_range(key, value, seq);
            } else {
                let trailer = Trailer::new(seq, entry.kind);
                claim.memtable.insert(&mut claim.space, key, trailer, value);
            }
            seq.0 += 1;
        }
        assert!(seq.0 == sequenced.last_seq.0 + 1, "each entry has one of the batch's numbers");
        let mut drained = false;
        for claim in &sequenced.claims {
            drained |= claim.memtable.end_write();
        }
        if drained {
            sequenced.rotated = true;
        }
    }

    /// Stage 5: hands the batch to the publisher and waits until it is visible.
    fn publish(&self, ticket: u64, last_seq: Seq) -> Result<()> {
        self.publisher.finish(ticket, last_seq);
        if self.views.visible() >= last_seq {
            return Ok(());
        }
        let since = self.shared.env.now();
        let cause = self.publish_cause();
        self.publisher.await_turn(ticket, last_seq, &self.shared.health)?;
        self.shared.note_wait(cause, since);
        Ok(())
    }

    /// The cause for which a batch that is done is not visible yet.
    pub(super) fn publish_cause(&self) -> WaitCause {
        match self.barriers.load(Ordering::Relaxed) {
            0 => WaitCause::WalQueue,
            _ => WaitCause::Ingest,
        }
    }
}

/// The tree of a batch's first write, which its waits are counted for.
fn tree_of(batch: &Batch) -> Option<TreeId> {
    batch.entries().first().map(|entry| entry.tree)
}

fn check_one_keyspace(catalog: &Catalog, batch: &Batch) -> Result<()> {
    let Some(first) = batch.entries().first() else { return Ok(()) };
    if batch.entries().iter().all(|entry| entry.tree == first.tree) {
        return Ok(());
    }
    let owner = catalog.owner(first.tree);
    let owns = |entry: &Entry| {
        let other = catalog.owner(entry.tree);
        owner.as_ref().zip(other).is_some_and(|(owner, other)| Arc::ptr_eq(owner, &other))
    };
    if batch.entries().iter().all(owns) {
        return Ok(());
    }
    Err(Error::InvalidArgument(
        "a NoWal batch may touch one keyspace only: it could not be recovered as a whole".into(),
    ))
}
