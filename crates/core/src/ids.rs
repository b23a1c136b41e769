//! Identifiers. Each is a number of its own type, so that they cannot be confused. The engine
//! assigns them and writes them to the manifest; they are never reused in the life of a store.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default,
            Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// The number in a file's name. Unique for the life of a store and never reused.
    FileNumber,
    ""
);
id!(
    /// A random number in an SST's footer and in the manifest. Block checksums cover it, so a block
    /// from the wrong file does not verify, while the file may be renamed or linked.
    FileUid,
    "u"
);
id!(
    /// One tree: one region of one keyspace.
    TreeId,
    "t"
);
id!(
    /// One flush or compaction, from its grant to its end.
    JobId,
    "j"
);
id!(
    /// One memtable. Larger is newer.
    MemtableId,
    "m"
);
id!(
    /// One sorted run of L0, named by the flush or merge that wrote it.
    RunId,
    "r"
);
