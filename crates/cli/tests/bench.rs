//! `vlsm bench`: its page, and the files that an interrupt leaves.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "for tests")]

mod common;

use common::World;
use std::process::Command;
use std::time::Duration;

/// The first Ctrl-C ends the phase, the second one the program, at any point.
#[test]
fn a_second_interrupt_leaves_no_temporary_store() {
    leaves_nothing("-INT", "-INT");
}

/// As `timeout` ends a program, and a user who cannot wait for that.
#[test]
fn a_termination_leaves_no_temporary_store() {
    leaves_nothing("-TERM", "-INT");
}

fn leaves_nothing(first: &str, second: &str) {
    let world = World::new();
    let temp = world.path("temp");
    std::fs::create_dir(&temp).unwrap();
    let entries = |path: &std::path::Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut codes = Vec::new();
    // Repeat until the second Ctrl-C comes before the first one has ended the program.
    while !codes.contains(&Some(130)) {
        assert!(codes.len() < 30, "{codes:?}");
        let mut command = world.command(&["bench", "--pairs", "1m", "--seconds", "1"]);
        let mut bench = command.env("TMPDIR", &temp).spawn().unwrap();
        let id = bench.id().to_string();
        let interrupt = |signal: &str| {
            let kill = Command::new("kill").args([signal, &id]).status();
            assert!(kill.unwrap().success());
        };
        while !entries(&temp).iter().any(|store| entries(store).len() > 3) {
            assert_eq!(bench.try_wait().unwrap(), None, "it ended before it made its store");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        interrupt(first);
        interrupt(second);
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

/// The engine counts what it writes and reads; the system counts the same from outside.
#[test]
fn the_counters_of_small_runs_agree_with_the_systems() {
    // The folder is on a real device, because the system counts nothing for files in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let world = World::new();
    for pairs in ["2k", "20k"] {
        for workload in ["load", "a"] {
            let json = path(&format!("{pairs}-{workload}.json"));
            let (ops, store) = ("20k", path(&format!("{pairs}-{workload}")));
            let bench = ["bench", "--pairs", pairs, "--workload", workload, "--ops", ops];
            world.run(&[&bench[..], &["--path", &store, "--json", &json]].concat()).ok();
            let report = std::fs::read_to_string(&json).unwrap();
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            let found = &report["amplification"];
            let of = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
            let system = of(&found["device"]["read"]) + of(&found["device"]["written"]);
            if system == 0 {
                eprintln!("SKIPPED: the system counts nothing for files in {store}");
                return;
            }
            let own = of(&found["store_read"]) + of(&found["store_written"]);
            // The system may count more by its rounding, and fewer bytes by its page cache: see
            // vlsm_measure::report.
            let (least, most) = (own - of(&found["cached"]), own + of(&found["rounding"]));
            let missed = system.abs_diff(system.clamp(least, most)) as f64 / system as f64;
            assert!(missed <= 0.02, "{pairs}, {workload}: {missed:.3}: {found}");
        }
    }
}

/// An interrupt while the driver's own cost is measured, before there is a store.
#[cfg(target_os = "linux")]
#[test]
fn an_early_interrupt_says_that_nothing_was_measured() {
    let world = World::new();
    // This rate is more than the driver reaches, so its cost is measured for some seconds.
    let mut command = world.command(&["bench", "--pairs", "1m", "--rate", "900m"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let bench = command.spawn().unwrap();
    let listens = |id: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (15 - 1) != 0
    };
    while !listens(bench.id()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = Command::new("kill").args(["-TERM", &bench.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let output = bench.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("interrupted before anything was measured"), "{said}");
}
