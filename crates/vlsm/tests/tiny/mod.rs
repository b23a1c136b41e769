//! A tiny store: a few thousand writes fill memtables, go through L0 and come to the third level.

use vlsm::{Builder, ByteCount};

/// Shrinks a store to memtables of this size, whatever its profile: an SST is as large as a
/// memtable, and so is a file of the WAL; L1 is twice as large. What is special about a test is
/// configured after this.
pub fn tiny(builder: Builder, memtable: ByteCount) -> Builder {
    builder.configure(|options| {
        let policy = &mut options.policy;
        policy.tree.memtable_bytes = memtable;
        policy.tree.sst_max = memtable;
        policy.shapes.vlsm.sst_min = memtable / 8;
        policy.tree.l1_bytes = memtable * 2;
        policy.shapes.vlsm.phi = 4;
        options.wal_file_bytes = memtable;
    })
}
