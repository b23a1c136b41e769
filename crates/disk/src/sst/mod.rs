//! SST: an immutable file of sorted entries.
//!
//! ```text
//! [block]* [index] [filter] [ranges] [properties] [zeros] [footer]     a multiple of 4096 bytes
//! ```
//!
//! | module | knows |
//! |---|---|
//! | [`mod@format`] | constants, checksums, varints, footer, properties |
//! | [`block`] | how a block is read: point lookup and cursor |
//! | `block_builder` | how a block is written |
//! | `compress` | how a block is compressed |
//! | `index` | the last key and the extent of every block |
//! | [`filter`] | the Bloom filter |
//! | `ranges` | the section of range tombstones |
//! | [`logged`] | values that are in WALs instead of the file |
//! | [`mod@tail`] | all that follows the blocks: what a reader keeps in memory |
//! | [`writer`] | how entries become bytes; does no I/O |
//! | [`reader`] | point lookups through the block cache |
//! | `cursor` | iteration through the block cache, with read-ahead |
//! | [`cache`] | the block cache |
//! | `slots` | memory for its blocks |
//! | [`mod@check`] | whether every byte of a file is right |
//! | [`scan`] | sequential reading for compactions, past the block cache |
//!
//! `docs/format.md` describes the format. Writer and scanner never wait: the caller does the I/O
//! that they request. Readers are shared and take no lock of their own.

pub mod block;
mod block_builder;
pub mod cache;
pub mod check;
mod compress;
mod cursor;
pub mod filter;
pub mod format;
mod index;
pub mod logged;
mod ranges;
pub mod reader;
pub mod scan;
mod slots;
pub mod tail;
pub mod writer;

use crate::names;
use std::path::{Path, PathBuf};
use vlsm_core::{FileMeta, FileNumber};

pub use cache::BlockCache;
pub use cursor::{AHEAD_MAX, BlocksRead, SstCursor, Wanted};
pub use format::{Compression, Properties};
pub use logged::Place;
pub use reader::{ReadStats, SstReader};
pub use scan::{Chunk, ReadRequest, Scan, Scanner};
pub use tail::Tail;
pub use writer::{Finished, SstOptions, SstSummary, SstWriter};

#[cfg(test)]
mod tests;

/// The path of an SST.
#[must_use]
pub fn sst_path(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(names::digits(number.0) + ".sst")
}

/// The number in an SST's file name.
#[must_use]
pub fn sst_number(name: &Path) -> Option<FileNumber> {
    names::number(name, "", ".sst").map(FileNumber)
}

/// The path of the second name of a WAL whose records hold values of this SST.
#[must_use]
pub fn values_path(sst: &Path, wal: u64) -> PathBuf {
    let stem = sst.file_stem().unwrap_or_default().to_string_lossy();
    sst.with_file_name(format!("{stem}-{}.values", names::digits(wal)))
}

/// The numbers of the SST and of the WAL in the name of such a file.
#[must_use]
pub fn values_numbers(name: &Path) -> Option<(FileNumber, u64)> {
    names::pair(name, ".values").map(|(sst, wal)| (FileNumber(sst), wal))
}

/// The paths of all files of an SST: its own, and those of the WALs that hold values of it.
pub fn sst_paths(dir: &Path, file: &FileMeta) -> impl Iterator<Item = PathBuf> {
    let path = sst_path(dir, file.number);
    let values: Vec<_> = file.wals.iter().map(|wal| values_path(&path, *wal)).collect();
    std::iter::once(path).chain(values)
}
