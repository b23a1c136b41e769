//! Which WAL files there are, by the manifest's word, and the end of those that are not needed.
//!
//! 1. A WAL is listed in the manifest before anything is written into it, so one that is lost later
//!    is missed. A file that an opening begins is listed right after it was started.
//! 2. Each install tells the smallest WAL that is still needed, and lists those from it on. What is
//!    older is recycled or removed after that.
//! 3. An orderly close lists the files with unflushed batches, and removes the others.
//!
//! A device too full for a list is no failure: the files are there, and the next install lists
//! them. Threads and locks: as `install`.

use super::{Leader, Request, violated};
use crate::engine::Engine;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, MemtableId, Result};
use vlsm_disk::manifest::Record;
use vlsm_disk::wal::wal_path;

impl Engine {
    /// The smallest WAL that is needed once the requests are installed.
    pub(super) fn min_wal(&self, requests: &[Request]) -> u64 {
        let flushed: Vec<MemtableId> =
            requests.iter().flat_map(|request| request.flushed.iter().copied()).collect();
        // Under the sequencing lock, so that no memtable gets its first entry meanwhile.
        let sequence = self.commit.sequence.lock();
        let view = self.views.load();
        let memtables = view.trees().flat_map(|tree| tree.immutables.iter().chain([&tree.active]));
        let memtables = memtables.filter(|_| !planted::is(Bug::WalReleasedEarly));
        let kept = memtables.filter(|memtable| !flushed.contains(&memtable.id()));
        let needed = kept.filter_map(|memtable| memtable.wal()).chain(sequence.pinned_wal());
        needed.map(|number| number.0).min().unwrap_or(u64::MAX).min(self.wal.durable_file())
    }

    /// The WAL files from `min_wal` on: those that may hold batches, and those that are prepared.
    pub(super) fn listed_wals(&self, min_wal: u64) -> Vec<u64> {
        let mut wals = self.wal.upcoming();
        // After the upcoming ones: a file that is begun meanwhile is in both.
        wals.extend(self.live_wals.lock().iter().map(|live| live.number));
        wals.retain(|number| *number >= min_wal);
        wals.sort_unstable();
        wals.dedup();
        wals
    }

    /// Has the manifest list the WALs that there are now. Waits for the manifest; not for latency
    /// paths.
    pub fn record_wals(self: &Arc<Self>) -> Result<()> {
        loop {
            let epoch = self.control.room_epoch();
            self.health.check_running()?;
            if let Some(mut leader) = self.lead() {
                let min_wal = self.min_wal(&[]);
                let listed = self.list_wals(&mut leader, min_wal, self.listed_wals(min_wal));
                drop(leader);
                self.install_all();
                return listed;
            }
            self.control.wait_for_room(epoch, None);
        }
    }

    fn list_wals(&self, leader: &mut Leader, min_wal: u64, wals: Vec<u64>) -> Result<()> {
        let clock = self.clock.to_record();
        let known = leader.state.numbers.min_wal == min_wal && leader.state.wals == wals;
        if known && clock.is_none() {
            return Ok(());
        }
        let mut records = vec![Record::Numbers(self.manifest_numbers(min_wal)), Record::Wals(wals)];
        records.extend(clock.map(Record::Clock));
        self.append(leader, &records)?;
        for record in &records {
            leader.state.apply(record).map_err(violated)?;
        }
        Ok(())
    }

    /// Leaves no WAL behind but those that hold unflushed batches, each as long as its records.
    /// The last step of an orderly close: nobody else writes, syncs or installs.
    pub fn close_wals(&self) -> Result<()> {
        self.wal.close_file()?;
        let mut leader = loop {
            let epoch = self.control.room_epoch();
            match self.lead() {
                Some(leader) => break leader,
                None => self.control.wait_for_room(epoch, None),
            }
        };
        let min_wal = self.min_wal(&[]);
        let (live, old): (Vec<u64>, Vec<u64>) =
            self.live_wals.lock().iter().map(|live| live.number).partition(|n| *n >= min_wal);
        match self.list_wals(&mut leader, min_wal, live) {
            // The manifest may list them still.
            Err(Error::NoSpace { .. }) => return Ok(()),
            listed => listed?,
        }
        drop(leader);
        let unused = old.into_iter().chain(self.wal.upcoming());
        let paths = unused.map(|number| wal_path(&self.dir, number)).chain(self.wal.spare());
        for path in paths {
            // Not removed is not lost: the next opening finds and removes it.
            let _ = self.env.fs().remove(&path);
        }
        Ok(())
    }

    /// Recycles or removes the WAL files before `min_wal`.
    pub(super) fn release_wals(&self, min_wal: u64) {
        let mut old = Vec::new();
        self.live_wals.lock().retain(|live| {
            let needed = live.number >= min_wal;
            if !needed {
                old.push(wal_path(&self.dir, live.number));
            }
            needed
        });
        for path in self.wal.recycle(&self.options, old) {
            // Not removed is not lost: the next recovery finds and removes it.
            let _ = self.env.fs().remove(&path);
        }
    }
}
