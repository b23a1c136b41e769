//! `vlsm bench`: its page, and what is left when it is interrupted.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "for tests")]

mod common;

use common::World;
use std::process::Command;
use std::time::Duration;

/// The first Ctrl-C ends the phase, the second one the program, whatever it is at.
#[test]
fn a_second_interrupt_leaves_no_temporary_store() {
    let world = World::new();
    let temp = world.path("temp");
    std::fs::create_dir(&temp).unwrap();
    let entries = |path: &std::path::Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut codes = Vec::new();
    // Until the second one came before the first one had ended it.
    while !codes.contains(&Some(130)) {
        assert!(codes.len() < 30, "{codes:?}");
        let mut command = world.command(&["bench", "--pairs", "1m", "--seconds", "1"]);
        let mut bench = command.env("TMPDIR", &temp).spawn().unwrap();
        let id = bench.id().to_string();
        let interrupt = || {
            let kill = Command::new("kill").args(["-INT", &id]).status();
            assert!(kill.unwrap().success());
        };
        while !entries(&temp).iter().any(|store| entries(store).len() > 3) {
            assert_eq!(bench.try_wait().unwrap(), None, "it ended before it made its store");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        interrupt();
        interrupt();
        codes.push(bench.wait().unwrap().code());
        assert_eq!(entries(&temp), Vec::<std::path::PathBuf>::new(), "{codes:?}");
    }
}

/// The report as a page, beside the table.
#[test]
fn the_page_of_a_bench_has_its_charts() {
    let world = World::new();
    let page = world.path("report.html");
    let page = page.to_str().unwrap();
    let bench = ["bench", "--pairs", "20k", "--seconds", "1", "--html", page];
    let output = world.command(&bench).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(page).unwrap();
    for expected in ["<h2>Load A</h2>", "Latency of writes", "Throughput", "<svg"] {
        assert!(text.contains(expected), "{expected:?}");
    }
    assert!(!text.contains("http"), "nothing is fetched");
}
