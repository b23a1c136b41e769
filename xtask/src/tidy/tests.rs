//! A planted violation for each rule: a made-up tree in which the rule, and nothing else, is
//! broken.

use super::{Tree, Violation, violations};
use std::collections::BTreeSet;

const ESSAY: &str = "//! What this is for.\n//! And how.\n";

/// A tree that breaks no rule.
fn clean() -> Vec<(String, String)> {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    vec![
        file(
            "ARCHITECTURE.md",
            "| `policy/shape` | what |\n| `core/key` | keys |\n| `core/ring` | |\n",
        ),
        file("docs/mechanisms.md", "## Shapes\n| name | essence |\n| `vlsm` | vSSTs |\n"),
        file("crates/core/Cargo.toml", "[dependencies]\nbytes.workspace = true\n"),
        file("crates/core/src/key.rs", ESSAY),
        // Three files in a circle, and one that they name.
        file("crates/core/src/ring/mod.rs", "//! A ring.\nmod one;\nmod two;\npub use two::Two;\n"),
        file("crates/core/src/ring/one.rs", &format!("{ESSAY}use super::two::{{Two, Duo}};\n")),
        file(
            "crates/core/src/ring/two.rs",
            &format!("{ESSAY}fn f() {{ crate::ring::three::g() }}\n"),
        ),
        file(
            "crates/core/src/ring/three.rs",
            &format!("{ESSAY}use crate::{{key::Key, ring::{{one}}}};\n"),
        ),
        file("crates/policy/Cargo.toml", "[dependencies]\nvlsm-core.workspace = true\n"),
        file(
            "crates/policy/src/shape/mod.rs",
            "//! Shapes.\nmod vlsm;\nconst REGISTRY: &[Entry] = &[(\"vlsm\", vlsm::new)];\n",
        ),
        file(
            "crates/policy/src/shape/vlsm.rs",
            "//! vLSM.\n//! 1. Cut.\nstruct Vlsm;\nimpl Shape for Vlsm {}\n",
        ),
        file("crates/policy/testdata/shape/vlsm.txt", "tree\n----\n"),
    ]
}

/// The clean tree with one file replaced, or with text added to it when `text` starts with `+`.
fn with(path: &str, text: &str) -> Tree {
    let mut files = clean();
    let old = files.iter().position(|(p, _)| p == path).map(|i| files.remove(i).1);
    let text = match text.strip_prefix('+') {
        Some(more) => old.unwrap_or_else(|| ESSAY.to_owned()) + more,
        None => text.to_owned(),
    };
    files.push((path.to_owned(), text));
    Tree::new(files)
}

const KEY: &str = "crates/core/src/key.rs";

/// Each rule with files that break it.
fn planted() -> Vec<(&'static str, &'static str, String)> {
    let plant = |rule, path, text: &str| (rule, path, text.to_owned());
    let in_test = "+#[cfg(test)]\nmod tests {\n";
    vec![
        plant("file-length", KEY, &format!("+{}", "\n".repeat(599))),
        plant("function-length", KEY, &format!("+fn f() {{{}}}\n", "\n".repeat(70))),
        plant("line-length", KEY, &format!("+// {}\n", "x".repeat(98))),
        plant("inline-tests", KEY, &format!("{in_test}{}}}\n", "\n".repeat(150))),
        plant("essay", KEY, "//! One line.\n"),
        plant("essay", "crates/policy/src/shape/mod.rs", "fn f() { vlsm::new() }\n"),
        plant("print", KEY, "+fn f() { println!(\"x\") }\n"),
        plant("print", KEY, "+fn f() { eprint!(\"x\") }\n"),
        plant("dbg", KEY, "+fn f() { dbg!(1); }\n"),
        plant("unwrap", KEY, "+fn f() { x.unwrap() }\n"),
        plant("todo", KEY, "+fn f() { todo!() }\n"),
        plant("todo", KEY, "+fn f() { unimplemented!() }\n"),
        plant("unsafe", KEY, "+fn f() { unsafe { g() } }\n"),
        plant("ignore", KEY, &format!("{in_test}#[test]\n#[ignore]\nfn f() {{}}\n}}\n")),
        plant("layers", "crates/core/Cargo.toml", "[dependencies]\nvlsm-disk.workspace = true\n"),
        plant("layers", "crates/policy/Cargo.toml", "[dev-dependencies]\nvlsm = \"1\"\n"),
        plant("layers", "crates/disk/Cargo.toml", "[dependencies]\nvlsm-testfs = \"1\"\n"),
        plant("layers", "crates/cli/Cargo.toml", "[dependencies]\nvlsm-sim.workspace = true\n"),
        plant("layers", "crates/new/Cargo.toml", "[package]\n"),
        plant("axes", "crates/policy/src/shape/vlsm.rs", "+use crate::schedule::Fifo;\n"),
        plant("axes", "crates/policy/src/shape/vlsm.rs", "+use crate::{candidate, admission};\n"),
        plant("cycle", KEY, "+use crate::ring::two::Two;\n"),
        plant("mechanism", "crates/policy/src/shape/mod.rs", "//! Shapes.\nmod vlsm;\n"),
        plant("mechanism", "crates/policy/testdata/shape/vlsm.txt", "\n"),
        plant("mechanism", "crates/policy/testdata/shape/gone.txt", "tree\n"),
        plant("mechanism", "docs/mechanisms.md", "## Schedules\n| `vlsm` | vSSTs |\n"),
        plant("mechanism", "docs/mechanisms.md", "+| `gone` | no file |\n"),
        plant("mechanism", "docs/mechanisms.md", "+| schedule | `gone` | no file |\n"),
        plant("map", "crates/core/src/new.rs", "+"),
        plant("map", "ARCHITECTURE.md", "+| `core/gone` | |\n"),
        plant("machine-path", "README.md", concat!("see /ho", "me/me/notes\n")),
        plant("host", "README.md", concat!("see https", "://mirror.intern/x\n")),
        plant("host", ".cargo/config.toml", "[source.crates-io]\n"),
        plant("exceptions", super::EXCEPTIONS, "essay crates/core/src/key.rs  # not needed\n"),
        plant("exceptions", super::EXCEPTIONS, "essay crates/core/src/key.rs\n"),
        plant("exceptions", super::EXCEPTIONS, "essay\n"),
    ]
}

#[test]
fn a_clean_tree_passes() {
    assert_eq!(violations(&Tree::new(clean())), []);
}

#[test]
fn every_planted_violation_is_found() {
    for (rule, path, text) in planted() {
        let found = violations(&with(path, &text));
        assert!(found.iter().any(|v| v.rule == rule), "{rule} in {path}: found {found:?}");
        assert!(found.iter().all(|v| v.rule == rule), "{rule} in {path}: found {found:?}");
    }
}

#[test]
fn every_rule_has_a_planted_violation() {
    let mut planted: BTreeSet<&str> = planted().iter().map(|(rule, _, _)| *rule).collect();
    planted.insert("back-edge");
    let sources = [
        include_str!("mod.rs"),
        include_str!("style.rs"),
        include_str!("calls.rs"),
        include_str!("layers.rs"),
        include_str!("cycles.rs"),
        include_str!("mechanisms.rs"),
        include_str!("map.rs"),
        include_str!("places.rs"),
    ];
    let literals = sources.iter().flat_map(|text| text.split('"').skip(1).step_by(2));
    let rules: BTreeSet<&str> = literals.filter(|l| planted.contains(l)).collect();
    assert_eq!(rules, planted, "a rule of the tests is not a rule of tidy");
}

#[test]
fn back_edges_are_found() {
    let path = "crates/vlsm/src/memtable/arena.rs";
    let edges = [
        "use crate::job::Job;",
        "use crate::{\n    job::Job,\n    paths,\n};",
        "use super::super::job::Job;",
        "use std::fmt;\nfn f() -> crate::job::Job {}",
    ];
    for (edge, line) in edges.iter().zip([3, 4, 3, 4]) {
        let with_edge = Tree::new([(path.to_owned(), format!("{ESSAY}{edge}\n"))]);
        let found = super::layers::check(&with_edge);
        assert_eq!(found.len(), 1, "{edge}: {found:?}");
        assert_eq!((found[0].rule, found[0].line), ("back-edge", line), "{edge}");
    }
}

#[test]
fn what_is_allowed_is_not_found() {
    let allowed = [
        ("crates/core/src/key.rs", "+// todo!() x.unwrap()\nconst A: &str = \"unsafe { }\";\n"),
        ("crates/core/src/key.rs", "+#[cfg(test)]\nmod tests { fn f() { x.unwrap() } }\n"),
        ("crates/core/src/key.rs", "+#![forbid(unsafe_code)]\nfn f() { writeln!(o) }\n"),
        ("crates/disk/Cargo.toml", "[dev-dependencies]\nvlsm-testfs.workspace = true\n"),
        ("crates/core/tests/a.rs", "//! A test.\nfn f() { x.unwrap(); }\n"),
        ("crates/policy/src/shape/vlsm.rs", "+use crate::shape::CutRule;\n"),
        ("README.md", "https://example.com/x/y and target/home/x, file:///tmp/a\n"),
    ];
    for (path, text) in allowed {
        assert_eq!(violations(&with(path, text)), [], "{path}: {text}");
    }
}

#[test]
fn an_exception_excuses_its_rule_and_path_only() {
    let mut files = clean();
    files.push((KEY.to_owned(), "//! One.\n".to_owned()));
    files.push((super::EXCEPTIONS.to_owned(), format!("essay {KEY}  # planted\n")));
    assert_eq!(violations(&Tree::new(files.clone())), []);
    files.push(("crates/core/src/key.rs".to_owned(), "fn f() { todo!() }\n".to_owned()));
    let left: Vec<Violation> = violations(&Tree::new(files));
    assert!(left.iter().all(|v| v.rule == "todo") && left.len() == 1, "{left:?}");
}
