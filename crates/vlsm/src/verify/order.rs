//! Checks that newer entries of a key lie higher in a tree (V3).
//!
//! All runs of L0 and all levels are walked at the same time, in tree order: keys ascending, the
//! versions of a key from the newest to the oldest. An older version of a key must not be in a
//! higher place than a newer version; the newest run of L0 is the highest place. A range tombstone
//! over the key must be newer than the version if it is in a higher place, and older if it is in a
//! lower place.
//!
//! Memory: for each run one open SST, and the range tombstones of one SST. Files are read through
//! the page cache, because the reads alternate between runs.

use super::{Check, FINDINGS_MAX};
use std::cmp::Ordering;
use std::sync::Arc;
use vlsm_core::{
    Cursor, FileNumber, Place, RangeTombstones, Result, Seq, Table, Tables, Trailer, Version, key,
};
use vlsm_disk::fs::OpenOptions;
use vlsm_disk::manifest::State;
use vlsm_disk::sst::sst_path;
use vlsm_disk::sst::{BlockCache, SstCursor, SstReader};

/// A run of L0 or a level, and a position in it.
struct Walk {
    place: Place,
    /// The tables that are not walked yet, last first.
    rest: Vec<Arc<Table>>,
    at: Option<(Arc<Table>, SstCursor)>,
    tables: Tables,
    /// The range tombstones of the file that was used last.
    ranges: Option<(FileNumber, Arc<RangeTombstones>)>,
}

impl Walk {
    fn new(place: Place, tables: &Tables) -> Self {
        let rest = tables.iter().rev().cloned().collect();
        Self { place, rest, at: None, tables: tables.clone(), ranges: None }
    }

    /// The file of the current entry.
    fn file(&self) -> FileNumber {
        self.at.as_ref().map_or(FileNumber(0), |(table, _)| table.file.number)
    }

    fn entry(&self) -> Option<(&[u8], Trailer)> {
        self.at.as_ref().map(|(_, cursor)| (cursor.key(), cursor.trailer()))
    }

    /// Moves to the next entry, or to the first one.
    fn advance(&mut self, check: &Check<'_>, cache: &Arc<BlockCache>) -> Result<()> {
        if let Some((_, cursor)) = &mut self.at {
            cursor.next()?;
        }
        loop {
            if let Some((table, cursor)) = &self.at
                && cursor.valid()
                && !table.range.ends_before(cursor.key())
            {
                return Ok(());
            }
            self.at = None;
            let Some(table) = self.rest.pop() else { return Ok(()) };
            let mut cursor = open(check, &table)?.cursor(cache, false);
            cursor.seek(&table.range.lo, Trailer::FIRST)?;
            self.at = Some((table, cursor));
        }
    }

    /// The newest and the oldest range tombstone over a key.
    fn tombstones(&mut self, check: &Check<'_>, key: &[u8]) -> Result<Option<(Seq, Seq)>> {
        if self.tables.ranged() == 0 {
            return Ok(None);
        }
        let table = self.tables.find(key).filter(|table| table.file.range_tombstones > 0);
        let Some(table) = table else { return Ok(None) };
        let number = table.file.number;
        let ranges = match &self.ranges {
            Some((last, ranges)) if *last == number => ranges,
            _ => {
                let ranges = open(check, table)?.range_tombstones().clone();
                &self.ranges.insert((number, ranges)).1
            }
        };
        let seqs = ranges.find(key).map(|(_, fragment)| &fragment.seqs);
        Ok(seqs.and_then(|seqs| Some((*seqs.first()?, *seqs.last()?))))
    }
}

fn open(check: &Check<'_>, table: &Table) -> Result<Arc<SstReader>> {
    let path = sst_path(check.dir, table.file.number);
    let file = check.file(&path, Some(&table.file), OpenOptions::READ)?;
    let reader = SstReader::open(file, &path, &table.file)?;
    Ok(Arc::new(check.with_values(reader, Some(&table.file))?))
}

impl Check<'_> {
    /// Step 4.
    pub(super) fn order(&mut self, state: &State) {
        for version in state.trees.values() {
            if let Err(error) = self.tree(version) {
                self.failed(self.dir, error);
            }
        }
    }

    fn tree(&mut self, version: &Version) -> Result<()> {
        let l0 = version.l0.iter().rev().map(|run| Walk::new(Place::L0(run.id), &run.tables));
        let levels = version.levels.iter().zip(1_u8..);
        let levels = levels.map(|(tables, level)| Walk::new(Place::Level(level), tables));
        let mut walks: Vec<Walk> = l0.chain(levels).collect();
        let cache = Arc::new(BlockCache::new(0));
        for walk in &mut walks {
            walk.advance(self, &cache)?;
        }
        let mut found = 0;
        // The last entry: its key, its trailer, its walk and its file.
        let mut last: (Vec<u8>, Trailer, Option<(usize, FileNumber)>) =
            (Vec::new(), Trailer::FIRST, None);
        while let Some(first) = first(&walks) {
            let Some((key, trailer)) = walks[first].entry() else { break };
            if let (last_key, last_trailer, Some((before, file))) = &last
                && last_key == key
                && *before != first
                && (*before > first || *last_trailer == trailer)
                && found < FINDINGS_MAX
            {
                found += 1;
                let (newer, older) = (walks[*before].place, walks[first].place);
                let what = format!(
                    "a version of a key in {newer} is not older than one in {older} (SST {}), \
                     which is read first: an old value may be read",
                    walks[first].file()
                );
                let path = sst_path(self.dir, *file);
                self.damage(&path, None, what);
            }
            let Some((key, trailer)) = walks[first].entry() else { break };
            last.0.clear();
            last.0.extend_from_slice(key);
            (last.1, last.2) = (trailer, Some((first, walks[first].file())));
            if found < FINDINGS_MAX {
                found += usize::from(self.against_tombstones(&mut walks, first, &last.0, trailer)?);
            }
            walks[first].advance(self, &cache)?;
        }
        Ok(())
    }

    /// Checks an entry against the range tombstones over it in other places. Returns whether any is
    /// wrong.
    fn against_tombstones(
        &mut self,
        walks: &mut [Walk],
        of: usize,
        key: &[u8],
        trailer: Trailer,
    ) -> Result<bool> {
        for index in (0..walks.len()).filter(|index| *index != of) {
            let Some((newest, oldest)) = walks[index].tombstones(self, key)? else { continue };
            let (above, below) = (walks[index.min(of)].place, walks[index.max(of)].place);
            let what = match index < of {
                true if oldest <= trailer.seq() => "not newer: what it does not delete is hidden",
                false if newest >= trailer.seq() => "not older: what it deletes may be read",
                _ => continue,
            };
            let (own, other) = (walks[of].place, walks[index].place);
            let what = format!(
                "a range tombstone in {other} over a version of a key in {own} is {what} ({above} \
                 is read before {below})"
            );
            let path = sst_path(self.dir, walks[of].file());
            self.damage(&path, None, what);
            return Ok(true);
        }
        Ok(false)
    }
}

/// The walk whose current entry is the first in tree order.
fn first(walks: &[Walk]) -> Option<usize> {
    let standing = walks.iter().enumerate().filter_map(|(index, walk)| {
        let (key, trailer) = walk.entry()?;
        Some((index, key, trailer))
    });
    let before = |a: &(usize, &[u8], Trailer), b: &(usize, &[u8], Trailer)| -> Ordering {
        key::compare(a.1, a.2, b.1, b.2)
    };
    standing.min_by(before).map(|(index, ..)| index)
}
