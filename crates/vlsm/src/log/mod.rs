//! From framed records to the device: writing and syncing the WAL, and switching its files.
//!
//! The sequencing step appends records to a buffer ([`Tail`]). The first writer that needs the
//! write takes the buffer and writes it for all writers with records in it; these wait for it
//! (`group`). The write is a copy into the file's memory where that is ready, else a call
//! (`window`). Syncs work in the same way (`durable`), separately from writes, so that a `Sync`
//! writer never delays a `Buffered` one.
//!
//! Positions count the framed bytes of all files since the store was opened. `written` and `synced`
//! are positions; a writer waits until its own is reached.
//!
//! Switching files: when the current file is full and the next one is prepared, the framer switches
//! to the new file in the sequencing step. The thread that writes the rest of the old file then
//! writes the new header, which seals the old file. No writer waits for the device: the next sync
//! covers the old file before the new one.
//!
//! Room: a prepared file has all its blocks, so writing into it takes no space of the device
//! (except for the file system's own notes of blocks that were allocated only). A
//! record is framed only within that capacity ([`Log::make_room`]); if it does not fit, nothing is
//! sequenced until the next file is prepared. So the preparation detects a full device, when no
//! batch depends on it, and writers are refused before the sequencing step: a refused batch has no
//! sequence number and is in no memtable, so it can never become visible, be flushed or recovered.
//! The next file is prepared early enough that normally no writer waits for it; if writers are
//! faster, the current file is lengthened in small steps.
//!
//! Failure: the store is latched, also when a write within the capacity finds the device full (on a
//! file system that never writes in place). Reopening seals the file at its last good length.
//!
//! Threads and locks: `writer` and `syncer` are only ever taken with `try_lock`, because they are
//! held over file calls. Order: `writer` before the sequencing lock, `linked` before `live`.

mod ahead;
mod durable;
mod group;
pub(crate) mod live;
pub(crate) mod sequence;
pub(crate) mod tail;
mod window;

use crate::shared::{Shared, WAIT_EVENT};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, Race, races};
use group::Groups;
use live::LiveWal;
use sequence::Sequence;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tail::{Switch, Tail, with_mark};
use vlsm_core::event::{Event, WaitCause};
use vlsm_core::planted::{self, Bug};
use vlsm_core::{FileNumber, Result, Seq};
use vlsm_disk::Condition;
use vlsm_disk::record::HEADER_LEN;
use vlsm_disk::wal::{PreparedWal, SealKind, WalFile};
use window::{Window, Windows};

/// A waiter for another's write spins this long before it sleeps.
const WRITE_SPIN: Duration = Duration::from_micros(10);
/// `Lazy` writers leave the buffer alone up to here.
const LAZY_BUFFER: u64 = 64 << 10;
/// Beyond this `Lazy` writers wait, too.
const LAZY_BUFFER_MAX: u64 = 4 << 20;
/// Buffers larger than this are not kept for reuse.
const SPARE_BUFFER_MAX: usize = 4 << 20;
/// How soon one that shuts the log looks again whether nobody is at work.
const SHUT_RETRY: Duration = Duration::from_millis(1);
/// The next file is prepared when this part of the current one is used.
const LOOK_AHEAD_PART: u64 = 16;

/// The file being written.
struct CurrentFile {
    file: Arc<WalFile>,
    /// Where the next bytes go.
    offset: u64,
    spare: Vec<u8>,
    window: Option<Arc<Window>>,
}

/// The state of the WAL that a sync needs; under a short lock, never held over a file call.
struct Extent {
    file: Arc<WalFile>,
    /// The files before it that are not synced yet, oldest first.
    unsynced: Vec<Arc<WalFile>>,
    /// The position of the file's first record.
    start: u64,
    written: u64,
    /// The end of a group of records, before the pages in use ([`Windows::crosses`]).
    closed: u64,
}

impl Extent {
    /// The offset in the current file of a position, or of its first record for an older position.
    fn offset_of(&self, position: u64) -> u64 {
        self.file.framer().offset() + position.saturating_sub(self.start)
    }
}

/// A file's number and an offset in it, in one word, so that both are read at once.
#[derive(Default)]
struct Hint(AtomicU64);

impl Hint {
    const OFFSET_BITS: u32 = 40;

    fn set(&self, file: &WalFile, offset: u64) {
        self.0.store(file.number() << Self::OFFSET_BITS | offset, Ordering::Relaxed);
    }

    /// The offset, if it belongs to this file.
    #[inline]
    fn offset_in(&self, file: FileNumber) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        let (number, offset) = (word >> Self::OFFSET_BITS, word & ((1 << Self::OFFSET_BITS) - 1));
        if number == file.0 & (u64::MAX >> Self::OFFSET_BITS) { offset } else { 0 }
    }
}

/// The callbacks of the log into the parts above it.
pub(crate) trait Above: Send + Sync {
    /// Has the manifest list the WALs that there are now, so that one that is lost later is missed.
    fn record_wals(&self) -> Result<()>;
    /// The log has grown: it may be beyond its limit.
    fn bound_log(&self);
}

/// The WAL of an open store.
pub(crate) struct Log {
    shared: Arc<Shared>,
    above: OnceLock<Weak<dyn Above>>,
    sequence: Mutex<Sequence>,
    /// The files that may hold unflushed writes, the current one last.
    live: Mutex<Vec<LiveWal>>,
    /// Files to which SSTs refer, or may.
    linked: Mutex<BTreeSet<u64>>,
    /// Whether new files are allocated instead of filled with zeros.
    allocates: AtomicBool,
    /// Whether the file system has no hard links.
    no_links: AtomicBool,
    /// The length at which files are switched.
    switch_at: u64,
    writer: Mutex<CurrentFile>,
    syncer: Mutex<()>,
    extent: Mutex<Extent>,
    written: AtomicU64,
    synced: AtomicU64,
    /// The newest file whose start is durable.
    durable_file: AtomicU64,
    /// The offset up to which a file is synced: the hint that its records carry.
    synced_hint: Hint,
    writes: Groups,
    syncs: Groups,
    /// Where one that shuts the log waits for those at work.
    shutting: Arc<dyn Condition>,
    prepared: Mutex<Option<PreparedWal>>,
    /// The numbers of files that were prepared and are not begun yet.
    upcoming: Mutex<Vec<u64>>,
    preparing: AtomicBool,
    lengthening: AtomicBool,
    /// The capacity that a record needs for which there was no room; 0 for none.
    wanted: AtomicU64,
    /// Whether the device was too full to prepare the next file.
    starved: AtomicBool,
    syncing_ahead: AtomicBool,
    windows: Windows,
    /// Old files that may be reused.
    recycled: Mutex<Vec<PathBuf>>,
}

impl Log {
    /// The log that goes on in `file`, the last of the `live` ones.
    pub fn new(shared: &Arc<Shared>, last_seq: Seq, file: WalFile, live: Vec<LiveWal>) -> Self {
        let sequence = Mutex::new(Sequence::new(last_seq, Tail::new(&file)));
        let file = Arc::new(file);
        let options = &shared.options;
        let offset = file.framer().offset();
        let (unsynced, start, written, closed) = (Vec::new(), 0, 0, 0);
        let extent = Extent { file: file.clone(), unsynced, start, written, closed };
        let synced_hint = Hint::default();
        synced_hint.set(&file, file.taken_over());
        // An opening syncs the file that it begins.
        let durable_file = AtomicU64::new(file.number());
        Self {
            shared: shared.clone(),
            above: OnceLock::new(),
            sequence,
            live: Mutex::new(live),
            linked: Mutex::default(),
            allocates: AtomicBool::new(false),
            no_links: AtomicBool::new(false),
            switch_at: options.wal_file_bytes.0,
            writer: Mutex::new(CurrentFile { file, offset, spare: Vec::new(), window: None }),
            syncer: Mutex::new(()),
            extent: Mutex::new(extent),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            durable_file,
            synced_hint,
            writes: Groups::new(shared, WRITE_SPIN),
            syncs: Groups::new(shared, Duration::ZERO),
            shutting: shared.env.condition(Duration::ZERO),
            prepared: Mutex::new(None),
            upcoming: Mutex::default(),
            preparing: AtomicBool::new(false),
            lengthening: AtomicBool::new(false),
            wanted: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            syncing_ahead: AtomicBool::new(false),
            windows: Windows::new(options),
            recycled: Mutex::default(),
        }
    }

    /// Allocates new files instead of filling them with zeros, because files are not used again.
    pub fn allocate_files(&self) {
        self.allocates.store(true, Ordering::Relaxed);
    }

    /// Sets the parts above, which the log asks for rotations and flushes.
    pub fn attach(&self, above: Weak<dyn Above>) {
        let _ = self.above.set(above);
    }

    /// Those parts; none once the store is gone.
    fn above(&self) -> Option<Arc<dyn Above>> {
        self.above.get().and_then(Weak::upgrade)
    }

    /// The sequencing lock.
    #[inline]
    pub fn sequence(&self) -> MutexGuard<'_, Sequence> {
        self.sequence.lock()
    }

    /// The offset up to which a file is known to be synced; 0 when that is not known.
    #[inline]
    pub fn synced_hint(&self, file: FileNumber) -> u64 {
        self.synced_hint.offset_in(file)
    }

    /// The number of the newest file whose start is durable.
    pub fn durable_file(&self) -> u64 {
        self.durable_file.load(Ordering::Acquire)
    }

    /// The newest file that was begun, and up to where it is written.
    pub fn written_end(&self) -> (u64, u64) {
        let extent = self.extent.lock();
        (extent.file.number(), extent.offset_of(extent.written))
    }

    /// Makes room for the next record of this length, and switches to the next file if necessary.
    /// False if the next file must be prepared first: see [`Log::want`].
    pub fn make_room(&self, sequence: &mut Sequence, len: u64) -> bool {
        let next_seq = Seq(sequence.next_seq);
        let tail = &mut sequence.tail;
        let fits = tail.fits(len);
        if fits && tail.offset() < self.switch_at {
            return true;
        }
        let suits = |next: &mut PreparedWal| HEADER_LEN + with_mark(len) <= next.capacity();
        match self.prepared.lock().take_if(suits) {
            Some(next) => {
                tail.switch(next, next_seq);
                true
            }
            None => fits,
        }
    }

    /// Waits until everything up to `position` is written, writing it where nobody else does.
    pub fn write_through(self: &Arc<Self>, position: u64) -> Result<()> {
        let mut since = None;
        loop {
            let place = self.writes.join(position);
            if self.written.load(Ordering::Acquire) >= position || races(Race::WriteNoWait) {
                if let Some(since) = since {
                    self.shared.note_wait(WaitCause::WalQueue, since);
                }
                return Ok(());
            }
            self.shared.health.check_running()?;
            self.shared.env.interleave();
            if let Some(mut writer) = self.writer.try_lock() {
                let result = self.write_buffer(&mut writer);
                self.end_write(writer);
                result?;
                continue;
            }
            since.get_or_insert_with(|| self.shared.env.now());
            self.writes.wait(position, place);
        }
    }

    /// Writes the buffer when it has become large and nobody else is writing.
    pub fn write_if_large(self: &Arc<Self>, position: u64) -> Result<()> {
        let buffered = position.saturating_sub(self.written.load(Ordering::Acquire));
        if buffered < LAZY_BUFFER {
            return Ok(());
        }
        if buffered >= LAZY_BUFFER_MAX {
            // The one who writes does not keep up: wait for it.
            return self.write_through(position);
        }
        let Some(mut writer) = self.writer.try_lock() else { return Ok(()) };
        let result = self.write_buffer(&mut writer);
        self.end_write(writer);
        result
    }

    /// Lets the next one write, and wakes those that are written.
    fn end_write(self: &Arc<Self>, writer: MutexGuard<'_, CurrentFile>) {
        let group = self.writes.last();
        drop(writer);
        self.writes.end(group);
        self.look_ahead();
    }

    /// Takes the buffer and writes it, and changes files where the framer did.
    fn write_buffer(&self, writer: &mut CurrentFile) -> Result<()> {
        // Checked while holding `writer`: a failed write latched the store before it released
        // `writer`, and after a failure no thread may write.
        self.shared.health.check_running()?;
        let _watch = self.shared.watch();
        let spare = std::mem::take(&mut writer.spare);
        let (switches, mut buffer, end) = {
            let mut sequence = self.sequence();
            sequence.tail.take(spare)
        };
        self.writes.begin(end);
        self.shared.env.interleave();
        for Switch { rest, end, next, next_seq } in switches {
            self.write_out(writer, &rest, end)?;
            self.switch(writer, next, next_seq, end)?;
        }
        self.write_out(writer, &buffer, end)?;
        buffer.clear();
        if buffer.capacity() <= SPARE_BUFFER_MAX {
            writer.spare = buffer;
        }
        Ok(())
    }

    /// Writes records that end at a position into the current file.
    fn write_out(&self, writer: &mut CurrentFile, records: &[u8], end: u64) -> Result<()> {
        let offset = writer.offset;
        if !records.is_empty() {
            let since = self.shared.env.now();
            let result = self.put(writer, records, end);
            let forgotten = planted::is(Bug::FailedAppendForgotten);
            result.map_err(|error| if forgotten { error } else { self.shared.latch(error) })?;
            if self.shared.env.now().saturating_sub(since) >= WAIT_EVENT {
                self.shared.note_wait(WaitCause::WalWrite, since);
            }
            writer.offset += records.len() as u64;
            self.shared.counters.wal_bytes.add(records.len() as u64);
            self.shared.counters.wal_writes.add(1);
        }
        let crosses = self.windows.crosses(offset, writer.offset);
        {
            let mut extent = self.extent.lock();
            if crosses {
                extent.closed = end - (writer.offset - offset);
            }
            extent.written = end;
        }
        self.written.store(end, Ordering::Release);
        Ok(())
    }

    /// Begins the next file; its header seals the current one.
    fn switch(
        &self,
        writer: &mut CurrentFile,
        next: PreparedWal,
        next_seq: Seq,
        end: u64,
    ) -> Result<()> {
        let recycled = next.was_recycled();
        // 0 when no record of the file is known to be synced: the seal must not claim that any was.
        let synced = {
            let (extent, position) = (self.extent.lock(), self.synced.load(Ordering::Acquire));
            let synced = position > extent.start;
            if synced { extent.offset_of(position) } else { extent.file.taken_over() }
        };
        let seal = writer.file.seal(writer.offset, synced, SealKind::Clean);
        let file = next.begin(Some(seal), next_seq).map_err(|error| self.shared.latch(error))?;
        self.shared.counters.wal_filled_bytes.add(file.framer().offset());
        let file = Arc::new(file);
        let old = std::mem::replace(&mut writer.file, file.clone());
        let old_len = std::mem::replace(&mut writer.offset, file.framer().offset());
        writer.window = self.switch_window(file.number());
        let number = FileNumber(file.number());
        {
            let mut live = self.live.lock();
            if let Some(last) = live.last_mut() {
                last.len = old_len;
            }
            live.push(LiveWal::of(&file));
        }
        self.upcoming.lock().retain(|upcoming| *upcoming != number.0);
        {
            let mut extent = self.extent.lock();
            extent.start = end;
            extent.unsynced.push(old);
            extent.file = file;
        }
        self.shared.events.emit(Event::WalSwitched { file: number, recycled });
        Ok(())
    }

    /// Syncs everything appended, and then a mark that says so: from here on damage to what was
    /// synced cannot pass for a torn tail.
    pub fn seal_end(self: &Arc<Self>) -> Result<()> {
        let position = self.sequence().tail.appended();
        self.sync_through(position)?;
        // Every record left room for it.
        let position = {
            let mut sequence = self.sequence();
            let hint = self.synced_hint(sequence.tail.number());
            sequence.tail.append(|framer, out| {
                framer.mark(out, hint);
            })
        };
        self.sync_through(position)
    }

    /// Cuts the last file where its records end. No thread writes or syncs any more.
    pub fn close_file(&self) -> Result<()> {
        let extent = self.extent.lock();
        let (file, len) = (extent.file.clone(), extent.offset_of(extent.written));
        drop(extent);
        file.close(len)
    }

    /// The numbers of the files that were prepared and are not begun yet.
    pub fn upcoming(&self) -> Vec<u64> {
        self.upcoming.lock().clone()
    }

    /// Has the next file prepared and the current one synced, in the background, before they are
    /// needed.
    fn look_ahead(self: &Arc<Self>) {
        let (closed, offset, capacity) = {
            let extent = self.extent.lock();
            let offset = extent.offset_of(extent.written);
            (self.closed(&extent), offset, extent.file.capacity())
        };
        if offset >= capacity / LOOK_AHEAD_PART
            && !self.is_starved()
            && self.prepared.lock().is_none()
        {
            self.prepare();
        }
        self.open_ahead();
        let synced = self.synced.load(Ordering::Acquire);
        if closed.saturating_sub(synced) >= self.shared.options.wal_sync_bytes.0
            && !self.syncing_ahead.swap(true, Ordering::AcqRel)
        {
            let log = self.clone();
            self.shared.in_background(move || {
                // A failure latches the store, which is how everybody learns of it.
                let _ = log.sync_to(closed, true);
                log.syncing_ahead.store(false, Ordering::Release);
            });
        }
    }

    /// Lets nobody write or sync any more, once the store's health says that it is closed.
    pub fn shut(&self) {
        self.writes.wake();
        self.syncs.wake();
        for lock in [&self.writer as &dyn Shut, &self.syncer] {
            while !lock.shut() {
                // Those at work tell nobody but their groups.
                let soon = self.shared.env.now() + SHUT_RETRY;
                self.shutting.wait(self.shutting.epoch(), Some(soon));
            }
        }
    }
}

/// A lock that can be taken for good.
trait Shut {
    fn shut(&self) -> bool;
}

impl<T> Shut for Mutex<T> {
    fn shut(&self) -> bool {
        self.try_lock().map(std::mem::forget).is_some()
    }
}
