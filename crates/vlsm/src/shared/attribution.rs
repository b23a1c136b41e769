//! The keyspaces whose writes wait, the causes, and the compaction chains ahead of them.
//!
//! 1. Events and statistics name a tree. People know keyspaces: the parts above
//!    ([`Informed`]) tell a tree's keyspace, and the chain that a tree has waited for.
//! 2. A writer's wait is counted for the tree that it writes to ([`Attribution::add`]).
//! 3. A wait that is an event of its own asks for the chain behind which it stood.
//!
//! Waits for the WAL and of reads have no tree: all keyspaces share the WAL.
//!
//! Threads and locks: the counts are behind a lock that is held for one addition, by writers that
//! have waited anyway. Whoever asks the parts above holds no lock of theirs, except the control's
//! when it tells of its own chains.

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

    /// The chain that a write into this tree has waited behind since a time.
    fn behind(&self, tree: TreeId, since: Duration) -> Option<Behind>;
}

/// The number of waits and their sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waited {
    pub count: u64,
    pub total: Duration,
}

/// The waits of each tree, and the way to those who know more about it.
#[derive(Debug, Default)]
pub(crate) struct Attribution {
    above: OnceLock<Weak<dyn Informed>>,
    waits: Mutex<BTreeMap<(TreeId, WaitCause), Waited>>,
}

impl Attribution {
    /// Names those who know. Until then no tree has a name.
    pub fn attach(&self, above: Weak<dyn Informed>) {
        assert!(self.above.set(above).is_ok(), "attached once, when the store is composed");
    }

    /// The name of a tree's keyspace; empty if nobody knows it.
    pub fn keyspace_of(&self, tree: TreeId) -> String {
        let above = self.above.get().and_then(Weak::upgrade);
        above.and_then(|above| above.keyspace_of(tree)).unwrap_or_default()
    }

    /// The chain that a write into this tree has waited behind since a time.
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

    /// The tree is not in use any more.
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
