//! `--json` of every command, as a table: the command, and the fields of its output.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};
use serde_json::Value;

/// The objects of an output: one document, or one per line.
fn objects(out: &str) -> Vec<Value> {
    match serde_json::from_str(out) {
        Ok(Value::Array(all)) => all,
        Ok(one) => vec![one],
        Err(_) => out.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
    }
}

/// Each command in turn, with input, and the fields of its first object and of its last one.
const TABLE: &[(&str, &str, &str, &str)] = &[
    ("put s apple green", "", "writes", "writes"),
    ("put s pear yellow --ttl 1h", "", "writes", "writes"),
    ("put s --hex ff00 fe", "", "writes", "writes"),
    ("merge s --keyspace n --operator add k --number 3", "", "writes", "writes"),
    ("get s apple", "", "key value", "key value"),
    ("get s --hex ff00", "", "key_hex value_hex", "key_hex value_hex"),
    ("scan s", "", "key value", "key_base64 value_base64"),
    ("scan s --keys-only", "", "key", "key_base64"),
    ("scan s --count", "", "count", "count"),
    ("export s", "", "key value", "key_base64 value_base64"),
    (
        "dump manifest s",
        "",
        "file filled length next_sequence_number predecessor started uid",
        "end",
    ),
    ("delete s apple", "", "writes", "writes"),
    (
        "import s",
        "a\tb\nc\td\n",
        "bad bytes keyspaces records seconds",
        "bad bytes keyspaces records seconds",
    ),
    (
        "sst all.sst",
        "a\tb\nc\td\n",
        "bad bytes file file_bytes records seconds",
        "bad bytes file file_bytes records seconds",
    ),
    ("ingest s all.sst", "", "bytes files into_l0 records", "bytes files into_l0 records"),
    ("compact s", "", "keyspace store", "keyspace store"),
    ("size s", "", "bytes entries", "bytes entries"),
    (
        "dump sst all.sst",
        "",
        "bytes checksum data_blocks entries key_bytes largest range_tombstones \
         sequence_numbers smallest tombstones uid value_bytes",
        "key kind sequence_number value",
    ),
    (
        "stats s",
        "",
        "files keyspaces sequence_number store uid wal",
        "files keyspaces sequence_number store uid wal",
    ),
    (
        "keyspaces s",
        "",
        "bytes entries keyspace options regions",
        "bytes entries keyspace options regions",
    ),
    ("levels s", "", "keyspace levels tree", "keyspace levels tree"),
    (
        "verify s",
        "",
        "batches bytes damaged entries findings more ssts wals",
        "batches bytes damaged entries findings more ssts wals",
    ),
    ("checkpoint s b", "", "bytes copied ssts target wals", "bytes copied ssts target wals"),
    ("repair s saved", "", "entries lost remarks ssts target", "entries lost remarks ssts target"),
    ("restore b r", "", "bytes copied ssts target wals", "bytes copied ssts target wals"),
];

#[test]
fn every_command_prints_its_result_as_json() {
    let world = World::new();
    for (command, input, first, last) in TABLE {
        let args: Vec<&str> = command.split(' ').chain(["--json"]).collect();
        let run = world.run_with(&args, input.as_bytes());
        assert_eq!(run.code, 0, "{command}: {run:?}");
        let found = objects(&run.out);
        let fields = |object: Option<&Value>| {
            let names: Vec<_> = object.unwrap().as_object().unwrap().keys().cloned().collect();
            let mut names: Vec<_> = names.into_iter().collect();
            names.sort();
            names.join(" ")
        };
        // Other fields may be added.
        for (object, wanted) in [(found.first(), first), (found.last(), last)] {
            let has = fields(object);
            let has: Vec<&str> = has.split(' ').collect();
            for field in wanted.split_whitespace() {
                assert!(has.contains(&field), "{command}: {field} is not in {has:?}");
            }
        }
    }
    // The first line of a WAL is its header, the last one says where it ends.
    let wal = names(&world.path("s")).into_iter().find(|name| name.ends_with(".wal")).unwrap();
    let out = world.run(&["dump", "wal", &format!("s/{wal}"), "--json"]).ok();
    let found = objects(&out);
    assert!(found[0]["uid"].is_string(), "{out}");
    assert!(found.last().unwrap()["end"].is_u64(), "{out}");
}

/// A command is in the table, or prints no result of its own.
#[test]
fn no_command_is_left_out_of_the_table() {
    // `bench --json FILE` writes its report; the others print text by their nature.
    // `top` has one too, but only beside a process that writes: tests/top.rs.
    let without = ["bench", "lab", "help", "completions", "man", "shell", "top"];
    for command in vlsm_cli::command().get_subcommands().map(clap::Command::get_name) {
        let there = TABLE.iter().any(|row| row.0.split(' ').next() == Some(command));
        assert!(there || without.contains(&command), "{command} has no row");
    }
}

#[test]
fn failures_are_lines_on_stderr_also_with_json() {
    let world = World::new();
    world.run(&["put", "s", "k", "v", "--json"]).ok();
    let run = world.run(&["get", "s", "none", "--json"]);
    assert_eq!(run.out, "");
    run.fails(1, &["no such key"]);
    world.run(&["get", "s", "k", "--json", "--raw"]).fails(2, &["--raw"]);
}
