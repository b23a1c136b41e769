//! Lengths of files, functions, lines and inline tests, and the essay at the top of each Rust file.
//!
//! The numbers are the house's: a file that a person reads in one sitting, a function on one
//! screen.

use super::source::is_test_path;
use super::{Tree, Violation};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
/// Characters in a line.
pub const LINE_CHARS: usize = 100;
const INLINE_TEST_LINES: usize = 150;

/// Checks lengths and essays.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, source) in tree.rust() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES {
            let what = format!("{lines} lines, at most {FILE_LINES}: split it by meaning");
            found.push(Violation::new(path, 0, "file-length", what));
        }
        for function in source.functions() {
            let (name, lines) = (&function.name, function.lines());
            if lines > FUNCTION_LINES {
                let what = format!("{name}: {lines} lines, at most {FUNCTION_LINES}");
                found.push(Violation::new(path, function.first, "function-length", what));
            }
        }
        for (i, line) in source.text.lines().enumerate() {
            let chars = line.chars().count();
            if chars > LINE_CHARS {
                let what = format!("{chars} characters, at most {LINE_CHARS}");
                found.push(Violation::new(path, i + 1, "line-length", what));
            }
        }
        if !is_test_path(path) {
            let tests: usize = source.test_items().iter().map(super::source::Extent::lines).sum();
            if tests > INLINE_TEST_LINES {
                let what = format!("{tests} lines, at most {INLINE_TEST_LINES}: move to tests/");
                found.push(Violation::new(path, 0, "inline-tests", what));
            }
        }
        found.extend(essay(path, &source.text));
    }
    found
}

/// A file opens with `//!` lines: what it is for, the steps, invariants, source, threads and locks.
fn essay(path: &str, text: &str) -> Option<Violation> {
    let lines = text.lines().take_while(|line| line.starts_with("//!")).count();
    let least = if path.ends_with("/mod.rs") || is_test_path(path) { 1 } else { 2 };
    (lines < least).then(|| {
        let what =
            format!("opens with {lines} lines of `//!`, at least {least}: say what it is for");
        Violation::new(path, 1, "essay", what)
    })
}
