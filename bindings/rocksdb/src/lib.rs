//! A `librocksdb` over vLSM: the functions of `rocksdb/c.h`, so that a program that was built for
//! RocksDB runs on vLSM.
//!
//! `functions.txt` lists all functions: those that are written in these modules, those that only
//! keep options (`options.txt` says which of them matter), and those that vLSM has no counterpart
//! for. The last two kinds are generated (`build-script/main.rs`). Every exported function runs its
//! work in the frame of `call`, so nothing unwinds into C. Its pointers are checked for NULL, and
//! nothing else can be checked: that they point where c.h says is the caller's part.

#![allow(non_camel_case_types, non_snake_case)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, clippy::unit_arg)]
// Backups, logs and the end of a store are files of the program's, outside of the engine.
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

/// The functions that are alike.
mod generated {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}
