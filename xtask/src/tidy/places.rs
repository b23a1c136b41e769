//! No file names a folder of somebody's machine or a host that is not a public home of something we
//! cite.
//!
//! A path from a home folder breaks on every other machine; a package mirror breaks every other
//! build. Hosts are an allow list, so a mirror of any name is seen.

use super::{Tree, Violation};

/// Folders of a machine. Split, so that this file passes.
const FOLDERS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Hosts that documents and manifests may name.
const HOSTS: &[&str] = &[
    "docs.rs",
    "doc.rust-lang.org",
    "www.rust-lang.org",
    "rustup.rs",
    "sh.rustup.rs",
    "keepachangelog.com",
    "semver.org",
    "www.apache.org",
    "opensource.org",
    "arxiv.org",
    "www.usenix.org",
    "doi.org",
    "www.w3.org",
    "example.com",
    "example.org",
];

/// Checks machine paths and hosts.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.files() {
        for (i, line) in text.lines().enumerate() {
            for folder in FOLDERS.iter().filter(|folder| names(line, folder)) {
                let what = format!("names a folder of one machine ({folder}…)");
                found.push(Violation::new(path, i + 1, "machine-path", what));
            }
            // Cargo writes its own lock file; `licences` checks the origins in it.
            let foreign = |host: &&str| !path.ends_with("Cargo.lock") && !HOSTS.contains(host);
            for host in hosts(line).filter(foreign) {
                let what = format!("host {host}: not in the list of xtask/src/tidy/places.rs");
                found.push(Violation::new(path, i + 1, "host", what));
            }
        }
        if path.ends_with(".cargo/config.toml")
            && let Some(i) = text.lines().position(|line| line.starts_with("[source"))
        {
            found.push(Violation::new(path, i + 1, "host", "no mirror in the committed settings"));
        }
    }
    found
}

/// Whether the line has the folder at the start of a path (not inside a longer one).
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}/".contains(c))
    })
}

/// The hosts of the URLs in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("http").filter_map(|(at, _)| {
        let rest = line[at + 4..].strip_prefix("s://").or(line[at + 4..].strip_prefix("://"))?;
        let host = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-').next();
        host.filter(|host| host.contains('.') || *host == "localhost")
    })
}
