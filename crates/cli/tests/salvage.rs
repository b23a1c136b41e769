//! `export --skip-damaged`: readable records are written, unreadable ranges are listed, and the
//! exit code shows that the export is incomplete.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::{World, names};

/// A closed store with SSTs, and the lines of its records.
fn filled() -> (World, Vec<String>) {
    let world = World::new();
    let value = "v".repeat(1000);
    let lines: Vec<String> = (0..20_000).map(|i| format!("key{i:06}\t{value}")).collect();
    world.run_with(&["import", "s"], lines.join("\n").as_bytes()).ok();
    world.run(&["compact", "s"]).ok();
    (world, lines)
}

#[test]
fn damage_is_left_out_and_listed() {
    let (world, lines) = filled();
    let whole = world.run(&["export", "s", "--skip-damaged"]);
    assert!(!whole.err.contains("left out"), "{}", whole.err);
    assert!(whole.ok().lines().eq(&lines));
    let ssts: Vec<_> =
        names(&world.path("s")).into_iter().filter(|name| name.ends_with(".sst")).collect();
    let file = world.path("s").join(&ssts[0]);
    let sound = std::fs::read(&file).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for (what, content) in
        [("damaged", Some(&flipped[..])), ("cut", Some(&sound[..8192])), ("missing", None)]
    {
        match content {
            Some(content) => std::fs::write(&file, content).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let run = world.run(&["export", "s"]);
        assert_eq!(run.code, 1, "{what}: {}", run.err);
        assert!(run.err.contains(&ssts[0]), "{what}: {}", run.err);
        let run = world.run(&["export", "s", "--skip-damaged"]);
        assert_eq!(run.code, 1, "{what}: {}", run.err);
        for say in ["left out: from key0", " to key0", &ssts[0], "damaged and left out"] {
            assert!(run.err.contains(say), "{what}: {say}: {}", run.err);
        }
        let written: Vec<&str> = run.out.lines().collect();
        assert!(written.iter().all(|line| lines.iter().any(|known| known == line)), "{what}");
        let range = run.err.split_whitespace().filter(|word| word.starts_with("key0"));
        let ends: Vec<&str> = range.map(|word| word.trim_end_matches([':', ','])).collect();
        let (lo, hi) = (ends[0], ends[1]);
        let kept = lines.iter().filter(|line| &line[..9] < lo || &line[..9] > hi);
        assert!(kept.eq(&written), "{what}: all but {lo} to {hi}");
        assert!(written.len() < lines.len(), "{what}");
        if what == "damaged" {
            assert!(written.len() > lines.len() - 200, "one block: {}", written.len());
        }
        world.run(&["export", "s", &format!("{what}.tsv"), "--skip-damaged"]).fails(1, &["left"]);
        let file = std::fs::read_to_string(world.path(&format!("{what}.tsv"))).unwrap();
        assert_eq!(file, run.out, "{what}");
    }
    std::fs::write(&file, &sound).unwrap();
    assert!(world.run(&["export", "s"]).ok().lines().eq(&lines));
}

#[test]
fn the_list_is_bounded() {
    let (world, lines) = filled();
    for name in names(&world.path("s")).iter().filter(|name| name.ends_with(".sst")) {
        let path = world.path("s").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len() * 3 / 4;
        (2000..end).step_by(100_000).for_each(|at| bytes[at] ^= 1);
        std::fs::write(path, bytes).unwrap();
    }
    let run = world.run(&["export", "s", "--skip-damaged"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("… and more"), "{}", run.err);
    assert!(run.err.lines().count() <= 22, "{}", run.err);
    assert!(run.out.lines().count() > lines.len() / 2);
}

#[test]
fn a_store_goes_on_without_its_damaged_ssts() {
    let (world, lines) = filled();
    let ssts: Vec<_> =
        names(&world.path("s")).into_iter().filter(|name| name.ends_with(".sst")).collect();
    let file = world.path("s").join(&ssts[0]);
    let mut flipped = std::fs::read(&file).unwrap();
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    std::fs::write(&file, &flipped).unwrap();
    world.run(&["verify", "s"]).fails(1, &["is damaged"]);
    world
        .run(&["get", "s", "key000000", "--salvage-ssts"])
        .fails(2, &["salvage_ssts", "read-only"]);
    let run = world.run(&["put", "s", "more", "v", "--salvage-ssts"]);
    for say in [&ssts[0], "lost", "entries lost"] {
        assert!(run.err.contains(say), "{say}: {}", run.err);
    }
    run.ok();
    assert_eq!(std::fs::read(world.path("s").join("lost").join(&ssts[0])).unwrap(), flipped);
    world.run(&["verify", "s"]).ok();
    let run = world.run(&["export", "s"]);
    let left: Vec<String> = run.ok().lines().map(str::to_owned).collect();
    assert!(left.len() < lines.len() && left.len() > 1, "{}", left.len());
    assert!(left.iter().all(|line| lines.contains(line) || line == "more\tv"));
    // Nothing is left to salvage.
    let run = world.run(&["put", "s", "more", "w", "--salvage-ssts"]);
    assert!(!run.err.contains("lost"), "{}", run.err);
    run.ok();
}
