//! Point reads: resolve the visible versions of a key, from the newest place to the oldest.
//!
//! 1. The active memtable.
//! 2. Sealed memtables, newest first.
//! 3. The runs of L0, newest first.
//! 4. The levels from L1 down.
//!
//! If ingested files lie in L0 above sealed memtables, 2 and 3 are interleaved (`view.rs`).
//!
//! The first place with a visible entry decides, because every place holds newer entries of any key
//! than the places after it (V3 of `Version`). A visible range tombstone over the key also decides,
//! because all entries in older sources are older than it. Only if the entry is an operand for the
//! merge operator, a second pass collects the key's versions ([`Reader::collect`]). A read error
//! ends the search, so that it never exposes an older value.

use crate::catalog::KeyspaceInfo;
use crate::memtable::Memtable;
use crate::read::Reader;
use crate::read::view::{Moment, Source, TreeView};
use crate::rules::resolve::{Meaning, Resolver, meaning};
use crate::shared::counters::Counter;
use crate::shared::latency::{Started, Timed};
use crate::trace::Asked;
use bytes::Bytes;
use std::sync::Arc;
use vlsm_core::planted::{self, Bug};
use vlsm_core::{Cursor, Error, Micros, Result, Seq, Table, Trailer};
use vlsm_disk::sst::ReadStats;
use vlsm_disk::sst::filter::hash;

/// The newest visible version of a key, and the newest visible range tombstone over it in the
/// sources down to that version.
pub(super) type Newest = (Option<(Trailer, Bytes)>, Seq);

impl Reader {
    /// The value of a key, now or as of a snapshot's moment.
    pub fn get(
        &self,
        keyspace: &KeyspaceInfo,
        key: &[u8],
        at: Option<Moment>,
    ) -> Result<Option<Bytes>> {
        match self.shared.begin(Timed::Get) {
            None => self.look_up(keyspace, key, at),
            Some(started) => self.look_up_measured(started, keyspace, key, at),
        }
    }

    #[inline(always)]
    fn look_up(
        &self,
        keyspace: &KeyspaceInfo,
        key: &[u8],
        at: Option<Moment>,
    ) -> Result<Option<Bytes>> {
        self.admit(1);
        let region = keyspace.region_of(key);
        loop {
            let view = self.views.load();
            let seq = at.map_or_else(|| self.views.visible(), |at| at.seq);
            if let Some(tree) = view.tree_at(keyspace, region, seq)? {
                return match at {
                    Some(at) => self.get_in(tree, at, key),
                    None => self.resolve(tree, seq, key, || self.shared.clock.now()),
                };
            }
            // The keyspace was cleared just now.
            self.shared.env.interleave();
        }
    }

    /// The same for a measured get. It is separate, so that it costs other gets nothing.
    #[cold]
    fn look_up_measured(
        &self,
        started: Started<'_>,
        keyspace: &KeyspaceInfo,
        key: &[u8],
        at: Option<Moment>,
    ) -> Result<Option<Bytes>> {
        let found = self.look_up(keyspace, key, at)?;
        self.shared.end(Some(started));
        Ok(found)
    }

    /// The value of a key in a tree.
    pub fn get_in(&self, tree: &TreeView, at: Moment, key: &[u8]) -> Result<Option<Bytes>> {
        self.resolve(tree, at.seq, key, || at.now)
    }

    #[inline(always)]
    fn resolve(
        &self,
        tree: &TreeView,
        seq: Seq,
        key: &[u8],
        now: impl Fn() -> Micros,
    ) -> Result<Option<Bytes>> {
        self.note(tree, key);
        self.shared.health.check_open()?;
        self.find_counted(tree, seq, key, now)
    }

    /// The value of a key; counts the filters that are checked.
    #[inline(always)]
    pub(super) fn find_counted(
        &self,
        tree: &TreeView,
        seq: Seq,
        key: &[u8],
        now: impl Fn() -> Micros,
    ) -> Result<Option<Bytes>> {
        let mut stats = ReadStats::default();
        let mut search = |table: &Arc<Table>, hash| self.search(table, seq, key, hash, &mut stats);
        let found = self.find(tree, seq, key, now, &mut search);
        self.count_filter(&stats);
        found
    }

    /// Counts and traces a get.
    #[inline]
    pub(super) fn note(&self, tree: &TreeView, key: &[u8]) {
        self.shared.counters.reads.mine().gets.add(1);
        self.shared.trace(tree.id, Asked::Get, key);
    }

    /// The value of a key. `search` gets a table and the key's hash, and may stop.
    #[inline(always)]
    pub(super) fn find<E: From<Error>>(
        &self,
        tree: &TreeView,
        seq: Seq,
        key: &[u8],
        now: impl Fn() -> Micros,
        search: &mut impl FnMut(&Arc<Table>, u64) -> Result<Newest, E>,
    ) -> Result<Option<Bytes>, E> {
        let (Some((trailer, value)), cover) = self.newest(tree, seq, key, search)? else {
            return Ok(None);
        };
        match meaning(trailer, &value, cover, &now)? {
            Meaning::Absent => Ok(None),
            Meaning::Value(0) => Ok(Some(value)),
            Meaning::Value(skip) => Ok(Some(value.slice(skip..))),
            Meaning::Operand => Ok(self.collect(tree, Moment { seq, now: now() }, key)?),
        }
    }

    #[inline(always)]
    fn newest<E>(
        &self,
        tree: &TreeView,
        seq: Seq,
        key: &[u8],
        search: &mut impl FnMut(&Arc<Table>, u64) -> Result<Newest, E>,
    ) -> Result<Newest, E> {
        if tree.mixed {
            return self.newest_in_turns(tree, seq, key, search);
        }
        // One hash serves the filters of all memtables and files.
        let hash = hash(key);
        for memtable in std::iter::once(&tree.active).chain(tree.immutables.iter().rev()) {
            if let Some(newest) = self.newest_in(memtable, seq, key, hash) {
                return Ok(newest);
            }
        }
        for table in tables_over(tree, key) {
            let (found, cover) = search(table, hash)?;
            if found.is_some() || cover > Seq::ZERO {
                return Ok((found, cover));
            }
        }
        Ok((None, Seq::ZERO))
    }

    #[inline(always)]
    fn newest_in(&self, memtable: &Memtable, seq: Seq, key: &[u8], hash: u64) -> Option<Newest> {
        let cover = match memtable.has_ranges() {
            true => memtable.cover(key, seq),
            false => Seq::ZERO,
        };
        let found = memtable.newest(key, hash, seq);
        let decided = found.is_some() || cover > Seq::ZERO;
        decided.then(|| {
            self.shared.counters.reads.mine().memtable_hits.add(1);
            (found, cover)
        })
    }

    #[cold]
    fn newest_in_turns<E>(
        &self,
        tree: &TreeView,
        seq: Seq,
        key: &[u8],
        search: &mut impl FnMut(&Arc<Table>, u64) -> Result<Newest, E>,
    ) -> Result<Newest, E> {
        let hash = hash(key);
        for source in tree.sources() {
            let newest = match source {
                Source::Memtable(memtable) => {
                    self.newest_in(memtable, seq, key, hash).unwrap_or_default()
                }
                Source::Run(tables) => match tables.find(key) {
                    Some(table) => search(table, hash)?,
                    None => continue,
                },
            };
            if newest.0.is_some() || newest.1 > Seq::ZERO {
                return Ok(newest);
            }
        }
        Ok((None, Seq::ZERO))
    }

    /// The newest version in a table.
    pub(super) fn search(
        &self,
        table: &Table,
        seq: Seq,
        key: &[u8],
        hash: u64,
        stats: &mut ReadStats,
    ) -> Result<Newest> {
        let reader = self.tables.reader(table)?;
        let cover = match table.file.range_tombstones {
            0 => Seq::ZERO,
            _ => reader.range_tombstones().cover(key, seq),
        };
        let found = reader.get_hashed(key, hash, seq, self.tables.cache(), true, stats);
        let hidden = planted::is(Bug::ReadErrorHidden);
        Ok((if hidden { found.unwrap_or(None) } else { found? }, cover))
    }

    /// Counts the filters that a get has checked.
    #[inline]
    pub(super) fn count_filter(&self, stats: &ReadStats) {
        let reads = self.shared.counters.reads.mine();
        let add = |counter: &Counter, count| {
            if count > 0 {
                counter.add(count);
            }
        };
        add(&reads.filter_checks, stats.filter_checks);
        add(&reads.filter_negatives, stats.filter_negatives);
        add(&reads.filter_false_positives, stats.filter_false_positives);
    }

    /// The value of a key whose newest version is an operand.
    #[cold]
    fn collect(&self, tree: &TreeView, at: Moment, key: &[u8]) -> Result<Option<Bytes>> {
        let mut resolver = Resolver::default();
        for source in tree.sources() {
            let decided = match source {
                Source::Memtable(memtable) => collect_in(memtable, at, key, &mut resolver)?,
                Source::Run(tables) => match tables.find(key) {
                    Some(table) => self.collect_from(table, at, key, &mut resolver)?,
                    None => continue,
                },
            };
            if decided {
                break;
            }
        }
        resolver.finish(&tree.rules, key)
    }

    /// Adds the versions of a table. Returns true if older versions do not matter.
    fn collect_from(
        &self,
        table: &Table,
        at: Moment,
        key: &[u8],
        resolver: &mut Resolver,
    ) -> Result<bool> {
        let reader = self.tables.shared_reader(table)?;
        let cover = reader.range_tombstones().cover(key, at.seq);
        let mut stats = ReadStats::default();
        let may = reader.may_contain(key, &mut stats);
        self.count_filter(&stats);
        if may {
            let mut cursor = reader.cursor(self.tables.cache(), true);
            cursor.seek(key, Trailer::seek(at.seq))?;
            while cursor.valid() && cursor.key() == key {
                let meaning = meaning(cursor.trailer(), cursor.value(), cover, || at.now)?;
                if resolver.add_older(meaning, cursor.value_shared()) {
                    return Ok(true);
                }
                cursor.next()?;
            }
        }
        Ok(cover > Seq::ZERO)
    }
}

/// The tables whose ranges contain a key, newest first.
fn tables_over<'a>(tree: &'a TreeView, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
    let runs = tree.version.l0.iter().rev().map(|run| &run.tables);
    runs.chain(&tree.version.levels).filter_map(move |tables| tables.find(key))
}

/// Adds the versions of a memtable. Returns true if older versions do not matter.
fn collect_in(
    memtable: &Arc<Memtable>,
    at: Moment,
    key: &[u8],
    resolver: &mut Resolver,
) -> Result<bool> {
    let cover = memtable.cover(key, at.seq);
    let mut versions = versions_in(memtable, key, at.seq)?;
    versions.sort_by_key(|(trailer, _)| std::cmp::Reverse(*trailer));
    for (trailer, value) in versions {
        let meaning = meaning(trailer, &value, cover, || at.now)?;
        if resolver.add_older(meaning, value) {
            return Ok(true);
        }
    }
    Ok(cover > Seq::ZERO)
}

/// The visible versions of a key in a memtable and its parts, in no particular order.
fn versions_in(memtable: &Arc<Memtable>, key: &[u8], seq: Seq) -> Result<Vec<(Trailer, Bytes)>> {
    let mut versions = Vec::new();
    for part in memtable.parts() {
        let mut cursor = part.cursor();
        cursor.seek(key, Trailer::seek(seq))?;
        while cursor.valid() && cursor.key() == key {
            versions.push((cursor.trailer(), cursor.value_shared()));
            cursor.next()?;
        }
    }
    Ok(versions)
}
