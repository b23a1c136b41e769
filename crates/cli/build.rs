//! Passes the commit that the program is built from to it, for its reports: with a + if files were
//! changed, and empty if git does not report it.

use std::process::Command;

fn main() {
    for path in ["../../.git/HEAD", "../../.git/index", "../../crates", "../../Cargo.toml"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = || git(&["status", "--porcelain", "--untracked-files=no"]);
    let commit = match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) if changed().is_some_and(|changes| changes.is_empty()) => commit,
        Some(commit) => commit + "+",
        None => String::new(),
    };
    println!("cargo:rustc-env=VLSM_COMMIT={commit}");
}
