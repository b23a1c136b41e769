//! The permitted imports: between crates, between the three axes, and inside the engine.
//!
//! 1. Between crates the manifests tell: each may depend on the crates of [`CRATES`] beside it, and
//!    its tests on those of [`TESTS`] too.
//! 2. The axes of `policy` are independent of each other: none imports from another.
//! 3. Inside the engine [`ENGINE`] puts the rooms one above the other; an arrow goes down.
//!
//! An import is any path of the code (`cycles`): from `crate` or `super`, in a list or alone.

use super::cycles::{self, Path};
use super::source::is_word;
use super::{Tree, Violation};
use std::collections::BTreeSet;

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
    ("bindings", &[]),
    ("bindings/c", &["vlsm", "vlsm-handle"]),
    ("bindings/handle", &[]),
    ("bindings/java", &["vlsm"]),
    ("bindings/python", &["vlsm", "vlsm-handle"]),
    ("bindings/rocksdb", &["vlsm", "vlsm-handle"]),
    ("integrations", &[]),
    ("integrations/openraft", &["vlsm"]),
    ("integrations/openraft/kv", &["vlsm", "vlsm-openraft"]),
    ("xtask", &[]),
];

/// The crates that the tests of a crate may use besides those in [`CRATES`]. No release build has
/// them.
const TESTS: &[(&str, &[&str])] = &[
    ("crates/disk", &["vlsm-testfs"]),
    ("crates/vlsm", &["vlsm-testfs"]),
    ("integrations/openraft", &["vlsm-testfs"]),
];

/// The folder of the axes.
const POLICY: &str = "crates/policy/src/";

/// The folder of the engine's rooms.
const ROOMS: &str = "crates/vlsm/src/";

/// The rooms of the engine from the bottom up. None names one that stands above it.
const ENGINE: &[&str] = &[
    // The ground: what no part of a store is needed for.
    "sync",
    "paths",
    "bounds",
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
    "own_writes",
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
    "follow",
    "open",
    "stats",
    "verify",
    "checkpoint",
    "ingest",
    "replace",
    // The face.
    "held",
    "iter",
    "salvage",
    "keyspace",
    "batch",
    "snapshot",
    "db",
    "default",
    "beside",
    "transaction",
    "single_key",
    "unwind",
    "tracing",
];

/// Checks the direction of imports.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = crates(tree);
    let imports = cycles::imports(tree, POLICY);
    for axis in AXES {
        let others: Vec<&str> = AXES.iter().copied().filter(|other| other != axis).collect();
        let why = ("axes", "the axes are independent");
        found.extend(upwards(tree, &imports, &format!("{POLICY}{axis}/"), &others, why));
    }
    let imports = cycles::imports(tree, ROOMS);
    for (floor, room) in ENGINE.iter().enumerate() {
        let why = ("back-edge", "lower rooms know no upper ones");
        for prefix in [format!("{ROOMS}{room}/"), format!("{ROOMS}{room}.rs")] {
            found.extend(upwards(tree, &imports, &prefix, &ENGINE[floor + 1..], why));
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

/// Imports of files under `prefix` from these top-level modules of their crate.
fn upwards(
    tree: &Tree,
    imports: &[(&str, Vec<Path>)],
    prefix: &str,
    modules: &[&str],
    (rule, why): (&'static str, &str),
) -> Vec<Violation> {
    let mut found = Vec::new();
    for (file, paths) in imports.iter().filter(|(file, _)| file.starts_with(prefix)) {
        let roots: BTreeSet<&str> =
            paths.iter().filter_map(|path| Some(&**path.first()?)).collect();
        for module in modules.iter().filter(|module| roots.contains(**module)) {
            let what = format!("must not name crate::{module}: {why}");
            found.push(Violation::new(file, line_of(tree, file, module), rule, what));
        }
    }
    found
}

/// The first line of a file that has this word, or 0.
fn line_of(tree: &Tree, file: &str, word: &str) -> usize {
    let source = tree.rust().find(|(path, _)| *path == file).map(|(_, source)| source);
    let has = |line: &str| line.split(|c: char| !is_word(c)).any(|part| part == word);
    let line = source.and_then(|source| source.product_lines().find(|(_, line)| has(line)));
    line.map_or(0, |(number, _)| number)
}
