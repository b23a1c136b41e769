//! Tests of what the driver reads and remembers.
#![cfg(test)]

use super::report::{grouped, text};
use super::state::{ClassState, Finding, State};
use super::{CLASSES, Seeds, counts, executable, first_panic, next, run_into, size};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

fn some() -> State {
    let mut state = State { commit: "abc".into(), runs: 2, took: 50.0, ..State::default() };
    let mut round = ClassState { rounds: 1, seeds: 500, seconds: 40.0, ..ClassState::default() };
    round.longest = 40.0;
    round.counts = counts("test a ... counts: power cuts=3, fault: EIO on read=4\ncounts: kills=1");
    state.add("stories", &round);
    state.add("stories", &round);
    let [class, seeds, file, what] = ["model", "1..2", "findings/a.txt", "a\tb"].map(String::from);
    state.findings.push(Finding { class, seeds, file, what });
    state
}

#[test]
fn counts_are_added_up() {
    let said = "x\ntest y ... counts: a b=1, fault: c=2\ncounts: a b=3, d=x\n counts it";
    let sum: Vec<_> = counts(said).into_iter().collect();
    assert_eq!(sum, [("a b".into(), 4), ("fault: c".into(), 2)]);
}

#[test]
fn a_state_is_read_back_and_goes_on() {
    let mut state = some();
    let read = State::parse(&state.text()).expect("its own text");
    state.findings[0].what = "a b".into();
    assert_eq!(read, state);
    assert_eq!(read.class("stories").seeds, 1_000);
    assert_eq!(read.class("stories").counts["power cuts"], 6);
    assert!(State::parse("commit\tx\nclass\tstories\tmany").is_err());
}

#[test]
fn another_commit_begins_anew() {
    let path = std::env::temp_dir().join(format!("xtask-long-{}.txt", std::process::id()));
    some().write(&path).expect("written");
    let same = State::resume(&path, "abc").expect("read");
    let other = State::resume(&path, "abd").expect("read");
    std::fs::remove_file(&path).expect("there");
    assert_eq!((same.runs, same.class("stories").rounds), (3, 2));
    assert_eq!((other.runs, other.classes.len(), other.findings.len()), (1, 0, 0));
}

#[test]
fn every_class_has_its_turn_and_none_that_does_not_fit() {
    let mut state = State::default();
    let (long, none) = (Duration::from_secs(3_600), BTreeSet::new());
    for _ in 0..200 {
        let class = next(&state, &none, long).expect("there are more seeds");
        let round = ClassState { rounds: 1, seeds: 1, seconds: 60.0, ..ClassState::default() };
        state.add(class.name, &ClassState { longest: 60.0, ..round });
    }
    assert!(CLASSES.iter().all(|class| state.class(class.name).rounds > 0));
    for class in CLASSES.iter().filter(|class| matches!(class.seeds, Seeds::Once)) {
        assert_eq!(state.class(class.name).rounds, 1, "{}", class.name);
    }
    assert!(next(&state, &none, Duration::from_secs(30)).is_none());
    assert!(next(&State::default(), &none, Duration::ZERO).is_none());
    let first = next(&State::default(), &none, long).expect("all are open").name;
    let other = next(&State::default(), &BTreeSet::from([first]), long).expect("as are the others");
    assert_ne!(other.name, first, "no class has two rounds at a time");
}

#[test]
fn a_round_takes_about_a_minute() {
    let class = &CLASSES[0];
    let had = |seeds, seconds| ClassState { seeds, seconds, ..ClassState::default() };
    assert_eq!(size(class, &ClassState::default()), class.least);
    assert_eq!(size(class, &had(1_000, 10.0)), 6_000);
    assert_eq!(size(class, &had(1_000, 6_000.0)), class.least);
}

#[test]
fn the_end_of_a_program_is_told() {
    let path = std::env::temp_dir().join(format!("xtask-long-{}.out", std::process::id()));
    let run = |program: &str| run_into(&mut Command::new(program), &path).expect("it starts");
    let (good, bad) = (run("true"), run("false"));
    std::fs::remove_file(&path).expect("there");
    assert_eq!(good, Ok(()));
    assert!(bad.is_err());
    assert_eq!(first_panic("a\nthread panicked at x:\nit broke\nb", "1".into()), "it broke");
    assert_eq!(first_panic("a", "exit 1".into()), "exit 1");
}

#[test]
fn cargo_says_where_programs_are() {
    let line = "  Executable tests/model.rs (target/release/deps/model-13)";
    assert_eq!(executable(line), Some("target/release/deps/model-13"));
    assert_eq!(executable("   Compiling x (y)"), None);
}

#[test]
fn a_report_names_everything() {
    let text = text(&some(), ["stories", "model"].into_iter());
    for part in [
        "Commit abc",
        "0 h 01 min 20 s of tests in 2 runs that took 0 h 00 min 50 s, 1 findings",
        "| simulated power cuts | 6 |",
        "| file operations made to fail | 8 |",
        "| EIO on read | 8 |",
        "| stories | 0 h 01 min 20 s | 2 | 1,000 | 0 |",
        "- model, seeds 1..2: a",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1,234,567".into()));
}
