//! Stamps what a new mechanism needs, so that the house rules hold from its first minute.
//!
//! 1. `crates/policy/src/AXIS/NAME.rs` from a template that compiles and does nothing yet.
//! 2. A `mod` line and a line at the end of `registry!` in `crates/policy/src/AXIS/mod.rs`.
//! 3. `crates/policy/testdata/AXIS/NAME.txt` and a row in `docs/mechanisms.md`.
//!
//! Everything is composed before anything is written, so a wrong name leaves the tree as it was.

use crate::tidy;
use std::path::Path;
use std::process::Command;

/// Stamps the mechanism `name` of `axis`.
pub fn run(root: &Path, axis: &str, name: &str) -> Result<String, String> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).map_err(|e| format!("cannot read {path}: {e}"))
    };
    if !tidy::AXES.contains(&axis) {
        return Err(format!("axis {axis:?}: one of {}", tidy::AXES.join(", ")));
    }
    let module = format!("crates/policy/src/{axis}/mod.rs");
    let file = format!("crates/policy/src/{axis}/{name}.rs");
    if root.join(&file).exists() {
        return Err(format!("{file} exists already"));
    }
    let changes = [
        (module.clone(), register(&read(&module)?, name)?),
        (tidy::DOCS.to_owned(), add_row(&read(tidy::DOCS)?, axis, name)?),
        (tidy::testdata(axis, name), testdata(name)),
        (file.clone(), template(axis, name)),
    ];
    for (path, text) in &changes {
        let target = root.join(path);
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {path}: {e}"))?;
        }
        std::fs::write(target, text).map_err(|e| format!("cannot write {path}: {e}"))?;
    }
    // Only for looks: CI checks the format.
    let _ = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .args([root.join("rustfmt.toml"), root.join(&module)])
        .status();
    let paths: Vec<&str> = changes.iter().map(|(path, _)| path.as_str()).collect();
    Ok(format!("stamped {name}: {}\nnow write {file}", paths.join(", ")))
}

/// The axis' `mod.rs` with the module declared and registered.
fn register(text: &str, name: &str) -> Result<String, String> {
    let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !valid {
        return Err(format!("name {name:?}: write it in snake_case"));
    }
    let text = insert_sorted(text, |l| l.starts_with("pub mod "), &format!("pub mod {name};"))
        .ok_or("no `pub mod` line to insert beside")?;
    let start = text.find("registry! {").ok_or("no `registry!`")?;
    let end = text[start..].find("\n}").ok_or("`registry!` has no end")? + start;
    Ok(format!("{}\n    {name} = {name}::{},{}", &text[..end], camel(name), &text[end..]))
}

/// The page with a row after the last one of the axis, of the same form.
fn add_row(text: &str, axis: &str, name: &str) -> Result<String, String> {
    let rows = tidy::rows_at(text, axis);
    let (at, last) = rows.last().ok_or_else(|| format!("{}: no row for {axis}", tidy::DOCS))?;
    let line = text.lines().nth(*at).unwrap_or_default();
    let (before, after) = line.split_once(&format!("`{last}`")).unwrap_or_default();
    let columns = after.matches(" | ").count();
    Ok(insert(text, at + 1, &format!("{before}`{name}` |{}", " – |".repeat(columns))))
}

/// Puts `line` among the lines that `like` picks, in order; none when it picks no line.
fn insert_sorted(text: &str, like: impl Fn(&str) -> bool, line: &str) -> Option<String> {
    let peers: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, l)| like(l)).collect();
    let (last, _) = *peers.last()?;
    let at = peers.iter().find(|(_, peer)| *peer > line).map_or(last + 1, |(i, _)| *i);
    Some(insert(text, at, line))
}

fn insert(text: &str, at: usize, line: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(at.min(lines.len()), line);
    lines.join("\n") + "\n"
}

fn testdata(name: &str) -> String {
    format!("# What {name} chooses: a tree as text, a command, the answer.\n")
}

fn template(axis: &str, name: &str) -> String {
    let text = match axis {
        "shape" => include_str!("../templates/shape.txt"),
        "schedule" => include_str!("../templates/schedule.txt"),
        _ => include_str!("../templates/admission.txt"),
    };
    text.replace("{Name}", &camel(name)).replace("{name}", name)
}

/// `my_way` as `MyWay`.
fn camel(name: &str) -> String {
    name.split('_').filter(|part| !part.is_empty()).map(tidy::trait_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_at_the_end() {
        let text = "pub mod b;\npub mod d;\n\nregistry! {\n    O of S:\n    b = b::B,\n}\n";
        let got = register(text, "c_way").expect("there is a registry");
        assert!(got.starts_with("pub mod b;\npub mod c_way;\npub mod d;\n"), "{got}");
        assert!(got.ends_with("    b = b::B,\n    c_way = c_way::CWay,\n}\n"), "{got}");
        assert!(register(text, "Big").is_err());
        assert!(register("", "c").is_err());
    }

    #[test]
    fn adds_a_row_to_the_table_of_the_axis() {
        let docs = "| axis | n | e |\n|---|---|---|\n| shape | `a` | x |\n| schedule | `s` | y |\n";
        let got = add_row(docs, "shape", "b").expect("there is a table");
        assert!(got.contains("| shape | `a` | x |\n| shape | `b` | – |\n| schedule"), "{got}");
        let sections = "## Shapes\n| n | e |\n|---|---|\n| `a` | x |\n\n## Schedules\n";
        let got = add_row(sections, "shape", "b").expect("there is a table");
        assert!(got.contains("| `a` | x |\n| `b` | – |\n\n## Schedules"), "{got}");
        assert!(add_row(docs, "admission", "b").is_err());
    }

    #[test]
    fn templates_name_the_mechanism() {
        for axis in tidy::AXES {
            let text = template(axis, "my_way");
            assert!(text.contains("struct MyWay") && text.contains("\"my_way\""), "{axis}");
            assert!(text.starts_with("//! `my_way`") && !text.contains("{N"), "{axis}");
        }
    }
}
