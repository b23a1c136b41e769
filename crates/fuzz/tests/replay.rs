//! The committed corpus, target by target: no panic, no hang, and memory in proportion.
//!
//! The corpus has inputs made by hand (`seeds.rs`) and what fuzzing found, small as it is kept: it
//! reaches what the fuzzer reached. The allocator counts the most memory that was in use, so that a
//! length in a crafted file that makes a decoder allocate is seen. One test: another one beside it
//! would be counted, too.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that reads files")]

use peak_alloc::PeakAlloc;
use std::path::Path;
use vlsm_fuzz::TARGETS;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The most bytes of memory that a target may use for an input of `input` bytes. The fixed part is
/// for buffers of direct I/O, caches and a disk in memory, and for a store's memtables, threads and
/// tables. A compressed block may decode to 255 times its length.
fn most(target: &str, input: usize) -> usize {
    let fixed = if target.starts_with("store_") { 24 << 20 } else { 2 << 20 };
    // A compressed block is trusted to be up to 255 times its length.
    fixed + 300 * input
}

#[test]
fn the_corpus_finds_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut folders: Vec<String> = std::fs::read_dir(&corpus)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.0).collect();
    names.sort_unstable();
    assert_eq!(folders, names, "one folder for each target");
    for (name, target) in TARGETS {
        let mut inputs = 0;
        let mut largest = 0;
        for entry in std::fs::read_dir(corpus.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            println!("{name}: {}", path.display());
            let before = ALLOCATOR.current_usage();
            ALLOCATOR.reset_peak_usage();
            let decoded = target(&bytes);
            let used = ALLOCATOR.peak_usage().saturating_sub(before);
            let most = most(name, bytes.len());
            assert!(used <= most, "{used} bytes of memory for {} of input", bytes.len());
            // Where the frame is wrong, nothing gets past the checksums.
            assert!(decoded || !path.ends_with("sound"), "what is sound can be decoded");
            largest = largest.max(used);
            inputs += 1;
        }
        println!("{name}: {inputs} inputs, {largest} bytes of memory at most");
        assert!(inputs >= 2, "{name} has a corpus");
    }
}
