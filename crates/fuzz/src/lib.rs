//! Every decoder of the store under arbitrary bytes.
//!
//! 1. A *target* is a function of bytes. It makes of them what its decoder reads (a WAL, an SST, a
//!    line of an import), puts every checksum right, so that the decoder proper is reached, and
//!    decodes. What it may answer is a value or an error; a panic, a hang or memory out of
//!    proportion to the input is a finding. Where there is a way back from the value to bytes, it
//!    must lead to the same value.
//! 2. The same targets serve the fuzzer (the workspace in the folder `fuzz` at the root) and a
//!    plain test, which replays the committed corpus and bounds the memory (`tests/replay.rs`).
//!
//! The frames are written from `docs/format.md`, not with the encoders of the store: those would
//! never say what a crafted file can say.

mod input;
mod records;
pub mod seeds;
mod sst;
mod store;
mod text;
mod trace;

/// A target: its name, which is that of its corpus, and the function, which says whether the bytes
/// could be decoded.
pub type Target = (&'static str, fn(&[u8]) -> bool);

/// All targets.
pub const TARGETS: &[Target] = &[
    ("wal_file", records::wal_file),
    ("wal_batch", records::wal_batch),
    ("manifest_file", records::manifest_file),
    ("manifest_items", records::manifest_items),
    ("manifest_current", records::manifest_current),
    ("sst_file", sst::file),
    ("sst_block", sst::block),
    ("sst_packed", sst::packed),
    ("sst_index", sst::index),
    ("sst_filter", sst::filter),
    ("sst_ranges", sst::ranges),
    ("sst_properties", sst::properties),
    ("store_wal", store::wal),
    ("store_manifest", store::manifest),
    ("trace", trace::file),
    ("options", text::options),
    ("version", text::version),
    ("record", text::record),
    ("escape", text::escapes),
    ("lines", text::lines),
];

/// Runs the target of this name.
///
/// # Panics
/// When there is none, or it found something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.0 == name);
    let (_, target) = target.expect("the name is one of TARGETS");
    let _ = target(bytes);
}
