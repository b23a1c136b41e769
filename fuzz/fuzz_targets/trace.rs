//! The target `trace` under libFuzzer.
//! What it does is in crates/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vlsm_fuzz::run("trace", bytes));
