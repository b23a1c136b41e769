//! Bugs that the chaos test switches on by the environment variable `PLANT`, to check that its
//! checker finds them. Without the feature `planted` there are none.

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Appends are reported as flushed without a sync.
    AcknowledgeBeforeDurable,
    /// The vote of a former process is read as it was saved.
    LeadOnAfterRestart,
}

/// Whether a bug is switched on.
#[cfg(feature = "planted")]
pub fn is(plant: Plant) -> bool {
    use std::sync::OnceLock;
    static NAME: OnceLock<String> = OnceLock::new();
    let name = NAME.get_or_init(|| std::env::var("PLANT").unwrap_or_default());
    match plant {
        Plant::AcknowledgeBeforeDurable => name == "acknowledge-before-durable",
        Plant::LeadOnAfterRestart => name == "lead-on-after-restart",
    }
}

/// Whether a bug is switched on: never.
#[cfg(not(feature = "planted"))]
pub fn is(_: Plant) -> bool {
    false
}
