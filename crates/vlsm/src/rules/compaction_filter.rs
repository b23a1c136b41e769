//! Compaction filters: a user's code looks at values while jobs rewrite them, and removes or
//! changes them there.

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It stays.
    Keep,
    /// The key becomes absent.
    Remove,
    /// The key gets this value.
    Change(Vec<u8>),
}

/// Looks at values while flushes and compactions rewrite them.
///
/// It is asked only for the newest value of a key, and only if no snapshot holds it, so what a
/// snapshot sees never changes. A value that no job rewrites is not asked for: when, and how often,
/// is up to the tree. It must not wait and must not use the store.
///
/// A value over which it panics stays as it is, and the job goes on with the next value. The first
/// panic is told by [`Event::CallbackPanicked`](crate::Event::CallbackPanicked).
pub trait CompactionFilter: Send + Sync {
    /// Its name, for events. Asked once, when the filter is registered.
    fn name(&self) -> &str;

    /// What becomes of this value, which is about to be written into `level`.
    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision;
}
