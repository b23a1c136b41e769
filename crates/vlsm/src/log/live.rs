//! The existing WAL files, and those of them that are still needed.
//!
//! A file is needed while a memtable holds its entries, which are not in an SST yet, or while a
//! batch that is not sequenced yet has fragments in it. The newest file whose start is durable is
//! always kept. A file to which SSTs refer is not used again (`linked`): it goes when its last name
//! does.

use super::Log;
use crate::job::logged::Logs;
use crate::read::view::Views;
use crate::sync::atomic::Ordering;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{FileNumber, MemtableId, Result};
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

    /// Notes that SSTs refer to these files.
    pub fn note_linked(&self, numbers: impl IntoIterator<Item = u64>) {
        self.linked.lock().extend(numbers);
    }

    /// Lets go of a pinned file.
    pub fn unpin(&self, pinned: Option<FileNumber>) {
        if let Some(number) = pinned {
            self.sequence().unpin_wal(number);
        }
    }

    /// Recycles or removes the WAL files before `min_wal`.
    pub fn release(&self, min_wal: u64) {
        let (mut old, mut gone) = (Vec::new(), Vec::new());
        let mut linked = self.linked.lock();
        let mut live = self.live.lock();
        let current = live.last().map(|live| live.number);
        assert!(current.is_none_or(|number| number >= min_wal), "WAL {current:?} is written to");
        live.retain(|live| {
            let needed = live.number >= min_wal;
            if !needed {
                let is_linked = linked.remove(&live.number);
                let unused = is_linked && !planted::is(Bug::LinkedWalReused);
                let list = if unused { &mut gone } else { &mut old };
                list.push(wal_path(&self.shared.dir, live.number));
            }
            needed
        });
        drop((live, linked));
        for path in self.recycle(old).into_iter().chain(gone) {
            // Not removed is not lost: the next recovery finds and removes it.
            let _ = self.shared.env.fs().remove(&path);
        }
    }
}

impl Logs for Arc<Log> {
    fn keep(&self, from: FileNumber, most: u64) -> Result<Option<Vec<(u64, u64)>>> {
        let position = self.sequence().tail.appended();
        self.write_through(position)?;
        // Held while the list is read, so that none of them is released in between.
        let mut linked = self.linked.lock();
        let live = self.live.lock();
        let kept = live.iter().filter(|live| live.number >= from.0);
        let kept: Vec<_> = kept.map(|live| (live.number, live.len)).collect();
        if kept.iter().map(|(_, len)| len).sum::<u64>() > most {
            return Ok(None);
        }
        linked.extend(kept.iter().map(|(number, _)| *number));
        Ok(Some(kept))
    }

    fn can_link(&self) -> bool {
        !self.no_links.load(Ordering::Relaxed)
    }

    fn note_copied(&self) {
        self.no_links.store(true, Ordering::Relaxed);
        // From here on files are used again.
        self.allocates.store(false, Ordering::Relaxed);
    }
}
