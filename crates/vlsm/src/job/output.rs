//! The output of a merge: one SST after the other, cut by the shape's rule.
//!
//! 1. [`Outputs::add`] adds an entry to the open SST. At a new user key the [`Cutter`] may close
//!    the SST first.
//! 2. Range tombstones are set beforehand, in key order ([`Outputs::set_ranges`]).
//!    [`Outputs::advance`] handles them before each new user key. The lower end of a fragment is a
//!    possible cut, like a new key. Under a fragment, so is the lower end of each table at which
//!    the cut rule looks ahead. If an SST is closed at a key, the fragment over the key is cut in
//!    two.
//! 3. Full chunks queue up as [`WriteRequest`]s. The job takes them, writes them and returns the
//!    memory with [`Outputs::written`].
//! 4. The summary of a closed SST is in [`Outputs::finished`] once all its chunks are in the queue.
//!    Its tail is kept, too, until [`Outputs::take_tails`], for its reader.
//!
//! Invariants: O1 all versions of one user key are in one SST, and no range tombstone extends past
//! the first key or lower end of the next SST; O2 chunks that are queued or being written take at
//! most [`UNWRITTEN_MAX`] bytes, or less if memory is scarce, plus at most one entry and the end of
//! an SST; O3 the tails that are kept take at most as many bytes. Threads and locks: owned by one
//! job, no lock.

use crate::job::logged::Places;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use vlsm_core::{Bytes, FileUid, Kind, Seq, Trailer};
use vlsm_disk::AlignedBuf;
use vlsm_disk::sst::{BlockCache, Finished, SstOptions, SstSummary, SstWriter, Tail};
use vlsm_policy::shape::cuts::Cutter;

/// A merge pauses for the device when this many bytes are unwritten.
pub(crate) const UNWRITTEN_MAX: usize = 4 << 20;
/// The most chunks kept for reuse.
const SPARE_MAX: usize = 16;

/// The most possible cuts under range tombstones that one call handles.
const PLACES_MAX: usize = 64;

/// A range `[lo, hi)` of keys that the same range tombstones cover.
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
    /// The index of the SST among the job's SSTs, counted from 0 in key order.
    pub file: usize,
    /// The offset in the SST.
    pub offset: u64,
    /// The bytes.
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
    /// The fragment that the output has reached, without the parts that closed SSTs have.
    under: Option<Fragment>,
    /// The end of the previous fragment.
    left: bytes::Bytes,
    finished: Vec<SstSummary>,
    /// The tails of the closed SSTs, as far as they are kept, and their bytes.
    tails: Vec<Option<Tail>>,
    tail_bytes: usize,
    queue: VecDeque<WriteRequest>,
    unwritten: usize,
    unwritten_max: usize,
    spare: Vec<AlignedBuf>,
    /// The places of values that need not be written.
    places: Option<Places>,
    /// The number of values that were not written, and their bytes.
    referred: (u64, u64),
    /// The cache that keeps warm blocks.
    cache: Option<Arc<BlockCache>>,
}

impl Outputs {
    /// Without an SST yet. `make_uid` returns a random number for each.
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
            tails: Vec::new(),
            tail_bytes: 0,
            queue: VecDeque::new(),
            unwritten: 0,
            unwritten_max: UNWRITTEN_MAX,
            spare: Vec::new(),
            places: None,
            referred: (0, 0),
            cache: None,
        }
    }

    /// Sets the cache that keeps warm blocks.
    pub fn warming(self, cache: Option<Arc<BlockCache>>) -> Self {
        Self { cache, ..self }
    }

    /// Sets another bound for the unwritten bytes.
    pub fn bounded(self, unwritten_max: usize) -> Self {
        Self { unwritten_max, ..self }
    }

    /// Writes these places instead of the values there. Called before the first entry.
    pub fn refer_to(&mut self, places: Places) {
        self.places = Some(places);
    }

    /// Sets the range tombstones to write. Called before the first entry.
    pub fn set_ranges(&mut self, ranges: Vec<Fragment>) {
        self.ranges = ranges.into_iter();
    }

    /// Whether there are range tombstones that are not in an SST yet.
    #[inline]
    pub fn has_ranges(&self) -> bool {
        self.under.is_some() || self.ranges.len() > 0
    }

    /// Handles the range tombstones up to a user key that is added next, or to their end. Returns
    /// false if there were many possible cuts and it must be called again.
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

    /// The approximate bytes of the open SST so far.
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

    /// Adds the reached fragment to the open SST, completely or up to a key.
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

    /// The open SST, which is begun if there is none.
    #[inline]
    fn writer(&mut self) -> &mut SstWriter {
        if self.open.is_none() {
            self.begin();
        }
        self.open.as_mut().expect("one was opened just now")
    }

    #[cold]
    fn begin(&mut self) {
        let writer = SstWriter::new(self.options, (self.make_uid)());
        let mut writer = writer.warming(self.cache.clone());
        self.spare.drain(..).for_each(|chunk| writer.recycle(chunk));
        self.open = Some(writer);
    }

    /// Adds the next entry in tree order. `new_key` states that the previous entry had another user
    /// key.
    #[inline(always)]
    pub fn add(&mut self, new_key: bool, key: &[u8], trailer: Trailer, value: &[u8]) {
        if new_key && self.cutter.before(key, self.open_bytes()) {
            self.cut(key);
        }
        let referred = self.places.is_some() && self.refer(key, trailer, value);
        let writer = self.writer();
        if !referred {
            writer.add(key, trailer, value);
        }
        if let Some(chunk) = writer.take_full() {
            self.push(chunk);
            self.push_full();
        }
    }

    /// Records that the cache has the block from which the last entry came, whether or not that
    /// entry was added: if a newer version replaced it, its key is warm all the same.
    #[inline(never)]
    pub fn weigh(&mut self) {
        self.open.iter_mut().for_each(SstWriter::weigh);
    }

    /// Adds the next entry as the place of its value, if it has one.
    #[inline(never)]
    fn refer(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> bool {
        let places = self.places.as_ref().filter(|_| trailer.kind() == Some(Kind::Put));
        let place = places.and_then(|places| places.located.place(trailer.seq(), value));
        if let Some(place) = &place {
            self.writer().add_logged(key, trailer.seq(), place);
            self.referred.0 += 1;
            self.referred.1 += u64::from(place.len);
        }
        place.is_some()
    }

    /// Queues further full chunks, because an entry may be longer than a chunk.
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
        let Finished { chunks, summary, tail } = writer.finish();
        chunks.into_iter().for_each(|chunk| self.push(chunk));
        // Without it the install reads it from the file, and reports what is wrong.
        let fits = self.tail_bytes + tail.len() <= self.unwritten_max;
        let decode = || Tail::decode(&tail, summary.bytes.0, Path::new("a new SST"), None).ok();
        let tail = fits.then(decode).flatten();
        self.tail_bytes += tail.as_ref().map_or(0, Tail::memory_bytes);
        self.tails.push(tail);
        self.finished.push(summary);
    }

    /// The next chunk to write.
    pub fn next_write(&mut self) -> Option<WriteRequest> {
        self.queue.pop_front()
    }

    /// Takes back the memory of a written chunk for reuse.
    pub fn written(&mut self, buf: AlignedBuf) {
        self.unwritten = self.unwritten.saturating_sub(buf.len());
        match &mut self.open {
            Some(writer) => writer.recycle(buf),
            None if self.spare.len() < SPARE_MAX => self.spare.push(buf),
            None => {}
        }
    }

    /// Whether too many bytes are unwritten, so that the merge must pause.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.unwritten >= self.unwritten_max
    }

    /// Bytes queued or being written.
    pub fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// The number of values that are in the WAL instead, and their bytes.
    pub fn referred(&self) -> (u64, u64) {
        self.referred
    }

    /// Bytes of the tails that are kept.
    pub fn tail_bytes(&self) -> usize {
        self.tail_bytes
    }

    /// The tails of the SSTs closed so far, in key order; none for those that are not kept.
    pub fn take_tails(&mut self) -> Vec<Option<Tail>> {
        std::mem::take(&mut self.tails)
    }

    /// The SSTs closed so far, in key order.
    pub fn finished(&self) -> &[SstSummary] {
        &self.finished
    }
}
