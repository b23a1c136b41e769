//! `stats`, `levels` and `dump` on a real store, open and closed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};
use std::io::Write;

/// A store whose records fill a few memtables.
fn filled() -> World {
    let world = World::new();
    let value = "v".repeat(1000);
    let lines: String = (0..40_000).map(|i| format!("key{i:06}\t{value}\n")).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    world.run(&["delete", "s", "key000001"]).ok();
    world
}

#[test]
fn the_tree_is_shown() {
    let world = filled();
    let levels = world.run(&["levels", "s"]).ok();
    assert!(levels.starts_with("keyspace default (t"), "{levels}");
    assert!(levels.contains("total") && levels.contains("L"), "{levels}");
    let tables = world.run(&["levels", "s", "--tables"]).ok();
    assert!(tables.contains("[key000000,"), "{tables}");
    let stats = world.run(&["stats", "s"]).ok();
    for what in ["default", "SST", "WAL", "manifest", "total"] {
        assert!(stats.contains(what), "{what}: {stats}");
    }
    for command in ["stats", "levels"] {
        let json = world.run(&[command, "s", "--json"]).ok();
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }
    world.run(&["levels", "s", "--keyspace", "none"]).fails(1, &["keyspace", "none"]);
}

#[test]
fn a_store_in_use_is_shown_too() {
    let world = filled();
    let mut import = world.command(&["import", "s"]).spawn().unwrap();
    let mut stdin = import.stdin.take().unwrap();
    let line = format!("more\t{}\n", "x".repeat(1000));
    (0..5000).for_each(|_| stdin.write_all(line.as_bytes()).unwrap());
    let beside = world.run(&["size", "s"]);
    assert!(beside.err.contains("is in use"), "{beside:?}");
    assert!(beside.ok().starts_with("about "));
    assert!(world.run(&["levels", "s"]).ok().contains("total"));
    world.run(&["stats", "s"]).ok();
    drop(stdin);
    assert!(import.wait().unwrap().success());
}

#[test]
fn every_file_is_shown() {
    let world = filled();
    let find = |part: &str| {
        let names = names(&world.path("s"));
        let name = names.iter().find(|name| name.contains(part)).unwrap();
        format!("s/{name}")
    };
    let manifest = world.run(&["dump", "manifest", &find("MANIFEST")]).ok();
    assert!(manifest.contains("keyspace 0 \"default\"") && manifest.contains("edit of t"));
    assert!(manifest.ends_with(" end\n"));
    assert_eq!(world.run(&["dump", "manifest", "s"]).ok(), manifest, "a folder stands for it");
    world.run(&["dump", "sst", "s"]).fails(2, &["s is a folder", "vlsm stats"]);

    let levels = world.run(&["levels", "s", "--tables"]).ok();
    let table = levels.split_whitespace().find(|word| word.contains("[key000000,")).unwrap();
    let number: u64 = table.split(':').next().unwrap().parse().unwrap();
    let sst = format!("s/{number:06}.sst");
    let dump = world.run(&["dump", "sst", &sst]).ok();
    assert!(dump.contains("smallest key000000"), "{}", &dump[..500]);
    assert!(dump.contains(" put key000000 = vvv") && dump.contains("(1000 bytes)"));
    assert!(!world.run(&["dump", "sst", &sst, "--brief"]).ok().contains("put"));

    world.run(&["put", "s", "in the", "wal"]).ok();
    let wals = names(&world.path("s")).into_iter().filter(|name| name.ends_with(".wal"));
    let dumps = wals.map(|name| world.run(&["dump", "wal", &format!("s/{name}")]).ok());
    let dumps: String = dumps.collect();
    assert!(dumps.contains("put in the = wal"), "the last write is in a WAL");

    world.run(&["dump", "sst", &find("MANIFEST")]).fails(2, &["vlsm dump manifest s/MANIFEST"]);
    world.run(&["dump", "wal", "s/gone.wal"]).fails(1, &["cannot read s/gone.wal"]);
    world.file("junk", vec![7; 9000]);
    for kind in ["wal", "sst", "manifest"] {
        world.run(&["dump", kind, "junk"]).fails(1, &["junk"]);
    }
}

#[test]
fn records_that_were_not_flushed_are_counted() {
    let world = World::new();
    let lines: String = (0..100).map(|i| format!("key{i:06}\tvalue\n")).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    world.run(&["put", "s", "k", "v", "--keyspace", "other", "--create"]).ok();
    world.run(&["delete", "s", "key000001"]).ok();
    let stats = world.run(&["stats", "s"]).ok();
    let row = |name: &str| {
        let row = stats.lines().find(|line| line.starts_with(name));
        row.unwrap_or_else(|| panic!("{name}: {stats}")).to_owned()
    };
    assert!(row("default").ends_with(" 101"), "{stats}");
    assert!(row("other").ends_with(" 1"), "{stats}");
    assert!(stats.contains("entries 102, batches 3"), "{stats}");
    let json = world.run(&["stats", "s", "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["wal"]["batches"], 3);
    assert_eq!(json["keyspaces"][0]["wal_entries"], 101);
    assert_eq!(json["keyspaces"][1]["wal_entries"], 1);
    // Entries in SSTs are not counted twice.
    world.run(&["compact", "s"]).ok();
    let stats = world.run(&["stats", "s"]).ok();
    let row = stats.lines().find(|line| line.starts_with("default")).unwrap().to_owned();
    assert!(row.contains(" 99 ") && row.ends_with(" 0"), "{stats}");
    // An unreadable WAL does not hide the rest.
    for name in names(&world.path("s")).iter().filter(|name| name.ends_with(".wal")) {
        let path = world.path("s").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[16] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let stats = world.run(&["stats", "s"]).ok();
    assert!(stats.contains(" 99 ") && stats.contains("the WAL cannot be read"), "{stats}");
}

/// Metrics of a store that is closed, and of one that is in use.
#[test]
fn metrics_are_printed_for_prometheus() {
    let world = filled();
    // The page shows only SSTs, and a close leaves the last pairs in the WAL.
    world.run(&["compact", "s"]).ok();
    let page = world.run(&["stats", "s", "--prometheus"]).ok();
    let value = |name: &str| {
        let line = page
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} is missing: {page}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let ssts = names(&world.path("s")).iter().filter(|name| name.ends_with(".sst")).count();
    assert_eq!(value("vlsm_sst_files "), ssts as f64);
    assert_eq!(value("vlsm_keyspace_entries{keyspace=\"default\"} "), 39_999.0);
    assert_eq!(value("vlsm_writes_total "), 0.0);
    world.run(&["stats", "s", "--prometheus", "--json"]).fails(2, &["--json"]);
    world.run(&["stats", "none", "--prometheus"]).fails(1, &["none"]);
    let mut import = world.command(&["import", "s"]).spawn().unwrap();
    let mut stdin = import.stdin.take().unwrap();
    let line = format!("more\t{}\n", "x".repeat(1000));
    (0..5000).for_each(|_| stdin.write_all(line.as_bytes()).unwrap());
    let beside = world.run(&["stats", "s", "--prometheus"]);
    assert!(beside.err.contains("is in use"), "{beside:?}");
    assert!(beside.ok().contains("vlsm_keyspace_entries"));
    drop(stdin);
    assert!(import.wait().unwrap().success());
}
