//! Mistakes of a user, and failures of the machine: the program prints one clear line, and nothing
//! is lost.
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
    // The input is so long that the first program must open the store before it can read all of it.
    let line = format!("key\t{}\n", "x".repeat(1000));
    (0..5000).for_each(|_| stdin.write_all(line.as_bytes()).unwrap());
    let holder = format!("is in use by process {}", first.id());
    world.run(&["put", "s", "k", "w"]).fails(1, &[&holder]);
    // A command that only reads works beside it, and reports that.
    let reads = [
        (&["get", "s", "k"][..], "v\n"),
        (&["scan", "s", "--to", "key"], "k\tv\n"),
        (&["verify", "s"], ""),
        (&["checkpoint", "s", "copy"], ""),
    ];
    for (command, out) in reads {
        let run = world.run(command);
        assert_eq!(run.err.matches(&holder).count(), 1, "{run:?}");
        assert_eq!(run.ok(), out);
    }
    assert_eq!(world.run(&["get", "copy", "k"]).ok(), "v\n");
    world.run(&["size", "s"]).ok();
    world.run(&["stats", "s"]).ok();
    world.run(&["keyspaces", "s"]).ok();
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
        "keyspaces",
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
    let bench = world.run(&["bench", "--help"]).ok();
    for profile in vlsm::PROFILES {
        let line = |line: &&str| line.trim_start().starts_with(&format!("{} ", profile.name));
        let line = bench.lines().find(line).unwrap_or_else(|| panic!("{}", profile.name));
        assert!(line.ends_with(&profile.what()), "on one line: {line}");
    }
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

#[test]
fn help_is_a_command_too() {
    let world = World::new();
    let page = |args: &[&str]| world.run(args).ok();
    assert_eq!(page(&["help", "scan"]), page(&["scan", "--help"]));
    assert_eq!(page(&["help"]), page(&["--help"]));
    assert_eq!(page(&["help", "dump", "wal"]), page(&["dump", "wal", "--help"]));
    world.run(&["lab", "figure", "--help"]).fails(2, &["--package vlsm-lab -- figure --help"]);
    world.run(&["help", "scam"]).fails(2, &["scam"]);
}

#[test]
fn keyspace_names_that_nobody_could_type() {
    let world = World::new();
    for name in ["", "a/b", "line\nfeed", "\u{1b}[2J"] {
        let run = world.run(&["put", "s", "--create", "--keyspace", name, "k", "v"]);
        assert!(!run.err.trim_end().contains(char::is_control), "{run:?}");
        run.fails(2, &["keyspace", "name"]);
    }
    world.run(&["put", "s", "--create", "--keyspace", "größe", "k", "v"]).ok();
    assert_eq!(world.run(&["get", "s", "--keyspace", "größe", "k"]).ok(), "v\n");
}

#[test]
fn another_operator_is_named_beside_the_one_there() {
    let world = World::new();
    let merge = |operator| {
        world.run(&["merge", "s", "--keyspace", "n", "k", "--number", "1", "--operator", operator])
    };
    merge("add").ok();
    merge("max").fails(1, &["\"n\"", "merge_operator", "\"add\"", "\"max\""]);
}

#[test]
fn a_name_that_resembles_none_gets_no_suggestion() {
    let world = World::new();
    for name in ["xyz", "abc", "q", "", "no", "profile", "fast", "default"] {
        let run = world.run(&["put", "s", "k", "v", "--profile", name]);
        assert!(!run.err.contains("did you mean"), "{name:?}: {run:?}");
        run.fails(2, &["profile", "There are: "]);
    }
    for (name, near) in
        [("rocksbd", "rocksdb"), ("RocksDB", "rocksdb"), ("slik", "silk"), ("vslm", "vlsm")]
    {
        let near = format!("did you mean {near:?}");
        world.run(&["put", "s", "k", "v", "--profile", name]).fails(2, &[&near]);
    }
    let run = world.run(&["bench", "--workload", "zz"]);
    assert!(!run.err.contains("did you mean"), "{run:?}");
    assert!(!world.path("s").exists());
}

/// An error in a file of options names the file and a remedy, and no store is made.
#[test]
fn a_wrong_file_of_options() {
    let world = World::new();
    let put = |text: &str| {
        std::fs::write(world.path("own.toml"), text).expect("written");
        world.run(&["put", "s", "k", "v", "--options", "own.toml"])
    };
    for (text, says) in [
        ("workerz = 2", "workers"),
        ("workers = 1000", "workers"),
        ("workers =", "line 1"),
        ("[policy]\nprofile = 'rocksbd'", "did you mean \"rocksdb\"?"),
        ("[policy]\nadmission = 'crise'", "did you mean \"cruise\"?"),
        ("[policy.silc]\nwindow = 20_000", "did you mean \"silk\"?"),
        ("[policy.silk]\nwindw = 20_000", "did you mean \"window\"?"),
        ("[policy.silk]\nwindow = 1", "1 ms"),
        ("[policy.tree]\nmemtable_bytes = '1Q'", "64K"),
        ("[policy.tree]\nmemtable_count = 1", "memtable_count"),
        ("memory_limit = '1M'", "memory_limit"),
    ] {
        put(text).fails(2, &["own.toml", says]);
    }
    world.run(&["put", "s", "k", "v", "--options", "none.toml"]).fails(2, &["none.toml"]);
    assert!(!world.path("s").exists());
    put("durability = 'sync'\n[policy]\nprofile = 'cruise'").ok();
    world.run(&["get", "s", "k", "--options", "own.toml"]).ok();
}

/// If `verify` finds a WAL that is damaged in the middle, the store can be opened as `verify`
/// advises.
#[test]
fn the_advice_of_verify_can_be_followed() {
    let world = World::new();
    (0..12).for_each(|i| drop(world.run(&["put", "s", &format!("key{i}"), "v"]).ok()));
    let wals = names(&world.path("s")).into_iter().filter(|name| name.ends_with(".wal"));
    let path = world.path("s").join(wals.max().unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|part| part == b"key11").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let run = world.run(&["verify", "s"]);
    assert!(run.out.contains("--salvage-wal"), "{run:?}");
    run.fails(1, &["is damaged"]);
    world.run(&["get", "s", "key0"]).fails(1, &["damaged"]);
    assert_eq!(world.run(&["get", "s", "key0", "--salvage-wal"]).ok(), "v\n");
    // Reads changed nothing; a write ends the log at the damage.
    world.run(&["get", "s", "key0"]).fails(1, &["damaged"]);
    world.run(&["put", "s", "more", "v", "--salvage-wal"]).ok();
    assert_eq!(world.run(&["get", "s", "more"]).ok(), "v\n");
    world.run(&["verify", "s"]).ok();
}
