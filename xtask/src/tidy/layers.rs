//! Who may import whom: between crates, between the three axes, and inside the engine.
//!
//! 1. Between crates the manifests tell: each may depend on the crates of [`CRATES`] beside it, and
//!    its tests on those of [`TESTS`] too.
//! 2. The axes of `policy` are independent of each other: none says `crate::<another axis>`.
//! 3. Inside the engine [`ENGINE`] puts the rooms one above the other; an arrow goes down.

use super::{Tree, Violation};

/// The modules of `policy` that are axes.
pub const AXES: &[&str] = &["shape", "schedule", "admission"];

/// Each crate and what it may see of the others.
const CRATES: &[(&str, &[&str])] = &[
    ("crates/core", &[]),
    ("crates/policy", &["vlsm-core"]),
    ("crates/disk", &["vlsm-core"]),
    ("crates/vlsm", &["vlsm-core", "vlsm-policy", "vlsm-disk"]),
    ("crates/testfs", &["vlsm-core", "vlsm-disk"]),
    ("crates/sim", &["vlsm-core", "vlsm-policy", "vlsm-disk", "vlsm-testfs", "vlsm"]),
    ("crates/measure", &["vlsm-core", "vlsm-policy", "vlsm"]),
    ("crates/cli", &["vlsm-core", "vlsm-policy", "vlsm-disk", "vlsm", "vlsm-measure"]),
    ("crates/lab", &["vlsm-core", "vlsm-policy", "vlsm", "vlsm-measure", "vlsm-cli"]),
    ("crates/fuzz", &["vlsm-core", "vlsm-disk", "vlsm-testfs", "vlsm", "vlsm-cli"]),
    ("xtask", &[]),
];

/// What the tests of a crate may see beside: no release build has it.
const TESTS: &[(&str, &[&str])] =
    &[("crates/disk", &["vlsm-testfs"]), ("crates/vlsm", &["vlsm-testfs"])];

/// Where the rooms of the engine are.
const ROOMS: &str = "crates/vlsm/src/";

/// The rooms of the engine from the bottom up. None names one that stands above it.
const ENGINE: &[&str] = &[
    // The ground: what no part of a store is needed for.
    "sync",
    "paths",
    "copies",
    "memtable",
    "budget",
    "options",
    "trace",
    "shared",
    "device",
    "external",
    "aside",
    "rules",
    "catalog",
    // The parts.
    "read",
    "job",
    "log",
    "install",
    "write",
    "control",
    "engine",
    // What is done with several parts.
    "close",
    "handle",
    "folder",
    "recovery",
    "open",
    "stats",
    "verify",
    "checkpoint",
    "ingest",
    // The face.
    "held",
    "iter",
    "salvage",
    "keyspace",
    "batch",
    "snapshot",
    "db",
];

/// Checks the direction of imports.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = crates(tree);
    for axis in AXES {
        let others: Vec<&str> = AXES.iter().copied().filter(|other| other != axis).collect();
        let prefix = format!("crates/policy/src/{axis}/");
        found.extend(names(tree, &prefix, &others, "axes", "the axes are independent"));
    }
    for (floor, room) in ENGINE.iter().enumerate() {
        let above = &ENGINE[floor + 1..];
        for prefix in [format!("{ROOMS}{room}/"), format!("{ROOMS}{room}.rs")] {
            found.extend(names(
                tree,
                &prefix,
                above,
                "back-edge",
                "lower rooms know no upper ones",
            ));
        }
    }
    found.extend(floorless(tree));
    found
}

/// Rooms of the engine that stand on no floor.
fn floorless(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, _) in tree.rust() {
        let Some(file) = path.strip_prefix(ROOMS) else { continue };
        let room = file.split('/').next().unwrap_or(file).trim_end_matches(".rs");
        if !["lib", "tests"].contains(&room) && !ENGINE.contains(&room) {
            let what = format!("give {room} a place in ENGINE in xtask/src/tidy/layers.rs");
            found.push(Violation::new(path, 0, "back-edge", what));
        }
    }
    found
}

fn crates(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let manifests = tree.files().filter(|(path, _)| path.ends_with("/Cargo.toml"));
    for (path, text) in manifests.filter(|(path, _)| !path.starts_with("peers/")) {
        let folder = path.trim_end_matches("/Cargo.toml");
        let Some((_, allowed)) = CRATES.iter().find(|(name, _)| *name == folder) else {
            if !folder.starts_with("fuzz") {
                let what = "an unknown crate: give it a line in xtask/src/tidy/layers.rs";
                found.push(Violation::new(path, 0, "layers", what));
            }
            continue;
        };
        let tests = TESTS.iter().find(|(name, _)| *name == folder).map_or(&[][..], |(_, of)| *of);
        let mut section = "";
        for (i, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            } else if section.contains("dependencies") {
                let name = line.split(['=', '.', ' ']).next().unwrap_or("");
                let ours = name == "vlsm" || name.starts_with("vlsm-");
                let in_test = section == "[dev-dependencies]" && tests.contains(&name);
                if ours && !allowed.contains(&name) && !in_test {
                    let what = format!("{folder} must not see {name}");
                    found.push(Violation::new(path, i + 1, "layers", what));
                }
            }
        }
    }
    found
}

/// Lines under `prefix` that name one of these top-level modules of their crate.
fn names(
    tree: &Tree,
    prefix: &str,
    modules: &[&str],
    rule: &'static str,
    why: &str,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, source) in tree.rust().filter(|(path, _)| path.starts_with(prefix)) {
        for (number, line) in source.product_lines() {
            for module in modules.iter().filter(|module| imports(line, module)) {
                let what = format!("must not name crate::{module}: {why}");
                found.push(Violation::new(path, number, rule, what));
            }
        }
    }
    found
}

/// Whether a line says `crate::module` or has the module in a `use crate::{…}` on one line.
fn imports(line: &str, module: &str) -> bool {
    let part = |text: &str| text.split(|c: char| !super::source::is_word(c)).next() == Some(module);
    let direct = line.match_indices("crate::").any(|(at, m)| part(&line[at + m.len()..]));
    let listed = line
        .split_once("use crate::{")
        .is_some_and(|(_, list)| list.split(',').any(|entry| part(entry.trim_start())));
    direct || listed
}
