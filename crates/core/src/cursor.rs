//! The common interface for iterating over sorted entries: of a memtable, a block, an SST, a level
//! or a merge.

use crate::error::Result;
use crate::key::Trailer;
use bytes::Bytes;

/// The entry that a cursor stands on.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// Sequence number and kind.
    pub trailer: Trailer,
    /// The value.
    pub value: &'a [u8],
}

/// A position among entries in tree order (user key ascending, newest first), or beyond either end.
///
/// A new cursor is not valid until a seek. After an error it is not valid, and [`Cursor::next`] and
/// the other moves return the error again: it never skips data that it could not read.
pub trait Cursor {
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;

    /// The user key of the current entry.
    ///
    /// # Panics
    /// May panic when not [`Cursor::valid`]. So may the other accessors.
    fn key(&self) -> &[u8];

    /// The trailer of the entry.
    fn trailer(&self) -> Trailer;

    /// The value of the entry.
    fn value(&self) -> &[u8];

    /// All three in one virtual call instead of three.
    fn entry(&self) -> Entry<'_> {
        Entry { key: self.key(), trailer: self.trailer(), value: self.value() }
    }

    /// The value as a ref-counted slice, without a copy if the source allows it.
    fn value_shared(&self) -> Bytes {
        Bytes::copy_from_slice(self.value())
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// Any error of reading below. The other moves fail likewise.
    fn seek_first(&mut self) -> Result<()>;

    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;

    /// Prepares a seek to `key` or to before it, which is the next move: opens the file that it
    /// needs, and fetches memory that it will look at into the processor's cache. Until then the
    /// position is not defined. A merge lets all its sources do this before any of them seeks. Does
    /// nothing by default.
    fn approach(&mut self, _key: &[u8]) {}

    /// Moves to the first entry at or after `(key, trailer)` in tree order.
    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()>;

    /// Moves to the last entry strictly before `(key, trailer)` in tree order.
    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()>;

    /// Moves to the next entry; past the last one it becomes invalid.
    fn next(&mut self) -> Result<()>;

    /// Moves to the previous entry; before the first one it becomes invalid.
    fn prev(&mut self) -> Result<()>;
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn trailer(&self) -> Trailer {
        (**self).trailer()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn entry(&self) -> Entry<'_> {
        (**self).entry()
    }
    fn value_shared(&self) -> Bytes {
        (**self).value_shared()
    }
    fn seek_first(&mut self) -> Result<()> {
        (**self).seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        (**self).seek_last()
    }
    fn approach(&mut self, key: &[u8]) {
        (**self).approach(key);
    }
    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        (**self).seek(key, trailer)
    }
    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        (**self).seek_before(key, trailer)
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
}
