//! The memtable switch: a full memtable is sealed and an empty one takes its place.
//!
//! Happens in the sequencing step, so no batch is ever split over two memtables of one tree. The
//! arena of the new memtable is pooled and faulted in beforehand; what is left to do is a copy of
//! the view's vector.
//!
//! Bound: at most `memtable_count` memtables of a tree hold data; with all of them full, writers
//! wait for a flush.

use crate::engine::Engine;
use crate::memtable::{Arena, Memtable};
use crate::read::view::TreeView;
use crate::write::commit::Sequence;
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::{Bytes, MemtableId, TreeId};

impl Engine {
    /// Sees to it that the active memtable of a tree has room for `bytes`. `Some(true)` when that
    /// took a rotation, none when no further memtable may exist yet.
    pub fn make_room(&self, _held: &Sequence, tree: TreeId, bytes: usize) -> Option<bool> {
        let view = self.views.load();
        let view = view.tree(tree);
        if view.active.has_room(bytes) {
            return Some(false);
        }
        // The one that takes over counts, too; an empty active one is replaced rather than sealed.
        let sealed = view.immutables.len() + usize::from(!view.active.is_empty());
        if sealed >= self.options.policy.memtable_count {
            return None;
        }
        self.rotate(view, self.new_memtable(Memtable::arena_bytes(bytes)));
        Some(true)
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
                immutables.push(sealed.clone());
            }
            TreeView { active: fresh, immutables, ..tree.clone() }
        });
        if !empty {
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
        let files = self.live_wals.lock().len() as u64;
        if files * self.options.wal_file_bytes.0 <= self.options.wal_limit.0 {
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
        if rotated {
            self.control.wake();
        }
    }

    /// A memtable without room, for a tree that may never be written again: its first write
    /// replaces it.
    pub fn idle_memtable(&self) -> Arc<Memtable> {
        let id = MemtableId(self.numbers.next_memtable());
        Arc::new(Memtable::new(id, Arena::new(Memtable::arena_bytes(0))))
    }

    /// An empty memtable with room for at least `bytes_min`.
    pub fn new_memtable(&self, bytes_min: usize) -> Arc<Memtable> {
        let id = MemtableId(self.numbers.next_memtable());
        Arc::new(Memtable::new(id, self.arenas.take(bytes_min.max(self.arenas.block_bytes()))))
    }
}
