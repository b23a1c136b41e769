//! Syncing the WAL: one sync for a group of writers.
//!
//! The first writer that finds nobody syncing does it for all whose records are written by then;
//! they are its group. Writers that come while it runs are the next group, and wait for the next
//! sync. The end of a sync wakes its own group and one writer of the next, who does the next sync.
//! So a writer sleeps once, and is woken once, however many there are: if every end woke all of
//! them, 500 writers would take turns on the processors to find that it was not for them.
//!
//! Threads and locks: `syncer` is held over the sync and only ever taken with `try_lock`; the lock
//! of the state is short. Nobody misses a wake-up: a writer reads the condition's epoch before it
//! looks whether it is synced, whether somebody syncs, and which group it belongs to, in this
//! order. What changes one of them notifies the condition afterwards.

use super::Log;
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, Race, races};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::Result;
use vlsm_disk::Condition;

/// The groups that wait for syncs.
pub(super) struct Groups {
    last: Mutex<Group>,
    /// What the groups of even and of odd numbers sleep on.
    ended: [Arc<dyn Condition>; 2],
}

/// The group of a sync.
#[derive(Clone, Copy, Default)]
struct Group {
    number: usize,
    /// The position up to which its sync reaches.
    end: u64,
}

impl Groups {
    /// None has begun.
    pub fn new(shared: &Shared) -> Self {
        let condition = || shared.channel.condition(&*shared.env, Duration::ZERO);
        Self { last: Mutex::default(), ended: [condition(), condition()] }
    }

    /// The group of a writer whose records are written up to this position.
    fn of(&self, position: u64) -> usize {
        let last = *self.last.lock();
        if position <= last.end { last.number } else { last.number + 1 }
    }

    fn ended(&self, number: usize) -> &Arc<dyn Condition> {
        &self.ended[number % 2]
    }

    /// The next one begins: its sync reaches up to this position.
    fn begin(&self, end: u64) {
        let mut last = self.last.lock();
        *last = Group { number: last.number + 1, end };
    }

    /// The number of the last one that began.
    fn last(&self) -> usize {
        self.last.lock().number
    }

    /// The sync of this one has ended, and `syncer` is free; the next one may have begun.
    fn end(&self, number: usize) {
        // First, so that the device is idle for a short time only.
        if !races(Race::SyncWakesNobody) {
            self.ended(number + 1).notify_one();
        }
        self.ended(number).notify();
    }

    /// Wakes all waiters, so that they look at the store's health.
    pub fn wake(&self) {
        self.ended.iter().for_each(|ended| ended.notify());
    }
}

impl Log {
    /// Waits until everything up to `position` is on the device, syncing where nobody else does.
    pub fn sync_through(self: &Arc<Self>, position: u64) -> Result<()> {
        self.write_through(position)?;
        self.sync_to(position, false)
    }

    /// The same for a position that is written. In the background nothing is synced beyond it that
    /// is not `closed`.
    pub(super) fn sync_to(&self, position: u64, background: bool) -> Result<()> {
        loop {
            let group = self.groups.of(position);
            let ended = self.groups.ended(group);
            let epoch = ended.epoch();
            if self.synced.load(Ordering::Acquire) >= position {
                return Ok(());
            }
            self.shared.health.check_running()?;
            if let Some(guard) = self.syncer.try_lock() {
                let result = self.sync_files(background.then_some(position));
                let ended = self.groups.last();
                drop(guard);
                self.groups.end(ended);
                // For one that shuts the log.
                self.write_done.notify();
                result?;
            } else if self.groups.of(position) == group {
                ended.wait(epoch, None);
            }
        }
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
        self.groups.begin(written);
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
