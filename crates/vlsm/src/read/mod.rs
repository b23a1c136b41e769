//! The read path: a pinned view, then memtables, then L0 newest first, then the levels.

pub(crate) mod covers;
pub(crate) mod get;
pub(crate) mod level_cursor;
pub(crate) mod merge_cursor;
pub(crate) mod pins;
pub(crate) mod user_cursor;
pub(crate) mod view;
