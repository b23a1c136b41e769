//! A value that an upper layer keeps with a table, of a type that this layer does not know: the
//! reader of the table's open file.
//!
//! An attachment is set once and never taken away, so a read through it needs no lock and no
//! reference count. To evict it, [`Table::detached`](crate::Table::detached) replaces the table in
//! the next version; the value is dropped with the last holder of the previous version.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// At most one value. All values of a process have one type; another type is a programming error.
#[derive(Default)]
pub struct Attachment {
    value: OnceLock<Arc<dyn Any + Send + Sync>>,
    used: AtomicBool,
}

const ONE_TYPE: &str = "one layer attaches values, all of one type";

impl Attachment {
    /// The value; this counts as a use.
    ///
    /// # Panics
    /// If the value has another type.
    #[must_use]
    #[inline]
    pub fn get<T: Any>(&self) -> Option<&T> {
        let value = self.peek()?;
        self.mark_used();
        Some(value)
    }

    /// The value, without counting as a use of it.
    ///
    /// # Panics
    /// If the value has another type.
    #[must_use]
    #[inline]
    pub fn peek<T: Any>(&self) -> Option<&T> {
        self.value.get().map(|value| value.downcast_ref().expect(ONE_TYPE))
    }

    /// A shared reference to the value, without counting as a use of it.
    ///
    /// # Panics
    /// If the value has another type.
    #[must_use]
    pub fn share<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.value.get().map(|value| value.clone().downcast().expect(ONE_TYPE))
    }

    /// Whether there is a value.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.value.get().is_some()
    }

    /// Attaches a value. If two threads do so at the same time, one of them wins.
    pub fn set<T: Any + Send + Sync>(&self, value: Arc<T>) {
        let _ = self.value.set(value);
    }

    /// Counts as a use of the value.
    #[inline]
    pub fn mark_used(&self) {
        // The flag is nearly always set. It is read first, so that the cache line stays shared.
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }

    /// Whether the value was used since the last call.
    pub fn take_used(&self) -> bool {
        self.used.swap(false, Relaxed)
    }
}

impl Clone for Attachment {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), used: AtomicBool::new(self.used.load(Relaxed)) }
    }
}

/// Attachments do not affect equality.
impl PartialEq for Attachment {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "attached" } else { "none" })
    }
}
