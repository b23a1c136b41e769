//! Events as typed values. The engine emits them; the LOG, the counters, listeners and the
//! laboratory read them. No event holds a key or a value.

use crate::error::Error;
use crate::ids::{FileNumber, JobId, MemtableId, TreeId};
use crate::key::Seq;
use crate::units::{Bytes, Micros};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

mod text;

/// The cause of a write's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitCause {
    /// Another writer's group was being written to the WAL.
    WalQueue,
    /// The WAL write of its group took a millisecond or more, because the file system was slow.
    WalWrite,
    /// The WAL was being synced.
    WalSync,
    /// Memtables were full, or nearly full so that the admission slowed down writes, and none was
    /// flushed yet.
    MemtableFull,
    /// L0 was at the admission's bound.
    L0Bound,
    /// The compaction debt of the levels exceeded the admission's limit.
    LevelDebt,
    /// The memory limit was reached.
    MemoryBudget,
    /// The admission's rate limit.
    Admission,
    /// An ingest was being installed, and the write is newer than its files.
    Ingest,
}

impl WaitCause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::WalQueue,
        Self::WalWrite,
        Self::WalSync,
        Self::MemtableFull,
        Self::L0Bound,
        Self::LevelDebt,
        Self::MemoryBudget,
        Self::Admission,
        Self::Ingest,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WalQueue => "wal queue",
            Self::WalWrite => "wal write",
            Self::WalSync => "wal sync",
            Self::MemtableFull => "memtable full",
            Self::L0Bound => "L0 bound",
            Self::LevelDebt => "level debt",
            Self::MemoryBudget => "memory budget",
            Self::Admission => "admission",
            Self::Ingest => "ingest",
        }
    }
}

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobKind {
    /// Memtables become a run of L0.
    Flush,
    /// Tables of one level, or memtables, are merged into a deeper level.
    Compact,
    /// Runs of L0 become one run of L0.
    MergeWithin,
    /// Tables move to the next level without being rewritten.
    TrivialMove,
}

impl JobKind {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compact => "compact",
            Self::MergeWithin => "merge within",
            Self::TrivialMove => "trivial move",
        }
    }
}

/// A kind of user code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Callback {
    /// Combines operands with values.
    MergeOperator,
    /// Filters values while jobs rewrite them.
    CompactionFilter,
    /// Receives every event.
    Listener,
}

/// One stage of a compaction chain: jobs out of one level that a memtable had to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChainStage {
    /// The level in which room was made; 0 for L0.
    pub level: u8,
    /// Jobs of the stage.
    pub jobs: u64,
    /// The stage's width: bytes read and merged by its jobs during the wait.
    pub width: Bytes,
}

/// The compaction chain that one memtable waited for (vLSM (2024), §3): its stages are the levels
/// from which room had to be made before the memtable could be flushed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChainReport {
    /// The stages, L0 first.
    pub stages: Vec<ChainStage>,
    /// The time from the memtable's rotation to the grant of its flush.
    pub waited: Micros,
}

impl ChainStage {
    /// A stage without jobs so far.
    #[doc(hidden)]
    #[must_use]
    pub fn new(level: u8, width: Bytes) -> Self {
        Self { level, jobs: 0, width }
    }
}

impl ChainReport {
    /// A chain of these stages.
    #[doc(hidden)]
    #[must_use]
    pub fn new(stages: Vec<ChainStage>, waited: Micros) -> Self {
        Self { stages, waited }
    }

    /// Number of stages.
    #[must_use]
    pub fn length(&self) -> usize {
        self.stages.len()
    }

    /// Bytes over all stages.
    #[must_use]
    pub fn width(&self) -> Bytes {
        self.stages.iter().map(|stage| stage.width).sum()
    }
}

/// The chain that held up a write: that of its own keyspace or, if the admission slowed down all
/// keyspaces, the longest one of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Behind {
    /// The tree whose memtable waited for the chain.
    pub tree: TreeId,
    /// The name of its keyspace.
    pub keyspace: String,
    /// The chain up to the moment at which the write continued.
    pub chain: ChainReport,
}

impl Behind {
    /// A chain that held up a write.
    #[doc(hidden)]
    #[must_use]
    pub fn new(tree: TreeId, keyspace: String, chain: ChainReport) -> Self {
        Self { tree, keyspace, chain }
    }
}

/// Something that the engine does in a slower way on this machine, with the same results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SlowPath {
    /// The processor has no instruction for CRC-32C, the checksum of WAL records.
    WalChecksums,
    /// The processor has no AVX2 for XXH3, the checksum of blocks.
    BlockChecksums,
    /// The system gives memtables no huge pages, so that reads of memory wait more often.
    SmallPages,
}

/// An event. Later versions may add fields to its variants, so match them with `..`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The store is open.
    Opened {
        /// WAL batches replayed.
        batches: u64,
        /// WAL bytes read.
        wal_bytes: Bytes,
        /// Time since the call of open.
        took: Micros,
    },
    /// Recovery is in progress. Emitted at most once a second.
    Recovering {
        /// WAL bytes read so far.
        done: Bytes,
        /// WAL bytes in total.
        total: Bytes,
    },
    /// A memtable was sealed and a fresh one took its place.
    Rotated {
        /// Its tree.
        tree: TreeId,
        /// The name of the tree's keyspace.
        keyspace: String,
        /// The sealed one.
        memtable: MemtableId,
        /// Its size.
        bytes: Bytes,
    },
    /// A new WAL file is being written.
    WalSwitched {
        /// Its number.
        file: FileNumber,
        /// Whether it reuses the space of an older file.
        recycled: bool,
    },
    /// A job began.
    JobStarted {
        /// The job.
        job: JobId,
        /// Its tree.
        tree: TreeId,
        /// The name of the tree's keyspace.
        keyspace: String,
        /// Its kind.
        kind: JobKind,
        /// The source level; 0 for memtables and L0.
        from: u8,
        /// The output level.
        to: u8,
        /// Input bytes expected.
        bytes: Bytes,
    },
    /// A flush leaves hot keys in memory: they are in the active memtable, and in the WAL once
    /// more.
    HotKeysKept {
        /// The job.
        job: JobId,
        /// Its tree.
        tree: TreeId,
        /// The name of the tree's keyspace.
        keyspace: String,
        /// The number of hot keys.
        keys: u64,
        /// The bytes of the keys and their values.
        bytes: Bytes,
    },
    /// A job ended and its result is installed.
    JobFinished {
        /// The job.
        job: JobId,
        /// Its tree.
        tree: TreeId,
        /// The name of the tree's keyspace.
        keyspace: String,
        /// Its kind.
        kind: JobKind,
        /// The source level.
        from: u8,
        /// The output level.
        to: u8,
        /// Bytes read.
        read: Bytes,
        /// Bytes written.
        written: Bytes,
        /// SSTs written.
        files: u64,
        /// The time from its start to its install.
        took: Micros,
    },
    /// The results of jobs became part of the tree, as one group.
    Installed {
        /// Jobs of the group.
        jobs: u64,
        /// Tables added and removed.
        tables: u64,
        /// Time to build the new trees and publish them to readers.
        applied: Micros,
        /// Time to write and sync the manifest.
        written: Micros,
    },
    /// Files were ingested.
    Ingested {
        /// Ingested files.
        files: u64,
        /// Files that went to L0.
        into_l0: u64,
        /// Their length.
        bytes: Bytes,
        /// The time for which the ingest held up writes.
        held: Micros,
    },
    /// A job was cancelled; its output is discarded.
    JobCancelled {
        /// The job.
        job: JobId,
        /// Bytes written in vain.
        wasted: Bytes,
    },
    /// The flush of a memtable that had to wait was granted.
    ChainEnded {
        /// Its tree.
        tree: TreeId,
        /// The name of the tree's keyspace.
        keyspace: String,
        /// The chain that it waited for.
        chain: ChainReport,
    },
    /// A flush begins. If L0 were full, this chain would have to be merged before the next memtable
    /// could be flushed.
    ChainStood {
        /// Its tree.
        tree: TreeId,
        /// The name of the tree's keyspace.
        keyspace: String,
        /// Its stages; none if nothing would have to be merged.
        chain: ChainReport,
    },
    /// A write waited for a millisecond or more.
    Waited {
        /// The cause.
        cause: WaitCause,
        /// The duration.
        took: Micros,
        /// The keyspace that was written to; the first one of a batch over several. None for a read
        /// and for a wait for the WAL, which all keyspaces share.
        keyspace: Option<String>,
        /// The compaction chain that the write waited behind, if one was waited for meanwhile.
        behind: Option<Box<Behind>>,
    },
    /// Files are read or written through the page cache although the options ask for direct I/O:
    /// the platform or the store's file system does not support it. Emitted once, for the first
    /// file.
    Buffered {
        /// The file.
        path: PathBuf,
    },
    /// Batches are written to the WAL by system calls, because its files cannot be mapped into
    /// memory here: the platform, its version or the file system does not support it. Emitted once;
    /// the store works normally, but slower.
    WalUnmapped {
        /// The reason.
        error: Error,
    },
    /// Something is slower on this machine than on others. Emitted once for each such thing, when
    /// the store is opened.
    SlowPath {
        /// The thing that is slower.
        what: SlowPath,
    },
    /// With `salvage_wal`: the WAL is damaged, and the store was opened with the batches before the
    /// damage.
    WalDamaged {
        /// The first damage.
        error: Error,
    },
    /// With `salvage_wal`: this WAL lies wholly or partly after the damage, and is no longer part
    /// of the store. The file is kept.
    WalLost {
        /// Its path now.
        path: PathBuf,
        /// Readable batches in it. Those that are not in SSTs already are lost.
        batches: u64,
        /// The first sequence numbers of the first and of the last batch.
        seqs: Option<(Seq, Seq)>,
    },
    /// With `salvage_ssts`: this SST is damaged or missing, and was removed from a tree. The file
    /// is kept. Emitted once for each place in the trees that showed it.
    SstLost {
        /// Its path now, or the path where it was missing.
        path: PathBuf,
        /// The first damage.
        error: Error,
        /// Its tree.
        tree: TreeId,
        /// The name of the tree's keyspace.
        keyspace: String,
        /// Its level.
        level: u8,
        /// Entries of the file, according to the manifest.
        entries: u64,
        /// The smallest and the largest sequence number of the entries.
        seqs: (Seq, Seq),
    },
    /// An unneeded file could not be removed. It only takes space: the store tries again when it
    /// removes others, and when it is opened.
    NotRemoved {
        /// The file and the system's error.
        error: Error,
    },
    /// A device is full. Writes are refused until there is space.
    OutOfSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// There is space again, and writes are accepted.
    SpaceReturned {
        /// The time for which they were refused.
        after: Micros,
    },
    /// User code panicked for the first time since the store was opened. Later panics of the same
    /// code are only counted. Nothing is lost: the value that a merge operator or a compaction
    /// filter panicked on stays unchanged, and a listener gets no further events.
    CallbackPanicked {
        /// The kind of the code.
        callback: Callback,
        /// Its name; empty for a listener, which has none.
        name: String,
        /// Its keyspace; empty for a listener.
        keyspace: String,
    },
    /// A background failure. Writes are refused from now on.
    BackgroundError {
        /// The error that caused it.
        error: Error,
    },
    /// The store is closed.
    Closed,
}

impl Event {
    /// The kind of the event as one word, for logs and filters.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Recovering { .. } => "recovering",
            Self::Rotated { .. } => "rotated",
            Self::WalSwitched { .. } => "wal_switched",
            Self::JobStarted { .. } => "job_started",
            Self::HotKeysKept { .. } => "hot_keys_kept",
            Self::JobFinished { .. } => "job_finished",
            Self::Installed { .. } => "installed",
            Self::Ingested { .. } => "ingested",
            Self::JobCancelled { .. } => "job_cancelled",
            Self::ChainEnded { .. } => "chain_ended",
            Self::ChainStood { .. } => "chain_stood",
            Self::Waited { .. } => "waited",
            Self::Buffered { .. } => "buffered",
            Self::WalUnmapped { .. } => "wal_unmapped",
            Self::SlowPath { .. } => "slow_path",
            Self::WalDamaged { .. } => "wal_damaged",
            Self::WalLost { .. } => "wal_lost",
            Self::SstLost { .. } => "sst_lost",
            Self::NotRemoved { .. } => "not_removed",
            Self::OutOfSpace { .. } => "out_of_space",
            Self::SpaceReturned { .. } => "space_returned",
            Self::CallbackPanicked { .. } => "callback_panicked",
            Self::BackgroundError { .. } => "background_error",
            Self::Closed => "closed",
        }
    }

    /// The keyspace that the event concerns; none if it concerns the whole store, or if the name of
    /// the tree is unknown.
    #[must_use]
    pub fn keyspace(&self) -> Option<&str> {
        let name = match self {
            Self::Rotated { keyspace, .. }
            | Self::JobStarted { keyspace, .. }
            | Self::HotKeysKept { keyspace, .. }
            | Self::JobFinished { keyspace, .. }
            | Self::ChainEnded { keyspace, .. }
            | Self::ChainStood { keyspace, .. }
            | Self::SstLost { keyspace, .. }
            | Self::CallbackPanicked { keyspace, .. } => keyspace,
            Self::Waited { keyspace, .. } => keyspace.as_deref()?,
            _ => return None,
        };
        Some(name).filter(|name| !name.is_empty())
    }

    /// Fills in the name of the keyspace, where there is a tree without one.
    #[doc(hidden)]
    pub fn name_keyspace(&mut self, name: impl Fn(TreeId) -> String) {
        match self {
            Self::Rotated { tree, keyspace, .. }
            | Self::JobStarted { tree, keyspace, .. }
            | Self::HotKeysKept { tree, keyspace, .. }
            | Self::JobFinished { tree, keyspace, .. }
            | Self::ChainEnded { tree, keyspace, .. }
            | Self::ChainStood { tree, keyspace, .. }
            | Self::SstLost { tree, keyspace, .. }
                if keyspace.is_empty() =>
            {
                *keyspace = name(*tree);
            }
            _ => {}
        }
    }
}
