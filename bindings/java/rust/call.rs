//! The wrapper around every call from Java.
//!
//! 1. A call from inside a merge operator is refused: it may hold locks for which the call would
//!    wait.
//! 2. A panic becomes an exception.
//! 3. An exception that a merge operator threw during the call, on this thread, becomes the cause
//!    of the call's own exception.

use crate::error::{Failure, Outcome, throw};
use jni::JNIEnv;
use jni::objects::GlobalRef;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The number of nested calls from Java on this thread.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    /// Whether a merge operator runs on this thread.
    static IN_OPERATOR: Cell<bool> = const { Cell::new(false) };
    /// The last exception that a merge operator threw in this call.
    static THROWN: RefCell<Option<GlobalRef>> = const { RefCell::new(None) };
}

/// Runs a call; an error or a panic is thrown, and a default value returned.
pub fn call<'local, T: Copy>(
    mut env: JNIEnv<'local>,
    default: T,
    work: impl FnOnce(&mut JNIEnv<'local>) -> Outcome<T>,
) -> T {
    if in_operator() {
        let why = "a merge operator must not use a store: the store may be waiting for it";
        throw(&mut env, Failure::argument(why), None);
        return default;
    }
    CALLS.set(CALLS.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(|| work(&mut env)));
    CALLS.set(CALLS.get() - 1);
    let thrown = THROWN.take();
    let failure = match done {
        Ok(Ok(result)) => return result,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            // The payload is not dropped, since that might panic again.
            std::mem::forget(panic);
            Failure::Panic(format!("a panic: {}", text.unwrap_or_default()))
        }
    };
    let cause = thrown.filter(|_| failure.is_of_operator());
    throw(&mut env, failure, cause);
    default
}

/// Whether a merge operator runs on this thread.
pub fn in_operator() -> bool {
    IN_OPERATOR.get()
}

/// Marks this thread as one that runs a merge operator, until it is dropped.
pub struct InOperator(bool);

impl InOperator {
    pub fn enter() -> Self {
        Self(IN_OPERATOR.replace(true))
    }
}

impl Drop for InOperator {
    fn drop(&mut self) {
        IN_OPERATOR.set(self.0);
    }
}

/// Keeps an exception of an operator for the current call of this thread; returns it if there is no
/// call.
pub fn keep(thrown: GlobalRef) -> Option<GlobalRef> {
    if CALLS.get() == 0 {
        return Some(thrown);
    }
    THROWN.set(Some(thrown));
    None
}
