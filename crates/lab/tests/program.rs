//! `vlsm-lab`: runs in processes of their own, their reports, and refused arguments.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "for tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A folder for one test.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Runs `vlsm-lab` with data in a folder of its own, where no other stores are built.
fn lab(world: &World, arguments: &[&str]) -> Command {
    let data = world.path("data");
    std::fs::create_dir_all(&data).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vlsm-lab"));
    command.args(arguments).current_dir(world.path(""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("TMPDIR", data).env_remove("VLSM_PEERS");
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn entries(path: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn two_stores_are_compared_and_nothing_is_left_behind() {
    let world = World::new();
    let stores = ["compare", "vlsm", "vlsm:rocksdb/admission=open"];
    let arguments = [&stores[..], &["--pairs", "20k", "--seconds", "0.5"]].concat();
    let more = ["--load", "max,50%", "--rounds", "1", "--regions", "4", "--out", "out"];
    let output = lab(&world, &[&arguments[..], &more[..]].concat()).output().unwrap();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 pair") && text.contains("no conclusion"), "{text}");
    let out = world.path("out");
    let json = std::fs::read_to_string(out.join("reports.json")).unwrap();
    let reports: Vec<vlsm_measure::report::Report> = serde_json::from_str(&json).unwrap();
    assert_eq!(reports.len(), 2);
    let second = reports[1].method.spec.as_ref().unwrap();
    assert_eq!(second.store.name(), "vlsm:rocksdb/admission=open");
    assert_eq!(second.store.options.policy.admission, "open");
    assert_eq!(second.store.options.policy.shape, "tiered_l0");
    for report in &reports {
        let names: Vec<_> = report.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["load", "max", "50%"]);
        let [load, max, half] = &report.phases[..] else { panic!("three phases") };
        assert_eq!(load.ops, 20_000);
        let offered = half.arrivals.peak().unwrap();
        assert!((offered / max.throughput - 0.5).abs() < 0.01, "{offered}");
        assert!(half.floor.p999_us > 0.0 && !max.samples.is_empty());
        assert_eq!(report.method.spec.as_ref().unwrap().store.regions, 4);
        assert!(report.method.command.contains("lab compare"), "{}", report.method.command);
    }
    for file in ["index.html", "summary.csv", "series.csv"] {
        assert!(std::fs::metadata(out.join(file)).unwrap().len() > 100, "{file}");
    }
    assert_eq!(entries(&world.path("data")), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_interrupted_run_reports_what_it_has_and_removes_its_data() {
    let world = World::new();
    let arguments =
        ["compare", "vlsm", "--pairs", "20k", "--seconds", "60", "--out", "out", "--rounds", "3"];
    let mut child = lab(&world, &arguments).spawn().unwrap();
    let data = world.path("data");
    while !entries(&data).iter().any(|run| entries(&run.join("store")).len() > 3) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it made its store");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1500));
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert!(child.wait().unwrap().success());
    let json = std::fs::read_to_string(world.path("out").join("reports.json")).unwrap();
    let reports: Vec<vlsm_measure::report::Report> = serde_json::from_str(&json).unwrap();
    assert_eq!(reports.len(), 1, "the first round only");
    let last = reports[0].phases.last().unwrap();
    assert!(last.stopped && last.ops > 0 && last.seconds < 30.0);
    assert_eq!(entries(&data), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_interrupted_run_of_a_campaign_is_done_again() {
    let world = World::new();
    let figure = ["figure", "silk-1", "--scale", "smoke", "--no-peers", "--out", "out"];
    let runs_to_do = || {
        let output = lab(&world, &[&figure[..], &["--plan"]].concat()).output().unwrap();
        said(&output).lines().find(|line| line.contains(" runs to do")).unwrap().to_owned()
    };
    let before = runs_to_do();
    let mut child = lab(&world, &figure).spawn().unwrap();
    let runs = world.path("out").join("runs");
    while entries(&runs).is_empty() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended without a run");
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    child.wait().unwrap();
    let [done] = &entries(&runs)[..] else { panic!("the second run was kept, too") };
    assert_ne!(runs_to_do(), before);
    assert_eq!(entries(&world.path("data")), Vec::<std::path::PathBuf>::new());
    // A report that older programs kept although the run was stopped in its load.
    let text = std::fs::read_to_string(done).unwrap();
    let mut answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    answer["report"]["phases"] = serde_json::Value::Array(Vec::new());
    std::fs::write(done, answer.to_string()).unwrap();
    assert_eq!(runs_to_do(), before);
}

#[test]
fn what_cannot_be_done_is_refused_with_help() {
    let world = World::new();
    let refused = |arguments: &[&str], expected: &[&str]| {
        let output = lab(&world, arguments).output().unwrap();
        let text = said(&output);
        assert!(!output.status.success(), "{text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{expected:?} is not in {text}");
        assert_eq!(entries(&world.path("data")), Vec::<std::path::PathBuf>::new());
    };
    refused(&["figure", "slik-8"], &["did you mean \"silk-8\""]);
    refused(&["figure", "8", "--scale", "1/5000"], &["too small"]);
    refused(
        &["figure", "silk-2", "--also", "pebble:sized"],
        &["pebble among them: run peers/build"],
    );
    refused(&["figure", "silk-2", "--also", "vlsm:lsim"], &["did you mean \"lsmi\""]);
    refused(&["compare", "vlsm", "--workload", "fillseg"], &["did you mean \"fillseq\""]);
    refused(&["compare", "vlsm:rocksbd"], &["did you mean \"rocksdb\""]);
    refused(&["compare", "vlsm:rocksdb/shape=lsim"], &["did you mean \"lsmi\""]);
    refused(&["compare", "vlsm/schedul=fifo"], &["did you mean \"schedule\""]);
    refused(&["compare", "rocksdb"], &["not built", "peers/build"]);
    refused(&["compare", "vlsm", "--pairs", "900G"], &["free", "may need"]);
    refused(&["compare", "vlsm", "--load", "fast"], &["sustainable"]);
    refused(&["compare", "vlsm", "--load", "50%,max"], &["put max before it"]);
    refused(&["compare", "vlsm", "--load", "own"], &["no arrivals of its own"]);
    std::fs::write(world.path("file"), "").unwrap();
    refused(&["compare", "vlsm", "--dir", "file"], &["cannot make the folder file"]);
    refused(&["figure", "silk-2", "--no-peers", "--dir", "file"], &["cannot make the folder file"]);
    let fast = ["compare", "vlsm", "--pairs", "1k", "--load", "900000000", "--seconds", "1"];
    refused(&fast, &["more than the driver can offer"]);
}

#[test]
fn a_recorded_trace_is_replayed_on_another_store() {
    let world = World::new();
    let db = vlsm::Db::open(world.path("recorded")).unwrap();
    db.start_trace(world.path("some.trace")).unwrap();
    for number in 0..2000_u32 {
        db.put(number.to_be_bytes(), "value").unwrap();
    }
    for number in 0..2000_u32 {
        db.get(number.to_be_bytes()).unwrap();
    }
    db.end_trace().unwrap();
    db.close().unwrap();
    // The folder for the data is made.
    let arguments = ["compare", "vlsm", "--pairs", "1k", "--dir", "made/here", "--trace"];
    let output = lab(&world, &[&arguments[..], &["some.trace", "--out", "out"]].concat());
    let text = said(&{ output }.output().unwrap());
    let json = std::fs::read_to_string(world.path("out").join("reports.json")).expect(&text);
    let reports: Vec<vlsm_measure::report::Report> = serde_json::from_str(&json).unwrap();
    let replayed = reports[0].phases.last().unwrap();
    assert_eq!((replayed.name.as_str(), replayed.ops), ("trace", 4000), "{text}");
    assert_eq!(replayed.writes.unwrap().count, 2000);
    // A client that the machine holds up holds one write; the others go on.
    assert!(replayed.misses <= 2, "{} reads missed what was written", replayed.misses);
    std::fs::write(world.path("no.trace"), "something else").unwrap();
    let text = said(&lab(&world, &[&arguments[..], &["no.trace"]].concat()).output().unwrap());
    assert!(text.contains("no.trace") && text.contains("trace"), "{text}");
}

#[test]
fn all_figures_are_listed_with_what_is_missing() {
    let world = World::new();
    let output = lab(&world, &["list", "--no-peers"]).output().unwrap();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for part in ["vlsm-table1", "silk-13", "dlc-12", "cruise-18", "not there: rocksdb is left out"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let output = lab(&world, &["workloads"]).output().unwrap();
    assert!(said(&output).contains("mixgraph"));
}

#[test]
fn help_is_a_command_too() {
    let world = World::new();
    let page = |arguments: &[&str]| {
        let output = lab(&world, arguments).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    assert_eq!(page(&["help"]), page(&["--help"]));
    assert_eq!(page(&["help", "figure"]), page(&["figure", "--help"]));
}

/// The cost of an added store is announced beforehand.
#[test]
fn added_stores_are_part_of_the_plan() {
    let world = World::new();
    let plan = |more: &[&str]| {
        let arguments = ["figure", "silk-2", "--scale", "smoke", "--no-peers", "--plan"];
        let output = lab(&world, &[&arguments[..], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    assert!(plan(&[]).contains("1 runs to do"));
    let text = plan(&["--also", "vlsm/admission=open,vlsm:lsmi"]);
    for part in ["3 runs to do", "vlsm:vlsm/admission=open", "vlsm:lsmi"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// A campaign of two small runs, in the same folder twice: the second time nothing is done again.
#[test]
fn a_campaign_resumes_and_says_why_nothing_is_measured() {
    let world = World::new();
    let arguments =
        ["figure", "silk-2", "--scale", "smoke", "--seconds", "1", "--no-peers", "--out", "out"];
    let output = lab(&world, &arguments).output().unwrap();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 runs to do") && text.contains("not a measurement"), "{text}");
    assert!(text.contains("not measured: three rounds or more: 1"), "{text}");
    let page = std::fs::read_to_string(world.path("out").join("silk-2.html")).unwrap();
    assert!(page.contains("not measured") && !page.contains("<svg"), "no curve");
    assert_eq!(entries(&world.path("data")), Vec::<std::path::PathBuf>::new());
    let text = said(&lab(&world, &arguments).output().unwrap());
    assert!(text.contains("0 runs to do"), "{text}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let world = World::new();
    let plan = ["figure", "table", "--no-peers", "--plan"];
    for arguments in [&["list"][..], &["workloads"], &plan] {
        let mut command = lab(&world, arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
    }
}
