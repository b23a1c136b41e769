//! A cursor over a memtable. It holds the memtable, not a lock: entries added meanwhile may appear.
//!
//! Steps forward follow a link; steps backward search anew, because the list has no links back.
//!
//! A flush reads all entries, and neighbours in key order are far apart in memory. So its cursor
//! follows the links some entries ahead, and has the processor fetch them
//! ([`MemtableCursor::fetching`]).

use super::Memtable;
use super::skiplist::Node;
use std::sync::Arc;
use vlsm_core::{Cursor, Result, Trailer};

/// The number of steps from the position to the entry that is fetched.
const AHEAD: usize = 8;

/// A position in a memtable.
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    node: Option<Node>,
    /// Whether it fetches entries ahead.
    fetches: bool,
    /// The last entry that was fetched; none after the last one of all.
    ahead: Option<Node>,
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        Self { memtable, node: None, fetches: false, ahead: None }
    }

    /// The same cursor, for reading all entries in order: [`Cursor::seek_first`] and the steps
    /// after it fetch entries into the processor's cache.
    #[must_use]
    pub fn fetching(self) -> Self {
        Self { fetches: true, ..self }
    }

    #[inline]
    fn node(&self) -> Node {
        self.node.expect("the cursor is on an entry (documented panic)")
    }
}

impl Cursor for MemtableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.node.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.memtable.list.key(self.node())
    }

    #[inline]
    fn trailer(&self) -> Trailer {
        self.memtable.trailer_of(self.node())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.memtable.list.value(self.node())
    }

    fn seek_first(&mut self) -> Result<()> {
        let list = &self.memtable.list;
        self.node = list.first();
        self.ahead = self.node.filter(|_| self.fetches);
        for _ in 0..AHEAD {
            self.ahead = self.ahead.and_then(|ahead| list.fetch_next(ahead));
        }
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.node = self.memtable.list.last();
        Ok(())
    }

    fn seek(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.node = self.memtable.list.seek(key, self.memtable.own(trailer));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], trailer: Trailer) -> Result<()> {
        self.node = self.memtable.list.seek_before(key, self.memtable.own(trailer));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let list = &self.memtable.list;
        self.node = list.next(self.node());
        if let Some(ahead) = self.ahead {
            self.ahead = list.fetch_next(ahead);
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let list = &self.memtable.list;
        let node = self.node();
        self.node = list.seek_before(list.key(node), list.trailer(node));
        Ok(())
    }
}
