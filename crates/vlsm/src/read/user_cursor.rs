//! Turns the entries of a tree into the pairs that a reader at one moment sees.
//!
//! The visible versions of each user key are resolved (`resolve`); usually the newest one decides.
//! Forwards the newest version comes first. Backwards it comes last, so the walk resolves from the
//! oldest version until the user key changes. Range tombstones are looked up by key (`covers`). If
//! the merge operator fails, the error concerns the key alone, and the walk continues. Forwards the
//! walk stays on the entry of a pair until it goes on, so a reader may look at it without a copy.
//!
//! A seek first asks all sources for the blocks that they need: one of each, or as many as scans
//! of this keyspace usually need ([`Habits`]). With direct reads, several that are
//! not in memory are read from the device at the same time. Without, the page cache may have them,
//! and then other threads would cost more than they save.
//!
//! Long deleted ranges are not walked: when a range tombstone hid [`HIDDEN_MAX`] keys in a row, the
//! sources that are older than it skip to its end. All entries in these sources are older than the
//! tombstone, so no visible entry is skipped.
//!
//! Threads and locks: owned by one iterator; pins the memtables and tables of its view.

use crate::read::covers::Covers;
use crate::read::fetch::{Fetched, Fetcher, Missing};
use crate::read::level_cursor::LevelCursor;
use crate::read::merge_cursor::{Direction, MergeCursor};
use crate::read::source_cursor::{RunSource, SourceCursor};
use crate::read::view::{Moment, Source, TreeView};
use crate::rules::Rules;
use crate::rules::resolve::{Meaning, Resolver, meaning};
use crate::shared::habits::Habits;
use bytes::Bytes;
use std::ops::Bound;
use std::sync::Arc;
use vlsm_core::key::is_same;
use vlsm_core::{Error, KeyBuf, Result, Seq, Tables, Trailer};

/// The number of keys in a row that a range tombstone hides before the walk skips the rest.
const HIDDEN_MAX: u32 = 8;

/// A one-way walk over the visible pairs of one tree, with cursors of type `R` over its runs and
/// levels.
pub(crate) struct UserCursor<R: RunSource = LevelCursor> {
    merge: MergeCursor<SourceCursor<R>>,
    fetcher: Arc<Fetcher>,
    habits: Arc<Habits>,
    covers: Covers,
    /// For each age, the index of the first source that is older.
    older: Vec<usize>,
    rules: Arc<Rules>,
    direction: Direction,
    at: Moment,
    /// The number of keys hidden in a row.
    hidden: u32,
    /// The user key last reached or skipped; its other entries are skipped.
    last_key: KeyBuf,
    has_last: bool,
    /// The value of the last key; none if the walk is on no pair.
    found: Option<Found>,
}

/// The value of a pair.
enum Found {
    /// That of the merge's current entry, from this offset on. The merge stays on the entry until
    /// the walk goes on.
    Entry(usize),
    /// One that is not in the merge's entry, or the error of the merge operator.
    Resolved(Result<Bytes>),
}

impl UserCursor {
    /// A walk over a tree that starts at `from`, or at an end of the tree if `from` is unbounded.
    pub fn new(
        tree: &TreeView,
        (fetcher, habits): (&Arc<Fetcher>, &Arc<Habits>),
        at: Moment,
        direction: Direction,
        from: Bound<&[u8]>,
    ) -> Result<Self> {
        Self::over(tree, (fetcher, habits), at, direction, from, &|habit, tables| {
            let cursor = LevelCursor::new(fetcher.tables().clone(), tables.clone());
            match direction {
                Direction::Forward => cursor.expecting(habit, habits.expected(habit)),
                Direction::Backward => cursor,
            }
        })
    }
}

impl<R: RunSource> UserCursor<R> {
    /// The same walk, with cursors over the tree's runs and levels that `run` creates.
    pub fn over(
        tree: &TreeView,
        (fetcher, habits): (&Arc<Fetcher>, &Arc<Habits>),
        at: Moment,
        direction: Direction,
        from: Bound<&[u8]>,
        run: &dyn Fn(usize, &Tables) -> R,
    ) -> Result<Self> {
        let count = 1 + tree.immutables.len() + tree.version.l0.len() + tree.version.levels.len();
        let mut sources = Vec::with_capacity(count);
        let mut covers = Covers::new(fetcher.tables().clone(), at.seq);
        let mut older = Vec::with_capacity(count);
        let mut runs = 0;
        for source in tree.sources() {
            match source {
                // All entries and range tombstones that the reader may see are counted by now.
                Source::Memtable(memtable) if memtable.is_empty() => {}
                Source::Memtable(memtable) => {
                    for part in memtable.parts() {
                        covers.add_memtable(older.len(), &part);
                        sources.push(SourceCursor::Memtable(part.cursor()));
                    }
                }
                Source::Run(tables) => {
                    covers.add_run(older.len(), tables);
                    let habit = Habits::index(&tree.version, runs);
                    sources.push(SourceCursor::Run(run(habit, tables)));
                    runs += 1;
                }
            }
            older.push(sources.len());
        }
        let mut this = Self {
            merge: MergeCursor::new(sources, direction),
            fetcher: fetcher.clone(),
            habits: habits.clone(),
            covers,
            older,
            rules: tree.rules.clone(),
            direction,
            at,
            hidden: 0,
            last_key: KeyBuf::default(),
            has_last: false,
            found: None,
        };
        this.seek(from)?;
        Ok(this)
    }

    /// Starts again at a bound.
    pub fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        self.note_habits();
        self.has_last = false;
        self.found = None;
        let (key, before_key) = match (from, self.direction) {
            (Bound::Unbounded, _) => return self.merge.seek_start(),
            (Bound::Included(key), Direction::Forward) => (key, true),
            (Bound::Excluded(key), Direction::Forward) => (key, false),
            (Bound::Included(key), Direction::Backward) => (key, false),
            (Bound::Excluded(key), Direction::Backward) => (key, true),
        };
        if before_key {
            return self.seek_from(0, key);
        }
        // Past all entries of `key`: the smallest key after it is the key with a zero byte added.
        let mut after = key.to_vec();
        after.push(0);
        self.seek_from(0, &after)
    }

    /// Notes how far the walk went since its last seek.
    fn note_habits(&mut self) {
        if self.direction == Direction::Forward {
            for (habit, bytes) in self.merge.sources().iter().filter_map(SourceCursor::walked) {
                self.habits.note(habit, bytes);
            }
        }
    }

    /// Moves the sources from `first` on to a key; the others keep their positions.
    fn seek_from(&mut self, first: usize, key: &[u8]) -> Result<()> {
        let sources = self.merge.approach(first, key);
        if self.fetcher.tables().reads_directly() {
            fetch(&self.fetcher, sources);
        }
        self.merge.seek_from(first, key, Trailer::FIRST)
    }

    /// The key that the last call of [`UserCursor::advance`] reached, even if it failed.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.last_key
    }

    /// The value of the pair on which the walk is; empty if it is on none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.found {
            Some(Found::Entry(skip)) => {
                self.merge.entry().map_or(&[], |entry| &entry.value[*skip..])
            }
            Some(Found::Resolved(Ok(value))) => value,
            Some(Found::Resolved(Err(_))) | None => &[],
        }
    }

    /// The same, to keep.
    pub fn value_shared(&self) -> Bytes {
        match &self.found {
            Some(Found::Entry(0)) => self.merge.value_shared(),
            Some(Found::Entry(skip)) => self.merge.value_shared().slice(*skip..),
            Some(Found::Resolved(Ok(value))) => value.clone(),
            Some(Found::Resolved(Err(_))) | None => Bytes::new(),
        }
    }

    /// The error of a merge operator that could not combine the operands of the key.
    #[inline]
    pub fn failure(&self) -> Option<&Error> {
        match &self.found {
            Some(Found::Resolved(Err(error))) => Some(error),
            _ => None,
        }
    }

    /// Goes to the next pair in the walk's direction. Returns false if there is none.
    ///
    /// # Errors
    /// Errors of reading; the walk is over then. An error of the merge operator belongs to its key
    /// ([`UserCursor::failure`]).
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        self.leave()?;
        match self.direction {
            Direction::Forward => self.next_forward(),
            Direction::Backward => self.next_backward(),
        }
    }

    /// Leaves the pair. If the merge is still on its entry, the next one is read.
    ///
    /// # Errors
    /// As [`UserCursor::advance`].
    #[inline]
    pub fn leave(&mut self) -> Result<()> {
        match self.found.take() {
            Some(Found::Entry(_)) => self.merge.step(),
            _ => Ok(()),
        }
    }

    #[inline]
    fn next_forward(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(false) };
            let trailer = entry.trailer;
            let decided = self.has_last && is_same(entry.key, &self.last_key);
            if decided || trailer.seq() > self.at.seq {
                self.merge.step()?;
                continue;
            }
            self.last_key.replace(0, entry.key);
            self.has_last = true;
            let cover = cover(&mut self.covers, &self.last_key)?;
            match meaning(trailer, entry.value, cover, || self.at.now)? {
                Meaning::Absent => {}
                Meaning::Value(skip) => {
                    self.hidden = 0;
                    self.found = Some(Found::Entry(skip));
                    return Ok(true);
                }
                Meaning::Operand => {
                    self.found = self.add_up_forward(cover)?.map(Found::Resolved);
                    if self.found.is_some() {
                        return Ok(true);
                    }
                    continue;
                }
            }
            self.merge.step()?;
            self.pass_hidden(trailer.seq() < cover)?;
        }
    }

    /// The value of the last key, resolved from its current entry on.
    #[cold]
    fn add_up_forward(&mut self, cover: Seq) -> Result<Option<Result<Bytes>>> {
        let mut resolver = Resolver::default();
        while let Some(entry) = self.merge.entry() {
            if !is_same(entry.key, &self.last_key) {
                break;
            }
            let meaning = meaning(entry.trailer, entry.value, cover, || self.at.now)?;
            let decided = resolver.add_older(meaning, self.merge.value_shared());
            self.merge.step()?;
            if decided {
                break;
            }
        }
        Ok(resolver.finish(&self.rules, &self.last_key).transpose())
    }

    fn next_backward(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(false) };
            self.last_key.replace(0, entry.key);
            let cover = cover(&mut self.covers, &self.last_key)?;
            let mut resolver = Resolver::default();
            let mut is_hidden = false;
            while let Some(entry) = self.merge.entry() {
                if !is_same(entry.key, &self.last_key) {
                    break;
                }
                let trailer = entry.trailer;
                if trailer.seq() <= self.at.seq {
                    let meaning = meaning(trailer, entry.value, cover, || self.at.now)?;
                    is_hidden = trailer.seq() < cover;
                    resolver.add_newer(meaning, self.merge.value_shared());
                }
                self.merge.step()?;
            }
            if let Some(value) = resolver.finish(&self.rules, &self.last_key).transpose() {
                self.hidden = 0;
                self.found = Some(Found::Resolved(value));
                return Ok(true);
            }
            self.pass_hidden(is_hidden)?;
        }
    }

    /// Called after an absent key. If a range tombstone hid it and many before it, the walk skips
    /// the other keys that it hides.
    #[inline]
    fn pass_hidden(&mut self, is_hidden: bool) -> Result<()> {
        self.hidden = if is_hidden { self.hidden + 1 } else { 0 };
        if self.hidden >= HIDDEN_MAX { self.skip_hidden() } else { Ok(()) }
    }

    #[cold]
    fn skip_hidden(&mut self) -> Result<()> {
        self.hidden = 0;
        let cover = self.covers.over(&self.last_key)?;
        if std::mem::replace(&mut cover.skipped, true) {
            return Ok(());
        }
        let end = match self.direction {
            Direction::Forward => &cover.window.hi,
            Direction::Backward => &cover.window.lo,
        };
        match (cover.age, end) {
            (Some(age), Some(end)) => {
                let (first, end) = (self.older[age], end.clone());
                self.note_habits();
                self.seek_from(first, &end)
            }
            _ => Ok(()),
        }
    }
}

impl<R: RunSource> Drop for UserCursor<R> {
    fn drop(&mut self) {
        self.note_habits();
    }
}

/// Reads the missing blocks of all sources at the same time, if there are several.
fn fetch<R: RunSource>(fetcher: &Fetcher, sources: &mut [SourceCursor<R>]) {
    let mut waiting = Vec::new();
    let mut missing = Vec::new();
    for source in sources {
        if let Some(wanted) = source.missing() {
            missing.push(Missing::Blocks(wanted));
            waiting.push(source);
        }
    }
    if missing.len() < 2 {
        return;
    }
    for (source, fetched) in waiting.into_iter().zip(fetcher.fetch(missing)) {
        // One that could not be read is missing again in the seek, which returns the error.
        if let Some(Fetched::Blocks(read)) = fetched {
            source.give(read);
        }
    }
}

/// The newest visible range tombstone over a key.
#[inline]
fn cover(covers: &mut Covers, key: &[u8]) -> Result<Seq> {
    if covers.is_empty() { Ok(Seq::ZERO) } else { Ok(covers.over(key)?.seq) }
}
