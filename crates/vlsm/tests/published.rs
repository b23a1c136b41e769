//! The statistics that a store writes into its folder while another process asks for them.
//!
//! The disk is in memory; the tests make the request as `vlsm top` does.
#![allow(clippy::unwrap_used)]

mod bench;
mod exposition;
mod tiny;

use bench::{Bench, FOLDER, pause, soon};
use exposition::Page;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vlsm::{Db, Durability, Env};
use vlsm_disk::env_real::RealEnv;
use vlsm_testfs::{Fault, Op, Rule};

const PAGE: &str = "STATS.prom";
const WANTED: &str = "STATS.wanted";

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// The names of the statistics' files that there are.
fn there(bench: &Bench) -> Vec<PathBuf> {
    let names = bench.disk.files().into_keys();
    names.filter(|path| path.to_string_lossy().contains("STATS")).collect()
}

/// Asks, as if it had been this long ago.
fn ask(bench: &Bench, ago: Duration) {
    let now = RealEnv::new().wall_clock() - ago;
    bench.disk.set_content(&path(WANTED), format!("{}\n", now.as_millis()).into_bytes());
}

fn page(bench: &Bench) -> Option<Page> {
    let text = String::from_utf8(bench.disk.content(&path(PAGE))?).unwrap();
    Some(Page::read(&text))
}

#[test]
fn a_page_is_there_while_it_is_asked_for_and_it_is_whole() {
    let mut bench = Bench::new();
    let db = bench.open();
    (0..100).for_each(|n| bench.put(&db, n, Durability::Buffered).unwrap());
    ask(&bench, Duration::ZERO);
    soon(|| page(&bench).is_some());
    let first = page(&bench).unwrap();
    let time = |page: &Page| page.value("vlsm_page_timestamp_seconds", &[]).unwrap();
    // Read it without a break, until it was written anew. `Page::read` refuses a part of a page.
    let mut number = 100;
    let later = loop {
        bench.put(&db, number, Durability::Buffered).unwrap();
        number += 1;
        let seen = page(&bench).unwrap();
        if time(&seen) > time(&first) {
            break seen;
        }
    };
    let process = std::process::id().to_string();
    let labels =
        [("format", "1"), ("version", env!("CARGO_PKG_VERSION")), ("process", process.as_str())];
    assert_eq!(later.value("vlsm_page_info", &labels), Some(1.0));
    let writes = later.value("vlsm_writes_total", &[]).unwrap();
    assert!((100.0..=number as f64).contains(&writes), "{writes} of {number}");
    assert!(later.value("vlsm_running_jobs", &[("level", "memtable")]).is_some());
    // The buckets add up to what was measured.
    let count = later.value("vlsm_write_seconds_count", &[]).unwrap();
    let all = later.value("vlsm_write_seconds_bucket", &[("le", "+Inf")]);
    assert!(count > 0.0 && all == Some(count), "{all:?} {count}");
    db.close().unwrap();
    assert_eq!(there(&bench), [path(WANTED)], "the request is not the store's");
    bench.reopen(0);
    assert_eq!(there(&bench), Vec::<PathBuf>::new(), "an open removes a forgotten request");
}

#[test]
fn nothing_is_written_unasked_and_a_request_is_forgotten() {
    let bench = Bench::new();
    let db = bench.open();
    for request in ["", "soon", "99999999999999999999999999", "-1", "18446744073709551615"] {
        bench.disk.set_content(&path(WANTED), request.into());
        pause(Duration::from_millis(1200));
        assert_eq!(there(&bench), [path(WANTED)], "{request:?}");
    }
    ask(&bench, Duration::from_secs(3600));
    pause(Duration::from_millis(1200));
    assert_eq!(there(&bench), [path(WANTED)]);
    ask(&bench, Duration::ZERO);
    soon(|| page(&bench).is_some());
    ask(&bench, Duration::from_secs(11));
    soon(|| there(&bench) == [path(WANTED)]);
    db.close().unwrap();
}

#[test]
fn a_store_that_may_not_publish_does_not() {
    let bench = Bench::new();
    let env = || RealEnv::with_fs(std::sync::Arc::new(bench.faults.clone()));
    let builder = || bench::small(Db::builder(FOLDER)).env(env());
    builder().open().unwrap().close().unwrap();
    ask(&bench, Duration::ZERO);
    let silent = builder().configure(|options| options.stats_on_request = false).open().unwrap();
    ask(&bench, Duration::ZERO);
    let reader = builder().read_only(true).follow(true).open().unwrap();
    pause(Duration::from_millis(2200));
    assert_eq!(there(&bench), [path(WANTED)]);
    reader.close().unwrap();
    silent.close().unwrap();
}

/// On real files the system tells a store of the request, and none of its threads has to look.
#[test]
#[allow(clippy::disallowed_methods)]
fn a_request_wakes_an_idle_store() {
    let folder = tempfile::tempdir().unwrap();
    let db = bench::small(Db::builder(folder.path())).open().unwrap();
    let file = |name: &str| folder.path().join(name);
    pause(Duration::from_millis(2_500));
    for _ in 0..2 {
        let now = RealEnv::new().wall_clock();
        std::fs::write(file(WANTED), now.as_millis().to_string()).unwrap();
        soon(|| file(PAGE).exists());
        let before = now - Duration::from_secs(11);
        std::fs::write(file(WANTED), before.as_millis().to_string()).unwrap();
        soon(|| !file(PAGE).exists());
    }
    db.close().unwrap();
}

/// Whatever call fails, the store goes on, and the next page is there when the disk is good.
#[test]
fn failing_calls_do_not_matter() {
    std::thread::scope(|scope| {
        for fault in [Fault::Eio, Fault::NoSpace, Fault::CutWrite(100)] {
            scope.spawn(move || goes_on_while_calls_fail(&fault));
        }
    });
}

fn goes_on_while_calls_fail(fault: &Fault) {
    let ops = [Op::Exists, Op::Open, Op::Create, Op::Read, Op::Write, Op::Len, Op::Rename];
    let mut bench = Bench::new();
    let db = bench.open();
    // Each call that a look makes fails in turn: the one after it is not reached before.
    let rules = ops.map(|op| (op, bench.faults.add(Rule::once(op, "STATS", fault.clone()))));
    let mut number = 0;
    while page(&bench).is_none() {
        ask(&bench, Duration::ZERO);
        bench.put(&db, number, Durability::Sync).unwrap();
        number += 1;
        pause(Duration::from_millis(20));
    }
    for (op, rule) in rules {
        assert_eq!(bench.faults.fired(rule), 1, "{op:?} did not fail");
    }
    assert!(db.stats().read_only.is_none() && !db.stats().out_of_space);
    assert_eq!(db.stats().shortages, 0);
    db.flush().unwrap();
    // The page cannot be removed at the close, either.
    bench.faults.add(Rule::once(Op::Remove, "STATS", Fault::Eio).forever());
    db.close().unwrap();
    assert!(there(&bench).contains(&path(PAGE)));
    bench.reopen(0);
    assert_eq!(there(&bench), Vec::<PathBuf>::new(), "an open removes what was left");
}

/// What a crash leaves behind disturbs nobody.
#[test]
fn leftovers_are_no_findings_and_go_with_the_next_open() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    let db = Db::open(&dir).unwrap();
    db.put("apple", "green").unwrap();
    db.close().unwrap();
    let fs = RealEnv::new().fs().clone();
    let make = || {
        for name in [PAGE, "STATS.prom.tmp", WANTED] {
            let options = vlsm_disk::fs::OpenOptions::CREATE;
            fs.open(&dir.join(name), options).unwrap().write_at(b"torn", 0).unwrap();
        }
    };
    make();
    let report = vlsm::verify(&dir).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let db = Db::open(&dir).unwrap();
    let names = fs.read_dir(&dir).unwrap();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("STATS")), "{names:?}");
    make();
    let copy = folder.path().join("copy");
    db.checkpoint(&copy).unwrap();
    let names = fs.read_dir(&copy).unwrap();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("STATS")), "{names:?}");
    db.close().unwrap();
    assert_eq!(vlsm::verify(&copy).unwrap().findings.len(), 0);
}
