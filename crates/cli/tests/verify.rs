//! `verify` on sound, damaged, missing and open stores.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};
use std::io::Write;

#[test]
fn a_sound_store_and_a_damaged_one() {
    let world = World::new();
    let lines: String = (0..100_000).map(|i| format!("key{i:06}\tsome value {i}\n")).collect();
    world.run_with(&["import", "s"], lines.as_bytes()).ok();
    let run = world.run(&["verify", "s"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{run:?}");
    assert!(run.err.contains("checked"), "{run:?}");
    let json = world.run(&["verify", "s", "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["damaged"], json["findings"].as_array().unwrap().len()), (&false.into(), 0));

    let wal = names(&world.path("s")).into_iter().find(|name| name.ends_with(".wal")).unwrap();
    let path = world.path("s").join(&wal);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[16] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    std::fs::write(world.path("s/777777.sst"), "left").unwrap();
    let run = world.run(&["verify", "s"]);
    assert!(
        run.out.contains(&format!(
            "damage: {}/{wal} at byte",
            world.path("s").canonicalize().unwrap().display()
        )),
        "{run:?}"
    );
    assert!(run.out.contains("leftover: /") && run.out.contains("/s/777777.sst: "), "{run:?}");
    assert!(run.out.contains("what to do: "), "{run:?}");
    run.fails(1, &["s is damaged"]);
    let run = world.run(&["verify", "s", "--json"]);
    assert_eq!(run.code, 1);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["findings"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_verified() {
    let world = World::new();
    world.run(&["verify", "gone"]).fails(1, &["gone", "no store"]);
    world.file("plain", "text");
    world.run(&["verify", "plain"]).fails(1, &["plain"]);
    world.run(&["put", "s", "k", "v"]).ok();
    let mut import = world.command(&["import", "s"]).spawn().unwrap();
    let mut stdin = import.stdin.take().unwrap();
    let line = format!("key\t{}\n", "x".repeat(1000));
    (0..5000).for_each(|_| stdin.write_all(line.as_bytes()).unwrap());
    // Beside the process that writes it is checked as of now.
    let beside = world.run(&["verify", "s"]);
    assert!(beside.err.contains("is in use") && beside.err.contains("batches"), "{beside:?}");
    beside.ok();
    drop(stdin);
    assert!(import.wait().unwrap().success());
    world.run(&["verify", "s"]).ok();
}
