//! Calls of user code: merge operators, compaction filters, the listener.
//!
//! Such code may panic anywhere: on a client's thread, in a job, in the midst of a close. The call
//! then has no result, and nothing else changes: [`call`] catches the panic, and the caller
//! continues as if the code had refused. This is sound for the engine, because the closures that it
//! passes only read; only the user's own state may be inconsistent.
//!
//! [`Guarded`] knows the owner of the code. An event with its name reports the first panic, so that
//! it is not taken for a fault of the store; all panics are counted.
//!
//! Cost: catching is a landing pad, so a call that does not panic costs nothing more than a call
//! that is not inlined, and calls over trait objects never are. In a program that is built with
//! `panic = "abort"` nothing is caught, and a panic ends the process as any other does.
//!
//! An environment stops a thread by unwinding, too ([`Stopped`]); that passes through.

use crate::shared::events::Events;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vlsm_core::event::{Callback, Event};
use vlsm_disk::env::Stopped;

/// A user's code panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs a user's code. The only place where panics of it are caught.
#[inline]
pub(crate) fn call<R>(code: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(code)).map_err(swallow)
}

/// Lets go of what a panic was thrown with.
#[cold]
fn swallow(payload: Box<dyn Any + Send>) -> Panicked {
    if payload.is::<Stopped>() {
        resume_unwind(payload);
    }
    // It is the user's own, too, and may panic when it is dropped.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    Panicked
}

/// A user's code that works for one keyspace.
pub(crate) struct Guarded<C: ?Sized> {
    code: Arc<C>,
    callback: Callback,
    name: String,
    keyspace: String,
    panicked: AtomicBool,
    /// The events to report panics to; none before the store is open.
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

    /// Asks the code. A panic is counted, and told if it is the first one.
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
