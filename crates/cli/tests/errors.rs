//! What a person does wrong, or what the machine does to them: one clear line, and nothing lost.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};
use std::io::{BufRead, BufReader, Write};

#[test]
fn a_missing_folder() {
    let world = World::new();
    for command in [&["get", "gone", "k"][..], &["scan", "gone"], &["stats", "gone"]] {
        world.run(command).fails(1, &["gone", "no store"]);
        assert!(!world.path("gone").exists(), "{command:?} makes nothing");
    }
}

#[test]
fn a_folder_of_something_else() {
    let world = World::new();
    std::fs::create_dir(world.path("notes")).unwrap();
    let file = world.file("notes/todo.txt", "buy milk");
    for command in [&["put", "notes", "k", "v"][..], &["scan", "notes"], &["levels", "notes"]] {
        world.run(command).fails(1, &["notes", "is not a store"]);
    }
    assert_eq!(names(&world.path("notes")), ["todo.txt"]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "buy milk");
    world.file("plain", "a file");
    world.run(&["put", "plain", "k", "v"]).fails(1, &["plain"]);
}

#[test]
fn a_second_opener() {
    let world = World::new();
    world.run(&["put", "s", "k", "v"]).ok();
    let mut first = world.command(&["import", "s"]).spawn().unwrap();
    let mut stdin = first.stdin.take().unwrap();
    // Enough that the first must have opened the store before it can take it all.
    let line = format!("key\t{}\n", "x".repeat(1000));
    (0..5000).for_each(|_| stdin.write_all(line.as_bytes()).unwrap());
    world.run(&["get", "s", "k"]).fails(1, &["is in use"]);
    drop(stdin);
    assert!(first.wait().unwrap().success());
    assert_eq!(world.run(&["get", "s", "k"]).ok(), "v\n");
}

#[test]
fn a_damaged_store_says_which_file() {
    let world = World::new();
    world.run(&["put", "s", "k", "v"]).ok();
    for name in names(&world.path("s")).iter().filter(|name| name.contains("MANIFEST")) {
        let path = world.path("s").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.iter_mut().take(64).for_each(|byte| *byte ^= 0xff);
        std::fs::write(&path, bytes).unwrap();
    }
    world.run(&["get", "s", "k"]).fails(1, &["MANIFEST-"]);
}

#[test]
fn a_reader_that_goes_away() {
    let world = World::new();
    let lines: String = (0..50_000).map(|i| format!("key{i:06}\tsome value\n")).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    for command in [&["scan", "s"][..], &["export", "s"], &["scan", "s", "--keys-only"]] {
        let mut child = world.command(command).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.starts_with("key000000"));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{command:?}");
    }
}

#[test]
fn help_has_examples_for_every_command() {
    let world = World::new();
    let commands = [
        "put",
        "get",
        "delete",
        "scan",
        "import",
        "export",
        "stats",
        "levels",
        "verify",
        "checkpoint",
        "compact",
        "size",
    ];
    for command in commands {
        let help = world.run(&[command, "--help"]).ok();
        assert!(help.contains("Example"), "{command}");
        assert!(help.contains(&format!("vlsm {command} my-store")), "{command}");
    }
    for what in ["wal", "sst", "manifest"] {
        assert!(world.run(&["dump", what, "--help"]).ok().contains("Example"), "{what}");
    }
    assert!(world.run(&["--help"]).ok().contains("Exit codes"));
}

#[test]
fn commands_that_only_read_change_nothing() {
    let world = World::new();
    world.run(&["put", "s", "k", "v"]).ok();
    std::fs::write(world.path("s/000777.sst"), "left by a job").unwrap();
    let state = || {
        let of = |name: String| {
            let path = world.path("s").join(&name);
            let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
            (name, std::fs::read(path).unwrap(), changed)
        };
        names(&world.path("s")).into_iter().map(of).collect::<Vec<_>>()
    };
    let before = state();
    assert_eq!(world.run(&["get", "s", "k"]).ok(), "v\n");
    for command in
        [&["scan", "s"][..], &["export", "s"], &["stats", "s"], &["levels", "s"], &["verify", "s"]]
    {
        world.run(command).ok();
    }
    assert!(state() == before);
}
