//! Traces: the operations on a store and their times, in a file. A trace contains keys and the
//! lengths of values, but no values.
//!
//! [`Db::start_trace`](crate::Db::start_trace) records (`recorder`), [`TraceReader`] reads. The
//! format is in docs/format.md: a header, self-contained chunks of operations, and an end with the
//! number of operations. The checksum of a chunk covers its offset, so a damaged, moved or
//! truncated chunk is an error and is never decoded as other operations.

mod format;
mod reader;
mod recorder;

pub(crate) use format::Asked;
pub use reader::TraceReader;
pub(crate) use recorder::Tracer;

use bytes::Bytes;
use vlsm_core::Micros;

/// One operation of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceOp {
    /// The time of the call, since the trace began. The order of operations is not exactly that of
    /// their times, because several threads record operations, and scans are recorded at their end.
    pub at: Micros,
    /// The number of the tree, that is, of a region of a keyspace.
    pub tree: u64,
    /// The operation, with its length or end.
    pub kind: TraceKind,
    /// The key; for a scan the lower bound, empty if there is none.
    pub key: Bytes,
}

/// A traced operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceKind {
    /// A read of one key.
    Get,
    /// A put of a value of this length.
    Put(u64),
    /// A delete.
    Delete,
    /// A merge of an operand of this length.
    Merge(u64),
    /// A scan; its iterator had returned this many pairs when it was dropped.
    Scan(u64),
    /// A delete of all keys up to this one, exclusive.
    DeleteRange(Bytes),
}
