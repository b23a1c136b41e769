//! Threads that sleep until a word changes: the platform-dependent part of an event count.
//!
//! A thread sleeps only while the word has the value that it names, and a waker changes the word
//! first. So no wake-up is lost:
//! - Linux: the kernel compares the word and puts the thread to sleep in one step (a futex). There
//!   is no lock that a preempted niced thread could hold.
//! - Elsewhere: the word is compared under a lock, and the waker takes that lock between the change
//!   and the wake-up. (macOS has a futex of its own only since 14.4.)

#[cfg(any(test, not(target_os = "linux")))]
use parking_lot::{Condvar, Mutex};
#[cfg(target_os = "linux")]
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
#[cfg(any(test, not(target_os = "linux")))]
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The threads that sleep on one word.
pub(super) trait Sleepers: Default + Send + Sync + 'static {
    /// Sleeps while the word has this value, until a wake-up or the end of the span, if there is
    /// one. May return early.
    fn sleep(&self, word: &AtomicU32, value: u32, span: Option<Duration>);

    /// Wakes all sleepers. The caller has changed the word before.
    fn wake(&self, word: &AtomicU32);

    /// Wakes one sleeper, if there is any. The caller has changed the word before.
    fn wake_one(&self, word: &AtomicU32);
}

/// The implementation for this platform.
#[cfg(target_os = "linux")]
pub(super) type Native = Futex;
/// The implementation for this platform.
#[cfg(not(target_os = "linux"))]
pub(super) type Native = Portable;

/// Linux: the kernel keeps the sleepers.
#[cfg(target_os = "linux")]
#[derive(Default)]
pub(super) struct Futex;

#[cfg(target_os = "linux")]
impl Sleepers for Futex {
    fn sleep(&self, word: &AtomicU32, value: u32, span: Option<Duration>) {
        // A span that the clock cannot represent is no deadline.
        let span = span.and_then(|span| span.try_into().ok());
        let _ = futex::wait(word, futex::Flags::PRIVATE, value, span.as_ref());
    }

    fn wake(&self, word: &AtomicU32) {
        // Fails only for a bad address.
        let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    fn wake_one(&self, word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}

/// A lock and a condition variable. Compiled into tests on every platform.
#[cfg(any(test, not(target_os = "linux")))]
#[derive(Default)]
pub(super) struct Portable {
    lock: Mutex<()>,
    changed: Condvar,
}

#[cfg(any(test, not(target_os = "linux")))]
impl Sleepers for Portable {
    fn sleep(&self, word: &AtomicU32, value: u32, span: Option<Duration>) {
        let mut held = self.lock.lock();
        if word.load(Ordering::SeqCst) != value {
            return;
        }
        match span {
            Some(span) => drop(self.changed.wait_for(&mut held, span)),
            None => self.changed.wait(&mut held),
        }
    }

    fn wake(&self, _: &AtomicU32) {
        // A sleeper that saw the old value holds the lock until it sleeps.
        drop(self.lock.lock());
        self.changed.notify_all();
    }

    fn wake_one(&self, _: &AtomicU32) {
        drop(self.lock.lock());
        self.changed.notify_one();
    }
}
