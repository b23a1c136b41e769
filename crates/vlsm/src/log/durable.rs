//! Making the WAL durable: one sync for a group of writers (`group`).
//!
//! The thread that syncs first writes everything appended so far, so its group needs one write. The
//! sync covers what is written when it begins. Writers that come while it runs are synced by the
//! next one.
//!
//! Threads and locks: `syncer` is held over the sync and only ever taken with `try_lock`.

use super::Log;
use crate::sync::atomic::Ordering;
use std::sync::Arc;
use vlsm_core::Result;

impl Log {
    /// Waits until everything up to `position` is on the device, writing and syncing where nobody
    /// else does.
    pub fn sync_through(self: &Arc<Self>, position: u64) -> Result<()> {
        self.sync_to(position, false)
    }

    /// The same. In the background the position is written already, and nothing is synced beyond it
    /// that is not `closed`.
    pub(super) fn sync_to(self: &Arc<Self>, position: u64, background: bool) -> Result<()> {
        loop {
            let place = self.syncs.join(position);
            if self.synced.load(Ordering::Acquire) >= position {
                return Ok(());
            }
            self.shared.health.check_running()?;
            let Some(guard) = self.syncer.try_lock() else {
                self.syncs.wait(position, place);
                continue;
            };
            let result = match background {
                true => self.sync_files(Some(position)),
                false => self.write_all().and_then(|()| self.sync_files(None)),
            };
            let group = self.syncs.last();
            drop(guard);
            self.syncs.end(group);
            result?;
        }
    }

    /// Waits until everything appended so far is written.
    fn write_all(self: &Arc<Self>) -> Result<()> {
        let position = self.sequence().tail.appended();
        self.write_through(position)
    }

    /// Makes the log durable up to everything appended so far.
    pub fn sync_all(self: &Arc<Self>) -> Result<()> {
        let position = self.sequence().tail.appended();
        self.sync_through(position)
    }

    /// The same for a client, who may sync again soon.
    pub fn sync_for_client(self: &Arc<Self>) -> Result<()> {
        let position = self.sequence().tail.appended();
        self.note_sync(position);
        self.shared.counters.awaited_syncs.add(1);
        self.sync_through(position)
    }

    /// Makes durable what is written at this moment, or no more than is `closed` and what lies
    /// before a position that is written. The caller holds `syncer`.
    fn sync_files(&self, least: Option<u64>) -> Result<()> {
        // As in `write_buffer`: a failed sync is never tried again.
        self.shared.health.check_running()?;
        let _watch = self.shared.watch();
        let (file, unsynced, written, from, to) = {
            let extent = self.extent.lock();
            let synced = self.synced.load(Ordering::Acquire);
            let written = least.map_or(extent.written, |least| {
                self.closed(&extent).max(least).max(synced).max(extent.start)
            });
            // Of a file of which nothing is synced, the header is to be synced, too.
            let from = if synced > extent.start { extent.offset_of(synced) } else { 0 };
            let to = extent.offset_of(written);
            (extent.file.clone(), extent.unsynced.clone(), written, from, to)
        };
        self.syncs.begin(written);
        for file in &unsynced {
            file.sync().map_err(|error| self.shared.latch(error))?;
            self.shared.counters.wal_syncs.add(1);
        }
        if from < to {
            let synced = self.sync_range(&file, from, to, written);
            synced.map_err(|error| self.shared.latch(error))?;
            self.shared.counters.wal_syncs.add(1);
        }
        let mut extent = self.extent.lock();
        extent.unsynced.retain(|held| !unsynced.iter().any(|synced| Arc::ptr_eq(held, synced)));
        self.durable_file.fetch_max(file.number(), Ordering::AcqRel);
        self.synced.fetch_max(written, Ordering::AcqRel);
        if Arc::ptr_eq(&extent.file, &file) {
            self.synced_hint.set(&file, extent.offset_of(written));
        }
        Ok(())
    }
}
