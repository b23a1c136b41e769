//! The approximate size of a range of keys.
//!
//! 1. Tables within the range count completely, by their metadata.
//! 2. If a table crosses an end of the range, its blocks within the range count, by its index, and
//!    its entries in proportion.
//! 3. The entries of memtables are counted one by one.
//!
//! Old versions and tombstones count: the result is the space on disk and in memory, not the size
//! of a scan. Cost: at most two indexes per run, and the memtables' entries in the range.

use crate::catalog::KeyspaceInfo;
use crate::read::Reader;
use crate::read::view::TreeView;
use bytes::Bytes;
use vlsm_core::{ByteCount, Cursor, KeyRange, Result, Table, Trailer};

/// The approximate size of a range of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ApproximateSize {
    /// Bytes in SSTs and memtables.
    pub bytes: ByteCount,
    /// Entries: versions of keys, and tombstones.
    pub entries: u64,
}

impl Reader {
    /// The size of the keys of a keyspace from `lo` up to `hi`, exclusive.
    pub fn approximate_size(
        &self,
        keyspace: &KeyspaceInfo,
        lo: &Bytes,
        hi: Option<&Bytes>,
    ) -> Result<ApproximateSize> {
        self.shared.health.check_open()?;
        let mut size = ApproximateSize::default();
        if hi.is_some_and(|hi| hi <= lo) {
            return Ok(size);
        }
        let (pinned, trees) = self.pin_keyspace(keyspace)?;
        let last = hi.map_or(keyspace.region_count() - 1, |hi| keyspace.region_of(hi));
        for region in keyspace.region_of(lo)..=last {
            let tree = pinned.view.pinned(trees.tree(region));
            for (_, table) in tree.version.tables() {
                self.add_table(table, lo, hi, &mut size)?;
            }
            add_memtables(tree, lo, hi, &mut size)?;
        }
        Ok(size)
    }

    fn add_table(
        &self,
        table: &Table,
        lo: &Bytes,
        hi: Option<&Bytes>,
        size: &mut ApproximateSize,
    ) -> Result<()> {
        let range = match hi {
            Some(hi) => KeyRange::half_open(lo.clone(), hi.clone()),
            None => KeyRange { lo: lo.clone(), ..table.range.clone() },
        };
        let Some(shown) = table.range.intersection(&range) else { return Ok(()) };
        let bytes = match shown == table.range {
            true => table.bytes,
            false => self.tables.reader(table)?.bytes_in(&shown).min(table.bytes),
        };
        let share = bytes.as_f64() / table.file.bytes.as_f64().max(1.0);
        size.bytes += bytes;
        size.entries += (table.file.entries as f64 * share).round() as u64;
        Ok(())
    }
}

fn add_memtables(
    tree: &TreeView,
    lo: &Bytes,
    hi: Option<&Bytes>,
    size: &mut ApproximateSize,
) -> Result<()> {
    for memtable in tree.immutables.iter().chain([&tree.active]) {
        for part in memtable.parts() {
            let mut cursor = part.cursor();
            cursor.seek(lo, Trailer::FIRST)?;
            while cursor.valid() && hi.is_none_or(|hi| cursor.key() < &hi[..]) {
                size.bytes += ByteCount((cursor.key().len() + 8 + cursor.value().len()) as u64);
                size.entries += 1;
                cursor.next()?;
            }
        }
    }
    Ok(())
}
