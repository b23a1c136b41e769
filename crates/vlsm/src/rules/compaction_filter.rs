//! Compaction filters: user code that removes or changes values while flushes and compactions
//! rewrite them. A store is opened with one filter per keyspace; filters are not recorded on disk.

/// A filter's decision about a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Keep the value.
    Keep,
    /// Remove the key.
    Remove,
    /// Replace the value by this one.
    Change(Vec<u8>),
}

/// Decides about values while flushes and compactions rewrite them.
///
/// It is called only for the newest value of a key, and only if no snapshot holds this value, so a
/// filter never changes what a snapshot shows. A value is only filtered when a job rewrites it; the
/// state of the tree determines when and how often this happens. A filter must not block and must
/// not use the store.
///
/// If it panics, the value stays unchanged and the job continues with the next value.
/// [`Event::CallbackPanicked`](crate::Event::CallbackPanicked) reports the first panic.
pub trait CompactionFilter: Send + Sync {
    /// The name of the filter, for events. Called once, when the filter is registered.
    fn name(&self) -> &str;

    /// Decides about a value that is about to be written into `level`.
    fn filter(&self, level: u8, key: &[u8], value: &[u8]) -> Decision;
}
