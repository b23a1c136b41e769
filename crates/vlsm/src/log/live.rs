//! The existing WAL files, and those of them that are still needed.
//!
//! A file is needed while a memtable holds its entries, which are not in an SST yet, or while a
//! batch that is not sequenced yet has fragments in it. The newest file whose start is durable is
//! always kept.

use super::Log;
use crate::read::view::Views;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{FileNumber, MemtableId};
use vlsm_disk::wal::{WalFile, wal_path};

/// A WAL file that may hold unflushed writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveWal {
    pub number: u64,
    /// Bytes of it that count: for the current file those that it has room for.
    pub len: u64,
}

impl LiveWal {
    pub fn of(file: &WalFile) -> Self {
        Self { number: file.number(), len: file.capacity() }
    }
}

impl Log {
    /// The smallest WAL that is needed once these memtables are in SSTs.
    pub fn oldest_needed(&self, views: &Views, flushed: &[MemtableId]) -> u64 {
        // Under the sequencing lock, so that no memtable gets its first entry meanwhile.
        let sequence = self.sequence();
        let view = views.load();
        let memtables = view.trees().flat_map(|tree| tree.immutables.iter().chain([&tree.active]));
        let memtables = memtables.filter(|_| !planted::is(Bug::WalReleasedEarly));
        let kept = memtables.filter(|memtable| !flushed.contains(&memtable.id()));
        let needed = kept.filter_map(|memtable| memtable.wal()).chain(sequence.pinned_wal());
        needed.map(|number| number.0).min().unwrap_or(u64::MAX).min(self.durable_file())
    }

    /// The WAL files from `min_wal` on: those that may hold batches, and those that are prepared.
    pub fn listed(&self, min_wal: u64) -> Vec<u64> {
        let mut wals = self.upcoming();
        // After the upcoming ones: a file that is begun meanwhile is in both.
        wals.extend(self.live_numbers());
        wals.retain(|number| *number >= min_wal);
        wals.sort_unstable();
        wals.dedup();
        wals
    }

    /// The files that may hold unflushed writes, the current one last.
    pub fn live_numbers(&self) -> Vec<u64> {
        self.live.lock().iter().map(|live| live.number).collect()
    }

    /// The bytes that these files take.
    pub fn live_bytes(&self) -> u64 {
        self.live.lock().iter().map(|live| live.len).sum()
    }

    /// Lets go of a pinned file.
    pub fn unpin(&self, pinned: Option<FileNumber>) {
        if let Some(number) = pinned {
            self.sequence().unpin_wal(number);
        }
    }

    /// Recycles or removes the WAL files before `min_wal`.
    pub fn release(&self, min_wal: u64) {
        let mut old = Vec::new();
        let mut live = self.live.lock();
        let current = live.last().map(|live| live.number);
        assert!(current.is_none_or(|number| number >= min_wal), "WAL {current:?} is written to");
        live.retain(|live| {
            let needed = live.number >= min_wal;
            if !needed {
                old.push(wal_path(&self.shared.dir, live.number));
            }
            needed
        });
        drop(live);
        for path in self.recycle(old) {
            // Not removed is not lost: the next recovery finds and removes it.
            let _ = self.shared.env.fs().remove(&path);
        }
    }
}
