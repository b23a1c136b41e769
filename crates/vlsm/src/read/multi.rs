//! Reads several keys at once, with the needed reads of the device in parallel.
//!
//! 1. The keys are sorted and taken 64 at a time.
//! 2. A round searches for each key in memory. A search that would have to read stops, and returns
//!    the missing item: the reader of a file, or a block.
//! 3. All missing items are read at the same time ([`fetch`](crate::read::fetch)). They are kept
//!    for these keys, even if the cache evicts them.
//! 4. The next round continues with the stopped keys. Most keys need one round for a block; false
//!    positives of filters, several runs of L0 and files that are not open need more.
//! 5. Keys that are left after the last round, or if reading in parallel gains nothing, are read
//!    one by one by an ordinary get. Errors are also returned there, because the rounds only fetch.
//!
//! Invariants: an ordinary get and a round search the same places in the same order
//! ([`Reader::find`]). A call keeps at most 64 readers and 4 MB of blocks, and one more block.
//!
//! Threads and locks: those of the reads in parallel.

use crate::read::Reader;
use crate::read::fetch::{Fetched, Missing};
use crate::read::get::Newest;
use crate::read::view::{Moment, TreeView};
use crate::shared::latency::Timed;
use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use vlsm_core::{Error, FileNumber, FileUid, Result, Seq, Table};
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

/// Identifies an item that has to be read. Two copies of an ingested file have the same uid and the
/// same blocks, but their readers see them at different sequence numbers.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    Reader(FileNumber),
    Block(FileUid, usize),
}

impl From<&Missing> for Place {
    fn from(missing: &Missing) -> Self {
        match missing {
            Missing::Reader(table) => Self::Reader(table.file.number),
            Missing::Blocks(wanted) => {
                let (uid, number) = wanted.first();
                Self::Block(uid, number)
            }
        }
    }
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
        if hand.bytes + self.bytes > BYTES || !self.places.insert((&missing).into()) {
            return;
        }
        if let Missing::Blocks(wanted) = &missing {
            self.bytes += wanted.bytes();
        }
        self.missing.push(missing);
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
                Some(reader) => Missing::Blocks(reader.wanted(number, self.tables.cache())),
                None => Missing::Reader(table.clone()),
            }))
        })?;
        Ok((found, cover))
    }

    /// Reads the missing items of a round. Returns false if an item could not be read.
    fn fetch(&self, round: Round, hand: &mut AtHand) -> bool {
        let places: Vec<Place> = round.missing.iter().map(Place::from).collect();
        for (place, fetched) in places.into_iter().zip(self.fetcher.fetch(round.missing)) {
            match (place, fetched) {
                (Place::Reader(file), Some(Fetched::Reader(reader))) => {
                    hand.readers.insert(file, reader);
                }
                (Place::Block(uid, number), Some(Fetched::Blocks(read))) => {
                    hand.blocks.insert((uid, number), read.into_block());
                }
                _ => return false,
            }
        }
        hand.bytes += round.bytes;
        true
    }
}
