//! The memtable switch: a full memtable is sealed and an empty one takes its place.
//!
//! Happens in the sequencing step, so no batch is ever split over two memtables of one tree. The
//! arena of the new memtable is pooled and faulted in beforehand; what is left to do is a copy of
//! the view's vector.
//!
//! Bounds: at most `memtable_count` memtables of a tree hold data; with all of them full, writers
//! wait for a flush. And of all trees together: when active memtables fill half of the memory that
//! memtables may take, the largest (then the oldest) is rotated although it is not full; when
//! active and sealed ones fill all of it, writers wait for a flush. One is then under way or can
//! start, so many small trees cannot wedge each other; without any, the bound gives way. A shape
//! that gathers memtables before they go out is told that these are wanted: by a writer that waits,
//! by either bound, by that of the WAL, by a flush or an ingest.

use crate::engine::Engine;
use crate::memtable::{Arena, Memtable};
use crate::read::view::TreeView;
use crate::write::commit::Sequence;
use std::cmp::Reverse;
use std::sync::Arc;
use vlsm_core::event::{Event, WaitCause};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Bytes, MemtableId, TreeId};

impl Engine {
    /// Sees to it that the active memtable of a tree has room for `bytes`, without a rotation of
    /// `spared` trees. True when that took a rotation; an error when writers have to wait, and why.
    #[inline]
    pub fn make_room(
        &self,
        _held: &Sequence,
        tree: TreeId,
        bytes: usize,
        spared: impl Fn(TreeId) -> bool,
    ) -> Result<bool, WaitCause> {
        let view = self.views.load();
        let active = &view.tree(tree).active;
        // A schedule may have memtables sealed before they are full.
        let sealed_at = self.control.memtable_bytes();
        let small = sealed_at == u64::MAX || (active.bytes() + bytes) as u64 <= sealed_at;
        if small && active.has_room(bytes) {
            return Ok(false);
        }
        // What was rotated in vain is flushed while the writer waits.
        self.make_room_slowly(tree, bytes, spared).inspect_err(|_| {
            self.want_memtables_out();
            self.control.wake();
        })
    }

    #[cold]
    fn make_room_slowly(
        &self,
        tree: TreeId,
        bytes: usize,
        spared: impl Fn(TreeId) -> bool,
    ) -> Result<bool, WaitCause> {
        let growth = self.views.load().tree(tree).active.growth_for(bytes);
        let rotated = self.bound_memtables(growth.unwrap_or(bytes), spared)?;
        let view = self.views.load();
        let view = view.tree(tree);
        let active = &view.active;
        let sealed_at = usize::try_from(self.control.memtable_bytes()).unwrap_or(usize::MAX);
        let small = active.is_empty() || active.bytes() + bytes <= sealed_at;
        if small && active.growth_for(bytes).is_some() {
            active.grow_for(bytes);
            self.memory.note_growth();
            return Ok(rotated);
        }
        // The one that takes over counts, too; an empty active one is replaced rather than sealed.
        let sealed = view.immutables.len() + usize::from(!active.is_empty());
        if sealed >= self.options.policy.memtable_count {
            return Err(WaitCause::MemtableFull);
        }
        let fresh = self.new_memtable(Memtable::arena_bytes(bytes), !active.is_empty());
        fresh.grow_for(bytes);
        self.rotate(view, fresh);
        self.memory.note_growth();
        Ok(true)
    }

    /// Keeps the memtables of all trees within their share of memory when `more` bytes are added.
    /// The caller holds the sequencing lock.
    pub fn bound_memtables(
        &self,
        more: usize,
        spared: impl Fn(TreeId) -> bool,
    ) -> Result<bool, WaitCause> {
        let (gauges, more) = (&self.memory.arenas, more as u64);
        let share = self.memory.active_share();
        // A single large entry is no reason to rotate everything.
        let calm = share.saturating_sub(more).max(share / 2);
        let mut rotated = false;
        while gauges.active.get() > calm {
            let view = self.views.load();
            let may_go = |tree: &&Arc<TreeView>| {
                let has_place = tree.immutables.len() < self.options.policy.memtable_count;
                has_place && !tree.active.is_idle() && !spared(tree.id)
            };
            let size = |tree: &&Arc<TreeView>| (tree.active.charged(), Reverse(tree.active.id()));
            let Some(largest) = view.trees().filter(may_go).max_by_key(size) else { break };
            self.rotate(largest, self.idle_memtable());
            rotated = true;
        }
        if rotated {
            self.want_memtables_out();
        }
        let (active, sealed) = (gauges.active.get(), gauges.sealed.get());
        if sealed > 0 && active + sealed + more > self.memory.memtable_share() {
            return Err(WaitCause::MemoryBudget);
        }
        Ok(rotated)
    }

    /// Has all that memtables hold by now go out, also where the shape gathers more of them first.
    pub fn want_memtables_out(&self) {
        if self.control.shape.gathers() > 1 {
            self.control.want_below(self.numbers.memtables_end());
            let view = self.views.load();
            let sealed = view.trees().filter(|tree| !tree.immutables.is_empty());
            self.control.mark_all(sealed.map(|tree| tree.id));
        }
    }

    /// Seals the active memtable of a tree, unless it is empty, and puts an empty one in its place.
    ///
    /// The caller holds the sequencing lock.
    pub fn rotate(&self, view: &TreeView, fresh: Arc<Memtable>) {
        let sealed = view.active.clone();
        sealed.seal();
        let empty = sealed.is_empty();
        self.views.update(view.id, |tree| {
            let mut immutables = tree.immutables.clone();
            if !empty {
                let at = if planted::is(Bug::OlderMemtableFirst) { 0 } else { immutables.len() };
                immutables.insert(at, sealed.clone());
            }
            TreeView { active: fresh, immutables, ..tree.clone() }
        });
        if empty {
            sealed.note_gone();
        } else {
            sealed.note_sealed(self.env.now());
            self.control.mark(view.id);
            self.counters.rotations.add(1);
            self.control.note_rotation(Event::Rotated {
                tree: view.id,
                memtable: sealed.id(),
                bytes: Bytes(sealed.bytes() as u64),
            });
        }
    }

    /// Keeps the WAL within its limit: while it is beyond, the tree whose memtable needs the oldest
    /// file is rotated, so that its flush lets the file go.
    pub fn bound_wal(&self) {
        let bytes: u64 = self.live_wals.lock().iter().map(|live| live.len).sum();
        if bytes <= self.options.wal_limit.0 {
            return;
        }
        let rotated = {
            let _sequencing = self.commit.sequence.lock();
            let view = self.views.load();
            let oldest = view
                .trees()
                .filter(|tree| tree.immutables.is_empty())
                .filter_map(|tree| tree.active.wal().map(|wal| (wal, tree)))
                .min_by_key(|(wal, _)| *wal);
            oldest.map(|(_, tree)| self.rotate(tree, self.idle_memtable())).is_some()
        };
        // Or the oldest file belongs to a sealed one that waits for others.
        self.want_memtables_out();
        if rotated || self.control.shape.gathers() > 1 {
            self.control.wake();
        }
    }

    /// A memtable without room, for a tree that may never be written again: its first write
    /// replaces it.
    pub fn idle_memtable(&self) -> Arc<Memtable> {
        let id = MemtableId(self.numbers.next_memtable());
        Arc::new(Memtable::new(id, Arena::new(Memtable::arena_bytes(0))))
    }

    /// An empty memtable with room for at least `bytes_min`; for a tree that `fills` its memtables
    /// one whose memory is there already, if possible.
    fn new_memtable(&self, bytes_min: usize, fills: bool) -> Arc<Memtable> {
        let id = MemtableId(self.numbers.next_memtable());
        let standard = fills && bytes_min <= self.arenas.block_bytes();
        let active = self.memory.active_share();
        let spare = standard.then(|| self.arenas.take_spare(active)).flatten();
        Arc::new(Memtable::new(id, spare.unwrap_or_else(|| self.arenas.take(bytes_min))))
    }
}
