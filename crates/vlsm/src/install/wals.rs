//! The list of WAL files in the manifest.
//!
//! 1. A WAL is listed in the manifest before anything is written into it, so that a later loss is
//!    detected. A file that an open begins is listed right after its start.
//! 2. Each install records the number of the oldest WAL that is still needed, and lists the WALs
//!    from it on. Older WALs are recycled or removed after that.
//! 3. An orderly close lists the files with unflushed batches, and removes the other files.
//!
//! A device that is too full for a list is no failure: the files exist, and the next install lists
//! them. Threads and locks: as `install`.

use super::{Installer, Leader, violated};
use std::sync::Arc;
use vlsm_core::{Error, Result};
use vlsm_disk::manifest::Record;
use vlsm_disk::wal::wal_path;

impl Installer {
    /// Records the list of the present WALs in the manifest. Waits for the manifest; not for
    /// latency paths.
    pub fn record_wals(self: &Arc<Self>) -> Result<()> {
        self.alone(|leader| {
            let min_wal = self.log.oldest_needed(&self.views, &[]);
            self.list_wals(leader, min_wal, self.log.listed(min_wal))
        })
    }

    pub(super) fn list_wals(
        &self,
        leader: &mut Leader,
        min_wal: u64,
        wals: Vec<u64>,
    ) -> Result<()> {
        let clock = self.shared.clock.to_record();
        // After a failed change the manifest may list other files than the state.
        let known = leader.manifest.is_certain()
            && leader.state.numbers.min_wal == min_wal
            && leader.state.wals == wals;
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

    /// Keeps only the WALs with unflushed batches, each cut to the length of its records. The last
    /// step of an orderly close: no other thread writes, syncs or installs.
    pub fn close_wals(&self) -> Result<()> {
        self.log.close_file()?;
        let mut leader = loop {
            let epoch = self.shared.channel.room_epoch();
            match self.lead() {
                Some(leader) => break leader,
                None => self.shared.channel.wait_for_room(epoch, None),
            }
        };
        let min_wal = self.log.oldest_needed(&self.views, &[]);
        let (live, old): (Vec<u64>, Vec<u64>) =
            self.log.live_numbers().into_iter().partition(|n| *n >= min_wal);
        match self.list_wals(&mut leader, min_wal, live) {
            // The manifest may still list the other files.
            Err(Error::NoSpace { .. }) => return Ok(()),
            listed => listed?,
        }
        drop(leader);
        let unused = old.into_iter().chain(self.log.upcoming());
        let paths = unused.map(|number| wal_path(&self.shared.dir, number)).chain(self.log.spare());
        for path in paths {
            // If this fails, the next open finds and removes the file.
            let _ = self.shared.env.fs().remove(&path);
        }
        Ok(())
    }
}
