//! A value that is kept once for each group of threads, so that threads on different processors do
//! not wait for each other's cache line. Counters of frequent operations are kept this way.
//!
//! A thread belongs to one of 16 groups for its life. The groups are the same for all striped
//! values of the process, and threads are spread over them in turn. A value takes 2 KB.
//!
//! Invariant: only the sum over all groups means something. Threads and locks: several threads may
//! be in a group, so a value must be safe to share. Source: `Striped64` of Java.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of groups of threads.
const STRIPES: usize = 16;

/// One value for each group of threads.
#[derive(Debug, Default)]
pub struct Striped<T>([Stripe<T>; STRIPES]);

/// Two cache lines, because the processor fetches them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe<T>(T);

impl<T> Striped<T> {
    /// The value of the calling thread's group.
    #[must_use]
    #[inline]
    pub fn mine(&self) -> &T {
        &self.0[stripe()].0
    }

    /// The values of all groups.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}

#[inline]
fn stripe() -> usize {
    thread_local! {
        static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    match STRIPE.get() {
        usize::MAX => {
            let stripe = next_stripe();
            STRIPE.set(stripe);
            stripe
        }
        stripe => stripe,
    }
}

/// The group of a new thread.
#[cold]
fn next_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_thread_keeps_its_stripe_and_nothing_is_lost() {
        let striped = Striped::<AtomicU64>::default();
        let add = || {
            let mine = striped.mine();
            for _ in 0..1000 {
                assert!(std::ptr::eq(mine, striped.mine()));
                mine.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(add);
            }
        });
        let counts: Vec<u64> = striped.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts.iter().sum::<u64>(), 2000 * STRIPES as u64);
        assert!(counts.iter().filter(|count| **count > 0).count() > 1, "{counts:?}");
    }
}
