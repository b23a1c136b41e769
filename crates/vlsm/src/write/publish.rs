//! Publishing: batches become visible in the order in which they were sequenced.
//! The last stage of a commit before the sync; it takes no lock.

use crate::read::view::Views;
use crate::shared::health::Health;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Race, races};
use std::sync::Arc;
use std::time::Duration;
use vlsm_core::{Result, Seq};
use vlsm_disk::Condition;

/// Batches that may be between sequencing and publishing at once.
pub(crate) const IN_FLIGHT_MAX: u64 = 4096;
/// The writers that wait for their batches sleep on so many conditions, by ticket.
const SEATS: u64 = 64;
/// A waiter for its turn to publish spins this long before it sleeps.
pub(crate) const PUBLISH_SPIN: Duration = Duration::from_micros(5);

/// Makes batches visible in the order of their tickets.
///
/// Each finished batch puts its last sequence number into its slot of a ring. Whoever finds the
/// slot at the head filled, and nobody else at work, empties it, moves the visible sequence number
/// on and looks at the next. So a late batch publishes all that waited behind it, and nobody waits
/// for a lock.
///
/// A writer whose batch is finished before earlier ones sleeps at the seat of its ticket, and is
/// woken when that is published. If all slept on one condition, hundreds of writers would be woken
/// by each batch.
pub(crate) struct Publisher {
    slots: Box<[AtomicU64]>,
    head: AtomicU64,
    views: Arc<Views>,
    advancing: AtomicBool,
    advanced: Arc<dyn Condition>,
    seats: Box<[Arc<dyn Condition>]>,
}

impl Publisher {
    /// A publisher with nothing to publish, and its conditions.
    pub fn new(condition: impl Fn() -> Arc<dyn Condition>, views: &Arc<Views>) -> Self {
        Self {
            slots: (0..IN_FLIGHT_MAX).map(|_| AtomicU64::new(0)).collect(),
            head: AtomicU64::new(0),
            views: views.clone(),
            advancing: AtomicBool::new(false),
            advanced: condition(),
            seats: (0..SEATS).map(|_| condition()).collect(),
        }
    }

    fn slot(&self, ticket: u64) -> &AtomicU64 {
        &self.slots[(ticket % IN_FLIGHT_MAX) as usize]
    }

    /// How many of the tickets below `next` are not published yet.
    pub fn in_flight(&self, next: u64) -> u64 {
        next - self.head.load(Ordering::Acquire)
    }

    /// The epoch of "something was published".
    pub fn epoch(&self) -> u64 {
        self.advanced.epoch()
    }

    /// Waits until something may have been published since `epoch`.
    pub fn wait(&self, epoch: u64, until: Option<Duration>) {
        self.advanced.wait(epoch, until);
    }

    /// Waits until the batch with this ticket is published. It ends with this sequence number.
    ///
    /// # Errors
    /// The store has failed.
    pub fn await_turn(&self, ticket: u64, last_seq: Seq, health: &Health) -> Result<()> {
        let seat = self.seat(ticket);
        loop {
            let epoch = seat.epoch();
            if self.views.visible() >= last_seq {
                return Ok(());
            }
            health.check_running()?;
            seat.wait(epoch, None);
        }
    }

    /// The condition that is notified when the batch with this ticket is published.
    fn seat(&self, ticket: u64) -> &Arc<dyn Condition> {
        &self.seats[(ticket % SEATS) as usize]
    }

    /// Wakes all waiters so that they look at the store's health.
    pub fn wake(&self) {
        self.advanced.notify();
        self.seats.iter().for_each(|seat| seat.notify());
    }

    /// The batch with this ticket may become visible, once all before it are.
    pub fn finish(&self, ticket: u64, last_seq: Seq) {
        let before = self.slot(ticket).swap(last_seq.0, Ordering::SeqCst);
        assert!(before == 0 && last_seq > Seq(0), "ticket {ticket} meets {before} in its slot");
        if races(Race::PublishAtOnce) {
            self.views.publish(self.views.visible().max(last_seq));
        }
        // SeqCst throughout: who finds `advancing` set relies on its holder to see the slot stored
        // before, if not in its pass then in the look at the head after it.
        while self.slot(self.head.load(Ordering::SeqCst)).load(Ordering::SeqCst) != 0 {
            if self.advancing.swap(true, Ordering::SeqCst) {
                return;
            }
            let first = self.head.load(Ordering::SeqCst);
            let mut head = first;
            loop {
                let last = self.slot(head).swap(0, Ordering::SeqCst);
                if last == 0 {
                    break;
                }
                head += 1;
                self.views.publish(Seq(last));
                self.head.store(head, Ordering::SeqCst);
            }
            self.advancing.store(false, Ordering::SeqCst);
            self.advanced.notify();
            // Nobody sleeps for this thread's own batch.
            let others = head > first + 1 || first != ticket;
            if others && !races(Race::PublishWakesNobody) {
                let published = first..head.min(first + SEATS);
                published.for_each(|ticket| self.seat(ticket).notify());
            }
            if races(Race::PublishNoSecondLook) {
                return;
            }
        }
    }
}
