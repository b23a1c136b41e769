//! The write-ahead log, shared by all trees of a store.
//!
//! A WAL is a chain of files. Each begins with a header page that seals its predecessor (its number
//! and its end), and continues with records. A batch is one record; a large batch is several
//! fragments and a commit record. Each record's checksum covers the file's random number and the
//! offset, so records from an earlier life of a recycled file never verify.
//!
//! Loss and damage: bytes that were not synced when the machine stopped may be missing in any
//! subset. So the log ends at the first record that does not verify, unless a later record proves
//! that this one had been synced: each record carries the offset up to which its file was synced
//! when it was framed.
//!
//! [`crate::record`] encodes headers and records, `batch` the payload of a batch. `writer` writes
//! the files, by calls or through memory (`mapped`), `files` finds them, `reader` recovers their
//! batches. `rewrite` makes the file that takes over from older ones at an open, and `salvage`
//! decides what is kept of a damaged log. `locate` finds the places of values, for SSTs that refer
//! to them. The layout is in `docs/format.md`.

pub mod batch;
mod files;
pub mod locate;
mod mapped;
pub mod reader;
pub mod rewrite;
pub mod salvage;
pub mod writer;

pub use crate::record::{Header, RecordKind, Seal, SealKind};
pub use batch::{Batch, Entries, Entry};
pub use mapped::MappedWal;
pub use reader::{RecoverOptions, Recovered, Replayed, recover};
pub use rewrite::Rewrite;
pub use writer::{Framer, PreparedWal, WalFile, allocate_next, prepare_next};

use crate::names;
use std::path::{Path, PathBuf};

/// A batch over this size is written as fragments, so that small batches need not wait for it.
pub const LARGE_BATCH: usize = 256 * 1024;
/// The bytes of a large batch in one fragment.
pub const FRAGMENT_LEN: usize = 64 * 1024;

/// The path of the WAL file with this number.
#[must_use]
pub fn wal_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(names::digits(number) + ".wal")
}

/// The number in a WAL file's name; none for any other name.
#[must_use]
pub fn wal_number(name: &Path) -> Option<u64> {
    names::number(name, "", ".wal")
}
