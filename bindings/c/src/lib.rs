//! The C interface. `include/vlsm.h` is generated from the exports of these modules.
//!
//! Every exported function runs its work in `call`, which turns errors and panics into values, so
//! nothing unwinds into C. It checks its pointers for NULL, and cannot check more. The functions
//! are unsafe because the caller must pass pointers as the header requires.

#![allow(non_camel_case_types)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, clippy::unit_arg)]

mod batch;
mod buffer;
mod call;
mod callbacks;
mod db;
mod error;
mod files;
mod iter;
mod keyspace;
mod options;
mod snapshot;
mod transaction;

/// The version of this interface. It changes when programs compiled against an older header could
/// misbehave.
pub const VLSM_ABI_VERSION: u32 = 1;

/// The interface version of the loaded library.
#[unsafe(no_mangle)]
pub extern "C" fn vlsm_abi_version() -> u32 {
    VLSM_ABI_VERSION
}

/// The version of the library, as a text that must not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn vlsm_version() -> *const std::ffi::c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
