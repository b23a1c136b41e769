//! From entries to pairs: what a reader at one sequence number sees of a tree.
//!
//! Of each user key, the newest entry at or below the reader's sequence number counts; a tombstone
//! hides the key. Forwards the newest entry comes first; backwards it comes last, so the walk
//! remembers the newest visible one until the user key changes.
//!
//! Threads and locks: owned by one iterator; pins the memtables and tables of its view.

use crate::files::Files;
use crate::read::level_cursor::LevelCursor;
use crate::read::merge_cursor::{Direction, MergeCursor};
use crate::read::view::TreeView;
use bytes::Bytes;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use vlsm_core::{Cursor, Error, Kind, Result, Seq, Trailer};

/// A one-way walk over the visible pairs of one tree.
pub(crate) struct UserCursor {
    merge: MergeCursor,
    direction: Direction,
    seq: Seq,
    /// The user key last returned or skipped; entries of it are passed over.
    last_key: Vec<u8>,
    has_last: bool,
}

impl UserCursor {
    /// A walk over a tree, starting at `from` (its end where unbounded).
    pub fn new(
        tree: &TreeView,
        files: &Arc<Files>,
        seq: Seq,
        direction: Direction,
        from: Bound<&[u8]>,
    ) -> Result<Self> {
        let mut sources: Vec<Box<dyn Cursor + Send>> = Vec::new();
        for memtable in std::iter::once(&tree.active).chain(tree.immutables.iter().rev()) {
            for part in memtable.parts() {
                sources.push(Box::new(part.cursor()));
            }
        }
        let runs = tree.version.l0.iter().rev().map(|run| &run.tables);
        let levels = tree.version.levels.iter().filter(|tables| !tables.is_empty());
        for tables in runs.chain(levels) {
            sources.push(Box::new(LevelCursor::new(files.clone(), tables.clone())));
        }
        let merge = MergeCursor::new(sources, direction);
        let mut this = Self { merge, direction, seq, last_key: Vec::new(), has_last: false };
        this.seek(from)?;
        Ok(this)
    }

    /// Starts anew at a bound.
    pub fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        self.has_last = false;
        let (key, before_key) = match (from, self.direction) {
            (Bound::Unbounded, _) => return self.merge.seek_start(),
            (Bound::Included(key), Direction::Forward) => (key, true),
            (Bound::Excluded(key), Direction::Forward) => (key, false),
            (Bound::Included(key), Direction::Backward) => (key, false),
            (Bound::Excluded(key), Direction::Backward) => (key, true),
        };
        if before_key {
            return self.merge.seek(key, Trailer::FIRST);
        }
        // Past all entries of `key`: the smallest key after it is the key with a zero byte added.
        let mut after = key.to_vec();
        after.push(0);
        self.merge.seek(&after, Trailer::FIRST)
    }

    /// The next pair in the walk's direction.
    pub fn next_pair(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        match self.direction {
            Direction::Forward => self.next_forward(),
            Direction::Backward => self.next_backward(),
        }
    }

    fn next_forward(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(None) };
            let trailer = entry.trailer();
            let decided = self.has_last && entry.key() == &self.last_key[..];
            if decided || trailer.seq() > self.seq {
                self.merge.step()?;
                continue;
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key());
            self.has_last = true;
            let pair = match kind_of(trailer)? {
                Kind::Put => Some((Bytes::copy_from_slice(entry.key()), entry.value_shared())),
                _ => None,
            };
            self.merge.step()?;
            if pair.is_some() {
                return Ok(pair);
            }
        }
    }

    fn next_backward(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(None) };
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key());
            let mut newest: Option<(Trailer, Bytes)> = None;
            while let Some(entry) = self.merge.entry() {
                if entry.key() != &self.last_key[..] {
                    break;
                }
                if entry.trailer().seq() <= self.seq {
                    newest = Some((entry.trailer(), entry.value_shared()));
                }
                self.merge.step()?;
            }
            if let Some((trailer, value)) = newest
                && kind_of(trailer)? == Kind::Put
            {
                return Ok(Some((Bytes::copy_from_slice(&self.last_key), value)));
            }
        }
    }
}

/// The kind of an entry. Blocks check it when they are read, so a failure here is a bug.
pub(crate) fn kind_of(trailer: Trailer) -> Result<Kind> {
    trailer.kind().ok_or_else(|| {
        let what = format!("an entry of unknown kind {}", trailer.kind_number());
        Error::corruption(Path::new("memory"), 0, what)
    })
}
