//! Point reads: the newest visible entry of a key, searched from the newest place to the oldest.
//!
//! 1. The active memtable.
//! 2. Sealed memtables, newest first.
//! 3. The runs of L0, newest first.
//! 4. The levels from L1 down.
//!
//! The first place that has a visible entry decides, because of any key every place holds newer
//! entries than the ones after it (V3 of `Version`). A read error ends the search: it never lets an
//! older value show.

use crate::engine::Engine;
use crate::read::user_cursor::kind_of;
use crate::read::view::{Pinned, StoreView, TreeView};
use bytes::Bytes;
use vlsm_core::{Kind, Result, Seq, Table, Trailer, TreeId};
use vlsm_disk::sst::ReadStats;

impl Engine {
    /// A view with the sequence number visible now; safe for reads over several trees.
    pub fn pin(&self) -> Pinned {
        let (view, seq) = self.views.pin(&*self.env, || self.commit.visible());
        Pinned { store: self.store_uid, view, seq }
    }

    /// The current view with a sequence number that a snapshot holds.
    pub fn pin_at(&self, seq: Seq) -> Pinned {
        Pinned { store: self.store_uid, view: self.views.load_full(), seq }
    }

    /// The value of a key, now or as of a sequence number that a snapshot holds.
    pub fn get(&self, tree: TreeId, key: &[u8], seq: Option<Seq>) -> Result<Option<Bytes>> {
        let view = self.views.load();
        let seq = seq.unwrap_or_else(|| self.commit.visible());
        self.get_in(&view, seq, tree, key)
    }

    /// The value of a key in a view.
    pub fn get_in(
        &self,
        view: &StoreView,
        seq: Seq,
        tree: TreeId,
        key: &[u8],
    ) -> Result<Option<Bytes>> {
        self.counters.gets.add(1);
        self.health.check_open()?;
        match self.newest(view.tree(tree), seq, key)? {
            Some((trailer, value)) => match kind_of(trailer)? {
                Kind::Put => Ok(Some(value)),
                _ => Ok(None),
            },
            None => Ok(None),
        }
    }

    fn newest(&self, tree: &TreeView, seq: Seq, key: &[u8]) -> Result<Option<(Trailer, Bytes)>> {
        for memtable in std::iter::once(&tree.active).chain(tree.immutables.iter().rev()) {
            if let Some(found) = memtable.newest(key, seq) {
                self.counters.memtable_hits.add(1);
                return Ok(Some(found));
            }
        }
        let version = &tree.version;
        for run in version.l0.iter().rev() {
            if let Some(table) = run.tables.find(key)
                && let Some(found) = self.search(table, seq, key)?
            {
                return Ok(Some(found));
            }
        }
        for tables in &version.levels {
            if let Some(table) = tables.find(key)
                && let Some(found) = self.search(table, seq, key)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn search(&self, table: &Table, seq: Seq, key: &[u8]) -> Result<Option<(Trailer, Bytes)>> {
        let mut stats = ReadStats::default();
        let reader = self.files.reader(&table.file)?;
        let found = reader.get(key, seq, self.files.cache(), true, &mut stats);
        self.counters.filter_checks.add(stats.filter_checks);
        self.counters.filter_negatives.add(stats.filter_negatives);
        self.counters.filter_false_positives.add(stats.filter_false_positives);
        found
    }
}
