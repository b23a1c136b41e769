//! The vocabulary of the store and the tree as plain data.
//!
//! All other crates use these types: keys, sequence numbers, units, errors, events, tables, runs,
//! levels, versions and the edits between them. Nothing here does I/O, starts a thread, takes a
//! lock or reads a clock; everything can be built, compared and printed in a test.

pub mod attachment;
pub mod cursor;
pub mod edit;
pub mod error;
pub mod event;
pub mod ids;
pub mod key;
pub mod planted;
pub mod range;
pub mod range_tombstones;
pub mod sketch;
pub mod striped;
pub mod table;
pub mod tables;
pub mod text;
pub mod units;
pub mod version;

pub use cursor::{Cursor, Entry};
pub use edit::{Change, VersionEdit};
pub use error::{ConflictKind, Error, LockHolder, OptionDifference, Result};
pub use ids::{FileNumber, FileUid, JobId, MemtableId, RunId, TreeId};
pub use key::{KeyBuf, Kind, Seq, Trailer};
pub use range::KeyRange;
pub use range_tombstones::RangeTombstones;
pub use sketch::Sketch;
pub use striped::Striped;
pub use table::{FileMeta, Table};
pub use tables::Tables;
pub use units::{ByteCount, Bytes, BytesPerSec, Micros};
pub use version::{Place, Run, RunOrigin, Version, Violation};
