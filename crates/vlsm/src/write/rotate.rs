//! The memtable switch: a full memtable is sealed and an empty one takes its place.
//!
//! It happens in the sequencing step, so no batch is ever split over two memtables of one tree. The
//! arena of the new memtable is usually pooled and faulted in beforehand, so a rotation only copies
//! the view's vector.
//!
//! Bounds: at most `memtable_count` memtables of a tree hold data; with all of them full, writers
//! wait for a flush. For all trees together: when active memtables fill half of the memory that
//! memtables may take, the largest (then the oldest) is rotated although it is not full; when
//! active and sealed ones fill all of it, writers wait for a flush. A flush is then running or can
//! start, so many small trees cannot block each other; without a possible flush the bound gives
//! way. A shape that gathers memtables before a merge gets the signal that they are wanted: from a
//! waiting writer, from either bound, from the WAL limit, from a flush or an ingest.

use crate::log::sequence::Sequence;
use crate::memtable::Memtable;
use crate::read::view::TreeView;
use crate::write::Writer;
use std::cmp::Reverse;
use std::sync::Arc;
use vlsm_core::event::{Event, WaitCause};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Bytes, MemtableId, TreeId};

impl Writer {
    /// Sees to it that the active memtable of a tree has room for `bytes`, without a rotation of
    /// `spared` trees. True when that took a rotation; an error when writers have to wait, and why.
    #[inline]
    pub(super) fn make_room(
        &self,
        held: &Sequence,
        tree: TreeId,
        bytes: usize,
        spared: impl Fn(TreeId) -> bool,
    ) -> Result<bool, WaitCause> {
        let view = self.views.load();
        let view = view.tree(tree);
        let active = &view.active;
        // A schedule may have memtables sealed before they are full, and so may the keyspace.
        let sealed_at = view.rules.own.memtable_bytes(self.shared.channel.memtable_bytes());
        let small = sealed_at == u64::MAX || (active.bytes() + bytes) as u64 <= sealed_at;
        if small && active.has_room(bytes) {
            return Ok(false);
        }
        // What was rotated in vain is flushed while the writer waits.
        self.make_room_slowly(held, tree, bytes, spared).inspect_err(|_| {
            self.want_memtables_out();
            self.shared.channel.wake();
        })
    }

    #[cold]
    fn make_room_slowly(
        &self,
        held: &Sequence,
        tree: TreeId,
        bytes: usize,
        spared: impl Fn(TreeId) -> bool,
    ) -> Result<bool, WaitCause> {
        let growth = self.views.load().tree(tree).active.growth_for(bytes);
        let rotated = self.bound_memtables(held, growth.unwrap_or(bytes), spared)?;
        let view = self.views.load();
        let view = view.tree(tree);
        let active = &view.active;
        let sealed_at = view.rules.own.memtable_bytes(self.shared.channel.memtable_bytes());
        let sealed_at = usize::try_from(sealed_at).unwrap_or(usize::MAX);
        let small = active.is_empty() || active.bytes() + bytes <= sealed_at;
        if small && active.growth_for(bytes).is_some() {
            active.grow_for(bytes);
            self.shared.memory.note_growth();
            return Ok(rotated);
        }
        // The one that takes over counts, too; an empty active one is replaced rather than sealed.
        let sealed = view.immutables.len() + usize::from(!active.is_empty());
        if sealed >= self.shared.options.policy.tree.memtable_count {
            return Err(WaitCause::MemtableFull);
        }
        let fresh = self.new_memtable(Memtable::arena_bytes(bytes), !active.is_empty());
        fresh.grow_for(bytes);
        self.rotate(held, view, fresh);
        self.shared.memory.note_growth();
        Ok(true)
    }

    /// Keeps the memtables of all trees within their share of memory when `more` bytes are added.
    pub(super) fn bound_memtables(
        &self,
        held: &Sequence,
        more: usize,
        spared: impl Fn(TreeId) -> bool,
    ) -> Result<bool, WaitCause> {
        let (gauges, more) = (&self.shared.memory.arenas, more as u64);
        let share = self.shared.memory.active_share();
        // A single large entry is no reason to rotate everything.
        let calm = share.saturating_sub(more).max(share / 2);
        let mut rotated = false;
        while gauges.active.get() > calm {
            let view = self.views.load();
            let may_go = |tree: &&Arc<TreeView>| {
                let has_place =
                    tree.immutables.len() < self.shared.options.policy.tree.memtable_count;
                has_place && !tree.active.is_idle() && !spared(tree.id)
            };
            let size = |tree: &&Arc<TreeView>| (tree.active.charged(), Reverse(tree.active.id()));
            let Some(largest) = view.trees().filter(may_go).max_by_key(size) else { break };
            self.rotate(held, largest, self.idle_memtable());
            rotated = true;
        }
        if rotated {
            self.want_memtables_out();
        }
        let (active, sealed) = (gauges.active.get(), gauges.sealed.get());
        if sealed > 0 && active + sealed + more > self.shared.memory.memtable_share() {
            return Err(WaitCause::MemoryBudget);
        }
        Ok(rotated)
    }

    /// Keeps what was recovered within memory's share for memtables, as far as that can be done.
    pub fn bound_recovered(&self) {
        let _ = self.bound_memtables(&self.log.sequence(), 0, |_| false);
    }

    /// Asks for a flush of all sealed memtables, even if the shape would gather more of them first.
    pub(super) fn want_memtables_out(&self) {
        if self.gathers {
            self.shared.channel.want_below(self.shared.numbers.memtables_end());
            let view = self.views.load();
            let sealed = view.trees().filter(|tree| !tree.immutables.is_empty());
            self.shared.channel.mark_all(sealed.map(|tree| tree.id));
        }
    }

    /// Seals the active memtable of a tree, unless it is empty, and puts an empty one in its place.
    pub(super) fn rotate(&self, _held: &Sequence, view: &TreeView, fresh: Arc<Memtable>) {
        let sealed = view.active.clone();
        assert!(
            fresh.is_empty() && fresh.id() > sealed.id(),
            "{} after {}",
            fresh.id(),
            sealed.id()
        );
        sealed.seal();
        let empty = sealed.is_empty();
        self.views.update(view.id, |tree| {
            assert!(Arc::ptr_eq(&tree.active, &sealed), "{} is not the active one", sealed.id());
            let mut immutables = tree.immutables.clone();
            let last = immutables.last().map(|memtable| memtable.id());
            assert!(last < Some(sealed.id()), "{} is sealed after {last:?}", sealed.id());
            if !empty {
                let at = if planted::is(Bug::OlderMemtableFirst) { 0 } else { immutables.len() };
                immutables.insert(at, sealed.clone());
            }
            TreeView { active: fresh, immutables, ..tree.clone() }
        });
        if empty {
            sealed.note_gone();
        } else {
            sealed.note_sealed(self.shared.env.now());
            self.shared.channel.mark(view.id);
            self.shared.counters.rotations.add(1);
            self.shared.channel.note_rotation(Event::Rotated {
                tree: view.id,
                keyspace: String::new(),
                memtable: sealed.id(),
                bytes: Bytes(sealed.bytes() as u64),
            });
        }
    }

    /// Keeps the WAL within its limit: while it is beyond, the tree whose memtable needs the oldest
    /// file is rotated, so that its flush lets the file go.
    pub fn bound_wal(&self) {
        if self.log.live_bytes() <= self.shared.options.wal_limit.0 {
            return;
        }
        let rotated = {
            let held = self.log.sequence();
            let view = self.views.load();
            let oldest = view
                .trees()
                .filter(|tree| tree.immutables.is_empty())
                .filter_map(|tree| tree.active.wal().map(|wal| (wal, tree)))
                .min_by_key(|(wal, _)| *wal);
            oldest.map(|(_, tree)| self.rotate(&held, tree, self.idle_memtable())).is_some()
        };
        // Or the oldest file belongs to a sealed one that waits for others.
        self.want_memtables_out();
        if rotated || self.gathers {
            self.shared.channel.wake();
        }
    }

    pub(super) fn idle_memtable(&self) -> Arc<Memtable> {
        Memtable::idle(MemtableId(self.shared.numbers.next_memtable()))
    }

    /// An empty memtable with room for at least `bytes_min`; for a tree that `fills` its memtables
    /// one whose memory is there already, if possible.
    fn new_memtable(&self, bytes_min: usize, fills: bool) -> Arc<Memtable> {
        let id = MemtableId(self.shared.numbers.next_memtable());
        let standard = fills && bytes_min <= self.shared.arenas.block_bytes();
        let active = self.shared.memory.active_share();
        let spare = standard.then(|| self.shared.arenas.take_spare(active)).flatten();
        Arc::new(Memtable::new(id, spare.unwrap_or_else(|| self.shared.arenas.take(bytes_min))))
    }
}
