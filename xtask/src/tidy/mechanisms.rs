//! One mechanism = one file + one registry line + one test-data file + one row in
//! `docs/mechanisms.md`.
//!
//! A mechanism is a file of an axis that implements the axis' trait. Its registry line is a line of
//! the axis' `mod.rs`, beside `mod` and `use`, that says `NAME::`. Its test data is
//! `crates/policy/testdata/AXIS/NAME.txt`. Its row starts with `` | AXIS | `NAME` `` or, in a
//! section whose heading starts with the axis, with `` | `NAME` ``.

use super::layers::AXES;
use super::source::words;
use super::{Tree, Violation};

/// The page with a row for each mechanism.
pub const DOCS: &str = "docs/mechanisms.md";

/// Checks that each mechanism has all its parts, and each part its mechanism.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for axis in AXES {
        let names = mechanisms(tree, axis);
        for name in &names {
            let path = format!("crates/policy/src/{axis}/{name}.rs");
            let mut missing = |what: String| {
                found.push(Violation::new(&path, 0, "mechanism", what));
            };
            if !registered(tree, axis, name) {
                missing(format!("has no registry line in {axis}/mod.rs"));
            }
            let data = testdata(axis, name);
            if tree.text(&data).trim().is_empty() {
                missing(format!("has no test data: {data}"));
            }
            if !rows(tree.text(DOCS), axis).iter().any(|row| row == name) {
                missing(format!("has no row `| {axis} | `{name}` |` in {DOCS}"));
            }
        }
        for (path, _) in tree.files() {
            let data = path.strip_prefix(&format!("crates/policy/testdata/{axis}/"));
            let name = data.and_then(|file| file.strip_suffix(".txt"));
            if name.is_some_and(|name| !names.iter().any(|n| n == name)) {
                found.push(Violation::new(path, 0, "mechanism", "test data of no mechanism"));
            }
        }
        for row in rows(tree.text(DOCS), axis).iter().filter(|row| !names.contains(row)) {
            let what = format!("a row for `{row}`, which is no file of {axis}/");
            found.push(Violation::new(DOCS, 0, "mechanism", what));
        }
    }
    found
}

/// The path of a mechanism's test data.
pub fn testdata(axis: &str, name: &str) -> String {
    format!("crates/policy/testdata/{axis}/{name}.txt")
}

/// The trait of an axis: `shape` has `Shape`.
pub fn trait_of(axis: &str) -> String {
    axis[..1].to_uppercase() + &axis[1..]
}

fn mechanisms(tree: &Tree, axis: &str) -> Vec<String> {
    let prefix = format!("crates/policy/src/{axis}/");
    let implements = format!("impl {} for", trait_of(axis));
    let files = tree.rust().filter(|(_, source)| source.code.contains(&implements));
    let names = files.filter_map(|(path, _)| path.strip_prefix(&prefix)?.strip_suffix(".rs"));
    names.filter(|name| *name != "mod" && !name.contains('/')).map(str::to_owned).collect()
}

fn registered(tree: &Tree, axis: &str, name: &str) -> bool {
    let Some(source) = tree.source(&format!("crates/policy/src/{axis}/mod.rs")) else {
        return false;
    };
    let mut lines = source.product_lines().map(|(_, line)| line.trim_start());
    lines.any(|line| {
        let import = line.starts_with("use ") || line.starts_with("pub use ");
        !import && words(line, name).any(|at| line[at + name.len()..].starts_with("::"))
    })
}

/// The names of the rows of an axis, with the line each is on, counted from 0.
pub fn rows_at(docs: &str, axis: &str) -> Vec<(usize, String)> {
    let start = format!("| {axis} | `");
    let mut inside = false;
    let mut found = Vec::new();
    for (i, line) in docs.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            inside = heading.to_lowercase().starts_with(axis);
        }
        let in_section = line.strip_prefix("| `").filter(|_| inside);
        let row = line.strip_prefix(&start).or(in_section);
        found.extend(row.and_then(|row| row.split('`').next()).map(|name| (i, name.to_owned())));
    }
    found
}

fn rows(docs: &str, axis: &str) -> Vec<String> {
    rows_at(docs, axis).into_iter().map(|(_, name)| name).collect()
}
