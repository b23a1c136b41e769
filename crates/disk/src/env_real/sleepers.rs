//! Threads that sleep until a word changes: the part of an event count that differs by platform.
//!
//! A sleeper sleeps only while the word has the value that it names, and whoever wakes has changed
//! the word before. So no wake-up is lost:
//! - Linux: the kernel compares the word and puts the thread to sleep in one step (a futex). No
//!   lock is held that a niced thread could be preempted with.
//! - Elsewhere: the word is compared under a lock, and the waker goes through that lock between the
//!   change and the wake-up. (macOS has such a call of its own only since 14.4.)

#[cfg(any(test, not(target_os = "linux")))]
use parking_lot::{Condvar, Mutex};
#[cfg(target_os = "linux")]
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
#[cfg(any(test, not(target_os = "linux")))]
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Who sleeps on one word.
pub(super) trait Sleepers: Default + Send + Sync + 'static {
    /// Sleeps while the word has this value, until a wake-up or for a span; none for ever. May
    /// return early.
    fn sleep(&self, word: &AtomicU32, value: u32, span: Option<Duration>);

    /// Wakes all sleepers. The word was changed before.
    fn wake(&self, word: &AtomicU32);
}

/// What this platform does best.
#[cfg(target_os = "linux")]
pub(super) type Native = Futex;
/// What this platform does best.
#[cfg(not(target_os = "linux"))]
pub(super) type Native = Portable;

/// Linux: the kernel keeps them.
#[cfg(target_os = "linux")]
#[derive(Default)]
pub(super) struct Futex;

#[cfg(target_os = "linux")]
impl Sleepers for Futex {
    fn sleep(&self, word: &AtomicU32, value: u32, span: Option<Duration>) {
        // A span that no clock can count is no deadline.
        let span = span.and_then(|span| span.try_into().ok());
        let _ = futex::wait(word, futex::Flags::PRIVATE, value, span.as_ref());
    }

    fn wake(&self, word: &AtomicU32) {
        // Fails only for a bad address.
        let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
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
        // A sleeper that saw the old value has the lock until it sleeps.
        drop(self.lock.lock());
        self.changed.notify_all();
    }
}
