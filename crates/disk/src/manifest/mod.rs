//! The manifest: which trees there are and of which tables they consist.
//!
//! A manifest file is a header page and records, as in a WAL (`record`). Each record is a
//! group of changes that become true together and were synced together. A new store, and from time
//! to time a growing log, begins a new file with a snapshot of everything; `CURRENT` names the file
//! that counts.
//!
//! `format` has the changes as bytes, `state` what they add up to, `log` the file, `snapshot` the
//! switch to a new one. The layout is in `docs/format.md`.

pub mod format;
pub mod log;
mod settle;
pub mod snapshot;
pub mod state;

pub use log::{Manifest, Presence};
pub use snapshot::{Snapshot, SnapshotWriter};
pub use state::{Keyspace, Numbers, Record, Region, State};

use crate::names;
use std::path::{Path, PathBuf};

/// The file that names the manifest.
pub const CURRENT: &str = "CURRENT";
/// The file that becomes it.
pub(crate) const CURRENT_TMP: &str = "CURRENT.tmp";

/// The path of the manifest with this number.
#[must_use]
pub fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join("MANIFEST-".to_owned() + &names::digits(number))
}

/// The number in a manifest's name; none for other files.
#[must_use]
pub fn manifest_number(name: &Path) -> Option<u64> {
    names::number(name, "MANIFEST-", "")
}
