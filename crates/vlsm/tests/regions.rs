//! Many regions: idle ones must cost nothing.
#![allow(clippy::unwrap_used)]

mod tiny;

use tiny::tiny;
use vlsm::{ByteCount, Db, Error, KeyspaceOptions, Stats};

/// Writes the same pairs into the first region of a keyspace that has `regions` of them.
fn fill_first_of(regions: u16) -> Stats {
    let folder = tempfile::tempdir().unwrap();
    let db = tiny(Db::builder(folder.path().join("store")), ByteCount::kib(64))
        .configure(|options| {
            options.policy.tree.l1_bytes = ByteCount::kib(512);
            options.workers = 1;
        })
        .open()
        .unwrap();
    let splits = (1..regions).map(|n| vec![0xff, (n >> 8) as u8, n as u8]);
    let keyspace = db.create_keyspace("many", KeyspaceOptions::splits(splits)).unwrap();
    assert_eq!(keyspace.region_count(), usize::from(regions));
    for n in 0..20_000_u64 {
        let key = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).to_be_bytes();
        keyspace.put(key, [1; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(keyspace.iter().count(), 20_000);
    let stats = db.stats();
    db.close().unwrap();
    stats
}

#[test]
fn idle_regions_are_never_asked_about() {
    let one = fill_first_of(1);
    let many = fill_first_of(256);
    let steps = many.rotations + many.installs;
    println!("1 region: {} asks; 256: {} in {steps} steps", one.shape_asks, many.shape_asks);
    assert!(many.rotations > 20, "the busy region was busy: {} rotations", many.rotations);
    // Each rotation, start and end of a job asks about its own tree; a memtable whose writers have
    // not finished is asked about again. None of it grows with the number of regions.
    assert!(many.shape_asks < 8 * steps, "{} asks in {steps} steps", many.shape_asks);
    // An idle region has a memtable without memory.
    assert!(many.memory.active < ByteCount::kib(1), "{}", many.memory.active);
}

#[test]
fn more_regions_than_the_manifest_can_hold_are_refused_before_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let db = Db::open(&path).unwrap();
    let splits = (1..=1_u32 << 20).map(|n| n.to_be_bytes().to_vec());
    let refused = db.create_keyspace("many", KeyspaceOptions::splits(splits));
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    db.create_keyspace("few", KeyspaceOptions::splits(["m"])).unwrap();
    db.put("a", "b").unwrap();
    db.close().unwrap();
    assert_eq!(Db::open(&path).unwrap().keyspaces(), ["default", "few"]);
}
