//! Calls that have no place in the store's code, each with the files where they may stand.
//!
//! Clippy's lists (clippy.toml) cover the clock, threads and files; these are what clippy does not
//! see or what must hold in every crate. Comments, literals and tests are not searched, except for
//! `#[ignore]`: a test that does not run proves nothing.

use super::source::{is_word, words};
use super::{Tree, Violation};

struct Rule {
    name: &'static str,
    text: &'static str,
    /// Path prefixes where it is allowed.
    allowed: &'static [&'static str],
    instead: &'static str,
}

/// Programs, and a build script, whose lines cargo reads. Examples may print too.
const PRINTERS: &[&str] = &[
    "bindings/rocksdb/build-script/",
    "crates/cli/",
    "crates/lab/src/program/",
    "integrations/openraft/kv/",
    "xtask/",
    "peers/",
];
/// The memtable, maps of files, calls from other languages, and calls into stores in other
/// languages.
const UNSAFE: &[&str] = &[
    "bindings/c/src/",
    "bindings/handle/src/",
    "bindings/java/rust/",
    "bindings/rocksdb/src/",
    "crates/disk/src/fs/posix/map.rs",
    "crates/vlsm/src/memtable/block.rs",
    "crates/vlsm/src/memtable/skiplist.rs",
    "peers/src/stores/lmdb.rs",
    "peers/src/stores/wiredtiger.rs",
];

const RULES: &[Rule] = &[
    Rule { name: "print", text: "println!", allowed: PRINTERS, instead: "emit an event" },
    Rule { name: "print", text: "eprintln!", allowed: PRINTERS, instead: "emit an event" },
    Rule { name: "print", text: "print!", allowed: PRINTERS, instead: "emit an event" },
    Rule { name: "print", text: "eprint!", allowed: PRINTERS, instead: "emit an event" },
    Rule { name: "dbg", text: "dbg!", allowed: &[], instead: "remove it" },
    Rule {
        name: "unwrap",
        text: ".unwrap()",
        allowed: &[],
        instead: "return an error, or expect(\"why it cannot fail\")",
    },
    Rule { name: "todo", text: "todo!", allowed: &[], instead: "write it" },
    Rule { name: "todo", text: "unimplemented!", allowed: &[], instead: "write it" },
    Rule { name: "unsafe", text: "unsafe", allowed: UNSAFE, instead: "find a safe way" },
];

impl Rule {
    fn allows(&self, path: &str) -> bool {
        let example = path.contains("/examples/") && self.name == "print";
        example || self.allowed.iter().any(|prefix| path.starts_with(prefix))
    }
}

/// Checks forbidden calls.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, source) in tree.rust() {
        for rule in RULES.iter().filter(|rule| !rule.allows(path)) {
            let hits = source.product_lines().filter(|(_, line)| occurs(line, rule.text));
            found.extend(hits.map(|(number, _)| {
                Violation::new(path, number, rule.name, format!("{}: {}", rule.text, rule.instead))
            }));
        }
        for (i, line) in source.code.lines().enumerate() {
            if line.trim_start().starts_with("#[ignore") {
                let what = "a test runs or is removed; guard slow ones by an environment variable";
                found.push(Violation::new(path, i + 1, "ignore", what));
            }
        }
    }
    found
}

/// Whether `text` stands in the line by itself, not as the end of a longer name.
fn occurs(line: &str, text: &str) -> bool {
    if text.chars().all(is_word) {
        return words(line, text).next().is_some();
    }
    line.match_indices(text).any(|(at, _)| {
        text.starts_with('.') || !line[..at].chars().next_back().is_some_and(is_word)
    })
}
