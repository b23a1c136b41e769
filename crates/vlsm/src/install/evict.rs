//! Eviction from the table cache: an install that only changes which tables hold a reader. It takes
//! the leadership of installs, because it replaces versions.

use super::Installer;
use crate::read::table_cache::without_cold;
use crate::read::view::TreeView;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vlsm_core::Version;

impl Installer {
    /// Evicts the least recently used readers while the readers exceed their share. Not for latency
    /// paths.
    pub fn evict_readers(self: &Arc<Self>) {
        // Another thread leads. Eviction is tried again later, because the readers still do not
        // fit.
        let Some(mut leader) = self.lead() else { return };
        let target = self.shared.memory.readers_target();
        let mut excess = self.shared.memory.readers.get().saturating_sub(target);
        let mut found = false;
        // In the first pass a used table keeps its reader, and loses its mark.
        for _ in 0..2 {
            for (id, version) in &mut leader.state.trees {
                if excess > 0
                    && let Some(next) =
                        without_cold(version, &mut excess, &self.shared.memory.evicted)
                {
                    found = true;
                    let next = Arc::new(next);
                    *version = Version::clone(&next);
                    self.views.update(*id, |tree| TreeView { version: next, ..tree.clone() });
                }
            }
        }
        let held = if found { u64::MAX } else { self.shared.memory.readers.get() };
        self.shared.memory.unevictable.store(held, Ordering::Relaxed);
        drop(leader);
        self.install_all();
    }
}
