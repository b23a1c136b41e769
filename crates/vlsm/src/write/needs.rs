//! The memory that a batch needs in the memtables of its trees, summed up before it is sequenced:
//! the sequencing step has to be short.

use crate::memtable::{body_size, range_size};
use crate::write::batch::Batch;
use smallvec::SmallVec;
use vlsm_core::{Kind, TreeId};

/// The memory that a batch needs in one tree.
#[derive(Clone, Copy)]
pub(super) struct Need {
    pub tree: TreeId,
    pub entries: usize,
    /// In the arena.
    pub bytes: usize,
    /// Outside of the arena: of range tombstones.
    pub tombstones: usize,
}

/// The needs of a batch, by tree. Most batches have one tree, and an allocation for it took a
/// twentieth of the instructions of a put.
pub(super) type Needs = SmallVec<[Need; 1]>;

/// The memory that a batch needs in each of its trees.
pub(super) fn needs_of(batch: &Batch) -> Needs {
    let mut needs = Needs::new();
    for entry in batch.entries() {
        let (key, value) = (batch.key(entry).len(), batch.value(entry).len());
        let (bytes, tombstones) = match entry.kind {
            Kind::RangeDelete => (0, range_size(key, value)),
            _ => (body_size(key, value), 0),
        };
        match needs.iter_mut().find(|need| need.tree == entry.tree) {
            Some(need) => {
                need.entries += 1;
                need.bytes += bytes;
                need.tombstones += tombstones;
            }
            None => needs.push(Need { tree: entry.tree, entries: 1, bytes, tombstones }),
        }
    }
    needs
}
