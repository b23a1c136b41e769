//! The snapshots of readers: registered sequence numbers, and views that filters may not change.
//! Jobs consult them before they drop or change an entry ([`Snapshots::frozen`],
//! [`Snapshots::may_filter`]).

use crate::read::view::{FilteredTrees, StoreView, Views};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use vlsm_core::Seq;
use vlsm_core::planted::{self, Bug};

/// The sequence numbers that readers hold, each with the number of its holders.
///
/// One lock orders registering and freezing: [`Snapshots::register`] loads the visible sequence
/// number under it, and [`Snapshots::frozen`] copies the list under it. So a job whose inputs were
/// published before it froze the list never drops an entry that a later snapshot needs.
///
/// A job with a compaction filter changes the state at a sequence number. So it does not filter
/// entries that its frozen list shows, and a reader that registers while the job is running keeps
/// the present views of the trees with filters ([`Snapshots::keep_filtered`], after registering).
/// One of the two sees the other, because the lock orders them.
///
/// The number of kept states is bounded: while readers keep [`KEPT_MAX`] or more outdated states of
/// the trees, new jobs do not call their filter ([`Snapshots::may_filter`]). This loses little,
/// because entries older than the readers belong to their snapshots, and are not filtered anyway.
#[derive(Default)]
pub(crate) struct Snapshots {
    held: Mutex<Registered>,
    /// The number of running jobs with a compaction filter.
    filtering: Arc<AtomicUsize>,
    /// The states of the trees with filters that readers keep.
    kept: Mutex<Vec<Weak<FilteredTrees>>>,
}

/// The registrations that were not released yet.
#[derive(Default)]
struct Registered {
    /// The number of holders of each sequence number.
    counts: BTreeMap<Seq, usize>,
    /// The time since which each is held, if it is known: that of the first registration with a
    /// time, or of the first reading of the statistics. Separate from the counts, so that it costs
    /// an iterator nothing.
    since: BTreeMap<Seq, Duration>,
}

/// From this number of outdated states that readers keep, new jobs do not call their filter.
const KEPT_MAX: usize = 8;

/// Marks a job with a compaction filter, from before it freezes the snapshots until after its
/// install.
#[derive(Debug)]
pub(crate) struct Filtering(Arc<AtomicUsize>);

impl Drop for Filtering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Snapshots {
    /// Registers a reader at the sequence number that `visible` returns. The time is for
    /// statistics; a short-lived reader passes none.
    pub fn register(&self, now: Option<Duration>, visible: impl FnOnce() -> Seq) -> Seq {
        let mut held = self.held.lock();
        let seq = visible();
        *held.counts.entry(seq).or_default() += 1;
        if let Some(now) = now {
            held.since.entry(seq).or_insert(now);
        }
        seq
    }

    /// The number of registrations, and the time since which the oldest state is held. A
    /// registration without a time gets `now`.
    pub fn held(&self, now: Duration) -> (u64, Option<Duration>) {
        let mut held = self.held.lock();
        let Registered { counts, since } = &mut *held;
        let count = counts.values().map(|count| *count as u64).sum();
        (count, counts.keys().map(|seq| *since.entry(*seq).or_insert(now)).min())
    }

    /// Releases a registration.
    pub fn release(&self, seq: Seq) {
        let mut held = self.held.lock();
        if let Some(count) = held.counts.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                held.counts.remove(&seq);
                if !held.since.is_empty() {
                    held.since.remove(&seq);
                }
            }
        }
    }

    /// Marks the begin of a job with a compaction filter.
    pub fn filter_begins(&self) -> Filtering {
        self.filtering.fetch_add(1, Ordering::AcqRel);
        Filtering(self.filtering.clone())
    }

    /// The trees whose present views a registered reader must keep, because a filter may change the
    /// state that it sees.
    pub fn keep_filtered(&self, views: &Views) -> Option<Arc<FilteredTrees>> {
        if self.filtering.load(Ordering::Acquire) == 0 || planted::is(Bug::FilteredNotKept) {
            return None;
        }
        let filtered = views.load().filtered().clone();
        let mut kept = self.kept.lock();
        kept.retain(|state| state.strong_count() > 0);
        if !kept.iter().any(|state| std::ptr::eq(state.as_ptr(), &raw const *filtered)) {
            kept.push(Arc::downgrade(&filtered));
        }
        Some(filtered)
    }

    /// Whether a new job may call its filter.
    pub fn may_filter(&self, view: &StoreView) -> bool {
        let current = Arc::as_ptr(view.filtered());
        let kept = self.kept.lock();
        let outdated = |state: &&Weak<_>| state.strong_count() > 0 && state.as_ptr() != current;
        kept.iter().filter(outdated).count() < KEPT_MAX
    }

    /// All held sequence numbers, ascending.
    pub fn numbers(&self) -> Vec<Seq> {
        self.held.lock().counts.keys().copied().collect()
    }

    /// The same, for a new job.
    pub fn frozen(&self) -> Vec<Seq> {
        let held = self.held.lock();
        let overlooked = usize::from(planted::is(Bug::SnapshotOverlooked));
        held.counts.keys().copied().take(held.counts.len().saturating_sub(overlooked)).collect()
    }
}
