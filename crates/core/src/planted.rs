//! Bugs that can be switched on, to check that the tests find them.
//!
//! Each is a mistake that some store has made. The code in question checks [`is`](fn@is)`(Bug::…)`
//! in one line; without the feature `planted` this is false at compile time, so it costs nothing.
//! With the feature, `plant` switches one bug on for the whole process, and a test of the simulator
//! asserts that its checks catch every one.
//!
//! Threads and locks: one atomic.

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A flush or compaction is installed before the directory entries of its files are durable.
    DirectorySyncSkipped = 1,
    /// An SST's file is not synced before it is installed.
    SstSyncSkipped,
    /// A flush is installed before the WAL is durable through it.
    WalSyncSkipped,
    /// An append to the manifest is not synced.
    ManifestSyncSkipped,
    /// `CURRENT` names a new manifest before that is durable.
    PointerBeforeManifest,
    /// The rename of `CURRENT` is not made durable before the old manifest is removed.
    CurrentSyncSkipped,
    /// A failed sync of the WAL is retried, and its success is trusted.
    FailedSyncRetried,
    /// After a failed append the store continues to write.
    FailedAppendForgotten,
    /// A batch is visible before it is in its memtables.
    PublishedBeforeInsert,
    /// A memtable is flushed while a batch is still being inserted into it.
    FlushedBeforeDrained,
    /// A job's list of snapshots lacks the newest one.
    SnapshotOverlooked,
    /// A view and its sequence number are not taken together, so that an atomic batch is torn.
    ViewTorn,
    /// A tombstone is dropped while an older version lies below.
    TombstoneDroppedEarly,
    /// One user key is split over two SSTs of a level.
    UserKeySplit,
    /// One of a compaction's inputs is removed from the tree without having been merged.
    InputForgotten,
    /// A compaction takes the newest run of L0 instead of the oldest.
    L0OutOfOrder,
    /// The older of two sealed memtables is read first.
    OlderMemtableFirst,
    /// Inputs are deleted before their removal is durable in the manifest.
    InputsDeletedEarly,
    /// WAL files are released while memtables need them.
    WalReleasedEarly,
    /// The checksums of a recycled WAL do not cover its file number.
    RecycledWalUnbound,
    /// A block's checksum is not checked.
    ChecksumIgnored,
    /// A compaction takes an unreadable part of its input for the input's end.
    UnreadableSkipped,
    /// A get takes an unreadable SST for one without the key.
    ReadErrorHidden,
    /// An iterator continues after an error.
    IteratorPastError,
    /// Waiters for a free memtable, or for the leadership of installs, are not woken.
    WakeUpLost,
    /// A thread that ended because it had nothing to do is not started for new work.
    DormantForgotten,
    /// The memtable is not sealed before files are ingested above it.
    IngestUnsealed,
    /// An open takes the end of the manifest for durable because it can be read.
    ManifestTailTrusted,
    /// An open takes the end of the WAL for durable because it can be read.
    WalTailTrusted,
    /// The expiry clock follows a system clock that is set back.
    ClockFalls,
    /// A job reads the clock after it has read the list of snapshots.
    ClockReadLate,
    /// A reader in a store with a compaction filter does not keep its views of the trees.
    FilteredNotKept,
    /// A compaction filter is called for a value that a snapshot needs.
    SnapshotFiltered,
    /// A salvage of the log continues with the files after the damaged one.
    SalvageKeepsWhatFollows,
    /// A salvage removes the files that it gives up instead of moving them aside.
    SalvageDeletes,
    /// A group is written to the manifest without a check that it can be read back.
    GroupUnread,
    /// New files get numbers after those of foreign files.
    NumberTakenFromStranger,
    /// An open removes leftovers before it knows that it will succeed.
    RefusedOpeningWrites,
    /// A temporary lack of file descriptors is taken for a failure of the device.
    PassingErrorLatches,
    /// An open removes unneeded files only after it has begun its WAL.
    LeftoversRemovedLate,
    /// A copy does not lock its target folder.
    CopyUnlocked,
    /// A copy is reported as done before its files are durable.
    CopyUnsynced,
    /// A keyspace may be created between the moment of a copy and the end of its log.
    CopyTreesTorn,
    /// A manifest append that a full device refused is given up, but not cut off.
    RefusedEditKept,
    /// After a failed change of the manifest, closing relies on its earlier content.
    FailedEditForgotten,
    /// A flush that left hot keys in memory is installed before they are logged again.
    KeptUnsynced,
    /// A hot key is kept although a memtable in between has a newer version of it.
    KeptHidesNewer,
    /// A recovery leaves out the hot keys that were logged again.
    KeptNotRecovered,
    /// A WAL to which SSTs refer is used again for other records.
    LinkedWalReused,
    /// The commit of a transaction does not check the ranges that it read.
    RangeUnchecked,
    /// A transaction does not see its own writes.
    OwnWriteUnseen,
    /// The commit of a transaction checks its reads, and overlooks batches that are sequenced
    /// before its own.
    CheckedTooEarly,
    /// The commit of a transaction that nothing visible has outrun overlooks batches that are
    /// sequenced and not visible yet.
    UnseenOverlooked,
    /// The commit of a transaction overlooks files that are ingested meanwhile.
    IngestUnchecked,
    /// A keyspace is cleared or dropped without a record in the manifest.
    ClearUnrecorded,
    /// A keyspace is cleared before what was written earlier is durable.
    ClearUnsynced,
    /// A reader from before a keyspace was cleared sees it cleared.
    ClearSeenEarly,
    /// A batch that was filled before a keyspace was cleared is lost with the keyspace's contents.
    FormerBatchLost,
    /// The result of a job is installed although its tree is not in use any more.
    GoneInstalled,
    /// A rename of a keyspace is not written to the manifest.
    RenameUnrecorded,
    /// A keyspace's new name can be seen before it is durable.
    RenameSeenEarly,
    /// A reader beside the writing process overlooks manifest records that were appended while it
    /// read the WALs.
    LaterUnread,
    /// Records that are not in the map of the WAL's file count as written.
    WindowUnstored,
    /// A sync through the map of the WAL's file omits the last page, and the position counts.
    WindowUnsynced,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 64] = [
        Self::DirectorySyncSkipped,
        Self::SstSyncSkipped,
        Self::WalSyncSkipped,
        Self::ManifestSyncSkipped,
        Self::PointerBeforeManifest,
        Self::CurrentSyncSkipped,
        Self::FailedSyncRetried,
        Self::FailedAppendForgotten,
        Self::PublishedBeforeInsert,
        Self::FlushedBeforeDrained,
        Self::SnapshotOverlooked,
        Self::ViewTorn,
        Self::TombstoneDroppedEarly,
        Self::UserKeySplit,
        Self::InputForgotten,
        Self::L0OutOfOrder,
        Self::OlderMemtableFirst,
        Self::InputsDeletedEarly,
        Self::WalReleasedEarly,
        Self::RecycledWalUnbound,
        Self::ChecksumIgnored,
        Self::UnreadableSkipped,
        Self::ReadErrorHidden,
        Self::IteratorPastError,
        Self::WakeUpLost,
        Self::DormantForgotten,
        Self::IngestUnsealed,
        Self::ManifestTailTrusted,
        Self::WalTailTrusted,
        Self::ClockFalls,
        Self::ClockReadLate,
        Self::FilteredNotKept,
        Self::SnapshotFiltered,
        Self::SalvageKeepsWhatFollows,
        Self::SalvageDeletes,
        Self::GroupUnread,
        Self::NumberTakenFromStranger,
        Self::RefusedOpeningWrites,
        Self::PassingErrorLatches,
        Self::LeftoversRemovedLate,
        Self::CopyUnlocked,
        Self::CopyUnsynced,
        Self::CopyTreesTorn,
        Self::RefusedEditKept,
        Self::FailedEditForgotten,
        Self::KeptUnsynced,
        Self::KeptHidesNewer,
        Self::KeptNotRecovered,
        Self::LinkedWalReused,
        Self::RangeUnchecked,
        Self::OwnWriteUnseen,
        Self::CheckedTooEarly,
        Self::UnseenOverlooked,
        Self::IngestUnchecked,
        Self::ClearUnrecorded,
        Self::ClearUnsynced,
        Self::ClearSeenEarly,
        Self::FormerBatchLost,
        Self::GoneInstalled,
        Self::RenameUnrecorded,
        Self::RenameSeenEarly,
        Self::LaterUnread,
        Self::WindowUnstored,
        Self::WindowUnsynced,
    ];
}

#[cfg(feature = "planted")]
mod switch {
    use super::Bug;
    use std::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Switches this bug on, and any other off.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::SeqCst);
    }

    /// Whether this bug is on.
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, plant};

/// Whether this bug is on: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[must_use]
pub const fn is(_: Bug) -> bool {
    false
}
