//! The output of a merge: one SST after the other, cut by the shape's rule.
//!
//! 1. [`Outputs::add`] gives an entry to the open SST. At a new user key the [`Cutter`] may close
//!    it first.
//! 2. Range tombstones are set beforehand, in key order ([`Outputs::set_ranges`]).
//!    [`Outputs::advance`] handles them before each new user key: the lower end of a fragment is a
//!    possible cut like a new key, and so is, under a fragment, the lower end of each table that
//!    the cut rule looks ahead at. Where an SST is closed, the fragment over that key is cut in
//!    two.
//! 3. Full chunks queue up as [`WriteRequest`]s. The job takes them, has them written and hands the
//!    memory back with [`Outputs::written`].
//! 4. A closed SST's summary is in [`Outputs::finished`] once all its chunks are in the queue.
//!
//! Invariants: O1 all versions of one user key lie in one SST, and no range tombstone reaches over
//! the first key or lower end in the next one; O2 chunks that are queued or being written take at
//! most [`UNWRITTEN_MAX`] bytes, or less if memory is scarce, and at most one more entry and the
//! end of an SST. Threads and locks: owned by one job, no lock.

use std::collections::VecDeque;
use vlsm_core::{Bytes, FileUid, Seq, Trailer};
use vlsm_disk::AlignedBuf;
use vlsm_disk::sst::{SstOptions, SstSummary, SstWriter};
use vlsm_policy::shape::cuts::Cutter;

/// Bytes beyond which a merge gives way to the device.
pub(crate) const UNWRITTEN_MAX: usize = 4 << 20;
/// The most chunks kept to be used again.
const SPARE_MAX: usize = 16;

/// Places to cut at under range tombstones that one call looks at.
const PLACES_MAX: usize = 64;

/// The same range tombstones over `[lo, hi)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub lo: bytes::Bytes,
    pub hi: bytes::Bytes,
    /// Their sequence numbers, newest first.
    pub seqs: Vec<Seq>,
}

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
    /// Range tombstones that begin further on.
    ranges: std::vec::IntoIter<Fragment>,
    /// The fragment that the output has come to, without what closed SSTs have of it.
    under: Option<Fragment>,
    /// Where the fragment before ended.
    left: bytes::Bytes,
    finished: Vec<SstSummary>,
    queue: VecDeque<WriteRequest>,
    unwritten: usize,
    unwritten_max: usize,
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
            ranges: Vec::new().into_iter(),
            under: None,
            left: bytes::Bytes::new(),
            finished: Vec::new(),
            queue: VecDeque::new(),
            unwritten: 0,
            unwritten_max: UNWRITTEN_MAX,
            spare: Vec::new(),
        }
    }

    /// With another bound for the bytes that are not written yet.
    pub fn bounded(self, unwritten_max: usize) -> Self {
        Self { unwritten_max, ..self }
    }

    /// The range tombstones to write. Before the first entry.
    pub fn set_ranges(&mut self, ranges: Vec<Fragment>) {
        self.ranges = ranges.into_iter();
    }

    /// Whether there are range tombstones that are not in an SST yet.
    #[inline]
    pub fn has_ranges(&self) -> bool {
        self.under.is_some() || self.ranges.len() > 0
    }

    /// Goes on with the range tombstones up to a user key that is added next, or to their end.
    /// False when there were many places to cut at, and it must be called again.
    pub fn advance(&mut self, key: Option<&[u8]>) -> bool {
        let is_beyond = |place: &[u8]| key.is_some_and(|key| place > key);
        for _ in 0..PLACES_MAX {
            if let Some(under) = &self.under {
                let ahead = self.cutter.ahead().filter(|place| **place < under.hi).cloned();
                if is_beyond(ahead.as_ref().unwrap_or(&under.hi)) {
                    return true;
                }
                match ahead {
                    Some(place) => {
                        if self.cutter.before_under_tombstone(&place, self.open_bytes()) {
                            self.cut(&place);
                        }
                    }
                    None => {
                        self.left = under.hi.clone();
                        self.write_under(None);
                    }
                }
            } else {
                match self.ranges.as_slice().first() {
                    Some(next) if !is_beyond(&next.lo) => {}
                    _ => return true,
                }
                self.under = self.ranges.next();
                let place = self.under.as_ref().map(|next| next.lo.clone()).unwrap_or_default();
                let written = self.open_bytes();
                let close = match place == self.left {
                    true => self.cutter.before_under_tombstone(&place, written),
                    false => self.cutter.before(&place, written),
                };
                if close {
                    self.cut(&place);
                }
            }
        }
        false
    }

    /// Bytes of the open SST so far, about.
    #[inline]
    fn open_bytes(&self) -> Bytes {
        let under = self.under.as_ref();
        let under = under.map_or(0, |at| at.lo.len() + at.hi.len() + 8 * at.seqs.len()) as u64;
        Bytes(self.open.as_ref().map_or(0, SstWriter::bytes) + under)
    }

    /// Closes the open SST, so that the next one begins at this key.
    #[cold]
    fn cut(&mut self, at: &[u8]) {
        self.write_under(Some(at));
        self.close();
    }

    /// Gives the fragment that the output has come to to the open SST, whole or up to a key.
    fn write_under(&mut self, upto: Option<&[u8]>) {
        let Some(mut under) = self.under.take() else { return };
        let upto = upto.unwrap_or(&under.hi).min(&under.hi);
        if *under.lo < *upto {
            self.writer().add_range(&under.lo, upto, &under.seqs);
        }
        if *upto < *under.hi {
            under.lo = under.lo.max(bytes::Bytes::copy_from_slice(upto));
            self.under = Some(under);
        }
    }

    /// The open SST.
    #[inline]
    fn writer(&mut self) -> &mut SstWriter {
        if self.open.is_none() {
            self.begin();
        }
        self.open.as_mut().expect("one was opened just now")
    }

    #[cold]
    fn begin(&mut self) {
        let mut writer = SstWriter::new(self.options, (self.make_uid)());
        self.spare.drain(..).for_each(|chunk| writer.recycle(chunk));
        self.open = Some(writer);
    }

    /// Adds the next entry in tree order; `new_key` when the one before had another user key.
    #[inline(always)]
    pub fn add(&mut self, new_key: bool, key: &[u8], trailer: Trailer, value: &[u8]) {
        if new_key && self.cutter.before(key, self.open_bytes()) {
            self.cut(key);
        }
        let writer = self.writer();
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
        self.unwritten >= self.unwritten_max
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
