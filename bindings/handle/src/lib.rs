//! Values that belong to the process that made them.
//!
//! After a `fork` the child has a store's memory but none of its threads, so calls would wait for
//! ever. An [`Owned`] value refuses to be used there, and dropping it does nothing.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of forks between the first process that used the library and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn forks() -> u64 {
    static REGISTERED: Once = Once::new();
    // The handler is registered before the first value exists, so it counts every fork that copies
    // a value.
    REGISTERED.call_once(|| {
        // SAFETY: the function does nothing but add to an atomic number.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    FORKS.load(Ordering::Relaxed)
}

/// The value was made before a `fork`, by the parent process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forked;

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the handle was made before fork() by the parent process: open the store in this \
             process, after the parent has closed it",
        )
    }
}

/// Something that belongs to the process that made it.
pub struct Owned<T> {
    forks: u64,
    value: ManuallyDrop<T>,
}

impl<T> Owned<T> {
    /// Makes a value of this process.
    pub fn new(value: T) -> Self {
        Self { forks: forks(), value: ManuallyDrop::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// In a process that was forked from the one that made it.
    pub fn get(&self) -> Result<&T, Forked> {
        self.check().map(|()| &*self.value)
    }

    /// Like [`Owned::get`].
    ///
    /// # Errors
    /// Like [`Owned::get`].
    pub fn get_mut(&mut self) -> Result<&mut T, Forked> {
        self.check()?;
        Ok(&mut self.value)
    }

    fn check(&self) -> Result<(), Forked> {
        if self.forks == FORKS.load(Ordering::Relaxed) { Ok(()) } else { Err(Forked) }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.check().is_ok() {
            // SAFETY: this is the only place that drops it.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
