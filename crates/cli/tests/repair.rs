//! `repair`: all readable data of a damaged store is in the new store, the rest is listed by range
//! of keys, and the damaged store stays unchanged, byte for byte.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A closed store whose keys all have a newer value `b` over an older value `a` in SSTs; the
/// keyspace `other` has one key in the WAL.
fn filled(world: &World) -> Vec<String> {
    let lines = |value: &str| {
        let value = value.repeat(500);
        (0..20_000).map(|i| format!("key{i:06}\t{value}")).collect::<Vec<_>>()
    };
    // Small SSTs, so that there are many.
    world.file("small.toml", "[policy.tree]\nmemtable_bytes = '1M'\nsst_max = '1M'\n");
    let small = |args: &[&str], input: &[u8]| {
        world.run_with(&[args, &["--options", "small.toml"]].concat(), input).ok()
    };
    small(&["import", "s"], lines("a").join("\n").as_bytes());
    small(&["compact", "s"], b"");
    let newer = lines("b");
    small(&["import", "s"], newer.join("\n").as_bytes());
    small(&["compact", "s", "--to", "key005"], b"");
    world.run(&["put", "s", "--keyspace", "other", "--create", "k", "v"]).ok();
    newer
}

/// The files of the store, with their content.
fn content(world: &World) -> Vec<(String, Vec<u8>)> {
    let file = |name: String| {
        let bytes = std::fs::read(world.path("s").join(&name)).unwrap();
        (name, bytes)
    };
    names(&world.path("s")).into_iter().map(file).collect()
}

/// The paths of the store's files that have this ending.
fn files(world: &World, end: &str) -> Vec<PathBuf> {
    let all = names(&world.path("s")).into_iter().filter(|name| name.ends_with(end));
    all.map(|name| world.path("s").join(name)).collect()
}

/// Changes a bit of the byte at a place that depends on the length.
fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at(bytes.len());
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_store_becomes_an_equal_one() {
    let world = World::new();
    filled(&world);
    let before = content(&world);
    let run = world.run(&["repair", "s", "new", "--json"]);
    let json: Value = serde_json::from_str(&run.ok()).unwrap();
    assert_eq!(json["lost"].as_array().map(Vec::len), Some(0), "{json}");
    assert_eq!(world.run(&["export", "new"]).ok(), world.run(&["export", "s"]).ok());
    assert_eq!(world.run(&["get", "new", "--keyspace", "other", "k"]).ok(), "v\n");
    assert!(content(&world) == before, "the old store is only read");
}

#[test]
fn no_older_value_shows_where_newer_ones_are_lost() {
    let world = World::new();
    let newer = filled(&world);
    let mut ssts = files(&world, ".sst");
    // Depending on the speed of the flushes, an SST may hold only a few keys, and be too short to
    // cut.
    ssts.retain(|path| std::fs::metadata(path).unwrap().len() > 8192);
    assert!(ssts.len() > 3, "{ssts:?}");
    let sound = content(&world);
    let known: BTreeSet<&str> = newer.iter().map(String::as_str).collect();
    for (what, index) in [("damaged", 0), ("cut", 1), ("missing", ssts.len() - 1)] {
        for (name, bytes) in &sound {
            std::fs::write(world.path("s").join(name), bytes).unwrap();
        }
        let path = &ssts[index];
        match what {
            "damaged" => flip(path, |len| len / 2),
            "cut" => std::fs::write(path, &std::fs::read(path).unwrap()[..8192]).unwrap(),
            _ => std::fs::remove_file(path).unwrap(),
        }
        let before = content(&world);
        let new = format!("new-{what}");
        let run = world.run(&["repair", "s", &new, "--json"]);
        assert_eq!(run.code, 1, "{what}: {run:?}");
        let json: Value = serde_json::from_str(&run.out).unwrap();
        assert!(content(&world) == before, "{what}: the old store is only read");
        let lost = json["lost"].as_array().unwrap();
        assert!(!lost.is_empty(), "{what}: {json}");
        let is_lost = |line: &str| {
            let key = line.split('\t').next().unwrap();
            lost.iter().any(|range| {
                let (from, to) = (range["from"].as_str().unwrap(), range["to"].as_str().unwrap());
                let below = if range["to_included"] == true { key <= to } else { key < to };
                assert_eq!(range["keyspace"], "default");
                assert_eq!(range["older_values"], false);
                from <= key && below
            })
        };
        let there = world.run(&["export", &new]).ok();
        let there: BTreeSet<&str> = there.lines().collect();
        assert!(there.is_subset(&known), "{what}: no older value");
        let mut kept = newer.iter().filter(|line| !is_lost(line));
        assert!(kept.all(|line| there.contains(line.as_str())), "{what}: what is not lost");
        // A range may begin with the last key before the damaged block, which is saved.
        let begins = |line: &str| {
            let key = line.split('\t').next();
            lost.iter().any(|range| range["from"].as_str() == key)
        };
        assert!(there.iter().all(|line| !is_lost(line) || begins(line)), "{what}: what is lost");
        assert!(lost[0]["why"].as_str().unwrap().contains("/s/"), "{what}: the old path: {json}");
        world.run(&["verify", &new]).ok();
        assert!(!world.path(&new).join("lost").exists(), "the old store has it");
        world.run(&["put", &new, "more", "v"]).ok();
        assert_eq!(world.run(&["get", &new, "--keyspace", "other", "k"]).ok(), "v\n");
        let expected =
            |name: &String| name == "s" || name == "small.toml" || name.starts_with("new-");
        assert!(names(&world.path("")).iter().all(expected), "nothing is left beside it");
    }
}

#[test]
fn a_damaged_log_is_saved_up_to_its_damage() {
    let world = World::new();
    (0..12).for_each(|i| drop(world.run(&["put", "s", &format!("key{i:02}"), "v"]).ok()));
    let wal = files(&world, ".wal").pop().unwrap();
    let bytes = std::fs::read(&wal).unwrap();
    let at = bytes.windows(5).position(|part| part == b"key11").unwrap();
    flip(&wal, |_| at);
    let run = world.run(&["repair", "s", "new"]);
    assert!(run.out.contains("not complete: the WAL ends before its damage"), "{run:?}");
    assert!(run.err.contains("saved into new: 11 entries in 1 SST\n"), "the WAL's too: {run:?}");
    run.fails(1, &["a sound store", "not everything", "saved: see 2 remarks\n"]);
    let keys = world.run(&["scan", "new", "--keys-only"]).ok();
    assert!(keys.starts_with("key00\n") && !keys.contains("key11"), "{keys}");
    assert_eq!(keys.lines().count(), 11);
    world.run(&["get", "s", "key00"]).fails(1, &["damaged"]);
}

#[test]
fn a_damaged_manifest_is_read_up_to_its_damage() {
    let world = World::new();
    let newer = filled(&world);
    let manifest =
        files(&world, "").into_iter().find(|path| path.to_string_lossy().contains("MANIFEST"));
    let manifest = manifest.unwrap();
    // Without CURRENT the newest manifest is used.
    std::fs::remove_file(world.path("s/CURRENT")).unwrap();
    let run = world.run(&["repair", "s", "new"]);
    assert!(run.out.contains("the manifest: "), "{run:?}");
    run.fails(1, &["a sound store"]);
    assert!(world.run(&["export", "new"]).ok().lines().eq(&newer));
    // If the end of the manifest is missing, SSTs that it does not name are listed with their keys.
    let bytes = std::fs::read(&manifest).unwrap();
    let sound = content(&world);
    std::fs::write(&manifest, &bytes[..5000]).unwrap();
    let run = world.run(&["repair", "s", "part"]);
    assert!(run.out.contains(".sst is not saved, because"), "{run:?}");
    assert!(run.out.contains("(keys from key0"), "{run:?}");
    run.fails(1, &["a sound store"]);
    world.run(&["verify", "part"]).ok();
    for (name, bytes) in sound {
        std::fs::write(world.path("s").join(name), bytes).unwrap();
    }
    // No part of any manifest can be read.
    flip(&manifest, |_| 3);
    let run = world.run(&["repair", "s", "none"]);
    run.fails(1, &["no part of the manifest", "which keyspace", "backup"]);
    assert!(!world.path("none").exists());
}

#[test]
fn what_is_more_than_a_value_keeps_whole_ssts_only() {
    let world = World::new();
    let lines: String = (0..3000).map(|i| format!("key{i:06}\t{}\n", "v".repeat(900))).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    world.run(&["put", "s", "zz", "soon", "--ttl", "1d"]).ok();
    world.run(&["compact", "s"]).ok();
    let ssts = files(&world, ".sst");
    flip(&ssts[0], |len| len / 2);
    let run = world.run(&["repair", "s", "new"]);
    assert!(run.out.contains("older values may show again"), "{run:?}");
    assert!(run.out.contains("lost: keyspace default, from key0"), "{run:?}");
    run.fails(1, &["a sound store"]);
    world.run(&["verify", "new"]).ok();
}

/// Opens the store `s`, to write data that the program itself does not write.
fn opened(world: &World) -> vlsm::Db {
    vlsm::Db::open(world.path("s")).unwrap()
}

#[test]
fn every_region_of_a_keyspace_is_saved() {
    let world = World::new();
    let db = opened(&world);
    let options = vlsm::KeyspaceOptions::splits(["key1000", "key2000"]);
    let split = db.create_keyspace("split", options).unwrap();
    let pairs: Vec<(String, String)> =
        (0..3000).map(|i| (format!("key{i:04}"), format!("{i:0500}"))).collect();
    pairs.iter().for_each(|(key, value)| split.put(key, value).unwrap());
    db.flush().unwrap();
    drop(split);
    db.close().unwrap();
    let ssts = files(&world, ".sst");
    assert_eq!(ssts.len(), 3, "one for each region");
    ssts.iter().for_each(|sst| flip(sst, |len| len / 2));
    let run = world.run(&["repair", "s", "new", "--json"]);
    let json: Value = serde_json::from_str(&run.out).unwrap();
    run.fails(1, &["a sound store", "saved: see 3 lost ranges of keys\n"]);
    let lost = json["lost"].as_array().unwrap();
    assert!(lost.iter().all(|range| range["older_values"] == false), "{json}");
    let there = world.run(&["export", "new", "--keyspace", "split"]).ok();
    let there: BTreeSet<&str> = there.lines().collect();
    assert!(there.len() > 2500, "all but a block of each region: {}", there.len());
    for (key, value) in &pairs {
        let is_lost = lost.iter().any(|range| {
            let (from, to) = (range["from"].as_str().unwrap(), range["to"].as_str().unwrap());
            from <= key.as_str() && key.as_str() <= to
        });
        let line = format!("{key}\t{value}");
        assert!(is_lost || there.contains(line.as_str()), "{key}: {json}");
    }
}

#[test]
fn values_of_a_large_batch_still_expire() {
    let world = World::new();
    let db = opened(&world);
    let key = |i: u32| format!("key{i:04}");
    (0..3000).for_each(|i| db.put(key(i), "v".repeat(100)).unwrap());
    db.flush().unwrap();
    let soon = std::time::Duration::from_secs(3600);
    let mut batch = vlsm::Batch::new();
    let values = db.default_keyspace();
    (0..3000).for_each(|i| batch.put_with_ttl(&values, key(i), "w".repeat(200), soon));
    assert!(batch.encoded_len() > 2 * 256 * 1024, "it is several fragments of the WAL");
    db.write(&batch, vlsm::WriteOptions::default()).unwrap();
    drop(values);
    db.close().unwrap();
    flip(&files(&world, ".sst")[0], |len| len / 2);
    let run = world.run(&["repair", "s", "new"]);
    assert!(run.out.contains("older values may show again"), "{run:?}");
    run.fails(1, &["saved: see 1 lost range of keys\n"]);
    let lines = world.run(&["export", "new"]).ok();
    assert!(lines.lines().count() == 3000 && !lines.contains('v'), "the newer values");
    let ssts = names(&world.path("new")).into_iter().filter(|name| name.ends_with(".sst"));
    let dumped =
        ssts.map(|name| world.run(&["dump", "sst", &format!("new/{name}"), "--json"]).ok());
    let expiring: usize = dumped.map(|text| text.matches("expires_micros").count()).sum();
    assert_eq!(expiring, 3000, "with the moment at which they expire");
}

#[test]
fn mistakes_make_and_change_nothing() {
    let world = World::new();
    world.run(&["put", "s", "k", "v"]).ok();
    let before = content(&world);
    world.run(&["repair", "gone", "new"]).fails(1, &["gone"]);
    world.run(&["repair", "s", "s"]).fails(2, &["inside"]);
    world.run(&["repair", "s", "s/new"]).fails(2, &["inside"]);
    // Also by a path through a folder that does not exist yet, and by links.
    std::fs::create_dir(world.path("other")).unwrap();
    std::os::unix::fs::symlink(world.path("s"), world.path("link")).unwrap();
    for within in ["other/../s/new", "none/../s/new", "link/new", "other/../link/a/b"] {
        world.run(&["repair", "s", within]).fails(2, &["inside"]);
    }
    world.run(&["repair", "link", "s/new"]).fails(2, &["inside"]);
    assert!(!world.path("none").exists());
    std::fs::create_dir(world.path("full")).unwrap();
    world.file("full/note", "mine");
    world.run(&["repair", "s", "full"]).fails(1, &["full is not empty"]);
    std::fs::create_dir(world.path("notes")).unwrap();
    world.file("notes/todo", "milk");
    world.run(&["repair", "notes", "new"]).fails(1, &["notes"]);
    world.file("plain", "text");
    world.run(&["repair", "plain", "new"]).fails(1, &["plain"]);
    world.run(&["repair", "s", "plain"]).fails(1, &["plain"]);
    assert!(!world.path("new").exists());
    assert!(content(&world) == before);
    let db = vlsm::Db::open(world.path("s")).unwrap();
    world.run(&["repair", "s", "new"]).fails(1, &["in use"]);
    db.close().unwrap();
    assert!(!world.path("new").exists());
    // An empty folder that was there stays there.
    std::fs::create_dir(world.path("empty")).unwrap();
    world.run(&["repair", "s", "empty"]).ok();
    assert_eq!(world.run(&["get", "empty", "k"]).ok(), "v\n");
}
