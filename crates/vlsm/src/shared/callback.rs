//! Calls user code: merge operators, compaction filters, the listener.
//!
//! Such code may panic anywhere: on a client's thread, in a job, during a close. [`call`] catches
//! the panic, and the caller continues as if the code had refused. This is sound for the engine,
//! because the closures that it passes only read. Only the user's own state may be inconsistent.
//!
//! [`Guarded`] knows the name of the code. An event with this name reports the first panic, so that
//! it is not taken for a fault of the store. All panics are counted.
//!
//! Cost: a caught call has a landing pad, so without a panic it costs no more than a call that is
//! not inlined; calls of trait objects are never inlined. In a program that is built with
//! `panic = "abort"` nothing is caught, and a panic ends the process like any other.
//!
//! An environment stops a thread by unwinding ([`Stopped`]); such an unwinding passes through.

use crate::shared::events::Events;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vlsm_core::event::{Callback, Event};
use vlsm_disk::env::Stopped;

/// User code panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs user code. This is the only place where its panics are caught.
#[inline]
pub(crate) fn call<R>(code: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(code)).map_err(swallow)
}

/// Drops the payload of a panic.
#[cold]
fn swallow(payload: Box<dyn Any + Send>) -> Panicked {
    if payload.is::<Stopped>() {
        resume_unwind(payload);
    }
    // The payload is also the user's, and may panic when it is dropped.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    Panicked
}

/// User code that works for one keyspace.
pub(crate) struct Guarded<C: ?Sized> {
    code: Arc<C>,
    callback: Callback,
    name: String,
    keyspace: String,
    panicked: AtomicBool,
    /// The events that report panics; none before the store is open.
    events: Option<Arc<Events>>,
}

impl<C: ?Sized> Guarded<C> {
    pub fn new(
        code: Arc<C>,
        callback: Callback,
        (name, keyspace): (&str, &str),
        events: Option<Arc<Events>>,
    ) -> Self {
        let (name, keyspace) = (name.to_owned(), keyspace.to_owned());
        Self { code, callback, name, keyspace, panicked: AtomicBool::new(false), events }
    }

    /// The name under which the code was registered.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls the code. A panic is counted, and the first one is reported.
    #[inline]
    pub fn call<R>(&self, ask: impl FnOnce(&C) -> R) -> Result<R, Panicked> {
        call(|| ask(&self.code)).inspect_err(|_| self.tell())
    }

    #[cold]
    fn tell(&self) {
        let Some(events) = &self.events else { return };
        events.count_panic();
        if !self.panicked.swap(true, Ordering::Relaxed) {
            let (name, keyspace) = (self.name.clone(), self.keyspace.clone());
            events.emit(Event::CallbackPanicked { callback: self.callback, name, keyspace });
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn panics_end_here_and_a_stop_passes_through() {
        assert_eq!(call(|| 3), Ok(3));
        assert_eq!(call(|| panic!("planted")), Err::<(), _>(Panicked));
        let stopped = catch_unwind(AssertUnwindSafe(|| call(|| resume_unwind(Box::new(Stopped)))));
        let payload: Box<dyn Any + Send> = stopped.map(|_: Result<(), _>| ()).expect_err("stopped");
        assert!(payload.is::<Stopped>());
    }
}
