//! Iterators over keys, values or pairs, forwards or backwards.
//!
//! They fetch several pairs at a time from the store, so that the interpreter's lock is not
//! released and taken for each pair: 1 at first, then twice as many each time, up to `CHUNK`. An
//! iterator of a transaction fetches one at a time, because every pair that it fetches counts as
//! read.

use crate::columns::Columns;
use crate::errors::Failure;
use crate::held::{Held, outside};
use crate::keyspace::pair;
use engine::{Bytes, Iter, TransactionIter};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;

/// The largest number of pairs that are fetched at once.
const CHUNK: usize = 64;

type Pair = (Bytes, Bytes);

pub enum Pairs {
    Plain(Box<Iter>),
    WithOwnWrites(Box<TransactionIter>),
}

impl Pairs {
    fn next(&mut self, reverse: bool) -> Option<engine::Result<Pair>> {
        match (self, reverse) {
            (Self::Plain(pairs), false) => pairs.next(),
            (Self::Plain(pairs), true) => pairs.next_back(),
            (Self::WithOwnWrites(pairs), false) => pairs.next(),
            (Self::WithOwnWrites(pairs), true) => pairs.next_back(),
        }
    }
}

/// The part of a pair that an iterator returns.
#[derive(Clone, Copy)]
pub enum What {
    Keys,
    Values,
    Items,
}

struct State {
    pairs: Pairs,
    taken: VecDeque<engine::Result<Pair>>,
    chunk: usize,
    ended: bool,
}

impl State {
    fn next(&mut self, reverse: bool) -> Option<engine::Result<Pair>> {
        if self.taken.is_empty() && !self.ended {
            for _ in 0..self.chunk {
                let Some(next) = self.pairs.next(reverse) else {
                    self.ended = true;
                    break;
                };
                let failed = next.is_err();
                self.taken.push_back(next);
                if failed {
                    break;
                }
            }
            let most = if matches!(self.pairs, Pairs::Plain(_)) { CHUNK } else { 1 };
            self.chunk = (self.chunk * 2).min(most);
        }
        self.taken.pop_front()
    }
}

/// An iterator.
#[pyclass(frozen, module = "vlsm")]
pub struct Items {
    state: Mutex<Held<State>>,
    what: What,
    reverse: bool,
}

impl Items {
    pub fn new(pairs: Pairs, what: What, reverse: bool) -> Self {
        let state = State { pairs, taken: VecDeque::new(), chunk: 1, ended: false };
        Self { state: Mutex::new(Held::new(state)), what, reverse }
    }
}

#[pymethods]
impl Items {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = outside(py, || {
            let mut state = self.state.lock();
            Ok::<_, Failure>(state.get_mut()?.next(self.reverse).transpose()?)
        })?;
        let Some((key, value)) = next else { return Ok(None) };
        let found = match self.what {
            What::Keys => PyBytes::new(py, &key).into_any(),
            What::Values => PyBytes::new(py, &value).into_any(),
            What::Items => pair(py, (key, value))?.into_any(),
        };
        Ok(Some(found))
    }
    /// Returns the next pairs, at most `rows`, as four `bytes` objects: all keys, the offsets at
    /// which each begins and the last ends, all values, and the offsets of those. Offsets are
    /// 64-bit numbers in native byte order. Returns None at the end.
    fn columns(&self, py: Python<'_>, rows: usize) -> PyResult<Option<Columns>> {
        outside(py, || {
            let mut state = self.state.lock();
            let state = state.get_mut()?;
            let mut columns = Columns::new();
            while columns.rows() < rows {
                let Some(pair) = state.next(self.reverse) else { break };
                let (key, value) = pair?;
                columns.push(&key, &value);
            }
            Ok((columns.rows() > 0).then_some(columns))
        })
    }
}
