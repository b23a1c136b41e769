//! The manifest: the trees of a store and the tables of each tree.
//!
//! A manifest file is a header page and records, as in a WAL (`record`). Each record is a group of
//! changes that take effect together and were synced together. A new file begins with a snapshot of
//! the whole state. It is begun with the store, and again when the log has grown. `CURRENT` names
//! the file that counts.
//!
//! `format` encodes the changes, `state` applies them, `log` is the file, `snapshot` switches to a
//! new file, `settle` makes a manifest durable after an open. The layout is in `docs/format.md`.

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
/// The temporary file that is renamed to [`CURRENT`].
pub(crate) const CURRENT_TMP: &str = "CURRENT.tmp";

/// The path of the manifest with this number.
#[must_use]
pub fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join("MANIFEST-".to_owned() + &names::digits(number))
}

/// The number in a manifest's name; none for any other name.
#[must_use]
pub fn manifest_number(name: &Path) -> Option<u64> {
    names::number(name, "MANIFEST-", "")
}
