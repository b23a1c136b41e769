//! Who may import whom: between crates, between the three axes, and inside the engine.
//!
//! 1. Between crates the manifests tell: each may depend on the crates of [`CRATES`] beside it.
//! 2. The axes of `policy` are independent of each other: none says `crate::<another axis>`.
//! 3. Inside the engine [`BACK_EDGES`] lists the modules that a folder must not name.

use super::{Tree, Violation};

/// The modules of `policy` that are axes.
pub const AXES: &[&str] = &["shape", "schedule", "admission"];

/// Each crate and what it may see of the others.
const CRATES: &[(&str, &[&str])] = &[
    ("crates/core", &[]),
    ("crates/policy", &["vlsm-core"]),
    ("crates/disk", &["vlsm-core"]),
    ("crates/vlsm", &["vlsm-core", "vlsm-policy", "vlsm-disk"]),
    ("crates/sim", &["vlsm-core", "vlsm-policy", "vlsm-disk", "vlsm"]),
    ("crates/lab", &["vlsm-core", "vlsm-policy", "vlsm-disk", "vlsm"]),
    ("crates/cli", &["vlsm-core", "vlsm-policy", "vlsm-disk", "vlsm", "vlsm-sim", "vlsm-lab"]),
    ("crates/fuzz", &["vlsm-core", "vlsm-disk", "vlsm"]),
    ("xtask", &[]),
];

/// Inside the engine: a path prefix, and the modules that it must not name.
const BACK_EDGES: &[(&str, &[&str])] = &[
    ("crates/vlsm/src/memtable/", &["engine", "write", "read", "job", "control", "install", "db"]),
    ("crates/vlsm/src/job/", &["write", "control", "db"]),
    ("crates/vlsm/src/read/", &["write", "job", "control", "install", "db"]),
    ("crates/vlsm/src/write/", &["job", "control", "install", "db"]),
    ("crates/vlsm/src/control/", &["db"]),
    ("crates/vlsm/src/counters.rs", &["engine", "db"]),
    ("crates/vlsm/src/events.rs", &["engine", "db"]),
    ("crates/vlsm/src/health.rs", &["engine", "db"]),
    ("crates/vlsm/src/files.rs", &["engine", "db"]),
];

/// Checks the direction of imports.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = crates(tree);
    for axis in AXES {
        let others: Vec<&str> = AXES.iter().copied().filter(|other| other != axis).collect();
        let prefix = format!("crates/policy/src/{axis}/");
        found.extend(names(tree, &prefix, &others, "axes", "the axes are independent"));
    }
    for (prefix, forbidden) in BACK_EDGES {
        found.extend(names(tree, prefix, forbidden, "back-edge", "lower parts know no upper ones"));
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
        let mut section = "";
        for (i, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            } else if section.contains("dependencies") {
                let name = line.split(['=', '.', ' ']).next().unwrap_or("");
                let ours = name == "vlsm" || name.starts_with("vlsm-");
                if ours && !allowed.contains(&name) {
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
