//! The engine's locks and atomics, so that tests can replace them.
//!
//! In production they are those of `parking_lot` and the standard library. In the library's own
//! tests with `--cfg shuttle` they are shuttle's, which switches between threads at each of
//! them as its scheduler says: the scenarios in `tests` then run the real engine under thousands of
//! schedules. Code that never blocks and orders nothing (counters, the skip list, the arrays of
//! views) keeps the real ones.
//!
//! A scenario proves little unless it can fail: [`Race`] lists mistakes that a scenario plants, to
//! check that it finds them (those of `vlsm_core::planted` are for the simulator: one at a time in
//! a process, while scenarios run side by side). Outside these tests [`slips`] is false and costs
//! nothing.

#[cfg(not(all(test, shuttle)))]
pub(crate) use self::real::*;
#[cfg(all(test, shuttle))]
pub(crate) use self::shuttled::*;

/// A mistake in ordering that a scenario must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Race {
    /// A batch becomes visible when it is finished, whatever comes before it.
    PublishAtOnce,
    /// The one that publishes does not look at the ring again after it let go of it.
    PublishNoSecondLook,
    /// The one that publishes wakes none of the writers whose batches it published.
    PublishWakesNobody,
    /// A writer goes on without waiting for the one that writes its record.
    WriteNoWait,
    /// The last writer of a memtable looks whether it is sealed before it counts itself out.
    EndWriteLooksFirst,
    /// The one that installs does not look at the queue again after it let go of the leadership.
    InstallNoSecondLook,
    /// Letting go of the leadership wakes nobody.
    LeadNoNotify,
    /// The end of a write or of a sync wakes its own group only.
    NextGroupSleeps,
    /// A new rate wakes nobody at the gate.
    GateNoNotify,
    /// Closing wakes nobody at the gate.
    CloseNoNotify,
}

#[cfg(not(all(test, shuttle)))]
mod real {
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic;

    /// Never.
    #[inline(always)]
    pub(crate) const fn races(_: super::Race) -> bool {
        false
    }
}

#[cfg(all(test, shuttle))]
mod shuttled {
    pub(crate) use shuttle::sync::{MutexGuard, atomic};
    use std::cell::Cell;
    use std::sync::{PoisonError, TryLockError};

    /// Shuttle's lock as `parking_lot`'s: without poison.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        }

        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }

        pub fn is_locked(&self) -> bool {
            self.try_lock().is_none()
        }
    }

    thread_local! {
        static PLANTED: Cell<Option<super::Race>> = const { Cell::new(None) };
    }

    /// Whether this mistake is to be made. A run of shuttle is on one thread.
    pub(crate) fn races(bug: super::Race) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Switches a planted race on, or all off.
    pub(crate) fn plant(bug: Option<super::Race>) {
        PLANTED.set(bug);
    }
}
