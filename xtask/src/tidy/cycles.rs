//! Import cycles among the files of a crate.
//!
//! 1. Each file of `crates/*/src` that is no test is a module; `lib.rs` and `main.rs`, which name
//!    everything, are left out.
//! 2. An arrow goes from a file to the one in which a path that it names lies: paths from `crate`,
//!    `super` and `self`, and those that begin with a module of its own. What `mod.rs` only hands
//!    on (`pub use`) is none of its imports.
//! 3. Files that reach each other in a circle may be at most [`CYCLE_MAX`]: more of them
//!    are one room, whatever their folders say.

use super::source::Source;
use super::{Tree, Violation};
use std::collections::{BTreeMap, BTreeSet};

/// The most files that may import each other in a circle.
const CYCLE_MAX: usize = 3;

/// A module's path within its crate.
pub type Path = Vec<String>;

/// Checks every crate.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let crates: BTreeSet<&str> = tree.rust().filter_map(|(path, _)| crate_of(path)).collect();
    let mut found = Vec::new();
    for name in crates {
        for circle in circles(&arrows(tree, name)) {
            if circle.len() > CYCLE_MAX {
                let what =
                    format!("{} files import each other: {}", circle.len(), circle.join(", "));
                found.push(Violation::new(&circle[0], 0, "cycle", what));
            }
        }
    }
    found
}

/// `crates/x/src/` of a file in it.
fn crate_of(path: &str) -> Option<&str> {
    let at = path.find("/src/")?;
    path.starts_with("crates/").then(|| &path[..at + 5])
}

/// The files of the crate with this root that each file imports.
fn arrows(tree: &Tree, root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let modules = modules(tree, root);
    let arrow = |(file, named): (&str, Vec<Path>)| {
        let to = named.iter().filter_map(|path| holder(&modules, path));
        (file.to_owned(), to.filter(|other| other != file).collect())
    };
    imports(tree, root).into_iter().map(arrow).collect()
}

/// Each file of the crate with this root, and the paths that it names, from the crate's root on.
pub fn imports<'a>(tree: &'a Tree, root: &str) -> Vec<(&'a str, Vec<Path>)> {
    let modules = modules(tree, root);
    let import = |(path, source): (&'a str, &Source)| {
        let me = module(&path[root.len()..]);
        let code: Vec<&str> = source.product_lines().map(|(_, line)| line).collect();
        let named = paths(&code.join("\n"), path.ends_with("/mod.rs")).into_iter();
        (path, named.filter_map(|named| absolute(&me, named, &modules)).collect())
    };
    files(tree, root).map(import).collect()
}

fn files<'a>(tree: &'a Tree, root: &str) -> impl Iterator<Item = (&'a str, &'a Source)> {
    tree.rust().filter(move |(path, source)| {
        let own = path.strip_prefix(root).is_some_and(|file| file != "lib.rs" && file != "main.rs");
        own && !source.test.iter().all(|test| *test)
    })
}

fn modules<'a>(tree: &'a Tree, root: &str) -> BTreeMap<Path, &'a str> {
    files(tree, root).map(|(path, _)| (module(&path[root.len()..]), path)).collect()
}

fn module(file: &str) -> Path {
    let mut parts: Path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// The file of the longest part of a path that is a module.
fn holder(modules: &BTreeMap<Path, &str>, path: &[String]) -> Option<String> {
    let parts = (1..=path.len()).rev().find_map(|len| modules.get(&path[..len]));
    parts.map(|file| (*file).to_owned())
}

/// A path from the crate's root; none when it begins outside of the crate.
fn absolute(me: &[String], named: Path, modules: &BTreeMap<Path, &str>) -> Option<Path> {
    let first = named.first()?.as_str();
    match first {
        "crate" => Some(named[1..].to_vec()),
        "super" | "self" => {
            let up = named.iter().take_while(|part| *part == "super").count();
            let skip = named.iter().take_while(|part| *part == "super" || *part == "self").count();
            let base = me.get(..me.len().checked_sub(up)?)?;
            Some(base.iter().chain(&named[skip..]).cloned().collect())
        }
        _ => {
            let own: Path = me.iter().chain([&named[0]]).cloned().collect();
            modules.contains_key(&own).then(|| me.iter().chain(&named).cloned().collect())
        }
    }
}

/// The paths of a file's code: those of its `use` items, and those that begin with `crate` or
/// `super` anywhere.
fn paths(code: &str, hands_on: bool) -> Vec<Path> {
    let mut found = Vec::new();
    let mut rest = String::with_capacity(code.len());
    for item in code.split_inclusive(';') {
        let Some(at) = super::source::words(item, "use").last() else {
            rest.push_str(item);
            continue;
        };
        let is_public = item[..at].trim_end().ends_with(['b', ')']) && item[..at].contains("pub");
        if !(hands_on && is_public) {
            spread(&mut Path::new(), item[at + 3..].trim_end_matches(';'), &mut found);
        }
        rest.push_str(&item[..at]);
    }
    for start in ["crate::", "super::"] {
        for (at, _) in rest.match_indices(start) {
            let end = rest[at..].find(|c: char| !super::source::is_word(c) && c != ':');
            let path = &rest[at..end.map_or(rest.len(), |end| at + end)];
            found.push(
                path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            );
        }
    }
    found
}

/// The paths of a tree of imports: `a::{b, c::{d, e}}`.
fn spread(before: &mut Path, tree: &str, found: &mut Vec<Path>) {
    let tree = tree.trim();
    let head = &tree[..tree.find('{').unwrap_or(tree.len())];
    let head = head.split(" as ").next().unwrap_or(head);
    let parts = head.split("::").map(str::trim).filter(|part| !part.is_empty());
    let depth = before.len();
    before.extend(parts.map(str::to_owned));
    match tree.find('{') {
        None => found.push(before.clone()),
        Some(open) => {
            let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
            let (mut level, mut from) = (0, 0);
            for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
                match c {
                    '{' => level += 1,
                    '}' => level -= 1,
                    ',' if level == 0 => {
                        if !inside[from..at].trim().is_empty() {
                            spread(before, &inside[from..at], found);
                        }
                        from = at + 1;
                    }
                    _ => {}
                }
            }
        }
    }
    before.truncate(depth);
}

/// The files that reach each other, each circle in order of names.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let mut left: BTreeSet<&String> = arrows.keys().collect();
    let mut found = Vec::new();
    while let Some(file) = left.pop_first() {
        let there = reached(arrows, file);
        // Whoever reaches back is in the circle.
        let back = |other: &&String| reached(arrows, other).contains(file);
        let circle: Vec<String> = there.iter().copied().filter(back).cloned().collect();
        circle.iter().for_each(|member| _ = left.remove(member));
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

/// The files that a file reaches by imports; itself too, if it is in a circle.
fn reached<'a>(arrows: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        for next in arrows.get(file).into_iter().flatten() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}
