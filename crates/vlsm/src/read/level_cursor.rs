//! Walks over one sorted run: its tables one after the other, each only within its visible slice.
//!
//! Algorithm: the table that may hold the target is found by its range. Its SST is opened when the
//! cursor reaches the table, and released when the cursor leaves the table's slice. Most steps stay
//! within a block of an SST that is visible as a whole; they need no search and no comparison.
//!
//! Threads and locks: owned by one reader; holds its tables alive; takes no lock.

use crate::read::source_cursor::RunSource;
use crate::read::table_cache::TableCache;
use std::sync::Arc;
use vlsm_core::{Cursor, Entry, Error, Result, Table, Tables, Trailer};
use vlsm_disk::sst::{BlocksRead, SstCursor, Wanted};

/// A cursor over disjoint tables.
pub(crate) struct LevelCursor {
    cache: Arc<TableCache>,
    tables: Tables,
    current: Option<Current>,
    /// Its index among [`Habits`](crate::shared::habits::Habits), and the bytes that a seek reads
    /// behind its block.
    habit: (usize, u64),
    /// Bytes of tables that the walk left since the last seek.
    left: u64,
    /// Whether `current` is the table of the key that was approached, until the next move.
    approached: bool,
    error: Option<Error>,
}

/// The table of the cursor's position.
struct Current {
    table: Arc<Table>,
    cursor: SstCursor,
    /// Whether the table is its whole SST; then no key needs to be compared with its range.
    whole: bool,
}

impl LevelCursor {
    pub fn new(cache: Arc<TableCache>, tables: Tables) -> Self {
        let (habit, left) = ((0, 0), 0);
        Self { cache, tables, current: None, habit, left, approached: false, error: None }
    }

    /// The cursor, whose seeks read so many bytes behind their block, if they have to read.
    pub fn expecting(self, index: usize, bytes: u64) -> Self {
        Self { habit: (index, bytes), ..self }
    }

    /// Runs a move. An error makes the cursor permanently invalid.
    fn guarded(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.approached = false;
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let result = act(self);
        if let Err(error) = &result {
            self.error = Some(error.clone());
            self.current = None;
        }
        result
    }

    fn open(&self, table: &Arc<Table>) -> Result<Current> {
        let (table, whole) = (table.clone(), table.is_whole());
        let cursor = self.cache.cursor(&table)?.expecting(self.habit.1);
        Ok(Current { cursor, table, whole })
    }

    /// At the end of the current table's slice, moves on to the next table with a visible entry.
    fn skip_forward(&mut self) -> Result<()> {
        while let Some(Current { table, cursor, whole }) = &self.current {
            if cursor.valid() && (*whole || !table.range.ends_before(cursor.key())) {
                return Ok(());
            }
            let mut after = self.tables.starting_at(&table.range.hi);
            let next = after.find(|next| table.range.is_before(&next.range)).cloned();
            drop(after);
            self.enter_first(next)?;
        }
        Ok(())
    }

    fn enter_first(&mut self, table: Option<Arc<Table>>) -> Result<()> {
        let left = self.current.as_ref().and_then(|current| current.cursor.walked());
        self.left += left.unwrap_or(0);
        self.current = match table {
            Some(table) => {
                let mut current = self.open(&table)?;
                current.cursor.seek(&table.range.lo, Trailer::FIRST)?;
                Some(current)
            }
            None => None,
        };
        Ok(())
    }

    /// At the beginning of the current table's slice, moves back to the previous table with a
    /// visible entry.
    fn skip_backward(&mut self) -> Result<()> {
        while let Some(Current { table, cursor, whole }) = &self.current {
            if cursor.valid() && (*whole || !table.range.starts_after(cursor.key())) {
                return Ok(());
            }
            let mut before = self.tables.ending_at(&table.range.lo);
            let previous = before.find(|other| other.range.is_before(&table.range)).cloned();
            drop(before);
            self.enter_last(previous)?;
        }
        Ok(())
    }

    fn enter_last(&mut self, table: Option<Arc<Table>>) -> Result<()> {
        self.current = match table {
            Some(table) => {
                let mut current = self.open(&table)?;
                let bound = if table.range.hi_inclusive { Trailer::LAST } else { Trailer::FIRST };
                seek_last_within(&mut current.cursor, &table, bound)?;
                Some(current)
            }
            None => None,
        };
        Ok(())
    }
}

/// Moves to the last entry of the table's slice. An entry at `(hi, LAST)` itself is part of it.
fn seek_last_within(cursor: &mut SstCursor, table: &Table, bound: Trailer) -> Result<()> {
    if table.is_whole() {
        return cursor.seek_last();
    }
    cursor.seek(&table.range.hi, bound)?;
    let on_hi = cursor.valid() && table.range.hi_inclusive && cursor.key() == &table.range.hi[..];
    if on_hi { Ok(()) } else { cursor.seek_before(&table.range.hi, bound) }
}

impl Cursor for LevelCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.on().key()
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.on().trailer()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.on().value()
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        self.on().entry()
    }

    fn value_shared(&self) -> bytes::Bytes {
        self.on().value_shared()
    }

    fn approach(&mut self, key: &[u8]) {
        (self.approached, self.left) = (false, 0);
        let table = self.tables.starting_at(key).next();
        let Some(table) = table.filter(|table| table.range.contains(key)).cloned() else {
            self.current = None;
            return;
        };
        // The seek returns the error, of this call or of an earlier one.
        if self.error.is_none()
            && let Ok(mut current) = self.open(&table)
        {
            current.cursor.approach(key);
            (self.current, self.approached) = (Some(current), true);
        }
    }

    fn seek_first(&mut self) -> Result<()> {
        self.guarded(|this| {
            let first = this.tables.iter().next().cloned();
            this.enter_first(first)?;
            this.skip_forward()
        })
    }

    fn seek_last(&mut self) -> Result<()> {
        self.guarded(|this| {
            let last = this.tables.iter().next_back().cloned();
            this.enter_last(last)?;
            this.skip_backward()
        })
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        let approached = std::mem::take(&mut self.approached);
        self.guarded(|this| {
            if let Some(current) = this.current.as_mut().filter(|_| approached) {
                current.cursor.seek(key, trailer)?;
                return this.skip_forward();
            }
            let table = this.tables.starting_at(key).next().cloned();
            match table {
                Some(table) if table.range.contains(key) => {
                    let mut current = this.open(&table)?;
                    current.cursor.seek(key, trailer)?;
                    this.current = Some(current);
                }
                other => this.enter_first(other)?,
            }
            this.skip_forward()
        })
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        let approached = std::mem::take(&mut self.approached);
        self.guarded(|this| {
            let table = this.tables.ending_at(key).next().cloned();
            match table {
                Some(table) if table.range.contains(key) => {
                    let is_it = |at: &Current| approached && Arc::ptr_eq(&at.table, &table);
                    let mut current = match this.current.take().filter(is_it) {
                        Some(current) => current,
                        None => this.open(&table)?,
                    };
                    current.cursor.seek_before(key, trailer)?;
                    this.current = Some(current);
                }
                other => this.enter_last(other)?,
            }
            this.skip_backward()
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if let Some(Current { cursor, whole: true, .. }) = &mut self.current
            && cursor.step()
        {
            return Ok(());
        }
        self.next_anywhere()
    }

    fn prev(&mut self) -> Result<()> {
        self.guarded(|this| {
            if let Some(current) = &mut this.current {
                current.cursor.prev()?;
            }
            this.skip_backward()
        })
    }
}

impl RunSource for LevelCursor {
    fn missing(&self) -> Option<Wanted> {
        self.current.as_ref().filter(|_| self.approached)?.cursor.missing()
    }

    fn give(&mut self, read: BlocksRead) {
        if let Some(current) = self.current.as_mut().filter(|_| self.approached) {
            current.cursor.give(read);
        }
    }

    fn walked(&self) -> Option<(usize, u64)> {
        let current = self.current.as_ref().and_then(|current| current.cursor.walked());
        let any = current.is_some() || self.left > 0;
        any.then(|| (self.habit.0, self.left + current.unwrap_or(0)))
    }
}

impl LevelCursor {
    /// [`Cursor::next`] where the next entry may be of another block or table, or end the slice.
    #[inline(never)]
    fn next_anywhere(&mut self) -> Result<()> {
        self.guarded(|this| {
            if let Some(current) = &mut this.current {
                current.cursor.next()?;
            }
            this.skip_forward()
        })
    }

    #[inline]
    fn on(&self) -> &SstCursor {
        let current = self.current.as_ref().expect("asked only where the cursor is valid");
        &current.cursor
    }
}
