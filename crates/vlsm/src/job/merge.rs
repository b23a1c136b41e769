//! The hot loop of flushes and compactions: merges many sorted sources into one, and drops the
//! versions that no reader can see.
//!
//! 1. Each source has a head, its next entry. The heads are kept in a short sorted list. They are
//!    compared by eight bytes of the key first (those after the common prefix of all keys), and by
//!    whole entries if these are equal.
//! 2. The first head is the next entry, which `combine` handles. Range tombstones up to its key are
//!    written before it.
//! 3. The source moves on. As long as its new head stays first, this costs one comparison.
//!
//! A step never waits: it requests chunks from the I/O pool ahead, and returns `Blocked` if a
//! head's chunk has not arrived or too much output is unwritten. So a job may be paused or
//! cancelled after any step.
//!
//! Invariants: M1 entries leave in tree order, each exactly once (checked: a source out of order is
//! corrupt; only memtables may have the same entry twice, that of a hot key whose flush failed
//! once); M2 no allocation per entry; M3 at most two chunks per source are outstanding or ready.
//! Threads and locks: owned by one job; a step takes no lock except the pool's own, for a moment.

use super::combine::{Combine, MergeContext};
use super::output::Outputs;
use std::cmp::Ordering;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Cursor, Error, FileUid, KeyBuf, Result, Trailer, key};
use vlsm_disk::sst::{Chunk, Scan, Scanner};
use vlsm_disk::{Pending, Ranked, Way};

/// The most bytes of a chunk that is read from a table.
pub(crate) const READ_LEN: usize = 256 << 10;
/// If chunks are shorter than this, one is read ahead instead of [`READ_DEPTH`].
pub(crate) const READ_LEN_WANTED: usize = 16 << 10;
/// The bytes of input for which a turn of writing range tombstones counts.
const RANGES_LEN: u64 = 4 << 10;
/// The most chunks of one source that are in flight or ready.
pub(crate) const READ_DEPTH: usize = 2;

/// The outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The step merged this many bytes of input.
    Ran(u64),
    /// The step did nothing: a chunk is missing, or room for output.
    Blocked,
    /// All entries are merged; their SSTs are closed.
    Done,
}

/// The counters of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MergeCounters {
    /// Entries that came in.
    pub entries_in: u64,
    /// Entries that went out.
    pub entries_out: u64,
    /// Versions that no reader can see, because of newer ones or of range tombstones.
    pub dropped_shadowed: u64,
    /// Operands and values that were combined into others.
    pub combined: u64,
    /// Dropped tombstones without older versions below.
    pub dropped_tombstones: u64,
    /// Bytes of keys, trailers and values that came in.
    pub bytes_in: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
}

/// A sorted sequence of entries.
pub(crate) enum Source {
    /// The entries of a memtable.
    Memory(Box<dyn Cursor + Send>),
    /// The entries of the tables of one run.
    Tables(Box<TableSource>),
}

/// A scanner, and its chunks in flight.
pub(crate) struct TableSource {
    scanner: Scanner,
    reads: Vec<(u64, Pending<Chunk>)>,
}

impl TableSource {
    /// Moves to the next entry; the first call moves to the first entry.
    #[inline(always)]
    fn advance(&mut self) -> Result<Scan> {
        match self.scanner.advance() {
            Err(_) if planted::is(Bug::UnreadableSkipped) => Ok(Scan::Done),
            scan => scan,
        }
    }
}

impl Source {
    /// All entries of a memtable to which no more are added.
    pub fn memory(cursor: impl Cursor + Send + 'static) -> Self {
        Self::Memory(Box::new(cursor))
    }

    /// The entries of one run.
    pub fn tables(scanner: Scanner) -> Self {
        Self::Tables(Box::new(TableSource { scanner, reads: Vec::new() }))
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Self::Memory(cursor) => cursor.key(),
            Self::Tables(tables) => tables.scanner.key(),
        }
    }

    /// Whether the block cache has the block of the entry.
    #[inline]
    fn is_warm(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Tables(tables) => tables.scanner.is_warm(),
        }
    }

    fn is_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Key, trailer and value.
    #[inline]
    fn entry(&self) -> (&[u8], Trailer, &[u8]) {
        match self {
            Self::Memory(cursor) => (cursor.key(), cursor.trailer(), cursor.value()),
            Self::Tables(tables) => tables.scanner.entry(),
        }
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        match self {
            Self::Memory(cursor) => cursor.trailer(),
            Self::Tables(tables) => tables.scanner.trailer(),
        }
    }

    #[inline(always)]
    fn advance(&mut self) -> Result<Scan> {
        match self {
            Self::Memory(cursor) => {
                cursor.next()?;
                Ok(if cursor.valid() { Scan::Entry } else { Scan::Done })
            }
            Self::Tables(tables) => tables.advance(),
        }
    }

    /// Moves to the first entry.
    fn start(&mut self) -> Result<Scan> {
        match self {
            Self::Memory(cursor) => {
                cursor.seek_first()?;
                Ok(if cursor.valid() { Scan::Entry } else { Scan::Done })
            }
            Self::Tables(tables) => tables.advance(),
        }
    }

    /// Hands the arrived chunks to the scanner, and requests the next ones.
    fn pump(&mut self, pool: Ranked<'_>) -> Result<()> {
        let Self::Tables(tables) = self else { return Ok(()) };
        let mut index = 0;
        while index < tables.reads.len() {
            match tables.reads[index].1.try_take() {
                Some(chunk) => {
                    let (ticket, _) = tables.reads.swap_remove(index);
                    tables.scanner.supply(ticket, chunk?);
                }
                None => index += 1,
            }
        }
        while let Some(request) = tables.scanner.next_read() {
            let ticket = request.ticket();
            let pending = pool.submit_bulk(Way::Read, move |bulk| request.run_in(bulk));
            tables.reads.push((ticket, pending));
        }
        Ok(())
    }

    /// Widens `bounds` to the keys of this source.
    fn widen(&mut self, bounds: &mut Option<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        let (lo, hi) = match self {
            Self::Memory(cursor) => {
                cursor.seek_last()?;
                if !cursor.valid() {
                    return Ok(());
                }
                let hi = cursor.key().to_vec();
                cursor.seek_first()?;
                (cursor.key().to_vec(), hi)
            }
            Self::Tables(tables) => match tables.scanner.bounds() {
                Some((lo, hi)) => (lo.to_vec(), hi.to_vec()),
                None => return Ok(()),
            },
        };
        *bounds = Some(match bounds.take() {
            Some((least, most)) => (least.min(lo), most.max(hi)),
            None => (lo, hi),
        });
        Ok(())
    }
}

/// The next entry of a source.
#[derive(Clone, Copy)]
struct Head {
    /// Eight bytes of its key.
    prefix: u64,
    source: u32,
}

/// A running merge.
pub(crate) struct Merge {
    sources: Vec<Source>,
    /// Heads in tree order, the next entry first.
    order: Vec<Head>,
    /// Sources whose head has not arrived.
    waiting: Vec<u32>,
    started: bool,
    done: bool,
    /// The length of the common prefix of all keys.
    common: usize,
    combine: Combine,
    last_key: KeyBuf,
    last_prefix: u64,
    last_trailer: Trailer,
}

impl Merge {
    /// A merge of these sources, which may be in any order.
    ///
    /// # Errors
    /// Any error of a memtable's cursor.
    pub fn new(mut sources: Vec<Source>, context: MergeContext, outputs: Outputs) -> Result<Self> {
        let mut bounds = None;
        for source in &mut sources {
            source.widen(&mut bounds)?;
        }
        let common =
            bounds.map_or(0, |(lo, hi)| lo.iter().zip(&hi).take_while(|(a, b)| a == b).count());
        Ok(Self {
            order: Vec::with_capacity(sources.len()),
            waiting: Vec::with_capacity(sources.len()),
            sources,
            started: false,
            done: false,
            common,
            combine: Combine::new(context, outputs),
            last_key: KeyBuf::default(),
            last_prefix: 0,
            last_trailer: Trailer::FIRST,
        })
    }

    /// The SSTs that the merge writes.
    pub fn outputs(&mut self) -> &mut Outputs {
        &mut self.combine.outputs
    }

    /// The cached blocks that were merged, by their files' uids and their offsets.
    pub fn warm(&self) -> Vec<(FileUid, u64)> {
        let warm = |source: &Source| match source {
            Source::Memory(_) => Vec::new(),
            Source::Tables(tables) => tables.scanner.warm().to_vec(),
        };
        self.sources.iter().flat_map(warm).collect()
    }

    /// The counters of the merge.
    pub fn counters(&self) -> MergeCounters {
        let read = |source: &Source| match source {
            Source::Memory(_) => 0,
            Source::Tables(tables) => tables.scanner.bytes_read(),
        };
        MergeCounters { bytes_read: self.sources.iter().map(read).sum(), ..self.combine.counters }
    }

    /// Merges at most about `quantum` bytes of input.
    ///
    /// # Errors
    /// Any error of a read, or [`Error::Corruption`]. The merge must not be stepped again after it.
    // Not inlined, so that a profiler counts the whole cost of merging under this name.
    #[inline(never)]
    pub fn step(&mut self, pool: Ranked<'_>, quantum: u64) -> Result<Step> {
        if self.done {
            return Ok(Step::Done);
        }
        for source in &mut self.sources {
            source.pump(pool)?;
        }
        if !self.started {
            self.start()?;
        }
        let before = self.combine.counters.bytes_in;
        while !self.combine.outputs.is_full() && self.fetch_heads(pool)? {
            let left = quantum.saturating_sub(self.combine.counters.bytes_in - before);
            if left == 0 {
                break;
            }
            if self.order.is_empty() {
                self.combine.end_key();
                if !self.combine.outputs.advance(None) {
                    self.combine.counters.bytes_in += RANGES_LEN;
                    continue;
                }
                self.combine.outputs.close();
                self.done = true;
                return Ok(Step::Done);
            }
            self.run(left)?;
        }
        match self.combine.counters.bytes_in - before {
            0 => Ok(Step::Blocked),
            ran => Ok(Step::Ran(ran)),
        }
    }

    /// Gets the first heads: those of memtables at once; tables wait for their first chunk.
    fn start(&mut self) -> Result<()> {
        self.started = true;
        for index in 0..self.sources.len() {
            let scan = self.sources[index].start()?;
            self.place(index as u32, scan);
        }
        Ok(())
    }

    /// Gets the missing heads. Returns false if one is still missing.
    fn fetch_heads(&mut self, pool: Ranked<'_>) -> Result<bool> {
        for _ in 0..self.waiting.len() {
            let Some(index) = self.waiting.pop() else { break };
            let source = &mut self.sources[index as usize];
            source.pump(pool)?;
            let scan = source.advance()?;
            // The previous chunk is free now; its memory serves the read after the next.
            source.pump(pool)?;
            self.place(index, scan);
            if scan == Scan::NeedMore {
                return Ok(false);
            }
        }
        Ok(self.waiting.is_empty())
    }

    /// Records the state of a source.
    fn place(&mut self, index: u32, scan: Scan) {
        match scan {
            Scan::Entry => {
                let head = self.head(index);
                let at = self.order.partition_point(|other| self.is_before(*other, head));
                self.order.insert(at, head);
            }
            Scan::NeedMore => self.waiting.push(index),
            Scan::Done => {}
        }
    }

    #[inline]
    fn head(&self, index: u32) -> Head {
        let key = self.sources[index as usize].key();
        Head { prefix: key::prefix(key.get(self.common..).unwrap_or_default()), source: index }
    }

    #[inline]
    fn is_before(&self, a: Head, b: Head) -> bool {
        if a.prefix != b.prefix {
            return a.prefix < b.prefix;
        }
        let (a, b) = (&self.sources[a.source as usize], &self.sources[b.source as usize]);
        key::compare(a.key(), a.trailer(), b.key(), b.trailer()) == Ordering::Less
    }

    /// Merges until about `left` bytes were merged, a head is missing, or too much output is
    /// unwritten.
    fn run(&mut self, left: u64) -> Result<()> {
        let end = self.combine.counters.bytes_in.saturating_add(left);
        while let Some(head) = self.order.first().copied() {
            if self.combine.outputs.has_ranges() && !self.advance_ranges(head) {
                break;
            }
            self.emit(head)?;
            let source = &mut self.sources[head.source as usize];
            if source.is_warm() {
                self.combine.outputs.weigh();
            }
            match source.advance()? {
                Scan::Entry => self.reorder(head.source),
                Scan::NeedMore => {
                    self.order.remove(0);
                    self.waiting.push(head.source);
                    break;
                }
                Scan::Done => drop(self.order.remove(0)),
            }
            if self.combine.counters.bytes_in >= end || self.combine.outputs.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Handles the range tombstones up to the first entry's key. Returns false if there are more.
    fn advance_ranges(&mut self, head: Head) -> bool {
        let key = self.sources[head.source as usize].key();
        if key == &self.last_key[..] && self.combine.counters.entries_in > 0 {
            return true;
        }
        self.combine.end_key();
        let done = self.combine.outputs.advance(Some(key));
        if !done {
            self.combine.counters.bytes_in += RANGES_LEN;
        }
        done
    }

    /// Hands the first entry to `combine`.
    #[inline]
    fn emit(&mut self, head: Head) -> Result<()> {
        let source = &self.sources[head.source as usize];
        let (key, trailer, value) = source.entry();
        let allows_copies = self.combine.allows_copies();
        let counters = &mut self.combine.counters;
        let mut new_key = true;
        if head.prefix <= self.last_prefix && counters.entries_in > 0 {
            // The prefixes do not decide.
            let order = match head.prefix.cmp(&self.last_prefix) {
                Ordering::Equal => key.cmp(&self.last_key),
                other => other,
            };
            new_key = order != Ordering::Equal;
            if order == Ordering::Less || (!new_key && trailer >= self.last_trailer) {
                let is_copy = !new_key && trailer == self.last_trailer && source.is_memory();
                if !is_copy || !allows_copies {
                    return Err(out_of_order(source));
                }
                counters.entries_in += 1;
                counters.bytes_in += (key.len() + 8 + value.len()) as u64;
                return Ok(());
            }
        }
        counters.entries_in += 1;
        counters.bytes_in += (key.len() + 8 + value.len()) as u64;
        self.last_trailer = trailer;
        if new_key {
            self.last_key.replace(0, key);
            self.last_prefix = head.prefix;
        }
        self.combine.entry(new_key, key, trailer, value)
    }

    /// Moves the first source to the place of its new head.
    #[inline]
    fn reorder(&mut self, index: u32) {
        let head = self.head(index);
        self.order[0] = head;
        if self.order.get(1).is_some_and(|next| next.prefix <= head.prefix) {
            self.move_back(head);
        }
    }

    /// The same, if the prefixes do not show that it stays first.
    #[inline(never)]
    fn move_back(&mut self, head: Head) {
        let after = &self.order[1..];
        let at = after.partition_point(|other| other.prefix < head.prefix);
        let ties = |other: &Head| other.prefix == head.prefix && self.is_before(*other, head);
        let at = at + after[at..].partition_point(ties);
        self.order.copy_within(1..=at, 0);
        self.order[at] = head;
    }
}

#[cold]
fn out_of_order(source: &Source) -> Error {
    match source {
        Source::Memory(_) => Error::Internal("a memtable's entries are out of order".into()),
        Source::Tables(tables) => tables.scanner.out_of_order(),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
