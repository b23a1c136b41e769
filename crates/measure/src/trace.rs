//! A recorded trace as a workload: the same operations at the same times, on any store.
//!
//! 1. The file is read whole ([`vlsm::trace`]), and its operations are sorted by their times. In
//!    memory each takes 32 bytes and its key.
//! 2. They are the requests of an open loop. Their due times are those of the trace, divided by the
//!    speed ([`Replay`](crate::arrivals::Replay)). So latencies count from the recorded requests,
//!    and a slow store does not slow its load.
//!
//! Values are random bytes of the recorded lengths. Operations that a
//! [`Store`](crate::store::Store) does not have are replaced: a merge by a put of the operand's
//! length, a range delete by a delete of its lower bound. All trees of the recorded store become
//! one.

use crate::store::StoreError;
use crate::workload::data::{Data, MIN_KEY_SIZE};
use std::path::Path;
use std::sync::Arc;
use vlsm::trace::{TraceKind, TraceReader};
use vlsm_core::key::check_lengths;

/// An operation on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Read it.
    Get,
    /// Set it to a value of this length.
    Put(usize),
    /// Remove it.
    Delete,
    /// Read this many pairs from it on.
    Scan(usize),
}

/// The operations of a trace, in the order of their times.
#[derive(Debug)]
pub struct Trace {
    ops: Vec<(Act, usize, usize)>,
    keys: Vec<u8>,
    times: Arc<[u64]>,
    longest: usize,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// The file is missing, damaged or no trace, or it has a value longer than a store takes.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let (mut ops, mut keys, mut longest) = (Vec::new(), Vec::new(), 0);
        for op in TraceReader::open(path)? {
            let op = op?;
            let length = |len: u64| usize::try_from(len).unwrap_or(usize::MAX);
            let act = match op.kind {
                TraceKind::Get => Act::Get,
                TraceKind::Put(len) | TraceKind::Merge(len) => Act::Put(length(len)),
                TraceKind::Delete | TraceKind::DeleteRange(_) => Act::Delete,
                TraceKind::Scan(pairs) => Act::Scan(length(pairs)),
                _ => return Err("the trace has an operation that cannot be replayed".into()),
            };
            if let Act::Put(len) = act {
                check_lengths(op.key.len(), len)?;
                longest = longest.max(len);
            }
            ops.push((op.at.0, (act, keys.len(), op.key.len())));
            keys.extend_from_slice(&op.key);
        }
        // The records are not sorted: scans are recorded at their end, and threads overlap.
        ops.sort_by_key(|(at, _)| *at);
        let times = ops.iter().map(|(at, _)| *at).collect();
        let ops = ops.into_iter().map(|(_, op)| op).collect();
        Ok(Self { ops, keys, times, longest })
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it has no operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The times of the operations, in microseconds from the trace's beginning.
    #[must_use]
    pub fn times(&self) -> Arc<[u64]> {
        self.times.clone()
    }

    /// The operation of this index, with its key.
    ///
    /// # Panics
    /// The index is not below [`Trace::len`].
    #[must_use]
    #[inline]
    pub fn op(&self, index: usize) -> (Act, &[u8]) {
        let (act, at, len) = self.ops[index];
        (act, &self.keys[at..at + len])
    }

    /// The source of its values.
    #[must_use]
    pub fn data(&self, seed: u64) -> Data {
        Data::new(MIN_KEY_SIZE, self.longest, seed)
    }
}
