//! Finds the values of memtables in their WALs, so that a flush need not write them again
//! (TRIAD-LOG; `disk/sst/logged`).
//!
//! 1. All that was sequenced is written to the WAL. From here on the memtables' WALs are not used
//!    again for other records ([`Logs::keep`]).
//! 2. The WALs are read once in the background, and the place of each value is noted
//!    (`disk/wal/locate`).
//! 3. The merge writes a place instead of a value where the WAL has this very value
//!    (`output`). Results of a merge operator, and values that a filter sees, are written
//!    themselves.
//! 4. With the sync of its SSTs the job gives the WALs their second names (`files`).
//! 5. The install syncs the WAL before it records the SSTs, as for any flush. So what a place
//!    refers to is durable.
//!
//! Bound: the WALs of a memtable that was filled slowly are mostly other trees'. If they are many
//! times as long as the memtables, values are written, so that neither the time of step 2 nor the
//! space that a run keeps depends on other trees.
//!
//! Where the file system has no hard links, a WAL is copied once, and from then on values are
//! written. Threads and locks: steps 1 and 2 are one call on a thread of the pool; no lock is held
//! over a file call.

use crate::memtable::Memtable;
use crate::shared::Shared;
use std::sync::Arc;
use vlsm_core::{Error, FileNumber, Result, TreeId};
use vlsm_disk::wal::locate::{Located, Wanted, locate};
use vlsm_disk::{Charge, Pending};

/// Memtables whose WALs are longer than this many times their bytes, and two files, are written
/// with their values.
const WALS_MAX: u64 = 4;

/// The WALs of the store.
pub(crate) trait Logs: Send + Sync {
    /// Writes all that was sequenced, and returns the WALs in use from this one on, each with the
    /// length that counts. They are not used again for other records. None, and no change, if they
    /// are longer than `most` bytes.
    fn keep(&self, from: FileNumber, most: u64) -> Result<Option<Vec<(u64, u64)>>>;

    /// Whether WALs can have second names.
    fn can_link(&self) -> bool;

    /// Notes that the file system has no hard links, so that a WAL had to be copied.
    fn note_copied(&self);
}

/// The places of the values of memtables, charged as long as they are needed.
pub(crate) struct Places {
    pub located: Located,
    _charge: Charge,
}

/// Begins to look for the values of these memtables. None if none of them is in a WAL.
pub(super) fn locating(
    shared: &Arc<Shared>,
    logs: Arc<dyn Logs>,
    tree: TreeId,
    memtables: &[Arc<Memtable>],
) -> Option<Pending<Places>> {
    let first = memtables.iter().filter_map(|memtable| memtable.wal()).min()?;
    let seqs = memtables.iter().filter_map(|memtable| memtable.seqs());
    let (least, most) = seqs.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    let (on, wanted) = (shared.clone(), Wanted { tree, seqs: least..=most });
    let bytes: usize = memtables.iter().map(|memtable| memtable.bytes()).sum();
    let longest = WALS_MAX * bytes as u64 + 2 * shared.options.wal_file_bytes.0;
    Some(shared.io.submit(move || look(&on, &*logs, (first, longest), &wanted)))
}

fn look(
    shared: &Shared,
    logs: &dyn Logs,
    (first, longest): (FileNumber, u64),
    wanted: &Wanted,
) -> Result<Places> {
    let wals = logs.keep(first, longest)?.unwrap_or_default();
    let located = match locate(&**shared.env.fs(), &shared.dir, &wals, wanted) {
        // A flush without places needs no WAL.
        Err(Error::Io { .. } | Error::Corruption { .. }) => Located::default(),
        located => located?,
    };
    let charge = shared.memory.jobs.charge(located.memory_bytes());
    Ok(Places { located, _charge: charge })
}
