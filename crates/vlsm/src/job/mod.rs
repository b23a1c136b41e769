//! Flushes and compactions: resumable, never waiting.

pub(crate) mod merge;
pub(crate) mod output;
