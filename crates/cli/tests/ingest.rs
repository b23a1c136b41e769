//! Sorted files: writing, ingesting and refusing them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::World;

#[test]
fn a_store_goes_through_a_file_into_another_one() {
    let world = World::new();
    world.run_with(&["import", "old"], b"a\t1\nb\t2\nc\\x00\t3\n").ok();
    let records = world.run(&["export", "old"]).ok();
    let run = world.run_with(&["sst", "all.sst"], records.as_bytes());
    assert!(run.err.contains("sorted 3 records") && run.err.contains("made all.sst"), "{run:?}");
    run.ok();
    world.run(&["put", "new", "b", "older"]).ok();
    let run = world.run(&["ingest", "new", "all.sst"]);
    assert!(run.err.contains("ingested 1 files, 1 of them into L0: 3 records"), "{run:?}");
    run.ok();
    world.run(&["put", "new", "a", "newer"]).ok();
    assert_eq!(world.run(&["scan", "new"]).ok(), "a\tnewer\nb\t2\nc\\x00\t3\n");
    world.run(&["verify", "new"]).ok();
    world.run(&["ingest", "third", "all.sst", "--move"]).ok();
    assert!(!world.path("all.sst").exists());
    assert_eq!(world.run(&["export", "third"]).ok(), records);
}

#[test]
fn what_cannot_be_brought_in_is_told() {
    let world = World::new();
    let unsorted = world.run_with(&["sst", "x.sst"], b"b\t1\na\t2\n");
    unsorted.fails(1, &["-:2: the keys of ", "x.sst must be in strictly", "no file was made"]);
    world.run_with(&["sst", "x.sst"], b"b\t1\nb\t2\n").fails(1, &["-:2: ", "sort them"]);
    world.run_with(&["sst", "x.sst"], b"no tab\n").fails(1, &["-:1: no tab", "no file was made"]);
    world.run_with(&["sst", "x.sst"], b"").fails(1, &["x.sst would be empty"]);
    assert!(!world.path("x.sst").exists() && !world.path("x.sst.tmp").exists());
    world.run_with(&["sst", "x.sst"], b"a\t1\nc\t2\n").ok();
    world.run_with(&["sst", "x.sst"], b"a\t1\n").fails(1, &["x.sst", "exists"]);
    world.run_with(&["sst", "y.sst"], b"b\t1\n").ok();
    world.run(&["ingest", "s", "x.sst", "y.sst"]).fails(2, &["x.sst and ", "y.sst overlap"]);
    let mut bytes = std::fs::read(world.path("y.sst")).unwrap();
    bytes[1] ^= 1;
    world.file("flipped.sst", bytes);
    world.run(&["ingest", "s", "flipped.sst"]).fails(1, &["flipped.sst is damaged at byte 0"]);
    world.run(&["ingest", "s", "gone.sst"]).fails(1, &["gone.sst"]);
    assert_eq!(world.run(&["scan", "s"]).ok(), "");
}
