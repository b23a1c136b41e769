//! Records the operations of an open store.
//!
//! 1. An operation checks one flag, relaxed. Without a trace this is the only cost.
//! 2. With a trace the operation is encoded into the open chunk, under a lock. A full chunk gets
//!    its offset in the file and is handed to the I/O threads, which may write chunks in any order.
//!    Offsets are assigned under the lock, so chunks never overlap.
//! 3. At most [`OUTSTANDING_MAX`] chunks are in flight. The operation that fills another chunk
//!    waits for the device, without the lock.
//! 4. The end of the trace waits for the chunks in flight, writes the last chunk and the count, and
//!    syncs. A failed write stops the recording; the call that ends the trace returns the error.
//!
//! A trace is not part of the store: its failures fail no operation.

use super::format::{Asked, CHUNK_LEN, HEADER_LEN, chunk, encode, header};
use crate::paths::absolute;
use crate::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
// These atomics order no other memory, so the tests of orderings need not replace them.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use vlsm_core::{Error, Micros, Result, TreeId};
use vlsm_disk::env::{Condition, Env};
use vlsm_disk::fs::{File, OpenOptions};
use vlsm_disk::io::IoPool;

/// Chunks that may be in flight: 2 MB.
const OUTSTANDING_MAX: usize = 32;

/// The trace of a store, if there is one.
pub(crate) struct Tracer {
    on: AtomicBool,
    state: Mutex<Option<Recording>>,
}

/// A running trace.
struct Recording {
    file: Arc<dyn File>,
    sink: Arc<Sink>,
    start: Duration,
    /// The offset of the next chunk.
    offset: u64,
    payload: Vec<u8>,
    /// Operations in the payload, and the time of the last one.
    count: u32,
    last: u64,
    total: u64,
}

/// The chunks in flight to the file.
struct Sink {
    path: PathBuf,
    outstanding: AtomicUsize,
    written: Arc<dyn Condition>,
    error: Mutex<Option<Error>>,
}

/// A chunk in flight, counted until it is written or dropped.
struct InFlight(Arc<Sink>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Ordering::AcqRel);
        self.0.written.notify();
    }
}

impl Sink {
    /// Waits until at most `left` chunks are in flight.
    fn wait(&self, left: usize) {
        loop {
            let epoch = self.written.epoch();
            if self.outstanding.load(Ordering::Acquire) <= left {
                return;
            }
            self.written.wait(epoch, None);
        }
    }
}

impl Recording {
    fn begin(env: &dyn Env, path: &Path) -> Result<Self> {
        let file = env.fs().open(path, OpenOptions::CREATE);
        let file = file.map_err(|error| Error::io("cannot make", path, error))?;
        let wall = Micros(u64::try_from(env.wall_clock().as_micros()).unwrap_or(u64::MAX));
        let written = file.write_at(&header(wall), 0);
        written.map_err(|error| Error::io("cannot write", path, error))?;
        let sink = Sink {
            path: path.to_owned(),
            outstanding: AtomicUsize::new(0),
            written: env.condition(Duration::ZERO),
            error: Mutex::new(None),
        };
        Ok(Self {
            file,
            sink: Arc::new(sink),
            start: env.now(),
            offset: HEADER_LEN as u64,
            payload: Vec::with_capacity(CHUNK_LEN),
            count: 0,
            last: 0,
            total: 0,
        })
    }

    fn add(&mut self, at: Duration, tree: TreeId, asked: Asked<'_>, key: &[u8]) {
        let at = at.saturating_sub(self.start).as_micros() as u64;
        encode(&mut self.payload, (at, self.last), tree.0, asked, key);
        self.last = at;
        self.count += 1;
        self.total += 1;
    }

    /// Takes the open chunk, with its offset.
    fn take(&mut self) -> (u64, Vec<u8>) {
        let offset = self.offset;
        let bytes = chunk(offset, self.count, &self.payload);
        self.offset += bytes.len() as u64;
        self.payload.clear();
        (self.count, self.last) = (0, 0);
        (offset, bytes)
    }

    /// Writes the last chunk and the end.
    fn finish(mut self) -> Result<u64> {
        self.sink.wait(0);
        if let Some(error) = self.sink.error.lock().take() {
            return Err(error);
        }
        let path = self.sink.path.clone();
        let failed = |error| Error::io("cannot write", &path, error);
        if self.count > 0 {
            let (offset, bytes) = self.take();
            self.file.write_at(&bytes, offset).map_err(failed)?;
        }
        let end = chunk(self.offset, 0, &self.total.to_le_bytes());
        self.file.write_at(&end, self.offset).map_err(failed)?;
        self.file.sync().map_err(failed)?;
        Ok(self.total)
    }
}

impl Tracer {
    pub fn new() -> Self {
        Self { on: AtomicBool::new(false), state: Mutex::new(None) }
    }

    /// Whether a trace runs.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Records operations that were called at the time `at`.
    #[cold]
    pub fn record<'a>(
        &self,
        io: &IoPool,
        at: Duration,
        ops: impl Iterator<Item = (TreeId, Asked<'a>, &'a [u8])>,
    ) {
        let mut sink = None;
        {
            let mut state = self.state.lock();
            let Some(recording) = &mut *state else { return };
            for (tree, asked, key) in ops {
                recording.add(at, tree, asked, key);
                if recording.payload.len() >= CHUNK_LEN {
                    hand_over(io, recording);
                    sink = Some(recording.sink.clone());
                }
            }
        }
        if let Some(sink) = sink {
            sink.wait(OUTSTANDING_MAX);
            if sink.error.lock().is_some() {
                self.on.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Begins a trace.
    pub fn start(&self, env: &dyn Env, path: &Path) -> Result<()> {
        let under_way = || Error::InvalidArgument("a trace is under way: end it first".into());
        if self.state.lock().is_some() {
            return Err(under_way());
        }
        let path = absolute(&**env.fs(), path)?;
        let recording = Recording::begin(env, &path)?;
        let mut state = self.state.lock();
        if state.is_some() {
            return Err(under_way());
        }
        *state = Some(recording);
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the trace and returns the number of its operations; none without a trace.
    pub fn end(&self) -> Result<Option<u64>> {
        let recording = {
            let mut state = self.state.lock();
            self.on.store(false, Ordering::Relaxed);
            state.take()
        };
        recording.map(Recording::finish).transpose()
    }
}

/// Hands a chunk to the I/O threads.
fn hand_over(io: &IoPool, recording: &mut Recording) {
    let (offset, bytes) = recording.take();
    recording.sink.outstanding.fetch_add(1, Ordering::AcqRel);
    let (in_flight, file) = (InFlight(recording.sink.clone()), recording.file.clone());
    // The sink holds the outcome.
    let _ = io.submit(move || {
        if let Err(error) = file.write_at(&bytes, offset) {
            let error = Error::io("cannot write", &in_flight.0.path, error);
            in_flight.0.error.lock().get_or_insert(error);
        }
        drop(in_flight);
        Ok(())
    });
}
