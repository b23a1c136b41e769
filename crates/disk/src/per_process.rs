//! State of which each process has its own.
//!
//! A forked process has none of its parent's threads, and its locks stay as they were at the fork.
//! So what stands for a thread, or holds a lock, is found by the number of the process.

use std::sync::OnceLock;

/// A value for each process, for use in a static.
pub(crate) struct PerProcess<T> {
    first: OnceLock<Link<T>>,
}

/// The value of a process that used it first, or was forked by the one before it.
struct Link<T> {
    process: u32,
    value: T,
    forked: OnceLock<Box<Link<T>>>,
}

impl<T: Default> Link<T> {
    fn new(process: u32) -> Self {
        Self { process, value: T::default(), forked: OnceLock::new() }
    }
}

impl<T: Default> PerProcess<T> {
    pub const fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// The value of the process with this number, which is this process.
    pub fn of(&self, process: u32) -> &T {
        let mut link = self.first.get_or_init(|| Link::new(process));
        while link.process != process {
            link = link.forked.get_or_init(|| Box::new(Link::new(process)));
        }
        &link.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn a_forked_process_does_not_wait_for_its_parents_lock() {
        let locks = PerProcess::<Mutex<()>>::new();
        let _held = locks.of(1).lock();
        let child = locks.of(2);
        assert!(child.try_lock().is_some());
        assert!(std::ptr::eq(child, locks.of(2)) && !std::ptr::eq(child, locks.of(1)));
    }
}
