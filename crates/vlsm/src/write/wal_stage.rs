//! From framed records to the device: writing and syncing the WAL, and switching its files.
//!
//! The sequencing step appends records to a buffer ([`WalTail`]). Whoever needs them written takes
//! the buffer and writes it, for everybody whose records are in it; the others wait for that one.
//! Syncing works the same way and apart from writing, so that a `Sync` writer never delays a
//! `Buffered` one.
//!
//! Positions count the framed bytes of all files since the store was opened. `written` and `synced`
//! are positions; a writer waits until its own is reached.
//!
//! Switching files: when the current file is full and the next one is prepared, the framer goes
//! over to the new file in the sequencing step; the one who writes the rest of the old one then
//! writes the new header, which seals the old one. Nobody waits for the device: the old file is
//! synced before the new one by whoever syncs next.
//!
//! Failure: the store is latched. The file is sealed at its last good length when the store is
//! reopened.
//!
//! Threads and locks: `writer` and `syncer` are only ever taken with `try_lock`, because they are
//! held over file calls. Order: `writer` before the sequencing lock.

use crate::engine::Engine;
use crate::options::Options;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use vlsm_core::event::{Event, WaitCause};
use vlsm_core::{FileNumber, Result, Seq};
use vlsm_disk::wal::{Framer, PreparedWal, SealKind, WalFile, prepare_next};
use vlsm_disk::{Condition, Env};

/// A waiter for another's write spins this long before it sleeps.
const WRITE_SPIN: Duration = Duration::from_micros(10);
/// `Lazy` writers leave the buffer alone up to here.
const LAZY_BUFFER: u64 = 64 << 10;
/// Beyond this `Lazy` writers wait, too.
const LAZY_BUFFER_MAX: u64 = 4 << 20;
/// Buffers larger than this are not kept for reuse.
const SPARE_BUFFER_MAX: usize = 4 << 20;

/// The end of the WAL, as the sequencing step sees it.
pub(crate) struct WalTail {
    framer: Framer,
    number: FileNumber,
    buffer: Vec<u8>,
    /// The position after the last record.
    appended: u64,
}

impl WalTail {
    pub fn new(file: &WalFile) -> Self {
        let number = FileNumber(file.number());
        Self { framer: file.framer(), number, buffer: Vec::new(), appended: 0 }
    }

    /// The file that the next record goes into.
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The position after the last record.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// Frames a record; returns the position after it.
    #[inline]
    pub fn append(&mut self, frame: impl FnOnce(&mut Framer, &mut Vec<u8>)) -> u64 {
        let before = self.framer.offset();
        frame(&mut self.framer, &mut self.buffer);
        self.appended += self.framer.offset() - before;
        self.appended
    }
}

/// The file being written.
struct Writer {
    file: Arc<WalFile>,
    /// Where the next bytes go.
    offset: u64,
    spare: Vec<u8>,
}

/// Old WAL files kept for reuse at most.
const RECYCLED_MAX: u64 = 64;

/// What a sync needs to know; a short lock, never held over a file call.
struct Extent {
    file: Arc<WalFile>,
    /// The files before it that are not synced yet, oldest first.
    unsynced: Vec<Arc<WalFile>>,
    /// The position of the file's first record.
    start: u64,
    written: u64,
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

/// The WAL as the writers use it.
pub(crate) struct WalStage {
    writer: Mutex<Writer>,
    syncer: Mutex<()>,
    extent: Mutex<Extent>,
    written: AtomicU64,
    synced: AtomicU64,
    /// The newest file whose start is durable.
    durable_file: AtomicU64,
    /// The offset up to which a file is synced: the hint that its records carry.
    synced_hint: Hint,
    write_done: Arc<dyn Condition>,
    sync_done: Arc<dyn Condition>,
    prepared: Mutex<Option<PreparedWal>>,
    preparing: AtomicBool,
    syncing_ahead: AtomicBool,
    /// Old files that may be reused.
    recycled: Mutex<Vec<PathBuf>>,
}

impl WalStage {
    pub fn new(env: &dyn Env, file: WalFile) -> Self {
        let file = Arc::new(file);
        let offset = file.framer().offset();
        let extent = Extent { file: file.clone(), unsynced: Vec::new(), start: 0, written: 0 };
        Self {
            writer: Mutex::new(Writer { file, offset, spare: Vec::new() }),
            syncer: Mutex::new(()),
            extent: Mutex::new(extent),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            durable_file: AtomicU64::new(0),
            synced_hint: Hint::default(),
            write_done: env.condition(WRITE_SPIN),
            sync_done: env.condition(Duration::ZERO),
            prepared: Mutex::new(None),
            preparing: AtomicBool::new(false),
            syncing_ahead: AtomicBool::new(false),
            recycled: Mutex::default(),
        }
    }

    /// The offset up to which a file is known to be synced; 0 when that is not known.
    #[inline]
    pub fn synced_hint(&self, file: FileNumber) -> u64 {
        self.synced_hint.offset_in(file)
    }

    /// The number of the newest file whose start is durable; 0 when none is yet.
    pub fn durable_file(&self) -> u64 {
        self.durable_file.load(Ordering::Acquire)
    }

    /// Wakes all waiters so that they look at the store's health.
    pub fn wake(&self) {
        self.write_done.notify();
        self.sync_done.notify();
    }

    /// Waits until everything up to `position` is written, writing it where nobody else does.
    pub fn write_through(&self, engine: &Arc<Engine>, position: u64) -> Result<()> {
        let mut since = None;
        loop {
            let epoch = self.write_done.epoch();
            if self.written.load(Ordering::Acquire) >= position {
                if let Some(since) = since {
                    engine.note_wait(WaitCause::WalQueue, since);
                }
                return Ok(());
            }
            engine.health.check()?;
            if let Some(mut writer) = self.writer.try_lock() {
                let result = self.write_buffer(engine, &mut writer);
                drop(writer);
                self.write_done.notify();
                self.look_ahead(engine);
                result?;
                continue;
            }
            since.get_or_insert_with(|| engine.env.now());
            self.write_done.wait(epoch, None);
        }
    }

    /// Writes the buffer when it has become large and nobody else is writing.
    pub fn write_if_large(&self, engine: &Arc<Engine>, position: u64) -> Result<()> {
        let buffered = position.saturating_sub(self.written.load(Ordering::Acquire));
        if buffered < LAZY_BUFFER {
            return Ok(());
        }
        if buffered >= LAZY_BUFFER_MAX {
            // The one who writes does not keep up: wait for it.
            return self.write_through(engine, position);
        }
        let Some(mut writer) = self.writer.try_lock() else { return Ok(()) };
        let result = self.write_buffer(engine, &mut writer);
        drop(writer);
        self.write_done.notify();
        self.look_ahead(engine);
        result
    }

    /// Takes the buffer and writes it. Switches files when it is time.
    fn write_buffer(&self, engine: &Engine, writer: &mut Writer) -> Result<()> {
        // Asked while holding `writer`: whoever failed latched the store before letting go of it,
        // and after a failure nobody may write on.
        engine.health.check()?;
        let spare = std::mem::take(&mut writer.spare);
        let (mut buffer, end, next) = {
            let mut sequence = engine.commit.sequence.lock();
            let next_seq = Seq(sequence.next_seq);
            let tail = &mut sequence.tail;
            let buffer = std::mem::replace(&mut tail.buffer, spare);
            let full = tail.framer.offset() >= engine.options.wal_file_bytes.0;
            let next = if full { self.prepared.lock().take() } else { None };
            if let Some(next) = &next {
                tail.framer = next.framer();
                tail.number = FileNumber(next.number());
            }
            (buffer, tail.appended, next.map(|next| (next, next_seq)))
        };
        engine.env.interleave();
        if !buffer.is_empty() {
            let result = writer.file.write(&buffer, writer.offset);
            result.map_err(|error| engine.latch(error))?;
            writer.offset += buffer.len() as u64;
            engine.counters.wal_bytes.add(buffer.len() as u64);
            engine.counters.wal_writes.add(1);
        }
        self.extent.lock().written = end;
        self.written.store(end, Ordering::Release);
        buffer.clear();
        if buffer.capacity() <= SPARE_BUFFER_MAX {
            writer.spare = buffer;
        }
        if let Some((next, next_seq)) = next {
            self.switch(engine, writer, next, next_seq, end)?;
        }
        Ok(())
    }

    /// Begins the next file; its header seals the current one.
    fn switch(
        &self,
        engine: &Engine,
        writer: &mut Writer,
        next: PreparedWal,
        next_seq: Seq,
        end: u64,
    ) -> Result<()> {
        let recycled = next.was_recycled();
        // 0 when no record of the file is known to be synced: the seal must not claim that any was.
        let synced = {
            let (extent, position) = (self.extent.lock(), self.synced.load(Ordering::Acquire));
            if position > extent.start { extent.offset_of(position) } else { 0 }
        };
        let seal = writer.file.seal(writer.offset, synced, SealKind::Clean);
        let file = next.begin(Some(seal), next_seq).map_err(|error| engine.latch(error))?;
        let file = Arc::new(file);
        let old = std::mem::replace(&mut writer.file, file.clone());
        writer.offset = file.framer().offset();
        let number = FileNumber(file.number());
        engine.live_wals.lock().push(file.number());
        {
            let mut extent = self.extent.lock();
            extent.start = end;
            extent.unsynced.push(old);
            extent.file = file;
        }
        engine.events.emit(Event::WalSwitched { file: number, recycled });
        Ok(())
    }

    /// Waits until everything up to `position` is on the device, syncing where nobody else does.
    pub fn sync_through(&self, engine: &Arc<Engine>, position: u64) -> Result<()> {
        self.write_through(engine, position)?;
        loop {
            let epoch = self.sync_done.epoch();
            if self.synced.load(Ordering::Acquire) >= position {
                return Ok(());
            }
            engine.health.check()?;
            if let Some(guard) = self.syncer.try_lock() {
                let result = self.sync_files(engine);
                drop(guard);
                self.sync_done.notify();
                self.write_done.notify();
                result?;
                continue;
            }
            self.sync_done.wait(epoch, None);
        }
    }

    /// Syncs everything appended, and then a mark that says so: from here on damage to what was
    /// synced cannot pass for a torn tail.
    pub fn seal_end(&self, engine: &Arc<Engine>) -> Result<()> {
        let position = engine.commit.sequence.lock().tail.appended();
        self.sync_through(engine, position)?;
        let position = {
            let mut sequence = engine.commit.sequence.lock();
            let hint = self.synced_hint(sequence.tail.number());
            sequence.tail.append(|framer, out| {
                framer.mark(out, hint);
            })
        };
        self.sync_through(engine, position)
    }

    /// Makes durable what is written at this moment. The caller holds `syncer`.
    fn sync_files(&self, engine: &Engine) -> Result<()> {
        // As in `write_buffer`: a failed sync is never tried again.
        engine.health.check()?;
        let (file, unsynced, written) = {
            let extent = self.extent.lock();
            (extent.file.clone(), extent.unsynced.clone(), extent.written)
        };
        for file in unsynced.iter().chain([&file]) {
            file.sync().map_err(|error| engine.latch(error))?;
            engine.counters.wal_syncs.add(1);
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

    /// Has the next file prepared and the current one synced, in the background, before they are
    /// needed.
    fn look_ahead(&self, engine: &Arc<Engine>) {
        let offset = self.extent.lock().offset_of(self.written.load(Ordering::Acquire));
        if offset >= engine.options.wal_file_bytes.0 / 2
            && self.prepared.lock().is_none()
            && !self.preparing.swap(true, Ordering::AcqRel)
        {
            self.prepare(engine);
        }
        let synced = self.synced.load(Ordering::Acquire);
        let behind = self.written.load(Ordering::Acquire).saturating_sub(synced);
        if behind >= engine.options.wal_sync_bytes.0
            && !self.syncing_ahead.swap(true, Ordering::AcqRel)
        {
            let engine = engine.clone();
            let position = self.written.load(Ordering::Acquire);
            engine.clone().io.submit(move || {
                let result = engine.wal.sync_through(&engine, position);
                engine.wal.syncing_ahead.store(false, Ordering::Release);
                result
            });
        }
    }

    fn prepare(&self, engine: &Arc<Engine>) {
        let engine = engine.clone();
        engine.clone().io.submit(move || {
            let old = engine.wal.recycled.lock().pop();
            let (number, uid) = (engine.numbers.next_file(), engine.env.random());
            let (fs, capacity) = (&**engine.env.fs(), engine.options.wal_file_bytes.0);
            let prepared = prepare_next(fs, &engine.dir, number, uid, capacity, old.as_deref());
            if old.is_none() {
                engine.counters.wal_filled_bytes.add(capacity);
            }
            *engine.wal.prepared.lock() = Some(prepared.map_err(|error| engine.latch(error))?);
            engine.wal.preparing.store(false, Ordering::Release);
            engine.bound_wal();
            Ok(())
        });
    }

    /// Lets nobody write or sync any more, once the store's health says that it is closed.
    pub fn shut(&self) {
        for lock in [&self.writer as &dyn Shut, &self.syncer] {
            loop {
                let epoch = self.write_done.epoch();
                if lock.shut() {
                    break;
                }
                self.write_done.wait(epoch, None);
            }
        }
    }

    /// Takes old WAL files for reuse, up to what the memtables need; returns those that are not
    /// wanted.
    pub fn recycle(&self, options: &Options, mut old: Vec<PathBuf>) -> Vec<PathBuf> {
        let policy = &options.policy;
        let logged = policy.memtable_bytes.0.saturating_mul(policy.memtable_count as u64);
        let wanted = (logged / options.wal_file_bytes.0 + 2).min(RECYCLED_MAX) as usize;
        let mut recycled = self.recycled.lock();
        while recycled.len() < wanted {
            let Some(path) = old.pop() else { break };
            recycled.push(path);
        }
        old
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
