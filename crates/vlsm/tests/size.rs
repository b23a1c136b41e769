//! Estimates of what a range of keys takes.
#![allow(clippy::unwrap_used)]

use vlsm::{ByteCount, Db, KeyspaceOptions};

#[test]
fn sizes_are_near_the_truth_on_disk_and_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || {
        Db::builder(&path).configure(|options| {
            options.policy.tree.sst_max = ByteCount::kib(256);
            options.policy.shapes.vlsm.sst_min = ByteCount::kib(32);
        })
    };
    let db = open().open().unwrap();
    let split = db.create_keyspace("split", KeyspaceOptions::splits(["k3", "k7"])).unwrap();
    assert_eq!(split.approximate_size(..).unwrap().bytes, ByteCount::ZERO);
    (0..20_000_u32).for_each(|n| split.put(format!("k{n:05}"), [7; 100]).unwrap());
    let near = |size: vlsm::ApproximateSize, entries: u64| {
        let low = (entries * 95 / 100, entries * 105);
        let high = (entries * 105 / 100 + 400, entries * 140 + 40_000);
        assert!((low.0..=high.0).contains(&size.entries), "{entries}: {size:?}");
        assert!((low.1..=high.1).contains(&size.bytes.0), "{entries}: {size:?}");
    };
    let check = || {
        near(split.approximate_size(..).unwrap(), 20_000);
        near(split.approximate_size("k05000".."k10000").unwrap(), 5_000);
        near(split.approximate_size("k15000"..).unwrap(), 5_000);
        near(split.approximate_size(..="k00099").unwrap(), 100);
        near(split.approximate_size("x"..).unwrap(), 0);
        let empty = split.approximate_size("k2".."k1").unwrap();
        assert_eq!((empty.bytes.0, empty.entries), (0, 0));
    };
    check();
    db.flush().unwrap();
    check();
    split.compact_range(..).unwrap();
    check();
    db.close().unwrap();
    let db = open().read_only(true).open().unwrap();
    let split = db.keyspace("split").unwrap();
    near(split.approximate_size("k05000".."k10000").unwrap(), 5_000);
    assert_eq!(db.default_keyspace().approximate_size(..).unwrap().entries, 0);
}
