//! WAL files ahead of the writers: room for what they write next.
//!
//! 1. When a small part of the current file is used, the next one is prepared in the background, of
//!    an old file where there is one. If WALs are not used again, because flushes leave values in
//!    them, the blocks of a new one are allocated and not filled with zeros.
//! 2. A writer that needs room before it is ready lengthens the current file by a step, which takes
//!    no sync, while the preparation continues. Other writers wait for that one.
//! 3. If the device is too full for either, the store is out of space (`space.rs`), and retries the
//!    preparation.
//!
//! Threads and locks: `preparing` is set while one thread prepares, `lengthening` while one
//! lengthens; the latter alone raises the capacity of the tail's file. No lock is held over a file
//! call.

use super::Log;
use super::tail::with_mark;
use crate::shared::Shared;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vlsm_core::{Error, Result};
use vlsm_disk::record::HEADER_LEN;
use vlsm_disk::wal::{allocate_next, prepare_next};

/// Old WAL files kept for reuse at most.
const RECYCLED_MAX: u64 = 64;
/// A file that must serve longer gets this part of a file's length more.
const LENGTHEN_PART: u64 = 8;

impl Log {
    /// Prepares room for a record of this length, and wakes its waiters.
    pub fn want(self: &Arc<Self>, len: u64) {
        if self.lengthening.swap(true, Ordering::AcqRel) {
            return;
        }
        let longer = self.lengthen(with_mark(len));
        self.lengthening.store(false, Ordering::Release);
        if matches!(longer, Ok(true)) {
            self.shared.channel.made_room();
            // It may be beyond the limit before there is a next file.
            self.tell_growth();
        } else {
            // An old file may serve as the next one where there is no space.
            self.wanted.fetch_max(HEADER_LEN + with_mark(len), Ordering::AcqRel);
            self.prepare();
        }
    }

    /// Bytes that were written to begin the first file: what it took over, its zeros, and its
    /// header when it was made and when it was begun.
    pub fn begun_bytes(&self) -> u64 {
        self.extent.lock().file.capacity() + HEADER_LEN
    }

    /// Has the next file prepared in the background, unless that is going on.
    pub(super) fn prepare(self: &Arc<Self>) {
        if !self.preparing.swap(true, Ordering::AcqRel) {
            let log = self.clone();
            self.shared.in_background(move || log.prepare_now());
        }
    }

    /// It may be beyond its limit.
    fn tell_growth(&self) {
        if let Some(above) = self.above() {
            above.bound_log();
        }
    }

    /// Prepares the next file. The caller set `preparing`.
    fn prepare_now(self: &Arc<Self>) {
        let capacity = self.next_capacity();
        self.wanted.store(0, Ordering::Release);
        let result = self.prepare_capacity(capacity);
        let starved = matches!(result, Err(Error::NoSpace { .. }));
        self.starved.store(starved, Ordering::Release);
        self.preparing.store(false, Ordering::Release);
        match result {
            Ok(()) => {
                self.tell_growth();
                self.shared.keep_reserve();
            }
            Err(error) => drop(self.shared.failed(error)),
        }
        self.shared.channel.made_room();
    }

    /// Lengthens the current file by this many bytes. False if the framer has left it.
    fn lengthen(&self, len: u64) -> Result<bool> {
        let file = self.extent.lock().file.clone();
        let from = self.sequence().tail.capacity_of(file.number());
        let Some(from) = from else { return Ok(false) };
        let to = from + len.max(self.switch_at / LENGTHEN_PART);
        file.lengthen(from, to)?;
        self.shared.counters.wal_filled_bytes.add(to - from);
        self.shared.counters.wal_lengthened_bytes.add(to - from);
        let current = self.sequence().tail.lengthened(file.number(), to);
        let mut live = self.live.lock();
        if let Some(live) = live.iter_mut().find(|live| live.number == file.number()) {
            live.len = live.len.max(to);
        }
        Ok(current)
    }

    /// Twice the current file's: the first file after opening is short, and one of full length
    /// would not be ready before that is full.
    fn next_capacity(&self) -> u64 {
        let usual = self.extent.lock().file.capacity().saturating_mul(2).min(self.switch_at);
        usual.max(self.wanted.load(Ordering::Acquire))
    }

    /// Sees to it that there is a next file of this capacity.
    fn prepare_capacity(&self, capacity: u64) -> Result<()> {
        let there = self.prepared.lock().take();
        let (next, result) = match there {
            Some(next) if next.capacity() >= capacity => (Some(next), Ok(())),
            Some(mut next) => {
                let before = next.bytes_written();
                let result = next.extend(capacity);
                self.shared.counters.wal_filled_bytes.add(next.bytes_written() - before);
                (Some(next), result)
            }
            None => {
                let old = self.recycled.lock().pop();
                let Shared { env, dir, numbers, .. } = &*self.shared;
                let (number, uid) = (numbers.next_file(), env.random());
                let fs = &**env.fs();
                let next = match old {
                    None if self.allocates.load(Ordering::Relaxed) => {
                        allocate_next(fs, dir, number, uid, capacity)
                    }
                    old => prepare_next(fs, dir, number, uid, capacity, old.as_deref()),
                };
                match next {
                    Ok(next) => {
                        self.shared.counters.wal_filled_bytes.add(next.bytes_written());
                        self.upcoming.lock().push(number);
                        (Some(next), self.record())
                    }
                    Err(error) => (None, Err(error)),
                }
            }
        };
        if let Some(next) = &next {
            self.open_next(next);
        }
        // One that could not be made longer serves smaller records all the same.
        *self.prepared.lock() = next;
        result
    }

    /// Has the manifest list the next file before anything is written into it, so that a file which
    /// is lost later is missed. On a full device it serves all the same; the next install lists it.
    fn record(&self) -> Result<()> {
        let Some(above) = self.above() else { return Ok(()) };
        match above.record_wals() {
            Err(Error::NoSpace { .. }) => Ok(()),
            recorded => recorded,
        }
    }

    /// Prepares the next file if the device was too full for it and is no more.
    pub fn prepare_if_starved(self: &Arc<Self>, free: u64) {
        let needs = self.next_capacity();
        if self.is_starved() && free >= needs && !self.preparing.swap(true, Ordering::AcqRel) {
            self.prepare_now();
        }
    }

    /// Whether the device was too full to prepare the next file.
    pub fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Acquire)
    }

    /// Gives away the old files that are kept for reuse.
    pub fn spare(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.recycled.lock())
    }

    /// Takes old WAL files for reuse, up to what the memtables need; returns those that are not
    /// wanted.
    pub fn recycle(&self, mut old: Vec<PathBuf>) -> Vec<PathBuf> {
        let options = &self.shared.options;
        let tree = &options.policy.tree;
        let logged = tree.memtable_bytes.0.saturating_mul(tree.memtable_count as u64);
        let wanted = (logged / options.wal_file_bytes.0 + 2).min(RECYCLED_MAX) as usize;
        let mut recycled = self.recycled.lock();
        while recycled.len() < wanted {
            let Some(path) = old.pop() else { break };
            recycled.push(path);
        }
        old
    }
}
