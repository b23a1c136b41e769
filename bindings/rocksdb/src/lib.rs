//! A `librocksdb` over vLSM: the functions of `rocksdb/c.h`, so that a program that was built for
//! RocksDB runs on vLSM.
//!
//! `functions.txt` lists all functions: those that are written in these modules, those that only
//! keep options (`options.txt` says which of them matter), and those without a counterpart in vLSM.
//! The last two kinds are generated (`build-script/main.rs`). Every exported function runs in the
//! wrapper of `call`, so nothing unwinds into C. Pointers are checked for NULL, and cannot be
//! checked further: the caller must pass pointers as c.h requires.

#![allow(non_camel_case_types, non_snake_case)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, clippy::unit_arg)]
// Backups, logs and the removal of a store work on files outside of the engine.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod backup;
mod bag;
mod batch;
mod call;
mod db;
mod files;
mod filters;
mod iterator;
mod maintenance;
mod objects;
mod open;
mod operators;
mod options;
mod properties;
mod snapshot;
mod status;
mod store;
mod transaction;

/// The generated functions.
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}
