//! docs/moving.md names only items of ours that exist: each name in the tables' second column is
//! declared somewhere in the source.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use std::collections::BTreeSet;
use std::path::Path;

/// Names of the standard library, and of values.
const NOT_OURS: [&str; 8] =
    ["Duration", "ZERO", "is_ok", "rev", "next", "next_back", "tempfile", "zstd"];

fn read(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Everything that the source declares: items, fields, variants, and the names of mechanisms.
fn declared(source: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for line in source.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        for keyword in ["fn ", "struct ", "enum ", "trait ", "type ", "const "] {
            names.extend(line.split(keyword).skip(1).filter_map(|after| words(after).next()));
        }
        let field = line.strip_prefix("pub ").unwrap_or(line);
        let name = words(field).next().unwrap_or_default();
        let after = field.strip_prefix(name).unwrap_or_default();
        if after.starts_with([':', ',', '(']) || after.starts_with(" {") {
            names.insert(name);
        }
        names.extend(line.split('"').skip(1).step_by(2));
    }
    names
}

#[test]
fn every_name_of_ours_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut source = String::new();
    for of in ["vlsm", "core", "policy"] {
        read(&root.join("crates").join(of).join("src"), &mut source);
    }
    let declared = declared(&source);
    let page = std::fs::read_to_string(root.join("docs/moving.md")).unwrap();
    let tables = &page[page.find("## From RocksDB").unwrap()..];
    let rows = tables.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let (mut checked, mut missing) = (0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        // The text between backticks, without parameters.
        for code in cells[1].split('`').skip(1).step_by(2) {
            for call in code.split('.').flat_map(|part| part.split("::")) {
                let name = words(call).next().unwrap_or_default();
                // A receiver or a range is not the name of an item.
                let receiver = ["db", "keyspace", "snapshot", "batch", "policy", "tree"];
                if name.len() < 3 || receiver.contains(&name) || NOT_OURS.contains(&name) {
                    continue;
                }
                checked += 1;
                if !declared.contains(name) {
                    missing.push(format!("{name} in {row}"));
                }
            }
        }
    }
    assert!(checked > 150, "the tables are read: {checked}");
    assert!(missing.is_empty(), "{missing:#?}");
}
