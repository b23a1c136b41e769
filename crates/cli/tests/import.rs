//! Import: bad lines, strictness, a kill in the middle.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{Run, World};
use std::io::Write;
use std::process::Stdio;

#[test]
fn bad_lines_are_told_and_the_others_kept() {
    let world = World::new();
    let mut text = String::from("a\t1\nno tab here\nb\t\\q\n\nc\t3\r\n");
    (0..10).for_each(|_| text.push_str("bad\n"));
    text.push_str("d\t4");
    let file = world.file("in.tsv", &text);
    let run = world.run(&["import", "s", file.to_str().unwrap()]);
    let told =
        ["in.tsv:2: no tab", "in.tsv:3: value: unknown escape", "in.tsv:8: ", "12 of 16 lines"];
    assert!(!run.err.contains("in.tsv:9:"), "only the first few: {run:?}");
    assert!(!run.err.contains("no tab here"), "no content: {run:?}");
    run.fails(1, &told);
    assert_eq!(world.run(&["scan", "s"]).ok(), "a\t1\nc\t3\nd\t4\n");
}

#[test]
fn strict_stops_at_the_first_bad_line() {
    let world = World::new();
    let run = world.run_with(&["import", "s", "--strict"], b"a\t1\nb\t2\nbad\nc\t3\n");
    run.fails(1, &["-:3: no tab", "--strict", "imported 2 records"]);
    assert_eq!(world.run(&["scan", "s"]).ok(), "a\t1\nb\t2\n");
}

#[test]
fn json_lines() {
    let world = World::new();
    let lines = "{\"key\": \"a\", \"value\": \"\\u00e9\\n\"}\n{\"key\": 1}\n{\"key_hex\": \"00\", \
                 \"value_base64\": \"/w==\"}\n";
    world.run_with(&["import", "s"], lines.as_bytes()).fails(1, &["-:2: ", "1 of 3 lines"]);
    assert_eq!(world.run(&["scan", "s"]).ok(), "\\x00\t\\xff\na\té\\n\n");
}

#[test]
fn a_later_record_replaces_an_earlier_one() {
    let world = World::new();
    world.run_with(&["import", "s"], b"a\t1\nb\t2\na\t3\n").ok();
    assert_eq!(world.run(&["scan", "s"]).ok(), "a\t3\nb\t2\n");
}

#[test]
fn an_input_that_cannot_be_read_makes_no_store() {
    let world = World::new();
    world.run(&["import", "s", "gone.tsv"]).fails(1, &["cannot read gone.tsv"]);
    std::fs::create_dir(world.path("folder")).unwrap();
    world.run(&["import", "s", "folder"]).fails(1, &["cannot read folder", "name a file"]);
    assert!(!world.path("s").exists());
}

fn key(i: usize) -> String {
    format!("{i:09}")
}

/// Values of different lengths, so that cuts in the WAL fall anywhere; some batches are large ones.
fn value(i: usize) -> String {
    let max = if (i / 10_000).is_multiple_of(2) { 300 } else { 1500 };
    format!("value {i} {}", "x".repeat(i % max))
}

#[test]
fn a_kill_leaves_a_prefix_of_the_file() {
    let world = World::new();
    for round in 0..3 {
        let store = format!("s{round}");
        let mut command = world.command(&["import", &store]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let sent = 20_000 + 50_000 * round;
        for i in 0..sent {
            writeln!(stdin, "{}\t{}", key(i), value(i)).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        drop(stdin);

        let kept = world.run(&["export", &store]).ok();
        let count = kept.lines().count();
        for (i, line) in kept.lines().enumerate() {
            let (k, v) = line.split_once('\t').unwrap();
            assert!(k == key(i) && v == value(i), "record {i} of {count} is not that of the file");
        }
        assert!(count > 10_000 && count <= sent, "{count} of {sent} kept");
        let rest: String = (count..sent).map(|i| format!("{}\t{}\n", key(i), value(i))).collect();
        world.run_with(&["import", &store], rest.as_bytes()).ok();
        assert_eq!(world.run(&["scan", &store, "--count"]).ok(), format!("{sent}\n"));
    }
}

#[test]
fn the_summary_says_how_much() {
    let world = World::new();
    let lines: String = (0..2500).map(|i| format!("{}\t{}\n", key(i), value(i))).collect();
    let run: Run = world.run_with(&["import", "s"], lines.as_bytes());
    assert!(run.err.contains("imported 2,500 records"), "{run:?}");
    assert_eq!(run.ok(), "");
}

#[test]
fn compressed_input_is_named() {
    let world = World::new();
    let files: [(&str, &[u8], &str); 5] = [
        ("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b", "gunzip -c"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x00", "zstd -dc"),
        ("xz", b"\xfd7zXZ\x00\x00\x04", "xz -dc"),
        ("bzip2", b"BZh91AY&SY\x00", "bzip2 -dc"),
        ("zip", b"PK\x03\x04\x14\x00", "unzip -p"),
    ];
    for (name, content, program) in files {
        world.file("in", content);
        let it = format!("it is {name}");
        let say = [&it[..], &format!("{program} in | vlsm import ... -")];
        world.run(&["import", "s", "in"]).fails(1, &say);
        world.run_with(&["import", "s", "-"], content).fails(1, &[&it, program]);
        world.run(&["sst", "out.sst", "in"]).fails(1, &[&it]);
        assert!(!world.path("s").exists() && !world.path("out.sst").exists(), "{name}");
    }
    // Text with the same first letters is still text.
    world.run_with(&["import", "s"], b"BZhouse\t1\nPK\t2\n").ok();
    assert_eq!(world.run(&["scan", "s"]).ok(), "BZhouse\t1\nPK\t2\n");
}

#[test]
fn raw_lines_are_taken_as_they_are() {
    let world = World::new();
    let text = b"/etc/a\\x2db\t1\n\\q\tC:\\new\ttab\r\n\xff\t\n";
    world.run_with(&["import", "s"], text).fails(1, &["unknown escape"]);
    world.run_with(&["import", "r", "--raw"], text).ok();
    assert_eq!(world.run(&["get", "r", "--raw", "/etc/a\\\\x2db"]).ok(), "1");
    assert_eq!(world.run(&["get", "r", "--raw", "\\\\q"]).ok(), "C:\\new\ttab\r");
    assert_eq!(world.run(&["scan", "r", "--count"]).ok(), "3\n");
    world.run_with(&["import", "r", "--raw"], b"no tab\n").fails(1, &["no tab"]);
    world.run(&["import", "r", "--raw", "--hex"]).fails(2, &["--raw", "--hex"]);
    world.run(&["import", "r", "--raw", "--format", "json"]).fails(2, &["--raw", "json"]);
    world.run_with(&["import", "j", "--raw"], b"{\"key\": \t1\n").ok();
    assert_eq!(world.run(&["scan", "j"]).ok(), "{\"key\": \t1\n");
    let help = world.run(&["import", "--help"]).ok();
    assert!(help.contains("--raw"), "{help}");
}
