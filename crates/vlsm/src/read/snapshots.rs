//! The snapshots of readers: registered sequence numbers, and views that filters may not change.
//! Jobs ask before they drop or change an entry ([`Snapshots::frozen`], [`Snapshots::may_filter`]).

use crate::read::view::{FilteredTrees, StoreView, Views};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use vlsm_core::Seq;
use vlsm_core::planted::{self, Bug};

/// The sequence numbers that readers hold, with how many hold each.
///
/// One lock orders registering against freezing: [`Snapshots::register`] loads the visible sequence
/// number inside it, [`Snapshots::frozen`] copies the list inside it. So a job whose inputs were
/// published before it froze the list never drops an entry that a later snapshot needs.
///
/// A job that asks a compaction filter changes what a sequence number shows, so it leaves alone
/// what its frozen list shows; and a reader that comes while it is under way keeps the trees with
/// filters as it found them ([`Snapshots::keep_filtered`], after registering). One of the two sees
/// the other, because the lock orders them.
///
/// The states that readers keep are bounded: while readers keep [`KEPT_MAX`] or more outdated
/// states of the trees, jobs that begin do not ask their filter ([`Snapshots::may_filter`]). Little
/// is lost by that: entries older than the readers belong to their snapshots, and no filter is
/// asked about them anyway.
#[derive(Default)]
pub(crate) struct Snapshots {
    held: Mutex<Registered>,
    /// Jobs under way that ask a compaction filter.
    filtering: Arc<AtomicUsize>,
    /// The states of the trees with filters that readers were given to keep.
    kept: Mutex<Vec<Weak<FilteredTrees>>>,
}

/// The registrations that were not taken back.
#[derive(Default)]
struct Registered {
    /// How many hold each sequence number.
    counts: BTreeMap<Seq, usize>,
    /// Since when, as far as it is known: from the first registration with a time, or from the
    /// first look at the statistics. Apart from the counts, so that an iterator pays nothing.
    since: BTreeMap<Seq, Duration>,
}

/// Outdated states of the trees with filters, kept by readers, from which on no job asks a filter.
const KEPT_MAX: usize = 8;

/// A job that asks a compaction filter, from before it freezes the snapshots until after its
/// install.
#[derive(Debug)]
pub(crate) struct Filtering(Arc<AtomicUsize>);

impl Drop for Filtering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Snapshots {
    /// Registers a reader at what `visible` says at this moment. The time is for statistics; a
    /// short-lived reader does without.
    pub fn register(&self, now: Option<Duration>, visible: impl FnOnce() -> Seq) -> Seq {
        let mut held = self.held.lock();
        let seq = visible();
        *held.counts.entry(seq).or_default() += 1;
        if let Some(now) = now {
            held.since.entry(seq).or_insert(now);
        }
        seq
    }

    /// Number of registrations, and the time since which the oldest state is held. One that was
    /// registered without a time gets this one.
    pub fn held(&self, now: Duration) -> (u64, Option<Duration>) {
        let mut held = self.held.lock();
        let Registered { counts, since } = &mut *held;
        let count = counts.values().map(|count| *count as u64).sum();
        (count, counts.keys().map(|seq| *since.entry(*seq).or_insert(now)).min())
    }

    /// Takes back a registration.
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

    /// A job that asks a compaction filter begins.
    pub fn filter_begins(&self) -> Filtering {
        self.filtering.fetch_add(1, Ordering::AcqRel);
        Filtering(self.filtering.clone())
    }

    /// The trees that a reader has to keep as they are: it has registered, and a filter may be
    /// asked for what it sees.
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

    /// Whether a job that begins may ask a filter.
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

    /// The same, for a job that begins.
    pub fn frozen(&self) -> Vec<Seq> {
        let held = self.held.lock();
        let overlooked = usize::from(planted::is(Bug::SnapshotOverlooked));
        held.counts.keys().copied().take(held.counts.len().saturating_sub(overlooked)).collect()
    }
}
