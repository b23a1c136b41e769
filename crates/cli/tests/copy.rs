//! `checkpoint` and `restore`: a round trip, and mistakes of users.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};

#[test]
fn there_and_back() {
    let world = World::new();
    let lines: String = (0..50_000).map(|i| format!("key{i:06}\tsome value {i}\n")).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    let run = world.run(&["checkpoint", "s", "backup"]);
    assert!(run.err.contains("checkpoint backup:") && run.err.contains("WALs"), "{run:?}");
    assert_eq!(run.ok(), "");
    world.run(&["put", "s", "key000007", "changed"]).ok();
    world.run(&["verify", "backup"]).ok();
    world.run(&["restore", "backup", "again"]).ok();
    assert_eq!(world.run(&["export", "again"]).ok(), lines);
    assert_eq!(world.run(&["get", "s", "key000007"]).ok(), "changed\n");
    assert_eq!(world.run(&["get", "again", "key000007"]).ok(), "some value 7\n");
}

#[test]
fn bad_folders() {
    let world = World::new();
    world.run(&["put", "s", "k", "v"]).ok();
    world.run(&["checkpoint", "gone", "backup"]).fails(1, &["gone", "no store"]);
    world.run(&["restore", "gone", "backup"]).fails(1, &["gone", "no store"]);
    assert!(!world.path("backup").exists());
    std::fs::create_dir(world.path("notes")).unwrap();
    world.file("notes/todo.txt", "buy milk");
    for command in ["checkpoint", "restore"] {
        world.run(&[command, "s", "notes"]).fails(1, &["notes is not empty", "new or empty"]);
        for target in ["s", "./s", "s/backup", "s/../s", "notes/../s/backup"] {
            world.run(&[command, "s", target]).fails(1, &["itself", "outside"]);
        }
        world.run(&["checkpoint", "s", "other"]);
        world.run(&[command, "s", "other"]).fails(1, &["already", "new folder"]);
        world.run(&[command, "notes", "new"]).fails(1, &["notes", "not a store"]);
    }
    assert_eq!(names(&world.path("notes")), ["todo.txt"]);
    assert_eq!(world.run(&["get", "s", "k"]).ok(), "v\n");
    // A damaged checkpoint is not restored.
    world.run(&["checkpoint", "s", "backup"]).ok();
    let wal = names(&world.path("backup")).into_iter().find(|n| n.ends_with(".wal")).unwrap();
    let path = world.path("backup").join(&wal);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[16] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    world.run(&["restore", "backup", "new"]).fails(1, &[&wal, "damaged at byte"]);
    assert_eq!(names(&world.path("new")), [""; 0]);
}
