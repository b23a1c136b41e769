//! Traces: which operations a store was asked for, and when, in a file. Keys are in it, values are
//! not, only their lengths.
//!
//! [`Db::start_trace`](crate::Db::start_trace) records (`recorder`), [`TraceReader`] reads. The
//! format is in docs/format.md: a header, chunks of operations that stand for themselves, and an
//! end that says how many operations there are. Every chunk has a checksum that binds its place, so
//! what is damaged, moved or cut off is an error and never another operation.

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
pub struct TraceOp {
    /// When it was asked for, since the trace began. Operations of several threads, and scans,
    /// which are recorded at their end, are not quite in this order.
    pub at: Micros,
    /// The number of the tree, which is a region of a keyspace.
    pub tree: u64,
    /// What was asked for.
    pub kind: TraceKind,
    /// Of which key; of a scan the lower bound, empty where it had none.
    pub key: Bytes,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceKind {
    /// The value of a key.
    Get,
    /// A new value of this length.
    Put(u64),
    /// No value any more.
    Delete,
    /// A change by an operand of this length.
    Merge(u64),
    /// So many pairs, which an iterator had walked over when it was dropped.
    Scan(u64),
    /// No values any more up to this key, exclusive.
    DeleteRange(Bytes),
}
