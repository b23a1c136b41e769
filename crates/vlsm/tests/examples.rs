//! Every example runs, twice on the same store. Their own assertions check what they show.
#![allow(dead_code, reason = "the main of an example is not called here")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test of programs, which reads their folder"
)]

#[path = "../examples/async_tokio.rs"]
mod async_tokio;
#[path = "../examples/bank.rs"]
mod bank;
#[path = "../examples/cache.rs"]
mod cache;
#[path = "../examples/counters.rs"]
mod counters;
#[path = "../examples/events.rs"]
mod events;
#[path = "../examples/queue.rs"]
mod queue;
#[path = "../examples/series.rs"]
mod series;

use std::path::Path;

/// Runs an example on a new store and again on what that left, and returns what it said.
fn twice(run: fn(&Path) -> vlsm::Result<String>) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let said = [(); 2].map(|()| run(&store).unwrap());
    let report = vlsm::verify(&store).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    said
}

#[test]
fn async_tokio_streams_what_tasks_wrote() {
    let said = "1000 pairs written by 20 tasks and read as a stream\n";
    assert_eq!(twice(async_tokio::run), [said, said]);
}

#[test]
fn bank_keeps_its_books() {
    let folder = tempfile::tempdir().unwrap();
    for backup in 1..3 {
        let said = bank::run(folder.path()).unwrap();
        assert!(said.contains("times login, transfer, move; backup "), "{backup}: {said}");
    }
    let bank = bank::Bank::open(vlsm::Db::builder(folder.path().join("store"))).unwrap();
    assert_eq!(bank.audit().unwrap().total, bank::ACCOUNTS * bank::BALANCE);
}

#[test]
fn cache_computes_once() {
    let said = "150 requests, 50 computed\n";
    assert_eq!(twice(cache::run), [said, said]);
}

#[test]
fn counters_lose_no_visit() {
    let [first, second] = twice(counters::run);
    assert_eq!(first, "/: 400 visits\n/about: 400 visits\n/docs: 400 visits\n");
    assert!(second.starts_with("/: 800 visits"), "{second}");
}

#[test]
fn events_go_on_with_their_numbers() {
    let said = |last| format!("301 events since the start, the last one number {last}\n");
    assert_eq!(twice(events::run), [said(300), said(601)]);
}

#[test]
fn queue_does_each_job() {
    let said = "200 jobs done by 3 workers, one more after a restart\n";
    assert_eq!(twice(queue::run), [said, said]);
}

#[test]
fn series_keep_their_averages() {
    let said = "180 measurements kept as they are, 540 as 9 hourly averages\n";
    assert_eq!(twice(series::run), [said, said]);
}

/// An example that nobody runs would rot. One is not tested here: a server that ends with its
/// input.
#[test]
fn each_example_is_tested_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let here = include_str!("examples.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let tested = here.contains(&format!("\"../examples/{name}\""));
        assert!(tested || name == "metrics_page.rs", "{name} is not tested");
    }
}
