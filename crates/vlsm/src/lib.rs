//! placeholder

mod job;
pub mod memtable;
