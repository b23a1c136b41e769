//! Reads several keys at once, with the needed reads of the device in parallel.
//!
//! 1. The keys are sorted and taken 64 at a time.
//! 2. A round searches for each key in memory. A search that would have to read stops, and returns
//!    the missing item: the reader of a file, or a block.
//! 3. All missing items are read at the same time, by threads of the I/O pool and by the caller.
//!    They are kept for these keys, even if the cache evicts them.
//! 4. The next round continues with the stopped keys. Most keys need one round for a block; false
//!    positives of filters, several runs of L0 and files that are not open need more.
//! 5. Keys that are left after the last round, or if reading in parallel gains nothing, are read
//!    one by one by an ordinary get. Errors are also returned there, because the rounds only fetch.
//!
//! Invariants: an ordinary get and a round search the same places in the same order
//! ([`Reader::find`]). A call keeps at most 64 readers and 4 MB of blocks, and one more block.
//!
//! Threads and locks: the caller takes part in the reading, so it never waits for a busy pool, only
//! for reads that have begun. All calls together leave one of the pool's threads to jobs. A pool
//! thread that joins a round after its end reads nothing; until then it counts as a helper, so a
//! busy pool's queue does not grow.

use crate::read::Reader;
use crate::read::get::Newest;
use crate::read::table_cache::TableCache;
use crate::read::view::{Moment, TreeView};
use crate::shared::latency::Timed;
use crate::sync::Mutex;
use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vlsm_core::{Error, FileNumber, FileUid, Result, Seq, Table};
use vlsm_disk::Condition;
use vlsm_disk::sst::block::Block;
use vlsm_disk::sst::{ReadStats, SstReader};

/// The number of keys that are searched together.
const KEYS: usize = 64;
/// Beyond this number of bytes no more blocks are fetched for these keys.
const BYTES: u64 = 4 << 20;
/// The most rounds for these keys.
const ROUNDS: usize = 8;

/// A key, and the tree in which it is searched.
type Asked<'a> = (&'a TreeView, &'a [u8]);

/// The reason why a search that reads nothing ended.
enum Stop {
    Failed(Error),
    Missing(Missing),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// An item that has to be read.
enum Missing {
    Reader(Arc<Table>),
    Block(Arc<SstReader>, usize),
}

impl Missing {
    fn place(&self) -> Place {
        match self {
            Self::Reader(table) => Place::Reader(table.file.number),
            Self::Block(reader, number) => Place::Block(reader.summary().uid, *number),
        }
    }
}

/// Identifies an item that has to be read. Two copies of an ingested file have the same uid and the
/// same blocks, but their readers see them at different sequence numbers.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    Reader(FileNumber),
    Block(FileUid, usize),
}

/// An item that was read.
enum Fetched {
    Reader(Arc<SstReader>),
    Block(Block),
}

/// All items that were read for some keys.
#[derive(Default)]
struct AtHand {
    readers: FxHashMap<FileNumber, Arc<SstReader>>,
    blocks: FxHashMap<(FileUid, usize), Block>,
    bytes: u64,
}

/// The reads of a round.
#[derive(Default)]
struct Round {
    missing: Vec<Missing>,
    places: FxHashSet<Place>,
    bytes: u64,
}

impl Round {
    /// Adds an item, unless the bytes would be too many. The blocks at hand count, too.
    fn add(&mut self, missing: Missing, hand: &AtHand) {
        if hand.bytes + self.bytes > BYTES || !self.places.insert(missing.place()) {
            return;
        }
        if let Missing::Block(reader, number) = &missing {
            self.bytes += reader.block_bytes(*number);
        }
        self.missing.push(missing);
    }
}

/// A running round.
struct Fetch {
    missing: Vec<Missing>,
    fetched: Vec<Mutex<Option<Fetched>>>,
    /// The index of the next item to read, and the number of items that are not read yet.
    next: AtomicUsize,
    left: AtomicUsize,
    /// The number of helpers that have begun, and [`OVER`] after the end of the round.
    joined: AtomicUsize,
    done: Arc<dyn Condition>,
    tables: Arc<TableCache>,
}

/// Counts a read as done, even if it failed or panicked.
struct Made<'a>(&'a Fetch);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.done.notify();
        }
    }
}

/// Marks the end of a round in [`Fetch::joined`].
const OVER: usize = 1 << 30;

/// A pool thread that may take part in a round. It counts until the end of the round, or until it
/// has begun if that is later.
struct Helper {
    fetch: Arc<Fetch>,
    all: Arc<AtomicUsize>,
}

impl Helper {
    /// Another helper, if there are fewer than `most`.
    fn new(fetch: &Arc<Fetch>, all: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { fetch: fetch.clone(), all: all.clone() })
    }

    fn help(&self) {
        if self.fetch.joined.fetch_add(1, Ordering::AcqRel) < OVER {
            self.fetch.run();
        } else {
            self.all.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Ends a round: its helpers do not count any more.
struct Ends<'a>(&'a Fetch, &'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let joined = self.0.joined.fetch_add(OVER, Ordering::AcqRel);
        self.1.fetch_sub(joined, Ordering::Relaxed);
    }
}

impl Fetch {
    /// Reads until all items are taken.
    fn run(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(missing) = self.missing.get(index) else { return };
            let _made = Made(self);
            let fetched = match missing {
                Missing::Reader(table) => self.tables.shared_reader(table).map(Fetched::Reader),
                Missing::Block(reader, number) => {
                    reader.fetch(*number, self.tables.cache()).map(Fetched::Block)
                }
            };
            *self.fetched[index].lock() = fetched.ok();
        }
    }

    fn wait(&self) {
        loop {
            let epoch = self.done.epoch();
            if self.left.load(Ordering::Acquire) == 0 {
                return;
            }
            self.done.wait(epoch, None);
        }
    }
}

impl Reader {
    /// The values of several keys at one moment, in the order of the keys.
    pub fn multi_get(&self, asked: &[Asked<'_>], at: Moment) -> Vec<Result<Option<Bytes>>> {
        let started = self.shared.begin(Timed::MultiGet);
        let found = self.get_all(asked, at);
        if found.iter().all(Result::is_ok) {
            self.shared.end(started);
        }
        found
    }

    fn get_all(&self, asked: &[Asked<'_>], at: Moment) -> Vec<Result<Option<Bytes>>> {
        for (tree, key) in asked {
            self.note(tree, key);
        }
        if let Err(error) = self.shared.health.check_open() {
            return asked.iter().map(|_| Err(error.clone())).collect();
        }
        let mut order: Vec<usize> = (0..asked.len()).collect();
        order.sort_unstable_by_key(|index| (asked[*index].0.id, asked[*index].1));
        let mut found: Vec<Result<Option<Bytes>>> = asked.iter().map(|_| Ok(None)).collect();
        for together in order.chunks_mut(KEYS) {
            for index in self.get_together(asked, at, together, &mut found) {
                let (tree, key) = asked[*index];
                found[*index] = self.find_counted(tree, at.seq, key, || at.now);
            }
        }
        found
    }

    /// Runs the rounds for a few keys. Returns the keys that are left.
    fn get_together<'a>(
        &self,
        asked: &[Asked<'_>],
        at: Moment,
        keys: &'a mut [usize],
        found: &mut [Result<Option<Bytes>>],
    ) -> &'a [usize] {
        let (mut hand, mut left) = (AtHand::default(), keys.len());
        for _ in 0..ROUNDS {
            let (mut round, mut stopped) = (Round::default(), 0);
            for place in 0..left {
                let index = keys[place];
                let (tree, key) = asked[index];
                let mut stats = ReadStats::default();
                let mut search = |table: &Arc<Table>, hash| {
                    self.search_at_hand(&hand, table, (at.seq, key, hash), &mut stats)
                };
                let searched = self.find(tree, at.seq, key, || at.now, &mut search);
                if let Err(Stop::Missing(missing)) = searched {
                    round.add(missing, &hand);
                    keys[stopped] = index;
                    stopped += 1;
                    continue;
                }
                // Counted only now, because a stopped search checks its filters again.
                self.count_filter(&stats);
                found[index] = searched.map_err(|stop| match stop {
                    Stop::Failed(error) => error,
                    Stop::Missing(_) => unreachable!("it would have continued above"),
                });
            }
            left = stopped;
            if stopped < 2 || round.missing.is_empty() || !self.fetch(round, &mut hand) {
                break;
            }
        }
        &keys[..left]
    }

    /// As [`Reader::search`], but only in memory, except for a value that is in a WAL.
    fn search_at_hand(
        &self,
        hand: &AtHand,
        table: &Arc<Table>,
        (seq, key, hash): (Seq, &[u8], u64),
        stats: &mut ReadStats,
    ) -> Result<Newest, Stop> {
        let (uid, file) = (table.file.uid, table.file.number);
        let kept = table.attachment.get::<SstReader>();
        let Some(reader) = kept.or_else(|| hand.readers.get(&file).map(|reader| &**reader)) else {
            return Err(Stop::Missing(Missing::Reader(table.clone())));
        };
        let cover = match table.file.range_tombstones {
            0 => Seq::ZERO,
            _ => reader.range_tombstones().cover(key, seq),
        };
        let found = reader.get_from(key, hash, seq, stats, |number, _| {
            let held = hand.blocks.get(&(uid, number)).cloned();
            if let Some(block) = held.or_else(|| reader.cached(number, self.tables.cache())) {
                return Ok(block);
            }
            let shared = table.attachment.share().or_else(|| hand.readers.get(&file).cloned());
            Err(Stop::Missing(match shared {
                Some(reader) => Missing::Block(reader, number),
                None => Missing::Reader(table.clone()),
            }))
        })?;
        Ok((found, cover))
    }

    /// Reads the missing items of a round. Returns false if an item could not be read.
    fn fetch(&self, round: Round, hand: &mut AtHand) -> bool {
        let count = round.missing.len();
        let fetch = Arc::new(Fetch {
            missing: round.missing,
            fetched: (0..count).map(|_| Mutex::new(None)).collect(),
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(count),
            joined: AtomicUsize::new(0),
            done: self.shared.env.condition(Duration::ZERO),
            tables: self.tables.clone(),
        });
        let most = (self.shared.options.io_threads - 1).max(1);
        let ends = Ends(&fetch, &self.helpers);
        for _ in 1..count {
            let Some(helper) = Helper::new(&fetch, &self.helpers, most) else { break };
            drop(self.shared.io.submit(move || {
                helper.help();
                Ok(())
            }));
        }
        fetch.run();
        fetch.wait();
        drop(ends);
        for (missing, fetched) in fetch.missing.iter().zip(&fetch.fetched) {
            match (missing.place(), fetched.lock().take()) {
                (Place::Reader(file), Some(Fetched::Reader(reader))) => {
                    hand.readers.insert(file, reader);
                }
                (Place::Block(uid, number), Some(Fetched::Block(block))) => {
                    hand.blocks.insert((uid, number), block);
                }
                _ => return false,
            }
        }
        hand.bytes += round.bytes;
        true
    }
}
