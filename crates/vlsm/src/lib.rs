//! placeholder

pub mod memtable;
