//! The licence and the origin of every dependency, against the lists in `deny.toml`.
//!
//! 1. `cargo tree` prints each package with its licence expression.
//! 2. An expression passes when one alternative of an `OR` has only allowed licences.
//! 3. `Cargo.lock` names the origin of each package: this workspace, or one registry for all.
//!
//! `cargo deny check` says the same and more where it is installed; this needs nothing installed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Checks all dependencies.
pub fn run(root: &Path) -> Result<String, String> {
    let read = |name: &str| {
        std::fs::read_to_string(root.join(name)).map_err(|e| format!("cannot read {name}: {e}"))
    };
    let allowed = allowed(&read("deny.toml")?);
    if allowed.is_empty() {
        return Err("deny.toml: no licence under `allow = [`".to_owned());
    }
    let out = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["tree", "--workspace", "--locked", "--all-features", "--target", "all"])
        .args(["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}\t{l}"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run cargo tree: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&out.stderr)));
    }
    let packages = String::from_utf8_lossy(&out.stdout);
    let mut faults = bad_licences(&packages, &allowed);
    let locks =
        ["Cargo.lock", "bindings/Cargo.lock", "integrations/Cargo.lock", "peers/Cargo.lock"];
    for lock in locks {
        faults.extend(bad_origins(&read(lock)?));
    }
    if faults.is_empty() {
        let count = packages.lines().map(package).collect::<BTreeSet<_>>().len();
        Ok(format!("licences: ok ({count} packages)"))
    } else {
        Err(faults.into_iter().collect::<Vec<_>>().join("\n"))
    }
}

/// The strings of the list `allow` under `[licenses]`.
fn allowed(deny: &str) -> BTreeSet<String> {
    let Some((_, rest)) = deny.split_once("[licenses]") else { return BTreeSet::new() };
    let Some((_, rest)) = rest.split_once("allow = [") else { return BTreeSet::new() };
    let list = rest.split(']').next().unwrap_or("");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// `name v1.2.3` of a line of `cargo tree`.
fn package(line: &str) -> String {
    let name = line.split('\t').next().unwrap_or(line);
    name.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn bad_licences(tree: &str, allowed: &BTreeSet<String>) -> BTreeSet<String> {
    let mut faults = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let licence = line.split('\t').nth(1).unwrap_or("").trim_end_matches("(*)").trim();
        if !passes(licence, allowed) {
            let named = if licence.is_empty() { "no licence" } else { licence };
            faults.insert(format!(
                "licences: {}: {named} is not allowed by deny.toml",
                package(line)
            ));
        }
    }
    faults
}

/// Whether one alternative is allowed. `A/B` is the old form of `A OR B`. Parentheses group
/// alternatives inside an `AND`, so an `AND` passes when each of its parts does.
fn passes(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    if let Some(parts) = split_outside(expression, " AND ") {
        return parts.iter().all(|part| passes(part, allowed));
    }
    if let Some(parts) = split_outside(expression, " OR ") {
        return parts.iter().any(|part| passes(part, allowed));
    }
    if let Some(inner) = expression.strip_prefix('(').and_then(|e| e.strip_suffix(')')) {
        return passes(inner, allowed);
    }
    expression.split('/').any(|licence| allowed.contains(licence.trim()))
}

/// Splits at `word` outside parentheses; none when it does not occur there.
fn split_outside<'a>(text: &'a str, word: &str) -> Option<Vec<&'a str>> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= start && text[at..].starts_with(word) => {
                parts.push(&text[start..at]);
                start = at + word.len();
            }
            _ => {}
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.push(&text[start..]);
    Some(parts)
}

fn bad_origins(lock: &str) -> BTreeSet<String> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let origins: BTreeSet<&str> = sources.map(|origin| origin.trim_matches('"')).collect();
    let registry = origins.iter().find(|origin| origin.starts_with("registry+https://"));
    let foreign = origins.iter().filter(|origin| Some(*origin) != registry);
    foreign.map(|s| format!("licences: Cargo.lock: origin {s} is not allowed")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> BTreeSet<String> {
        allowed("[licenses]\nallow = [\n  \"MIT\", # short\n  \"Apache-2.0\",\n]\n[bans]\n")
    }

    #[test]
    fn expressions() {
        for good in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(MIT OR X) AND Apache-2.0"] {
            assert!(passes(good, &some()), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR X) AND MIT", ""] {
            assert!(!passes(bad, &some()), "{bad}");
        }
    }

    #[test]
    fn names_the_package_at_fault() {
        let faults = bad_licences("a v1.0.0\tMIT\nb v2.0.0\tGPL-3.0 (*)\nc v3.0.0\t\n", &some());
        assert_eq!(faults.len(), 2);
        assert!(faults.iter().any(|f| f.contains("b v2.0.0: GPL-3.0 is not")));
        assert!(faults.iter().any(|f| f.contains("c v3.0.0: no licence")));
    }

    #[test]
    fn origins() {
        let good = "source = \"registry+https://example.com/index\"\n";
        assert!(bad_origins(&good.repeat(2)).is_empty());
        let second = format!("{good}source = \"registry+https://example.org/index\"\n");
        assert_eq!(bad_origins(&second).len(), 1);
        assert_eq!(bad_origins("source = \"git+https://example.com/x\"\n").len(), 1);
    }
}
