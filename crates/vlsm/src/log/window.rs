//! Windows: WAL files in use, in memory, so that writing a group of records is a copy.
//!
//! A group of records is written by a call or through the file's window; [`Log::put`] chooses.
//! Everything else of the log is the same in both cases: one thread writes at a time, `written`
//! moves on after the copy or the call, and syncs follow it.
//!
//! 1. When the next file is prepared, its window is opened: the file is mapped, and its first bytes
//!    are brought into memory, ready to be written ([`AHEAD_PIECES`]). The window of the file with
//!    which the store was opened is opened when the first records have been written to it.
//! 2. The group goes through the window if all of it lies in the part that is ready. Then a store
//!    takes no fault, which may wait for the file system as a call does.
//! 3. When half of the part ahead is used, more is brought in, in the background, and what lies
//!    behind is taken out of this process's memory; the page cache keeps it.
//! 4. A sync through a window writes only the range that is not synced yet, and takes it out of
//!    this process's memory before. The background syncs only what lies before the pages in use
//!    ([`Log::closed`]). A page that the kernel writes to the device is protected, and the next
//!    store there would fault; so pages that are ready stay ready.
//! 5. `Sync` writers and `Db::sync` have every page in use written at once. So windows rest until
//!    a number of bytes has been written without one ([`Windows::rest`]): their groups are written
//!    by calls, and synced by `fdatasync`.
//!
//! Where a file cannot be mapped, or its bytes cannot be brought in, the store goes on with calls,
//! and tells it once ([`Event::WalUnmapped`]). A file that is shorter than it was prepared latches
//! the store.
//!
//! Invariants: a window's file has all its bytes, durably, before the window is opened, so a sync
//! of a range suffices, and no store extends the file or allocates a block. (Blocks that were only
//! allocated become written ones with the first sync.) What counts as written is in the page cache.
//!
//! Memory: the mapped part is charged to `memory_limit`, of which it takes a sixteenth at most.
//!
//! Threads and locks: the list of windows is under a short lock, as is the range that a window has
//! in memory. The thread that writes keeps the current window beside the file. The last reference
//! is dropped in the background, because it unmaps the file.

use super::{CurrentFile, Extent, Log};
use crate::options::Options;
use crate::shared::counters::Counter;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use vlsm_core::event::Event;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Error, Result};
use vlsm_disk::wal::{MappedWal, PreparedWal, WalFile};
use vlsm_disk::{Charge, Gauge};

/// The most bytes that are brought into memory by one call.
const PIECE_MAX: u64 = 256 << 10;
/// The least; small files are for tests.
const PIECE_MIN: u64 = 4 << 10;
/// The pieces of a file.
const PIECES: u64 = 64;
/// The pieces of `memory_limit`: all windows together take at most 16 of them.
const PIECES_OF_MEMORY: u64 = 256;
/// The pieces that are kept ready ahead of the writers.
const AHEAD_PIECES: u64 = 4;
/// Bytes in use are not synced in the background, up to a multiple of this: the largest page.
const PAGE_MAX: u64 = 64 << 10;

/// A WAL file in memory.
pub(super) struct Window {
    file: u64,
    map: MappedWal,
    /// The offset up to which stores take no fault; 0 if it is not known.
    ready: AtomicU64,
    in_memory: Mutex<InMemory>,
}

/// The part of a window that is in memory.
struct InMemory {
    from: u64,
    to: u64,
    charge: Charge,
}

impl InMemory {
    /// A range is about to be brought in.
    fn grow(&mut self, from: u64, to: u64) {
        if self.charge.bytes() == 0 {
            self.from = from;
        }
        self.to = self.to.max(to);
        self.charge.set(self.to - self.from);
    }
}

/// The windows of a log.
pub(super) struct Windows {
    piece: u64,
    /// Background syncs end between two records, before the last multiple of this.
    closes: u64,
    /// The current file's and the next one's, as far as there are.
    open: Mutex<Vec<Arc<Window>>>,
    /// The offset up to which the writing thread needs the current file to be ready; 0 if it has
    /// enough.
    wanted: AtomicU64,
    opening: AtomicBool,
    /// Whether files cannot be mapped here.
    refused: AtomicBool,
    /// The position after the last record that a client had synced.
    last_sync: AtomicU64,
}

impl Windows {
    /// The windows of a log with these options.
    pub fn new(options: &Options) -> Self {
        let sync_bytes = options.wal_sync_bytes.0;
        let piece =
            (options.wal_file_bytes.0 / PIECES).min(options.memory_limit.0 / PIECES_OF_MEMORY);
        let piece = piece.clamp(PIECE_MIN, PIECE_MAX) / PIECE_MIN * PIECE_MIN;
        Self {
            piece,
            closes: piece.min(PAGE_MAX).min(sync_bytes).max(1),
            open: Mutex::default(),
            wanted: AtomicU64::new(0),
            opening: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            last_sync: AtomicU64::new(0),
        }
    }

    /// Whether they rest at this position: shortly after a `Sync` writer, and at the beginning.
    fn rest(&self, position: u64) -> bool {
        position < self.last_sync.load(Ordering::Acquire).saturating_add(self.piece)
    }

    /// Whether a group of records at these offsets reaches into other pages. A background sync ends
    /// before the last such group. If it ended at the page, it could end within a record, and the
    /// log would claim that the whole record is durable.
    pub(super) fn crosses(&self, from: u64, to: u64) -> bool {
        from / self.closes != to / self.closes
    }

    fn of(&self, file: u64) -> Option<Arc<Window>> {
        self.open.lock().iter().find(|window| window.file == file).cloned()
    }

    fn ahead(&self) -> u64 {
        self.piece * AHEAD_PIECES
    }
}

impl Window {
    fn new(file: u64, map: MappedWal, gauge: &Gauge) -> Arc<Self> {
        let in_memory = Mutex::new(InMemory { from: 0, to: 0, charge: gauge.charge(0) });
        Arc::new(Self { file, map, ready: AtomicU64::new(0), in_memory })
    }

    /// Makes the window ready from an offset, or from where it is, to another one, and counts the
    /// bytes.
    fn advance(&self, offset: u64, to: u64, piece: u64, made_ready: &Counter) -> Result<()> {
        let to = to.min(self.map.len());
        let mut from = self.ready.load(Ordering::Acquire).max(offset);
        while from < to {
            let next = to.min(from + piece);
            self.in_memory.lock().grow(from, next);
            self.map.populate(from, next)?;
            self.ready.store(next, Ordering::Release);
            made_ready.add(next - from);
            from = next;
        }
        Ok(())
    }

    /// Makes the window ready from an offset where the writers are, and takes what lies over a
    /// piece before it out of memory. That is first, because calls may have written far beyond what
    /// was ready: what lies between is not in memory, and is not charged.
    fn go_on(&self, offset: u64, to: u64, piece: u64, made_ready: &Counter) -> Result<()> {
        self.release(offset.saturating_sub(piece));
        self.advance(offset, to, piece, made_ready)
    }

    /// Takes what lies before an offset out of memory.
    fn release(&self, to: u64) {
        let mut in_memory = self.in_memory.lock();
        let to = to.min(in_memory.to);
        if in_memory.from < to {
            self.map.release(in_memory.from, to);
            in_memory.from = to;
            let left = in_memory.to - to;
            in_memory.charge.set(left);
        }
    }
}

impl Log {
    /// Writes a group of records that ends at a position: through the current file's window if all
    /// of it is ready there, else by a call.
    pub(super) fn put(&self, writer: &mut CurrentFile, records: &[u8], end: u64) -> Result<()> {
        let (offset, len) = (writer.offset, records.len() as u64);
        let windows = &self.windows;
        if windows.refused.load(Ordering::Relaxed) || windows.rest(end - len) {
            return writer.file.write(records, offset);
        }
        if writer.window.is_none() {
            writer.window = windows.of(writer.file.number());
        }
        let window = writer.window.as_deref();
        let ready = window.map_or(0, |window| window.ready.load(Ordering::Acquire));
        let most = window.map_or(u64::MAX, |window| window.map.len());
        // Another group of this length, and half of what is usually ahead. A group that is longer
        // than that is written by a call.
        let wanted = offset + (len * 2).min(windows.ahead()) + windows.ahead() / 2;
        if ready < wanted.min(most) {
            windows.wanted.store(wanted, Ordering::Release);
        }
        let Some(window) = window.filter(|_| offset + len <= ready) else {
            return writer.file.write(records, offset);
        };
        if !planted::is(Bug::WindowUnstored) {
            window.map.store(records, offset)?;
        }
        self.shared.counters.wal_mapped_bytes.add(len);
        Ok(())
    }

    /// A client is about to have the records up to this position synced.
    pub fn note_sync(&self, position: u64) {
        self.windows.last_sync.fetch_max(position, Ordering::AcqRel);
    }

    /// Makes a range of a file durable, and all before it is durable: through its window if that is
    /// in use. `written` is the position at the end of the range.
    pub(super) fn sync_range(
        &self,
        file: &WalFile,
        from: u64,
        to: u64,
        written: u64,
    ) -> Result<()> {
        let window = self.windows.of(file.number());
        let Some(window) = window else { return file.sync() };
        if !self.windows.rest(written) && to <= window.map.len() {
            let to = if planted::is(Bug::WindowUnsynced) { to.saturating_sub(4096) } else { to };
            // The kernel protects every mapped page that it writes, and interrupts the other
            // processors for each. Taking them out of memory first costs one interrupt for all.
            window.release(to - to % self.windows.closes);
            return window.map.sync(from.min(to), to);
        }
        // Every page will be protected, those ahead, too.
        window.ready.store(0, Ordering::Release);
        file.sync()
    }

    /// The position up to which the background syncs: all that is written, or with a window the
    /// end of a group before the pages in use.
    pub(super) fn closed(&self, extent: &Extent) -> u64 {
        let windows = &self.windows;
        match windows.refused.load(Ordering::Relaxed) || windows.rest(extent.written) {
            true => extent.written,
            false => extent.closed,
        }
    }

    /// Has the current window made ready in the background, where the writers need it.
    pub(super) fn open_ahead(self: &Arc<Self>) {
        let windows = &self.windows;
        if windows.wanted.load(Ordering::Acquire) == 0
            || windows.opening.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let log = self.clone();
        self.shared.in_background(move || {
            let wanted = log.windows.wanted.swap(0, Ordering::AcqRel);
            let result = log.open_current(wanted);
            log.windows.opening.store(false, Ordering::Release);
            log.tell_window(result);
        });
    }

    /// Opens the current file's window, or makes more of it ready.
    fn open_current(&self, wanted: u64) -> Result<()> {
        self.shared.health.check_running()?;
        let (file, offset) = {
            let extent = self.extent.lock();
            (extent.file.clone(), extent.offset_of(extent.written))
        };
        let windows = &self.windows;
        let window = match windows.of(file.number()) {
            Some(window) => window,
            None => {
                let window = Window::new(file.number(), file.map()?, &self.shared.memory.wal);
                windows.open.lock().push(window.clone());
                window
            }
        };
        let (to, made_ready) =
            (wanted.max(offset + windows.ahead()), &self.shared.counters.wal_ready_bytes);
        window.go_on(offset, to, windows.piece, made_ready)
    }

    /// Opens the window of the next file, if windows are in use.
    pub(super) fn open_next(&self, next: &PreparedWal) {
        let windows = &self.windows;
        let unused = windows.refused.load(Ordering::Relaxed)
            || windows.rest(self.written.load(Ordering::Acquire));
        if unused || windows.of(next.number()).is_some() {
            return;
        }
        let opened = next.map().and_then(|map| {
            let window = Window::new(next.number(), map, &self.shared.memory.wal);
            let made_ready = &self.shared.counters.wal_ready_bytes;
            window.advance(0, windows.ahead(), windows.piece, made_ready)?;
            windows.open.lock().push(window);
            Ok(())
        });
        self.tell_window(opened);
    }

    /// The file with this number is the current one now: its window, and the older ones are closed
    /// in the background.
    pub(super) fn switch_window(&self, number: u64) -> Option<Arc<Window>> {
        self.windows.wanted.store(0, Ordering::Release);
        let (current, old) = {
            let mut open = self.windows.open.lock();
            let old: Vec<_> = open.extract_if(.., |window| window.file < number).collect();
            (open.iter().find(|window| window.file == number).cloned(), old)
        };
        if !old.is_empty() {
            self.shared.in_background(move || drop(old));
        }
        current
    }

    /// Without a window the log goes on; with a file that was cut it does not.
    fn tell_window(&self, opened: Result<()>) {
        let Err(error) = opened else { return };
        if self.shared.health.check_running().is_err() {
            return;
        }
        if matches!(error, Error::Corruption { .. }) {
            self.shared.latch(error);
        } else if !self.windows.refused.swap(true, Ordering::AcqRel) {
            self.shared.emit(Event::WalUnmapped { error });
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use vlsm_disk::fs::posix::PosixFs;
    use vlsm_disk::wal::prepare_next;

    #[test]
    fn only_what_is_in_memory_is_charged() {
        let folder = tempfile::tempdir().expect("a folder");
        let next = prepare_next(&PosixFs, folder.path(), 1, 7, 1 << 20, None).expect("a file");
        let (gauge, made_ready, piece) = (Gauge::default(), Counter::default(), 4096);
        let window = Window::new(1, next.map().expect("a map"), &gauge);
        let go_on = |offset, pieces| {
            let to = offset + pieces * piece;
            window.go_on(offset, to, piece, &made_ready).expect("it is brought in");
            gauge.get() / piece
        };
        assert_eq!(go_on(0, 4), 4);
        assert_eq!(go_on(2 * piece, 4), 5, "one is behind");
        // Calls wrote far beyond what was ready.
        assert_eq!(go_on(100 * piece, 4), 4);
        assert_eq!(made_ready.get(), 10 * piece);
        drop(window);
        assert_eq!(gauge.get(), 0);
    }
}
