//! A cursor over one source of a tree: a memtable, or a run or level.
//!
//! A walk asks its sources for every entry, so they are of one type that the compiler knows. Its
//! calls are inlined, which those of a trait object cannot be.
//!
//! Threads and locks: as the cursor that it is.

use crate::memtable::MemtableCursor;
use bytes::Bytes;
use vlsm_core::{Cursor, Entry, Result, Trailer};

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
