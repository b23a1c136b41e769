//! `ARCHITECTURE.md` names every top-level module of every crate, and none that is gone.
//!
//! A module is a file `crates/<crate>/src/<name>.rs` or a folder `crates/<crate>/src/<name>/`; the
//! map names it as `` `<crate>/<name>` `` (a folder with a trailing slash or without).

use super::{Tree, Violation};
use std::collections::BTreeSet;

const MAP: &str = "ARCHITECTURE.md";

/// Checks the map.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let modules = modules(tree);
    let named = named(tree.text(MAP), tree);
    let missing = modules.difference(&named).map(|module| {
        Violation::new(MAP, 0, "map", format!("name `{module}` and say what it is for"))
    });
    let gone = named
        .difference(&modules)
        .map(|module| Violation::new(MAP, 0, "map", format!("`{module}` is not in the tree")));
    missing.chain(gone).collect()
}

fn modules(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, _) in tree.rust() {
        let Some((name, inside)) = path.strip_prefix("crates/").and_then(|p| p.split_once("/src/"))
        else {
            continue;
        };
        let module = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
        if !["lib", "main", "tests"].contains(&module) {
            found.insert(format!("{name}/{module}"));
        }
    }
    found
}

/// Names in the map of the form `` `crate/module` `` where `crate` is a crate of the workspace.
fn named(map: &str, tree: &Tree) -> BTreeSet<String> {
    let quoted = map.split('`').skip(1).step_by(2);
    let names = quoted.filter_map(|name| {
        let (krate, module) = name.trim_end_matches('/').split_once('/')?;
        let known = tree.has(&format!("crates/{krate}/Cargo.toml"));
        let module = module.split('/').next().unwrap_or(module).trim_end_matches(".rs");
        (known && !module.is_empty() && module != "src").then(|| format!("{krate}/{module}"))
    });
    names.collect()
}
