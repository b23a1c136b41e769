//! A cursor over one source of a tree: a memtable, or a run or level.
//!
//! A walk asks its sources for every entry, so they are of one type that the compiler knows. Its
//! calls are inlined, which those of a trait object cannot be.
//!
//! Threads and locks: as the cursor that it is.

use crate::memtable::MemtableCursor;
use bytes::Bytes;
use vlsm_core::{Cursor, Entry, Result, Trailer};
use vlsm_disk::sst::{BlocksRead, Wanted};

/// A cursor over a run or level. Another thread may read the block that its seek needs.
pub(crate) trait RunSource: Cursor {
    /// After [`Cursor::approach`]: the blocks that the seek has to read; none if its block is in
    /// memory.
    fn missing(&self) -> Option<Wanted>;

    /// Takes the blocks that were missing.
    fn give(&mut self, read: BlocksRead);

    /// The index among [`Habits`](crate::shared::habits::Habits), and the bytes that the walk
    /// needed behind the block of its last seek; none if all were in memory.
    fn walked(&self) -> Option<(usize, u64)>;
}

/// A cursor over a memtable, or one of type `R` over a run or level.
pub(crate) enum SourceCursor<R> {
    Memtable(MemtableCursor),
    Run(R),
}

/// Calls a method of the cursor.
macro_rules! of {
    ($source:expr, $method:ident $(, $argument:expr)*) => {
        match $source {
            Self::Memtable(cursor) => cursor.$method($($argument),*),
            Self::Run(cursor) => cursor.$method($($argument),*),
        }
    };
}

impl<R: RunSource> SourceCursor<R> {
    /// As [`RunSource::missing`]; a memtable has no blocks.
    pub fn missing(&self) -> Option<Wanted> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(cursor) => cursor.missing(),
        }
    }

    /// As [`RunSource::give`].
    pub fn give(&mut self, read: BlocksRead) {
        if let Self::Run(cursor) = self {
            cursor.give(read);
        }
    }

    /// As [`RunSource::walked`].
    pub fn walked(&self) -> Option<(usize, u64)> {
        match self {
            Self::Memtable(_) => None,
            Self::Run(cursor) => cursor.walked(),
        }
    }
}

impl<R: Cursor> Cursor for SourceCursor<R> {
    #[inline]
    fn valid(&self) -> bool {
        of!(self, valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        of!(self, key)
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        of!(self, trailer)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        of!(self, value)
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        of!(self, entry)
    }

    fn value_shared(&self) -> Bytes {
        of!(self, value_shared)
    }

    fn seek_first(&mut self) -> Result<()> {
        of!(self, seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        of!(self, seek_last)
    }

    fn approach(&mut self, key: &[u8]) {
        of!(self, approach, key);
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        of!(self, seek, key, trailer)
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        of!(self, seek_before, key, trailer)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        of!(self, next)
    }

    fn prev(&mut self) -> Result<()> {
        of!(self, prev)
    }
}
