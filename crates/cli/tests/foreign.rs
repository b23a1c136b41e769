//! `import --from` with a shell script instead of the program that reads other stores, to test its
//! failures. peers/tests/export.rs tests the real one.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{Run, World};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Two keyspaces, and one that is empty.
const LINES: &str = r#"
cat <<'END'
{"keyspace": "default"}
{"keyspace": "default", "key": "a", "value": "1"}
{"keyspace": "users"}
{"keyspace": "users", "key_base64": "AP8=", "value": ""}
{"keyspace": "users", "key": "ada", "value": "x\ty"}
{"keyspace": "empty"}
END
"#;

/// Makes an executable script of the shell.
fn script(world: &World, name: &str, text: &str) -> String {
    let path = world.file(name, format!("#!/bin/sh\n{text}"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Imports from `old` into `s` by a program with this text.
fn import(world: &World, text: &str, more: &[&str]) -> Run {
    let program = script(world, "fake", text);
    world.file("old", "");
    world.run(&[&["import", "--from", "rocksdb", "old", "s", "--peers", &program], more].concat())
}

#[test]
fn keyspaces_are_created_and_filled() {
    let world = World::new();
    let run = import(&world, LINES, &[]);
    for what in ["imported 3 records", "default: 1", "users: 2", "empty: 0"] {
        assert!(run.err.contains(what), "{run:?}");
    }
    run.ok();
    assert_eq!(world.run(&["scan", "s"]).ok(), "a\t1\n");
    let users = ["scan", "s", "--keyspace", "users"];
    assert_eq!(world.run(&users).ok(), "\\x00\\xff\t\nada\tx\\ty\n");
    assert_eq!(world.run(&["scan", "s", "--keyspace", "empty"]).ok(), "");
    // Again: records of the same keys are replaced, others stay.
    world.run(&["put", "s", "--keyspace", "users", "ada", "changed"]).ok();
    world.run(&["put", "s", "--keyspace", "users", "bob", "stays"]).ok();
    let json: serde_json::Value =
        serde_json::from_str(&import(&world, LINES, &["--json"]).ok()).unwrap();
    assert_eq!(json["keyspaces"], serde_json::json!({"default": 1, "empty": 0, "users": 2}));
    assert_eq!(world.run(&users).ok(), "\\x00\\xff\t\nada\tx\\ty\nbob\tstays\n");
}

#[test]
fn the_program_gets_kind_path_and_names() {
    let world = World::new();
    let tell = "printf '%s\\n' \"$@\" > told; echo '{\"keyspace\": \"users\", \"key\": \"a\", \
                \"value\": \"b\"}'";
    import(&world, tell, &["--only", "users", "--only", "a b"]).ok();
    let told = std::fs::read_to_string(world.path("told")).unwrap();
    assert_eq!(told, "export\nrocksdb\nold\n--only\nusers\n--only\na b\n");
    // A single keyspace may get another name.
    import(&world, tell, &["--only", "users", "--keyspace", "people"]).ok();
    assert_eq!(world.run(&["scan", "s", "--keyspace", "people"]).ok(), "a\tb\n");
    import(&world, tell, &["--keyspace", "people"]).fails(2, &["--keyspace", "--only NAME"]);
    // The option takes precedence over the variable; without both, PATH is searched.
    let found = script(&world, "peers", LINES);
    let broken = script(&world, "broken", "exit 3");
    let folders = format!("{}:/usr/bin:/bin", Path::new(&found).parent().unwrap().display());
    let from = |store: &str, peers: &str| {
        let mut command = world.command(&["import", "--from", "fjall", "old", store]);
        command.env("VLSM_PEERS", peers).env("PATH", &folders).output().unwrap()
    };
    assert!(!from("s2", &broken).status.success());
    assert!(from("s2", &found).status.success());
    assert!(from("s3", "").status.success());
}

#[test]
fn wrong_arguments() {
    let world = World::new();
    world.file("old", "");
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("PATH", "/usr/bin:/bin").env_remove("VLSM_PEERS");
        let output = command.output().unwrap();
        Run {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    };
    run(&["import", "--from", "rocskdb", "old", "s"]).fails(2, &["did you mean rocksdb?"]);
    run(&["import", "--from", "x", "old", "s"]).fails(2, &["rocksdb, fjall, redb, lmdb"]);
    run(&["import", "--from", "redb", "gone", "s"]).fails(1, &["cannot read gone"]);
    run(&["import", "--from", "redb", "old"]).fails(2, &["STORE"]);
    run(&["import", "s", "--only", "x"]).fails(2, &["--from"]);
    run(&["import", "s", "in.tsv", "--from", "redb", "old"]).fails(2, &["cannot be used with"]);
    let twice = ["import", "s", "--from", "redb", "old", "--from", "redb", "old"];
    run(&twice).fails(2, &["one store"]);
    let build = ["no program `peers`", "peers/build", "--peers", "VLSM_PEERS"];
    run(&["import", "--from", "redb", "old", "s"]).fails(1, &build);
    let named = ["import", "--from", "redb", "old", "s", "--peers", "nowhere/peers"];
    run(&named).fails(1, &["--peers names nowhere/peers", "peers/build"]);
    let named = ["import", "--from", "redb", "old", "s", "--peers", "old"];
    run(&named).fails(1, &["cannot start", "old: Permission denied"]);
    assert!(!world.path("s").exists(), "nothing was made");
}

#[test]
fn a_program_that_refuses_makes_no_store() {
    let world = World::new();
    let run = import(&world, "echo one >&2; echo 'peers: old: it is locked' >&2; exit 1", &[]);
    run.fails(1, &["failed with exit code 1", "\n  one\n", "\n  old: it is locked"]);
    import(&world, "exit 9", &[]).fails(1, &["exit code 9", "it said nothing"]);
    // Much on stderr does not block it, and only the end is shown.
    let many = "i=0; while [ $i -lt 20000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; exit 1";
    let run = import(&world, many, &[]);
    assert!(!run.err.contains("line 19989\n"), "{run:?}");
    run.fails(1, &["line 19990\n", "line 19999"]);
    assert!(!world.path("s").exists());
}

#[test]
fn a_program_that_dies_midway_is_a_failure() {
    let world = World::new();
    let dies = format!("{LINES}\necho 'peers: a block is damaged' >&2; exit 1");
    let says = ["a block is damaged", "exit code 1", "imported 3 records before that", "users 2"];
    import(&world, &dies, &[]).fails(1, &says);
    assert_eq!(world.run(&["scan", "s"]).ok(), "a\t1\n");
    // If the program is killed within a line, the line is not reported as the reason.
    let killed = format!("{LINES}\nprintf '{{\"keyspace\": \"users\", \"ke'; kill -9 $$");
    let run = import(&world, &killed, &[]);
    assert!(!run.err.contains("column"), "{run:?}");
    run.fails(1, &["was killed by signal 9", "imported 3 records before that"]);
}

#[test]
fn garbage_ends_the_import() {
    let world = World::new();
    let garbage = format!("{LINES}\necho 'Usage: peers'; sleep 0.01; cat /dev/zero");
    let started = Instant::now();
    let says = ["not a record", "should write records only", "imported 3 records before that"];
    import(&world, &garbage, &[]).fails(1, &says);
    assert!(started.elapsed() < Duration::from_secs(9), "the closed pipe ends the program");
    // A program that does not end by itself is killed.
    let hangs = format!("{LINES}\nexec >&-; echo $$ > id; exec sleep 600");
    import(&world, &hangs, &[]).fails(1, &["did not end, and was killed"]);
    let id = std::fs::read_to_string(world.path("id")).unwrap();
    assert!(!Path::new("/proc").join(id.trim()).exists(), "nothing is left behind");
}

#[test]
fn records_that_do_not_fit_are_skipped_and_told() {
    let world = World::new();
    let long =
        format!("{LINES}\nprintf '{{\"key\": \"%070000d\", \"value\": \"\"}}\\n' 1\n{LINES}");
    import(&world, &long, &[]).fails(1, &["MAX_KEY_LEN", "1 of 13 lines were bad"]);
    import(&world, &long, &["--strict"]).fails(1, &["MAX_KEY_LEN", "--strict"]);
    let name = "echo '{\"keyspace\": \"a/b\", \"key\": \"a\", \"value\": \"\"}'";
    import(&world, name, &[]).fails(1, &["a/b", "'/'"]);
}

#[test]
fn a_file_may_name_keyspaces_which_must_exist() {
    let world = World::new();
    let lines = b"{\"keyspace\": \"users\", \"key\": \"a\", \"value\": \"1\"}\n{\"key\": \"b\", \
                  \"value\": \"2\"}\n";
    let run = world.run_with(&["import", "s"], lines);
    run.fails(1, &["no keyspace \"users\"", "--create", "1 of 2 lines"]);
    assert_eq!(world.run(&["scan", "s"]).ok(), "b\t2\n");
    world.run_with(&["import", "s", "--create"], lines).ok();
    assert_eq!(world.run(&["scan", "s", "--keyspace", "users"]).ok(), "a\t1\n");
    world.run_with(&["sst", "x.sst"], lines).fails(1, &["an SST has none"]);
}
