//! One writer works for a group: which of the others waits for which piece of work.
//!
//! The work is a write of the buffer, or a sync. The first writer that finds nobody at it does it
//! for all whose records it reaches; they are its group. Writers that come while it runs are the
//! next group. The end of the work wakes its own group, and one writer of the next, who does the
//! next work. So a writer sleeps once and is woken once, however many there are: if every end woke
//! all of them, 500 writers would take turns on the processors to find that it was not for them.
//!
//! Only whether a group's number is even or odd is kept: at most two groups wait at a time.
//!
//! Nobody misses a wake-up. A writer reads the epoch of its group's condition. Then it looks
//! whether its records are reached, whether somebody is at work, and, once more, which group it
//! belongs to, in this order ([`Groups::join`] to [`Groups::wait`]); what changes one of them is
//! followed by a notification. One writer of the next group suffices: it belongs to that group
//! because nobody has reached its records, so it does the work, unless somebody else has begun.

use crate::shared::Shared;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Race, races};
use std::sync::Arc;
use std::time::Duration;
use vlsm_disk::Condition;

/// The groups that wait for one kind of work.
pub(super) struct Groups {
    /// The position up to which the work of the last group reaches, and whether its number is odd
    /// in the lowest bit. Changed by the one at work.
    last: AtomicU64,
    /// The conditions on which the writers of even and of odd groups sleep.
    ended: [Arc<dyn Condition>; 2],
}

/// A group, by whether its number is odd.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Group(usize);

impl Group {
    fn next(self) -> Self {
        Self(1 - self.0)
    }
}

/// A writer's place in its group.
pub(super) struct Place {
    group: Group,
    epoch: u64,
}

impl Groups {
    /// Returns the groups of a log that has not begun any. A waiter spins this long before it
    /// sleeps.
    pub fn new(shared: &Shared, spin: Duration) -> Self {
        let condition = || shared.channel.condition(&*shared.env, spin);
        Self { last: AtomicU64::new(0), ended: [condition(), condition()] }
    }

    /// The last group that began.
    pub fn last(&self) -> Group {
        Group((self.last.load(Ordering::SeqCst) & 1) as usize)
    }

    /// The group of a writer whose records end at this position.
    #[inline]
    fn of(&self, position: u64) -> Group {
        let last = self.last.load(Ordering::SeqCst);
        let group = Group((last & 1) as usize);
        if position <= last >> 1 { group } else { group.next() }
    }

    /// The place of a writer whose records end at this position. Taken before it looks whether it
    /// has to wait.
    #[inline]
    pub fn join(&self, position: u64) -> Place {
        let group = self.of(position);
        Place { group, epoch: self.ended[group.0].epoch() }
    }

    /// Waits until something may have changed for the writer at this place. The caller found
    /// another thread at work after it took the place.
    pub fn wait(&self, position: u64, place: Place) {
        if self.of(position) == place.group {
            self.ended[place.group.0].wait(place.epoch, None);
        }
    }

    /// Begins the next group, whose work reaches up to this position. Called by the thread at work.
    #[inline]
    pub fn begin(&self, end: u64) {
        let next = self.last().next();
        self.last.store(end << 1 | next.0 as u64, Ordering::SeqCst);
    }

    /// Ends this group: the thread at work has released its lock. The next group may have begun
    /// since then.
    #[inline]
    pub fn end(&self, group: Group) {
        // First, because the device is idle until that writer runs.
        if !races(Race::NextGroupSleeps) {
            self.ended[group.next().0].notify_one();
        }
        self.ended[group.0].notify();
    }

    /// Wakes all waiters, so that they look at the store's health.
    pub fn wake(&self) {
        self.ended.iter().for_each(|ended| ended.notify());
    }
}
