//! `vlsm keyspaces`: the list, and the commands that clear and drop keyspaces.
#![allow(clippy::unwrap_used)]

mod common;

use common::World;

#[test]
fn a_keyspace_is_cleared_and_dropped_only_on_purpose() {
    let world = World::new();
    world.run(&["put", "s", "key", "kept"]).ok();
    world.run(&["put", "s", "page", "text", "--keyspace", "cache", "--create"]).ok();
    let in_cache = || world.run(&["get", "s", "page", "--keyspace", "cache"]);
    for change in ["clear", "drop"] {
        world.run(&["keyspaces", change, "s", "cache"]).fails(1, &["\"cache\"", "--yes"]);
        assert!(in_cache().ok().contains("text"));
    }
    let json = world.run(&["keyspaces", "clear", "s", "cache", "--yes", "--json"]).ok();
    assert!(json.contains("\"change\": \"cleared\""), "{json}");
    let cleared = world.run(&["keyspaces", "clear", "s", "cache", "--yes"]);
    assert!(cleared.err.contains("\"cache\" is cleared"), "{cleared:?}");
    in_cache().fails(1, &[]);
    assert!(world.run(&["keyspaces", "s"]).ok().contains("cache"));
    world.run(&["keyspaces", "drop", "s", "cache", "--yes"]).ok();
    assert!(!world.run(&["keyspaces", "s"]).ok().contains("cache"));
    in_cache().fails(1, &["no keyspace \"cache\""]);
    assert!(world.run(&["get", "s", "key"]).ok().contains("kept"));
    assert!(world.run(&["verify", "s"]).code == 0);
}

#[test]
fn the_list_counts_what_is_in_the_wal_only() {
    let world = World::new();
    world.run(&["put", "s", "key", "kept"]).ok();
    world.run(&["put", "s", "page", "text", "--keyspace", "cache", "--create"]).ok();
    for keyspace in ["default", "cache"] {
        world.run(&["compact", "s", "--keyspace", keyspace]).ok();
    }
    world.run(&["put", "s", "second", "text", "--keyspace", "cache"]).ok();
    let list = world.run(&["keyspaces", "s", "--json"]).ok();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let counts = |keyspace: usize| {
        let (entries, in_wal) = (&list[keyspace]["entries"], &list[keyspace]["wal_entries"]);
        (entries.as_u64().unwrap(), in_wal.as_u64().unwrap())
    };
    assert_eq!([counts(0), counts(1)], [(1, 0), (1, 1)], "{list}");
    let cache = world.run(&["keyspaces", "s"]).ok();
    let cache = cache.lines().find(|line| line.starts_with("cache")).unwrap().split_whitespace();
    assert_eq!(cache.last(), Some("1"));
}

#[test]
fn a_keyspace_is_renamed() {
    let world = World::new();
    world.run(&["put", "s", "title", "A tale", "--keyspace", "draft", "--create"]).ok();
    world.run(&["put", "s", "title", "Other", "--keyspace", "taken", "--create"]).ok();
    let rename = |to: &str| world.run(&["keyspaces", "rename", "s", "draft", to]);
    rename("taken").fails(1, &["there is a keyspace \"taken\" already"]);
    rename("a/b").fails(2, &["'/'"]);
    assert!(rename("book").err.contains("keyspace \"draft\" is renamed"));
    rename("again").fails(1, &["no keyspace \"draft\""]);
    assert!(world.run(&["get", "s", "title", "--keyspace", "book"]).ok().contains("A tale"));
    world.run(&["keyspaces", "rename", "s", "default", "x"]).fails(1, &["\"default\""]);
    let dump = world.run(&["keyspaces", "s"]).ok();
    assert!(dump.contains("book") && !dump.contains("draft"), "{dump}");
}

#[test]
fn mistakes_with_keyspaces_are_told() {
    let world = World::new();
    world.run(&["put", "s", "key", "kept"]).ok();
    let run = |args: &[&str]| world.run(&[&["keyspaces"], args].concat());
    run(&["drop", "s", "default", "--yes"]).fails(1, &["\"default\"", "clear it instead"]);
    run(&["drop", "s", "typo", "--yes"]).fails(1, &["no keyspace \"typo\"", "default"]);
    run(&["clear", "nowhere", "default", "--yes"]).fails(1, &["no store at"]);
    run(&["clear", "s", "--yes"]).fails(2, &["<KEYSPACE>"]);
    run(&[]).fails(2, &["<STORE>"]);
    assert!(world.run(&["get", "s", "key"]).ok().contains("kept"));
    assert!(!world.path("nowhere").exists());
}
