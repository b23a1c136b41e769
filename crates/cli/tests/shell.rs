//! The shell, by a pipe: its commands are those of the program, on one open store.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::World;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};

/// Runs a shell with these lines as its input.
fn shell(world: &World, args: &[&str], lines: &[&str]) -> common::Run {
    let all = [&["shell", "s"], args].concat();
    world.run_with(&all, (lines.join("\n") + "\n").as_bytes())
}

#[test]
fn commands_work_one_after_the_other() {
    let world = World::new();
    let run = shell(
        &world,
        &["--create"],
        &[
            "put apple green",
            "# a remark",
            "",
            "put 'two words' \"it's\"",
            r"put a\tb\x00 v",
            "get apple",
            "get 'two words' --json",
            "scan",
            "delete apple --json",
            "scan --count",
            "exit",
            "put never seen",
        ],
    );
    assert_eq!(run.err, "");
    let out = run.ok();
    let (records, rest) = out.split_once("{\n").unwrap();
    assert_eq!(
        records,
        "green\n{\"key\": \"two words\", \"value\": \"it's\"}\na\\tb\\x00\tv\napple\tgreen\n\
         two words\tit's\n"
    );
    assert!(rest.ends_with("}\n2\n"), "{out}");
    assert_eq!(world.run(&["scan", "s", "--count"]).ok(), "2\n", "it was closed");
}

#[test]
fn errors_do_not_end_it() {
    let world = World::new();
    let run = shell(
        &world,
        &["--create"],
        &[
            "get none",
            "frobnicate",
            "scna --limit 1",
            "put 'a",
            "put only-a-key",
            "scan --prefix a --from b",
            "use nothing",
            "use",
            "bench",
            "shell",
            "get k --profile vlsm",
            "put k v",
            "get k",
        ],
    );
    assert_eq!(run.out, "v\n");
    let says = [
        "no such key",
        "there is no command \"frobnicate\": help lists them",
        "there is no command \"scna\" (did you mean \"scan\"?): help lists them",
        "a quote ' does not end",
        "VALUE",
        "--prefix",
        "no keyspace \"nothing\"",
        "use takes",
        "no command bench",
        "one already",
        "the store is open already",
        "11 commands failed",
    ];
    run.fails(1, &says);
    assert!(!world.path("frobnicate").exists());
}

#[test]
fn a_keyspace_is_chosen() {
    let world = World::new();
    let run = shell(
        &world,
        &["--create"],
        &[
            "put --keyspace fruit apple red --create",
            "put apple green",
            "use fruit",
            "get apple",
            "get apple --keyspace default",
            "merge --keyspace=visits --operator add ada --number 1",
            "use visits",
            "get ada --hex",
            "use default",
            "get apple",
        ],
    );
    assert!(run.out.starts_with("red\ngreen\n"), "{run:?}");
    assert!(run.out.ends_with("\ngreen\n"), "{run:?}");
    run.fails(1, &["hexadecimal", "1 command failed"]);
    let run = shell(&world, &["--keyspace", "fruit", "--read-only"], &["get apple", "put a b"]);
    assert_eq!(run.out, "red\n");
    run.fails(1, &["read-only"]);
    shell(&world, &["--keyspace", "frut"], &[]).fails(1, &["did you mean \"fruit\""]);
}

/// Each command of the program also works in the shell, without naming the store.
#[test]
fn every_command_works_on_the_open_store() {
    let world = World::new();
    world.file("in.tsv", "a\t1\nb\t2\n");
    let lines = [
        "import in.tsv --json",
        "compact --json",
        "size --json",
        "stats --json",
        "keyspaces --json",
        "levels --json",
        "sst out.sst in.tsv --json",
        "ingest out.sst --json",
        "verify --json",
        "checkpoint copy --json",
        "restore copy back --json",
        "dump manifest --brief --json",
        "export all.tsv",
        "scan --json --limit 1",
        "help",
        "help scan",
    ];
    let run = shell(&world, &["--create"], &lines);
    assert_eq!(run.code, 0, "{run:?}");
    let mut values = serde_json::Deserializer::from_str(&run.out).into_iter::<Value>();
    let results = values.by_ref().take(13).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(results[0]["records"], 2);
    assert_eq!(results[8]["damaged"], false);
    assert_eq!(results[12]["key"], "a");
    let help = &run.out[values.byte_offset()..];
    assert!(help.contains("use NAME") && help.contains("Examples:"), "{help}");
    assert_eq!(std::fs::read_to_string(world.path("all.tsv")).unwrap(), "a\t1\nb\t2\n");
    assert_eq!(world.run(&["scan", "back", "--count"]).ok(), "2\n");
}

#[test]
fn a_line_of_other_bytes_is_an_error_like_any_other() {
    let world = World::new();
    let run = world.run_with(&["shell", "s", "--create"], b"put a\xff b\nput a b\nget a");
    assert_eq!(run.out, "b\n", "the last line needs no end: {run:?}");
    run.fails(1, &["not UTF-8", "\\xNN", "1 command failed"]);
}

#[test]
fn the_times_are_told_on_request() {
    let world = World::new();
    let run = shell(&world, &["--create", "--timing"], &["put a b", "get a"]);
    assert_eq!(run.out, "b\n");
    assert_eq!(run.err.lines().filter(|line| line.ends_with(" ms")).count(), 2, "{run:?}");
    let none = world.run_with(&["shell", "none"], b"get a\n");
    none.fails(1, &["none", "no store", "--create"]);
    assert!(!world.path("none").exists());
}

#[test]
fn a_store_that_does_not_open_again_is_not_opened_in_another_way() {
    let world = World::new();
    world.file("options.toml", "[policy.tree]\nmemtable_bytes = '1M'\n");
    let args = ["shell", "s", "--create", "--options", "options.toml"];
    let mut child = world.command(&args).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    writeln!(input, "put a b\nget a").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "b");
    std::fs::remove_file(world.path("options.toml")).unwrap();
    writeln!(input, "verify\nput c d\nuse default\nscan").unwrap();
    drop(input);
    assert!(lines.next().is_none(), "nothing is read or written by other options");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("options.toml: ").count(), 4, "{said}");
    assert!(said.contains("3 commands failed"), "{said}");
    assert_eq!(world.run(&["scan", "s", "--count"]).ok(), "1\n");
}

/// The input of a shell from a pipe is also what `import` and `put --file -` read.
#[test]
fn a_command_may_read_the_rest_of_the_input() {
    let world = World::new();
    let run = shell(&world, &["--create"], &["put first 1", "import - --json", "a\t1", "b\t2"]);
    let json: Value = serde_json::from_str(&run.ok()).unwrap();
    assert_eq!(json["records"], 2);
    assert_eq!(world.run(&["scan", "s", "--keys-only"]).ok(), "a\nb\nfirst\n");
}
