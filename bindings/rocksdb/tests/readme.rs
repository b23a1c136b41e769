//! The README's table of options and its counts match `options.txt` and `functions.txt`.
//! `README=write cargo test --test readme` writes them.
// Tests use the real file system and clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::Path;

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The rows of options that have an effect.
fn table() -> String {
    let mut table = String::from("| option | what becomes of it |\n|---|---|\n");
    let text = read("options.txt");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [option, _, status, note] = cells[..] else { panic!("{line}") };
        match status {
            "mapped" => table.push_str(&format!("| `{option}` | {note} |\n")),
            "refused" => table.push_str(&format!("| `{option}` | refused: {note} |\n")),
            other => assert_eq!(other, "harmless", "{line}"),
        }
    }
    table
}

/// The number of functions in each section.
fn counts() -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::from([("written", 0), ("options", 0), ("none", 0)]);
    let text = read("functions.txt");
    let mut section = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[') {
            Some(head) => section = head.split(']').next().unwrap(),
            None => *counts.get_mut(section).unwrap() += 1,
        }
    }
    counts
}

#[test]
fn the_readme_has_the_options_and_the_counts() {
    let readme = read("README.md");
    let (head, rest) = readme.split_once("<!-- options -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end -->").unwrap();
    let counts = counts();
    let sentence = format!(
        "`functions.txt` lists all functions: {} are written, {} set, tell, make or free options, \
         and {} have no counterpart.",
        counts["written"], counts["options"], counts["none"]
    );
    let begin = head.find("`functions.txt` lists all functions:").unwrap();
    let end = begin + head[begin..].find("counterpart.").unwrap() + "counterpart.".len();
    let head = format!("{}{sentence}{}", &head[..begin], &head[end..]);
    let wanted = format!("{head}<!-- options -->\n{}<!-- end -->{tail}", table());
    if std::env::var("README").is_ok_and(|value| value == "write") {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"), wanted).unwrap();
        return;
    }
    assert_eq!(readme, wanted, "README=write cargo test --test readme writes it");
}
