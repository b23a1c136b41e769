//! The C interface: `include/vlsm.h` is made from what these modules export.
//!
//! Every exported function runs its work in `call`, which turns errors and panics into values, so
//! nothing unwinds into C. Its pointers are checked for NULL, and nothing else can be checked: that
//! they point where the header says is the caller's part, and the reason why these functions are
//! unsafe.

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

/// The version of this interface: it changes when a program that was compiled against an older
/// header could go wrong.
pub const VLSM_ABI_VERSION: u32 = 1;

/// The version of the interface that the loaded library has.
#[unsafe(no_mangle)]
pub extern "C" fn vlsm_abi_version() -> u32 {
    VLSM_ABI_VERSION
}

/// The version of the library, as text that is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn vlsm_version() -> *const std::ffi::c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
