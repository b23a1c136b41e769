//! Attributes the waits of writes to keyspaces, causes and compaction chains.
//!
//! 1. The engine's events and counters name a tree, but users know keyspaces. The parts above
//!    ([`Informed`]) provide the keyspace of a tree, and the chain for which it waited.
//! 2. The wait of a writer is counted for the tree into which it writes ([`Attribution::add`]).
//! 3. A wait that is long enough for an event also gets the chain behind which it waited.
//!
//! Waits for the WAL, which all keyspaces share, and waits of reads have no tree.
//!
//! Threads and locks: the counts are behind a lock that is held for one addition, by writers that
//! have waited anyway. Callers hold no lock of the parts above, except that of the control when it
//! reports its own chains.

use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::{OnceLock, Weak};
use std::time::Duration;
use vlsm_core::TreeId;
use vlsm_core::event::{Behind, WaitCause};

/// The parts of the engine that know keyspaces and chains.
pub(crate) trait Informed: Send + Sync {
    /// The name of a tree's keyspace; none if it was dropped.
    fn keyspace_of(&self, tree: TreeId) -> Option<String>;

    /// The chain behind which a write into this tree has waited since a time.
    fn behind(&self, tree: TreeId, since: Duration) -> Option<Behind>;
}

/// The number of waits and their sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waited {
    pub count: u64,
    pub total: Duration,
}

/// The waits of each tree, and a reference to the parts that know keyspaces and chains.
#[derive(Debug, Default)]
pub(crate) struct Attribution {
    above: OnceLock<Weak<dyn Informed>>,
    waits: Mutex<BTreeMap<(TreeId, WaitCause), Waited>>,
}

impl Attribution {
    /// Sets the parts that know keyspaces and chains. Until then no tree has a name.
    pub fn attach(&self, above: Weak<dyn Informed>) {
        assert!(self.above.set(above).is_ok(), "attached once, when the store is composed");
    }

    /// The name of a tree's keyspace; empty if it is unknown.
    pub fn keyspace_of(&self, tree: TreeId) -> String {
        let above = self.above.get().and_then(Weak::upgrade);
        above.and_then(|above| above.keyspace_of(tree)).unwrap_or_default()
    }

    /// The chain behind which a write into this tree has waited since a time.
    pub fn behind(&self, tree: TreeId, since: Duration) -> Option<Behind> {
        self.above.get().and_then(Weak::upgrade)?.behind(tree, since)
    }

    /// Counts a wait of a write into a tree.
    pub fn add(&self, tree: TreeId, cause: WaitCause, took: Duration) {
        let mut waits = self.waits.lock();
        let waited = waits.entry((tree, cause)).or_default();
        waited.count += 1;
        waited.total += took;
    }

    /// Forgets the waits of a tree that is no longer in use.
    pub fn forget(&self, tree: TreeId) {
        self.waits.lock().retain(|(other, _), _| *other != tree);
    }

    /// The waits of these trees for a cause.
    pub fn of(&self, trees: &[TreeId], cause: WaitCause) -> Waited {
        let waits = self.waits.lock();
        let known = trees.iter().filter_map(|tree| waits.get(&(*tree, cause)));
        known.fold(Waited::default(), |sum, one| Waited {
            count: sum.count + one.count,
            total: sum.total + one.total,
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_waits_of_a_tree_are_forgotten_with_it() {
        let attribution = Attribution::default();
        let second = Duration::from_secs(1);
        for tree in [TreeId(1), TreeId(2)] {
            attribution.add(tree, WaitCause::MemtableFull, second);
            attribution.add(tree, WaitCause::WalQueue, second);
        }
        attribution.forget(TreeId(1));
        let of = |tree| attribution.of(&[tree], WaitCause::MemtableFull);
        assert_eq!((of(TreeId(1)).count, of(TreeId(2)).count), (0, 1));
        assert_eq!(attribution.waits.lock().len(), 2);
    }
}
