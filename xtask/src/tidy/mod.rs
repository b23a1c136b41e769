//! The house rules, as checks over the text of the tree. Each says file, line, rule and what to do.
//!
//! 1. Read every text file of the workspace once into a [`Tree`].
//! 2. Each check of [`CHECKS`] returns the violations it sees.
//! 3. `xtask/tidy-exceptions.txt` excuses some, by rule and path with a reason; an exception that
//!    excuses nothing is a violation itself, so the list only shrinks.
//!
//! A check is a pure function of a [`Tree`], so tests plant a violation in a made-up tree and see
//! it found: `tests.rs` fails when a rule has no planted violation.

mod calls;
mod cycles;
mod layers;
mod map;
mod mechanisms;
mod places;
pub mod source;
mod style;
#[cfg(test)]
mod tests;

pub use layers::AXES;
pub use mechanisms::{DOCS, rows_at, testdata, trait_of};
use source::Source;
use std::collections::BTreeMap;
use std::path::Path;
pub use style::LINE_CHARS;

/// The name of the exceptions file.
pub const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// All checks.
pub const CHECKS: &[fn(&Tree) -> Vec<Violation>] = &[
    style::check,
    calls::check,
    layers::check,
    cycles::check,
    mechanisms::check,
    map::check,
    places::check,
];

/// A rule broken somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// The violation and its remedy.
    pub what: String,
}

impl Violation {
    /// A violation on a line.
    pub fn new(path: &str, line: usize, rule: &'static str, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, what: what.into() }
    }
}

/// The workspace as text.
pub struct Tree {
    files: BTreeMap<String, String>,
    rust: BTreeMap<String, Source>,
}

impl Tree {
    /// A tree of these files.
    pub fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let files: BTreeMap<String, String> = files.into_iter().collect();
        let rust = files.iter().filter(|(path, _)| path.ends_with(".rs"));
        let rust = rust.map(|(path, text)| (path.clone(), Source::new(path, text))).collect();
        Self { files, rust }
    }

    /// The workspace on disk, without what is built or ignored.
    pub fn load(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder);
            let entries = entries.map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
            for entry in entries.flatten() {
                let path = entry.path();
                let name = entry.file_name().to_string_lossy().into_owned();
                // In a linked working copy `.git` is a file.
                if ["target", ".git"].contains(&name.as_str()) {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else if let (Ok(text), Ok(relative)) =
                    (std::fs::read_to_string(&path), path.strip_prefix(root))
                {
                    files.push((relative.to_string_lossy().into_owned(), text));
                }
            }
        }
        Ok(Self::new(files))
    }

    /// The text of a file, empty when there is none.
    pub fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// Whether there is such a file.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust files.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.rust.iter().map(|(path, source)| (path.as_str(), source))
    }

    /// The Rust file of this path.
    pub fn source(&self, path: &str) -> Option<&Source> {
        self.rust.get(path)
    }
}

/// The violations that all checks find in a tree, except those that `EXCEPTIONS` excuses. A bad
/// line of `EXCEPTIONS` is a violation, too.
pub fn violations(tree: &Tree) -> Vec<Violation> {
    let mut found: Vec<Violation> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    for (i, line) in tree.text(EXCEPTIONS).lines().enumerate() {
        let (entry, reason) = line.split_once('#').unwrap_or((line, ""));
        let words: Vec<&str> = entry.split_whitespace().collect();
        let before = found.len();
        let fault = match words.as_slice() {
            [] => continue,
            [_, _] if reason.trim().is_empty() => "give a reason after #",
            [rule, path] => {
                found.retain(|v| v.rule != *rule || v.path != *path);
                if found.len() < before { continue } else { "excuses nothing: remove it" }
            }
            _ => "write: RULE PATH  # reason",
        };
        found.push(Violation::new(EXCEPTIONS, i + 1, "exceptions", fault));
    }
    found.sort();
    found
}

/// Checks the workspace.
pub fn run(root: &Path) -> Result<String, String> {
    let tree = Tree::load(root)?;
    let found = violations(&tree);
    if found.is_empty() {
        return Ok(format!("tidy: ok ({} files)", tree.files.len()));
    }
    let lines = found.iter().map(|v| match v.line {
        0 => format!("{}: {}: {}", v.path, v.rule, v.what),
        line => format!("{}:{line}: {}: {}", v.path, v.rule, v.what),
    });
    let mut report: Vec<String> = lines.collect();
    report.push(format!("tidy: {} violations", found.len()));
    Err(report.join("\n"))
}
