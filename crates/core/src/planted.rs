//! Bugs that can be switched on, to see whether the tests find them.
//!
//! Each is a mistake that some store has made. The place where it would be made asks
//! [`is`](fn@is)`(Bug::…)` in one line; a build without the feature `planted` answers false at
//! compile time, so nothing of it is left. With the feature, `plant` switches one on for the
//! whole process, and a test of the simulator asserts that its checks catch every one.
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
    /// The rename of `CURRENT` is not made durable before the old manifest goes.
    CurrentSyncSkipped,
    /// A failed sync of the WAL is tried again, and believed.
    FailedSyncRetried,
    /// After a failed append the store writes on.
    FailedAppendForgotten,
    /// A batch is visible before it is in its memtables.
    PublishedBeforeInsert,
    /// A memtable is flushed while a batch is still being inserted into it.
    FlushedBeforeDrained,
    /// The list of snapshots that a job keeps lacks the newest one.
    SnapshotOverlooked,
    /// A view and its sequence number are taken apart, so that an atomic batch is torn.
    ViewTorn,
    /// A tombstone is dropped while an older version lies below.
    TombstoneDroppedEarly,
    /// One user key is split over two SSTs of a level.
    UserKeySplit,
    /// One of a compaction's inputs is removed from the tree without having been merged.
    InputForgotten,
    /// A compaction takes the newest run of L0 instead of the oldest.
    L0OutOfOrder,
    /// Of two sealed memtables the older one is read first.
    OlderMemtableFirst,
    /// Inputs are deleted before the manifest says so durably.
    InputsDeletedEarly,
    /// WAL files are let go of while memtables need them.
    WalReleasedEarly,
    /// A recycled WAL's records are not bound to their file.
    RecycledWalUnbound,
    /// A block's checksum is not looked at.
    ChecksumIgnored,
    /// A compaction takes an unreadable part of its input for the end of it.
    UnreadableSkipped,
    /// A get takes an SST that cannot be read for one without the key.
    ReadErrorHidden,
    /// An iterator goes on after an error.
    IteratorPastError,
    /// Those who wait for a free memtable, or for the lead of the installs, are not woken.
    WakeUpLost,
    /// The memtable is not sealed before files are ingested above it.
    IngestUnsealed,
    /// An opening takes the end of the manifest for durable because it can be read.
    ManifestTailTrusted,
    /// An opening takes the end of the WAL for durable because it can be read.
    WalTailTrusted,
    /// The time by which values expire follows a clock that is set back.
    ClockFalls,
    /// A job reads the clock after it has looked which snapshots there are.
    ClockReadLate,
    /// A reader beside a compaction filter does not keep the trees as it found them.
    FilteredNotKept,
    /// What a compaction filter is asked for may be a snapshot's.
    SnapshotFiltered,
    /// A salvage of the log goes on with the files behind the damaged one.
    SalvageKeepsWhatFollows,
    /// A salvage removes what it gives up instead of keeping it aside.
    SalvageDeletes,
    /// A change is written to the manifest without a look at whether it can be read back.
    GroupUnread,
    /// New files get numbers that follow those of strangers' files.
    NumberTakenFromStranger,
    /// An opening removes leftovers before it knows that it will not be refused.
    RefusedOpeningWrites,
    /// A lack of descriptors that passes is taken for a failure of the device.
    PassingErrorLatches,
    /// An opening removes what nobody needs only after it has begun its WAL.
    LeftoversRemovedLate,
    /// A copy does not lock the folder that it is made in.
    CopyUnlocked,
    /// A copy is reported as done before its files are durable.
    CopyUnsynced,
    /// A keyspace may be made between the moment of a copy and the end of its log.
    CopyTreesTorn,
    /// What a full device refused of the manifest is given up, but not cut off.
    RefusedEditKept,
    /// After a change of the manifest that failed, closing relies on what it said before.
    FailedEditForgotten,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 44] = [
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
