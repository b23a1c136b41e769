//! The state that all tasks of one life of a store share: the books, the tally, and the errors that
//! the store may return to them.
//!
//! Threads and locks: each part has a lock of its own. None is held while the store is called.

use crate::admin::Copy;
use crate::eraser::Book;
use crate::ledger::Ledger;
use crate::tally::Tally;
use parking_lot::Mutex;
use vlsm_core::Error;

/// The state that the tasks of a life share.
pub(crate) struct Shared {
    pub ledger: Mutex<Ledger>,
    pub tally: Mutex<Tally>,
    /// The copies of the store that were begun in this life.
    pub copies: Mutex<Vec<Copy>>,
    /// The states of the keyspace that is cleared again and again.
    pub erased: Mutex<Book>,
    /// Whether the store was opened.
    pub open: Mutex<bool>,
}

/// The length of a client's life, its writes, and the errors that the store may return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub ops: u64,
    pub writes_may_fail: bool,
    pub reads_may_fail: bool,
    /// Whether the listing of a folder may fail.
    pub lists_may_fail: bool,
    /// Whether the device is full for a while, which is no failure.
    pub full: bool,
    /// Whether clients sync some of their batches. Without, the WAL goes through windows.
    pub syncs: bool,
}

impl Limits {
    /// Whether the store may return this error. Internal errors and wrong answers are never
    /// tolerated.
    pub fn tolerate(&self, error: &Error, reading: bool) -> bool {
        match error {
            Error::Internal(_) => false,
            Error::NoSpace { .. } if self.full => !reading,
            _ if reading => self.reads_may_fail,
            _ => self.writes_may_fail,
        }
    }
}

/// A wrong answer as an error, so that it can be returned like the engine's own errors.
pub(crate) fn wrong(why: String) -> Error {
    Error::Internal(format!("WRONG ANSWER: {why}"))
}
