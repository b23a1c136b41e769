//! The sketch of a file's keys: of distinct user keys, by the hashes of the filter.

use super::*;
use vlsm_core::{Sketch, sketch};

fn summary(entries: &[Entry], options: SstOptions) -> SstSummary {
    let mut writer = SstWriter::new(options, UID);
    entries.iter().for_each(|(key, trailer, value)| writer.add(key, *trailer, value));
    writer.finish().summary
}

#[test]
fn a_writer_that_is_asked_counts_distinct_keys() {
    let options = SstOptions { sketch: true, ..SstOptions::default() };
    let found = summary(&small(), options).sketch.expect("asked for");
    let keys = ["", "apple", "apricot", "banana"];
    assert_eq!(*found, Sketch::of(keys.map(|key| filter::hash(key.as_bytes()))));
    assert_eq!(found.keys(), 4, "apple has two versions");
    let without_filter = SstOptions { bits_per_key: 0, ..options };
    let (file, meta) = write(&small(), without_filter);
    assert_eq!(meta.sketch.as_deref(), Some(&*found));
    let reader = open(&file, &meta).expect("sound");
    assert!(reader.summary().sketch.is_none(), "the file does not have it");
    assert_eq!(file, write(&small(), SstOptions { bits_per_key: 0, ..SstOptions::default() }).0);
    assert!(summary(&small(), SstOptions::default()).sketch.is_none());
}

/// Keys of several kinds, to show that the hash is as random as a sketch needs.
#[test]
fn the_hash_of_the_filter_is_good_enough() {
    let kinds: [fn(u64) -> Vec<u8>; 4] = [
        |n| n.to_be_bytes().to_vec(),
        |n| format!("user{n:020}").into_bytes(),
        |n| n.to_string().into_bytes(),
        |n| [[b'k'; 60].as_slice(), &n.to_le_bytes()].concat(),
    ];
    for (index, key) in kinds.into_iter().enumerate() {
        let set = |from: u64| Sketch::of((from..from + 20_000).map(|n| filter::hash(&key(n))));
        let (one, other) = (set(0), set(12_000));
        let most = 3.0 * sketch::STANDARD_ERROR;
        for (found, right) in [(sketch::union([&one]), 2e4), (sketch::union([&one, &other]), 3.2e4)]
        {
            assert!((found / right - 1.0).abs() < most, "{index}: {found} for {right}");
        }
        let found = sketch::overlap(&[&one, &other]);
        assert!((found - 0.2).abs() < 0.8 * most, "{index}: {found}");
    }
}
