//! The target `wal_batch` under libFuzzer.
//! What it does is in crates/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vlsm_fuzz::run("wal_batch", bytes));
