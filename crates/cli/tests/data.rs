//! Single records, ranges, and the round trip of every byte through each format.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::World;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::fmt::Write;

#[test]
fn put_get_delete() {
    let world = World::new();
    assert_eq!(world.run(&["put", "s", "apple", "green"]).ok(), "");
    assert_eq!(world.run(&["get", "s", "apple"]).ok(), "green\n");
    world.run(&["put", "s", r"a\tb\x00", r"two\nlines\\"]).ok();
    assert_eq!(world.run(&["get", "s", r"a\tb\0"]).ok(), "two\\nlines\\\\\n");
    assert_eq!(world.run(&["get", "s", "--hex", "61096200"]).ok(), "74776f0a6c696e65735c\n");
    assert_eq!(world.run(&["get", "s", "--raw", r"a\tb\0"]).ok(), "two\nlines\\");
    world.run(&["get", "s", "pear"]).fails(1, &["no such key"]);
    world.run(&["delete", "s", "apple", "pear"]).ok();
    world.run(&["get", "s", "apple"]).fails(1, &["no such key"]);
    world.run_with(&["put", "s", "--file", "-", "in"], b"raw\n").ok();
    assert_eq!(world.run(&["get", "s", "in"]).ok(), "raw\\n\n");
}

#[test]
fn ranges_are_deleted_and_operands_merged() {
    let world = World::new();
    world.run_with(&["import", "s"], b"a\t1\nb\t2\nc\t3\nd\t4\n").ok();
    world.run(&["delete", "s", "--range", "b", "d"]).ok();
    assert_eq!(world.run(&["scan", "s", "--keys-only"]).ok(), "a\nd\n");
    world.run(&["delete", "s", "--range", "b"]).fails(2, &["two keys"]);
    world.run(&["merge", "s", "a", "x"]).fails(2, &["no merge operator"]);
    let visits = ["merge", "s", "--keyspace", "visits"];
    let merge = |args: &[&str]| world.run(&[&visits[..], args].concat());
    merge(&["ada", "--number", "3"]).fails(1, &["keyspace", "visits"]);
    merge(&["--operator", "add", "ada", "--number", "3"]).ok();
    merge(&["ada", "--number", "-1"]).ok();
    let get = world.run(&["get", "s", "--keyspace", "visits", "ada"]).ok();
    assert_eq!(get, "\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\n");
    merge(&["--operator", "max", "ada", "1"]).fails(1, &["visits"]);
    merge(&["--operator", "unheard", "ada", "1"]).fails(1, &["visits"]);
    world.run(&["merge", "new", "--operator", "append", "a", "x"]).ok();
    world.run(&["merge", "new", "a", "y"]).ok();
    assert_eq!(world.run(&["get", "new", "a"]).ok(), "xy\n");
}

#[test]
fn keyspaces_are_apart() {
    let world = World::new();
    world.run(&["put", "s", "--keyspace", "a", "k", "1"]).fails(1, &["no store", "--create"]);
    assert!(!world.path("s").exists(), "nothing is left behind");
    world.run(&["put", "s", "--keyspace", "a", "--create", "k", "1"]).ok();
    world.run(&["put", "s", "--keyspace", "b", "--create", "k", "2"]).ok();
    assert_eq!(world.run(&["get", "s", "--keyspace", "a", "k"]).ok(), "1\n");
    world.run(&["get", "s", "k"]).fails(1, &["no such key"]);
    let there = ["keyspace", "\"c\"", "There are: ", "a, b"];
    let missing = world.run(&["get", "s", "--keyspace", "c", "k"]);
    assert!(!missing.err.contains("--create"), "{missing:?}");
    missing.fails(1, &there);
    world.run(&["put", "s", "--keyspace", "c", "k", "1"]).fails(1, &["\"c\"", "--create"]);
    world.run(&["put", "s", "--keyspace", "a", "--create", "k", "3"]).ok();
    let typo = world.run_with(&["import", "s", "--keyspace", "defualt"], b"k\tv\n");
    typo.fails(1, &["did you mean \"default\"", "--create"]);
}

#[test]
fn keyspaces_are_listed() {
    let world = World::new();
    world.run(&["put", "s", "k", "v"]).ok();
    let merge = ["merge", "s", "--keyspace", "visits", "--operator", "add", "ada", "--number", "3"];
    world.run(&merge).ok();
    world.run(&["compact", "s", "--keyspace", "visits"]).ok();
    let list = world.run(&["keyspaces", "s"]).ok();
    let row = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("visits").ends_with("merge_operator \"add\""), "{list}");
    let [visits, default] = ["visits", "default"].map(|name| {
        let words: Vec<_> = row(name).split_whitespace().map(str::to_owned).collect();
        (words[4].clone(), words[5].clone(), words.len())
    });
    assert_eq!(visits, ("1".into(), "0".into(), 8), "one entry, in an SST: {list}");
    assert_eq!(default, ("0".into(), "1".into(), 6), "one in the WAL, no options: {list}");
    let json = world.run(&["keyspaces", "s", "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    assert_eq!(json[1]["options"]["merge_operator"], "add");
    world.run(&["keyspaces", "gone"]).fails(1, &["gone", "no store"]);
}

#[test]
fn scan_covers_what_is_asked_for() {
    let world = World::new();
    let lines: String = ["a", "ap", "apple", "b", "c"].map(|k| format!("{k}\tv{k}\n")).concat();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    let scan = |args: &[&str]| {
        let all: Vec<&str> = ["scan", "s"].iter().chain(args).copied().collect();
        world.run(&all).ok()
    };
    assert_eq!(scan(&[]), lines);
    assert_eq!(scan(&["--prefix", "ap", "--keys-only"]), "ap\napple\n");
    assert_eq!(scan(&["--from", "ap", "--to", "b", "--keys-only"]), "ap\napple\n");
    assert_eq!(scan(&["--reverse", "--limit", "2", "--keys-only"]), "c\nb\n");
    assert_eq!(scan(&["--reverse", "--to", "b", "--limit", "1"]), "apple\tvapple\n");
    assert_eq!(scan(&["--from", "b", "--count"]), "2\n");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--hex", "--from", "62", "--limit", "1"]), "62\t7662\n");
    let json = "{\"key\": \"b\", \"value\": \"vb\"}\n";
    assert_eq!(scan(&["--format", "json", "--from", "b", "--limit", "1"]), json);
    world.run(&["scan", "s", "--format", "tsv", "--json"]).fails(2, &["--format", "--json"]);
    assert_eq!(scan(&["--from", "b", "--to", "a"]), "");
}

/// Random pairs with all byte values, as hexadecimal TSV in key order.
fn random_pairs() -> String {
    let mut rng = SmallRng::seed_from_u64(7);
    let mut pairs = BTreeMap::new();
    for _ in 0..3000 {
        let mut hex = |max: usize| {
            let len = rng.random_range(0..max);
            (0..len).fold(String::new(), |mut text, _| {
                write!(text, "{:02x}", rng.random::<u8>()).unwrap();
                text
            })
        };
        let key = hex(12);
        let value = hex(if key.len() % 10 == 0 { 2000 } else { 30 });
        pairs.insert(key, value);
    }
    pairs.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect()
}

#[test]
fn every_byte_survives_every_format() {
    let world = World::new();
    let pairs = random_pairs();
    world.run_with(&["import", "first", "--hex"], pairs.as_bytes()).ok();
    let first = world.run(&["export", "first", "--hex"]).ok();
    assert!(first == pairs, "what was imported is exported");

    world.run(&["export", "first", "all.tsv"]).ok();
    world.run(&["import", "second", "all.tsv"]).ok();
    world.run(&["export", "second", "all.jsonl"]).ok();
    world.run(&["import", "third", "all.jsonl"]).ok();
    let json_hex = world.run(&["export", "third", "--hex", "--format", "json"]).ok();
    world.run_with(&["import", "fourth"], json_hex.as_bytes()).ok();
    let last = world.run(&["scan", "fourth", "--hex"]).ok();
    assert!(last == pairs, "what came through all formats is the same");

    let again = world.run(&["export", "first", "all.tsv"]);
    again.fails(1, &["all.tsv", "exists"]);
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let world = World::new();
    world.run(&["put", "s", "k"]).fails(2, &["VALUE"]);
    world.run(&["put", "s", "k", r"\q"]).fails(2, &["unknown escape at byte 0"]);
    world.run(&["get", "s", "--hex", "abc"]).fails(2, &["odd number"]);
    world.run(&["frobnicate"]).fails(2, &["frobnicate"]);
    world.run(&["scan", "s", "--prefix", "a", "--from", "b"]).fails(2, &["--prefix"]);
    world.run(&["put", "s", "--profile", "vlms", "k", "v"]).fails(2, &["vlms", "vlsm"]);
    assert!(!world.path("s").exists(), "a wrong command makes no store");
}

#[test]
fn compacting_a_range_keeps_what_is_there() {
    let world = World::new();
    let lines: String = (0..20_000).map(|i| format!("key{i:06}\tvalue {i}\n")).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    world.run(&["delete", "s", "key000001", "key000002"]).ok();
    world.run(&["compact", "s", "--from", "key000000", "--to", "key0005"]).ok();
    world.run(&["compact", "s"]).ok();
    assert_eq!(world.run(&["scan", "s", "--count"]).ok(), "19998\n");
    assert!(world.run(&["levels", "s"]).ok().contains("19,998"), "tombstones are gone");
    let size = world.run(&["size", "s", "--json"]).ok();
    let size: serde_json::Value = serde_json::from_str(&size).unwrap();
    assert_eq!(size["entries"], 19_998);
    assert!(world.run(&["size", "s", "--from", "x"]).ok().contains("0 entries"));
    world.run(&["size", "gone"]).fails(1, &["gone", "no store"]);
    world.run(&["size", "s", "--to", "\\q"]).fails(2, &["--to", "escape"]);
    world.run(&["compact", "gone"]).fails(1, &["gone", "no store"]);
    world.run(&["compact", "s", "--from", "\\q"]).fails(2, &["--from", "escape"]);
    world.run(&["compact", "s", "--keyspace", "none"]).fails(1, &["keyspace", "none"]);
}

#[test]
fn one_key_that_an_operator_cannot_read_hides_no_other() {
    let world = World::new();
    let merge = |key: &str, rest: &[&str]| {
        let all = ["merge", "s", "--keyspace", "sums", "--operator", "add", key];
        world.run(&[&all[..], rest].concat())
    };
    for key in ["a", "c", "e"] {
        merge(key, &["--number", "1"]).ok();
    }
    // Invalid operands are refused, and nothing is written.
    for operand in ["", "abc", "123456789"] {
        merge("d", &[operand]).fails(2, &["\"add\"", "\"sums\"", "8 bytes", "nothing"]);
    }
    world.run(&["put", "s", "--keyspace", "sums", "b", "no number"]).ok();
    let of = |args: &[&str]| world.run(&[args, &["--keyspace", "sums"]].concat());
    assert_eq!(of(&["scan", "s"]).ok().lines().count(), 4);
    merge("b", &["--number", "1"]).ok();
    merge("c", &["--number", "1"]).ok();
    of(&["get", "s", "b"]).fails(1, &["cannot combine", "put or delete"]);
    let says = ["1 key is not in the output", "\"add\"", "vlsm scan s --keyspace sums --failed"];
    for (args, out) in [
        (&["scan", "s", "--keys-only"][..], "a\nc\ne\n"),
        (&["scan", "s", "--keys-only", "--reverse"], "e\nc\na\n"),
        (&["scan", "s", "--count"], "3\n"),
        (&["scan", "s", "--limit", "2", "--keys-only"], "a\nc\n"),
        (&["scan", "s", "--from", "b", "--to", "c"], ""),
        (&["export", "s", "--hex"], EXPORTED),
    ] {
        let run = of(args);
        assert_eq!(run.out, out, "{args:?}");
        assert!(!run.err.contains("no number"), "{run:?}");
        run.fails(1, &says);
    }
    assert_eq!(of(&["scan", "s", "--from", "c", "--count"]).ok(), "2\n");
    assert_eq!(of(&["scan", "s", "--failed"]).ok(), "b\n");
    assert_eq!(of(&["scan", "s", "--failed", "--count", "--reverse"]).ok(), "1\n");
    let run = of(&["export", "s", "all.tsv", "--hex"]);
    run.fails(1, &says);
    assert_eq!(std::fs::read_to_string(world.path("all.tsv")).unwrap(), EXPORTED);
    world.run(&["verify", "s"]).ok();
    of(&["delete", "s", "b"]).ok();
    assert_eq!(of(&["scan", "s", "--count"]).ok(), "3\n");
    assert_eq!(of(&["scan", "s", "--failed"]).ok(), "");
}

/// The keys a, c and e with the numbers 1, 2 and 1.
const EXPORTED: &str = "61\t0100000000000000\n63\t0200000000000000\n65\t0100000000000000\n";

#[test]
fn a_key_with_a_time_to_live_expires() {
    let world = World::new();
    world.run(&["put", "s", "soon", "v", "--ttl", "1ms"]).ok();
    world.run(&["put", "s", "later", "v", "--ttl", "2 h"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(5));
    world.run(&["get", "s", "soon"]).fails(1, &["no such key"]);
    assert_eq!(world.run(&["get", "s", "later"]).ok(), "v\n");
    for (ttl, says) in [
        ("5", "a number and its unit"),
        ("m", "must be a number"),
        ("5 weeks", "a number and its unit"),
        ("0s", "expire at once"),
        ("99999999999d", "290,000 years"),
        ("-1s", "number"),
    ] {
        world.run(&["put", "s", "k", "v", &format!("--ttl={ttl}")]).fails(2, &[says, "--ttl"]);
    }
    world.run(&["merge", "s", "--keyspace", "n", "--operator", "add", "k", "--number", "1"]).ok();
    let with = ["put", "s", "--keyspace", "n", "k", "v", "--ttl", "1h"];
    world.run(&with).fails(2, &["\"n\"", "merge operator", "expire"]);
}

#[test]
fn colours_are_for_terminals() {
    let world = World::new();
    world.run(&["put", "s", r"a\tb", "green"]).ok();
    let with = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = world.command(args);
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let force = ("CLICOLOR_FORCE", "1");
    assert_eq!(with(&[], &["scan", "s"]), "a\\tb\tgreen\n");
    assert_eq!(with(&[force], &["scan", "s"]), "\u{1b}[36ma\\tb\u{1b}[0m\tgreen\n");
    assert_eq!(with(&[force, ("NO_COLOR", "1")], &["scan", "s"]), "a\\tb\tgreen\n");
    assert!(with(&[force], &["levels", "s"]).contains("\u{1b}[1mkeyspace default"));
    assert!(with(&[force], &["get", "s", "none"]).contains("\u{1b}[31mvlsm:\u{1b}[0m there is"));
    assert!(!with(&[force], &["scan", "s", "--json"]).contains('\u{1b}'));
}

/// A keyspace whose merge operator only its application has.
#[test]
fn a_store_with_an_operator_of_its_application() {
    struct Join;
    impl vlsm::MergeOperator for Join {
        fn name(&self) -> &str {
            "app.join"
        }
        fn merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            let all: Vec<&[u8]> = base.into_iter().chain(operands.iter().copied()).collect();
            Some(all.join(&b","[..]))
        }
    }
    let world = World::new();
    let application = || {
        let builder = vlsm::Db::builder(world.path("s"));
        builder.merge_operator(std::sync::Arc::new(Join)).open().unwrap()
    };
    let db = application();
    let options = vlsm::KeyspaceOptions::new().merge_operator("app.join");
    let words = db.create_keyspace("words", options).unwrap();
    words.put("a", "plain").unwrap();
    words.put("b", "1").unwrap();
    words.merge("b", "2").unwrap();
    words.put("c", "gone").unwrap();
    drop(words);
    db.close().unwrap();

    let of = |args: &[&str]| world.run(&[args, &["--keyspace", "words"]].concat());
    assert_eq!(of(&["get", "s", "a"]).ok(), "plain\n");
    let unknown = ["\"app.join\"", "not registered", "\"words\""];
    of(&["get", "s", "b"]).fails(1, &unknown);
    let scan = of(&["scan", "s", "--keys-only"]);
    assert_eq!(scan.out, "a\nc\n");
    scan.fails(1, &["1 key is not in the output", "\"app.join\""]);
    assert_eq!(of(&["scan", "s", "--failed"]).ok(), "b\n");
    of(&["merge", "s", "b", "3"]).fails(2, &unknown[..1]);
    of(&["delete", "s", "c"]).ok();
    of(&["put", "s", "d", "new"]).ok();
    of(&["compact", "s"]).ok();
    of(&["size", "s"]).ok();
    for command in ["stats", "levels", "keyspaces", "verify"] {
        world.run(&[command, "s"]).ok();
    }
    world.run(&["checkpoint", "s", "copy"]).ok();
    let db = application();
    let words = db.keyspace("words").unwrap();
    let pairs: Vec<_> = words.iter().map(|pair| pair.unwrap()).collect();
    let expected = [("a", "plain"), ("b", "1,2"), ("d", "new")];
    assert_eq!(pairs, expected.map(|(key, value)| (key.into(), value.into())));
    drop(words);
    db.close().unwrap();
}
