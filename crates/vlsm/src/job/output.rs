//! What a merge writes: one SST after the other, cut where the shape's rule says.
//!
//! 1. [`Outputs::add`] gives an entry to the open SST. At a new user key the [`Cutter`] may close
//!    it first.
//! 2. Full chunks queue up as [`WriteRequest`]s. The job takes them, has them written and hands the
//!    memory back with [`Outputs::written`].
//! 3. A closed SST's summary is in [`Outputs::finished`] once all its chunks are in the queue.
//!
//! Invariants: O1 all versions of one user key lie in one SST; O2 chunks that are queued or being
//! written take at most [`UNWRITTEN_MAX`] bytes, but for what one more entry and the end of an SST
//! add. Threads and locks: owned by one job, no lock.

use std::collections::VecDeque;
use vlsm_core::{Bytes, FileUid, Trailer};
use vlsm_disk::AlignedBuf;
use vlsm_disk::sst::{SstOptions, SstSummary, SstWriter};
use vlsm_policy::shape::cuts::Cutter;

/// Bytes beyond which a merge gives way to the device.
pub(crate) const UNWRITTEN_MAX: usize = 4 << 20;
/// The most chunks kept to be used again.
const SPARE_MAX: usize = 16;

/// A chunk of a new SST.
#[derive(Debug)]
pub(crate) struct WriteRequest {
    /// Which of the job's SSTs, counted from 0 in key order.
    pub file: usize,
    /// Where in the SST.
    pub offset: u64,
    /// What.
    pub buf: AlignedBuf,
}

/// The SSTs that a merge writes.
pub(crate) struct Outputs {
    options: SstOptions,
    cutter: Cutter,
    make_uid: Box<dyn FnMut() -> FileUid + Send>,
    open: Option<SstWriter>,
    finished: Vec<SstSummary>,
    queue: VecDeque<WriteRequest>,
    unwritten: usize,
    spare: Vec<AlignedBuf>,
}

impl Outputs {
    /// No SST yet. `make_uid` gives each its random number.
    pub fn new(
        options: SstOptions,
        cutter: Cutter,
        make_uid: impl FnMut() -> FileUid + Send + 'static,
    ) -> Self {
        Self {
            options,
            cutter,
            make_uid: Box::new(make_uid),
            open: None,
            finished: Vec::new(),
            queue: VecDeque::new(),
            unwritten: 0,
            spare: Vec::new(),
        }
    }

    /// Adds the next entry in tree order; `new_key` when the one before had another user key.
    #[inline]
    pub fn add(&mut self, new_key: bool, key: &[u8], trailer: Trailer, value: &[u8]) {
        if new_key {
            let written = self.open.as_ref().map_or(0, SstWriter::bytes);
            if self.cutter.before(key, Bytes(written)) {
                self.close();
            }
        }
        let writer = match &mut self.open {
            Some(writer) => writer,
            None => {
                let mut writer = SstWriter::new(self.options, (self.make_uid)());
                self.spare.drain(..).for_each(|chunk| writer.recycle(chunk));
                self.open.insert(writer)
            }
        };
        writer.add(key, trailer, value);
        if let Some(chunk) = writer.take_full() {
            self.push(chunk);
            self.push_full();
        }
    }

    /// Queues what else is full: an entry may be longer than a chunk.
    #[cold]
    fn push_full(&mut self) {
        while let Some(chunk) = self.open.as_mut().and_then(SstWriter::take_full) {
            self.push(chunk);
        }
    }

    fn push(&mut self, (offset, buf): (u64, AlignedBuf)) {
        self.unwritten += buf.len();
        self.queue.push_back(WriteRequest { file: self.finished.len(), offset, buf });
    }

    /// Ends the open SST, if there is one.
    pub fn close(&mut self) {
        let Some(mut writer) = self.open.take() else { return };
        self.spare = writer.take_spare();
        let (chunks, summary) = writer.finish();
        chunks.into_iter().for_each(|chunk| self.push(chunk));
        self.finished.push(summary);
    }

    /// The next chunk to write.
    pub fn next_write(&mut self) -> Option<WriteRequest> {
        self.queue.pop_front()
    }

    /// A chunk was written: its memory is used again.
    pub fn written(&mut self, buf: AlignedBuf) {
        self.unwritten = self.unwritten.saturating_sub(buf.len());
        match &mut self.open {
            Some(writer) => writer.recycle(buf),
            None if self.spare.len() < SPARE_MAX => self.spare.push(buf),
            None => {}
        }
    }

    /// Whether so much waits to be written that the merge must give way.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.unwritten >= UNWRITTEN_MAX
    }

    /// Bytes queued or being written.
    pub fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// The SSTs closed so far, in key order.
    pub fn finished(&self) -> &[SstSummary] {
        &self.finished
    }
}
